"""The changes of one call, at the time of the call.

Queues and counters are written once, however often they were touched; events and outcomes in order. Only
`move` and `add_uris` change states, indexes and counts, and keep them in step.
"""

from collections.abc import Iterable

from ..machines.lifecycle import CrawlState
from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.keys import FetchStatisticsOf, IndexSet
from ..rows.records import CountersRow, EventRow, OutcomeRow, QueueRow, decode, encode
from ..rows.store import Family, Store, Transaction
from ..rules.precedence import queue_precedence
from ..spec.settings import QueueSettings
from ..uri.assign import hash64
from .crawl import Crawl
from .queue import ACTIVE, QueueEvent, QueueState, WorkQueue, after

EVENTS_KEPT = 100_000
MAX_SNOOZED_IN_MEMORY = 10_000  # as in Heritrix
MAX_DETAIL = 500  # characters
PRESENT = b"\x01"

_MEMBERS = {QueueState.RETIRED: IndexSet.RETIRED, QueueState.INELIGIBLE: IndexSet.INELIGIBLE}


class Operation:
    """One call's changes."""

    def __init__(self, store: Store, now_ms: int) -> None:
        self.tx = Transaction(store)
        self.now_ms = now_ms
        self.told: dict[int, Crawl] = {}  # crawls that have new events
        self.looked_at: dict[int, Crawl] = {}  # crawls whose memory may have changed, though not their rows
        self.statistics: set[tuple[int, FetchStatisticsOf, str]] = set()  # those changed
        self._crawls: dict[int, Crawl] = {}
        self._queues: dict[tuple[int, bytes], WorkQueue] = {}
        self._read: dict[tuple[int, bytes], WorkQueue | None] = {}  # queues that are unchanged so far

    def counters(self, crawl: Crawl) -> CountersRow:
        """A crawl's counters, for a change."""
        self._crawls[crawl.number] = crawl
        return crawl.counters

    def sums(self, crawl: Crawl) -> CountersRow:
        """A crawl's counters, for a change of a sum that a verification recounts."""
        crawl.counters.sum_changes += 1
        return self.counters(crawl)

    def look_at(self, crawl: Crawl) -> None:
        """Note that a crawl's next steps may have changed, even if its rows have not."""
        self.looked_at[crawl.number] = crawl

    @property
    def touched(self) -> list[Crawl]:
        """The crawls that the operation changed."""
        return list(self._crawls.values())

    @property
    def touched_queues(self) -> list[WorkQueue]:
        """The queues that the operation changed."""
        return list(self._queues.values())

    # Queues.

    def touch(self, queue: WorkQueue) -> QueueRow:
        """A queue's row, for a change."""
        self._queues[queue.crawl, queue.queue] = queue
        return queue.row

    def queue(self, crawl: Crawl, queue: bytes) -> WorkQueue | None:
        """A queue of any state, if it was ever filled."""
        known = crawl.queues.known(queue) or self._queues.get((crawl.number, queue))
        if known is not None:
            return known
        if (crawl.number, queue) not in self._read:
            self.read_queues(crawl, (queue,))
        return self._read[crawl.number, queue]

    def read_queues(self, crawl: Crawl, queues: Iterable[bytes]) -> None:
        """Read the rows of queues that memory lacks, all at once."""
        wanted = [
            queue
            for queue in set(queues)
            if crawl.queues.known(queue) is None and (crawl.number, queue) not in self._queues
        ]
        row_keys = [keys.queue_row_key(crawl.number, queue) for queue in wanted]
        for queue, value in zip(wanted, self.tx.get_many(Family.QUEUES, row_keys), strict=True):
            self._read[crawl.number, queue] = (
                None if value is None else WorkQueue(crawl.number, queue, decode(QueueRow, value))
            )

    def new_queue(self, crawl: Crawl, queue_id: bytes, key: str, host: str, key_hash: bytes) -> WorkQueue:
        """A new queue, in state EXHAUSTED."""
        precedence = queue_precedence(crawl.settings.queues, None, 0)
        row = QueueRow(key, host, QueueState.EXHAUSTED.value, precedence, authorities_rest=False)
        row.filed = keys.LAST_POSITION
        queue = WorkQueue(crawl.number, queue_id, row)
        self._enter(crawl, queue)
        name_key = keys.name_prefix(crawl.number, key_hash) + queue.partition
        self.tx.put(Family.INDEX, name_key, PRESENT)
        return queue

    def forget_queue(self, crawl: Crawl, queue: WorkQueue) -> None:
        """Forget a queue without URIs and leases, as if it had never been filled."""
        if queue.state is not QueueState.EXHAUSTED:
            self.move(crawl, queue, QueueEvent.DRAINED)
        _less(self.counters(crawl).queues, QueueState.EXHAUSTED.value)
        queue_key = keys.queue_row_key(crawl.number, queue.queue)
        self.tx.delete(Family.QUEUES, queue_key)
        name_key = keys.name_prefix(crawl.number, hash64(queue.row.key)) + queue.partition
        self.tx.delete(Family.INDEX, name_key)
        self.tx.delete(Family.INDEX, keys.lane_head_prefix(crawl.number, queue.queue) + keys.LAST_POSITION)
        self._queues.pop((crawl.number, queue.queue), None)
        self._read[crawl.number, queue.queue] = None
        crawl.queues.forget(queue.queue)

    def move(
        self, crawl: Crawl, queue: WorkQueue, event: QueueEvent, wake_ms: int = 0, reason: str = ""
    ) -> None:
        """Take a queue to its next state, with all lists, indexes and counts that follow."""
        before, state = queue.state, after(queue.state, event)
        if state is before:
            return
        self.look_at(crawl)
        crawl.queues.ready.leave_held_back(queue)
        row, was_in_memory = queue.row, queue.in_memory
        if was_in_memory:
            crawl.queues.counts[before] -= 1
        else:
            self._leave(crawl, queue)
        queue.state, queue.lines = state, ()
        if state is not QueueState.READY and state is not QueueState.BUSY:
            crawl.queues.ready.leave(queue)
        queue.wake_ms, queue.rest_reason = wake_ms, reason
        if state is QueueState.SNOOZED and crawl.queues.counts[state] >= MAX_SNOOZED_IN_MEMORY:
            self.touch(queue).far_ms = wake_ms
        in_memory = state in ACTIVE and not row.far_ms
        if in_memory:
            crawl.queues.counts[state] += 1
            if state is QueueState.SNOOZED:
                crawl.queues.push_snoozed(queue, wake_ms)
            elif state is QueueState.READY:
                crawl.queues.ready.put(queue)
        else:
            self._enter(crawl, queue)
        if in_memory is not was_in_memory:
            self._hold(crawl, queue)

    def wake(self, crawl: Crawl, queue: WorkQueue) -> None:
        """End a queue's rest: it is ready, unless a queue of lower precedence waits.

        A queue that was paused while its URI was out becomes ineligible.
        """
        if queue.row.count and (queue.row.paused or crawl.lower_waits(queue)):
            self.set_aside(crawl, queue)
        else:
            self.move(crawl, queue, QueueEvent.WOKEN)

    def set_aside(self, crawl: Crawl, queue: WorkQueue) -> None:
        """Move an active queue to disk: it waits for activation, or, paused, until it is resumed."""
        self.move(crawl, queue, QueueEvent.BECAME_INELIGIBLE if queue.row.paused else QueueEvent.YIELDED)

    def _hold(self, crawl: Crawl, queue: WorkQueue) -> None:
        """Add a queue to those in memory, or remove it."""
        counters = self.counters(crawl)
        key = keys.member_key(crawl.number, IndexSet.ACTIVE, queue.queue)
        self.touch(queue)
        if queue.in_memory:
            counters.active_queues += 1
            crawl.queues.active[queue.queue] = queue
            self.tx.put(Family.INDEX, key, PRESENT)
        else:
            counters.active_queues -= 1
            queue.ahead.forget()
            queue.passing = None  # what waits may be another when it is active again
            del crawl.queues.active[queue.queue]
            self.tx.delete(Family.INDEX, key)

    def _enter(self, crawl: Crawl, queue: WorkQueue) -> None:
        """Put a queue into the set on disk for its state."""
        counters, row, state = self.counters(crawl), self.touch(queue), queue.state
        if state is QueueState.INACTIVE:
            row.inactive_serial = counters.next_inactive
            counters.next_inactive += 1
            rank = rank_of(queue)
            counters.inactive[rank] = counters.inactive.get(rank, 0) + 1
            self.tx.put(Family.INDEX, inactive_key(queue), PRESENT)
            return
        counters.queues[state.value] = counters.queues.get(state.value, 0) + 1
        if state is QueueState.SNOOZED:
            key = keys.timed_key(crawl.number, IndexSet.FAR, row.far_ms, queue.queue)
            crawl.queues.far_head = min(crawl.queues.far_head, key)
            first = crawl.queues.first_far_ms
            crawl.queues.first_far_ms = row.far_ms if first is None else min(first, row.far_ms)
            self.tx.put(Family.INDEX, key, PRESENT)
        elif state in _MEMBERS:
            self.tx.put(Family.INDEX, keys.member_key(crawl.number, _MEMBERS[state], queue.queue), PRESENT)
            self._count_apart(crawl, queue, row.count)

    def _leave(self, crawl: Crawl, queue: WorkQueue) -> None:
        """Take a queue out of the set on disk for its state."""
        counters, row, state = self.counters(crawl), self.touch(queue), queue.state
        if state is QueueState.INACTIVE:
            self.tx.delete(Family.INDEX, inactive_key(queue))
            _less(counters.inactive, rank_of(queue))
            row.stands_back = False
            return
        _less(counters.queues, state.value)
        if state is QueueState.SNOOZED:
            key = keys.timed_key(crawl.number, IndexSet.FAR, row.far_ms, queue.queue)
            self.tx.delete(Family.INDEX, key)
            row.far_ms = 0
        elif state in _MEMBERS:
            self.tx.delete(Family.INDEX, keys.member_key(crawl.number, _MEMBERS[state], queue.queue))
            self._count_apart(crawl, queue, -row.count)

    def _count_apart(self, crawl: Crawl, queue: WorkQueue, uris: int) -> None:
        """Count the URIs of a retired queue as retired instead of queued, and those of a queue at the
        precedence floor as ineligible, too."""
        if queue.state is QueueState.RETIRED:
            counters = self.sums(crawl)
            counters.queued -= uris
            counters.retired_uris += uris
        elif queue.state is QueueState.INELIGIBLE and not queue.row.paused:
            self.sums(crawl).ineligible_uris += uris

    def add_uris(self, crawl: Crawl, queue: WorkQueue, uris: int) -> None:
        """Count URIs put into a queue; a negative number takes URIs out."""
        self.touch(queue).count += uris
        self.sums(crawl).queued += uris
        self._count_apart(crawl, queue, uris)

    def reprioritise(self, crawl: Crawl, queue: WorkQueue, settings: QueueSettings) -> None:
        """Update a queue's precedence and, if it is inactive or ineligible, its state.

        Active queues follow at their next turn. An inactive queue has one entry, at its precedence.
        """
        row = queue.row
        precedence = row.fixed_precedence
        if precedence is None:
            lowest = min(row.uri_precedences, default=None)
            precedence = queue_precedence(settings, lowest, row.successes)
        if precedence != row.precedence:
            self.counters(crawl)
            inactive = queue.state is QueueState.INACTIVE
            if inactive:
                self._leave(crawl, queue)
            self.touch(queue).precedence = precedence
            if inactive:
                self._enter(crawl, queue)
            elif crawl.queues.ready.gives_way(queue):
                crawl.queues.ready.put(queue)  # other queues may go before it now
        if queue.state is QueueState.INACTIVE:
            if is_ineligible(queue, settings):
                self.move(crawl, queue, QueueEvent.BECAME_INELIGIBLE)
        elif queue.state is QueueState.INELIGIBLE and not is_ineligible(queue, settings):
            self.admit(crawl, queue)

    def step_forward(self, crawl: Crawl, queue: WorkQueue) -> None:
        """Let a queue that stands back wait for its turn like others: a known page has come into it."""
        self._leave(crawl, queue)
        self._enter(crawl, queue)

    def admit(self, crawl: Crawl, queue: WorkQueue) -> None:
        """Let an ineligible queue wait for its turn again, or exhaust it if it is empty."""
        self.move(crawl, queue, QueueEvent.ADMITTED)
        if not queue.row.count:
            self.move(crawl, queue, QueueEvent.DRAINED)

    def activate(self, crawl: Crawl) -> WorkQueue | None:
        """Make the first inactive queue of the lowest rank ready; its session begins."""
        rank = crawl.waiting_rank()
        if rank is None:
            return None
        if rank >= keys.STANDS_BACK and not crawl.room_for_new:
            self.counters(crawl).kept_room = 0  # the known pages that it was kept for do not come
        prefix = keys.rank_prefix(crawl.number, rank)
        # Start past the deleted keys of this rank. New keys sort behind.
        for key, _ in self.tx.scan(Family.INDEX, crawl.queues.inactive_heads.get(rank, prefix), prefix):
            queue = self.queue(crawl, key[-16:])
            if queue is None:
                raise StoreCorrupt(f"crawl {crawl.name}: inactive queue {key.hex()} has no row")
            crawl.queues.inactive_heads[rank] = key
            self.move(crawl, queue, QueueEvent.ACTIVATED)
            queue.row.session_start = queue.row.expenditure
            return queue
        raise StoreCorrupt(f"crawl {crawl.name}: {crawl.inactive_queues} inactive queues counted, none found")

    # Events, outcomes, life.

    def acted(self, crawl: Crawl, by: str, action: str, detail: str = "") -> None:
        """Record an operator's request, if an operator is named."""
        if by:
            self.event(crawl, "operator_acted", operator=by, action=action, detail=detail[:MAX_DETAIL])

    def event(self, crawl: Crawl, what: str, **fields: str | int) -> None:
        """Append an event; drop the oldest beyond EVENTS_KEPT."""
        counters = self.counters(crawl)
        number = counters.next_event
        counters.next_event += 1
        self.told[crawl.number] = crawl
        row = EventRow(self.now_ms, what, fields)
        self.tx.put(Family.EVENTS, keys.serial_key(crawl.number, number), encode(row))
        if number > EVENTS_KEPT:
            self.tx.delete(Family.EVENTS, keys.serial_key(crawl.number, number - EVENTS_KEPT))

    def outcome(self, crawl: Crawl, row: OutcomeRow) -> None:
        """Append a final disposition, for the crawl log and for StreamOutcomes."""
        counters = self.counters(crawl)
        self.tx.put(Family.OUTCOMES, keys.serial_key(crawl.number, counters.next_outcome), encode(row))
        crawl.unlogged.append((counters.next_outcome, row))
        counters.next_outcome += 1

    def put_state(self, crawl: Crawl) -> None:
        """Store a crawl's life."""
        self.tx.put(Family.CRAWLS, keys.crawl_key(crawl.number, keys.CrawlRow.STATE), encode(crawl.state_row))

    def close(self) -> None:
        """Write each row that was touched, once."""
        for queue in self._queues.values():
            crawl = self._crawls[queue.crawl]
            crawl.queues.record_size(queue)
            if not queue.in_memory:
                crawl.queues.remember(queue, still=crawl.state is not CrawlState.FINISHED)
            queue.row.state = queue.state.value
            self.tx.put(Family.QUEUES, keys.queue_row_key(queue.crawl, queue.queue), encode(queue.row))
        for number, kind, name in self.statistics:
            crawl = self._crawls[number]
            key, row = crawl.statistics_key(kind, name), crawl.statistics[kind, name]
            self.tx.put(Family.FETCH_STATISTICS, key, encode(row))
        for crawl in self._crawls.values():
            crawl.let_go()
            crawl.pace.note(self.now_ms, crawl.counters.succeeded, crawl.counters.bytes)
            self.tx.put(
                Family.CRAWLS, keys.crawl_key(crawl.number, keys.CrawlRow.COUNTERS), encode(crawl.counters)
            )


def is_ineligible(queue: WorkQueue, settings: QueueSettings) -> bool:
    """Whether a queue is paused, or its precedence is at the floor."""
    return queue.row.paused or queue.row.precedence >= settings.precedence_floor


def inactive_key(queue: WorkQueue) -> bytes:
    """The key where an inactive queue waits."""
    return keys.inactive_key(queue.crawl, rank_of(queue), queue.row.inactive_serial, queue.queue)


def rank_of(queue: WorkQueue) -> int:
    """Where an inactive queue waits: its precedence, behind all others if it stands back."""
    return queue.row.precedence + (keys.STANDS_BACK if queue.row.stands_back else 0)


def _less(counts: dict[int, int] | dict[str, int], key: int | str) -> None:
    """Count one less, and remove a count that reaches 0."""
    left = counts[key] - 1  # type: ignore[index]
    if left:
        counts[key] = left  # type: ignore[index]
    else:
        del counts[key]  # type: ignore[arg-type]
