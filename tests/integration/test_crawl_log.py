"""`crawl.log` of a running server: what stands in its way is waited out, and a crawl's log is its own.

What a kill does to it is in `test_server_restart`.
"""

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness.calls import TIMEOUT_S, finished_request, next_request, report, spec
from frontier_harness.in_process import Served, config, serving
from frontier_harness.waiting import PATIENCE_S, callers, soon
from structlog.testing import capture_logs

from frontier_server.core.core import Core
from frontier_server.logs.crawl_log import CrawlLogs, _CrawlLog
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2


@asynccontextmanager
async def logging(data: Path) -> AsyncIterator[Served]:
    """A frontier that writes its logs until the test is over."""
    async with serving(MemoryStore(), config(data)) as served, callers() as calls:
        task = calls.start(served.logs.run())
        try:
            yield served
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await served.logs.drain()


async def launch(served: Served, name: str, *paths: str, outcomes_kept: int = 100) -> None:
    """A crawl of one host: its start page and these."""
    asked = spec(outcomes_kept=outcomes_kept)
    await served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl=name, spec=asked))
    seeds = [f"http://{name}.example/{path}" for path in ("", *paths)]
    await served.admin.AddSeeds(iter([admin_pb2.AddSeedsRequest(crawl=name, uris=seeds)]))
    await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=name))


async def fetch(served: Served, name: str, count: int) -> None:
    """So many of its URIs, robots.txt among them."""
    for _ in range(count):
        answer = await served.frontier.Next(next_request(name, wait_s=TIMEOUT_S))
        reports = [report(lease, media_type="text/html") for lease in answer.leases]
        assert len(reports) == 1
        await served.frontier.Finished(finished_request(*reports))


async def crawl(served: Served, name: str, *paths: str, outcomes_kept: int = 100) -> None:
    """A whole crawl of one host: its start page and these."""
    await launch(served, name, *paths, outcomes_kept=outcomes_kept)
    while True:
        answer = await served.frontier.Next(next_request(name, wait_s=TIMEOUT_S))
        if answer.empty_reason == frontier_pb2.EMPTY_REASON_FINISHED:
            return
        if answer.leases:
            reports = [report(lease, media_type="text/html") for lease in answer.leases]
            await served.frontier.Finished(finished_request(*reports))


def logged(served: Served, name: str) -> list[str]:
    """The URIs of a log."""
    path = served.logs.path(name)
    text = path.read_text() if path.is_file() else ""
    return [line.split()[3] for line in text[: text.rfind("\n") + 1].splitlines()]  # one may be under way


async def test_each_crawl_has_a_log_of_its_own(tmp_path: Path) -> None:
    async with logging(tmp_path) as served:
        await asyncio.gather(crawl(served, "one", "x", "y"), crawl(served, "two"))
        await soon(
            lambda: len(logged(served, "one")) == 4 and len(logged(served, "two")) == 2, "lines in the log"
        )
        one = "http://one.example/"
        assert sorted(logged(served, "one")) == [one, f"{one}robots.txt", f"{one}x", f"{one}y"]
        assert {uri.split("/")[2] for uri in logged(served, "two")} == {"two.example"}


async def test_lines_wait_until_what_stands_in_their_way_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.logs.crawl_log.RETRY_S", 0.05)
    obstacle = tmp_path / "crawls" / "t" / "crawl.log"
    obstacle.mkdir(parents=True)
    async with logging(tmp_path) as served:
        await crawl(served, "t", "x")
        await crawl(served, "other")  # whose log nothing is wrong with
        await soon(
            lambda: len(logged(served, "other")) == 2, "the other log, which this one must not hold up"
        )
        assert (await statistics(served, "t")).succeeded_count == 2
        obstacle.rmdir()
        await soon(lambda: len(logged(served, "t")) == 3, "the lines to come")


async def statistics(served: Served, name: str) -> crawl_pb2.Statistics:
    answer = await served.admin.GetStatistics(admin_pb2.GetStatisticsRequest(crawl=name))
    return answer.statistics


async def test_a_crawl_takes_its_log_with_it_and_the_next_of_its_name_begins_one(tmp_path: Path) -> None:
    async with logging(tmp_path) as served:
        await crawl(served, "t", "old")
        await soon(lambda: len(logged(served, "t")) == 3, "lines in the log")
        await served.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl="t"))
        assert not served.logs.path("t").parent.exists()
        await crawl(served, "t", "new")
        await soon(lambda: len(logged(served, "t")) >= 2, "lines in the log")
        await soon(lambda: "http://t.example/new" in logged(served, "t"), "every line")
        assert "http://t.example/old" not in logged(served, "t")


async def test_a_crawl_that_is_deleted_while_its_log_is_synced_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.logs.crawl_log.SYNC_EVERY_S", 0.05)
    loop, begun, deleted = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    sync = _CrawlLog.sync

    def sync_late(log: _CrawlLog) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert deleted.wait(PATIENCE_S)
        sync(log)

    with capture_logs() as said:
        async with logging(tmp_path) as served:
            monkeypatch.setattr(_CrawlLog, "sync", sync_late)
            await crawl(served, "t")
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            await served.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl="t"))
            assert not served.logs.path("t").parent.exists()
            deleted.set()
            await crawl(served, "u")
            await soon(lambda: len(logged(served, "u")) == 2, "lines in the log")
            await soon(lambda: not served.runner.core.upkeep.log_positions(), "a sync of the log")
    assert [line for line in said if line["log_level"] != "info" and line["event"] != "was_away"] == []


@pytest.mark.parametrize("gives_up", [False, True], ids=["who deletes waits", "who deletes gives up"])
async def test_a_crawl_is_made_once_the_logs_of_the_one_that_had_its_name_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gives_up: bool
) -> None:
    loop, begun, slow = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    forget = CrawlLogs.forget

    def forget_late(logs: CrawlLogs, name: str) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert slow.wait(PATIENCE_S)
        forget(logs, name)

    async with logging(tmp_path) as served:
        await crawl(served, "t", "old")
        await soon(lambda: len(logged(served, "t")) == 3, "lines in the log")
        monkeypatch.setattr(CrawlLogs, "forget", forget_late)
        deletion = served.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl="t"))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        if gives_up:
            deletion.cancel()
        creation = asyncio.ensure_future(crawl(served, "t", "new"))
        await served.admin.GetFrontier(admin_pb2.GetFrontierRequest())  # others go on
        asked = admin_pb2.ListCrawlsRequest()
        assert [each.crawl for each in (await served.admin.ListCrawls(asked)).crawls] == []
        slow.set()
        await creation
        await soon(lambda: "http://t.example/new" in logged(served, "t"), "every line")
        assert "http://t.example/old" not in logged(served, "t")


@pytest.mark.parametrize(("kept", "oldest"), [(0, 6), (2, 4), (100, 1)])
async def test_outcomes_that_are_in_the_log_for_good_are_kept_as_long_as_the_crawl_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, oldest: int
) -> None:
    monkeypatch.setattr("frontier_server.logs.crawl_log.SYNC_EVERY_S", 0.05)
    async with logging(tmp_path) as served:
        await crawl(served, "t", "x", "y", "z", outcomes_kept=kept)
        core = served.runner.core
        await soon(lambda: len(logged(served, "t")) == 5, "lines in the log")
        size = served.logs.path("t").stat().st_size
        counters = core.shard.registry.names["t"].counters
        await soon(lambda: (counters.logged_outcome, counters.log_bytes) == (5, size), "a sync")
        assert core.upkeep.log_positions() == {}
        assert core.history.outcome_range("t") == (oldest, 5)
        rows = core.history.outcomes("t", oldest - 1, 10)
        assert [number for number, _ in rows] == list(range(oldest, 6))


class LosingDisk:
    """`os.fsync` on a disk that fails at times.

    Then it forgets what was not synced, and the next call succeeds: that is how Linux treats pages that could
    not be written.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failures_left = 0
        self.synced: list[Path] = []
        self._lengths: dict[int, int] = {}  # that are durable, by inode
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        there = os.fstat(descriptor)
        if stat.S_ISREG(there.st_mode):
            if self.failures_left:
                self.failures_left -= 1
                lost_from = self._lengths.get(there.st_ino, 0)
                with path.open("r+b") as file:
                    file.seek(lost_from)
                    file.write(bytes(max(there.st_size - lost_from, 0)))
                raise OSError(5, "Input/output error")
            self._lengths[there.st_ino] = there.st_size
        self._fsync(descriptor)
        self.synced.append(path)


@pytest.mark.parametrize("failures", [1, 3])
async def test_lines_that_a_failed_sync_has_lost_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    monkeypatch.setattr("frontier_server.logs.crawl_log.SYNC_EVERY_S", 0.05)
    monkeypatch.setattr("frontier_server.logs.crawl_log.RETRY_S", 0.05)
    disk = LosingDisk(monkeypatch)
    async with logging(tmp_path) as served:
        await crawl(served, "t", "x")
        positions = served.runner.core.upkeep.log_positions
        await soon(lambda: not positions(), "a sync of the log")
        disk.failures_left = failures
        await crawl(served, "u", "x", "y")
        await soon(lambda: not positions(), "another sync")
        assert disk.failures_left == 0
        u = "http://u.example/"
        assert sorted(logged(served, "u")) == [u, f"{u}robots.txt", f"{u}x", f"{u}y"]
        assert len(logged(served, "t")) == 3


async def test_a_new_logs_name_is_durable_with_its_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.logs.crawl_log.SYNC_EVERY_S", 0.05)
    disk = LosingDisk(monkeypatch)
    async with logging(tmp_path) as served:
        await crawl(served, "t", "x")
        positions = served.runner.core.upkeep.log_positions
        await soon(lambda: not positions(), "a sync of the log")
        log = served.logs.path("t")
        assert {log, log.parent, log.parent.parent, tmp_path} <= set(disk.synced)


async def test_a_log_that_was_moved_away_goes_on_in_a_new_one_without_repeat_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store remembers the length of the old one; the new one's lines are not behind that."""
    monkeypatch.setattr("frontier_server.logs.crawl_log.SYNC_EVERY_S", 0.05)
    store = MemoryStore()
    async with serving(store, config(tmp_path)) as served, callers() as calls:
        writing = calls.start(served.logs.run())
        await launch(served, "t", "x", "y", "z")
        await fetch(served, "t", 2)
        await soon(lambda: noted(served.runner.core) == 2, "a sync of the log")
        await dead(served.logs, writing)
        served.logs.path("t").rename(tmp_path / "moved.log")
        monkeypatch.setattr("frontier_server.logs.crawl_log.SYNC_EVERY_S", 3600.0)
        logs = CrawlLogs(served.runner, served.job_logs, tmp_path)
        writing = calls.start(logs.run())
        await fetch(served, "t", 3)
        await soon(lambda: len(logged(served, "t")) == 3, "lines in the log")
        await dead(logs, writing)
        await CrawlLogs(served.runner, served.job_logs, tmp_path).drain()
        moved = [line.split()[3] for line in (tmp_path / "moved.log").read_text().splitlines()]
        found = moved + logged(served, "t")
        assert len(found) == len(set(found)) == 5


async def test_a_log_whose_end_is_gone_goes_on_behind_its_last_whole_line_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.logs.crawl_log.SYNC_EVERY_S", 0.05)
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        writing = calls.start(served.logs.run())
        await launch(served, "t", "x", "y", "z")
        await fetch(served, "t", 3)
        await soon(lambda: noted(served.runner.core) == 3, "a sync of the log")
        await dead(served.logs, writing)
        path = served.logs.path("t")
        first, second, _ = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(first + second[:-9])
        with capture_logs() as said:
            await fetch(served, "t", 2)
            await CrawlLogs(served.runner, served.job_logs, tmp_path).drain()
        (told,) = [each for each in said if each["event"] == "crawl_log"]
        assert told["log_level"] == "error" and "shorter than it was" in told["problem"]
        lines = path.read_bytes().splitlines(keepends=True)
        assert lines[0] == first and len(lines) == 3
        assert all(len(line.split()) == 12 for line in lines)


async def dead(logs: CrawlLogs, writing: "asyncio.Task[Any]") -> None:
    """Nobody writes logs any more, and of what was not synced nothing is noted: as after a crash."""
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    for log in logs._logs.values():
        log.close()


def noted(core: Core) -> int:
    """The last outcome that the store knows to be in the log."""
    return core.shard.registry.names["t"].counters.logged_outcome


class ShortOfSpace:
    """A file whose disk takes a part of a write."""

    def __init__(self, file: Any, takes: int, raises: bool) -> None:
        self._file = file
        self._takes = takes
        self._raises = raises

    def write(self, data: bytes) -> int:
        self._file.write(data[: self._takes])
        if self._raises:
            raise OSError(28, "No space left on device")
        return self._takes

    def truncate(self, size: int) -> int:
        return int(self._file.truncate(size))


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("takes", [0, 1, 9])
def test_a_line_that_was_written_in_part_is_taken_back(tmp_path: Path, takes: int, raises: bool) -> None:
    path = tmp_path / "crawl.log"
    log = _CrawlLog(path, 0, 0)
    log.append(b"first line\n", 1)
    whole = log._file
    log._file = ShortOfSpace(whole, takes, raises)  # type: ignore[assignment]  # as much of a file as it needs
    with pytest.raises(OSError):
        log.append(b"second line\nthird line\n", 3)
    assert (path.read_bytes(), log.written, log.size) == (b"first line\n", 1, 11)
    log._file = whole
    log.append(b"second line\nthird line\n", 3)
    assert path.read_bytes() == b"first line\nsecond line\nthird line\n"
    log.close()
