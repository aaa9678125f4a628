"""A crawl's life over real gRPC: pauses and ends that are bounded, problems, and what limits it."""

from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Stubs,
    named,
    released,
    report,
    seconds,
    spec,
)
from frontier_harness.hosted import Hosted
from frontier_harness.waiting import eventually

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


def test_an_end_waits_so_long_and_what_is_out_then_has_failed(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A, B)
    first, second = sorted(stubs.pages("t", least=2), key=by_uri)
    stubs.schedule("t", f"{A}never-fetched")
    assert stubs.request("t", FINISH).state == crawl_pb2.CRAWL_STATE_STOPPING
    assert stubs.finish(report(first)) == [("SUCCEEDED", False)]
    stubs.update("t", stop_timeout=seconds(1))  # from the stop on
    stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)
    at_ms = moments(stubs)
    assert at_ms["flights_cancelled"] - at_ms["STOPPING"] >= 1000
    assert stubs.told("t")[-5:] == ["by stop", "STOPPING", "by update", "flights_cancelled", "FINISHED"]
    assert dict(stubs.statistics("t").fetch_status_counts) == {200: 1, -7000: 1}
    assert stubs.finish(report(second)) == [("STALE", False)]
    assert stubs.describe("t").status.exit_status == crawl_pb2.EXIT_STATUS_ABORTED
    log = at.served.logs.path("t")
    eventually(lambda: log.is_file() and " -7000 " in log.read_text(), "its line in the log")
    (line,) = [line for line in log.read_text().splitlines() if " -7000 " in line]
    assert B in line


# Asked for the end again.


def finish(stubs: Stubs, *tokens: bytes) -> frontier_pb2.HeartbeatResponse:
    """Ask for the end once more; what the node hears then."""
    stubs.request("t", FINISH)
    return stubs.heartbeat(tokens)


def test_an_end_that_is_asked_for_again_interrupts_fetches(at: Hosted) -> None:
    """S0.17."""
    stubs = at.stubs
    stubs.launch("t", A, B)
    stubs.launch("u", "http://c.example/")
    (other,) = stubs.pages("u")
    first, second = sorted(stubs.pages("t", least=2), key=by_uri)
    tokens = [first.token, second.token, other.token]
    asked_once = finish(stubs, *tokens)
    assert (list(asked_once.release_tokens), list(asked_once.interrupt_tokens)) == (tokens[:2], [])
    asked_twice = finish(stubs, *tokens)
    assert (list(asked_twice.release_tokens), list(asked_twice.interrupt_tokens)) == ([], tokens[:2])
    asked_thrice = finish(stubs, *tokens)
    assert list(asked_thrice.interrupt_tokens) == tokens[:2] and not asked_thrice.ended_tokens
    assert stubs.told("t")[-3:] == ["by stop", "STOPPING", "by interrupt"]
    broken_off = report(first, crawl_pb2.FETCH_STATUS_PROCESSING_THREAD_KILLED)
    assert stubs.finish(broken_off, released(second)) == [("FAILED", False), ("RELEASED", False)]
    assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_FINISHED
    assert dict(stubs.statistics("t").fetch_status_counts) == {-7000: 1}
    assert not stubs.heartbeat([other.token]).interrupt_tokens


# Problems.


def test_a_node_that_failed_badly_pauses_the_crawl_which_may_be_resumed(at: Hosted) -> None:
    """S4.12."""
    stubs = at.stubs
    stubs.launch("t", A, B)
    first, second = sorted(stubs.pages("t", least=2), key=by_uri)
    stubs.finish(report(first, crawl_pb2.FETCH_STATUS_SERIOUS_ERROR))
    pausing = stubs.describe("t").status
    assert pausing.state == crawl_pb2.CRAWL_STATE_PAUSING and pausing.reason
    stubs.finish(released(second))
    paused = stubs.describe("t").status
    assert (paused.state, paused.reason) == (crawl_pb2.CRAWL_STATE_PAUSED, pausing.reason)
    (problem,) = [event.problem for event in stubs.events_so_far("t") if event.HasField("problem")]
    assert (problem.kind, problem.detail) == ("serious-error", paused.reason)
    assert stubs.told("t")[-3:] == ["problem", "PAUSING", "PAUSED"]
    assert stubs.request("t", RUN).state == crawl_pb2.CRAWL_STATE_RUNNING
    assert not stubs.describe("t").status.reason


# What limits it.


def limited_by(stubs: Stubs, crawl: str = "t") -> str:
    return stubs.statistics(crawl).limited_by


def test_why_a_crawl_is_not_faster_is_told_in_one_line_while_it_runs_and_not_otherwise(at: Hosted) -> None:
    stubs = at.stubs
    stubs.create("t", spec(min_delay_s=1000, max_toes=1, pause_at_start=True))
    stubs.seed("t", A, B)
    assert not limited_by(stubs)
    stubs.ask("LaunchCrawl", "t")
    stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
    assert not limited_by(stubs)
    stubs.request("t", RUN)
    assert limited_by(stubs) == "No node has asked for leases since the server started"
    (robots,) = stubs.next("t", wait_s=TIMEOUT_S).leases
    assert limited_by(stubs) == "Limited by max_toes = 1: 1 queue is ready"
    stubs.finish(report(robots))
    (robots,) = stubs.next("t", wait_s=TIMEOUT_S).leases
    stubs.finish(report(robots))
    stubs.next("t")
    assert limited_by(stubs) == "Limited by politeness: 2 hosts wait 1000 s"
    stubs.request("t", PAUSE)
    assert not limited_by(stubs)
    stubs.request("t", FINISH)
    assert not limited_by(stubs)
