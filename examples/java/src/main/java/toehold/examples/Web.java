package toehold.examples;

import com.google.protobuf.Duration;
import com.google.protobuf.util.Durations;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.NoRouteToHostException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.UnknownHostException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLException;
import org.apache.hc.client5.http.ClientProtocolException;
import org.apache.hc.client5.http.ConnectTimeoutException;
import org.apache.hc.client5.http.classic.methods.HttpUriRequestBase;
import org.apache.hc.client5.http.config.ConnectionConfig;
import org.apache.hc.client5.http.impl.classic.CloseableHttpClient;
import org.apache.hc.client5.http.impl.classic.HttpClients;
import org.apache.hc.client5.http.impl.io.ManagedHttpClientConnectionFactory;
import org.apache.hc.client5.http.impl.io.PoolingHttpClientConnectionManagerBuilder;
import org.apache.hc.client5.http.protocol.HttpClientContext;
import org.apache.hc.core5.http.EndpointDetails;
import org.apache.hc.core5.http.MalformedChunkCodingException;
import org.apache.hc.core5.http.MessageConstraintException;
import org.apache.hc.core5.util.Timeout;
import toehold.frontier.v1.FetchPolicy;
import toehold.frontier.v1.FetchStatus;

/** HTTP, over one client for each fetch policy. Each request has a connection of its own. */
final class Web {
    static final int MAX_ROBOTS_BYTES = 500 * 1024;

    /** Origin, then path and query. java.net.URI refuses some paths that the frontier and browsers accept. */
    private static final Pattern HTTP_URI = Pattern.compile("(https?://[^/?#]+)([^#]*).*");

    private final Map<String, CloseableHttpClient> clients = new ConcurrentHashMap<>();

    /** Makes one request of a fetch, and reads its answer. Follows no redirect. */
    Answer get(Fetch fetch, String uri) throws IOException {
        Matcher parts = HTTP_URI.matcher(uri);
        if (!parts.matches()) {
            throw new AllowedAddresses.Refused("not an http(s) URI: " + uri);
        }
        HttpUriRequestBase request = new HttpUriRequestBase("GET", URI.create(parts.group(1)));
        request.setPath(parts.group(2).startsWith("/") ? parts.group(2) : "/" + parts.group(2));
        request.setHeader("User-Agent", fetch.policy.getUserAgent());
        request.setHeader("Accept", "*/*");
        request.setHeader("Accept-Encoding", "gzip");
        request.setHeader("Connection", "close");
        if (!fetch.lease.getEtag().isEmpty()) {
            request.setHeader("If-None-Match", fetch.lease.getEtag());
        }
        if (!fetch.lease.getLastModified().isEmpty()) {
            request.setHeader("If-Modified-Since", fetch.lease.getLastModified());
        }
        fetch.begin(request);
        HttpClientContext context = HttpClientContext.create();
        try {
            Answer answer = new Answer(client(fetch.policy).executeOpen(null, request, context));
            answer.read(fetch);
            return answer;
        } finally {
            request.cancel(); // ends the connection; closing the response would read the rest of its body
            EndpointDetails peer = context.getEndpointDetails();
            if (peer != null && peer.getRemoteAddress() instanceof InetSocketAddress address) {
                fetch.connectedTo(address.getAddress().getHostAddress());
            }
        }
    }

    private CloseableHttpClient client(FetchPolicy policy) {
        return clients.computeIfAbsent(policy.getFetchPolicyId(), id -> HttpClients.custom()
            .disableRedirectHandling().disableAutomaticRetries().disableContentCompression()
            .disableCookieManagement().disableAuthCaching()
            .setConnectionReuseStrategy((request, response, context) -> false)
            .setConnectionManager(PoolingHttpClientConnectionManagerBuilder.create()
                .setDnsResolver(new AllowedAddresses(policy.getAllowedAddressesList()))
                .setConnectionFactory(ManagedHttpClientConnectionFactory.builder()
                    .http1Config(HeadParser.LIMITS).responseParserFactory(limits -> new HeadParser()).build())
                .setMaxConnTotal(10_000).setMaxConnPerRoute(10_000)
                .setDefaultConnectionConfig(ConnectionConfig.custom()
                    .setConnectTimeout(timeout(policy.getConnectTimeout()))
                    .setSocketTimeout(timeout(policy.getReadTimeout())).build())
                .build())
            .build());
    }

    private static Timeout timeout(Duration duration) {
        return Timeout.ofMilliseconds(Durations.toMillis(duration));
    }

    /** The status of an error without an answer: that of the first kind that fits. */
    static FetchStatus status(IOException error) {
        return STATUSES.stream().filter(row -> row.getKey().isInstance(error)).findFirst()
            .map(Map.Entry::getValue).orElse(FetchStatus.FETCH_STATUS_CONNECT_LOST);
    }

    private static final List<Map.Entry<Class<? extends IOException>, FetchStatus>> STATUSES = List.of(
        Map.entry(AllowedAddresses.Refused.class, FetchStatus.FETCH_STATUS_UNFETCHABLE_URI),
        Map.entry(UnknownHostException.class, FetchStatus.FETCH_STATUS_DOMAIN_UNRESOLVABLE),
        Map.entry(ConnectException.class, FetchStatus.FETCH_STATUS_CONNECT_FAILED),
        Map.entry(NoRouteToHostException.class, FetchStatus.FETCH_STATUS_CONNECT_FAILED),
        Map.entry(ConnectTimeoutException.class, FetchStatus.FETCH_STATUS_CONNECT_FAILED),
        Map.entry(SSLException.class, FetchStatus.FETCH_STATUS_CONNECT_FAILED),
        Map.entry(SocketTimeoutException.class, FetchStatus.FETCH_STATUS_TIMEOUT),
        Map.entry(ClientProtocolException.class, FetchStatus.FETCH_STATUS_PROTOCOL_ERROR),
        Map.entry(MessageConstraintException.class, FetchStatus.FETCH_STATUS_PROTOCOL_ERROR),
        Map.entry(MalformedChunkCodingException.class, FetchStatus.FETCH_STATUS_PROTOCOL_ERROR));
}
