"""A node whose disk gets low, and has room again."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from frontier_harness.waiting import PATIENCE_S, eventually
from node_doubles.frontier import FakeFrontier
from node_doubles.leases import lease
from node_doubles.stages import FakeFetcher, FakeWriter, stages

from crawler_node import node as node_module
from crawler_node.leases import feeder as feeder_module
from crawler_node.leases.frontier import Contact, Frontier
from crawler_node.node import Node
from crawler_node.output.archive import Archive
from crawler_node.output.disk import DiskWatch


class Run:
    """A node at work, on a disk with so much free space."""

    def __init__(self, frontier: FakeFrontier, directory: Path) -> None:
        self.free_bytes = 1000
        contact = Contact()
        self.fetcher = FakeFetcher()
        disk = DiskWatch([directory], 100, lambda path: SimpleNamespace(f_bavail=self.free_bytes, f_frsize=1))
        self.archive = Archive([FakeWriter(directory)], disk=disk)
        self.node = Node(
            frontier=Frontier.connect(frontier.address, contact, "node", "session"),
            feeding=Frontier.connect(frontier.address, contact, "node", "session"),
            contact=contact,
            stages=stages(self.fetcher, self.archive),
            archive=self.archive,
            crawl="",
            toes=2,
        )
        self._main = threading.Thread(target=self.node.wait)
        self.node.start()
        self._main.start()

    def end(self) -> None:
        self.fetcher.let_go()
        self.node.orphaned()
        self._main.join(PATIENCE_S)


@pytest.fixture
def frontier() -> Iterator[FakeFrontier]:
    frontier = FakeFrontier()
    yield frontier
    frontier.stop()


@pytest.fixture
def run(frontier: FakeFrontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(node_module, "WATCH_S", 0.02)
    monkeypatch.setattr(node_module, "TEND_ROUNDS", 1)
    monkeypatch.setattr(feeder_module, "PROBE_REST_S", 0.05)
    run = Run(frontier, tmp_path)
    yield run
    run.end()


def test_while_its_disk_is_low_a_node_hands_back_what_it_has_not_started_and_takes_nothing(
    run: Run, frontier: FakeFrontier
) -> None:
    run.fetcher.hold()
    frontier.give(*(lease(f"http://h/{n}") for n in range(3)))
    eventually(lambda: len(run.fetcher.asked) == 2 and not frontier.left())
    run.free_bytes = 99
    eventually(lambda: frontier.released() == ["http://h/2"])
    eventually(lambda: frontier.heartbeats and frontier.heartbeats[-1].trouble.startswith("disk low: "))
    asked = len(frontier.asked)
    frontier.give(lease("http://h/3"))
    run.fetcher.let_go()  # what was being fetched is stored and reported
    eventually(lambda: frontier.statuses() == {"http://h/0": 200, "http://h/1": 200})
    before = len(frontier.heartbeats)
    eventually(lambda: len(frontier.heartbeats) > before + 5)
    assert frontier.left() <= 1 and len(run.fetcher.asked) == 2
    assert len(frontier.asked) <= asked + 1  # the call that waited when the disk got low

    run.free_bytes = 109  # not enough yet
    before = len(frontier.heartbeats)
    eventually(lambda: len(frontier.heartbeats) > before + 5)
    assert frontier.heartbeats[-1].trouble and len(run.fetcher.asked) == 2
    run.free_bytes = 110
    frontier.give(lease("http://h/4"))
    eventually(lambda: frontier.statuses().get("http://h/4") == 200)
    eventually(lambda: not frontier.heartbeats[-1].trouble)
