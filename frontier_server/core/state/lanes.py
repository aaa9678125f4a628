"""Lanes: the waiting URIs of each authority in a queue that several share, in the family `index`.

A lane has a row for each URI, and behind them its own row, with the position of its first URI. Thus a scan
never leaves the lane: RocksDB would walk over all deleted rows of the next one. The lanes of a queue are in
the order of their first URIs, again with a row behind the last one. So the first URI of an authority, and
the next authority, cost one look each, however many URIs wait.

A URI knows its lane (`PendingUri.lane`) and is put into it when it comes into a queue that is shared. Older
stores have no lanes, and a queue may be shared only later: `file_rest` then files what waits already.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import structs

from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.keys import LAST_POSITION, POSITION_BYTES, IndexSet
from ..rows.records import PendingUri, decode_pending
from ..rows.store import Family
from ..spec.settings import CrawlSettings
from ..uri.assign import hash64
from .crawl import Crawl
from .operation import PRESENT, Operation
from .queue import WorkQueue

_SHARING = frozenset(("registered-domain", "buckets"))


def shares(queue: WorkQueue, settings: CrawlSettings) -> bool:
    """Whether a queue may contain URIs of several hosts, schemes or ports."""
    return settings.queues.assignment in _SHARING or bool(settings.queues.queue_key) or queue.row.forced


@lru_cache(maxsize=16_384)
def lane_of(origin: str) -> bytes:
    """The lane of an authority, which is written as `https://host:port`."""
    return hash64(origin)


def enter(op: Operation, crawl: Crawl, queue: WorkQueue, lane: bytes, position: bytes) -> None:
    """Put a URI into its lane."""
    prefix = keys.lane_prefix(crawl.number, queue.queue, lane)
    op.tx.put(Family.INDEX, prefix + position, PRESENT)
    head = op.tx.get(Family.INDEX, prefix + LAST_POSITION)
    if head is None or position < head:
        _set_head(op, crawl, queue, lane, head, position)
    if queue.passing is not None:
        queue.passing.arrived(lane, position)


def leave(op: Operation, crawl: Crawl, queue: WorkQueue, lane: bytes, position: bytes) -> None:
    """Take a URI out of its lane."""
    prefix = keys.lane_prefix(crawl.number, queue.queue, lane)
    op.tx.delete(Family.INDEX, prefix + position)
    if op.tx.get(Family.INDEX, prefix + LAST_POSITION) == position:
        _set_head(op, crawl, queue, lane, position, next(positions(op, crawl, queue, lane, position), None))


def has(op: Operation, crawl: Crawl, queue: WorkQueue, lane: bytes, position: bytes) -> bool:
    """Whether a URI is in its lane, and the lane in the order of the queue's lanes."""
    prefix = keys.lane_prefix(crawl.number, queue.queue, lane)
    head = op.tx.get(Family.INDEX, prefix + LAST_POSITION)
    if head is None or head > position or op.tx.get(Family.INDEX, prefix + position) is None:
        return False
    heads = keys.lane_head_prefix(crawl.number, queue.queue)
    rows = op.tx.get_many(Family.INDEX, (heads + head + lane, heads + LAST_POSITION))
    return None not in rows


def mend(op: Operation, crawl: Crawl, queue: WorkQueue, lane: bytes, position: bytes) -> None:
    """Put a URI into its lane, and the lane into the order, whichever rows of these are lost."""
    own = keys.lane_prefix(crawl.number, queue.queue, lane) + LAST_POSITION
    head = op.tx.get(Family.INDEX, own)
    enter(op, crawl, queue, lane, position)
    if head is not None and head <= position:
        op.tx.delete(Family.INDEX, own)
        _set_head(op, crawl, queue, lane, None, head)


def is_explained(op: Operation, crawl: Crawl, key: bytes) -> bool:
    """Whether a row of a lane, or of the order of lanes, follows from a URI that waits."""
    queue, rest = key[5:21], key[21:]
    if key[4] == IndexSet.LANE_HEAD:
        position, lane = rest[:POSITION_BYTES], rest[POSITION_BYTES:]
        own = keys.lane_prefix(crawl.number, queue, lane) + LAST_POSITION
        return position == LAST_POSITION or op.tx.get(Family.INDEX, own) == position
    lane, position = rest[:-POSITION_BYTES], rest[-POSITION_BYTES:]
    if position == LAST_POSITION:
        first = op.tx.get(Family.INDEX, key)
        return first is not None and op.tx.get(Family.INDEX, key[:-POSITION_BYTES] + first) is not None
    value = op.tx.get(Family.PENDING, keys.pending_key(crawl.number, queue, position))
    return value is not None and decode_pending(value).lane == lane


def positions(op: Operation, crawl: Crawl, queue: WorkQueue, lane: bytes, start: bytes) -> Iterator[bytes]:
    """The positions of a lane's URIs from one on, in order."""
    prefix = keys.lane_prefix(crawl.number, queue.queue, lane)
    for key, _ in op.tx.scan(Family.INDEX, prefix + start, prefix):
        position = key[-POSITION_BYTES:]
        if position == LAST_POSITION:
            return
        yield position


def first_free(
    op: Operation, crawl: Crawl, queue: WorkQueue, lane: bytes, start: bytes
) -> tuple[bytes, PendingUri] | None:
    """The position and row of a lane's first URI that is not out, from a position on; None if all are."""
    queue_key = keys.queue_row_key(crawl.number, queue.queue)
    if start not in queue.out:
        value = op.tx.get(Family.PENDING, queue_key + start)
        if value is not None:
            return start, decode_pending(value)
    for position in positions(op, crawl, queue, lane, start):
        if position not in queue.out:
            value = op.tx.get(Family.PENDING, queue_key + position)
            if value is None:
                raise StoreCorrupt(
                    f"queue {queue.row.key!r} must have a URI at {position.hex()}, as its lane says"
                )
            return position, decode_pending(value)
    return None


def in_order(op: Operation, crawl: Crawl, queue: WorkQueue, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The lanes of a queue whose first URIs are at a position or behind it: that position, and the lane."""
    prefix = keys.lane_head_prefix(crawl.number, queue.queue)
    for key, _ in op.tx.scan(Family.INDEX, prefix + start, prefix):
        position = key[len(prefix) : len(prefix) + POSITION_BYTES]
        if position == LAST_POSITION:
            return
        yield position, key[len(prefix) + POSITION_BYTES :]


def file_rest(
    op: Operation,
    crawl: Crawl,
    queue: WorkQueue,
    origin_of: Callable[[PendingUri], str],
    store: Callable[[bytes, PendingUri], None],
    most: int,
) -> int:
    """Put URIs that are in no lane into theirs, `most` at most. Returns how many were looked at.

    `store` writes a URI's row at its position. When all are filed, the queue's row says so.
    """
    row, looked = op.touch(queue), 0
    queue_key = keys.queue_row_key(crawl.number, queue.queue)
    for key, value in op.tx.scan(Family.PENDING, queue_key + max(row.filed, row.start), queue_key):
        position = key[len(queue_key) :]
        if looked == most:
            return looked
        looked += 1
        uri = decode_pending(value)
        if not uri.lane:
            lane = lane_of(origin_of(uri))
            store(position, structs.replace(uri, lane=lane))
            enter(op, crawl, queue, lane, position)
        row.filed = position
    row.filed = LAST_POSITION
    return looked


def _set_head(
    op: Operation, crawl: Crawl, queue: WorkQueue, lane: bytes, before: bytes | None, after: bytes | None
) -> None:
    """Change the position of a lane's first URI. A lane without URIs has no rows."""
    own = keys.lane_prefix(crawl.number, queue.queue, lane) + LAST_POSITION
    heads = keys.lane_head_prefix(crawl.number, queue.queue)
    if before is not None:
        op.tx.delete(Family.INDEX, heads + before + lane)
    if after is None:
        op.tx.delete(Family.INDEX, own)
        if queue.passing is not None:
            queue.passing.forget(lane)
        return
    op.tx.put(Family.INDEX, own, after)
    op.tx.put(Family.INDEX, heads + after + lane, PRESENT)
    if before is None:
        op.tx.put(Family.INDEX, heads + LAST_POSITION, PRESENT)
