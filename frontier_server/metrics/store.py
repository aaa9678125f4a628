"""RocksDB's own numbers, as families of metrics."""

from toehold_base.observability.metrics_page import Families

from ..stores.rocks import StoreStatistics
from . import definitions


def add_store(families: Families, store: StoreStatistics) -> None:
    """Add the values of a store."""
    families.add(definitions.BUFFER_BYTES, store.write_buffer_bytes)
    families.add(definitions.BUFFERS_WAITING, store.waiting_write_buffers)
    families.add(definitions.STOPPED, store.is_stopped)
    families.add(definitions.DELAYED, store.delayed_bytes_per_s)
    families.add(definitions.PENDING, store.pending_compaction_bytes)
    families.add(definitions.COMPACTIONS, store.running_compactions)
    families.add(definitions.FLUSHES, store.running_flushes)
    families.add(definitions.CACHE, store.cache_bytes)
    families.add(definitions.CACHE_LIMIT, store.cache_limit_bytes)
    families.add(definitions.FILE_BYTES, store.file_bytes)
    for level, count in enumerate(store.files_of_level):
        families.add(definitions.FILES, count, str(level))
    families.add(definitions.BACKGROUND_ERRORS, store.background_errors)
