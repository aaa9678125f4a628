"""The interface to storage: families of ordered bytes.

The core reads through `Store` and collects its changes in a `Transaction`, which shows
them to later reads of the same operation. The core never writes: the shell makes
`Changes` durable.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Protocol


class Family(Enum):
    """A kind of row; a column family of the database. The value is its name there."""

    CRAWLS = "crawls"
    SEEDS = "seeds"
    QUEUES = "queues"
    PENDING = "pending"
    SEEN = "seen"
    INDEX = "index"
    LEASES = "leases"
    HOSTS = "hosts"
    OWN_HOSTS = "own_hosts"
    ROBOTS = "robots"
    EVENTS = "events"
    OUTCOMES = "outcomes"
    JOBS = "jobs"
    IMPORTS = "imports"
    FETCH_STATISTICS = "fetch_statistics"
    OVERRIDES = "overrides"
    KEPT_URIS = "kept_uris"

    # Hashed by identity, which is faster: a family is part of every changed row's dictionary key.
    __hash__ = object.__hash__


# Absolute puts and deletes (None), so that applying a change list twice does no harm.
Changes = dict[tuple[Family, bytes], bytes | None]


class WriteStalled(Exception):
    """The store cannot take a write just now; the same write may be tried again."""


class StoreFailed(Exception):
    """The store has failed, and cannot be used until it is opened again."""


class StoreDamaged(StoreFailed):
    """The store is damaged: opening it again does not help. Salvage it, or replace it."""


class Store(Protocol):
    """Ordered bytes to read. A store shows all committed changes."""

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of a key, or None."""

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows from `start` on, in key order, as long as their keys begin with `prefix`."""


CheckpointOf = Callable[[str], Store]
"""The store of a checkpoint, by its name. Raises UnknownCheckpoint."""


class WritableStore(Store, Protocol):
    """A store for the shell."""

    def write(self, changes: Changes) -> None:
        """Apply a change list, all or nothing. Reads then show it. Raises WriteStalled or StoreFailed."""

    def flush(self) -> None:
        """Make all writes before the call durable. Raises StoreFailed. May block."""

    def log_is_full(self) -> bool:
        """Whether it is time to begin a new log."""

    def rotate_wal(self) -> None:
        """Sync all writes, and begin a new log. Don't write meanwhile. Raises StoreFailed. May block."""

    def pressed(self) -> bool:
        """Whether writes are near a stall."""

    def close(self) -> None:
        """Close the store."""


class Transaction:
    """One operation's view of the store, with its changes on top."""

    __slots__ = ("_own", "_store", "changes")

    def __init__(self, store: Store) -> None:
        self._store = store
        self.changes: Changes = {}
        self._own: dict[Family, list[bytes]] = {}  # changed keys of scanned families, in order

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Set a row."""
        if family in self._own:
            self._note(family, key)
        self.changes[family, key] = value

    def delete(self, family: Family, key: bytes) -> None:
        """Remove a row, if there is one."""
        if family in self._own:
            self._note(family, key)
        self.changes[family, key] = None

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of a key as this operation sees it."""
        if (family, key) in self.changes:
            return self.changes[family, key]
        return self._store.get(family, key)

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys as this operation sees them."""
        values = self._store.get_many(family, keys)
        if self.changes:
            for place, key in enumerate(keys):
                if (family, key) in self.changes:
                    values[place] = self.changes[family, key]
        return values

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows from `start` on with `prefix`, as this operation sees them now."""
        own = [(key, self.changes[family, key]) for key in self._changed(family, max(start, prefix), prefix)]
        place = 0
        for key, value in self._store.scan(family, start, prefix):
            while place < len(own) and own[place][0] < key:
                if own[place][1] is not None:
                    yield own[place][0], own[place][1]  # type: ignore[misc]  # not None: tested
                place += 1
            if place < len(own) and own[place][0] == key:
                continue
            yield key, value
        for own_key, own_value in own[place:]:
            if own_value is not None:
                yield own_key, own_value

    def _changed(self, family: Family, start: bytes, prefix: bytes) -> list[bytes]:
        """The changed keys of a family from `start` on with `prefix`, in their order.

        An operation may scan a family for each of a hundred queues, with a thousand changes by then: so the
        keys are sorted once, and kept sorted.
        """
        own = self._own.get(family)
        if own is None:
            own = self._own[family] = sorted(key for of, key in self.changes if of is family)
        first = end = bisect_left(own, start)
        while end < len(own) and own[end].startswith(prefix):
            end += 1
        return own[first:end]

    def _note(self, family: Family, key: bytes) -> None:
        if (family, key) not in self.changes:
            insort(self._own[family], key)
