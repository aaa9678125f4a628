"""A node at work against a frontier over real gRPC. Its fetcher and its WARC writer are stand-ins."""

import threading
from pathlib import Path

from frontier_harness.waiting import PATIENCE_S
from node_doubles.frontier import FakeFrontier
from node_doubles.stages import FakeFetcher, FakeWriter, stages

from crawler_node.leases.frontier import FrontierConnection, NodeLog
from crawler_node.node import Node
from crawler_node.output.archive import Archive
from crawler_node.output.disk import DiskWatch
from crawler_node.process import NodeExitCode
from toehold_client.worker.contact import Contact


class Run:
    """A node at work."""

    def __init__(
        self, frontier: FakeFrontier, directory: Path, toes: int = 2, disk: DiskWatch | None = None
    ) -> None:
        contact = Contact(NodeLog())
        self.fetcher = FakeFetcher()
        self.writer = FakeWriter(directory)
        archive = Archive([self.writer], disk=disk)
        self.node = Node(
            frontier=FrontierConnection.connect(frontier.address, contact, "node", "session"),
            polling=FrontierConnection.connect(frontier.address, contact, "node", "session"),
            contact=contact,
            stages=stages(self.fetcher, archive),
            archive=archive,
            crawl="",
            toes=toes,
        )
        self._codes: list[NodeExitCode] = []
        self._main = threading.Thread(target=lambda: self._codes.append(self.node.wait()))
        self._started = False

    def start(self) -> None:
        self.node.start()
        self._main.start()
        self._started = True

    def exit_code(self) -> NodeExitCode:
        self._main.join(PATIENCE_S)
        assert self._codes, "the node did not end"
        return self._codes[0]

    def end(self) -> None:
        if self._started:
            self.fetcher.let_go()
            self.node.drain()
            self.node.orphaned()
            assert self.exit_code() is not None
