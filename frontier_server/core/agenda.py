"""Which crawls have something to do, and when: so that an operation costs nothing for those that have not.

There may be 100 000 crawls, of which most are idle. Each is looked at when an operation has touched it; the
questions that are asked after every operation are answered from what was seen then.
"""

from collections import Counter
from heapq import heapify, heappop, heappush

from .crawl import Crawl
from .machines.lifecycle import CrawlState
from .model import EmptyReason

ENTRIES_KEPT = 1000  # of a heap, before those that count no more are removed


_WITHOUT_LEASES = {
    CrawlState.NASCENT: EmptyReason.NOT_RUNNING,
    CrawlState.PREPARING: EmptyReason.NOT_RUNNING,
    CrawlState.PAUSING: EmptyReason.PAUSED,
    CrawlState.PAUSED: EmptyReason.PAUSED,
    CrawlState.STOPPING: EmptyReason.FINISHED,
    CrawlState.FINISHED: EmptyReason.FINISHED,
}


def empty_reason(crawl: Crawl) -> EmptyReason:
    """Why a crawl gives no leases now."""
    reason = _WITHOUT_LEASES.get(crawl.state)
    if reason is None:
        reason = EmptyReason.LIMIT_REACHED if crawl.documents_full else EmptyReason.NOTHING_DUE
    return reason


class Soonest:
    """Numbers with moments, the soonest first."""

    def __init__(self) -> None:
        self._at_ms: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []  # with entries that count no more

    def put(self, number: int, moment_ms: int | None) -> None:
        """Let a number have a moment, or none."""
        if self._at_ms.get(number) == moment_ms:
            return
        if moment_ms is None:
            del self._at_ms[number]  # its entry counts no more
            return
        self._at_ms[number] = moment_ms
        heappush(self._heap, (moment_ms, number))
        if len(self._heap) > ENTRIES_KEPT + 2 * len(self._at_ms):
            self._heap = [(at_ms, each) for each, at_ms in self._at_ms.items()]
            heapify(self._heap)

    def first_ms(self) -> int | None:
        """The soonest moment."""
        while self._heap:
            moment_ms, number = self._heap[0]
            if self._at_ms.get(number) == moment_ms:
                return moment_ms
            heappop(self._heap)
        return None

    def take_due(self, now_ms: int) -> list[int]:
        """Those whose moment has come, in the order of their moments; they have none from now on."""
        due = []
        while (moment_ms := self.first_ms()) is not None and moment_ms <= now_ms:
            _, number = heappop(self._heap)
            del self._at_ms[number]
            due.append(number)
        return due


class Agenda:
    """What was seen of each crawl when it was last touched."""

    def __init__(self) -> None:
        self._due = Soonest()
        self._chances = Soonest()
        self._reasons: dict[int, EmptyReason] = {}
        self.reasons: Counter[EmptyReason] = Counter()  # why crawls give no leases → how many crawls
        self.running: dict[int, Crawl] = {}
        self.filled: dict[int, Crawl] = {}  # of those: what is out fills their document limit
        self.leasable: dict[int, Crawl] = {}  # of those: a queue may have something to give
        self.working: dict[int, Crawl] = {}  # with slices to do, in the order of their turns
        self.unlogged: dict[int, Crawl] = {}  # with outcomes that are not in their logs for good
        self.troubled: dict[int, Crawl] = {}  # paused for something that may pass

    def note(self, crawl: Crawl) -> None:
        """Look at a crawl that may have changed."""
        number, runs = crawl.number, crawl.running
        self._due.put(number, crawl.next_due_ms() if crawl.state_row.running_since_ms else None)
        self._chances.put(number, crawl.next_chance_ms())
        reason, before = empty_reason(crawl), self._reasons.get(number)
        if reason is not before:
            self._count(before, -1)
            self._count(reason, 1)
            self._reasons[number] = reason
        for crawls, belongs in (
            (self.running, runs),
            (self.filled, runs and crawl.documents_full),
            (self.leasable, runs and crawl.offers and not crawl.limited),
            (self.working, crawl.works),
            (self.unlogged, not crawl.logged),
            (self.troubled, bool(crawl.state_row.trouble)),
        ):
            if not belongs:
                crawls.pop(number, None)
            elif number not in crawls:
                crawls[number] = crawl

    def forget(self, number: int) -> None:
        """A crawl is in memory no more."""
        self._due.put(number, None)
        self._chances.put(number, None)
        self._count(self._reasons.pop(number, None), -1)
        for crawls in (
            self.running,
            self.filled,
            self.leasable,
            self.working,
            self.unlogged,
            self.troubled,
        ):
            crawls.pop(number, None)

    def _count(self, reason: EmptyReason | None, more: int) -> None:
        if reason is not None:
            self.reasons[reason] += more

    def next_due_ms(self) -> int | None:
        """When the first crawl is to be ticked."""
        return self._due.first_ms()

    def next_chance_ms(self) -> int | None:
        """When time alone may bring the first crawl something to lease."""
        return self._chances.first_ms()

    def take_due(self, now_ms: int) -> list[int]:
        """The numbers of the crawls to be ticked now; each must be noted again."""
        return self._due.take_due(now_ms)

    def take_chances(self, now_ms: int) -> list[int]:
        """The numbers of the crawls that time has brought something; each must be noted again."""
        return self._chances.take_due(now_ms)

    def next_at_work(self) -> Crawl:
        """The crawl whose turn it is to do a slice; it comes last from now on."""
        number = next(iter(self.working))
        crawl = self.working[number] = self.working.pop(number)
        return crawl
