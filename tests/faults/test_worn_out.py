"""A node of several processes at pages that threads and processes do not survive: nothing is lost, nothing is
reported twice, and the node comes back to its size."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from acceptance.outcomes import LogLine, crawl_log, pages
from acceptance.programs import Program, Programs, until
from faults.finite_site import FiniteSite

from toehold.frontier.v1 import crawl_pb2
from toehold.node.v1 import node_pb2, node_pb2_grpc
from toehold_client import CrawlController, FrontierClient

CALL_S = 10.0
TOES, PROCESSES = 6, 2
LEASE_S = 2.0
HANG_S = 2.5
GOOD = [f"/{number}" for number in range(6)]

pytestmark = pytest.mark.timeout(110)


class Stage:
    """A frontier, a node of two processes with a hook, and a crawl of a site."""

    def __init__(self, programs: Programs, folder: Path, site: FiniteSite) -> None:
        self.site, self._programs, self._folder = site, programs, folder
        started = programs.frontier(
            folder / "data",
            *("--lease-seconds", str(LEASE_S), "--heartbeat-seconds", "0.2"),
        )
        self.address = started.address
        self.client = FrontierClient(self.address)

    def node(self, *options: str) -> Program:
        command = (*self.site.resolve, "--toes", str(TOES), "--processes", str(PROCESSES), *options)
        program = self._programs.node("node", self.address, self._folder / "warcs", *command)
        self.stub = node_pb2_grpc.NodeServiceStub(
            grpc.insecure_channel(program.said.strip().rpartition(" service at ")[2])
        )
        return program

    def crawl(self, **fetch: int) -> CrawlController:
        spec = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"])
        spec.politeness.min_delay.FromMilliseconds(0)
        spec.politeness.delay_factor = 0
        spec.fetch.timeout.FromSeconds(fetch.get("timeout_s", 60))
        spec.retry.delay.FromMilliseconds(100)
        controller = CrawlController(self.client, "stuck")
        controller.create(spec)
        controller.add_seeds(self.site.seeds)
        controller.launch()
        return controller

    def pool(self) -> node_pb2.GetPoolResponse:
        return self.stub.GetPool(node_pb2.GetPoolRequest(), timeout=CALL_S)

    def toes_at(self, ending: str) -> list[node_pb2.Toe]:
        answer = self.stub.ListToes(node_pb2.ListToesRequest(), timeout=CALL_S)
        return [toe for toe in answer.toes if toe.uri.endswith(ending) and not toe.abandoned]

    def outcomes(self) -> list[LogLine]:
        return pages(crawl_log(self._folder / "data" / "crawls" / "stuck" / "crawl.log"))

    def until_finished(self, within_s: float = 60.0) -> dict[str, int]:
        """The last status of each URL, once the crawl has finished; each has come to one end."""

        def finished() -> bool:
            return self.client.get_crawl("stuck").status.state == crawl_pb2.CRAWL_STATE_FINISHED

        until(finished, "the crawl's end", within_s)
        until(lambda: len({line.url for line in self.outcomes()}) >= len(self.site.urls), "the log")
        told = Counter(line.url for line in self.outcomes())
        assert {url for url, count in told.items() if count > 1} == set(), "twice"
        assert set(told) == self.site.urls, "each page, and nothing else"
        return {line.url: line.status for line in self.outcomes()}


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.chdir(Path(__file__).parents[1])  # where the hook is found
    hosts, nasty = request.param
    with FiniteSite(hosts, [*GOOD, *nasty]) as site, Programs(tmp_path) as programs:
        stage = Stage(programs, tmp_path, site)
        yield stage
        stage.client.close()


def good_ones(stage: Stage, statuses: dict[str, int]) -> list[int]:
    return sorted(status for url, status in statuses.items() if "-" not in url.rpartition("/")[2])


def fail(statuses: dict[str, int], ending: str) -> list[int]:
    return [status for url, status in statuses.items() if url.endswith(ending)]


@pytest.mark.parametrize("stage", [(2, ["/loop-in-python", "/ends-the-thread"])], indirect=True)
def test_threads_that_loop_or_die_are_replaced_and_so_is_the_process_that_they_were_left_behind_in(
    stage: Stage,
) -> None:
    """D12, S4.11, S4.13."""
    node = stage.node("--hook", "faults.stuck_hook:page", "--max-left-behind", "0")
    stage.crawl()
    died = 0
    for _ in stage.site.hosts:
        until(lambda: stage.toes_at("/loop-in-python"), "a thread that loops", 30.0)
        toe = stage.toes_at("/loop-in-python")[0]
        died = max(died, stage.pool().pool.died_count)
        kill = node_pb2.KillToeRequest(worker=toe.worker, serial=toe.serial, replace=True)
        stage.stub.KillToe(kill, timeout=CALL_S)
        until(lambda at=toe.uri: not stage.toes_at(at), "a thread to be left behind", 30.0)  # type: ignore[misc]
    statuses = stage.until_finished()
    assert good_ones(stage, statuses) == [200] * len(stage.site.hosts) * (1 + len(GOOD))
    assert fail(statuses, "python") == fail(statuses, "thread") == [-7000] * len(stage.site.hosts)
    assert max(died, stage.pool().pool.died_count) >= 1
    until(lambda: sum(worker.restart_count for worker in stage.pool().workers) >= 1, "a worn-out process")
    until(lambda: stage.pool().pool.alive_count == TOES, "all toe threads")
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints


@pytest.mark.parametrize("stage", [(1, ["/loop-in-c", "/ends-the-process"])], indirect=True)
def test_processes_that_hang_or_die_are_replaced_and_their_pages_given_up_after_three_tries(
    stage: Stage,
) -> None:
    node = stage.node("--hook", "faults.stuck_hook:page", "--hang-seconds", str(HANG_S))
    stage.crawl()
    statuses = stage.until_finished(90.0)
    assert good_ones(stage, statuses) == [200] * (1 + len(GOOD))
    assert fail(statuses, "in-c") == fail(statuses, "process") == [-7000]
    until(lambda: stage.pool().pool.alive_count == TOES, "all toe threads")
    assert sum(worker.restart_count for worker in stage.pool().workers) == 6
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints
