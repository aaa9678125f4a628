package toehold.examples;

import com.google.protobuf.ByteString;
import com.google.protobuf.util.Durations;
import com.google.protobuf.util.Timestamps;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.hc.client5.http.classic.methods.HttpUriRequestBase;
import toehold.frontier.v1.Candidate;
import toehold.frontier.v1.FetchPolicy;
import toehold.frontier.v1.FetchStatus;
import toehold.frontier.v1.Lease;
import toehold.frontier.v1.Outcome;
import toehold.frontier.v1.Purpose;
import toehold.frontier.v1.Report;
import toehold.frontier.v1.Truncation;

/** The fetch of one lease, and its report. Heartbeats may break it off at any time. */
final class Fetch {
    private static final int MAX_ROBOTS_REDIRECTS = 5;
    private static final Pattern TORN_ALLOW = Pattern.compile("(?im)^[ \\t]*allow[^\\r\\n]*\\z");
    private static final ScheduledExecutorService TIMER = Executors.newSingleThreadScheduledExecutor(work -> {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });

    final Lease lease;
    final FetchPolicy policy;
    private final Web web;
    private final Report.Builder report;
    private List<Candidate> links = List.of();
    private HttpUriRequestBase request;
    private volatile boolean ended;
    private volatile boolean interrupted;
    private volatile boolean expired;

    Fetch(Lease lease, FetchPolicy policy, Web web) {
        this.lease = lease;
        this.policy = policy;
        this.web = web;
        report = Report.newBuilder().setToken(lease.getToken()).setOutcome(Outcome.OUTCOME_FETCHED);
    }

    /** Fetches. Whatever goes wrong becomes the report's status. */
    void run() {
        report.setStartTime(Timestamps.now());
        if (!policy.getProxy().isEmpty()) { // a direct request is not what the crawl's operator wants
            report.setFetchStatus(FetchStatus.FETCH_STATUS_RUNTIME_EXCEPTION_VALUE);
            report.addAnnotations("noProxies");
            return;
        }
        long start = System.nanoTime();
        Future<?> deadline =
            TIMER.schedule(this::expire, Durations.toMillis(policy.getTimeout()), TimeUnit.MILLISECONDS);
        try {
            if (isRobots()) {
                fetchRobots();
            } else {
                Answer answer = web.get(this, lease.getUri());
                answer.describe(lease, report);
                links = Links.of(lease, policy, answer);
            }
        } catch (IOException error) {
            report.setFetchStatus(interrupted ? FetchStatus.FETCH_STATUS_PROCESSING_THREAD_KILLED_VALUE
                : expired ? FetchStatus.FETCH_STATUS_TIMEOUT_VALUE : Web.status(error).getNumber());
            report.addAnnotations(error.getClass().getSimpleName());
        } catch (RuntimeException error) {
            Fetcher.log("%s: %s", lease.getUri(), error);
            report.setFetchStatus(FetchStatus.FETCH_STATUS_RUNTIME_EXCEPTION_VALUE);
        } finally {
            deadline.cancel(false);
            report.setFetchDuration(Durations.fromNanos(System.nanoTime() - start));
        }
    }

    /** Fetches a robots.txt. No fault may look like an empty file, which allows everything. */
    private void fetchRobots() throws IOException {
        URI uri = URI.create(lease.getUri());
        Answer answer = web.get(this, uri.toString());
        for (int hops = 0; answer.isRedirect() && hops < MAX_ROBOTS_REDIRECTS; hops++) {
            try {
                uri = uri.resolve(answer.header("Location"));
            } catch (IllegalArgumentException notAUri) {
                break;
            }
            answer = web.get(this, uri.toString());
        }
        answer.describe(lease, report);
        boolean torn = answer.truncation() == Truncation.TRUNCATION_DISCONNECT;
        byte[] body = answer.decoded();
        if (answer.status / 100 == 3) {
            report.setFetchStatus(-404); // too many redirects, or one that leads nowhere: there is no file
        } else if (answer.status / 100 != 2) {
            return;
        } else if (answer.truncation() == Truncation.TRUNCATION_TIME) {
            report.setFetchStatus(FetchStatus.FETCH_STATUS_TIMEOUT_VALUE);
        } else if (body == null) {
            report.setFetchStatus(FetchStatus.FETCH_STATUS_PROTOCOL_ERROR_VALUE);
        } else if (body.length == 0 && torn) {
            report.setFetchStatus(FetchStatus.FETCH_STATUS_CONNECT_LOST_VALUE);
        } else if (body.length == 0) {
            report.setRobotsEmpty(true);
        } else {
            String text = new String(body, StandardCharsets.ISO_8859_1); // a character for each byte
            if (torn) { // a torn `Allow` may allow more than the whole line
                text = TORN_ALLOW.matcher(text).replaceFirst("#");
            }
            text = text.substring(0, Math.min(text.length(), Web.MAX_ROBOTS_BYTES));
            report.setRobotsBody(ByteString.copyFrom(text, StandardCharsets.ISO_8859_1));
        }
    }

    boolean isRobots() {
        return lease.getPurpose() == Purpose.PURPOSE_ROBOTS;
    }

    Report report() {
        return report.build();
    }

    /** The report of a fetch whose links or whose report the frontier refuses: a mistake of this program. */
    Report failure() {
        return Report.newBuilder().setToken(lease.getToken()).setOutcome(Outcome.OUTCOME_FETCHED)
            .setFetchStatus(FetchStatus.FETCH_STATUS_RUNTIME_EXCEPTION_VALUE).build();
    }

    List<Candidate> links() {
        return links;
    }

    /** Notes the address of the first connection: that of a robots.txt's own host, if it redirects. */
    void connectedTo(String address) {
        if (report.getPeerAddress().isEmpty()) {
            report.setPeerAddress(address);
        }
    }

    // --- breaking off

    /** The lease is over at the frontier, so nobody wants its report. */
    void end() {
        ended = true;
        breakOff();
    }

    /** The crawl was asked a second time to stop. */
    void interrupt() {
        interrupted = true;
        breakOff();
    }

    private void expire() {
        expired = true;
        breakOff();
    }

    private synchronized void breakOff() {
        if (request != null) {
            request.cancel();
        }
    }

    /** Notes the request that is to be cancelled when the fetch is broken off. */
    synchronized void begin(HttpUriRequestBase next) {
        request = next;
        if (isBrokenOff()) {
            next.cancel();
        }
    }

    boolean isEnded() {
        return ended;
    }

    boolean isExpired() {
        return expired;
    }

    boolean isBrokenOff() {
        return ended || interrupted || expired;
    }
}
