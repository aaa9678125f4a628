package toehold.examples;

import static java.time.format.DateTimeFormatter.RFC_1123_DATE_TIME;

import com.google.common.io.BaseEncoding;
import com.google.protobuf.util.Durations;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.util.Locale;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.GZIPInputStream;
import org.apache.hc.core5.http.ClassicHttpResponse;
import org.apache.hc.core5.http.Header;
import org.apache.hc.core5.http.HttpEntity;
import org.apache.hc.core5.http.MalformedChunkCodingException;
import toehold.frontier.v1.FetchPolicy;
import toehold.frontier.v1.Lease;
import toehold.frontier.v1.Report;
import toehold.frontier.v1.Truncation;

/** The answer to a request, as much of it as came. */
final class Answer {
    /** How much of a body is kept to look for links, and how much a coding may make of it. */
    private static final int MAX_KEPT_BYTES = 8 * 1024 * 1024;

    private static final Set<Integer> REDIRECTS = Set.of(301, 302, 303, 307, 308);
    private static final Set<String> HTML = Set.of("text/html", "application/xhtml+xml");
    private static final Pattern MEDIA_TYPE = Pattern.compile("[\\w!#$&^.+-]{1,60}/[\\w!#$&^.+-]{1,100}");
    private static final Pattern CHARSET = Pattern.compile("(?i)charset=[\"']?([a-z0-9.:_-]{1,40})");

    final int status;
    private final ClassicHttpResponse response;
    private final ByteArrayOutputStream kept = new ByteArrayOutputStream();
    private long bodyBytes;
    private String digest = "";
    private Truncation truncation = Truncation.TRUNCATION_UNSPECIFIED;

    Answer(ClassicHttpResponse response) {
        this.response = response;
        status = response.getCode();
    }

    /** Reads the body. If it breaks off, the answer keeps its status, and `truncation` says why. */
    void read(Fetch fetch) throws IOException {
        HttpEntity entity = response.getEntity();
        if (entity != null && !fetch.isRobots() && !isWanted(fetch.policy, entity.getContentLength())) {
            truncation = Truncation.TRUNCATION_FILTER;
            return;
        }
        long maxBytes = fetch.isRobots() ? Web.MAX_ROBOTS_BYTES : fetch.policy.getMaxBytes();
        long bytesPerSecond = fetch.policy.getMaxBytesPerSecond();
        long start = System.nanoTime();
        MessageDigest sha1 = sha1();
        try {
            InputStream content = entity == null ? InputStream.nullInputStream() : entity.getContent();
            byte[] piece = new byte[16 * 1024];
            for (int size; (size = content.read(piece)) >= 0; ) {
                int taken = (int) Math.min(size, maxBytes - bodyBytes);
                sha1.update(piece, 0, taken);
                kept.write(piece, 0, Math.min(taken, MAX_KEPT_BYTES - kept.size()));
                bodyBytes += taken;
                if (taken < size) {
                    truncation = Truncation.TRUNCATION_LENGTH;
                    break;
                }
                while (bytesPerSecond > 0 && !fetch.isBrokenOff()
                        && bodyBytes > bytesPerSecond * (System.nanoTime() - start) / 1e9) {
                    Fetcher.sleep(20);
                }
            }
        } catch (IOException error) {
            boolean unreadable = bodyBytes == 0 && error.getClass() == MalformedChunkCodingException.class;
            if (fetch.isExpired()) {
                truncation = Truncation.TRUNCATION_TIME;
            } else if (fetch.isBrokenOff() || unreadable) {
                throw error;
            } else if (error instanceof SocketTimeoutException) { // silence
                truncation = Truncation.TRUNCATION_TIME;
            } else {
                truncation = Truncation.TRUNCATION_DISCONNECT;
            }
        }
        digest = "sha1:" + BaseEncoding.base32().encode(sha1.digest());
    }

    /** Puts the answer into a report. */
    void describe(Lease lease, Report.Builder report) {
        boolean unchanged = status == 304 && !lease.getLastDigest().isEmpty();
        report.setFetchStatus(status).setMediaType(mediaType())
            .setBodyBytes(bodyBytes).setTruncation(truncation)
            .setDigest(unchanged ? lease.getLastDigest() : digest);
        if (truncation == Truncation.TRUNCATION_UNSPECIFIED || truncation == Truncation.TRUNCATION_LENGTH) {
            // Without validators the next visit gets the whole page.
            report.setEtag(header("ETag")).setLastModified(header("Last-Modified"));
        }
        String wait = header("Retry-After");
        try {
            long waitS = wait.matches("[0-9]{1,8}") ? Long.parseLong(wait)
                : Duration.between(Instant.now(), ZonedDateTime.parse(wait, RFC_1123_DATE_TIME)).toSeconds();
            report.setRetryAfterDuration(Durations.fromSeconds(Math.max(0, waitS)));
        } catch (DateTimeException none) {
            report.clearRetryAfterDuration(); // no such header, or neither seconds nor a date
        }
    }

    Truncation truncation() {
        return truncation;
    }

    boolean isRedirect() {
        return REDIRECTS.contains(status) && !header("Location").isEmpty();
    }

    boolean isHtml() {
        return HTML.contains(mediaType());
    }

    /** The charset that the header names; null without one, which lets jsoup look into the page. */
    String charset() {
        Matcher found = CHARSET.matcher(header("Content-Type"));
        return found.find() && Charset.isSupported(found.group(1)) ? found.group(1) : null;
    }

    private String mediaType() {
        Matcher found = MEDIA_TYPE.matcher(header("Content-Type"));
        return found.lookingAt() ? found.group().toLowerCase(Locale.ROOT) : "";
    }

    /** A header's value, empty without one. HttpClient takes bytes for Latin-1, though most are UTF-8. */
    String header(String name) {
        Header found = response.getFirstHeader(name);
        String value = found == null || found.getValue() == null ? "" : found.getValue().strip();
        try {
            ByteBuffer bytes = ByteBuffer.wrap(value.getBytes(StandardCharsets.ISO_8859_1));
            return StandardCharsets.UTF_8.newDecoder().decode(bytes).toString();
        } catch (CharacterCodingException notUtf8) {
            return value;
        }
    }

    /** The body without its coding; null if the coding can't be undone. */
    byte[] decoded() {
        String coding = header("Content-Encoding").toLowerCase(Locale.ROOT);
        if (coding.isEmpty() || coding.equals("identity")) {
            return kept.toByteArray();
        }
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        try (InputStream content = new GZIPInputStream(new ByteArrayInputStream(kept.toByteArray()))) {
            byte[] piece = new byte[16 * 1024];
            for (int size; plain.size() < MAX_KEPT_BYTES && (size = content.read(piece)) >= 0; ) {
                plain.write(piece, 0, size);
            }
        } catch (IOException error) { // of a body that broke off, the first part counts
            return plain.size() > 0 ? plain.toByteArray() : null;
        }
        return plain.toByteArray();
    }

    /** Whether the crawl wants the body of this answer. */
    private boolean isWanted(FetchPolicy policy, long length) {
        String type = mediaType().isEmpty() ? "application/octet-stream" : mediaType();
        Predicate<String> covers = pattern -> pattern.endsWith("/*")
            ? type.startsWith(pattern.substring(0, pattern.length() - 1)) : type.equals(pattern);
        return (policy.getMaxContentLength() == 0 || length <= policy.getMaxContentLength())
            && policy.getRejectMediaTypesList().stream().noneMatch(covers)
            && (policy.getAcceptMediaTypesCount() == 0
                || policy.getAcceptMediaTypesList().stream().anyMatch(covers));
    }

    private static MessageDigest sha1() {
        try {
            return MessageDigest.getInstance("SHA-1");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible); // every JVM has it
        }
    }
}
