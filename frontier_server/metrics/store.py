"""RocksDB's own numbers, as families of metrics."""

from toehold_base.observability.metrics_page import Families

from ..stores.rocks import StoreStatistics
from .definitions import (
    BACKGROUND_ERRORS,
    BUFFER_BYTES,
    BUFFERS_WAITING,
    CACHE,
    CACHE_LIMIT,
    COMPACTIONS,
    DELAYED,
    FILE_BYTES,
    FILES,
    FLUSHES,
    PENDING,
    STOPPED,
)


def add_store(families: Families, store: StoreStatistics) -> None:
    """Add the values of a store."""
    families.add(BUFFER_BYTES, store.write_buffer_bytes)
    families.add(BUFFERS_WAITING, store.waiting_write_buffers)
    families.add(STOPPED, store.is_stopped)
    families.add(DELAYED, store.delayed_bytes_per_s)
    families.add(PENDING, store.pending_compaction_bytes)
    families.add(COMPACTIONS, store.running_compactions)
    families.add(FLUSHES, store.running_flushes)
    families.add(CACHE, store.cache_bytes)
    families.add(CACHE_LIMIT, store.cache_limit_bytes)
    families.add(FILE_BYTES, store.file_bytes)
    for level, count in enumerate(store.files_of_level):
        families.add(FILES, count, str(level))
    families.add(BACKGROUND_ERRORS, store.background_errors)
