"""What the node does when WARC files cannot be written."""

from pathlib import Path

import pytest
from node_doubles.leases import lease
from node_doubles.stages import FakeWriter, page

from crawler_node.archive import Archive
from crawler_node.visit import Visit


class Rig:
    def __init__(self, directory: Path) -> None:
        self.writer = FakeWriter(directory)
        self.archive = Archive([self.writer])
        self.failures = 0
        self.archive.when_failing(self.count)

    def count(self) -> None:
        self.failures += 1

    def append(self, uri: str, status: int = 200) -> int | None:
        return self.archive.append(Visit(lease(uri), page(uri, status))).epoch


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_page_is_stored_when_a_sync_succeeds_after_it(rig: Rig) -> None:
    epoch = rig.append("a")
    assert epoch is not None and rig.archive.sync() == epoch


def test_a_fetch_without_an_answer_is_stored_nowhere(rig: Rig) -> None:
    assert rig.append("a", -2) is None


def test_after_a_failed_sync_nothing_appended_before_counts_any_more(rig: Rig) -> None:
    before = rig.append("a")
    rig.writer.fail_sync = True
    assert rig.archive.sync() is None and rig.failures == 1
    rig.writer.fail_sync = False
    after = rig.append("b")
    assert rig.archive.sync() == after != before


def test_an_error_at_one_page_leaves_the_others_stored(rig: Rig) -> None:
    epoch = rig.append("a")
    rig.writer.fail_append = True
    with pytest.raises(OSError, match="No space left"):
        rig.append("b")
    assert rig.failures == 1 and rig.archive.sync() == epoch


def test_every_error_stops_the_taking_of_leases(rig: Rig) -> None:
    """Also one that comes while the node has just begun to go on after another."""
    rig.writer.fail_append = True
    for uri in "a", "b":
        with pytest.raises(OSError, match="No space left"):
            rig.append(uri)
    assert rig.failures == 2


def test_a_directory_that_takes_data_passes_the_probe_and_is_left_clean(rig: Rig, tmp_path: Path) -> None:
    assert rig.archive.probe()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_gone_does_not_pass_the_probe(tmp_path: Path) -> None:
    assert not Rig(tmp_path / "gone").archive.probe()


def test_closing_closes_the_files(rig: Rig) -> None:
    rig.archive.close()
    assert rig.writer.closed
