"""A store in memory, for tests."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from frontier_server.core.rows.store import Changes, Family


class MemoryStore:
    """Sorted keys and their values, for each family."""

    def __init__(self) -> None:
        self._keys: dict[Family, list[bytes]] = {family: [] for family in Family}
        self._values: dict[Family, dict[bytes, bytes]] = {family: {} for family in Family}

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        return self._values[family].get(key)

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        values = self._values[family]
        return [values.get(key) for key in keys]

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows from `start` on, in key order, as long as their keys begin with `prefix`."""
        keys, values = self._keys[family], self._values[family]
        rows = []  # as of now: later writes don't change them
        for key in keys[bisect_left(keys, max(start, prefix)) :]:
            if not key.startswith(prefix):
                break
            rows.append((key, values[key]))
        return iter(rows)

    def write(self, changes: Changes) -> None:
        """Apply a change list."""
        for (family, key), value in changes.items():
            values = self._values[family]
            if value is None:
                if values.pop(key, None) is not None:
                    keys = self._keys[family]
                    del keys[bisect_left(keys, key)]
            else:
                if key not in values:
                    insort(self._keys[family], key)
                values[key] = value

    def flush(self) -> None:
        """Does nothing: memory has no disk."""

    def log_is_full(self) -> bool:
        """Never: there is no log."""
        return False

    def rotate_wal(self) -> None:
        """Does nothing."""

    def pressed(self) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """Does nothing."""
