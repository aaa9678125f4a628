"""Rotation: the append-only files of one process, a series for each crawl.

A file is closed when it is long or old enough, or when its crawl has ended. See OpenFile for how it is
written. Files beyond MAX_DESCRIPTORS rest between appends, so that a node may serve thousands of crawls.
"""

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from shutil import copyfileobj
from typing import IO, NamedTuple
from uuid import uuid4

from toehold_base.durable import make_directory, sync_directory

from ..fetching.fetch import NO_PROVENANCE, Provenance
from .claim import Claim
from .open_file import OpenFile, OutputError

DEFAULT_MAX_BYTES = 1_000_000_000
"""A file is closed, and the next one begun, before it would be longer than this."""

DEFAULT_MAX_AGE_S = 86_400.0
"""A file is closed when it is this old."""

DEFAULT_PREFIX = "toehold"

MAX_DESCRIPTORS = 64
"""The most files of a series of files that have a descriptor at a time. The others rest."""

IDLE_MS = 5_000
"""A crawl is idle when nothing was written for it for so long."""

_PIECE_BYTES = 64 * 1024

_CRAWL = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""A crawl's name as the frontier allows it, which is also that of its files."""
_DIGEST_CHARS = 16


class Series(NamedTuple):
    """Whose files they are. A crawl gets new files when it is another one of its name, or its settings
    change."""

    crawl: str
    provenance: Provenance = NO_PROVENANCE


Head = Callable[[Series, str, str, int], bytes]
"""Makes the beginning of a new file from its series, its final name, its id and the time in ms since the
epoch."""


class Piece(NamedTuple):
    """What to append: the rest of `data`, which is `length` bytes and so many records."""

    data: IO[bytes]
    length: int
    records: int = 1


@dataclass(frozen=True, slots=True)
class Rotation:
    """How files are named, and when they are closed.

    The name is `<prefix>-<crawl>-<UTC time>-<serial>-<node>~<process id><suffix>`. The serial counts all
    files of the process. Raises ValueError.
    """

    prefix: str = DEFAULT_PREFIX
    max_bytes: int = DEFAULT_MAX_BYTES
    max_age_s: float = DEFAULT_MAX_AGE_S

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", self.prefix) or self.prefix.startswith("."):
            raise ValueError(
                "the prefix of file names must have 1 to 64 letters, digits, '_', '-' and '.', and begin "
                f"with another character than '.', got {self.prefix[:200]!r}"
            )
        if self.max_bytes <= 0 or self.max_age_s <= 0:
            raise ValueError(
                f"max_bytes and max_age_s must be above 0, got {self.max_bytes} and {self.max_age_s}"
            )


DEFAULT_ROTATION = Rotation()


class Written(NamedTuple):
    """The files that were begun, and the records and bytes that were appended to them."""

    files: int
    records: int
    bytes: int


class RollingFiles:
    """The files of one process in one directory. The first piece of a series begins its first file.
    Thread-safe. Writers of one format each are made of it.

    File names end in `suffix`, such as `.warc.gz`. Raises OutputError when the directory can be neither
    created nor written to.
    """

    def __init__(
        self,
        directory: Path,
        node: str,
        suffix: str,
        *,
        head: Head = lambda series, name, file_id, now_ms: b"",
        rotation: Rotation = DEFAULT_ROTATION,
        process_id: int | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.directory = directory
        self._owner = f"{_node_name(node)}~{os.getpid() if process_id is None else process_id}"
        self._suffix = suffix
        self._head = head
        self._rotation = rotation
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._syncing = threading.Lock()  # one sync at a time: the next one may count on what it takes
        self._serial = 0
        self._files: dict[Series, OpenFile] = {}  # in the order in which they were begun
        self._awake: OrderedDict[Series, OpenFile] = OrderedDict()  # those with descriptors, last used last
        self._unsynced: set[OpenFile] = set()
        self._claim: Claim | None = None
        self._doubt: OutputError | None = None
        self._closed = False
        self._records = self._bytes = 0
        try:
            make_directory(directory)
            directory_is_writable = os.access(directory, os.W_OK | os.X_OK)
        except OSError as problem:
            raise OutputError(
                f"directory {str(directory)!r} cannot be created: {problem.strerror or problem}"
            ) from problem
        if not directory_is_writable:
            raise OutputError(f"directory {str(directory)!r} is not writable")

    def add(self, series: Series, make: Callable[[str], Piece]) -> None:
        """Appends what `make` returns for the id of a file to that file. If the file is full, it is called
        again for the next one.

        Stores all of it or none: a failed write is cut off again. Not durable before `sync`. Raises
        OutputError.
        """
        appended = False
        while not appended:
            with self._lock:
                file_id = self._present(series).id
            piece = make(file_id)  # without the lock: threads compress side by side
            with self._lock:
                appended = self._append(series, file_id, piece)

    @property
    def written(self) -> Written:
        """Its output so far, without what is at the beginning of each file."""
        with self._lock:
            return Written(self._serial, self._records, self._bytes)

    def sync(self) -> None:
        """Makes all appended data durable: the files that have some, one after the other.

        Raises OutputError. Then the data appended since the last successful sync may be lost, and a file that
        failed is given up: it stays behind as `.open`, and the next append begins a new one.
        """
        with self._syncing:
            failed: list[tuple[OpenFile, OSError]] = []
            with ExitStack() as descriptors:
                unsynced = self._take_unsynced(descriptors)
                for file, descriptor in unsynced:
                    try:
                        os.fsync(descriptor)  # without the lock: appends go on
                    except OSError as error:
                        failed.append((file, error))
            with self._lock:
                for file, problem in failed:
                    self._give_up(file, problem)
                # Checked last, as an append that closed the file may have met the failure in our place.
                doubt, self._doubt = self._doubt, None
        if doubt is not None:
            raise doubt

    def _take_unsynced(self, descriptors: ExitStack) -> list[tuple[OpenFile, int]]:
        """The files that have unsynced data, with descriptors that stay if the files are closed meanwhile."""
        with self._lock:
            unsynced = []
            for file in self._unsynced:
                try:
                    descriptor = os.dup(file.descriptor)
                except OSError as problem:
                    raise OutputError(f"cannot sync {file.name}: {problem.strerror or problem}") from problem
                descriptors.callback(os.close, descriptor)
                unsynced.append((file, descriptor))
            self._unsynced.clear()
            return unsynced

    def roll_if_old(self) -> None:
        """Closes files without an append: those that are old enough, and idle ones whose crawl has a later
        file. Raises OutputError, and then the next sync does so, too."""
        with self._lock:
            latest = {series.crawl: series for series in self._files}
            self._finish(
                series
                for series, file in list(self._files.items())
                if self._is_old(file) or (latest[series.crawl] is not series and self._is_idle(file))
            )

    def idle_crawls(self) -> list[str]:
        """The crawls with files that nothing was written to lately."""
        with self._lock:
            crawls = dict.fromkeys(series.crawl for series in self._files)
            busy = {series.crawl for series, file in self._files.items() if not self._is_idle(file)}
        return [crawl for crawl in crawls if crawl not in busy]

    def finish_crawls(self, crawls: Collection[str]) -> None:
        """Closes the idle files of crawls that have ended. Raises as `roll_if_old` does."""
        with self._lock:
            self._finish(
                series
                for series, file in list(self._files.items())
                if series.crawl in crawls and self._is_idle(file)
            )

    def close(self) -> None:
        """Closes all files under their final names, and refuses later appends. Raises OutputError."""
        with self._lock:
            self._closed = True
            try:
                self._finish(list(self._files))
            finally:
                if self._claim is not None:
                    self._claim.close()
                    self._claim = None

    # under the lock

    def _present(self, series: Series) -> OpenFile:
        """The file that the next record of a series goes to, if it has room."""
        if self._closed:
            raise OutputError("the output is closed")
        file = self._files.get(series)
        if file is not None and self._is_old(file):
            self._finish([series])
            file = None
        return file or self._begin(series)

    def _append(self, series: Series, file_id: str, piece: Piece) -> bool:
        """Whether the piece was appended; False if its file is no longer there, or is full."""
        if self._closed:
            raise OutputError("the output is closed")
        file = self._files.get(series)
        if file is None or file.id != file_id or not self._wake(series, file):
            return False
        if not file.is_empty and file.length + piece.length > self._rotation.max_bytes:
            self._finish([series])
            return False
        offset = file.length
        self._unsynced.add(file)
        try:
            copyfileobj(piece.data, file, _PIECE_BYTES)
        except OSError as problem:
            self._take_back(file, offset)
            raise OutputError(f"cannot write {file.name}: {problem.strerror or problem}") from problem
        file.used_ms = self._clock_ms()
        self._awake.move_to_end(series)
        self._records += piece.records
        self._bytes += piece.length
        return True

    def _is_old(self, file: OpenFile) -> bool:
        return self._clock_ms() - file.begun_ms >= self._rotation.max_age_s * 1000

    def _is_idle(self, file: OpenFile) -> bool:
        return self._clock_ms() - file.used_ms >= IDLE_MS

    def _begin(self, series: Series) -> OpenFile:
        self._make_room()
        now_ms = self._clock_ms()
        stamp = re.sub(r"[^0-9]", "", utc_text(now_ms))
        crawl = crawl_name(series.crawl)
        name = f"{self._rotation.prefix}-{crawl}-{stamp}-{self._serial:05}-{self._owner}{self._suffix}"
        try:
            file = OpenFile(self.directory, name, now_ms)
        except OSError as problem:
            raise OutputError(f"cannot create {name}: {problem.strerror or problem}") from problem
        self._serial += 1
        file.id = uuid4().urn
        try:
            file.begin(self._head(series, name, file.id, now_ms))
            sync_directory(self.directory)
        except OSError as problem:
            file.remove()
            raise OutputError(f"cannot write {name}: {problem.strerror or problem}") from problem
        self._files[series] = self._awake[series] = file
        return file

    def _wake(self, series: Series, file: OpenFile) -> bool:
        """Sees to it that a file has a descriptor. False if it was finished by a repair meanwhile."""
        if not file.rests:
            return True
        self._make_room()
        try:
            awake = file.wake()
        except OSError as problem:
            raise OutputError(f"cannot open {file.name}: {problem.strerror or problem}") from problem
        if awake:
            self._awake[series] = file
        else:
            del self._files[series]
        return awake

    def _make_room(self) -> None:
        """Lets the file that was used longest ago rest, if there are as many as may be awake."""
        while len(self._awake) >= MAX_DESCRIPTORS:
            file = next(iter(self._awake.values()))
            if self._claim is None:
                with suppress(OSError):  # the next time
                    self._claim = Claim(self.directory, self._owner, self._suffix)
            try:
                if file in self._unsynced:
                    os.fsync(file.descriptor)
            except OSError as problem:
                self._give_up(file, problem)
                continue
            self._unsynced.discard(file)
            self._awake.popitem(last=False)
            file.rest()

    def _finish(self, finished: Iterable[Series]) -> None:
        """Finishes files, in one sync of their names. Raises the last OutputError, after all."""
        done: list[OpenFile] = []
        failure: OutputError | None = None
        for series in finished:
            file = self._files[series]
            try:
                file.finish()
            except OSError as problem:
                failure = self._give_up(file, problem)
            else:
                self._forget(series, file)
                done.append(file)
        if done:
            try:
                sync_directory(self.directory)
            except OSError as problem:
                failure = self._give_up(done[-1], problem)
        if failure is not None:
            raise failure

    def _take_back(self, file: OpenFile, offset: int) -> None:
        """Cuts off the data after `offset`, lest the next append follow half of a failed one."""
        try:
            file.cut(offset)
        except OSError as problem:
            self._give_up(file, problem)

    def _give_up(self, file: OpenFile, problem: OSError) -> OutputError:
        """Abandons a file that the disk may not hold as it was written; a later fsync would not tell."""
        doubt = OutputError(f"cannot make {file.name} durable: {problem.strerror or problem}")
        for series in [series for series, each in self._files.items() if each is file]:
            self._forget(series, file)
        file.close()
        self._doubt = doubt
        return doubt

    def _forget(self, series: Series, file: OpenFile) -> None:
        del self._files[series]
        self._awake.pop(series, None)
        self._unsynced.discard(file)


def crawl_name(crawl: str) -> str:
    """A crawl's name in the names of its files: the same, or, for a name that no frontier of ours gives,
    another of at most 64 harmless characters, which no other crawl has."""
    if _CRAWL.fullmatch(crawl):
        return crawl
    digest = sha256(crawl.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{re.sub(r'[^a-z0-9._-]+', '_', crawl).lstrip('.')[: 63 - _DIGEST_CHARS]}~{digest}"


def utc_text(time_ms: int) -> str:
    """A time since the epoch as `2023-11-14T22:13:20.123Z`."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def _node_name(node: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", node)[:64] or "node"
