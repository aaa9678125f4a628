"""What operators see of the shards themselves: what each has to do and takes, and which are away."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import PAUSE, Stubs, fresh_name, refused, report
from frontier_harness.console import ConsoleProcess, told
from frontier_harness.members import members
from frontier_harness.metrics import Page, page_at
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2
from toehold_cli.main import run

AWAY = "shard 1 is away"
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A frontier of three shards with metrics."""
    data = tmp_path_factory.mktemp("loads") / "data"
    with ServerProcess(data, "--shards", "3", "--metrics", "127.0.0.1:0") as server:
        yield server


@pytest.fixture
def stubs(server: ServerProcess) -> Stubs:
    return server.stubs


@pytest.fixture
def crawl(stubs: Stubs, sites: list[str]) -> str:
    """A crawl that runs, with a page of each of twelve sites."""
    crawl = fresh_name()
    stubs.launch(crawl, *sites)
    return crawl


def shards_of(stubs: Stubs) -> list[admin_pb2.Shard]:
    return list(stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest()).shards)


def metrics_of(server: ServerProcess) -> Page:
    lines = [json.loads(line) for line in server.errors.read_text().splitlines() if line.startswith("{")]
    return page_at(next(line["metrics"] for line in lines if "metrics" in line))


@pytest.fixture(scope="module")
def page_of_console(
    server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(server.address, tmp_path_factory.mktemp("console")) as console:
        yield console


def looked(console: ConsoleProcess, crawl: str) -> Any:
    """A look of the console at a crawl."""
    with told(console.http, f"/console/crawls/{crawl}/live") as events:
        return next(event.content for event in events if event.kind == "look")


@contextmanager
def without_shard(server: ServerProcess, number: int) -> Iterator[None]:
    """A context in which a shard does not answer, as its front knows."""
    process = members(server.child)[f"shard-{number}"]
    os.kill(process, signal.SIGSTOP)
    try:
        eventually(lambda: not shards_of(server.stubs)[number].present, "its absence")
        yield
    finally:
        os.kill(process, signal.SIGCONT)
        eventually(lambda: shards_of(server.stubs)[number].present, "its return")


def test_each_shard_tells_what_it_has_and_takes(server: ServerProcess, stubs: Stubs, crawl: str) -> None:
    leases = eventually(lambda: stubs.next(crawl, node="n", wait_s=1).leases, "leases")
    shards = shards_of(stubs)
    assert [(each.shard, each.present) for each in shards] == [(0, True), (1, True), (2, True)]
    assert sum(each.queued_count for each in shards) == stubs.statistics(crawl).queued_count == 12
    assert sum(each.leased_count for each in shards) == len(leases)
    assert all(each.memory_bytes > 10_000_000 and each.store_bytes > 1_000 for each in shards)
    assert all(0 < each.busy_core_count < 2 for each in shards)
    stubs.finish(*(report(lease) for lease in leases))
    assert sum(each.finished_per_second for each in shards_of(stubs)) > 0


def test_metrics_have_a_series_for_each_shard_and_the_sums_of_all(
    server: ServerProcess, stubs: Stubs, crawl: str
) -> None:
    leases = eventually(lambda: stubs.next(crawl, node="n", wait_s=1).leases, "leases")

    def heard() -> Page | None:
        """The metrics, once the front has heard of the leases."""
        page = metrics_of(server)
        return page if page.of("toehold_frontier_leases") == len(leases) else None

    page = eventually(heard, "all leases among the metrics")
    nodes = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest()).nodes
    assert page.of("toehold_frontier_nodes", presence="PRESENT") == len(nodes) > 0
    assert page.sum("toehold_frontier_shard_leases") == len(leases)
    assert page.of("toehold_frontier_hosts") >= 12
    assert page.of("toehold_frontier_crawl_uris", crawl=crawl, place="queued") == 12
    assert page.sum("toehold_frontier_shard_queued_uris") >= 12
    for number in ("0", "1", "2"):
        assert page.of("toehold_frontier_shard_present", shard=number) == 1
        assert page.of("toehold_frontier_shard_cpu_seconds_total", shard=number) > 0
        assert page.of("toehold_frontier_shard_resident_bytes", shard=number) > 10_000_000
    stubs.finish(*(report(lease) for lease in leases))
    done = "toehold_frontier_shard_fetches_total"
    assert metrics_of(server).sum(done) - page.sum(done) == len(leases)


def test_a_shard_that_is_away_is_named_wherever_somebody_looks(
    server: ServerProcess,
    stubs: Stubs,
    crawl: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    page_of_console: ConsoleProcess,
) -> None:
    monkeypatch.setenv("TOEHOLD_FRONTIER", server.address)

    def toehold(*arguments: str) -> str:
        assert run(arguments) == 0
        return " ".join(capsys.readouterr().out.split())

    assert AWAY not in toehold("status", "--crawl", crawl)
    with without_shard(server, 1):
        assert [each.present for each in shards_of(stubs)] == [True, False, True]
        page = metrics_of(server)
        assert page.of("toehold_frontier_shard_present", shard="1") == 0
        assert page.of("toehold_frontier_shard_present", shard="2") == 1
        assert AWAY in toehold("status", "--crawl", crawl)
        assert AWAY in toehold("watch", "--once", "--crawl", crawl)
        assert AWAY in toehold("explain", "--crawl", crawl)
        assert "1 away" in toehold("nodes")
        look = looked(page_of_console, crawl)
        assert [each["present"] for each in look["shards"]] == [True, False, True]
        assert look["why"].startswith(AWAY)
        assert any(AWAY in each["text"] for each in look["problems"])
        # The front serves: a load balancer sends it calls, and the other shards answer them.
        assert "serving" in toehold("health")
    assert "1 present" in toehold("nodes")
    assert AWAY not in toehold("status", "--crawl", crawl)


def test_shards_and_crawls_are_listed_although_all_shards_are_away(
    server: ServerProcess, stubs: Stubs, crawl: str
) -> None:
    """As after a suspended machine: whoever looks why nothing goes on finds out."""
    with ExitStack() as stack:
        for number in (0, 1, 2):
            os.kill(process := members(server.child)[f"shard-{number}"], signal.SIGSTOP)
            stack.callback(os.kill, process, signal.SIGCONT)
        eventually(lambda: server.errors.read_text().count('"shard_away"') >= 3, "their absence")
        found = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest())
        assert [(each.shard, each.present) for each in found.shards] == [(0, False), (1, False), (2, False)]
        assert crawl in [each.crawl for each in stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest()).crawls]
        drain = partial(stubs.admin.DrainNode, admin_pb2.DrainNodeRequest(node="n"))
        refused(drain, grpc.StatusCode.UNAVAILABLE, "SHARD_AWAY")
    eventually(lambda: all(each.present for each in shards_of(stubs)), "their return")


def test_the_console_has_a_line_for_each_shard(page_of_console: ConsoleProcess, crawl: str) -> None:
    shards = page_of_console.http.get("/console/nodes").json()["shards"]
    assert [(each["shard"], each["present"]) for each in shards] == [(0, True), (1, True), (2, True)]
    assert all(each["memory"] > 10_000_000 and each["disk"] > 1_000 for each in shards)
    assert [each["shard"] for each in looked(page_of_console, crawl)["shards"]] == [0, 1, 2]


def test_a_frontier_of_one_shard_lists_none(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--shards", "1") as server:
        assert shards_of(server.stubs) == []


def test_several_shards_are_read_without_changing_anything(tmp_path: Path, sites: list[str]) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, "--shards", "3") as server:
        server.stubs.launch("kept", *sites)
        eventually(lambda: server.stubs.statistics("kept").queued_count == 12, "the seeds")
        server.stop()
    before = contents(data)
    with ServerProcess(data, "--read-only") as server:
        assert all(each.present for each in shards_of(server.stubs))
        assert server.stubs.statistics("kept").queued_count == 12
        assert len(server.stubs.waiting("kept")) == 12
        refused(lambda: server.stubs.request("kept", PAUSE), PRECONDITION, "READ_ONLY")
        server.stop()
    assert contents(data) == before


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
