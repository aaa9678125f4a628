"""A store in RocksDB, through rocksdict in raw mode.

Some parts of rocksdict 0.3.29 are unreliable and not used: iterate bounds, snapshots, and
`items`, which ends silently at an unreadable block. A scan is a plain iterator (a consistent
view as of its creation) that stops at the first foreign key. A write is one batch over all
families without sync; `flush` syncs the log and may run in another thread, as it releases the
GIL. rocksdict's Checkpoint holds the GIL: `copies` replaces it.

RocksDB begins a new log whenever a family's buffer is full, although the end of the last log
may not be durable. If a power cut took that end and left the next log, the next start would
take both for one history, with a hole in it (facebook/rocksdb#12488; RocksDB 9.8 does not
notice). So `rotate_wal` begins each log, between two writes and after a sync, long before a
buffer is full. `power_cut` cuts off holes within a log at the start.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from ..core.opening.opening import WAY_BACK
from ..core.rows.store import Changes, Family, StoreDamaged, StoreFailed, WriteStalled
from .copies import copy_live
from .descriptors import open_files
from .manifest import cut_torn_end
from .power_cut import mend

MIB = 1024 * 1024
CACHE_BYTES = 32 * MIB  # default: for blocks, filters and indexes
LOG_BYTES = 24 * MIB  # after so many bytes begin a new log, and flush the buffers
# Only beyond these does RocksDB begin logs by itself: if its flushes are too slow, or nobody rotates.
WRITE_BUFFER_BYTES = 64 * MIB  # of a family
ALL_WRITE_BUFFERS_BYTES = 80 * MIB
ALL_LOGS_BYTES = 256 * MIB
# Flushed buffers are merged into a level of about their size, and from there on piece by piece. With the
# defaults of RocksDB, 256 and 64 MiB, every four of them rewrote all rows of their family.
FIRST_LEVEL_BYTES, FILE_BYTES = 64 * MIB, 16 * MIB
BLOOM_BITS = 10
# Indexes and filters are cut into pieces of this size. A whole filter has 10 bits for each row of its file,
# soon more than one of the cache's shards (up to 64) can hold: each look-up would read it again.
PIECE_BYTES = 16 * 1024
# Most look-ups in these families find nothing, so their buffers in memory get a filter, too.
MOSTLY_ABSENT = frozenset((Family.SEEN, Family.QUEUES))
MEMORY_FILTER_SHARE = 0.02  # of a buffer
# A file with mostly deletions is compacted: otherwise scans would walk over popped queue heads, ended leases
# and logged outcomes.
TOMBSTONE_WINDOW, TOMBSTONES = 20_000, 10_000
LEVELS = 7  # RocksDB's default
FORMER_NAMES = {Family.FETCH_STATISTICS: "figures"}


# RocksDB's words for files that no retry makes readable, and for a store that another process uses.
_DAMAGE = re.compile(r"Corruption|No such file or directory: .*(?:\.sst|MANIFEST-\d+):")
_TORN = re.compile(r"Corruption: .*MANIFEST")
_NEWER = re.compile(r"Column families not opened: (.+)")
_IN_USE = re.compile(r"While lock file|lock hold by current process")


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """RocksDB's own numbers, of all families together."""

    write_buffer_bytes: int  # memtables
    waiting_write_buffers: int  # full ones, which are not written to files yet
    is_stopped: bool  # it takes no writes
    delayed_bytes_per_s: int  # the rate that it slows writes down to; 0 if it does not
    pending_compaction_bytes: int
    running_compactions: int
    running_flushes: int
    cache_bytes: int
    cache_limit_bytes: int
    file_bytes: int
    files_of_level: tuple[int, ...]
    background_errors: int


class StoreUnavailable(StoreFailed):
    """The store cannot be opened: in use, or not writable."""


class RocksStore:
    """Column families of one RocksDB."""

    def __init__(
        self, path: Path, read_only: bool = False, cache_bytes: int = CACHE_BYTES, is_mirror: bool = False
    ) -> None:
        """Open the store; create it unless `read_only`.

        A mirror (see `unchanged`) is mended although it is only read, and its path may go once it is open.
        Raises StoreUnavailable or StoreDamaged, with a message for people.
        """
        self._path = path
        mends = is_mirror or not read_only
        self.damage = ""  # the first damage that was found since
        if not (path / "CURRENT").exists() and any(path.glob("*.sst")):
            # RocksDB would begin a new store, and delete the files of the old one.
            raise StoreDamaged(f"{path}: the file CURRENT is missing")
        if mends:
            try:
                mend(path)
            except OSError as problem:
                raise StoreUnavailable(f"{path} cannot be mended after a power cut: {problem}") from problem
        try:
            self._db = _opened(path, read_only, cache_bytes, is_mirror)
        except Exception as problem:
            if not mends or not _TORN.search(_on_a_line(problem)) or not cut_torn_end(path):
                raise _refusal(path, problem) from problem
            try:
                self._db = _opened(path, read_only, cache_bytes, is_mirror)
            except Exception as another:
                raise _refusal(path, another) from another
        names = family_names(path)
        self._families = {family: self._db.get_column_family(name) for family, name in names.items()}
        self._handles = {family: self._db.get_column_family_handle(name) for family, name in names.items()}
        self._log_bytes = 0  # written since a log was begun
        self._writing = WriteOptions()
        self._writing.no_slowdown = True

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of a key, or None. Raises StoreFailed."""
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as problem:
            raise self._failure("read", problem) from problem
        return value

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order. Raises StoreFailed."""
        try:
            values: Any = self._families[family].get(list(keys))  # typed as if for one key
        except Exception as problem:
            raise self._failure("read", problem) from problem
        return cast("list[bytes | None]", values)

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows from `start` on, in key order, as long as their keys begin with `prefix`.

        Raises StoreFailed at an unreadable block.
        """
        rows: Any = self._families[family].iter()  # raw mode: bytes
        rows.seek(max(start, prefix))
        while rows.valid():
            key = rows.key()
            if not key.startswith(prefix):
                return
            yield key, rows.value()
            rows.next()
        try:
            rows.status()  # raises unless this is the end
        except Exception as problem:
            raise self._failure("read", problem) from problem

    def write(self, changes: Changes) -> None:
        """Apply a change list, all or nothing. Reads then show it. Raises WriteStalled or StoreFailed."""
        self._write(self._batch_of(changes))

    def _batch_of(self, changes: Changes) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        for (family, key), value in changes.items():
            if value is None:
                batch.delete(key, self._handles[family])
            else:
                batch.put(key, value, self._handles[family])
        return batch

    def _write(self, batch: WriteBatch) -> None:
        size = batch.size_in_bytes()
        try:
            self._db.write(batch, self._writing)
        except Exception as problem:
            if "stall" in str(problem).lower():
                raise WriteStalled(str(problem)) from problem
            raise self._failure("write", problem) from problem
        self._log_bytes += size

    def flush(self) -> None:
        """Sync the log: everything written before the call is durable. Raises StoreFailed."""
        try:
            self._db.flush_wal(True)
        except Exception as problem:
            raise self._failure("flush", problem) from problem

    def log_is_full(self) -> bool:
        """Whether to begin a new log. Not while buffers are flushed: `rotate_wal` would wait for them."""
        return self._log_bytes >= LOG_BYTES and not any(
            family.property_int_value("rocksdb.num-immutable-mem-table") for family in self._families.values()
        )

    def rotate_wal(self) -> None:
        """Sync all writes, and begin a new log. Buffers are flushed in the background.

        Don't write meanwhile. Takes a sync and some milliseconds. Raises StoreFailed.
        """
        RocksStore.flush(self)  # the disk's sync: one with a log flushes to that
        try:
            for family in self._families.values():
                family.flush(False)
        except Exception as problem:
            raise self._failure("flush", problem) from problem
        self._log_bytes = 0

    def pressed(self) -> bool:
        """Whether RocksDB slows or stops writes."""
        return bool(
            self._db.property_int_value("rocksdb.is-write-stopped")
            or self._db.property_int_value("rocksdb.actual-delayed-write-rate")
        )

    def statistics(self) -> "StoreStatistics":
        """RocksDB's own numbers, which it has at hand. Takes some ten microseconds."""
        whole = self._db.property_int_value
        families = list(self._families.values())

        def total(name: str) -> int:
            return sum(family.property_int_value(name) or 0 for family in families)

        return StoreStatistics(
            write_buffer_bytes=total("rocksdb.cur-size-all-mem-tables"),
            waiting_write_buffers=total("rocksdb.num-immutable-mem-table"),
            is_stopped=bool(whole("rocksdb.is-write-stopped")),
            delayed_bytes_per_s=whole("rocksdb.actual-delayed-write-rate") or 0,
            pending_compaction_bytes=total("rocksdb.estimate-pending-compaction-bytes"),
            running_compactions=whole("rocksdb.num-running-compactions") or 0,
            running_flushes=whole("rocksdb.num-running-flushes") or 0,
            cache_bytes=whole("rocksdb.block-cache-usage") or 0,
            cache_limit_bytes=whole("rocksdb.block-cache-capacity") or 0,
            file_bytes=total("rocksdb.total-sst-files-size"),
            files_of_level=tuple(total(f"rocksdb.num-files-at-level{level}") for level in range(LEVELS)),
            background_errors=whole("rocksdb.background-errors") or 0,
        )

    def checkpoint(self, path: Path) -> None:
        """Make a separate store at a new path, by links to the files of this one.

        It has all writes before the call. Raises OSError. May block, and lets other threads run.
        """
        copy_live(self._path, path)

    def _failure(self, what: str, problem: Exception) -> StoreFailed:
        """Classify an error of RocksDB; rocksdict raises bare Exceptions."""
        text = f"{what}: {_on_a_line(problem)}"
        if not _DAMAGE.search(text):
            return StoreFailed(text)
        self.damage = self.damage or text
        return StoreDamaged(text)

    def close(self) -> None:
        """Close the store and every family; an open family would keep the lock."""
        self._handles.clear()
        for family in self._families.values():
            family.close()
        self._families.clear()
        self._db.close()


def family_names(path: Path) -> dict[Family, str]:
    """The names of the families in a store. A store from before format 3 keeps the former names."""
    names = {family: family.value for family in Family}
    if (path / "CURRENT").exists():
        stored = Rdict.list_cf(str(path), Options(raw_mode=True))
        names |= {family: former for family, former in FORMER_NAMES.items() if former in stored}
    return names


def _opened(path: Path, read_only: bool, cache_bytes: int, all_files: bool) -> Rdict:
    """Open the database, and perhaps all its files at once. Raises bare Exceptions."""
    cache = Cache(cache_bytes)
    names = family_names(path)
    families = {name: table_options(cache, family in MOSTLY_ABSENT) for family, name in names.items()}
    options = table_options(cache)
    options.create_missing_column_families(True)
    options.set_db_write_buffer_size(ALL_WRITE_BUFFERS_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_total_wal_size(ALL_LOGS_BYTES)
    options.set_keep_log_file_num(4)
    options.set_max_open_files(-1 if all_files else open_files())
    access = AccessType.read_only() if read_only else AccessType.read_write()
    return Rdict(str(path), options, families, access)


def _refusal(path: Path, problem: Exception) -> StoreFailed:
    """Why a store cannot be opened, with a message for people."""
    text = _on_a_line(problem)
    if _IN_USE.search(text):
        return StoreUnavailable(f"{path} is in use by another server ({text})")
    if found := _NEWER.search(text):
        return StoreUnavailable(
            f"a later version of Toehold wrote {path}: it has rows of kinds that this version does not know "
            f"({found[1]}). {WAY_BACK}"
        )
    if _DAMAGE.search(text):
        return StoreDamaged(f"{path}: {text}")
    return StoreUnavailable(f"{path} cannot be opened: {text}")


def _on_a_line(problem: Exception) -> str:
    return " ".join(str(problem).split())


def table_options(cache: Cache, filter_memory: bool = False) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_bytes_for_level_base(FIRST_LEVEL_BYTES)
    options.set_target_file_size_base(FILE_BYTES)
    options.add_compact_on_deletion_collector_factory(TOMBSTONE_WINDOW, TOMBSTONES, 0.5)
    if filter_memory:
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(MEMORY_FILTER_SHARE)
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_bloom_filter(BLOOM_BITS, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(PIECE_BYTES)
    table.set_format_version(5)  # readable by the ldb tools that distributions ship
    options.set_block_based_table_factory(table)
    return options
