"""A store in memory that counts the deleted keys which a scan has to walk, as RocksDB walks them."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator

from core_doubles.memory_store import MemoryStore

from frontier_server.core.rows.store import Changes, Family


class WornStore(MemoryStore):
    """Nothing is ever compacted in it: what was deleted stays in the way."""

    def __init__(self) -> None:
        super().__init__()
        self._deleted: dict[Family, list[bytes]] = {family: [] for family in Family}
        self.walked: Counter[Family] = Counter()
        self.goes_on = False  # count what lies behind a prefix, too

    def write(self, changes: Changes) -> None:
        """Apply a change list, and remember what it deletes."""
        for (family, key), value in changes.items():
            deleted = self._deleted[family]
            place = bisect_left(deleted, key)
            there = place < len(deleted) and deleted[place] == key
            if value is None and not there:
                insort(deleted, key)
            elif value is not None and there:
                del deleted[place]
        super().write(changes)

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows as ever; each step counts the deleted keys that it has passed."""
        deleted, place = self._deleted[family], max(start, prefix)
        for key, value in super().scan(family, start, prefix):
            self.walked[family] += bisect_left(deleted, key) - bisect_left(deleted, place)
            yield key, value
            place = key
        behind = prefix + b"\xff" * 32
        if self.goes_on:  # to the next row, whatever its prefix
            keys = self._keys[family]
            following = bisect_left(keys, behind)
            behind = keys[following] if following < len(keys) else b"\xff" * 64
        self.walked[family] += bisect_left(deleted, behind) - bisect_left(deleted, place)
