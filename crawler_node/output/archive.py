"""Archive: where the node's pages go, and what it does when they cannot be kept.

Its writers are in warc, pages and mirror. A page counts as stored only when a sync has succeeded after it was
appended. The node takes no more leases while the disk is low, and after an error until the directories take
data again.
"""

import os
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol

import structlog

from ..meter import UNMEASURED, Meter, PageStage
from .disk import DiskWatch
from .logs import NodeLogs
from .visit import PageVisit, Stored

PROBE_BYTES = 1024 * 1024
"""How much must find room in each directory before the node writes again."""

DUPLICATE = "duplicate:digest"
"""Heritrix's annotation of a body that is that of the last visit."""

log = structlog.get_logger()


class Writer(Protocol):
    """The part of WarcWriter, PagesWriter and MirrorWriter that an archive needs. All errors are OSErrors."""

    @property
    def directory(self) -> Path:
        """The directory of its files."""

    @property
    def archives(self) -> bool:
        """Whether it keeps each visit for good, so that later ones can refer to it."""

    def append(self, visit: PageVisit) -> bool:
        """Stores a visit, whole or not at all. Returns whether there is something to store."""

    def sync(self) -> None:
        """Makes all appended visits durable. If it fails, none since the last success counts."""

    def roll_if_old(self) -> None:
        """Closes files that are old enough."""

    def idle_crawls(self) -> list[str]:
        """The crawls of which it keeps files open and has stored nothing lately."""

    def finish_crawls(self, crawls: Collection[str]) -> None:
        """Closes the files of crawls that have ended."""

    def repair(self) -> None:
        """Repairs the files that dead processes left. Never raises."""

    def close(self) -> None:
        """Ends the writing."""


class Archive:
    """The node's output, and whether it can be written. Many threads use it at once.

    Each visit goes to the logs, to the `hook` (see Hook), and then to each of `writers`.
    """

    def __init__(
        self,
        writers: Sequence[Writer],
        *,
        disk: DiskWatch | None = None,
        hook: Callable[[PageVisit], tuple[str, ...]] | None = None,
        logs: NodeLogs | None = None,
        meter: Meter = UNMEASURED,
    ) -> None:
        self._writers = tuple(writers)
        self._meter = meter
        self.archives = any(writer.archives for writer in writers)
        """Whether one of its writers does (see Writer)."""
        self._directories = list(dict.fromkeys(writer.directory for writer in writers))
        self._disk = disk or DiskWatch(())
        self._hook = hook
        self._logs = logs or NodeLogs()
        self._lock = threading.Lock()
        self._epoch = 0
        self._failing = False
        self._closed = False
        self._low = ""
        self._ended: set[str] = set()
        self._asked_about = ""
        self._on_failure: Callable[[], None] = lambda: None

    def when_failing(self, act: Callable[[], None]) -> None:
        """Sets what to do at each error and while the disk is low: the node must take no more leases."""
        self._on_failure = act

    @property
    def writers(self) -> Sequence[Writer]:
        """Where its pages go."""
        return self._writers

    @property
    def failing(self) -> bool:
        """Whether output could not be written, and no probe has succeeded since."""
        return self._failing

    @property
    def low_disk(self) -> str:
        """A message that says which disk was low when `tend` or `probe` last looked; empty if none was."""
        return self._low

    def append(self, visit: PageVisit) -> Stored:
        """Stores a visit. Raises OSError when it is not stored."""
        self._logs.visited(visit)
        notes = self._hook(visit) if self._hook is not None and visit.is_page else ()
        epoch = self._epoch
        try:
            stored = [writer.append(visit) for writer in self._writers]
        except OSError as error:
            self._fail(error)
            raise
        if visit.is_identical:
            notes = (DUPLICATE, *notes)
        is_whole = not (visit.is_revisit or visit.fetch.truncation.is_partial)
        captured = self.archives and visit.is_page and is_whole
        return Stored(epoch if any(stored) else None, notes, captured)

    def sync(self) -> int | None:
        """Makes all appended visits durable. Returns their epoch, or None if that failed."""
        epoch = self._epoch
        start_s = perf_counter()
        errors = [error for writer in self._writers if (error := _failure(writer.sync)) is not None]
        self._meter.took(PageStage.SYNC, perf_counter() - start_s)
        if not errors:
            return epoch
        with self._lock:
            self._epoch += 1
        self._fail(errors[0])
        return None

    def idle_crawls(self, most: int) -> list[str]:
        """Crawls of which it keeps files open and has stored nothing lately; at most so many, in turn."""
        idle = sorted({crawl for writer in self._writers for crawl in writer.idle_crawls()})
        place = bisect_right(idle, self._asked_about) if len(idle) > most else 0
        crawls = (idle[place:] + idle[:place])[:most]
        self._asked_about = crawls[-1] if crawls else ""
        return crawls

    def end_crawls(self, crawls: Iterable[str]) -> None:
        """Says that crawls have ended: `tend` closes their files."""
        with self._lock:
            self._ended.update(crawls)

    def tend(self) -> None:
        """Closes the files that are old, or whose crawls have ended, and looks at the disk. To be called
        every few seconds."""
        with self._lock:
            ended, self._ended = self._ended, set()
        for writer in self._writers:
            for act in (writer.roll_if_old, partial(writer.finish_crawls, ended)):
                if (error := _failure(act)) is not None:
                    self._fail(error)
        was_low = self._low
        self._low = self._disk.check()
        if self._low and not was_low:
            log.warning("disk_low", problem=self._low)
        if self._low:
            self._on_failure()

    def probe(self) -> bool:
        """Looks whether there is room, and whether all directories take data again."""
        self._low = self._disk.check()
        if self._low or not all(map(_takes_data, self._directories)):
            return False
        with self._lock:
            self._failing = False
        log.info("output_restored", directories=[str(each) for each in self._directories])
        return True

    def repair(self) -> None:
        """Repairs the files that dead processes left in the directories, which it may read in full. Never
        raises."""
        for writer in self._writers:
            writer.repair()

    def close(self) -> None:
        """Closes the files, and refuses later visits. Raises OSError."""
        self._closed = True
        errors = [error for writer in self._writers if (error := _failure(writer.close)) is not None]
        self._logs.close()
        if errors:
            raise errors[0]

    def _fail(self, error: OSError) -> None:
        with self._lock:
            first, self._failing = not (self._failing or self._closed), True
        if first:
            log.error("output_failed", error=str(error))
        self._on_failure()


def _failure(act: Callable[[], None]) -> OSError | None:
    try:
        act()
    except OSError as error:
        return error
    return None


def _takes_data(directory: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(os.urandom(PROBE_BYTES))  # not zeros, which some file systems do not store
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    return True
