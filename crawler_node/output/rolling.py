"""Rolling files: append-only files of one process, each closed when it is long or old enough.

An open file ends in `.open` and is locked (flock). A closed file is durable and has its final name. The
system frees the locks of a process that dies, and repair then sees to its files.
"""

import fcntl
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfileobj
from typing import IO, NamedTuple

from toehold_client.durable import make_directory, sync_directory

DEFAULT_MAX_BYTES = 1_000_000_000
"""A file is closed, and the next one begun, before it would be longer than this."""

DEFAULT_MAX_AGE_S = 86_400.0
"""A file is closed when it is this old."""

DEFAULT_PREFIX = "toehold"

OPEN_SUFFIX = ".open"

_PIECE_BYTES = 64 * 1024

Head = Callable[[str, int], bytes]
"""Makes the beginning of a new file from its final name and the time in ms since the epoch."""


class OutputError(OSError):
    """Data could not be written, or not be made durable."""


@dataclass(frozen=True, slots=True)
class Rolling:
    """How files are named, and when they are closed.

    The name is `<prefix>-<UTC time>-<serial>-<node>~<process id><suffix>`. Raises ValueError.
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


DEFAULT_ROLLING = Rolling()


class Written(NamedTuple):
    """The files that were begun, and the records and bytes that were appended to them."""

    files: int
    records: int
    bytes: int


class RollingFiles:
    """The files of one process in one directory. The first append begins the first file. Thread-safe.

    File names end in `suffix`, such as `.warc.gz`. Raises OutputError when the directory can be neither
    created nor written to.
    """

    def __init__(
        self,
        directory: Path,
        node: str,
        suffix: str,
        *,
        head: Head = lambda name, now_ms: b"",
        rolling: Rolling = DEFAULT_ROLLING,
        process_id: int | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.directory = directory
        self._owner = f"{_name(node)}~{os.getpid() if process_id is None else process_id}"
        self._suffix = suffix
        self._head = head
        self._rolling = rolling
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._serial = 0
        self._file: _File | None = None
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

    def append(self, data: IO[bytes], length: int, records: int = 1) -> None:
        """Appends the rest of `data`, which is `length` bytes and so many records, to one file.

        Stores all of it or none: a failed write is cut off again. Not durable before `sync`. Raises
        OutputError.
        """
        with self._lock:
            if self._closed:
                raise OutputError("the output is closed")
            file = self._file
            if file is not None and (self._is_old(file) or self._is_full(file, length)):
                self._finish(file)
            file = self._file or self._begin()
            offset = file.length
            try:
                copyfileobj(data, file, _PIECE_BYTES)
            except OSError as problem:
                self._take_back(file, offset)
                raise OutputError(f"cannot write {file.name}: {problem.strerror or problem}") from problem
            self._records += records
            self._bytes += length

    @property
    def written(self) -> "Written":
        """Its output so far."""
        with self._lock:
            return Written(self._serial, self._records, self._bytes)

    def sync(self) -> None:
        """Makes all appended data durable.

        Raises OutputError. Then the data appended since the last successful sync may be lost, and the file is
        given up: it stays behind as `.open`, and the next append begins a new one.
        """
        with self._lock:
            file = self._file
            descriptor = None if file is None else os.dup(file.descriptor)
        problem: OSError | None = None
        if descriptor is not None:
            try:
                os.fsync(descriptor)  # without the lock: appends go on
            except OSError as error:
                problem = error
            finally:
                os.close(descriptor)
        with self._lock:
            if problem is not None:
                self._give_up(file, problem)
            # Checked last, as an append that closed the file may have met the failure in our place.
            doubt, self._doubt = self._doubt, None
        if doubt is not None:
            raise doubt

    def roll_if_old(self) -> None:
        """Closes the present file if it is old enough, without an append. Raises OutputError, and then the
        next sync does so, too."""
        with self._lock:
            if self._file is not None and self._is_old(self._file):
                self._finish(self._file)

    def close(self) -> None:
        """Closes the present file under its final name, and refuses later appends. Raises OutputError."""
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._finish(self._file)

    # under the lock

    def _is_old(self, file: "_File") -> bool:
        return self._clock_ms() - file.begun_ms >= self._rolling.max_age_s * 1000

    def _is_full(self, file: "_File", length: int) -> bool:
        return file.length + length > self._rolling.max_bytes

    def _begin(self) -> "_File":
        now_ms = self._clock_ms()
        stamp = re.sub(r"[^0-9]", "", utc_text(now_ms))
        name = f"{self._rolling.prefix}-{stamp}-{self._serial:05}-{self._owner}{self._suffix}"
        try:
            file = _File(self.directory, name, now_ms)
        except OSError as problem:
            raise OutputError(f"cannot create {name}: {problem.strerror or problem}") from problem
        self._serial += 1
        try:
            file.write(self._head(name, now_ms))
            file.mark_empty()
            sync_directory(self.directory)
        except OSError as problem:
            file.remove()
            raise OutputError(f"cannot write {name}: {problem.strerror or problem}") from problem
        self._file = file
        return file

    def _finish(self, file: "_File") -> None:
        try:
            file.finish()
            sync_directory(self.directory)
        except OSError as problem:
            raise self._give_up(file, problem) from problem
        self._file = None

    def _take_back(self, file: "_File", offset: int) -> None:
        """Cuts off the data after `offset`, lest the next append follow half of a failed one."""
        try:
            file.cut(offset)
        except OSError as problem:
            self._give_up(file, problem)

    def _give_up(self, file: "_File | None", problem: OSError) -> OutputError:
        """Abandons a file that the disk may not hold as it was written; a later fsync would not tell."""
        self._doubt = OutputError(
            f"cannot make {file.name if file else 'output'} durable: {problem.strerror or problem}"
        )
        if file is not None and file is self._file:
            self._file = None
            file.close()
        return self._doubt


class _File:
    """One open file, unbuffered, so that data whose write failed is not written later."""

    def __init__(self, directory: Path, name: str, begun_ms: int) -> None:
        self.name = name
        self.begun_ms = begun_ms
        self.length = 0
        self._final_path = directory / name
        self._path = directory / f"{name}{OPEN_SUFFIX}"
        self._empty_length = 0
        self.descriptor = create_locked(self._path)

    @property
    def is_empty(self) -> bool:
        """Whether it holds only its head."""
        return self.length <= self._empty_length

    def mark_empty(self) -> None:
        """Says that the data written so far is only the file's head."""
        self._empty_length = self.length

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.write(self.descriptor, rest)
            self.length += written
            rest = rest[written:]

    def cut(self, offset: int) -> None:
        os.ftruncate(self.descriptor, offset)
        self.length = offset

    def finish(self) -> None:
        """Makes the file durable under its final name, or removes it if it is empty."""
        if self.is_empty:
            self.remove()
            return
        os.fsync(self.descriptor)
        self._path.rename(self._final_path)
        self.close()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def utc_text(time_ms: int) -> str:
    """A time since the epoch as `2023-11-14T22:13:20.123Z`."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def create_locked(path: Path) -> int:
    """Creates a file and locks it; its descriptor. It exists then, whatever repairs go on meanwhile."""
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Between these two calls a repair may have found an empty, unlocked file, and removed it.
            if is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        os.close(descriptor)


def _name(node: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", node)[:64] or "node"
