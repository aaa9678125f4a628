"""Reads the URIs that wait in a work queue, in their order.

A scan that walks over the rows of URIs that have left costs as much as if they were there. So each search
starts at a level's head, and ends at the level's last URI.
"""

from collections.abc import Iterator

from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.records import PendingUri, decode_pending
from ..rows.store import Family
from .crawl import Crawl
from .operation import Operation
from .queue import WorkQueue


def first_uri(op: Operation, crawl: Crawl, queue: WorkQueue) -> tuple[bytes, PendingUri]:
    """The position and row of a non-empty queue's first URI. Raises StoreCorrupt if none is stored.

    The search starts at each level's head, the most urgent level first. Thus an urgent latecomer does not
    lead to another walk past the deleted rows of the other levels.
    """
    known = queue.ahead.first or _read_ahead(op, crawl, queue)
    if known is not None:
        position, value = known
        queue.firsts[keys.level_of(position)] = keys.ordinal_of(position)
        return position, decode_pending(value)
    raise StoreCorrupt(
        f"queue {queue.row.key!r} must have {queue.row.count} stored URIs from its heads on, got none"
    )


def _read_ahead(op: Operation, crawl: Crawl, queue: WorkQueue) -> tuple[bytes, bytes] | None:
    """Read the first rows of a queue's most urgent level that has any. Returns the first of these.

    Never read past the last row of a level or a queue: that would walk past all deleted rows of the next one.
    Only for the last level is the number of rows known.
    """
    queue_key = keys.queue_row_key(crawl.number, queue.queue)
    levels = [each for each in sorted(queue.row.heads) if queue.firsts.get(each, 0) is not None]
    for level in levels:
        most = queue.row.count if level == levels[-1] else 1
        first = queue.firsts.get(level) or queue.row.heads[level]
        if first > queue.lasts.get(level, first):
            queue.firsts[level] = None
            continue
        start = keys.level_position(level, first)
        rows = op.tx.scan(Family.PENDING, queue_key + start, queue_key + start[:2])
        queue.ahead.read(rows, len(queue_key), most)
        if queue.ahead.first is not None:
            return queue.ahead.first
        queue.firsts[level] = None
    return None


def first_free(op: Operation, crawl: Crawl, queue: WorkQueue) -> tuple[bytes, PendingUri] | None:
    """The position and row of a queue's first URI that is not out; None if all are.

    A look never goes past the last URI of a level: behind it RocksDB walks all deleted rows of the next one.
    """
    if not queue.out:
        return first_uri(op, crawl, queue)
    if len(queue.out) >= queue.row.count:
        return None
    queue_key = keys.queue_row_key(crawl.number, queue.queue)
    for level, head in sorted(queue.row.heads.items()):  # level by level, as in `_read_ahead`
        start, last = max(keys.level_position(level, head), queue.free_from), queue.lasts.get(level)
        if keys.level_of(start) != level or (last is not None and keys.ordinal_of(start) > last):
            continue
        latest = keys.ordinal_of(start) - 1
        for key, value in op.tx.scan(Family.PENDING, queue_key + start, queue_key + level.to_bytes(2, "big")):
            position = key[len(queue_key) :]
            if position not in queue.out:
                queue.free_from = position
                return position, decode_pending(value)
            latest = keys.ordinal_of(position)
            if latest == last:
                break
        queue.lasts[level] = max(latest, 0)
    raise StoreCorrupt(
        f"queue {queue.row.key!r} must have {queue.row.count} stored URIs, {len(queue.out)} of them out"
    )


def uris_from(
    op: Operation, crawl: Crawl, queue: WorkQueue, position: bytes
) -> Iterator[tuple[bytes, PendingUri]]:
    """The stored URIs of a queue from a position on, in order."""
    queue_key = keys.queue_row_key(crawl.number, queue.queue)
    for key, value in op.tx.scan(Family.PENDING, queue_key + max(position, queue.row.start), queue_key):
        yield key[len(queue_key) :], decode_pending(value)
