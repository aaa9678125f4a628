"""Below the disk reserve nothing more is taken in; everything that ends work goes on."""

from collections.abc import Iterator

import grpc
import pytest
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Refusal,
    Stubs,
    refused,
    report,
    schedule_request,
    seed_of,
)
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

MORE_THAN_ANY_DISK = ("--disk-reserve-mib", str(2**40))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stubs, frontier_pb2.Lease]]:
    """A crawl with a page out and more to do, on a server that has run out of disk since."""
    data = tmp_path_factory.mktemp("full") / "data"
    with ServerProcess(data, "--disk-reserve-mib", "0") as server:
        server.stubs.launch("t", seed_of("t"))
        (lease,) = server.stubs.pages("t")
        server.stubs.schedule("t", f"{lease.uri}more")
        server.stop()
    with ServerProcess(data, *MORE_THAN_ANY_DISK) as server:
        yield server.stubs, lease


def offer(stubs: Stubs) -> grpc.StatusCode | None:
    try:
        stubs.schedule("t", seed_of("t"))
    except grpc.RpcError as problem:
        return Refusal.of(problem).code
    return None


def test_schedule_is_refused_with_when_to_come_back(full: tuple[Stubs, frontier_pb2.Lease]) -> None:
    stubs, lease = full
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    eventually(lambda: offer(stubs) == exhausted, "the server does not look at its disk")
    request = schedule_request("t", f"{lease.uri}new")
    problem = refused(
        lambda: stubs.frontier.Schedule(request, timeout=TIMEOUT_S), exhausted, "DISK_RESERVE", "disk"
    )
    assert problem.retry_s is not None and problem.retry_s >= 1
    assert stubs.statistics("t").discovered_count == 2


def test_seeds_are_refused_too(full: tuple[Stubs, frontier_pb2.Lease]) -> None:
    stubs, _ = full
    eventually(lambda: offer(stubs) is not None, "the server does not look at its disk")
    before = stubs.describe("t").seed_count
    request = admin_pb2.AddSeedsRequest(crawl="t", uris=["https://www.example.com/"])
    refused(
        lambda: stubs.admin.AddSeeds(iter([request]), timeout=TIMEOUT_S),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "DISK_RESERVE",
        "disk",
    )
    assert stubs.describe("t").seed_count == before


def test_what_ends_work_and_what_looks_at_it_goes_on(full: tuple[Stubs, frontier_pb2.Lease]) -> None:
    stubs, lease = full
    eventually(lambda: offer(stubs) is not None, "the server does not look at its disk")
    assert not stubs.heartbeat([lease.token]).ended_tokens
    assert stubs.request("t", PAUSE).state == crawl_pb2.CRAWL_STATE_PAUSING
    assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
    assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_PAUSED
    refused(lambda: stubs.request("t", RUN), grpc.StatusCode.RESOURCE_EXHAUSTED, "DISK_RESERVE", "disk")
    assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_PAUSED
    assert stubs.statistics("t").succeeded_count == 1
    assert len(stubs.queues("t")) == 1
    assert stubs.request("t", FINISH).state == crawl_pb2.CRAWL_STATE_FINISHED
    assert stubs.events("t")[-1].status_changed.state == crawl_pb2.CRAWL_STATE_FINISHED
