package toehold.examples;

import com.google.common.net.InetAddresses;
import java.math.BigInteger;
import java.net.IDN;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.hc.client5.http.DnsResolver;

/**
 * Resolves names to the addresses that a crawl allows (FetchPolicy.allowed_addresses). HttpClient connects to
 * these very addresses, so a name gains nothing by resolving differently the next time. Hosts that are
 * written as addresses come here as well.
 */
record AllowedAddresses(List<String> allowed) implements DnsResolver {
    private static final Map<String, List<String>> SETS =
        Map.of("loopback", List.of("127.0.0.0/8", "::1"), "public", List.of("0.0.0.0/0", "2000::/3"));

    /** Networks for special purposes (IANA's registries), and the metadata services of clouds. */
    private static final List<String> NOT_PUBLIC = List.of(
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        "2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20");

    /** The crawl allows none of a host's addresses. A DnsResolver may throw no other kind of error. */
    static final class Refused extends UnknownHostException {
        Refused(String message) {
            super(message);
        }
    }

    @Override
    public List<InetSocketAddress> resolve(String host, int port) throws UnknownHostException {
        return allowed(host).map(address -> new InetSocketAddress(address, port)).toList();
    }

    @Override
    public InetAddress[] resolve(String host) throws UnknownHostException {
        return allowed(host).toArray(InetAddress[]::new);
    }

    @Override
    public String resolveCanonicalHostname(String host) {
        return host;
    }

    /** The name as DNS has it. For `xn--bcher-kva.example` HttpClient asks for `bücher.example`. */
    private static String ascii(String host) throws UnknownHostException {
        try {
            return IDN.toASCII(host);
        } catch (IllegalArgumentException error) {
            throw new UnknownHostException(host + ": " + error.getMessage());
        }
    }

    private Stream<InetAddress> allowed(String host) throws UnknownHostException {
        InetAddress[] found = InetAddress.getAllByName(ascii(host));
        List<InetAddress> usable = Arrays.stream(found).filter(this::allows).toList();
        if (usable.isEmpty()) {
            throw new Refused("the crawl allows no address of " + host);
        }
        return usable.stream();
    }

    private boolean allows(InetAddress address) {
        Predicate<String> holds = network -> contains(network, address);
        return allowed.stream().flatMap(each -> SETS.getOrDefault(each, List.of(each)).stream())
                .anyMatch(holds)
            && !(allowed.contains("public") && NOT_PUBLIC.stream().anyMatch(holds));
    }

    /** Whether a network such as `10.1.0.0/16`, or a single address, contains an address. */
    private static boolean contains(String network, InetAddress address) {
        String[] parts = network.split("/");
        byte[] prefix = InetAddresses.forString(parts[0]).getAddress();
        byte[] bytes = address.getAddress();
        int hostBits = parts.length == 1 ? 0 : 8 * prefix.length - Integer.parseInt(parts[1]);
        return prefix.length == bytes.length
            && new BigInteger(prefix).shiftRight(hostBits).equals(new BigInteger(bytes).shiftRight(hostBits));
    }
}
