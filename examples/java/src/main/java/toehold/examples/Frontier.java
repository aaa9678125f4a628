package toehold.examples;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.Durations;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import toehold.frontier.v1.FrontierServiceGrpc;
import toehold.frontier.v1.FrontierServiceGrpc.FrontierServiceBlockingStub;

/** The connection to the frontier, and the rule by which calls are repeated. */
final class Frontier {
    private static final int CALL_TIMEOUT_S = 30;
    private static final long LONGEST_REST_MS = 30_000;
    /** How often a call may fail in a way that has no name. Then that counts as a refusal. */
    private static final int MAX_FAILURES = 5;
    private static final long FIRST_REST_MS = 200;
    /** The frontier's own errors that are worth another try, and the transport's that are not. */
    private static final Set<Code> TEMPORARY =
        Set.of(Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED);
    private static final Set<Code> HOPELESS = Set.of(Code.RESOURCE_EXHAUSTED, Code.UNIMPLEMENTED);
    private static final Set<String> CRAWL_IS_OVER =
        Set.of("CRAWL_FINISHED", "CRAWL_TORN_DOWN", "UNKNOWN_CRAWL");

    private final ManagedChannel channel;

    Frontier(String address) {
        channel = Grpc.newChannelBuilder(address, InsecureChannelCredentials.create())
            .keepAliveTime(30, TimeUnit.SECONDS) // the frontier allows a ping every five seconds
            .keepAliveTimeout(10, TimeUnit.SECONDS)
            .maxInboundMessageSize(9 * 1024 * 1024) // gRPC's own limit is 4 MiB, the contract's 8
            .proxyDetector(target -> null) // proxies are for the web
            .build();
    }

    FrontierServiceBlockingStub rpcs() {
        return rpcs(CALL_TIMEOUT_S);
    }

    FrontierServiceBlockingStub rpcs(int deadlineS) {
        return FrontierServiceGrpc.newBlockingStub(channel).withDeadlineAfter(deadlineS, TimeUnit.SECONDS);
    }

    /** Why a call got no answer: the frontier refused it for good, or nobody wants the answer any more. */
    static final class NoAnswer extends Exception {
        /** The crawl is over, so links have no place any more. */
        final boolean crawlIsOver;

        NoAnswer(String problem, String reason) {
            super(problem);
            crawlIsOver = CRAWL_IS_OVER.contains(reason);
        }
    }

    <T> T call(Supplier<T> call, BooleanSupplier wanted) throws NoAnswer {
        return call(call, wanted, LONGEST_REST_MS);
    }

    /**
     * Makes a call, again and again until it is answered or refused for good, or not wanted any more.
     *
     * <p>Only an error with Toehold's ErrorInfo is the frontier's. All others come from the transport. The
     * rests between two tries grow, unless the frontier says how long to wait.
     */
    <T> T call(Supplier<T> call, BooleanSupplier wanted, long longestRestMs) throws NoAnswer {
        long restMs = FIRST_REST_MS;
        int failures = 0;
        while (wanted.getAsBoolean()) {
            try {
                return call.get();
            } catch (StatusRuntimeException error) {
                ErrorInfo info = detail(error, ErrorInfo.class, ErrorInfo.getDefaultInstance());
                Code code = error.getStatus().getCode();
                boolean isFrontiers = info.getDomain().equals("toehold");
                String problem =
                    (isFrontiers ? info.getReason() : code) + ": " + error.getStatus().getDescription();
                if (info.getReason().equals("SESSION_SUPERSEDED")) {
                    Fetcher.exit(problem); // another process has this name, and this one may do nothing more
                }
                boolean isTemporary = TEMPORARY.contains(code);
                if (isFrontiers ? !isTemporary
                        : HOPELESS.contains(code) || !isTemporary && ++failures == MAX_FAILURES) {
                    throw new NoAnswer(problem, info.getReason());
                }
                if (restMs == FIRST_REST_MS && wanted.getAsBoolean()) {
                    Fetcher.log("%s; trying again", problem);
                }
                RetryInfo hint = detail(error, RetryInfo.class, RetryInfo.getDefaultInstance());
                long jitteredMs = ThreadLocalRandom.current().nextLong(restMs / 2, restMs + 1);
                Fetcher.sleep(Math.max(jitteredMs, Durations.toMillis(hint.getRetryDelay())), wanted);
                restMs = Math.min(2 * restMs, Math.max(FIRST_REST_MS, longestRestMs));
                channel.resetConnectBackoff(); // gRPC's own rests grow to two minutes: leases would lapse
            }
        }
        throw new NoAnswer("nobody wants the answer any more", "");
    }

    private static <M extends Message> M detail(StatusRuntimeException error, Class<M> type, M none) {
        try {
            for (Any detail : StatusProto.fromThrowable(error).getDetailsList()) {
                if (detail.is(type)) {
                    return detail.unpack(type);
                }
            }
            return none;
        } catch (InvalidProtocolBufferException malformed) {
            return none; // so the error is not the frontier's
        }
    }
}
