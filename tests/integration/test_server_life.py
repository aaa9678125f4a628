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

from frontier_server.core.store import Family
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

A, B = "http://a.example/", "http://b.example/"


def told(stubs: Stubs) -> list[str]:
    """What happened to the crawl, in a word each, but for its statistics and nodes."""
    words = [named(event) for event in stubs.events_so_far("t")]
    return [word for word in words if word not in ("statistics", "node_joined", "node_left")]


def stored(data: Path) -> list[tuple[Family, bytes, bytes]]:
    """The rows of the crawl on the disk, none being served."""
    store = RocksStore(data / "store", read_only=True)
    try:
        return all_rows_of(store, 1)
    finally:
        store.close()


def files(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (data / "crawls" / "t").iterdir()}


def test_a_crawl_that_is_held_is_not_touched_by_kills_nor_by_starts_nor_by_a_checkpoint(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        stubs = server.stubs
        stubs.launch("t", A, B, of=spec(statistics_interval=seconds(1)))
        leases = stubs.pages("t")
        while len(leases) < 2:
            leases += stubs.pages("t")
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
        assert told(server.stubs)[-3:] == ["by resume", "released", "RUNNING"]
        assert server.stubs.schedule("t", f"{A}x") == ["QUEUED"]


def test_a_hold_that_was_under_way_is_reached_after_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", A)
        (lease,) = server.stubs.pages("t")
        server.stubs.request("t", HOLD)
        server.kill()
    with ServerProcess(data) as server:
        stubs = server.stubs
        assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_PAUSING
        assert list(stubs.heartbeat([lease.token]).release_tokens) == [lease.token]
        stubs.finish(released(lease))
        eventually(lambda: stubs.describe("t").status.held)
        assert told(stubs)[-4:] == ["by hold", "PAUSING", "PAUSED", "held"]


@pytest.mark.parametrize(("target", "bound"), [(PAUSE, "pause_timeout"), (FINISH, "stop_timeout")])
def test_bounds_hold_through_a_kill_and_count_from_the_request(
    tmp_path: Path, target: crawl_pb2.TargetState.ValueType, bound: str
) -> None:
    """Every lease gets a fresh period with the start of the server; a wait does not."""
    data = tmp_path / "data"
    with ServerProcess(data, "--lease-seconds", "60") as server:
        server.stubs.launch("t", A, of=spec(pause_timeout=seconds(2), stop_timeout=seconds(2)))
        server.stubs.pages("t")
        server.stubs.request("t", target)
        server.kill()
    with ServerProcess(data, "--lease-seconds", "60") as server:
        stubs = server.stubs
        paused, finished = crawl_pb2.CRAWL_STATE_PAUSED, crawl_pb2.CRAWL_STATE_FINISHED
        stubs.until("t", paused if target == PAUSE else finished)
        (cancelled,) = [event for event in stubs.events_so_far("t") if event.HasField("flights_cancelled")]
        assert cancelled.flights_cancelled.bound == bound
        asked = next(event for event in stubs.events_so_far("t") if named(event) in ("PAUSING", "STOPPING"))
        waited_ms = cancelled.event_time.ToMilliseconds() - asked.event_time.ToMilliseconds()
        assert waited_ms >= 2_000


def test_settings_and_pool_sizes_hold_through_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", A)
        changed = server.stubs.ask("UpdateCrawl", "t", spec=crawl_pb2.CrawlSpec(max_toes=3, weight=7)).crawl
        sizes = admin_pb2.SetPoolSizeRequest(size=0), admin_pb2.SetPoolSizeRequest(node="one", size=5)
        for size in sizes:
            server.stubs.admin.SetPoolSize(size, timeout=TIMEOUT_S)
        server.kill()
    with ServerProcess(data) as server:
        assert server.stubs.describe("t") == changed
        assert (changed.spec.max_toes, changed.spec.weight) == (3, 7)
        assert server.stubs.heartbeat(node="one").pool_size == 5
        other = server.stubs.heartbeat(node="other")
        assert other.HasField("pool_size") and other.pool_size == 0


@pytest.mark.parametrize("when", ["what is out", "its log"])
def test_a_teardown_that_was_under_way_is_completed_after_a_kill_though_nobody_asks_again(
    tmp_path: Path, when: str
) -> None:
    """S0.26."""
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        stubs = server.stubs
        stubs.launch("t", A)
        (lease,) = stubs.pages("t")
        stubs.schedule("t", f"{A}more")
        if when == "its log":
            stubs.finish(report(lease))
        assert stubs.ask("TearDownCrawl", "t").begun
        server.kill()
    with ServerProcess(data) as server:
        stubs = server.stubs
        if when == "what is out":
            assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_STOPPING
            assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
        eventually(lambda: stubs.describe("t").status.torn_down)
        assert told(stubs)[-4:] == ["by teardown", "STOPPING", "FINISHED", "torn_down"]
        assert not stubs.ask("TearDownCrawl", "t").begun
        server.kill()
    with ServerProcess(data) as server:
        assert server.stubs.describe("t").status.torn_down
        assert told(server.stubs).count("torn_down") == 1
        assert server.stubs.statistics("t").succeeded_count == 1


def test_a_second_stop_is_remembered_through_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", A)
        (lease,) = server.stubs.pages("t")
        for _ in range(2):
            server.stubs.request("t", FINISH)
        server.kill()
    with ServerProcess(data) as server:
        assert list(server.stubs.heartbeat([lease.token]).interrupt_tokens) == [lease.token]
        status = crawl_pb2.FETCH_STATUS_PROCESSING_THREAD_KILLED
        assert server.stubs.finish(report(lease, status)) == [("FAILED", False)]
        server.stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)


def test_what_a_pause_was_for_is_known_after_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", A, B)
        (lease,) = server.stubs.pages("t", most=1)
        server.stubs.finish(report(lease, crawl_pb2.FETCH_STATUS_SERIOUS_ERROR))
        server.stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
        status = server.stubs.describe("t").status
        server.kill()
    assert status.reason
    with ServerProcess(data) as server:
        assert server.stubs.describe("t").status == status
        assert server.stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
