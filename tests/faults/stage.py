"""A crawl of a FiniteSite by a node that can be asked: what tests of toe threads under strain work with."""

from collections import Counter
from pathlib import Path

import grpc
from acceptance.outcomes import LogLine, crawl_log, pages
from acceptance.programs import Program, Programs
from faults.finite_site import FiniteSite
from frontier_harness.waiting import PATIENCE_S, WHOLE_CRAWL_S, eventually

from crawler_node.process import service_of
from crawler_node.toes.chain import Step
from toehold.frontier.v1 import crawl_pb2
from toehold.node.v1 import node_pb2, node_pb2_grpc
from toehold_client import CrawlController, FrontierClient


class Stage:
    """A frontier, nodes, and a crawl of a site."""

    def __init__(
        self, programs: Programs, folder: Path, site: FiniteSite, lease_s: float, heartbeat_s: float = 0.2
    ) -> None:
        self.site, self._programs, self._folder = site, programs, folder
        started = programs.frontier(
            folder / "data",
            *("--lease-seconds", str(lease_s), "--heartbeat-seconds", str(heartbeat_s)),
        )
        self.address = started.address
        self.client = FrontierClient(self.address)

    def node(self, *options: str, name: str = "node") -> Program:
        """A node, which is the one to be asked from now on."""
        command = (*self.site.resolve, *options)
        program = self._programs.node(name, self.address, self._folder / "warcs", *command)
        self.stub = node_pb2_grpc.NodeServiceStub(grpc.insecure_channel(service_of(program.said)))
        return program

    def crawl(self) -> CrawlController:
        """Begins the crawl; every page is a seed, so that none is missed because another fails."""
        spec = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"])
        spec.politeness.min_delay.FromMilliseconds(0)
        spec.politeness.delay_factor = 0
        spec.fetch.timeout.FromSeconds(60)
        spec.fetch.read_timeout.FromSeconds(60)  # of pages that are held back
        spec.retry.delay.FromMilliseconds(100)
        controller = CrawlController(self.client, "stuck")
        controller.create(spec)
        controller.add_seeds(sorted(self.site.urls))
        controller.launch()
        return controller

    def pool(self) -> node_pb2.GetPoolResponse:
        """What the node tells of its pool."""
        return self.stub.GetPool(node_pb2.GetPoolRequest(), timeout=PATIENCE_S)

    def resize(self, size: int) -> None:
        """Asks the node for so many toe threads."""
        self.stub.SetPoolSize(node_pb2.SetPoolSizeRequest(size=size), timeout=PATIENCE_S)

    def kill(self, toe: node_pb2.Toe) -> None:
        """Kills a toe thread, which is replaced."""
        request = node_pb2.KillToeRequest(worker=toe.worker, serial=toe.serial, replace=True)
        self.stub.KillToe(request, timeout=PATIENCE_S)

    def toes_at(self, ending: str, step: Step | None = None) -> list[node_pb2.Toe]:
        """The threads that are at such URIs, and at this step if one is named; without those left behind."""
        return [
            toe
            for toe in self._toes()
            if toe.uri.endswith(ending) and step in (None, toe.step) and not toe.abandoned
        ]

    def is_left_behind(self, toe: node_pb2.Toe) -> bool:
        """Whether a thread is, or has gone with its process."""
        if any(worker.silent for worker in self.pool().workers):
            return False
        its = [each for each in self._toes() if _same(each, toe)]
        return not its or its[0].abandoned

    def _toes(self) -> list[node_pb2.Toe]:
        return list(self.stub.ListToes(node_pb2.ListToesRequest(), timeout=PATIENCE_S).toes)

    def outcomes(self) -> list[LogLine]:
        """The pages in crawl.log."""
        return pages(crawl_log(self._folder / "data" / "crawls" / "stuck" / "crawl.log"))

    def until_finished(self, within_s: float = WHOLE_CRAWL_S) -> dict[str, int]:
        """The last status of each URL, once the crawl has finished; each has come to one end."""

        def finished() -> bool:
            return self.client.get_crawl("stuck").status.state == crawl_pb2.CRAWL_STATE_FINISHED

        eventually(finished, "the crawl's end", within_s)
        eventually(lambda: len({line.url for line in self.outcomes()}) >= len(self.site.urls), "the log")
        told = Counter(line.url for line in self.outcomes())
        assert {url for url, count in told.items() if count > 1} == set(), "twice"
        assert set(told) == self.site.urls, "each page, and nothing else"
        return {line.url: line.status for line in self.outcomes()}

    def good_ones(self, statuses: dict[str, int]) -> list[int]:
        """The statuses of pages that nothing is wrong with."""
        return sorted(status for url, status in statuses.items() if "-" not in url.rpartition("/")[2])


def _same(one: node_pb2.Toe, other: node_pb2.Toe) -> bool:
    """Whether two reports are of one thread at one page."""
    return (one.worker, one.serial, one.uri) == (other.worker, other.serial, other.uri)


def of_those_at(statuses: dict[str, int], ending: str) -> list[int]:
    """The statuses of pages with such names."""
    return [status for url, status in statuses.items() if url.endswith(ending)]
