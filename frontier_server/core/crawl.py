"""One crawl in memory, and the operation that changes it.

`Operation` collects what one call changes: rows that are written once however often
they were touched (queues, counters), and events and outcomes in order.
"""

from collections import Counter, deque
from heapq import heappop, heappush

from . import keys
from .errors import StoreCorrupt
from .lifecycle import CrawlState, ExitStatus
from .queue import ACTIVE, QueueEvent, QueueState, WorkQueue, after
from .records import (
    CountersRow,
    EventRow,
    OutcomeRow,
    QueueRow,
    SpecRow,
    StateRow,
    decode,
    encode,
)
from .settings import CrawlSettings, FetchPolicy
from .store import Family, Store, Transaction
from .target import Target

EVENTS_KEPT = 10_000
MAX_KNOWN_TEXTS = 100_000


class Crawl:
    """A crawl: rows of it that memory holds, and its active queues."""

    def __init__(
        self,
        number: int,
        spec: SpecRow,
        settings: CrawlSettings,
        policy: FetchPolicy,
        state: StateRow,
        counters: CountersRow,
    ) -> None:
        self.number = number
        self.spec = spec
        self.settings = settings
        self.policy = policy
        self.state_row = state
        self.counters = counters
        self.jobs: list[int] = []
        self.ready: deque[WorkQueue] = deque()
        self.snoozed: list[tuple[int, int, int, WorkQueue]] = []  # heap: wake, tie, serial
        self.queues: dict[bytes, WorkQueue] = {}  # active ones
        # READY, BUSY and SNOOZED ones; the counts of other states are stored.
        self.active_counts: Counter[QueueState] = Counter()
        self.leases_out = 0
        self.pages_out = 0  # leases out but for robots.txt
        self.known_texts: set[str] = set()  # candidates' texts that have been seen, as offered
        self.scope_cache: dict[str, bool] = {}  # authority → in scope
        self.inactive_head = b""  # no inactive queue's key sorts before it
        self._ties = 0

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def state(self) -> CrawlState:
        """Where it is in its life."""
        return CrawlState(self.state_row.state)

    @property
    def exit_status(self) -> ExitStatus:
        """How it ended, or what it is doing."""
        return ExitStatus(self.state_row.exit_status)

    @property
    def target(self) -> Target:
        """What the frontier machine is asked to reach."""
        return Target(self.state_row.target)

    @property
    def running(self) -> bool:
        """Whether leases may be given."""
        return self.state_row.state == CrawlState.RUNNING.value

    @property
    def left(self) -> bool:
        """Whether anything is left to do: URIs, leases or jobs."""
        return bool(self.counters.queued or self.leases_out or self.jobs)

    def remember_text(self, text: str) -> None:
        """Note that a URI, written like this, has been seen."""
        if len(self.known_texts) >= MAX_KNOWN_TEXTS:
            self.known_texts.clear()
        self.known_texts.add(text)

    # Queues in memory: `ready` and `snoozed` are filled by Operation.move alone.

    def push_snoozed(self, queue: WorkQueue, wake_ms: int) -> None:
        """Let a queue sleep; an earlier entry of it becomes void."""
        self._ties += 1
        queue.snooze_serial += 1
        heappush(self.snoozed, (wake_ms, self._ties, queue.snooze_serial, queue))

    def next_wake(self) -> WorkQueue | None:
        """The snoozed queue that wakes first."""
        while self.snoozed:
            _, _, serial, queue = self.snoozed[0]
            if serial == queue.snooze_serial and queue.state is QueueState.SNOOZED:
                return queue
            heappop(self.snoozed)
        return None


class Operation:
    """One call's changes, under the time at which it was made."""

    def __init__(self, store: Store, now_ms: int) -> None:
        self.tx = Transaction(store)
        self.now_ms = now_ms
        self.events = 0  # appended
        self._crawls: dict[int, Crawl] = {}
        self._queues: dict[tuple[int, bytes], WorkQueue] = {}

    def counters(self, crawl: Crawl) -> CountersRow:
        """A crawl's counters, to be changed."""
        self._crawls[crawl.number] = crawl
        return crawl.counters

    @property
    def touched(self) -> list[Crawl]:
        """The crawls that the operation changed."""
        return list(self._crawls.values())

    def touch(self, queue: WorkQueue) -> QueueRow:
        """A queue's row, to be changed."""
        self._queues[queue.crawl, queue.queue] = queue
        return queue.row

    def queue(self, crawl: Crawl, queue: bytes) -> WorkQueue | None:
        """A queue of any state, if it was ever filled."""
        known = crawl.queues.get(queue) or self._queues.get((crawl.number, queue))
        if known is not None:
            return known
        value = self.tx.get(Family.QUEUES, keys.queue_row_key(crawl.number, queue))
        return None if value is None else WorkQueue(crawl.number, queue, decode(QueueRow, value))

    def move(
        self, crawl: Crawl, queue: WorkQueue, event: QueueEvent, wake_ms: int = 0, reason: str = ""
    ) -> None:
        """Take a queue to its next state, with all lists, indexes and counts that follow."""
        before, state = queue.state, after(queue.state, event)
        queue.state = state
        crawl.active_counts[before] -= 1
        crawl.active_counts[state] += 1
        if state is QueueState.SNOOZED:
            queue.wake_ms, queue.rest_reason = wake_ms, reason
            crawl.push_snoozed(queue, wake_ms)
        elif state is QueueState.READY and before is not QueueState.READY:
            queue.wake_ms, queue.rest_reason = 0, ""
            crawl.ready.append(queue)
        was_active, is_active = before in ACTIVE, state in ACTIVE
        if was_active == is_active and before is not QueueState.EXHAUSTED:
            return
        counters = self.counters(crawl)
        row = self.touch(queue)
        if before is QueueState.EXHAUSTED:
            counters.exhausted_queues -= 1
        if before is QueueState.INACTIVE:
            counters.inactive_queues -= 1
            self.tx.delete(Family.INDEX, self._inactive_key(queue))
        if state is QueueState.INACTIVE:
            row.inactive_serial = counters.next_inactive
            counters.next_inactive += 1
            counters.inactive_queues += 1
            key = self._inactive_key(queue)
            crawl.inactive_head = min(crawl.inactive_head, key)
            self.tx.put(Family.INDEX, key, b"\x01")
        if state is QueueState.EXHAUSTED:
            counters.exhausted_queues += 1
        if is_active:
            counters.active_queues += 1
            crawl.queues[queue.queue] = queue
            self.tx.put(Family.INDEX, keys.active_key(crawl.number, queue.queue), b"\x01")
        elif was_active:
            counters.active_queues -= 1
            del crawl.queues[queue.queue]
            self.tx.delete(Family.INDEX, keys.active_key(crawl.number, queue.queue))

    @staticmethod
    def _inactive_key(queue: WorkQueue) -> bytes:
        return keys.inactive_key(queue.crawl, queue.row.precedence, queue.row.inactive_serial, queue.queue)

    def activate(self, crawl: Crawl) -> bool:
        """Make the first inactive queue of the lowest precedence ready (T3)."""
        if not crawl.counters.inactive_queues:
            return False
        prefix = keys.inactive_prefix(crawl.number)
        # Popped rows leave deleted keys behind: start past them.
        for key, _ in self.tx.scan(Family.INDEX, max(prefix, crawl.inactive_head), prefix):
            queue = self.queue(crawl, key[-16:])
            if queue is None:
                raise StoreCorrupt(f"crawl {crawl.name}: inactive queue {key.hex()} has no row")
            crawl.inactive_head = key
            self.move(crawl, queue, QueueEvent.ACTIVATED)
            return True
        raise StoreCorrupt(
            f"crawl {crawl.name}: {crawl.counters.inactive_queues} inactive queues counted, none found"
        )

    def event(self, crawl: Crawl, kind: str, **fields: str | int) -> None:
        """Append an event; the oldest beyond those that are kept goes."""
        counters = self.counters(crawl)
        number = counters.next_event
        counters.next_event += 1
        self.events += 1
        row = EventRow(self.now_ms, kind, fields)
        self.tx.put(Family.EVENTS, keys.serial_key(crawl.number, number), encode(row))
        if number > EVENTS_KEPT:
            self.tx.delete(Family.EVENTS, keys.serial_key(crawl.number, number - EVENTS_KEPT))

    def outcome(self, crawl: Crawl, row: OutcomeRow) -> None:
        """Append a final disposition, for the crawl log."""
        counters = self.counters(crawl)
        self.tx.put(Family.OUTCOMES, keys.serial_key(crawl.number, counters.next_outcome), encode(row))
        counters.next_outcome += 1

    def put_state(self, crawl: Crawl) -> None:
        """Store a crawl's life."""
        self.tx.put(Family.CRAWLS, keys.crawl_key(crawl.number, keys.CrawlRow.STATE), encode(crawl.state_row))

    def close(self) -> None:
        """Write the rows that were touched, once each."""
        for queue in self._queues.values():
            queue.row.state = queue.state.value
            self.tx.put(Family.QUEUES, keys.queue_row_key(queue.crawl, queue.queue), encode(queue.row))
        for crawl in self._crawls.values():
            self.tx.put(
                Family.CRAWLS, keys.crawl_key(crawl.number, keys.CrawlRow.COUNTERS), encode(crawl.counters)
            )
