"""Which crawls have work to do, and when; idle crawls cost an operation nothing.

There may be 100 000 crawls, most of them idle. A crawl is looked at only when an operation has touched it;
the questions asked after every operation are answered from these notes.
"""

from collections import Counter
from heapq import heapify, heappop, heappush

from ..machines.lifecycle import CrawlState
from .crawl import Crawl
from .kinds import ANY, Kinds
from .model import EmptyReason

ENTRIES_KEPT = 1000  # in a heap before void ones are removed


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
    """Numbers by their moments, the soonest first."""

    def __init__(self) -> None:
        self._at_ms: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []  # includes void entries

    def put(self, number: int, moment_ms: int | None) -> None:
        """Set the moment of a number; None removes it."""
        if self._at_ms.get(number) == moment_ms:
            return
        if moment_ms is None:
            del self._at_ms[number]  # its heap entry is void now
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

    def take_due(self, now_ms: int, most: int = 0) -> list[int]:
        """Remove and return the numbers whose moments have come, in order; at most `most`, if given."""
        due: list[int] = []
        while (moment_ms := self.first_ms()) is not None and moment_ms <= now_ms:
            if most and len(due) == most:
                break
            _, number = heappop(self._heap)
            del self._at_ms[number]
            due.append(number)
        return due


class Turns:
    """Crawls in the order of their turns: the one with the fewest leases for its weight first."""

    def __init__(self) -> None:
        self._passed: dict[int, float] = {}  # crawl → its `passed`
        self._heap: list[tuple[float, int]] = []  # includes void entries

    def put(self, crawl: Crawl) -> None:
        """Add a crawl, or move it to its present place."""
        number = crawl.number
        if self._passed.get(number) == crawl.passed:
            return
        self._passed[number] = crawl.passed
        heappush(self._heap, (crawl.passed, number))
        if len(self._heap) > ENTRIES_KEPT + 2 * len(self._passed):
            self._heap = [(passed, each) for each, passed in self._passed.items()]
            heapify(self._heap)

    def discard(self, number: int) -> None:
        """Remove a crawl, if it is there."""
        self._passed.pop(number, None)  # its heap entry is void now

    def first(self) -> tuple[float, int] | None:
        """The first crawl: its `passed`, and its number."""
        while self._heap:
            passed, number = self._heap[0]
            if self._passed.get(number) == passed:
                return passed, number
            heappop(self._heap)
        return None


class OfKind:
    """Notes on the crawls that one kind of fetcher serves."""

    def __init__(self) -> None:
        self.chances = Soonest()
        self.reasons: Counter[EmptyReason] = Counter()  # why crawls give no leases → how many crawls
        self.running: dict[int, Crawl] = {}
        self.filled: dict[int, Crawl] = {}  # running ones with full document limits
        # Running ones that may have a URI to lease, for callers that ask for any crawl.
        self.shared: dict[int, Crawl] = {}
        self.turns = Turns()  # of these, without those that have had their turn in this operation
        self.due: dict[int, Crawl] = {}  # running ones whose chance has come, and that were not served since


class Agenda:
    """Notes on each crawl, from when it was last touched."""

    def __init__(self) -> None:
        self._due = Soonest()
        self._of_kind: dict[str, OfKind] = {}
        self._noted: dict[int, tuple[str, EmptyReason]] = {}  # crawl → its kind, and why it gives no leases
        self.running: dict[int, Crawl] = {}
        self.leasable: dict[int, Crawl] = {}  # running ones that may have a URI to lease
        self.working: dict[int, Crawl] = {}  # with slices to do, the next one first
        self.unlogged: dict[int, Crawl] = {}  # with outcomes that their crawl logs lack
        # By trouble: crawls that go on when it is over.
        self.troubled: dict[str, dict[int, Crawl]] = {}
        self._trouble_of: dict[int, str] = {}

    def note(self, crawl: Crawl) -> None:
        """Look at a crawl that may have changed."""
        number, runs = crawl.number, crawl.running
        self._due.put(number, crawl.next_due_ms() if crawl.state_row.running_since_ms else None)
        of_kind = self._record_kind(crawl)
        if not runs:
            of_kind.due.pop(number, None)
        due = number in of_kind.due  # its chance is not noted again until it was served
        of_kind.chances.put(number, None if due else crawl.next_chance_ms())
        leasable = runs and (due or crawl.offers) and not crawl.limited
        shared = leasable and crawl.settings.weight > 0
        for crawls, belongs in (
            (self.running, runs),
            (of_kind.running, runs),
            (of_kind.filled, runs and crawl.documents_full),
            (self.leasable, leasable),
            (of_kind.shared, shared),
            (self.working, crawl.works),
            (self.unlogged, not crawl.logged),
        ):
            if not belongs:
                crawls.pop(number, None)
            elif number not in crawls:
                crawls[number] = crawl
        if shared:
            of_kind.turns.put(crawl)
        else:
            of_kind.turns.discard(number)
        if crawl.state_row.trouble or number in self._trouble_of:
            self._record_trouble(number, crawl.goes_on_after, crawl)

    def _record_trouble(self, number: int, trouble: str, crawl: Crawl | None = None) -> None:
        before = self._trouble_of.pop(number, "")
        if before and before != trouble:
            troubled = self.troubled[before]
            del troubled[number]
            if not troubled:
                del self.troubled[before]
        if trouble and crawl is not None:
            self._trouble_of[number] = trouble
            self.troubled.setdefault(trouble, {})[number] = crawl

    def _record_kind(self, crawl: Crawl) -> OfKind:
        """The notes on crawls of a crawl's kind. It leaves those of its former kind."""
        number, kind, reason = crawl.number, crawl.kind, empty_reason(crawl)
        before = self._noted.get(number)
        if before is not None and before[0] != kind:
            self._forget_kind(number)
            before = None
        of_kind = self._of_kind.get(kind)
        if of_kind is None:
            of_kind = self._of_kind[kind] = OfKind()
        if before is None or before[1] is not reason:
            if before is not None:
                of_kind.reasons[before[1]] -= 1
            of_kind.reasons[reason] += 1
            self._noted[number] = kind, reason
        return of_kind

    def _forget_kind(self, number: int) -> None:
        noted = self._noted.pop(number, None)
        if noted is None:
            return
        kind, reason = noted
        of_kind = self._of_kind[kind]
        of_kind.chances.put(number, None)
        of_kind.reasons[reason] -= 1
        of_kind.turns.discard(number)
        for crawls in (of_kind.running, of_kind.filled, of_kind.shared, of_kind.due):
            crawls.pop(number, None)
        if not of_kind.reasons.total():
            del self._of_kind[kind]

    def forget(self, number: int) -> None:
        """Forget a crawl that has left memory."""
        self._due.put(number, None)
        self._forget_kind(number)
        self._record_trouble(number, "")
        for crawls in (self.running, self.leasable, self.working, self.unlogged):
            crawls.pop(number, None)

    def served(self, kinds: Kinds) -> list[OfKind]:
        """The notes on the crawls that a fetcher serves which offers these kinds."""
        return [self._of_kind[kind] for kind in (ANY, *kinds) if kind in self._of_kind]

    def next_due_ms(self) -> int | None:
        """When the first crawl is due for a tick."""
        return self._due.first_ms()

    def next_chance_ms(self, kinds: Kinds = ()) -> int | None:
        """When time alone may next bring a fetcher of these kinds a URI to lease."""
        due = [of_kind.chances.first_ms() for of_kind in self.served(kinds)]
        return min([moment for moment in due if moment is not None], default=None)

    def take_due(self, now_ms: int, most: int) -> list[int]:
        """The numbers of the first crawls due for a tick; the caller must note each again."""
        return self._due.take_due(now_ms, most)

    def come_due(self, now_ms: int, kinds: Kinds) -> None:
        """Move the crawls of these kinds whose chance has come, once, to those that have turns."""
        for of_kind in self.served(kinds):
            for number in of_kind.chances.take_due(now_ms):
                crawl = of_kind.running.get(number)  # others are noted again when their state changes
                if crawl is None:
                    continue
                of_kind.due[number] = crawl
                if not crawl.limited:
                    self.leasable[number] = crawl
                    if crawl.settings.weight > 0:
                        of_kind.shared[number] = crawl
                        of_kind.turns.put(crawl)

    def served_now(self, crawl: Crawl) -> None:
        """Note that a crawl gets its turn, and what was due in it is done; the caller must note it again."""
        of_kind = self._of_kind.get(crawl.kind)
        if of_kind is not None:
            of_kind.due.pop(crawl.number, None)

    def take_turn(self, kinds: Kinds) -> Crawl | None:
        """Take out the crawl of these kinds whose turn is next; it has no other turn until it is noted."""
        first: tuple[float, int] | None = None
        its: OfKind | None = None
        for of_kind in self.served(kinds):
            found = of_kind.turns.first()
            if found is not None and (first is None or found < first):
                first, its = found, of_kind
        if first is None or its is None:
            return None
        its.turns.discard(first[1])
        return its.shared[first[1]]

    def next_at_work(self) -> Crawl:
        """The crawl that does the next slice; it then goes last."""
        number = next(iter(self.working))
        crawl = self.working[number] = self.working.pop(number)
        return crawl
