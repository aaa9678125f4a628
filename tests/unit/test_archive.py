"""Where pages go, and what the node does when they cannot be written."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from node_doubles.leases import lease
from node_doubles.stages import FakeWriter, page

from crawler_node.fetching.outcome import Truncation
from crawler_node.output.archive import Archive
from crawler_node.output.disk import DiskWatch
from crawler_node.output.visit import PageVisit
from toehold.frontier.v1.frontier_pb2 import PURPOSE_ROBOTS


class Rig:
    def __init__(self, directory: Path) -> None:
        self.writer = FakeWriter(directory)
        self.archive = Archive([self.writer])
        self.failures = 0
        self.archive.when_failing(self.count)

    def count(self) -> None:
        self.failures += 1

    def append(self, uri: str, status: int = 200) -> int | None:
        return self.archive.append(PageVisit(lease(uri), page(uri, status))).epoch


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


# More than one kind of output


class Twice:
    """An archive that writes to two writers."""

    def __init__(self, directory: Path) -> None:
        self.writers = FakeWriter(directory / "a"), FakeWriter(directory / "b")
        self.archive = Archive(self.writers)


def test_a_page_goes_to_every_writer(tmp_path: Path) -> None:
    twice = Twice(tmp_path)
    twice.archive.append(PageVisit(lease("a"), page("a")))
    assert twice.archive.sync() is not None
    assert [writer.synced for writer in twice.writers] == [["a"], ["a"]]
    twice.archive.close()
    assert all(writer.closed for writer in twice.writers)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_page_counts_only_when_every_writer_has_made_it_durable(tmp_path: Path, failing: int) -> None:
    twice = Twice(tmp_path)
    twice.archive.append(PageVisit(lease("a"), page("a")))
    twice.writers[failing].fail_sync = True
    assert twice.archive.sync() is None
    assert twice.writers[1 - failing].synced == ["a"]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_page_that_one_writer_cannot_store_is_not_stored(tmp_path: Path, failing: int) -> None:
    twice = Twice(tmp_path)
    twice.writers[failing].fail_append = True
    with pytest.raises(OSError, match="No space left"):
        twice.archive.append(PageVisit(lease("a"), page("a")))


# Crawls that have ended


def test_idle_crawls_are_asked_about_in_turn_and_each_once_for_all_writers(tmp_path: Path) -> None:
    twice = Twice(tmp_path)
    twice.writers[0].idle, twice.writers[1].idle = ["d", "a", "b"], ["b", "c", "e"]
    assert twice.archive.idle_crawls(10) == ["a", "b", "c", "d", "e"]
    asked = [twice.archive.idle_crawls(2) for _ in range(4)]
    assert {crawl for crawls in asked[:3] for crawl in crawls} == set("abcde")
    assert all(len(crawls) == 2 for crawls in asked)
    twice.writers[0].idle = twice.writers[1].idle = []
    assert twice.archive.idle_crawls(2) == []


def test_the_files_of_ended_crawls_are_closed_once_by_every_writer(tmp_path: Path) -> None:
    twice = Twice(tmp_path)
    twice.archive.end_crawls(["a"])
    twice.archive.end_crawls(["b", "a"])
    assert [writer.finished for writer in twice.writers] == [[], []], "not in the heartbeat's thread"
    twice.archive.tend()
    twice.archive.tend()
    assert [sorted(writer.finished) for writer in twice.writers] == [["a", "b"], ["a", "b"]]


# Remarks, and the user's function


def test_a_body_that_is_that_of_the_last_visit_is_remarked_on(rig: Rig) -> None:
    again = PageVisit(lease("a", last_digest="sha1:ABC"), page("a", body=b"same"))
    assert rig.archive.append(again).notes == ("duplicate:digest",)
    assert rig.archive.append(PageVisit(lease("a"), page("a", body=b"same"))).notes == ()


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize(
    ("status", "body", "capture_ms", "conditional", "is_response"),
    [
        (200, b"same", 0, False, True),
        (200, b"same", 1, False, False),
        (200, b"other", 1, False, True),
        (301, b"same", 1, False, True),
        (304, b"", 1, True, False),
        (304, b"", 1, False, True),
        (404, b"same", 1, False, False),
        (-2, b"", 1, False, False),
    ],
    ids=[
        *("no capture", "identical", "changed", "redirect", "304", "304 unasked"),
        *("identical 404", "no answer"),
    ],
)
def test_visit_is_captured_if_an_archive_has_its_answer_whole(
    rig: Rig, status: int, body: bytes, capture_ms: int, conditional: bool, is_response: bool, archives: bool
) -> None:
    rig.writer.archives = archives
    archive = Archive([rig.writer])
    fetch = page("a", status, body=body, conditional=conditional)
    fetch.digest = "sha1:ABC" if body == b"same" else "sha1:DEF"
    stored = archive.append(PageVisit(lease("a", last_digest="sha1:ABC", capture_ms=capture_ms), fetch))
    assert stored.captured is (archives and is_response)


@pytest.mark.parametrize("truncation", Truncation)
def test_visit_is_captured_unless_the_next_one_may_get_more_of_its_page(
    rig: Rig, truncation: Truncation
) -> None:
    """A later visit must not refer to a part of a page."""
    rig.writer.archives = True
    stored = Archive([rig.writer]).append(
        PageVisit(lease("a"), page("a", body=b"part", truncation=truncation))
    )
    assert stored.captured is (truncation in (Truncation.NONE, Truncation.LENGTH))


def test_the_users_function_is_asked_of_pages_that_were_answered(tmp_path: Path) -> None:
    asked = []

    def hook(visit: PageVisit) -> tuple[str, ...]:
        asked.append(visit.fetch.uri)
        return ("hookFailed",)

    archive = Archive([FakeWriter(tmp_path)], hook=hook)
    assert archive.append(PageVisit(lease("http://h/"), page("http://h/", 404))).notes == ("hookFailed",)
    archive.append(PageVisit(lease("http://h/gone"), page("http://h/gone", -2)))
    robots = lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS)
    archive.append(PageVisit(robots, page("http://h/robots.txt")))
    assert asked == ["http://h/"]


# The disk


class Low:
    """A disk that is low, or is not."""

    def __init__(self, directory: Path) -> None:
        self.free = 100
        self.failures = 0
        disk = DiskWatch([directory], 100, lambda path: SimpleNamespace(f_bavail=self.free, f_frsize=1))
        self.archive = Archive([FakeWriter(directory)], disk=disk)
        self.archive.when_failing(self.count)

    def count(self) -> None:
        self.failures += 1


def test_while_the_disk_is_low_no_leases_are_taken(tmp_path: Path) -> None:
    low = Low(tmp_path)
    low.archive.tend()
    assert (low.archive.low_disk, low.failures) == ("", 0)
    low.free = 99
    low.archive.tend()
    assert low.archive.low_disk.startswith("only 0 MiB are free in ") and low.failures == 1
    assert not low.archive.probe()
    low.free = 109
    assert not low.archive.probe() and low.archive.low_disk
    low.free = 110
    assert low.archive.probe() and not low.archive.low_disk


def test_what_was_fetched_while_the_disk_got_low_is_stored(tmp_path: Path) -> None:
    low = Low(tmp_path)
    low.free = 0
    low.archive.tend()
    epoch = low.archive.append(PageVisit(lease("a"), page("a"))).epoch
    assert epoch is not None and low.archive.sync() == epoch


def test_an_old_file_that_cannot_be_closed_stops_the_taking_of_leases(rig: Rig) -> None:
    rig.archive.tend()
    assert rig.failures == 0
    rig.writer.fail_roll = True
    rig.archive.tend()
    assert rig.failures == 1
