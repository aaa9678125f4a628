"""Below the disk reserve crawls pause and nothing more is taken in; everything that ends work goes on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Refusal,
    Stubs,
    candidates,
    refused,
    released,
    report,
    schedule_request,
    seed_of,
    spec,
)
from frontier_harness.divided import settled
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from frontier_server.core.machines.lifecycle import Input
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

MORE_THAN_ANY_DISK = ("--disk-reserve-mib", str(2**40))
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stubs, frontier_pb2.Lease]]:
    """A crawl with a page out and more to do, on a server that has run out of disk since.

    Crawl `nascent` waits for its launch, `paused` was paused before.
    """
    data = tmp_path_factory.mktemp("full") / "data"
    with ServerProcess(data, "--disk-reserve-mib", "0") as server:
        server.stubs.launch("t", seed_of("t"))
        (lease,) = server.stubs.pages("t")
        server.stubs.schedule("t", f"{lease.uri}more")
        server.stubs.create("nascent")
        server.stubs.seed("nascent", seed_of("nascent"))
        server.stubs.launch("paused", seed_of("paused"))
        server.stubs.request("paused", PAUSE)
        server.stop()
    with ServerProcess(data, *MORE_THAN_ANY_DISK) as server:
        stubs = server.stubs
        eventually(lambda: offer(stubs) == EXHAUSTED, "the server to look at its disk")
        yield stubs, lease


def offer(stubs: Stubs) -> grpc.StatusCode | None:
    try:
        stubs.schedule("t", seed_of("t"))
    except grpc.RpcError as problem:
        return Refusal.of(problem).code
    return None


def test_schedule_is_refused_with_when_to_come_back(full: tuple[Stubs, frontier_pb2.Lease]) -> None:
    stubs, lease = full
    request = schedule_request("t", f"{lease.uri}new")
    problem = refused(
        lambda: stubs.frontier.Schedule(request, timeout=TIMEOUT_S), EXHAUSTED, "DISK_RESERVE", "disk"
    )
    assert problem.retry_s is not None and problem.retry_s >= 1
    assert stubs.statistics("t").discovered_count == 2


# What needs room.
TAKING: dict[str, Callable[[Stubs], object]] = {
    "AddSeeds": lambda stubs: stubs.seed("t", "https://www.example.com/"),
    "NoteUris": lambda stubs: stubs.ask("NoteUris", "t", uris=["http://t.example/noted"]),
    "ImportUris": lambda stubs: stubs.bring(
        "t", admin_pb2.ImportEntry(candidate=candidates("http://t.example/new")[0])
    ),
    "LaunchCrawl": lambda stubs: stubs.ask("LaunchCrawl", "nascent"),
    "RequestState of one that runs": lambda stubs: stubs.request("t", RUN),
    "RequestState of one that is paused": lambda stubs: stubs.request("paused", RUN),
    "CreateCheckpoint": lambda stubs: stubs.admin.CreateCheckpoint(
        admin_pb2.CreateCheckpointRequest(), timeout=TIMEOUT_S
    ),
}


@pytest.mark.parametrize("rpc", TAKING)
def test_what_needs_room_is_refused_and_changes_nothing(
    full: tuple[Stubs, frontier_pb2.Lease], rpc: str
) -> None:
    stubs, _ = full
    listing = admin_pb2.ListCrawlsRequest()
    eventually(lambda: stubs.describe("t").status.reason, "the pause")
    before = stubs.admin.ListCrawls(listing, timeout=TIMEOUT_S)
    problem = refused(lambda: TAKING[rpc](stubs), EXHAUSTED, "DISK_RESERVE", "disk")
    assert problem.retry_s is not None and problem.retry_s >= 1
    assert stubs.admin.ListCrawls(listing, timeout=TIMEOUT_S) == before


def test_what_ends_work_and_what_looks_at_it_goes_on(full: tuple[Stubs, frontier_pb2.Lease]) -> None:
    stubs, lease = full
    assert not stubs.heartbeat([lease.token]).ended_tokens
    eventually(lambda: stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_PAUSING, "the pause")
    assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
    assert stubs.request("t", PAUSE).state == crawl_pb2.CRAWL_STATE_PAUSING
    assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
    settled(lambda: stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_PAUSED)
    paused = stubs.describe("t").status
    assert paused.exit_status == crawl_pb2.EXIT_STATUS_PAUSED
    assert "free on the frontier's disk" in paused.reason
    assert stubs.statistics("t").succeeded_count == 1
    assert len(stubs.queues("t")) == 1
    assert [waiting.candidate.uri for waiting in stubs.ask("ListUris", "t").uris] == [f"{lease.uri}more"]
    assert stubs.ask("UpdateCrawl", "t", spec=crawl_pb2.CrawlSpec(weight=2)).crawl.spec.weight == 2
    assert stubs.request("t", crawl_pb2.TARGET_STATE_HOLD).state == crawl_pb2.CRAWL_STATE_PAUSED
    eventually(lambda: stubs.describe("t").status.held)
    assert stubs.request("t", PAUSE).state == crawl_pb2.CRAWL_STATE_PAUSED
    assert stubs.request("t", FINISH).state == crawl_pb2.CRAWL_STATE_FINISHED
    assert stubs.events("t")[-1].status_changed.state == crawl_pb2.CRAWL_STATE_FINISHED
    assert stubs.request("t", FINISH).state == crawl_pb2.CRAWL_STATE_FINISHED
    assert not stubs.describe("t").status.reason
    assert stubs.ask("TearDownCrawl", "t").begun
    eventually(lambda: stubs.describe("t").status.torn_down)
    stubs.ask("DeleteCrawl", "t")
    refused(lambda: stubs.describe("t"), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL")


def test_a_crawl_that_was_paused_by_somebody_is_left_as_it_was(
    full: tuple[Stubs, frontier_pb2.Lease],
) -> None:
    stubs, _ = full
    status = stubs.describe("paused").status
    assert (status.state, status.reason) == (crawl_pb2.CRAWL_STATE_PAUSED, "")
    assert stubs.describe("nascent").status.state == crawl_pb2.CRAWL_STATE_NASCENT


# A disk that gets full and has room again, in the test's process.


class Disk:
    """How full the disk is, as the server sees it."""

    full = False

    def statvfs(self, path: Path) -> Any:
        return SimpleNamespace(f_bavail=0 if self.full else 2**30, f_frsize=4096)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr("frontier_server.shell.runner.os", SimpleNamespace(statvfs=made.statvfs))
    monkeypatch.setattr("frontier_server.shell.runner.WATCH_EVERY_S", 0.01)
    return made


@pytest.fixture
def at(disk: Disk, tmp_path: Path) -> Iterator[Hosted]:
    """A frontier on such a disk."""
    with hosted(MemoryStore(), tmp_path, disk_reserve_bytes=2**20) as made:
        yield made


def refuses(stubs: Stubs) -> bool:
    """Whether anything is taken in."""
    return offer(stubs) == EXHAUSTED


def told(stubs: Stubs) -> list[str]:
    """What happened to the crawl since it ran first, but for its statistics and its nodes."""
    words = stubs.told("t")
    return words[words.index("RUNNING") + 1 :]


def test_crawls_pause_when_the_disk_gets_full_and_are_resumed_only_when_there_is_room(
    at: Hosted, disk: Disk
) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"))
    (lease,) = stubs.pages("t")
    disk.full = True
    stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSING)
    stubs.finish(released(lease))
    paused = stubs.describe("t").status
    assert paused.state == crawl_pb2.CRAWL_STATE_PAUSED
    assert paused.reason == "less than 1 MiB is free on the frontier's disk; make room, then resume"
    (problem,) = [event.problem for event in stubs.events_so_far("t") if event.HasField("problem")]
    assert (problem.kind, problem.detail) == ("disk-reserve", paused.reason)
    assert told(stubs) == ["problem", "PAUSING", "PAUSED"]
    refused(lambda: stubs.request("t", RUN), EXHAUSTED, "DISK_RESERVE", "disk")
    disk.full = False
    eventually(lambda: not refuses(stubs), "candidates to be taken in, as there is room")
    assert stubs.describe("t").status == paused  # it waits for somebody to resume it
    assert stubs.request("t", RUN).state == crawl_pb2.CRAWL_STATE_RUNNING
    assert not stubs.describe("t").status.reason
    assert [page.uri for page in stubs.pages("t")] == [lease.uri]
    assert told(stubs) == ["problem", "PAUSING", "PAUSED", "by resume", "RUNNING"]


def test_a_disk_that_gets_full_again_and_again_is_told_each_time(at: Hosted, disk: Disk) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"))
    for _ in range(3):
        disk.full = True
        stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
        disk.full = False
        eventually(lambda: not refuses(stubs), "candidates to be taken in, as there is room")
        stubs.request("t", RUN)
    assert told(stubs) == ["problem", "PAUSING", "PAUSED", "by resume", "RUNNING"] * 3


def test_a_crawl_that_somebody_has_paused_gets_no_reason_from_a_full_disk(at: Hosted, disk: Disk) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"))
    stubs.request("t", PAUSE)
    disk.full = True
    eventually(lambda: refuses(stubs), "the server to look at its disk")
    assert not stubs.describe("t").status.reason
    assert told(stubs) == ["by pause", "PAUSING", "PAUSED"]


def test_what_is_full_before_a_crawl_comes_to_run_pauses_it_as_soon_as_it_does(
    at: Hosted, disk: Disk
) -> None:
    """It was launched while there was room, and its seeds took their time."""
    stubs = at.stubs
    stubs.create("t", spec(pause_at_start=True))
    stubs.seed("t", seed_of("t"))
    stubs.ask("LaunchCrawl", "t")
    stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
    disk.full = True
    eventually(lambda: refuses(stubs), "the server to look at its disk")
    resume = at.served.runner.run(lambda f, now: f.control.request_state("t", Input.RESUME, now))
    at.wait(resume)  # as one that came just before the disk was looked at
    status = stubs.describe("t").status
    assert status.state == crawl_pb2.CRAWL_STATE_PAUSED and "free on the frontier's disk" in status.reason
    assert not stubs.next("t").leases


def test_a_restart_on_a_full_disk_pauses_what_ran_and_one_with_room_leaves_it_paused(
    disk: Disk, tmp_path: Path
) -> None:
    store = MemoryStore()
    with hosted(store, tmp_path, disk_reserve_bytes=2**20) as at:
        at.stubs.launch("t", seed_of("t"))
    disk.full = True
    with hosted(store, tmp_path, disk_reserve_bytes=2**20) as at:
        at.stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
    disk.full = False
    with hosted(store, tmp_path, disk_reserve_bytes=2**20) as at:
        status = at.stubs.describe("t").status
        assert status.state == crawl_pb2.CRAWL_STATE_PAUSED and "free on the frontier's disk" in status.reason
        assert at.stubs.request("t", RUN).state == crawl_pb2.CRAWL_STATE_RUNNING
        assert told(at.stubs) == ["problem", "PAUSING", "PAUSED", "by resume", "RUNNING"]
