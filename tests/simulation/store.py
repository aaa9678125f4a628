"""A store in memory whose crash loses what was written since the last flush, or the end of it."""

from core_doubles.memory_store import MemoryStore

from frontier_server.core.rows.store import Changes, Family


class CrashStore(MemoryStore):
    """Shows each write at once, and can take back those that no flush has covered."""

    def __init__(self) -> None:
        super().__init__()
        self._undo: list[Changes] = []  # of each write since the last flush, in their order

    @property
    def unflushed(self) -> int:
        """How many writes a crash may lose."""
        return len(self._undo)

    def write(self, changes: Changes) -> None:
        """Apply a change list, and remember what it replaced."""
        self._undo.append({row: self._values[row[0]].get(row[1]) for row in changes})
        super().write(changes)

    def flushed(self, writes: int) -> None:
        """The first so many writes are durable."""
        del self._undo[:writes]

    def crash(self, kept: int) -> None:
        """Lose all writes since the last flush but the first few: the log's end is torn, never its middle."""
        while len(self._undo) > kept:
            super().write(self._undo.pop())
        self._undo.clear()

    def copy(self) -> MemoryStore:
        """All that is durable, as it is now: for a checkpoint."""
        assert not self._undo, "a checkpoint is made of what is flushed"
        return copied(self)


def copied(store: MemoryStore) -> "CrashStore":
    """A store of its own with the same rows."""
    made = CrashStore()
    made._keys = {family: list(store._keys[family]) for family in Family}
    made._values = {family: dict(store._values[family]) for family in Family}
    return made
