"""A store in RocksDB, through rocksdict in raw mode.

What rocksdict 0.3.29 cannot be trusted with is not used: iterate bounds and
snapshots. A scan is a plain iterator (a consistent view as of its creation) that
stops at the first foreign key. A write is one batch over all families without
sync; `flush` syncs the log and may run in another thread, as it releases the GIL. Its
Checkpoint does not: `copying` makes one instead.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from ..core.store import Changes, Family, StoreFailed, WriteStalled
from .copying import copy_live, log_bytes

MIB = 1024 * 1024
BLOCK_CACHE_BYTES = 32 * MIB
WRITE_BUFFER_BYTES = 16 * MIB  # of a family
ALL_WRITE_BUFFERS_BYTES = 80 * MIB
MAX_COPIED_LOG_BYTES = 16 * MIB
BLOOM_BITS = 10
# A file most of whose entries are deletions is compacted: popped queue heads, ended
# leases and logged outcomes would otherwise have to be walked.
TOMBSTONE_WINDOW, TOMBSTONES = 20_000, 10_000


class StoreUnavailable(StoreFailed):
    """The store cannot be opened: in use, not writable, or damaged."""


class RocksStore:
    """Column families of one RocksDB."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """Open, or create unless it is only read. Raises StoreUnavailable with a sentence for people."""
        self._path = path
        cache = Cache(BLOCK_CACHE_BYTES)
        families = {family.value: _options(cache) for family in Family}
        options = _options(cache)
        options.create_missing_column_families(True)
        options.set_db_write_buffer_size(ALL_WRITE_BUFFERS_BYTES)
        options.set_max_background_jobs(2)
        options.set_max_total_wal_size(256 * MIB)
        options.set_keep_log_file_num(4)
        try:
            access = AccessType.read_only() if read_only else AccessType.read_write()
            self._db = Rdict(str(path), options, families, access)
        except Exception as problem:  # rocksdict raises bare Exceptions
            text = str(problem)
            if "lock" in text.lower():
                raise StoreUnavailable(f"{path} is in use by another server ({text})") from problem
            raise StoreUnavailable(f"{path} cannot be opened: {text}") from problem
        self._families = {family: self._db.get_column_family(family.value) for family in Family}
        self._handles = {family: self._db.get_column_family_handle(family.value) for family in Family}
        self._writing = WriteOptions()
        self._writing.no_slowdown = True

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        value: bytes | None = self._families[family].get(key)
        return value

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        values: Any = self._families[family].get(list(keys))  # typed as if for one key
        return cast("list[bytes | None]", values)

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows from `start` on, in key order, as long as their keys begin with `prefix`."""
        rows: Any = self._families[family].items(from_key=max(start, prefix))  # raw mode: bytes
        for key, value in rows:
            if not key.startswith(prefix):
                return
            yield key, value

    def write(self, changes: Changes) -> None:
        """Apply a change list, all or nothing, and show it. Raises WriteStalled or StoreFailed."""
        batch = WriteBatch(raw_mode=True)
        for (family, key), value in changes.items():
            if value is None:
                batch.delete(key, self._handles[family])
            else:
                batch.put(key, value, self._handles[family])
        try:
            self._db.write(batch, self._writing)
        except Exception as problem:
            if "stall" in str(problem).lower():
                raise WriteStalled(str(problem)) from problem
            raise StoreFailed(f"write: {problem}") from problem

    def flush(self) -> None:
        """Sync the log: everything written before the call is durable. Raises StoreFailed."""
        try:
            self._db.flush_wal(True)
        except Exception as problem:
            raise StoreFailed(f"flush: {problem}") from problem

    def pressed(self) -> bool:
        """Whether RocksDB slows or stops writes."""
        return bool(
            self._db.property_int_value("rocksdb.is-write-stopped")
            or self._db.property_int_value("rocksdb.actual-delayed-write-rate")
        )

    def checkpoint(self, path: Path) -> None:
        """Make a store of its own at a path that is not there yet, by links to the files of this one.

        It has everything written before the call. Raises StoreFailed or OSError. May block, and lets other
        threads run.
        """
        if log_bytes(self._path) > MAX_COPIED_LOG_BYTES:  # or whoever opens the copy had to read all that
            try:
                for family in self._families.values():
                    family.flush(True)
            except Exception as problem:
                raise StoreFailed(f"checkpoint: {problem}") from problem
        copy_live(self._path, path)

    def close(self) -> None:
        """Close every family, without which the lock would stay held."""
        self._handles.clear()
        for family in self._families.values():
            family.close()
        self._families.clear()
        self._db.close()


def _options(cache: Cache) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_level_compaction_dynamic_level_bytes(True)
    options.add_compact_on_deletion_collector_factory(TOMBSTONE_WINDOW, TOMBSTONES, 0.5)
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_bloom_filter(BLOOM_BITS, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_format_version(5)  # readable by the ldb tools that distributions ship
    options.set_block_based_table_factory(table)
    return options
