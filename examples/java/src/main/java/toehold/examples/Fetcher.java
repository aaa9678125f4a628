package toehold.examples;

import com.google.protobuf.ByteString;
import com.google.protobuf.util.Durations;
import com.google.protobuf.util.Timestamps;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import toehold.examples.Frontier.NoAnswer;
import toehold.frontier.v1.Candidate;
import toehold.frontier.v1.Disposition;
import toehold.frontier.v1.FetchPolicy;
import toehold.frontier.v1.FetchStatus;
import toehold.frontier.v1.FinishedRequest;
import toehold.frontier.v1.HeartbeatRequest;
import toehold.frontier.v1.HeartbeatResponse;
import toehold.frontier.v1.Lease;
import toehold.frontier.v1.NextRequest;
import toehold.frontier.v1.NextResponse;
import toehold.frontier.v1.Outcome;
import toehold.frontier.v1.Purpose;
import toehold.frontier.v1.Report;
import toehold.frontier.v1.ReportResult;
import toehold.frontier.v1.ScheduleRequest;
import toehold.frontier.v1.ToeStepCount;

/**
 * A small, complete fetcher for a Toehold frontier.
 *
 * <p>One thread asks for leases, one sends heartbeats, and each lease has a toe thread of its own, which
 * fetches the page, offers its links and hands in its report. The fetcher asks only for as many leases as it
 * has idle toes. So it starts every lease at once, and never has an unstarted one to hand back.
 */
public final class Fetcher {
    private static final int LONG_POLL_S = 20;
    private static final int GOODBYE_S = 30;
    /** So many candidates stay below the 8 MiB of a request, even if all their URIs are as long as can be. */
    private static final int MAX_CANDIDATES = 200;

    private final Options options;
    private final Frontier frontier;
    private final Web web;
    private final String session = UUID.randomUUID().toString();
    private final Context.CancellableContext polling = Context.current().withCancellation();
    private final Map<String, FetchPolicy> policies = new ConcurrentHashMap<>();
    private final Map<ByteString, Fetch> held = new ConcurrentHashMap<>(); // by the lease's token
    private final ExecutorService threads = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });
    private volatile int toes;
    private volatile boolean leaving; // takes no more leases
    private volatile boolean ended; // sends no more heartbeats

    private Fetcher(Options options) {
        this.options = options;
        frontier = new Frontier(options.frontier);
        web = new Web(options.resolve, options.tls);
        toes = options.toes;
    }

    public static void main(String[] arguments) {
        Fetcher fetcher = new Fetcher(Options.parse(arguments));
        CountDownLatch done = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // SIGTERM and SIGINT
            fetcher.leave();
            try {
                done.await();
                Runtime.getRuntime().halt(0); // otherwise the exit code would name the signal
            } catch (InterruptedException hurried) {
                Runtime.getRuntime().halt(1);
            }
        }));
        fetcher.run();
        done.countDown();
    }

    private void run() {
        log("toehold-fetcher %s fetching for %s", options.name, options.frontier);
        threads.execute(this::sendHeartbeats);
        polling.run(() -> {
            while (!leaving) {
                takeLeases();
            }
        });
        long patienceEnds = System.nanoTime() + TimeUnit.SECONDS.toNanos(GOODBYE_S);
        while (!held.isEmpty() && System.nanoTime() < patienceEnds) {
            sleep(50);
        }
        ended = true;
        try { // The frontier then takes back at once whatever is still out.
            frontier.rpcs().heartbeat(heartbeat().clearTokens().setLeaving(true).build());
        } catch (StatusRuntimeException error) {
            log("the goodbye did not reach the frontier: %s", error.getStatus());
        }
    }

    /** Takes no more leases. `run` ends when those that are out are done. */
    private void leave() {
        leaving = true;
        polling.cancel(null); // breaks off the long poll
    }

    private void takeLeases() {
        int idle = waitForToes();
        if (idle <= 0) {
            return;
        }
        NextRequest request = NextRequest.newBuilder()
            .setCrawl(options.crawl).setNode(options.name).setSession(session)
            .setMaxLeases(Math.min(idle, 1000)).setWaitDuration(Durations.fromSeconds(LONG_POLL_S))
            .addAllKnownFetchPolicyIds(policies.keySet()).build();
        try {
            NextResponse answer =
                frontier.call(() -> frontier.rpcs(LONG_POLL_S).next(request), () -> !leaving);
            answer.getFetchPoliciesList().forEach(policy -> policies.put(policy.getFetchPolicyId(), policy));
            for (Lease lease : answer.getLeasesList()) {
                FetchPolicy policy =
                    policies.getOrDefault(lease.getFetchPolicyId(), FetchPolicy.getDefaultInstance());
                Fetch fetch = new Fetch(lease, policy, web);
                held.put(lease.getToken(), fetch);
                threads.execute(() -> work(fetch));
            }
            if (answer.getLeasesCount() == 0) { // such as a crawl that is paused
                sleep(Math.max(50, Durations.toMillis(answer.getRetryDuration())), () -> !leaving);
            }
        } catch (NoAnswer reason) {
            if (!leaving) {
                exit("the frontier gives no leases: " + reason.getMessage());
            }
        }
    }

    /** A toe's work. Links go before the report, so that a crash between the two loses nothing. */
    private void work(Fetch fetch) {
        try {
            fetch.run();
            List<Candidate> links = fetch.links();
            for (int from = 0; from < links.size(); from += MAX_CANDIDATES) {
                int to = Math.min(from + MAX_CANDIDATES, links.size());
                ScheduleRequest offer = ScheduleRequest.newBuilder()
                    .setCrawl(fetch.lease.getCrawl()).addAllCandidates(links.subList(from, to)).build();
                frontier.call(() -> frontier.rpcs().schedule(offer), () -> !fetch.isEnded());
            }
            FinishedRequest request = FinishedRequest.newBuilder()
                .setNode(options.name).setSession(session).addReports(fetch.report()).build();
            if (fetch.isEnded()) {
                return;
            }
            // Until it is acknowledged: a report whose answer got lost has counted, and so ended its lease.
            ReportResult result =
                frontier.call(() -> frontier.rpcs().finished(request), () -> true).getResults(0);
            if (result.getDisposition() == Disposition.DISPOSITION_INVALID_REPORT) {
                log("%s: invalid report: %s", fetch.lease.getUri(), result.getProblem());
            }
        } catch (NoAnswer reason) {
            // A page whose links are not stored must not be reported. Its lease lapses.
            log("%s is not reported: %s", fetch.lease.getUri(), reason.getMessage());
        } finally {
            held.remove(fetch.lease.getToken());
            wake();
        }
    }

    /** How many toes are idle. If none is, waits a second at most for one. */
    private synchronized int waitForToes() {
        try {
            if (toes <= held.size()) {
                wait(1000);
            }
            return toes - held.size();
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped); // nobody interrupts these threads
        }
    }

    private synchronized void wake() {
        notifyAll();
    }

    private void sendHeartbeats() {
        long intervalMs = 3000;
        while (!ended) {
            try {
                HeartbeatResponse answer = frontier.call(
                    () -> frontier.rpcs().heartbeat(heartbeat().build()), () -> !ended, intervalMs);
                held(answer.getEndedTokensList()).forEach(Fetch::end);
                held.keySet().removeAll(answer.getEndedTokensList());
                held(answer.getInterruptTokensList()).forEach(Fetch::interrupt);
                // release_tokens asks for leases that have not been started, and there are none.
                toes = answer.hasPoolSize() ? answer.getPoolSize() : options.toes;
                if (answer.getDrain()) {
                    leave();
                }
                intervalMs = Math.max(100, Durations.toMillis(answer.getIntervalDuration()));
            } catch (NoAnswer reason) {
                if (!ended) {
                    exit("the frontier refuses heartbeats: " + reason.getMessage());
                }
            }
            sleep(intervalMs, () -> !ended);
        }
    }

    private Stream<Fetch> held(List<ByteString> tokens) {
        return tokens.stream().map(held::get).filter(Objects::nonNull);
    }

    private HeartbeatRequest.Builder heartbeat() {
        return HeartbeatRequest.newBuilder()
            .setNode(options.name).setSession(session).addAllTokens(held.keySet())
            .addToeSteps(ToeStepCount.newBuilder().setStep("FETCHING").setCount(held.size()));
    }

    static void exit(String reason) {
        log("toehold-fetcher: %s", reason);
        Runtime.getRuntime().halt(1);
    }

    static void log(String format, Object... arguments) {
        System.err.printf(format + "%n", arguments);
    }

    /** Sleeps as long as it is wanted. */
    static void sleep(long ms, BooleanSupplier wanted) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        while (wanted.getAsBoolean() && System.nanoTime() < end) {
            sleep(Math.min(ms, 50));
        }
    }

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped); // nobody interrupts these threads
        }
    }
}
