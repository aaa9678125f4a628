"""Next: from ready queues to leases.

Each ready queue gets a turn. The first obstacle that the rules of `turn` find decides where the queue goes;
if they find none, its head is leased. If no queue is ready, an inactive one is activated. One operation
clears away a limited number of heads (forbidden, failed or moved); then the queue waits for another turn.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ..opening.shard import Shard
from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.keys import IndexSet
from ..rows.records import PendingUri, SeenRow, decode, encode
from ..rows.store import Family
from ..rules.disposition import (
    BLOCKED_BY_QUOTA,
    OUT_OF_SCOPE,
    ROBOTS_PRECLUDED,
    ROBOTS_PREREQUISITE_FAILURE,
    Disposition,
)
from ..rules.outcome_words import MAX_REASON
from ..spec.settings import CrawlSettings, QueueSettings
from ..state.crawl import Crawl
from ..state.head import Head, read_head, stored_place
from ..state.kinds import Kinds
from ..state.lanes import file_rest, shares
from ..state.line import Awaited
from ..state.model import Grant
from ..state.operation import Operation
from ..state.pending import first_free
from ..state.queue import QueueEvent, QueueState, WorkQueue
from ..state.ready import ABOVE_ALL
from ..uri.canonical import canonical
from . import future
from .choice import Wait, choose
from .conclusion import Final, conclude
from .enqueue import Arrival, put_in, put_row, queue_at, take_out
from .grants import Asker, Granting
from .named_queues import wanted_queues
from .refusals import Noting, message
from .turn import HOST_RULES, QUEUE_RULES, Found, Obstacle, Turn, first, robots_failure, robots_standing

CLEARING_PER_CALL = 200  # heads; one with heavy rules counts as several
WEIGHT_PER_CLEARING = 100
LEASES_PER_CALL = 100  # at most in one answer
BYTES_PER_CALL = 2 << 20  # of the candidates in one answer; by default, clients of gRPC receive 4 MiB
TURNS_PER_CALL = 100  # queues that may get a turn, beyond the leases wanted
WAKES_PER_CALL = 1000
FAR_WAKES_PER_CALL = 200

# The fetch statuses of the obstacles that remove a head from its queue.
_CLEARED = {
    Obstacle.FAILS_OVER_QUOTA: BLOCKED_BY_QUOTA,
    Obstacle.ROBOTS_FAILED: ROBOTS_PREREQUISITE_FAILURE,
    Obstacle.OUT_OF_SCOPE: OUT_OF_SCOPE,
    Obstacle.FORBIDDEN: ROBOTS_PRECLUDED,
}


_UNWANTED = (ROBOTS_PRECLUDED, OUT_OF_SCOPE)


class Want(NamedTuple):
    """What a node asks for."""

    most: int  # leases
    per_queue: int = 0  # leases of a queue that may be out at once; 0: as its settings say
    most_queues: int = 0  # that the leases come from; 0 sets no limit
    queues: tuple[str, ...] = ()  # keys or hosts; empty for all queues
    kinds: Kinds = ()  # of fetchers that it is


class Dispatcher:
    """Leases the URIs of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._granting = Granting(shard)

    def lease(
        self, op: Operation, crawl: Crawl, asker: Asker, want: Want, size: int = 0
    ) -> tuple[list[Grant], bool]:
        """Lease URIs of a running crawl; the second value says whether to ask again at once.

        `size` is how many bytes the candidates of other crawls in the same answer have.
        """
        self.wake_due(op, crawl)
        most = min(want.most, LEASES_PER_CALL)
        grants: list[Grant] = []
        call = _Call(op, crawl, asker, want, TURNS_PER_CALL + most, size)
        wanted = wanted_queues(op, crawl, want.queues) if want.queues else None
        left, again = want.most_queues or most, True
        crawl.queues.ready.end_holding_back(most, want.per_queue, crawl.waiting_rank())
        while len(grants) < most and left and call.left() and not crawl.limited:
            if call.size >= BYTES_PER_CALL:
                break
            if wanted is None:
                queue, awaited = crawl.queues.lines.take() or (_next_ready(call), None)
            else:
                queue, awaited = next(wanted, None), None
            if queue is None:
                again = False
                break
            call.turns -= 1
            call.leases = min(most - len(grants), want.per_queue or 1)
            given = self._take_turn(call, queue, awaited)
            left -= bool(given)
            grants += given
        return grants, again and bool(left) and len(grants) < most and not crawl.limited

    def wake_due(self, op: Operation, crawl: Crawl) -> None:
        """Wake the queues that are due, and enqueue the future URIs that are due."""
        op.look_at(crawl)
        self._shard.agenda.served_now(crawl)
        for _ in range(WAKES_PER_CALL):
            queue = crawl.queues.next_wake()
            if queue is None or queue.wake_ms > op.now_ms:
                break
            op.wake(crawl, queue)
        crawl.queues.lines.open_due(op.now_ms)
        crawl.queues.ready.end_naps(op.now_ms)
        _wake_far(op, crawl)
        future.release_due(op, crawl, self._shard.codec)

    def _take_turn(self, call: "_Call", queue: WorkQueue, awaited: Awaited | None) -> list[Grant]:
        """Give a queue its turn: as many leases as the request wants, until an obstacle ends it.

        `awaited` is the host or group that the queue was in line for. A READY queue goes where its obstacle
        sends it. One with leases out stays BUSY, and its last lease decides where it goes.
        """
        op, crawl = call.op, call.crawl
        if awaited is not None:
            _wake_in_line(op, crawl, queue)
        if queue.state is QueueState.READY and queue.row.count == 0:
            op.move(crawl, queue, QueueEvent.DRAINED)
        grants: list[Grant] = []
        settings = crawl.settings  # of the last head that was looked at
        while queue.state is QueueState.READY or queue.state is QueueState.BUSY:  # else it has moved on
            busy = queue.state is QueueState.BUSY
            if call.clearings <= 0 or not queue.row.count:
                if not busy:
                    crawl.queues.ready.put(queue)
                break
            if busy:
                following = self._following(call, queue, len(grants))
                if following is None:
                    break
                settings = following
            if grants:
                awaited = None  # it has had its turn, so others in line go before it
            turn = self._first_to_go(call, queue, awaited)
            if turn is None:
                break
            found = self._obstacle(turn, busy)
            if found is None:
                grants.append(self._granting.page(turn, call.asker))
                call.size += size_of(grants[-1:])
                if not busy:
                    settings = turn.head.settings
                    if _gives_one(settings.queues, queue):
                        return grants
            elif found.obstacle is Obstacle.AWAITS_ROBOTS and not busy:
                grant = self._granting.robots_txt(turn, call.asker, found.tries + 1)
                if grant is not None:
                    grants.append(grant)
                    call.size += size_of(grants)
                return grants
            elif not self._clear(turn, found, call):
                act = _ACTS.get(found.obstacle, _OTHERWISE)[busy]
                if act(turn, found, awaited):
                    break
        if call.clearings <= 0 and queue.state is QueueState.BUSY:
            crawl.queues.ready.put(queue)
        if grants:
            self._begin_gap(op, queue, settings)
        return grants

    def _following(self, call: "_Call", queue: WorkQueue, before: int) -> CrawlSettings | None:
        """The settings of a BUSY queue's first URI that is not out, if the turn may give it, too.

        `before` leases of this turn came before. None ends the turn.
        """
        op, crawl, per_queue = call.op, call.crawl, call.per_queue
        ready = crawl.queues.ready
        if len(queue.out) != queue.leases_out or queue.row.retiring:
            return None
        if not call.named and crawl.lower_waits(queue):
            ready.give_way(queue, queue.row.precedence)
            return None
        if per_queue and queue.leases_out >= per_queue:
            ready.wants_no_more(queue)
            return None
        free = first_free(op, crawl, queue)
        if free is None:
            return None
        settings = read_head(crawl, self._shard.codec, *free).settings
        if queue.leases_out >= settings.queues.max_leases_per_queue:
            return None
        if before >= call.leases or crawl.limited or call.size >= BYTES_PER_CALL:
            ready.offer(queue, settings)
            return None
        return settings

    def _obstacle(self, turn: Turn, busy: bool) -> Found | None:
        """The first obstacle to leasing a queue's head. Its precedence is settled in between."""
        op, crawl, queue, head = turn.op, turn.crawl, turn.queue, turn.head
        if not busy and queue.row.host != head.uri.host:
            op.counters(crawl)
            op.touch(queue).host = head.uri.host
        found = first(HOST_RULES, turn)
        if found is None:
            if not busy:
                op.reprioritise(crawl, queue, head.settings.queues)
            found = first(QUEUE_RULES, turn)
        return found

    def _begin_gap(self, op: Operation, queue: WorkQueue, settings: CrawlSettings) -> None:
        """Let a queue rest between its turns."""
        gap_ms = settings.queues.min_gap_ms if queue.row.min_gap_ms is None else queue.row.min_gap_ms
        if gap_ms and op.now_ms + gap_ms > queue.row.wake_ms:
            row = op.touch(queue)
            row.wake_ms, row.rest_reason = op.now_ms + gap_ms, "gap between its turns"

    def _first_to_go(self, call: "_Call", queue: WorkQueue, awaited: Awaited | None) -> Turn | None:
        """The turn of a queue's head, or, in a queue of several hosts, of the first URI that need not wait.

        None if all must wait (the queue then rests or is in line), or if the call's share is used up.
        """
        op, crawl, shard = call.op, call.crawl, self._shard
        free = first_free(op, crawl, queue)
        assert free is not None
        turn = Turn(shard, op, crawl, queue, read_head(crawl, shard.codec, *free))
        shared = shares(queue, turn.head.settings)
        if not shared or (queue.passing is None and turn.wait() is None):
            return turn

        def wait_of(found: Head) -> Wait | None:
            return Turn(shard, op, crawl, queue, found).wait()

        read = partial(read_head, crawl, shard.codec)
        call.clearings -= self._file(op, crawl, queue, call.clearings)
        if queue.row.filed != keys.LAST_POSITION:
            crawl.queues.ready.put(queue)
            return None
        passing, wait, looked = choose(op, crawl, queue, read, wait_of, shard.hosts.known_as, call.clearings)
        call.clearings -= looked
        if queue.state is QueueState.BUSY:
            if wait is None and passing is None:
                crawl.queues.ready.put(queue)
            if wait is not None and wait.until_ms:
                crawl.queues.ready.nap(queue, wait.until_ms)
            for busy in () if wait is None else wait.busy:
                _wait_for(crawl, queue, busy, awaited)
        elif wait is not None:
            if wait.until_ms:
                op.move(crawl, queue, QueueEvent.RESTED, wait.until_ms, wait.reason)
            for busy in wait.busy:  # it may also be snoozed for its other hosts
                _wait_for(crawl, queue, busy, awaited)
        elif passing is None:
            crawl.queues.ready.put(queue)
        return None if passing is None else Turn(shard, op, crawl, queue, passing)

    def _file(self, op: Operation, crawl: Crawl, queue: WorkQueue, most: int) -> int:
        """Put the URIs of a queue that are in no lane into theirs. Returns how many were looked at."""
        if queue.row.filed == keys.LAST_POSITION:
            return 0

        def origin_of(uri: PendingUri) -> str:
            return canonical(self._shard.codec.decode(uri.candidate).uri).origin

        def store(position: bytes, uri: PendingUri) -> None:
            put_row(op, crawl, queue, position, uri)
            serial = queue.out.get(position)
            lease = None if serial is None else self._shard.leases.of_serial(crawl.number, serial)
            if lease is not None and lease.head is not None:
                lease.head = lease.head._replace(pending=uri)

        op.counters(crawl)
        return file_rest(op, crawl, queue, origin_of, store, most)

    def _clear(self, turn: Turn, found: Found, call: "_Call") -> bool:
        """Remove the head if the obstacle requires that. Returns whether the queue has a new head."""
        status = _CLEARED.get(found.obstacle)
        if status is None and found.obstacle is not Obstacle.MISPLACED:
            return False
        call.clearings -= 1 + found.weight // WEIGHT_PER_CLEARING
        if status is None:
            _relocate(turn)
            return True
        op, queue, head = turn.op, turn.queue, turn.head
        disposition = Disposition.DISREGARDED if status in _UNWANTED else Disposition.FAILED
        annotations = (found.reason,) if found.reason else ()
        reason = ""
        if status == ROBOTS_PREREQUISITE_FAILURE:
            reason = robots_failure(robots_standing(turn)[0])
        elif status == OUT_OF_SCOPE:
            Noting(op, turn.crawl).note(found.reason, head.candidate)
            reason = message(turn.crawl, found.reason)[:MAX_REASON]
        final = Final(status, disposition, head.uri, head.candidate, annotations=annotations, reason=reason)
        op.touch(queue).robots_of = ""
        conclude(op, turn.crawl, queue, head.position, head.pending, final, head.settings)
        return True


# What becomes of a queue at an obstacle that leaves its head in place. Each act says whether the turn ends.


def _wait_in_line(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    assert found.host is not None
    _wait_for(turn.crawl, turn.queue, found.host, awaited)
    return True


def _rest(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    """Snooze a queue until its rest is over, or join the line of those that wait for the host or group."""
    crawl, queue, host = turn.crawl, turn.queue, found.host
    if host is not None and (host is awaited or host.has_line(crawl.number)):
        _wait_for(crawl, queue, host, awaited, found.until_ms)
        return True
    if host is not None:
        host.sleepers[crawl.number] = queue
    return _snooze(turn, found, awaited)


def _snooze(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    turn.op.move(turn.crawl, turn.queue, QueueEvent.RESTED, found.until_ms, found.reason)
    return True


def _nap(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    turn.crawl.queues.ready.nap(turn.queue, found.until_ms)
    return True


def _make_ineligible(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    turn.op.move(turn.crawl, turn.queue, QueueEvent.BECAME_INELIGIBLE)
    return True


def _retire(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    turn.op.touch(turn.queue).retire_reason = found.reason
    turn.op.move(turn.crawl, turn.queue, QueueEvent.RETIRED)
    return True


def _stand_back(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    turn.op.touch(turn.queue).stands_back = True
    return _yield(turn, found, awaited)


def _yield(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    turn.op.move(turn.crawl, turn.queue, QueueEvent.YIELDED)
    return True


def _begin_session(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    """Give way once the session is spent; if no other queue waits, begin another session and go on."""
    op, crawl, queue = turn.op, turn.crawl, turn.queue
    if crawl.waiting_rank() is not None:
        crawl.queues.ready.give_way(queue, ABOVE_ALL)
        return True
    op.counters(crawl)
    op.touch(queue).session_start = queue.row.expenditure
    return False


def _stay(turn: Turn, found: Found, awaited: Awaited | None) -> bool:
    return True


_Act = Callable[[Turn, Found, Awaited | None], bool]

_OTHERWISE: tuple[_Act, _Act] = (_yield, _stay)
_ACTS: dict[Obstacle, tuple[_Act, _Act]] = {  # of a READY queue, of a BUSY one
    Obstacle.HOST_BUSY: (_wait_in_line, _wait_in_line),
    Obstacle.RESTS: (_rest, _nap),
    Obstacle.ROBOTS_RESTS: (_snooze, _stay),
    Obstacle.INELIGIBLE: (_make_ineligible, _stay),
    Obstacle.RETIRES: (_retire, _stay),
    Obstacle.KNOWN_FIRST: (_stand_back, _stay),
    Obstacle.SESSION_SPENT: (_yield, _begin_session),
}


def _next_ready(call: "_Call") -> WorkQueue | None:
    """The queue whose turn is next: one in line, or one no longer held back, or one just activated."""
    op, crawl = call.op, call.crawl
    ready = crawl.queues.ready
    if not ready:
        ready.end_holding_back(1, call.per_queue, crawl.waiting_rank())
        if not ready:
            op.activate(crawl)
    return ready.take(call.asker.node, op.now_ms)


def _wake_in_line(op: Operation, crawl: Crawl, queue: WorkQueue) -> None:
    """Give the first queue in line its turn, even if it is snoozed for its other hosts."""
    if queue.state is QueueState.SNOOZED:
        op.wake(crawl, queue)
    crawl.queues.ready.leave(queue)


def _wait_for(
    crawl: Crawl, queue: WorkQueue, host: Awaited, awaited: Awaited | None, until_ms: int = 0
) -> None:
    """Put a queue in line for a host or a group that is busy, or that rests until a time."""
    was_first, alone = host is awaited, not host.lines.get(crawl.number)
    crawl.queues.lines.join(host, queue, first=was_first)
    if was_first or alone or until_ms:
        crawl.queues.lines.close(host, until_ms)


def size_of(grants: list[Grant]) -> int:
    """Bytes of the candidates of leases."""
    return sum(len(grant.candidate.record) for grant in grants)


class _Call:
    """A request for leases: the work that it may still do, and the leases that its present turn may give."""

    __slots__ = (
        "asker",
        "clearings",
        "crawl",
        "leases",
        "named",
        "op",
        "per_queue",
        "size",
        "turns",
    )

    def __init__(self, op: Operation, crawl: Crawl, asker: Asker, want: Want, turns: int, size: int) -> None:
        self.op, self.crawl, self.asker = op, crawl, asker
        self.per_queue = want.per_queue
        self.named = bool(want.queues)  # its queues go first, whatever their precedences
        self.clearings = CLEARING_PER_CALL
        self.turns = turns
        self.leases = 0
        self.size = size  # bytes of the candidates given so far

    def left(self) -> bool:
        return self.clearings > 0 and self.turns > 0


def _gives_one(settings: QueueSettings, queue: WorkQueue) -> bool:
    """Whether a queue has at most one lease out, and no gap between its turns."""
    gap_ms = settings.min_gap_ms if queue.row.min_gap_ms is None else queue.row.min_gap_ms
    return settings.max_leases_per_queue == 1 and not gap_ms


def _relocate(turn: Turn) -> None:
    """Move the head to the queue that it belongs to now."""
    op, crawl, queue, head = turn.op, turn.crawl, turn.queue, turn.head
    place = stored_place(crawl, head, queue.partition)
    take_out(op, crawl, queue, head.position, head.pending)
    other = queue_at(op, crawl, place, head.uri.host)
    due_ms = keys.due_of_position(head.position) or head.candidate.not_before_ms
    arrival = Arrival(head.pending, head.candidate.urgency, head.uri.origin, due_ms)
    (position,) = put_in(op, crawl, other, (arrival,), head.settings)
    key = keys.seen_key(crawl.number, queue.partition, head.pending.fingerprint)
    value = op.tx.get(Family.SEEN, key)
    seen = decode(SeenRow, value) if value is not None else SeenRow(b"")
    seen.position, seen.queue = position, other.queue[8:]
    op.tx.put(Family.SEEN, key, encode(seen))
    op.counters(crawl).relocated += 1


def _wake_far(op: Operation, crawl: Crawl) -> None:
    """Wake queues that were snoozed on disk."""
    if crawl.queues.first_far_ms is None or crawl.queues.first_far_ms > op.now_ms:
        return
    prefix = keys.set_prefix(crawl.number, IndexSet.FAR)
    due: list[bytes] = []
    crawl.queues.first_far_ms = None
    for key, _ in op.tx.scan(Family.INDEX, max(prefix, crawl.queues.far_head), prefix):
        crawl.queues.far_head = key
        if keys.due_of(key) > op.now_ms or len(due) == FAR_WAKES_PER_CALL:
            crawl.queues.first_far_ms = keys.due_of(key)
            break
        due.append(key)
    for key in due:
        queue = op.queue(crawl, key[-16:])
        if queue is None:
            raise StoreCorrupt(f"crawl {crawl.name}: snoozed queue {key.hex()} has no row")
        op.wake(crawl, queue)
