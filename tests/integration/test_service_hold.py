"""HOLD: a crawl that is held stands still, whatever is asked of it, until somebody releases it."""

from functools import partial
from pathlib import Path

import grpc
import pytest
from frontier_harness.calls import (
    HOLD,
    PAUSE,
    TIMEOUT_S,
    Stubs,
    named,
    refused,
    released,
    report,
    seconds,
    spec,
)
from frontier_harness.every_rpc import CHANGING, READING, ask
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.stillness import still
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
A, B = "http://a.example/", "http://b.example/"


@pytest.fixture
def page(at: Hosted) -> frontier_pb2.Lease:
    return held_page(at.stubs)


def held_page(stubs: Stubs) -> frontier_pb2.Lease:
    """Crawl `t` is held with a bit of everything: a page fetched, URIs that wait, a job, an override."""
    stubs.launch("t", A, B, of=spec(statistics_interval=seconds(1)))
    stubs.schedule("t", f"{A}more")
    stubs.ask("PutOverride", "t", override={"surt_prefix": B, "settings": {"retry": {"max_attempts": 3}}})
    stubs.job("t", verify={})
    leases = stubs.pages("t", least=2)
    fetched, other = sorted(leases, key=lambda lease: lease.uri)
    assert stubs.finish(report(fetched), released(other)) == [("SUCCEEDED", False), ("RELEASED", False)]
    hold(stubs)
    return fetched


def hold(stubs: Stubs) -> None:
    """Hold crawl `t`, and wait until it is."""
    stubs.request("t", HOLD)
    eventually(lambda: stubs.describe("t").status.held)


# What is asked while it is held.


def test_what_would_change_a_held_crawl_is_refused_with_when_to_come_back(
    at: Hosted, store: HeldStore, page: frontier_pb2.Lease
) -> None:
    with still(at, store):
        for rpc in CHANGING:
            problem = refused(partial(ask, at.stubs, rpc, "t"), UNAVAILABLE, "CRAWL_HELD", "'t'", "held")
            assert problem.retry_s is not None and 0 < problem.retry_s <= 10, rpc
            assert problem.metadata == {"crawl": "t", "state": "PAUSED"}, rpc
    at.stubs.request("t", PAUSE)
    ask(at.stubs, "UpdateCrawl", "t")


def test_what_only_looks_at_a_held_crawl_is_answered_and_writes_nothing(
    at: Hosted, store: HeldStore, page: frontier_pb2.Lease
) -> None:
    with still(at, store):
        for rpc in READING.keys() - {"StateEvents"}:
            ask(at.stubs, rpc, "t")
        request = frontier_pb2.StateEventsRequest(crawl="t", cursor="start")
        stream = at.stubs.frontier.StateEvents(request, timeout=TIMEOUT_S)  # which goes on
        assert next(stream).present.held
        stream.cancel()


# The last one is refused: the node is there.


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
        assert stubs.told("t")[-1] == "PAUSING"
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
    monkeypatch.setattr("frontier_server.logs.crawl_log.RETRY_S", 0.05)
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


# How it is released.
