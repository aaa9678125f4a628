package toehold.examples;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.jsoup.Jsoup;
import org.jsoup.nodes.Document;
import org.jsoup.nodes.Element;
import toehold.frontier.v1.Candidate;
import toehold.frontier.v1.FetchPolicy;
import toehold.frontier.v1.Lease;

/** The links of an answer. References stay as they are written: the frontier resolves and judges them. */
final class Links {
    private Links() {}

    /** Elements whose attribute refers to another page (hop L), or to a part of the page (hop E). */
    private record Rule(String elements, String attribute, String hop) {}

    private static final List<Rule> RULES = List.of(
        new Rule("a[href], area[href], link[rel~=(?i)canonical|alternate|next|prev][href]", "href", "L"),
        new Rule("link[rel~=(?i)stylesheet|icon][href]", "href", "E"),
        new Rule("img[src], script[src], iframe[src], frame[src], embed[src]", "src", "E"),
        new Rule("source[src], audio[src], video[src]", "src", "E"),
        new Rule("img[srcset], source[srcset]", "srcset", "E"));

    /** References to http(s) URIs that are not too long: no `mailto:` and the like. */
    private static final Pattern USEFUL =
        Pattern.compile("(?is)(?=.{1,8192}\\z)(?:https?:|(?![a-z][a-z0-9+.-]*:)).*");

    private static final Pattern NOFOLLOW = Pattern.compile("(?i)\\b(nofollow|none)\\b");

    /** The candidates of an answer to a lease: a redirect's target, or the links of a page, each once. */
    static List<Candidate> of(Lease lease, FetchPolicy policy, Answer answer) {
        if (answer.isRedirect()) {
            return candidates(lease, lease.getUri(), Map.of(answer.header("Location"), "R"), 1).stream()
                .map(target -> target.toBuilder().setRedirects(lease.getRedirects()).build()).toList();
        }
        byte[] body = answer.isHtml() ? answer.decoded() : null;
        if (body == null) {
            return List.of();
        }
        Document page = parse(body, answer.charset(), lease.getUri());
        String base = page.select("base[href]").stream().limit(1).map(element -> element.absUrl("href"))
            .filter(uri -> !uri.isEmpty()).findFirst().orElse(lease.getUri());
        boolean nofollow = policy.getExtract().getObeyRobotsMeta() && saysNofollow(page, answer, policy);
        Map<String, String> hops = new LinkedHashMap<>(); // by reference
        for (Rule rule : RULES) {
            if (nofollow && rule.hop.equals("L")) {
                continue;
            }
            for (Element element : page.select(rule.elements)) {
                String value = element.attr(rule.attribute);
                if (!rule.attribute.equals("srcset")) {
                    hops.putIfAbsent(value.startsWith("#") ? base : value.strip(), rule.hop);
                    continue;
                }
                for (String picture : value.split(",")) { // `small.png 1x, large.png 2x`
                    hops.putIfAbsent(picture.strip().split("\\s")[0], rule.hop);
                }
            }
        }
        return candidates(lease, base, hops, policy.getExtract().getMaxLinks());
    }

    private static List<Candidate> candidates(Lease lease, String base, Map<String, String> hops, int max) {
        return hops.entrySet().stream().filter(link -> USEFUL.matcher(link.getKey()).matches()).limit(max)
            .map(link -> Candidate.newBuilder()
                .setUri(link.getKey()).setBase(base).setVia(lease.getUri())
                .setPath(lease.getPath() + link.getValue()).setSource(lease.getSource()).build())
            .toList();
    }

    private static boolean saysNofollow(Document page, Answer answer, FetchPolicy policy) {
        return NOFOLLOW.matcher(answer.header("X-Robots-Tag")).find()
            || page.select("meta[name~=(?i)^(robots|" + policy.getProductToken() + ")$]").stream()
                .anyMatch(meta -> NOFOLLOW.matcher(meta.attr("content")).find());
    }

    private static Document parse(byte[] body, String charset, String uri) {
        try {
            return Jsoup.parse(new ByteArrayInputStream(body), charset, uri);
        } catch (IOException error) {
            throw new UncheckedIOException(error); // memory has no such errors
        }
    }
}
