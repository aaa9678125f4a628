"""`crawl.log`, Heritrix's columns: a line for each final disposition, exactly once.

Outcomes are stored in the write that they belong to; this task appends them to the
log and, once a file is synced, lets the store forget them. After a crash, and after
any error of the file, a log is cut to the length that the store remembers, and goes on
from there: of a file whose sync has failed the system forgets what was not written, and
the next sync of it succeeds.
"""

import asyncio
import os
from pathlib import Path
from typing import BinaryIO

import structlog

from .clock import digits, iso
from .core.core import Core
from .core.records import OutcomeRow
from .core.store import Changes
from .cut_logs import remove
from .durable import sync_names
from .runner import Closing, Runner

LINES_PER_READ = 500
GATHER_S = 0.1  # lines come in batches: a look for them costs two operations
SYNC_EVERY_S = 2.0
SYNC_AFTER_LINES = 1000
RETRY_S = 5.0
MAX_OPEN = 32  # logs: there may be more crawls than descriptors
PATH_LETTERS_SHOWN = 50
PIECE_BYTES = 64 * 1024

_log = structlog.get_logger()


class _CrawlLog:
    """One crawl's log file, open: `<data>/crawls/<name>/crawl.log`. After an error another is to be made."""

    __slots__ = ("_file", "_is_named", "_path", "marks", "size", "written")

    def __init__(self, path: Path, outcome: int, size: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file: BinaryIO = path.open("a+b", buffering=0)
        # Longer than the store remembers: lines of a crash, to be written again. Empty: it was moved
        # away, and a new file begins. Else its end is gone, perhaps in the middle of a line.
        there = self._file.seek(0, os.SEEK_END)
        self.size = size if there >= size else _end_of_lines(self._file, there)
        if 0 < there < size:
            _log.error(
                "crawl_log",
                crawl=self.crawl,
                problem=f"the log is {size - there} bytes shorter than it was: its end is gone",
                consequence="it goes on behind its last whole line",
            )
        self._file.truncate(self.size)
        self._is_named = self.size == size > 0  # for good: with the first lines that were noted
        self.written = outcome
        self.marks: list[tuple[int, int]] = []  # outcome and length after each part not synced yet

    @property
    def crawl(self) -> str:
        """Whose it is."""
        return self._path.parent.name

    def append(self, lines: bytes, outcome: int) -> None:
        """Append whole lines; a part of them that was written counts for nothing."""
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
        """Let the file go."""
        self._file.close()


class CrawlLogs:
    """The logs of all crawls, under `<data>/crawls/<name>/crawl.log`."""

    def __init__(self, runner: Runner, data: Path) -> None:
        self._runner = runner
        self._data = data
        self._logs: dict[int, _CrawlLog] = {}
        self._retry_at: dict[int, float] = {}  # logs that cannot be written

    def path(self, crawl: str) -> Path:
        """Where a crawl's log is."""
        return self._data / "crawls" / crawl / "crawl.log"

    async def run(self) -> None:
        """Write until cancelled. Raises Closing when the server closes."""
        loop = asyncio.get_running_loop()
        sync_at = loop.time() + SYNC_EVERY_S
        while True:
            await self._runner.until_log_wanted(SYNC_EVERY_S)
            await asyncio.sleep(GATHER_S)
            lines = await self._append()
            if loop.time() >= sync_at or lines >= SYNC_AFTER_LINES or self._runner.core.upkeep.awaits_log:
                await self._sync()
                sync_at = loop.time() + SYNC_EVERY_S

    async def drain(self) -> None:
        """Write and sync what is there; before the runner closes."""
        try:
            await self._append()
            await self._sync()
        except Closing:
            _log.warning("crawl_log", problem="the store failed", consequence="outcomes wait in the store")
        for log in self._logs.values():
            log.close()

    def _put_off(self, number: int, crawl: str, problem: OSError) -> None:
        """Leave a log alone for a while, then open it anew; its outcomes wait in the store."""
        log = self._logs.pop(number, None)
        if log is not None:
            log.close()
        self._retry_at[number] = asyncio.get_running_loop().time() + RETRY_S
        _log.error("crawl_log", crawl=crawl, problem=str(problem), consequence="outcomes wait in the store")

    def forget(self, crawl: str) -> None:
        """Remove the log of a crawl that was deleted."""
        path = self.path(crawl)
        try:
            remove(path)
        except OSError as problem:
            _log.warning("crawl_log", crawl=crawl, problem=str(problem), consequence="the log stays")

    async def _append(self) -> int:
        """Append what is new; how many lines."""
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
            except OSError as problem:
                self._put_off(number, name, problem)
        return lines

    def _close_synced(self) -> None:
        """Close the logs whose lines are all durable: what the store remembers lets them be opened again."""
        for number, log in list(self._logs.items()):
            if not log.marks:
                del self._logs[number]
                log.close()

    async def _append_to(self, number: int, name: str, outcome: int, size: int) -> int:
        """Append what is new of one crawl; how many lines."""
        log = self._logs.get(number)
        if log is None:
            if self._runner.core.upkeep.last_outcome(number) == 0:
                return 0
            log = self._logs[number] = _CrawlLog(self.path(name), outcome, size)
            if log.size < size:  # before the new file has lines: a crash would not find them behind its end
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
        """Sync the files, then let the store forget what is in them, a bounded part at a time.

        The job logs are synced with them.
        """
        for number, log in list(self._logs.items()):
            if not log.marks:
                continue
            try:
                await asyncio.to_thread(log.sync)
            except OSError as problem:
                lacking = await self._runner.read(lambda core, _: core.upkeep.log_positions())
                if number in lacking:  # else the crawl was deleted meanwhile, and its directory with it
                    self._put_off(number, log.crawl, problem)
                continue
            marks, log.marks = log.marks, []
            for outcome, size in marks:
                await self._note(number, outcome, size)
        synced = await asyncio.to_thread(self._runner.job_logs.sync)
        if synced:
            await self._runner.apply(lambda core, now_ms: core.upkeep.note_job_logged(synced, now_ms))

    async def _note(self, number: int, outcome: int, size: int) -> int:
        """Let the store know what is in a log for good; the mark that must be durable."""

        def operation(core: Core, now_ms: int) -> tuple[None, Changes]:
            return core.upkeep.note_logged(number, outcome, size, now_ms)

        _, mark = await self._runner.apply(operation)
        return mark


def _end_of_lines(file: BinaryIO, size: int) -> int:
    """Where the last whole line ends in a file of that size."""
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
    """A line of the log (Heritrix 2.15): twelve columns, `-` where there is nothing to say.

    When it was decided, fetch status, bytes, URI, discovery path, via, media type, toe
    thread, start of the fetch and its duration, digest, source tag, annotations.
    """
    started = f"{digits(row.start_ms)}+{row.duration_ms}" if row.start_ms else "-"
    annotations = [row.disposition.lower(), *row.annotations]
    if row.node:
        annotations.append(f"node:{_word(row.node).replace(',', '_')}")
    columns = (
        iso(row.time_ms),
        f"{row.fetch_status:>5}",
        f"{row.body_bytes:>10}",
        row.uri,
        _shown_path(row.path),
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
    """Text without anything that would end a column or a line."""
    return "".join(text.split())


def _shown_path(path: str) -> str:
    """The last 50 hops, the number of those before them in front (`12+LLE`)."""
    if len(path) <= PATH_LETTERS_SHOWN:
        return path or "-"
    return f"{len(path) - PATH_LETTERS_SHOWN}+{path[-PATH_LETTERS_SHOWN:]}"
