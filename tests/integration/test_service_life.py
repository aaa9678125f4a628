"""A crawl's life over real gRPC: pauses and ends that are bounded, problems, and what limits it."""

from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    Stubs,
    named,
    report,
    seconds,
)
from frontier_harness.hosted import Hosted

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

A, B = "http://a.example/", "http://b.example/"


def by_uri(lease: frontier_pb2.Lease) -> str:
    return lease.uri


def moments(stubs: Stubs, crawl: str = "t") -> dict[str, int]:
    """When each kind of thing happened last, in milliseconds."""
    return {named(event): event.event_time.ToMilliseconds() for event in stubs.events_so_far(crawl)}


# Pauses and ends that wait for what is in flight, and no longer than they should.


def test_a_pause_waits_so_long_and_what_is_out_then_goes_back_to_its_queue(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A, B)
    first, second = sorted(stubs.pages("t", least=2), key=by_uri)
    assert stubs.request("t", PAUSE).state == crawl_pb2.CRAWL_STATE_PAUSING
    assert list(stubs.heartbeat([first.token]).release_tokens) == [first.token]
    stubs.update("t", pause_timeout=seconds(1))  # from the pause on
    stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
    assert stubs.told("t")[-5:] == ["by pause", "PAUSING", "by update", "flights_cancelled", "PAUSED"]
    at_ms = moments(stubs)
    assert at_ms["flights_cancelled"] - at_ms["PAUSING"] >= 1000
    (cancelled,) = [e.flights_cancelled for e in stubs.events_so_far("t") if e.HasField("flights_cancelled")]
    assert (cancelled.leased_count, cancelled.bound) == (2, "pause_timeout")
    assert list(stubs.heartbeat([first.token, second.token]).ended_tokens) == [first.token, second.token]
    assert stubs.finish(report(first)) == [("STALE", False)]
    statistics = stubs.statistics("t")
    assert (statistics.queued_count, statistics.leased_count, statistics.lapsed_count) == (2, 0, 2)
    stubs.request("t", RUN)
    again = sorted(stubs.pages("t", least=2), key=by_uri)
    assert [(lease.uri, lease.attempt) for lease in again] == [(A, 1), (B, 1)], "a pause is no attempt"


# Asked for the end again.


def finish(stubs: Stubs, *tokens: bytes) -> frontier_pb2.HeartbeatResponse:
    """Ask for the end once more; what the node hears then."""
    stubs.request("t", FINISH)
    return stubs.heartbeat(tokens)


# Problems.


# What limits it.


def limited_by(stubs: Stubs, crawl: str = "t") -> str:
    return stubs.statistics(crawl).limited_by
