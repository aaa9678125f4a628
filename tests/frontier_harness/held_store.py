"""A store in memory whose disk can be made to hang, stall and fail, and whose power can be cut."""

import threading
from collections.abc import Iterator, Sequence

from core_doubles.memory_store import MemoryStore

from frontier_server.core.rows.store import Changes, Family, StoreFailed, WriteStalled

from .waiting import PATIENCE_S


class HeldStore:
    """Shows every write at once, as RocksDB does; `disk` has what a finished flush covered, and nothing else.

    Its flush is called from a thread. While `hold()` is in force a flush waits; `release(n)` lets n of them
    end, `release()` all from then on.
    """

    def __init__(self) -> None:
        self.disk = MemoryStore()
        self.written: list[Changes] = []
        self.durable = 0  # of `written`
        self.flushes_begun = self.flushes_ended = 0
        self.write_problem: Exception | None = None
        self.flush_problem: Exception | None = None
        self.stalled = False
        self.stalls = 0
        self.log_full = False
        self.logs_begun = 0
        self._shown = MemoryStore()
        self._held = False
        self._passes = 0
        self._change = threading.Condition()

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._shown.get(family, key)

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._shown.get_many(family, keys)

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._shown.scan(family, start, prefix)

    def write(self, changes: Changes) -> None:
        if self.write_problem is not None:
            raise self.write_problem
        if self.stalled:
            self.stalls += 1
            raise WriteStalled("Result incomplete: Write stall")
        with self._change:
            self.written.append(dict(changes))
        self._shown.write(changes)

    def flush(self) -> None:
        with self._change:
            covered = len(self.written)  # not what is written while it works
            self.flushes_begun += 1
            self._change.wait_for(lambda: not self._held or self._passes > 0, PATIENCE_S)
            self._passes = max(self._passes - 1, 0)
            if self.flush_problem is not None:
                raise self.flush_problem
            for changes in self.written[self.durable : covered]:
                self.disk.write(changes)
            self.durable = max(self.durable, covered)
            self.flushes_ended += 1

    def log_is_full(self) -> bool:
        return self.log_full

    def rotate_wal(self) -> None:
        written = len(self.written)
        self.flush()
        assert len(self.written) == written, "written while a log is begun"
        self.log_full = False
        self.logs_begun += 1

    def pressed(self) -> bool:
        return self.stalled

    def close(self) -> None:
        self._shown.close()

    def hold(self) -> None:
        """From now on no flush ends."""
        with self._change:
            self._held, self._passes = True, 0

    def release(self, flushes: int | None = None) -> None:
        """Let some flushes end, or all."""
        with self._change:
            self._held = flushes is not None
            self._passes = flushes or 0
            self._change.notify_all()

    @property
    def flushing(self) -> bool:
        """Whether a flush is under way."""
        return self.flushes_begun > self.flushes_ended


def full_disk(what: str) -> StoreFailed:
    """What RocksDB says when the disk is full."""
    return StoreFailed(f"{what}: IO error: No space left on device")


def copied(store: MemoryStore) -> MemoryStore:
    """The same rows in a store of their own."""
    copy = MemoryStore()
    for family in Family:
        copy.write({(family, key): value for key, value in store.scan(family, b"", b"")})
    return copy
