"""OpenFile: a file that one process writes, from its beginning to its final name.

Its name ends in `.open`, and it is locked (flock), until it is finished: durable, under its final name. It
can rest meanwhile: it keeps its name, without a descriptor. Then a repair may finish it, unless the claim of
its process protects it (see Claim).
"""

import fcntl
import os
from pathlib import Path

OPEN_SUFFIX = ".open"


class OutputError(OSError):
    """Data could not be written, or not be made durable."""


class OpenFile:
    """One file, unbuffered, so that data whose write failed is not written later. Raises OSError."""

    def __init__(self, directory: Path, name: str, begun_ms: int) -> None:
        self.name = name
        self.begun_ms = self.used_ms = begun_ms
        self.id = ""
        """What its records name it by."""
        self.length = 0
        self._final_path = directory / name
        self._path = directory / f"{name}{OPEN_SUFFIX}"
        self._head_length = 0
        if self._final_path.exists():  # or its end would replace a file
            raise FileExistsError(f"{name} exists")
        self._descriptor: int | None = create_locked(self._path)

    @property
    def is_empty(self) -> bool:
        """Whether it holds only its head."""
        return self.length <= self._head_length

    @property
    def rests(self) -> bool:
        """Whether it has no descriptor now."""
        return self._descriptor is None

    @property
    def descriptor(self) -> int:
        """Its descriptor, unless it rests."""
        assert self._descriptor is not None
        return self._descriptor

    def begin(self, head: bytes) -> None:
        """Writes what stands before all records."""
        self.write(head)
        self._head_length = self.length

    def write(self, data: bytes) -> None:
        """Appends data; on an error, perhaps a part of it."""
        rest = memoryview(data)
        while rest:
            written = os.write(self.descriptor, rest)
            self.length += written
            rest = rest[written:]

    def cut(self, offset: int) -> None:
        """Cuts off what was written after `offset`."""
        os.ftruncate(self.descriptor, offset)
        self.length = offset

    def rest(self) -> None:
        """Gives up the descriptor. What was written must be durable: a repair may finish the file."""
        self.close()

    def wake(self) -> bool:
        """Takes up a file that rests; False if a repair has finished it, or is about to."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = is_at(self._path, descriptor) and os.fstat(descriptor).st_size == self.length
        except BlockingIOError:
            is_ours = False
        except BaseException:
            os.close(descriptor)
            raise
        if not is_ours:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def finish(self) -> None:
        """Makes the file durable under its final name, or removes it if it is empty. The name is durable
        once the directory is synced."""
        if self.rests and not self.wake():
            return
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
        """Gives up the descriptor, if there is one, and with it the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


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
