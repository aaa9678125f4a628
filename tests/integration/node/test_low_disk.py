"""A node whose disk gets low, and has room again."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from frontier_harness.waiting import eventually
from node_doubles.frontier import FakeFrontier
from node_doubles.leases import lease
from node_doubles.node import Run

from crawler_node import node as node_module
from crawler_node.leases import poller as poller_module
from crawler_node.output.disk import DiskWatch


class Disk:
    """A disk with so much free space, of which 100 bytes must stay free."""

    free_bytes = 1000

    def watch(self, directory: Path) -> DiskWatch:
        return DiskWatch([directory], 100, lambda path: SimpleNamespace(f_bavail=self.free_bytes, f_frsize=1))


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def run(frontier: FakeFrontier, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(node_module, "WATCH_S", 0.02)
    monkeypatch.setattr(node_module, "TEND_ROUNDS", 1)
    monkeypatch.setattr(poller_module, "PROBE_REST_S", 0.05)
    run = Run(frontier, tmp_path, disk=disk.watch(tmp_path))
    run.start()
    yield run
    run.end()


def test_while_its_disk_is_low_a_node_hands_back_what_it_has_not_started_and_takes_nothing(
    run: Run, frontier: FakeFrontier, disk: Disk
) -> None:
    run.fetcher.hold()
    frontier.give(*(lease(f"http://h/{n}") for n in range(3)))
    eventually(lambda: len(run.fetcher.asked) == 2 and not frontier.left())
    disk.free_bytes = 99
    eventually(lambda: frontier.released() == ["http://h/2"])
    eventually(
        lambda: frontier.heartbeats and frontier.heartbeats[-1].trouble.startswith("only 0 MiB are free in ")
    )
    asked = len(frontier.asked)
    frontier.give(lease("http://h/3"))
    run.fetcher.let_go()  # what was being fetched is stored and reported
    eventually(lambda: frontier.statuses() == {"http://h/0": 200, "http://h/1": 200})
    before = len(frontier.heartbeats)
    eventually(lambda: len(frontier.heartbeats) > before + 5)
    assert frontier.left() <= 1 and len(run.fetcher.asked) == 2
    assert len(frontier.asked) <= asked + 1  # the call that waited when the disk got low

    disk.free_bytes = 109  # not enough yet
    before = len(frontier.heartbeats)
    eventually(lambda: len(frontier.heartbeats) > before + 5)
    assert frontier.heartbeats[-1].trouble and len(run.fetcher.asked) == 2
    disk.free_bytes = 110
    frontier.give(lease("http://h/4"))
    eventually(lambda: frontier.statuses().get("http://h/4") == 200)
    eventually(lambda: not frontier.heartbeats[-1].trouble)
