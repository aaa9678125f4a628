package toehold.examples;

import com.google.protobuf.ByteString;
import com.google.protobuf.util.Durations;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
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
import toehold.frontier.v1.FinishedRequest;
import toehold.frontier.v1.HeartbeatRequest;
import toehold.frontier.v1.HeartbeatResponse;
import toehold.frontier.v1.Lease;
import toehold.frontier.v1.NextRequest;
import toehold.frontier.v1.NextResponse;
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
    private static final long LONG_POLL_MS = 20_000;
    private static final int NEXT_DEADLINE_S = 30;
    private static final int HEARTBEAT_DEADLINE_S = 5; // leases lapse while a lost heartbeat is waited for
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
    private volatile long leaseMs = 3000; // the life of a lease that no heartbeat names
    private volatile boolean leaving; // takes no more leases
    private String refusal = ""; // why the frontier gives no leases
    private volatile boolean ended; // sends no more heartbeats

    private Fetcher(Options options) {
        this.options = options;
        frontier = new Frontier(options.frontier);
        web = new Web();
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
            frontier.rpcs(HEARTBEAT_DEADLINE_S).heartbeat(heartbeat().clearTokens().setLeaving(true).build());
        } catch (StatusRuntimeException error) {
            log("the goodbye did not reach the frontier: %s", error.getStatus());
        }
        if (!refusal.isEmpty()) {
            exit("the frontier gives no leases: " + refusal);
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
            .setMaxLeases(Math.min(idle, 1000))
            .setWaitDuration(Durations.fromMillis(Math.min(LONG_POLL_MS, leaseMs / 3)))
            .addAllKnownFetchPolicyIds(policies.keySet()).build();
        try {
            long[] asked = {0};
            NextResponse answer = frontier.call(() -> {
                asked[0] = System.nanoTime();
                return frontier.rpcs(NEXT_DEADLINE_S).next(request);
            }, () -> !leaving);
            answer.getFetchPoliciesList().forEach(policy -> policies.put(policy.getFetchPolicyId(), policy));
            for (Lease lease : answer.getLeasesList()) {
                if (System.nanoTime() - asked[0] > TimeUnit.MILLISECONDS.toNanos(leaseMs) * 2 / 3) {
                    break; // this process stood still: they lapse before a heartbeat names them
                }
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
                refusal = reason.getMessage();
                leave();
            }
        }
    }

    /** A toe's work. Links go before the report, so that a crash between the two loses nothing. */
    private void work(Fetch fetch) {
        try {
            fetch.run();
            Report report = fetch.report();
            try {
                offer(fetch);
            } catch (NoAnswer reason) {
                if (!reason.crawlIsOver && !fetch.isEnded()) {
                    log("%s: the frontier refuses its links: %s", fetch.lease.getUri(), reason.getMessage());
                    report = fetch.failure();
                }
            }
            if (fetch.isEnded()) {
                return;
            }
            ReportResult result = finish(report);
            if (result.getDisposition() == Disposition.DISPOSITION_INVALID_REPORT) {
                log("%s: the frontier refuses the report: %s", fetch.lease.getUri(), result.getProblem());
                finish(fetch.failure());
            }
        } catch (NoAnswer reason) {
            log("%s is not reported, so its lease lapses: %s", fetch.lease.getUri(), reason.getMessage());
        } finally {
            held.remove(fetch.lease.getToken());
            wake();
        }
    }

    private void offer(Fetch fetch) throws NoAnswer {
        List<Candidate> links = fetch.links();
        for (int from = 0; from < links.size(); from += MAX_CANDIDATES) {
            int to = Math.min(from + MAX_CANDIDATES, links.size());
            ScheduleRequest offer = ScheduleRequest.newBuilder()
                .setCrawl(fetch.lease.getCrawl()).addAllCandidates(links.subList(from, to)).build();
            frontier.call(() -> frontier.rpcs().schedule(offer), () -> !fetch.isEnded());
        }
    }

    /** Reports until that is acknowledged. A report whose answer got lost has counted, and ended the lease. */
    private ReportResult finish(Report report) throws NoAnswer {
        FinishedRequest request = FinishedRequest.newBuilder()
            .setNode(options.name).setSession(session).addReports(report).build();
        return frontier.call(() -> frontier.rpcs().finished(request), () -> true).getResults(0);
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
                    () -> frontier.rpcs(HEARTBEAT_DEADLINE_S).heartbeat(heartbeat().build()),
                    () -> !ended, intervalMs);
                leaseMs = Durations.toMillis(answer.getLeaseDuration());
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
