"""URIs that wait for their time (Heritrix: futureUris), on disk in the order of their times.

A crawl with future URIs is not empty. Each row is put and deleted in the same write as the cause.
"""

from collections.abc import Callable
from itertools import islice

from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.keys import IndexSet
from ..rows.records import PendingUri, SeenRow, decode, decode_pending, encode, encode_pending
from ..rows.store import Family
from ..rules.outcome_words import retry_words
from ..state.crawl import Crawl
from ..state.head import read_head, stored_place
from ..state.model import CandidateCodec
from ..state.operation import Operation
from ..uri.assign import Place
from .enqueue import Arrival, put_in, queue_at

PER_CALL = 100
RECALLED_AT_ONCE = 10_000  # URIs, the next ones due, among which a call looks for those of one queue
LAST_MS = 253_402_300_799_999  # the year 9999


def keep(op: Operation, crawl: Crawl, due_ms: int, partition: bytes, uri: PendingUri) -> None:
    """Let a URI wait for its time. The caller updates its row in the seen-set."""
    key = keys.timed_key(crawl.number, IndexSet.FUTURE, due_ms, partition + uri.fingerprint)
    op.tx.put(Family.INDEX, key, encode_pending(uri))
    op.sums(crawl).future += 1
    crawl.future_head = min(crawl.future_head, key)
    first = crawl.first_future_ms
    crawl.first_future_ms = due_ms if first is None else min(first, due_ms)


def drop(op: Operation, crawl: Crawl, due_ms: int, partition: bytes, fingerprint: bytes) -> PendingUri:
    """End a URI's wait."""
    key = keys.timed_key(crawl.number, IndexSet.FUTURE, due_ms, partition + fingerprint)
    value = op.tx.get(Family.INDEX, key)
    if value is None:
        raise StoreCorrupt(f"crawl {crawl.name}: future URI {fingerprint.hex()} is not stored")
    op.tx.delete(Family.INDEX, key)
    op.sums(crawl).future -= 1
    return decode_pending(value)


def release_due(op: Operation, crawl: Crawl, codec: CandidateCodec) -> None:
    """Put URIs whose time has come into their queues, past the seen-set."""
    if crawl.first_future_ms is None or crawl.first_future_ms > op.now_ms:
        return
    prefix = keys.set_prefix(crawl.number, IndexSet.FUTURE)
    rows = op.tx.scan(Family.INDEX, max(prefix, crawl.future_head), prefix)
    due = list(islice(rows, PER_CALL + 1))
    for number, (key, value) in enumerate(due):
        due_ms = keys.due_of(key)
        if due_ms > op.now_ms or number == PER_CALL:
            crawl.future_head, crawl.first_future_ms = key, due_ms
            crawl.first_retry = (due_ms, retry_of(op, crawl, key, value))
            return
        uri = decode_pending(value)
        partition = key[13:21]
        drop(op, crawl, due_ms, partition, uri.fingerprint)
        _release(op, crawl, codec, partition, uri, due_ms)
    crawl.future_head, crawl.first_future_ms = due[-1][0] if due else prefix, None


def retry_of(op: Operation, crawl: Crawl, key: bytes, value: bytes) -> str:
    """Why the URI of a row rests before a retry; empty if it was not tried before."""
    if not decode_pending(value).attempts:
        return ""
    row = op.tx.get(Family.SEEN, keys.seen_key(crawl.number, key[13:21], key[21:]))
    seen = SeenRow(b"") if row is None else decode(SeenRow, row)
    return retry_words(seen.fetch_status, seen.reason)


def recall(
    op: Operation,
    crawl: Crawl,
    codec: CandidateCodec,
    cursor: bytes,
    most: int,
    partition: bytes,
    wanted: Callable[[Place], bool],
) -> tuple[bytes, int]:
    """Put URIs that rest alone before a retry into their queues ahead of their time.

    It looks at the next `most` URIs behind a cursor; those of other partitions cost little, if one is given
    (empty: all). Returns the cursor behind the last one, or an empty one at the end, and how many it found.
    """
    prefix = keys.set_prefix(crawl.number, IndexSet.FUTURE)
    rows = op.tx.scan(Family.INDEX, max(prefix + cursor, crawl.future_head), prefix)
    looked, found = 0, []
    for key, value in rows:
        if key[len(prefix) :] == cursor:
            continue
        looked += 1
        if not partition or key[13:21] == partition:
            found.append((key, value))
        if looked == most:
            cursor = key[len(prefix) :]
            break
    else:
        cursor = b""
    recalled = 0
    for key, value in found:
        uri = decode_pending(value)
        if uri.attempts and wanted(stored_place(crawl, read_head(crawl, codec, b"", uri), key[13:21])):
            drop(op, crawl, keys.due_of(key), key[13:21], uri.fingerprint)
            _release(op, crawl, codec, key[13:21], uri, op.now_ms)
            recalled += 1
    return cursor, recalled


def _release(
    op: Operation, crawl: Crawl, codec: CandidateCodec, partition: bytes, uri: PendingUri, due_ms: int
) -> None:
    head = read_head(crawl, codec, b"", uri)
    place = stored_place(crawl, head, partition)
    queue = queue_at(op, crawl, place, head.uri.host)
    arrival = Arrival(uri, head.candidate.urgency, head.uri.origin, due_ms)
    (position,) = put_in(op, crawl, queue, (arrival,), head.settings)
    key = keys.seen_key(crawl.number, partition, uri.fingerprint)
    value = op.tx.get(Family.SEEN, key)
    seen = decode(SeenRow, value) if value is not None else SeenRow(b"")
    seen.position, seen.queue, seen.future_ms = position, place.queue[8:], 0
    op.tx.put(Family.SEEN, key, encode(seen))
