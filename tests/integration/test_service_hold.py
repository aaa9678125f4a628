"""HOLD: a crawl that is held stands still, whatever is asked of it, until somebody releases it."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    FINISH,
    HOLD,
    PAUSE,
    PRECONDITION,
    RUN,
    TIMEOUT_S,
    Stubs,
    named,
    next_request,
    refused,
    released,
    report,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.every_rpc import CHANGING, OF_NO_CRAWL, READING, ask
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.stillness import still
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
SOON_MS = 2_000
"""The lease period where a node is to fall silent soon, but not before a crawl is held."""

A, B = "http://a.example/", "http://b.example/"


@pytest.fixture
def store() -> HeldStore:
    return HeldStore()


@pytest.fixture
def at(store: HeldStore, tmp_path: Path) -> Iterator[Hosted]:
    with hosted(store, tmp_path) as made:
        yield made


@pytest.fixture
def page(at: Hosted) -> frontier_pb2.Lease:
    return held_page(at.stubs)


def held_page(stubs: Stubs) -> frontier_pb2.Lease:
    """Crawl `t` is held with a bit of everything: a page fetched, URIs that wait, a job, an override."""
    stubs.launch("t", A, B, of=spec(statistics_interval=seconds(1)))
    stubs.schedule("t", f"{A}more")
    stubs.ask("PutOverride", "t", override={"surt_prefix": B, "settings": {"retry": {"max_attempts": 3}}})
    stubs.job("t", verify={})
    leases = stubs.pages("t")
    while len(leases) < 2:
        leases += stubs.pages("t")
    fetched, other = sorted(leases, key=lambda lease: lease.uri)
    assert stubs.finish(report(fetched), released(other)) == [("SUCCEEDED", False), ("RELEASED", False)]
    hold(stubs)
    return fetched


def hold(stubs: Stubs) -> None:
    """Hold crawl `t`, and wait until it is."""
    stubs.request("t", HOLD)
    eventually(lambda: stubs.describe("t").status.held)


def told(stubs: Stubs) -> list[str]:
    """What happened to the crawl, in a word each."""
    return [named(event) for event in stubs.events_so_far("t")]


# What is asked while it is held.


@pytest.mark.parametrize("rpc", CHANGING)
def test_what_would_change_a_held_crawl_is_refused_with_when_to_come_back(
    at: Hosted, store: HeldStore, page: frontier_pb2.Lease, rpc: str
) -> None:
    with still(at, store):
        problem = refused(lambda: ask(at.stubs, rpc, "t"), UNAVAILABLE, "CRAWL_HELD", "'t'", "held")
        assert problem.retry_s is not None and 0 < problem.retry_s <= 10
        assert problem.metadata == {"crawl": "t", "state": "PAUSED"}
    at.stubs.request("t", PAUSE)
    if rpc in NONE_SUCH:
        refused(lambda: ask(at.stubs, rpc, "t"), *NONE_SUCH[rpc])
    else:
        ask(at.stubs, rpc, "t")


NONE_SUCH = {
    "CancelJob": (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE"),  # its job announced the seeds
    "DeleteOverride": (grpc.StatusCode.NOT_FOUND, "UNKNOWN_OVERRIDE"),
}
"""What is refused also of a crawl that is not held."""


@pytest.mark.parametrize("rpc", READING)
def test_what_only_looks_at_a_held_crawl_is_answered_and_writes_nothing(
    at: Hosted, store: HeldStore, page: frontier_pb2.Lease, rpc: str
) -> None:
    with still(at, store):
        if rpc == "StateEvents":  # which goes on
            request = frontier_pb2.StateEventsRequest(crawl="t", cursor="start")
            stream = at.stubs.frontier.StateEvents(request, timeout=TIMEOUT_S)
            assert next(stream).present.held
            stream.cancel()
        else:
            ask(at.stubs, rpc, "t")


@pytest.mark.parametrize("rpc", sorted(OF_NO_CRAWL.keys() - {"CreateCheckpoint", "DeleteCheckpoint"}))
def test_what_is_asked_of_no_crawl_leaves_a_held_one_alone(
    at: Hosted, store: HeldStore, page: frontier_pb2.Lease, rpc: str
) -> None:
    with still(at, store):
        ask(at.stubs, rpc)


def test_nodes_that_ask_of_a_held_crawl_hear_that_it_is_paused_and_change_nothing(
    at: Hosted, store: HeldStore, page: frontier_pb2.Lease
) -> None:
    stubs = at.stubs
    with still(at, store):
        assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
        assert stubs.next().empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
        assert stubs.next("t", session="a new one").empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
        assert stubs.finish(report(page), session="a new one") == [("SUCCEEDED", True)]
        assert list(stubs.heartbeat([page.token], session="a new one").ended_tokens) == [page.token]
        leaving = frontier_pb2.HeartbeatRequest(node="node", session="a new one", leaving=True)
        stubs.frontier.Heartbeat(leaving, timeout=TIMEOUT_S)


@pytest.mark.parametrize(
    ("call", "reason"), [("LaunchCrawl", "ILLEGAL_STATE"), ("DeleteCrawl", "CRAWL_ACTIVE")]
)
def test_what_its_state_does_not_allow_is_refused_as_ever(
    at: Hosted, store: HeldStore, page: frontier_pb2.Lease, call: str, reason: str
) -> None:
    with still(at, store):
        problem = refused(lambda: ask(at.stubs, call, "t"), PRECONDITION, reason, "PAUSED")
        assert problem.metadata["state"] == "PAUSED"


def test_a_hold_that_is_asked_for_again_changes_nothing(
    at: Hosted, store: HeldStore, page: frontier_pb2.Lease
) -> None:
    with still(at, store):
        assert at.stubs.request("t", HOLD).held
        assert at.stubs.request("t", HOLD).state == crawl_pb2.CRAWL_STATE_PAUSED


def test_time_writes_nothing_and_who_fell_silent_is_told_once_it_is_released(
    store: HeldStore, tmp_path: Path
) -> None:
    """Nor the time at which its statistics would be told."""
    with hosted(store, tmp_path, lease_ms=SOON_MS) as at:
        stubs = at.stubs
        held_page(stubs)
        held_ms = stubs.describe("t").status.reach_time.ToMilliseconds()

        def over() -> bool:
            silent = at.look(lambda core: core.shard.leases.why_gone("node", "session")) == "silent"
            now_ms = stubs.statistics("t").snapshot_time.ToMilliseconds()
            return silent and now_ms > held_ms + 1_500

        with still(at, store):
            eventually(over)
        stubs.request("t", PAUSE)
        assert told(stubs)[-4:] == ["held", "by pause", "released", "node_left"]
        (left,) = [event.node_left for event in stubs.events_so_far("t") if event.HasField("node_left")]
        assert (left.node, left.session, left.reason) == ("node", "session", "silent")


def test_other_crawls_go_on_while_one_is_held(at: Hosted, store: HeldStore, page: frontier_pb2.Lease) -> None:
    stubs = at.stubs
    with still(at, store):
        stubs.launch("other", "http://c.example/")
        (lease,) = stubs.pages()
        assert lease.crawl == "other"
        stubs.finish(report(lease))
        stubs.until("other", crawl_pb2.CRAWL_STATE_FINISHED)
        stubs.ask("TearDownCrawl", "other")
        eventually(lambda: stubs.describe("other").status.torn_down)
        stubs.ask("DeleteCrawl", "other")


# How it comes to be held.


def test_held_is_told_when_the_crawl_log_is_written_and_not_before(store: HeldStore, tmp_path: Path) -> None:
    with hosted(store, tmp_path, logs=False) as at:
        stubs = at.stubs
        stubs.launch("t", A)
        (lease,) = stubs.pages("t")
        stubs.schedule("t", f"{A}more")
        stubs.finish(report(lease))
        assert stubs.request("t", HOLD).state == crawl_pb2.CRAWL_STATE_PAUSING
        assert stubs.request("t", HOLD).state == crawl_pb2.CRAWL_STATE_PAUSING
        assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
        assert told(stubs)[-1] == "PAUSING"
        assert stubs.schedule("t", f"{A}until-it-is-held") == ["QUEUED"]
        request = frontier_pb2.StateEventsRequest(crawl="t")
        events = stubs.frontier.StateEvents(request, timeout=TIMEOUT_S)
        next(events)
        at.write_logs()
        assert [named(next(events).event) for _ in range(3)] == ["statistics", "PAUSED", "held"]
        log = at.served.logs.path("t")
        lines = log.read_text().splitlines()
        assert sorted(line.split()[3] for line in lines) == [A, f"{A}robots.txt"]
        counters = at.look(lambda core: core.shard.registry.names["t"].counters)
        assert (counters.logged_outcome, counters.log_bytes) == (2, log.stat().st_size)
        events.cancel()


def test_held_waits_for_a_crawl_log_that_cannot_be_written(
    store: HeldStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.crawl_log.RETRY_S", 0.05)
    obstacle = tmp_path / "crawls" / "t" / "crawl.log"
    obstacle.mkdir(parents=True)
    with hosted(store, tmp_path) as at:
        stubs = at.stubs
        stubs.launch("t", A)
        (lease,) = stubs.pages("t")
        stubs.schedule("t", f"{A}more")
        stubs.finish(report(lease))
        stubs.request("t", HOLD)
        stubs.launch("other", B)
        pages = stubs.pages("other")
        stubs.schedule("other", f"{B}more")
        stubs.finish(*(report(page) for page in pages))
        stubs.request("other", HOLD)
        eventually(
            lambda: stubs.describe("other").status.held, "the other log, which this one must not hold up"
        )
        assert not stubs.describe("t").status.held
        obstacle.rmdir()
        eventually(lambda: stubs.describe("t").status.held)
        assert len(obstacle.read_text().splitlines()) == 2


def test_held_waits_for_what_is_out(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    (lease,) = stubs.pages("t")
    assert stubs.request("t", HOLD).state == crawl_pb2.CRAWL_STATE_PAUSING
    assert list(stubs.heartbeat([lease.token]).release_tokens) == [lease.token]
    assert not stubs.describe("t").status.held
    stubs.finish(released(lease))
    eventually(lambda: stubs.describe("t").status.held)
    assert told(stubs)[-3:] == ["statistics", "PAUSED", "held"]


def test_held_waits_for_an_import_that_comes_in_whose_job_waits_for_the_release(
    at: Hosted, store: HeldStore
) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    first_is_there, complete = threading.Event(), threading.Event()

    def parts() -> Iterator[admin_pb2.ImportUrisRequest]:
        yield admin_pb2.ImportUrisRequest(crawl="t", entries=[entry(f"{A}one")])
        first_is_there.set()
        assert complete.wait(TIMEOUT_S)
        yield admin_pb2.ImportUrisRequest(entries=[entry(f"{A}two")], complete=True)

    call: Any = stubs.admin.ImportUris.future(parts(), timeout=TIMEOUT_S)
    eventually(lambda: stubs.ask("ListJobs", "t").jobs[-1].kind == "import", "the import to begin")
    assert first_is_there.wait(TIMEOUT_S)
    assert stubs.request("t", HOLD).state == crawl_pb2.CRAWL_STATE_PAUSING
    complete.set()
    job = call.result(timeout=TIMEOUT_S).job
    eventually(lambda: stubs.describe("t").status.held)
    with still(at, store):
        assert stubs.ask("GetJob", "t", job=job.job).job.state == admin_pb2.JOB_STATE_RUNNING
    stubs.request("t", PAUSE)
    assert stubs.ended("t", job.job).state == admin_pb2.JOB_STATE_DONE
    assert stubs.statistics("t").discovered_count == 3


def entry(uri: str) -> admin_pb2.ImportEntry:
    return admin_pb2.ImportEntry(candidate=frontier_pb2.Candidate(uri=uri, path="L"))


@pytest.mark.parametrize("before", ["RUNNING", "EMPTY", "PAUSED"])
def test_a_crawl_with_nothing_in_flight_is_held_at_once(at: Hosted, before: str) -> None:
    stubs = at.stubs
    stubs.launch("t", A, of=spec(run_while_empty=True))
    if before == "EMPTY":
        stubs.finish(*(report(lease) for lease in stubs.pages("t")))
    elif before == "PAUSED":
        stubs.request("t", PAUSE)
    state = crawl_pb2.CrawlState.Name(stubs.describe("t").status.state)
    assert state == f"CRAWL_STATE_{before}"
    hold(stubs)
    ways = [] if before == "PAUSED" else ["PAUSING"]
    words = [word for word in told(stubs) if word != "statistics"]
    assert words[words.index("by hold") :] == (
        ["by hold", "held"] if before == "PAUSED" else ["by hold", *ways, "PAUSED", "held"]
    )


# How it is released.


@pytest.mark.parametrize(
    ("target", "follows"),
    [
        (RUN, ["by resume", "released", "RUNNING"]),
        (PAUSE, ["by pause", "released"]),
        (FINISH, ["by stop", "released", "STOPPING", "FINISHED"]),
    ],
)
def test_any_other_state_that_is_asked_for_releases_it(
    at: Hosted, page: frontier_pb2.Lease, target: crawl_pb2.TargetState.ValueType, follows: list[str]
) -> None:
    stubs = at.stubs
    status = stubs.request("t", target)
    assert not status.held and not stubs.describe("t").status.held
    words = told(stubs)
    assert [word for word in words[words.index("held") + 1 :] if word != "node_left"] == follows
    if target == FINISH:
        refused(lambda: stubs.schedule("t", f"{A}late"), PRECONDITION, "CRAWL_FINISHED")
    else:
        assert stubs.schedule("t", f"{A}late") == ["QUEUED"]


def test_a_teardown_releases_it_and_is_completed(at: Hosted, page: frontier_pb2.Lease) -> None:
    stubs = at.stubs
    assert stubs.ask("TearDownCrawl", "t").begun
    eventually(lambda: stubs.describe("t").status.torn_down)
    words = told(stubs)
    assert [word for word in words[words.index("held") + 1 :] if word != "node_left"] == [
        *("by teardown", "released", "STOPPING", "FINISHED", "torn_down")
    ]


def test_a_crawl_goes_on_where_it_was_held(at: Hosted, page: frontier_pb2.Lease) -> None:
    stubs = at.stubs
    stubs.request("t", RUN)
    fetched: list[str] = []
    while stubs.describe("t").status.state != crawl_pb2.CRAWL_STATE_FINISHED:
        leases = stubs.pages("t")
        fetched += [lease.uri for lease in leases]
        stubs.finish(*(report(lease) for lease in leases))
    assert sorted(fetched) == [f"{A}more", B]
    assert stubs.statistics("t").succeeded_count == 3


def test_who_waits_for_a_lease_of_a_crawl_that_is_held_hears_of_it_at_once(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    stubs.launch("u", B)
    (lease,) = stubs.pages("t")
    waiting: Any = stubs.frontier.Next.future(next_request("t", wait_s=60, node="waits"), timeout=70)
    eventually(lambda: at.served.runner.waiting, "a node that waits")
    stubs.request("t", HOLD)
    assert waiting.result(timeout=TIMEOUT_S).empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
    stubs.finish(released(lease))
    assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_PAUSED


def test_a_crawl_may_be_held_and_released_again_and_again(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    for number in range(5):
        hold(stubs)
        refused(lambda: stubs.schedule("t", f"{A}x"), UNAVAILABLE, "CRAWL_HELD")
        stubs.request("t", RUN)
        assert stubs.schedule("t", f"{A}{number}") == ["QUEUED"]
    words = [word for word in told(stubs) if word != "statistics"]
    once = ["by hold", "PAUSING", "PAUSED", "held", "by resume", "released", "RUNNING"]
    assert words[words.index("by hold") :] == list(itertools.chain.from_iterable([once] * 5))


def test_a_hold_is_refused_where_nothing_can_be_paused(at: Hosted) -> None:
    stubs = at.stubs
    stubs.create("t", spec())
    stubs.seed("t", seed_of("t"))
    problem = refused(lambda: stubs.request("t", HOLD), PRECONDITION, "ILLEGAL_STATE", "NASCENT")
    assert problem.metadata["state"] == "NASCENT"
    stubs.request("t", FINISH)
    refused(lambda: stubs.request("t", HOLD), PRECONDITION, "ILLEGAL_STATE", "FINISHED")
    assert not stubs.describe("t").status.held
