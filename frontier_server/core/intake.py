"""Schedule: candidates in, verdicts out.

canonical form → scope → seen-set → robots.txt, if known → its work queue. A slice
of a batch is one operation with one look-up of the seen-set for all.
"""

from collections.abc import Sequence

from . import assign, keys
from .canonical import (
    MAX_URI_BYTES,
    CanonicalUri,
    Malformed,
    TooLong,
    UnsupportedScheme,
    canonical,
    longer_than,
)
from .conclusion import Final, record
from .crawl import Crawl, Operation
from .disposition import ROBOTS_PRECLUDED, Disposition
from .errors import StoreCorrupt
from .model import (
    HOP_LETTERS,
    MAX_ANNOTATIONS_BYTES,
    MAX_PATH_CHARACTERS,
    MAX_PRECEDENCE,
    Candidate,
    Directive,
    Verdict,
)
from .queue import QueueEvent, QueueState, WorkQueue
from .records import PendingUri, QueueRow, SeenRow, decode, encode, encode_pending
from .robots_table import RobotsTable
from .scope import add_authority, authority_in_scope, hops_exceeded, seed_redirect
from .store import Family

BASE_QUEUE_PRECEDENCE = 3  # Heritrix's BaseQueuePrecedencePolicy
LIGHT_RULES = 500  # heavier rules are asked only at the head of the queue
MAX_SCOPE_CACHE = 50_000
MAX_REMEMBERED_TEXT = 512
MAX_RECORD_BYTES = 24 * 1024  # fields that the contract does not have are stored, too


def schedule(
    op: Operation, crawl: Crawl, candidates: Sequence[Candidate], robots: RobotsTable
) -> list[Verdict]:
    """Take in a slice of candidates; one verdict each, in order."""
    verdicts: list[Verdict | None] = [None] * len(candidates)
    wanted: list[tuple[int, CanonicalUri, assign.Place, bytes]] = []
    seen_keys: list[bytes] = []
    known = crawl.known_texts
    for number, candidate in enumerate(candidates):
        if candidate.refetch_before_ms is None and candidate.uri in known:
            verdicts[number] = Verdict.ALREADY_SEEN
            continue
        judged = _judge(op, crawl, candidate)
        if isinstance(judged, Verdict):
            verdicts[number] = judged
            continue
        place = assign.place(judged.scheme, judged.host, judged.authority)
        fingerprint = assign.fingerprint(judged)
        wanted.append((number, judged, place, fingerprint))
        seen_keys.append(keys.seen_key(crawl.number, place.partition, fingerprint))
    if wanted:
        rows = op.tx.get_many(Family.SEEN, seen_keys)
        taken: set[bytes] = set()  # by this slice
        queues: dict[bytes, WorkQueue] = {}
        for (number, uri, place, fingerprint), key, value in zip(wanted, seen_keys, rows, strict=True):
            candidate = candidates[number]
            if key in taken:
                value = op.tx.get(Family.SEEN, key)
            verdict = _admit(op, crawl, candidate, uri, place, fingerprint, key, value, robots, queues)
            verdicts[number] = verdict
            taken.add(key)
            if len(candidate.uri) <= MAX_REMEMBERED_TEXT:
                crawl.remember_text(candidate.uri)
    tally = op.counters(crawl).verdicts
    answer = [verdict for verdict in verdicts if verdict is not None]
    for verdict in answer:
        tally[verdict.value] = tally.get(verdict.value, 0) + 1
    return answer


def _judge(op: Operation, crawl: Crawl, candidate: Candidate) -> CanonicalUri | Verdict:
    """The canonical form of a candidate in scope, or why it is refused."""
    if (
        longer_than(candidate.via, MAX_URI_BYTES)
        or len(candidate.annotations) > MAX_ANNOTATIONS_BYTES
        or len(candidate.path) > MAX_PATH_CHARACTERS
        or len(candidate.record) > MAX_RECORD_BYTES
    ):
        return Verdict.TOO_LONG
    if (
        not HOP_LETTERS.issuperset(candidate.path)
        or not 0 <= candidate.precedence <= MAX_PRECEDENCE
        or not Directive.HIGHEST <= candidate.directive <= Directive.NORMAL
    ):
        return Verdict.MALFORMED
    try:
        uri = canonical(candidate.uri)
    except TooLong:
        return Verdict.TOO_LONG
    except UnsupportedScheme:
        return Verdict.UNSUPPORTED_SCHEME
    except Malformed:
        return Verdict.MALFORMED
    if not _in_scope(op, crawl, uri, candidate):
        return Verdict.OUT_OF_SCOPE
    if hops_exceeded(candidate.path, crawl.settings.scope):
        return Verdict.TOO_MANY_HOPS
    return uri


def _in_scope(op: Operation, crawl: Crawl, uri: CanonicalUri, candidate: Candidate) -> bool:
    cache = crawl.scope_cache
    known = cache.get(uri.authority)
    if known is None:
        known = authority_in_scope(op.tx, crawl.number, uri.host, uri.authority)
        if len(cache) >= MAX_SCOPE_CACHE:
            cache.clear()
        cache[uri.authority] = known
    if not known and (candidate.seed or seed_redirect(candidate.path)):
        add_authority(op.tx, crawl.number, uri.host, uri.authority)
        cache[uri.authority] = known = True
    return known


def _admit(
    op: Operation,
    crawl: Crawl,
    candidate: Candidate,
    uri: CanonicalUri,
    place: assign.Place,
    fingerprint: bytes,
    key: bytes,
    value: bytes | None,
    robots: RobotsTable,
    queues: dict[bytes, WorkQueue],
) -> Verdict:
    """Take in a URI in scope unless it has been seen."""
    seen = decode(SeenRow, value) if value is not None else None
    if seen is not None:
        before = candidate.refetch_before_ms
        if before is None:
            return Verdict.ALREADY_SEEN
        if seen.suffix:
            return Verdict.ALREADY_QUEUED
        # A time ahead of our clock would let a repeated request fetch twice.
        if seen.finish_ms >= min(before, op.now_ms):
            return Verdict.ALREADY_SEEN
    counters = op.counters(crawl)
    if robots.forbids(op.tx, uri, crawl.settings, op.now_ms, LIGHT_RULES):
        if seen is None:
            counters.discovered += 1
        record(op, crawl, key, Final(ROBOTS_PRECLUDED, Disposition.DISREGARDED, uri.uri, candidate))
        return Verdict.ROBOTS_FORBIDDEN
    queue = queues.get(place.queue)
    if queue is None:
        queue = queues[place.queue] = _queue(op, crawl, place, uri.host)
    row = op.touch(queue)
    suffix = keys.pending_suffix(candidate.directive, candidate.precedence, row.next_ordinal)
    row.next_ordinal += 1
    row.head = suffix if row.count == 0 else min(row.head, suffix)
    if queue.first is not None and suffix < queue.first:
        queue.first = suffix
    row.count += 1
    row.enqueued += 1
    if queue.state is QueueState.EXHAUSTED:
        op.move(crawl, queue, QueueEvent.FILLED)
    op.tx.put(
        Family.PENDING,
        keys.pending_key(crawl.number, place.queue, suffix),
        encode_pending(PendingUri(0, 0, fingerprint, candidate.record)),
    )
    if seen is None:
        counters.discovered += 1
        seen = SeenRow(suffix)
    else:
        seen.suffix = suffix
    op.tx.put(Family.SEEN, key, encode(seen))
    counters.queued += 1
    return Verdict.QUEUED


def _queue(op: Operation, crawl: Crawl, place: assign.Place, host: str) -> WorkQueue:
    """The queue of a place, created when it is new."""
    queue = op.queue(crawl, place.queue)
    if queue is None:
        row = QueueRow(place.queue_key, host, QueueState.EXHAUSTED.value, BASE_QUEUE_PRECEDENCE)
        queue = WorkQueue(crawl.number, place.queue, row)
        op.counters(crawl).exhausted_queues += 1
    elif queue.row.key != place.queue_key:
        raise StoreCorrupt(f"queue {place.queue.hex()} is {queue.row.key!r}, not {place.queue_key!r}")
    return queue
