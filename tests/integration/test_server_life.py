"""A crawl's life through `kill -9` of the server: what was acknowledged holds, what was begun is done."""

from functools import partial
from pathlib import Path

import grpc
import pytest
from core_doubles.rows import all_rows_of
from frontier_harness.calls import (
    FINISH,
    HOLD,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Stubs,
    named,
    refused,
    released,
    report,
    seconds,
    spec,
)
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from frontier_server.core.rows.store import Family
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

A, B = "http://a.example/", "http://b.example/"


def stored(data: Path) -> list[tuple[Family, bytes, bytes]]:
    """The rows of the crawl on the disk, none being served."""
    store = RocksStore(data / "store", read_only=True)
    try:
        return all_rows_of(store, 1)
    finally:
        store.close()


def files(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (data / "crawls" / "t").iterdir()}


@pytest.mark.undivided("looks into the store")
def test_a_crawl_that_is_held_is_not_touched_by_kills_nor_by_starts_nor_by_a_checkpoint(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        stubs = server.stubs
        stubs.launch("t", A, B, of=spec(statistics_interval=seconds(1)))
        leases = stubs.pages("t", least=2)
        stubs.schedule("t", f"{A}more")
        stubs.finish(report(leases[0]), released(leases[1]))
        stubs.request("t", HOLD)
        eventually(lambda: stubs.describe("t").status.held)
        before = stubs.describe("t"), stubs.events_so_far("t")
        server.kill()
    rows, written = stored(data), files(data)
    for ending in (ServerProcess.kill, ServerProcess.stop, ServerProcess.kill):
        with ServerProcess(data) as server:
            stubs = server.stubs
            assert (stubs.describe("t"), stubs.events_so_far("t")) == before
            refused(partial(stubs.schedule, "t", f"{A}x"), grpc.StatusCode.UNAVAILABLE, "CRAWL_HELD")
            stubs.admin.CreateCheckpoint(admin_pb2.CreateCheckpointRequest(), timeout=TIMEOUT_S)
            assert (stubs.describe("t"), stubs.events_so_far("t")) == before
            ending(server)
        assert (stored(data), files(data)) == (rows, written)
    with ServerProcess(data) as server:
        assert not server.stubs.request("t", RUN).held
        assert server.stubs.told("t")[-3:] == ["by resume", "released", "RUNNING"]
        assert server.stubs.schedule("t", f"{A}x") == ["QUEUED"]


def test_what_was_under_way_goes_on_after_a_kill(tmp_path: Path) -> None:
    """S0.26: pauses, ends, holds and teardowns; and what was set holds."""
    data = tmp_path / "data"
    bounded = spec(pause_timeout=seconds(2), stop_timeout=seconds(2))
    with ServerProcess(data, "--lease-seconds", "60") as server:
        stubs = server.stubs
        for size in (admin_pb2.SetPoolSizeRequest(size=0), admin_pb2.SetPoolSizeRequest(node="one", size=5)):
            stubs.admin.SetPoolSize(size, timeout=TIMEOUT_S)
        pages = {
            crawl: launched(stubs, crawl, bounded if crawl in BOUNDS else spec())
            for crawl in (*BOUNDS, "holding", "interrupted", "failing", "torn", "torn-for-its-log")
        }
        for crawl in BOUNDS:
            stubs.request(crawl, PAUSE if crawl == "pausing" else FINISH)
        stubs.request("holding", HOLD)
        for _ in range(2):
            stubs.request("interrupted", FINISH)
        stubs.finish(report(pages["failing"], crawl_pb2.FETCH_STATUS_SERIOUS_ERROR))
        stubs.until("failing", crawl_pb2.CRAWL_STATE_PAUSED)
        failing = stubs.describe("failing")
        assert failing.status.reason
        stubs.finish(report(pages["torn-for-its-log"]))
        for crawl in ("torn", "torn-for-its-log"):
            assert stubs.ask("TearDownCrawl", crawl).begun
        stubs.launch("set", "http://set.example/")
        changed = stubs.ask("UpdateCrawl", "set", spec=crawl_pb2.CrawlSpec(max_toes=3, weight=7)).crawl
        server.kill()
    with ServerProcess(data, "--lease-seconds", "60") as server:
        stubs = server.stubs
        check_bounds(stubs)
        assert list(stubs.heartbeat([pages["holding"].token]).release_tokens) == [pages["holding"].token]
        stubs.finish(released(pages["holding"]))
        eventually(lambda: stubs.describe("holding").status.held)
        assert stubs.told("holding")[-4:] == ["by hold", "PAUSING", "PAUSED", "held"]
        interrupted = pages["interrupted"]
        assert list(stubs.heartbeat([interrupted.token]).interrupt_tokens) == [interrupted.token]
        assert stubs.finish(report(interrupted, THREAD_KILLED)) == [("FAILED", False)]
        stubs.until("interrupted", crawl_pb2.CRAWL_STATE_FINISHED)
        assert stubs.describe("failing") == failing
        assert stubs.next("failing").empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
        assert stubs.describe("set") == changed
        assert (changed.spec.max_toes, changed.spec.weight) == (3, 7)
        assert stubs.heartbeat(node="one").pool_size == 5
        other = stubs.heartbeat(node="other")
        assert other.HasField("pool_size") and other.pool_size == 0
        assert stubs.describe("torn").status.state == crawl_pb2.CRAWL_STATE_STOPPING
        assert stubs.finish(report(pages["torn"])) == [("SUCCEEDED", False)]
        check_torn_down(stubs)
        server.kill()
    with ServerProcess(data) as server:
        check_torn_down(server.stubs)


BOUNDS = {"pausing": "pause_timeout", "stopping": "stop_timeout"}
THREAD_KILLED = crawl_pb2.FETCH_STATUS_PROCESSING_THREAD_KILLED


def launched(stubs: Stubs, crawl: str, settings: crawl_pb2.CrawlSpec) -> frontier_pb2.Lease:
    """Launch a crawl of one host; its first page, with another behind it."""
    seed = f"http://{crawl}.example/"
    stubs.launch(crawl, seed, of=settings)
    (lease,) = stubs.pages(crawl)
    stubs.schedule(crawl, f"{seed}more")
    return lease


def check_bounds(stubs: Stubs) -> None:
    """Assert that a bound counts from the request, though every lease gets a fresh period with a start."""
    stubs.until("pausing", crawl_pb2.CRAWL_STATE_PAUSED)
    stubs.until("stopping", crawl_pb2.CRAWL_STATE_FINISHED)
    for crawl, bound in BOUNDS.items():
        at_ms = {named(event): event.event_time.ToMilliseconds() for event in stubs.events_so_far(crawl)}
        (cancelled,) = [
            e.flights_cancelled for e in stubs.events_so_far(crawl) if e.HasField("flights_cancelled")
        ]
        assert cancelled.bound == bound
        assert at_ms["flights_cancelled"] - at_ms[crawl.upper()] >= 2_000


def check_torn_down(stubs: Stubs) -> None:
    """Assert that both teardowns are completed, though nobody asks again, and told once."""
    for crawl in ("torn", "torn-for-its-log"):
        eventually(lambda crawl=crawl: stubs.describe(crawl).status.torn_down)  # type: ignore[misc]  # a default binds it
        assert stubs.told(crawl)[-4:] == ["by teardown", "STOPPING", "FINISHED", "torn_down"]
        assert not stubs.ask("TearDownCrawl", crawl).begun
        assert stubs.statistics(crawl).succeeded_count == 1
