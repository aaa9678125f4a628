"""`crawl.log`, with Heritrix's columns: one line for each final disposition, exactly once.

Outcomes are stored in the write that they belong to; this task appends them to the
log and, once a file is synced, lets the store forget them. After a crash, and after
any error of the file, the log is cut to the length that the store remembers, and
continues from there: when a sync fails, the system drops the unwritten data, and the
next sync of the file succeeds.
"""

import asyncio
import os
from pathlib import Path
from typing import BinaryIO

import structlog

from toehold_base.durable import sync_names

from ..core.core import Core
from ..core.rows.records import OutcomeRow
from ..core.rows.store import Changes
from ..replicated.buckets import BucketFailed
from ..shell.clock import digits, iso
from ..shell.runner import Closing, Runner
from .archive import LogArchive
from .cut_logs import remove
from .job_log import JobLogs

LINES_PER_READ = 500
GATHER_S = 0.1  # each look costs two operations, so lines are gathered
SYNC_EVERY_S = 2.0
SYNC_AFTER_LINES = 1000
PIECE_EVERY_S, PIECE_AFTER_LINES = 10.0, 20_000  # of pieces for an archive: fewer and larger ones
RETRY_S = 5.0
MAX_OPEN = 32  # open logs: there may be more crawls than descriptors
PATH_LETTERS_SHOWN = 50
PIECE_BYTES = 64 * 1024

_log = structlog.get_logger()


class _CrawlLog:
    """One crawl's open log file, `<data>/crawls/<name>/crawl.log`. Unusable after an error: make another."""

    __slots__ = ("_file", "_is_named", "_path", "kept", "marks", "size", "written")

    def __init__(self, path: Path, outcome: int, size: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file: BinaryIO = path.open("a+b", buffering=0)
        # A file longer than the store remembers has lines from before a crash, which are written again. An
        # empty file was moved away. A shorter one has lost its end, perhaps in the middle of a line.
        there = self._file.seek(0, os.SEEK_END)
        self.size = size if there >= size else _end_of_lines(self._file, there)
        if 0 < there < size:
            _log.error(
                "crawl_log",
                crawl=self.crawl,
                problem=f"the log is {size - there} bytes shorter than it was: its end is gone",
                consequence="it continues after its last whole line",
            )
        self._file.truncate(self.size)
        self._is_named = self.size == size > 0  # its name is durable
        self.written = outcome
        self.marks: list[tuple[int, int]] = []  # outcome and length after each unsynced part
        self.kept = self.size  # so much is in the archive, if there is one

    @property
    def crawl(self) -> str:
        return self._path.parent.name

    @property
    def path(self) -> Path:
        return self._path

    def append(self, lines: bytes, outcome: int) -> None:
        """Append whole lines, or none: a partial write is undone."""
        try:
            written = self._file.write(lines)
            if written != len(lines):
                raise OSError(f"{written} of {len(lines)} bytes written")
        except OSError:
            self._file.truncate(self.size)
            raise
        self.size += len(lines)
        self.written = outcome
        self.marks.append((outcome, self.size))

    def sync(self) -> None:
        """Make what was appended durable."""
        os.fsync(self._file.fileno())
        if not self._is_named:
            sync_names(self._path, self._path.parents[2])
            self._is_named = True

    def close(self) -> None:
        self._file.close()


class CrawlLogs:
    """The logs of all crawls, under `<data>/crawls/<name>/crawl.log`."""

    def __init__(
        self, runner: Runner, job_logs: JobLogs, data: Path, archive: LogArchive | None = None
    ) -> None:
        """With an `archive`, what is in it counts as durable, and files are restored from it."""
        self._archive = archive
        self._runner = runner
        self._job_logs = job_logs
        self._data = data
        self._logs: dict[int, _CrawlLog] = {}
        self._retry_at: dict[int, float] = {}  # logs that cannot be written

    def path(self, crawl: str) -> Path:
        return self._data / "crawls" / crawl / "crawl.log"

    async def run(self) -> None:
        """Write until cancelled. Raises Closing when the server closes."""
        loop = asyncio.get_running_loop()
        every_s, after_lines = (
            (SYNC_EVERY_S, SYNC_AFTER_LINES) if self._archive is None else (PIECE_EVERY_S, PIECE_AFTER_LINES)
        )
        sync_at, unsynced = loop.time() + every_s, 0
        while True:
            await self._runner.until_log_wanted(SYNC_EVERY_S)
            await asyncio.sleep(GATHER_S)
            lines = await self._append()
            unsynced += lines
            if loop.time() >= sync_at or unsynced >= after_lines or self._runner.core.upkeep.awaits_log:
                await self._sync()
                sync_at, unsynced = loop.time() + every_s, 0

    async def drain(self) -> None:
        """Write and sync all outcomes. Call it before the runner closes."""
        try:
            await self._append()
            await self._sync()
        except Closing:
            _log.warning("crawl_log", problem="the store failed", consequence="outcomes wait in the store")
        for log in self._logs.values():
            log.close()

    def _put_off(self, number: int, crawl: str, problem: OSError | BucketFailed) -> None:
        """Reopen a log only after a while; its outcomes wait in the store."""
        log = self._logs.pop(number, None)
        if log is not None:
            log.close()
        self._retry_at[number] = asyncio.get_running_loop().time() + RETRY_S
        _log.error("crawl_log", crawl=crawl, problem=str(problem), consequence="outcomes wait in the store")

    def forget(self, crawl: str) -> None:
        """Remove the logs of a crawl that was deleted. May block: a disk may be slow, and a lock be held."""
        self._job_logs.forget(crawl)
        path = self.path(crawl)
        try:
            remove(path)
            if self._archive is not None:
                self._archive.forget(crawl, path)
        except (OSError, BucketFailed) as problem:
            _log.warning(
                "crawl_log", crawl=crawl, problem=str(problem), consequence="the log was not removed"
            )

    async def _append(self) -> int:
        """Append new outcomes to all logs; how many lines."""
        lines = 0
        positions = await self._runner.read(lambda core, _: core.upkeep.log_positions())
        for number in set(self._logs) - set(positions):
            self._logs.pop(number).close()
        now_s = asyncio.get_running_loop().time()
        for number in list(positions):
            if number not in self._logs and len(self._logs) >= MAX_OPEN:
                await self._sync()
                self._close_synced()
                positions = await self._runner.read(lambda core, _: core.upkeep.log_positions())
            if number not in positions or self._retry_at.get(number, 0.0) > now_s:
                continue
            name, outcome, size = positions[number]
            try:
                lines += await self._append_to(number, name, outcome, size)
            except (OSError, BucketFailed) as problem:
                self._put_off(number, name, problem)
        return lines

    def _close_synced(self) -> None:
        """Close the logs whose lines are all durable: the store remembers enough to reopen them."""
        for number, log in list(self._logs.items()):
            if not log.marks:
                del self._logs[number]
                log.close()

    async def _append_to(self, number: int, name: str, outcome: int, size: int) -> int:
        """Append new outcomes of one crawl; how many lines."""
        log = self._logs.get(number)
        if log is None:
            if self._runner.core.upkeep.last_outcome(number) == 0:
                return 0
            if self._archive is not None and size:
                await asyncio.to_thread(self._archive.restore, name, self.path(name), size)
            log = self._logs[number] = _CrawlLog(self.path(name), outcome, size)
            if (
                log.size < size
            ):  # note this before writing lines: after a crash they must be within the length
                await self._runner.durable(await self._note(number, outcome, log.size))
        lines = 0
        while True:
            after = log.written

            def question(core: Core, _: int, after: int = after) -> list[tuple[int, OutcomeRow]]:
                return core.upkeep.outcomes_after(number, after, LINES_PER_READ)

            rows = await self._runner.read(question)
            if rows:
                log.append(b"".join(line(row) for _, row in rows), rows[-1][0])
                lines += len(rows)
            if len(rows) < LINES_PER_READ:
                return lines

    async def _sync(self) -> None:
        """Sync crawl logs and job logs. The store forgets synced outcomes, a bounded part at a time."""
        for number, log in list(self._logs.items()):
            if not log.marks:
                continue
            try:
                await asyncio.to_thread(log.sync)
            except OSError as problem:
                lacking = await self._runner.read(lambda core, _: core.upkeep.log_positions())
                if number in lacking:  # otherwise the crawl and its directory were deleted meanwhile
                    self._put_off(number, log.crawl, problem)
                continue
            if self._archive is not None:
                end = log.marks[-1][1]
                try:
                    await asyncio.to_thread(self._archive.keep, log.crawl, log.path, log.kept, end)
                except (OSError, BucketFailed) as problem:
                    self._put_off(number, log.crawl, problem)
                    continue
                log.kept = end
            marks, log.marks = log.marks, []
            for outcome, size in marks:
                await self._note(number, outcome, size)
        synced = await asyncio.to_thread(self._job_logs.sync)
        if synced:
            await self._runner.apply(lambda core, now_ms: core.upkeep.record_job_logged(synced, now_ms))

    async def _note(self, number: int, outcome: int, size: int) -> int:
        """Tell the store how much of a log is durable; the mark of that write."""

        def operation(core: Core, now_ms: int) -> tuple[None, Changes]:
            return core.upkeep.record_logged(number, outcome, size, now_ms)

        _, mark = await self._runner.apply(operation)
        return mark


def _end_of_lines(file: BinaryIO, size: int) -> int:
    """Where the last whole line ends in a file of this size."""
    end = size
    while end:
        begin = max(0, end - PIECE_BYTES)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def line(row: OutcomeRow) -> bytes:
    """A line of the log, in Heritrix's format: twelve columns, `-` for an empty one.

    Time of the decision, fetch status, bytes, URI, discovery path, via, media type, toe
    thread, start of the fetch and its duration, digest, source tag, annotations.
    """
    started = f"{digits(row.start_ms)}+{row.duration_ms}" if row.start_ms else "-"
    annotations = [row.disposition.lower(), *(_word(each).replace(",", "_") for each in row.annotations)]
    if row.node:
        annotations.append(f"node:{_word(row.node).replace(',', '_')}")
    columns = (
        iso(row.time_ms),
        f"{row.fetch_status:>5}",
        f"{row.body_bytes:>10}",
        _word(row.uri),
        _shown_path(_word(row.path)),
        _word(row.via) or "-",
        _word(row.media_type) or "-",
        f"#{row.toe_number:03d}" if row.start_ms else "-",
        started,
        _word(row.digest) or "-",
        _word(row.source) or "-",
        ",".join(annotations),
    )
    return (" ".join(columns) + "\n").encode()


def _word(text: str) -> str:
    """Text without white space, which would end a column or a line, and without control characters, which
    would move a terminal's cursor or turn its text round."""
    if text.isprintable() and " " not in text:
        return text
    return "".join(char for char in text if char.isprintable() and char != " ")


def _shown_path(path: str) -> str:
    """The last 50 hops, after the number of hops before them (`12+LLE`)."""
    if len(path) <= PATH_LETTERS_SHOWN:
        return path or "-"
    return f"{len(path) - PATH_LETTERS_SHOWN}+{path[-PATH_LETTERS_SHOWN:]}"
