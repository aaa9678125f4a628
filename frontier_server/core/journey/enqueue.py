"""Puts URIs into work queues, and takes them out.

Only this module does either, whatever the cause (Schedule, a future URI that is due, a move to
another queue). It keeps positions, counts, costs and the queue's precedence in step.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.records import MAX_COST, PendingUri, encode_pending
from ..rows.store import Family
from ..rows.sums import added
from ..rules.cost import POLICIES as COSTS
from ..rules.precedence import URI_POLICIES as PRECEDENCES
from ..spec.settings import CrawlSettings
from ..state import lanes
from ..state.crawl import Crawl
from ..state.model import Candidate, Directive
from ..state.operation import Operation
from ..state.queue import QueueEvent, QueueState, WorkQueue
from ..uri import assign

UNCHANGING = "base"  # this policy ignores the contents of the queue
DUE_TIME = "due-time"
MAX_LAG = 1_000  # ordinals that the head of a level may be behind one that leaves


class Arrival(NamedTuple):
    """A URI that is put into a queue."""

    uri: PendingUri
    directive: int
    origin: str  # `https://host:port`
    due_ms: int = 0  # since when it is due; 0: since now


class Pricing:
    """The costs and precedences of URIs with the same settings, as Heritrix assigns them."""

    def __init__(self, settings: CrawlSettings) -> None:
        self.settings = settings
        self._cost = COSTS[settings.queues.cost]
        self._precedence = PRECEDENCES[settings.queues.uri_precedence]

    def of(self, candidate: Candidate, text: str) -> tuple[int, int]:
        """The cost and the precedence of a URI: its caller's, or by the policies."""
        cost = candidate.cost
        if cost is None:
            cost = self._cost(text, candidate.via)
        precedence = candidate.precedence
        if precedence is None:
            precedence = self._precedence(cost, candidate.path)
        return min(cost, MAX_COST), precedence


def queue_at(op: Operation, crawl: Crawl, place: assign.Place, host: str) -> WorkQueue:
    """The queue of a place; created if there is none."""
    queue = op.queue(crawl, place.queue)
    if queue is None:
        queue = op.new_queue(crawl, place.queue, place.queue_key, host, assign.hash64(place.queue_key))
    elif queue.row.key != place.queue_key:
        raise StoreCorrupt(f"queue {place.queue.hex()} must be {place.queue_key!r}, got {queue.row.key!r}")
    if place.forced and not queue.row.forced:
        op.touch(queue).forced = True
    return queue


def put_in(
    op: Operation,
    crawl: Crawl,
    queue: WorkQueue,
    arriving: Sequence[Arrival],
    settings: CrawlSettings,
) -> list[bytes]:
    """Put URIs into a queue: behind those of the same urgency, or in the order in which they are due.

    Returns their positions. `settings` apply to all of them.
    """
    row = op.touch(queue)
    queue_key = keys.queue_row_key(crawl.number, queue.queue)
    positions: list[bytes] = []
    precedences = row.uri_precedences
    by_time, shared = settings.queues.uri_order == DUE_TIME, lanes.shares(queue, settings)
    for uri, directive, origin, due_ms in arriving:
        ordinal, level = row.next_ordinal, directive << 8 | uri.precedence
        row.next_ordinal = ordinal + 1
        if by_time:
            ordinal = _by_time(op, queue_key, level, due_ms or op.now_ms, ordinal)
        position = keys.level_position(level, ordinal)
        if level in queue.lasts or level not in row.heads:
            queue.lasts[level] = max(queue.lasts.get(level, 0), ordinal)
        first = queue.firsts.get(level, 0)
        if first is None:
            row.heads[level] = queue.firsts[level] = ordinal
        elif level not in row.heads:
            row.heads[level] = ordinal
        elif ordinal < row.heads[level] or ordinal < first:
            row.heads[level] = min(ordinal, row.heads[level])
            queue.firsts.pop(level, None)
        queue.free_from = min(queue.free_from, position)
        lane = lanes.lane_of(origin) if shared else b""
        if uri.lane != lane:
            uri = structs.replace(uri, lane=lane)
        if lane:
            lanes.enter(op, crawl, queue, lane, position)
        elif row.filed >= position:
            row.filed = keys.before(position)
        row.last_cost = uri.cost
        row.total_cost = added(row.total_cost, uri.cost)
        precedences[uri.precedence] = precedences.get(uri.precedence, 0) + 1
        _store(op, queue, queue_key, position, uri)
        positions.append(position)
    op.add_uris(crawl, queue, len(arriving))
    row.enqueued += len(arriving)
    row.queue_ms = op.now_ms
    filled = queue.state is QueueState.EXHAUSTED
    if filled:
        op.move(crawl, queue, QueueEvent.FILLED)
    if filled or settings.queues.queue_precedence != UNCHANGING or len(crawl.overrides):
        op.reprioritise(crawl, queue, settings.queues)
    if row.stands_back and min(arrival.directive for arrival in arriving) <= Directive.HIGH:
        op.step_forward(crawl, queue)
    if queue.state is QueueState.BUSY:
        crawl.queues.ready.offer(queue, settings)
    if shared:
        _let_in(op, crawl, queue)
    return positions


def _by_time(op: Operation, queue_key: bytes, level: int, due_ms: int, number: int) -> int:
    """The ordinal of a URI among those of its level that are in the order of their times."""
    ordinal = keys.timed_ordinal(due_ms, number)
    if number < keys.PLACES_OF_A_SECOND:
        return ordinal  # no URI of the queue can have this place yet
    while op.tx.get(Family.PENDING, queue_key + keys.level_position(level, ordinal)) is not None:
        ordinal += keys.PLACES_OF_A_SECOND  # the second is full: it has a place among those of the next one
    return ordinal


def put_row(op: Operation, crawl: Crawl, queue: WorkQueue, position: bytes, uri: PendingUri) -> None:
    """Store a URI at its position in its queue."""
    _store(op, queue, keys.queue_row_key(crawl.number, queue.queue), position, uri)


def _store(op: Operation, queue: WorkQueue, queue_key: bytes, position: bytes, uri: PendingUri) -> None:
    value = encode_pending(uri)
    op.tx.put(Family.PENDING, queue_key + position, value)
    queue.ahead.put(position, value)


def _let_in(op: Operation, crawl: Crawl, queue: WorkQueue) -> None:
    """Give a queue whose hosts all wait a turn: the new URI may be of another host."""
    if queue.state is QueueState.SNOOZED:
        op.wake(crawl, queue)
    elif queue.lines:
        crawl.queues.ready.let_in(queue)
        op.look_at(crawl)


def _is_empty(queue: WorkQueue, level: int) -> bool:
    """Whether a level of a queue is known to be empty."""
    return level & 0xFF not in queue.row.uri_precedences or queue.firsts.get(level, 0) is None


def _raise_head(queue: WorkQueue, level: int) -> None:
    """Let a level's head follow the first URI that is still there, if leases ended out of order.

    Else everything that starts at the head would walk over the deleted rows behind a lease that took long.
    """
    free_level = keys.level_of(queue.free_from) if queue.free_from else 0
    if free_level < level:
        return  # the first free URI of the level is unknown
    bounds = [position for position in queue.out if keys.level_of(position) == level]
    if free_level == level:
        bounds.append(queue.free_from)
    head = min(map(keys.ordinal_of, bounds), default=0)
    if head > queue.row.heads.get(level, head):
        queue.row.heads[level] = head
        queue.firsts.pop(level, None)


def take_out(op: Operation, crawl: Crawl, queue: WorkQueue, position: bytes, uri: PendingUri) -> None:
    """Take a URI out of its queue. If this empties a queue on disk, the queue is exhausted."""
    row = op.touch(queue)
    op.add_uris(crawl, queue, -1)
    level, ordinal = keys.level_of(position), keys.ordinal_of(position)
    if ordinal in (row.heads.get(level), queue.firsts.get(level)):
        row.heads[level] = ordinal + 1
        queue.firsts.pop(level, None)
        _raise_head(queue, level)
    elif ordinal - row.heads.get(level, ordinal) >= MAX_LAG:
        _raise_head(queue, level)
    row.uri_precedences[uri.precedence] -= 1
    left = row.uri_precedences[uri.precedence]
    if not left:
        del row.uri_precedences[uri.precedence]
    if not left or None in queue.firsts.values():
        for empty in [each for each in row.heads if _is_empty(queue, each)]:
            del row.heads[empty]
            queue.firsts.pop(empty, None)
    op.tx.delete(Family.PENDING, keys.pending_key(crawl.number, queue.queue, position))
    if uri.lane:
        lanes.leave(op, crawl, queue, uri.lane, position)
    queue.ahead.took(position)
    if not row.count and queue.state in (QueueState.INACTIVE, QueueState.INELIGIBLE):
        op.move(crawl, queue, QueueEvent.DRAINED)
