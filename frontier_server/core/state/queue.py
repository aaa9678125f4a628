"""A work queue: its states, their transitions, and its data in memory.

A queue holds the URIs of a host (or, by the crawl's settings, of a domain, a bucket or a caller's key) in
the order in which they are to be fetched. Politeness is kept by queues that wait, so most of the frontier is
about how they wait: cheaply, since a crawl may have millions, and fairly, since each has its owner.

Where a queue waits
-------------------
EXHAUSTED   It has no URI. Only its row is left; the next URI makes it INACTIVE.
INACTIVE    It waits on disk for its first turn, or for one more session, in the order of its rank: the
            queue's precedence, and within it first come, first served (`keys.inactive_key` is this order).
            However many there are, they cost no memory. One is activated when a node asks and no queue is
            ready.
READY       It has a URI, and its turn may come: it is in `ready.ReadyQueues`, first come, first served, or in
            the line of a host (below).
BUSY        URIs of it are out at nodes. If it may have more than one out, it stays among the ready queues, or
            is held back there until its turn may bring another result.
SNOOZED     It waits for a time: its host rests, or it does before a retry. A heap wakes it; beyond a number
            in memory, an index on disk does.
RETIRED     Its budget or a quota is spent, or an operator wants it so. Its URIs stay, and are not counted as
            queued; a crawl ends without them.
INELIGIBLE  Its precedence has reached the floor, or an operator has paused it. Its URIs stay queued.

READY, BUSY and SNOOZED queues are *active*: memory holds them, and rebuilds them from active rows, queue rows
and leases when a store is opened. `TABLE` has every move; any other is a defect. State is one explicit field,
and `Operation.move` changes it together with the list, index and counts that belong to it.

How a turn comes about
----------------------
`Next` takes queues in this order: from open lines at hosts, from the ready queues, then from the inactive
ones by activating them. The turn's first obstacle (`turn`) decides where the queue goes; without one, its
head is leased, and the queue is BUSY until the report, the lapse or the hand-back has let it go on
(`settlement`).

Lines
    Several queues may belong to one host: those of other crawls, of http and https, of parallel branches, of
    a group. If the host is busy or rests, its first queue in vain joins the *line* of that host (`line`),
    and so do all after it. A line opens when a request of the host has ended or its rest is over, and gives
    out one queue at a time: one free place costs one turn, not one for each queue that waits. A queue that
    several hosts share may be in several lines, and leaves them all for its turn.

Naps
    A BUSY queue cannot be snoozed, as its leases are out. If it could have one more after a time, it naps:
    `ReadyQueues.nap` offers it again then.

Holding back
    A BUSY queue that was offered in vain would be offered again at every request. So it is held back until
    the reason is gone: a request wants more leases of it at once, or no inactive queue goes before it.

Giving way
    A queue keeps its turns for a session (its session budget), and then yields to inactive ones. It yields
    earlier if a queue of a lower precedence waits: on waking, at its turn, and when its lease has ended.

Passing
    In a queue of several hosts, a head whose host must wait would hold up the others. So these pass it:
    `Passing` has, for each authority (a *lane*), whether it waits, and what for (`choice`, `lanes`).

Standing back
    In a recrawl with a limit, queues with new pages only wait behind those with known ones, unless there is
    room for both (`STANDS_BACK`, `Crawl.room_for_new`).

URIs that wait outside
    A URI that is to be fetched at a later time, or rests alone before a retry, is in no queue: it comes back
    at its time (`future`), at the end of its level.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ..rows.records import QueueRow


class QueueState(Enum):
    """The state of a queue; the contract's names."""

    EXHAUSTED = "EXHAUSTED"
    INACTIVE = "INACTIVE"
    READY = "READY"
    BUSY = "BUSY"
    SNOOZED = "SNOOZED"
    RETIRED = "RETIRED"
    INELIGIBLE = "INELIGIBLE"

    __hash__ = object.__hash__  # by identity, which is faster: each URI looks up several


class QueueEvent(Enum):
    FILLED = "a URI was put into it"
    ACTIVATED = "a node asked for leases, and no queue was ready"
    LEASED = "its head was leased"
    RESTED = "it must wait until a time"
    FREED = "its lease ended, and it need not wait"
    WOKEN = "its wait is over"
    DRAINED = "it has no URI left"
    YIELDED = "other queues go first, or its session budget is spent"
    RETIRED = "its total budget or a quota is spent, or its settings, a report or an operator retired it"
    UNRETIRED = "an operator brought it back"
    BECAME_INELIGIBLE = "its precedence reached the floor, or an operator paused it"
    ADMITTED = "its precedence is below the floor again, and it is not paused"

    __hash__ = object.__hash__


_S, _E = QueueState, QueueEvent

# Heritrix's transitions. Any other transition is a defect.
TABLE: dict[tuple[QueueState, QueueEvent], QueueState] = {
    (_S.EXHAUSTED, _E.FILLED): _S.INACTIVE,  # never straight to ready
    (_S.EXHAUSTED, _E.RETIRED): _S.RETIRED,
    (_S.INACTIVE, _E.FILLED): _S.INACTIVE,  # even if its precedence improves: it keeps one entry
    (_S.INACTIVE, _E.ACTIVATED): _S.READY,
    (_S.INACTIVE, _E.DRAINED): _S.EXHAUSTED,  # its URIs were deleted, or moved
    (_S.INACTIVE, _E.RETIRED): _S.RETIRED,
    (_S.INACTIVE, _E.BECAME_INELIGIBLE): _S.INELIGIBLE,
    (_S.READY, _E.FILLED): _S.READY,
    (_S.READY, _E.DRAINED): _S.EXHAUSTED,
    (_S.READY, _E.LEASED): _S.BUSY,
    (_S.READY, _E.YIELDED): _S.INACTIVE,
    (_S.READY, _E.RETIRED): _S.RETIRED,
    (_S.READY, _E.RESTED): _S.SNOOZED,  # its host rests, or fetching its robots.txt failed
    (_S.READY, _E.BECAME_INELIGIBLE): _S.INELIGIBLE,
    (_S.BUSY, _E.FILLED): _S.BUSY,
    (_S.BUSY, _E.RESTED): _S.SNOOZED,  # even if it is empty now
    (_S.BUSY, _E.FREED): _S.READY,
    (_S.BUSY, _E.YIELDED): _S.INACTIVE,
    (_S.BUSY, _E.RETIRED): _S.RETIRED,
    (_S.BUSY, _E.BECAME_INELIGIBLE): _S.INELIGIBLE,
    (_S.SNOOZED, _E.FILLED): _S.SNOOZED,
    (_S.SNOOZED, _E.WOKEN): _S.READY,
    (_S.SNOOZED, _E.DRAINED): _S.EXHAUSTED,  # its crawl has ended
    (_S.SNOOZED, _E.YIELDED): _S.INACTIVE,  # a queue of lower precedence waits, or its crawl has ended
    (_S.SNOOZED, _E.RETIRED): _S.RETIRED,
    (_S.SNOOZED, _E.BECAME_INELIGIBLE): _S.INELIGIBLE,
    (_S.RETIRED, _E.FILLED): _S.RETIRED,
    (_S.RETIRED, _E.UNRETIRED): _S.INACTIVE,
    (_S.INELIGIBLE, _E.FILLED): _S.INELIGIBLE,
    (_S.INELIGIBLE, _E.ADMITTED): _S.INACTIVE,
    (_S.INELIGIBLE, _E.DRAINED): _S.EXHAUSTED,
    (_S.INELIGIBLE, _E.RETIRED): _S.RETIRED,
}
# Unlike in Heritrix, a queue is in one place only, and a URI that belongs in another queue moves
# there within its queue's turn: neither needs a transition.

ACTIVE = frozenset((_S.READY, _S.BUSY, _S.SNOOZED))


class IllegalMove(Exception):
    """The table lacks a transition: a defect of the core."""


def after(state: QueueState, event: QueueEvent) -> QueueState:
    """The state after an event. Raises IllegalMove."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise IllegalMove(f"a queue in state {state.value} has no transition for {event.name}") from None


MAX_KNOWN_LANES = 1_000


class HeldLane(NamedTuple):
    """The lane of an authority that must wait: until when, why, and its first URI in the queue."""

    until_ms: int  # 0: until `busy` may have room
    reason: str
    position: bytes
    busy: str = ""  # the name of the host, group or robots.txt that it waits for


class Passing:
    """The lanes of a queue shared by several hosts, while some of them wait and others pass (see `choice`).

    A lane is held, or may have its turn, or is unknown: then its first URI is not before `walked`.
    """

    __slots__ = ("_busy", "_may_go", "_out", "_turns", "_wakes", "held", "walked")

    def __init__(self, start: bytes) -> None:
        self.held: dict[bytes, HeldLane] = {}
        self.walked = start
        self._may_go: dict[bytes, bytes] = {}  # lane → a lower bound of its first free URI's position
        self._out: set[bytes] = set()  # lanes whose URIs are all out
        self._turns: list[tuple[bytes, bytes]] = []  # heap of these, and of entries that no longer hold
        self._wakes: list[tuple[int, bytes]] = []  # heap: until when lanes are held; likewise
        # Host, group or robots.txt → when a request of it had ended last, and the lanes that wait for it.
        self._busy: dict[str, tuple[int, list[bytes]]] = {}

    def __contains__(self, lane: bytes) -> bool:
        return lane in self.held or lane in self._may_go or lane in self._out

    def arrived(self, lane: bytes, position: bytes) -> None:
        """Note that a URI waits at a position of a lane: a new one, or one that comes back."""
        held = self.held.get(lane)
        if held is not None:
            if position < held.position:
                self.held[lane] = held._replace(position=position)
        elif lane in self._may_go:
            if position < self._may_go[lane]:
                self.let_go(lane, position)
        elif lane in self._out:
            self.let_go(lane, position)
        elif position < self.walked:
            if len(self._may_go) < MAX_KNOWN_LANES:
                self.let_go(lane, position)
            else:
                self.walked = position

    def let_go(self, lane: bytes, position: bytes) -> None:
        """Let a lane have its turn; none of its free URIs is before the position."""
        self.held.pop(lane, None)
        self._out.discard(lane)
        self._may_go[lane] = position
        heappush(self._turns, (position, lane))
        if len(self._turns) > MAX_KNOWN_LANES + 4 * len(self._may_go):
            self._turns = [(first, each) for each, first in self._may_go.items()]
            heapify(self._turns)

    def hold(self, lane: bytes, held: HeldLane, ended: int = 0) -> None:
        """Let a lane wait. `ended` says when a request of what it waits for had ended last."""
        self._may_go.pop(lane, None)
        self.held[lane] = held
        if held.busy:
            self._busy.setdefault(held.busy, (ended, []))[1].append(lane)
        else:
            heappush(self._wakes, (held.until_ms, lane))

    def all_out(self, lane: bytes) -> None:
        """Note that a lane has no free URI."""
        self._may_go.pop(lane, None)
        self._out.add(lane)

    def forget(self, lane: bytes) -> None:
        """Forget a lane that has no URI."""
        self.held.pop(lane, None)
        self._may_go.pop(lane, None)
        self._out.discard(lane)

    def end_waits(self, now_ms: int, ended_of: Callable[[str], int]) -> None:
        """Let the lanes go that need no longer wait, by the time and by when requests have ended."""
        due: list[bytes] = []
        for name in [name for name, (ended, _) in self._busy.items() if ended_of(name) != ended]:
            due += self._busy.pop(name)[1]
        while self._wakes and self._wakes[0][0] <= now_ms:
            due.append(heappop(self._wakes)[1])
        for lane in due:
            held = self.held.get(lane)
            if held is not None and held.until_ms <= now_ms and held.busy not in self._busy:
                self.let_go(lane, held.position)

    def busy(self, most: int) -> list[str]:
        """The hosts, groups and robots.txt files that lanes have waited for longest, `most` at most."""
        found: list[str] = []
        for name, (_, lanes) in list(self._busy.items()):
            if len(found) == most:
                break
            waiting = [lane for lane in lanes if lane in self.held and self.held[lane].busy == name]
            if waiting:
                found.append(name)
            else:
                del self._busy[name]
        return found

    @property
    def first(self) -> tuple[bytes, bytes] | None:
        """The position and the lane whose turn is first."""
        while self._turns:
            position, lane = self._turns[0]
            if self._may_go.get(lane) == position:
                return position, lane
            heappop(self._turns)
        return None

    @property
    def next_wake(self) -> HeldLane | None:
        """The lane that waits least; None if none has a time."""
        while self._wakes:
            until_ms, lane = self._wakes[0]
            held = self.held.get(lane)
            if held is not None and held.until_ms == until_ms:
                return held
            heappop(self._wakes)
        return None


READ_AHEAD = 8
READ_AHEAD_BYTES = 4096  # of rows beyond the first


class Ahead:
    """The first stored URIs of a queue, read ahead to save an iterator at most turns.

    They are a prefix of the queue, without gaps; empty means unknown.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[tuple[bytes, bytes]] = []  # position and value, in order

    @property
    def first(self) -> tuple[bytes, bytes] | None:
        """The position and value of the first URI, if known."""
        return self._rows[0] if self._rows else None

    @property
    def rows(self) -> tuple[tuple[bytes, bytes], ...]:
        """All URIs read ahead."""
        return tuple(self._rows)

    def read(self, rows: Iterable[tuple[bytes, bytes]], behind: int = 0, most: int = READ_AHEAD) -> None:
        """Keep the first of a queue's rows, in order, at most `most`.

        `behind` is the length of the queue's name, which is cut from each key.
        """
        self._rows.clear()
        size = 0
        for key, value in rows:
            self._rows.append((key[behind:], value))
            size += len(value)
            if len(self._rows) in (most, READ_AHEAD) or size >= READ_AHEAD_BYTES:
                break

    def put(self, position: bytes, value: bytes) -> None:
        """Note that a URI has come into the queue, or has a new value."""
        rows = self._rows
        if not rows or position > rows[-1][0]:
            return
        at = bisect_left(rows, (position,))
        if rows[at][0] == position:
            rows[at] = position, value
        else:
            rows.insert(at, (position, value))
            self.read(tuple(rows))

    def took(self, position: bytes) -> None:
        """Note that a URI has left the queue."""
        rows = self._rows
        at = bisect_left(rows, (position,))
        if at < len(rows) and rows[at][0] == position:
            del rows[at]

    def forget(self) -> None:
        """Forget all."""
        self._rows.clear()


class WorkQueue:
    """A work queue in memory: its row, and values derived from it."""

    __slots__ = (
        "ahead",
        "cost_out",
        "crawl",
        "firsts",
        "free_from",
        "interval_ms",
        "lasts",
        "leases_out",
        "lines",
        "nap_ms",
        "out",
        "passing",
        "queue",
        "rest_reason",
        "robots_for",
        "robots_out",
        "row",
        "snooze_serial",
        "state",
        "wake_ms",
    )

    def __init__(self, crawl: int, queue: bytes, row: QueueRow) -> None:
        self.crawl = crawl
        self.queue = queue  # 16 bytes: the partition, and 8 more
        self.row = row
        self.state = QueueState(row.state)
        self.leases_out = 0  # URIs, or the robots.txt of one
        self.cost_out = 0  # of the URIs that are out
        self.out: dict[bytes, int] = {}  # positions of URIs that are out → serials of their leases
        self.robots_out = 0  # the serial of the lease of a robots.txt; 0 if there is none
        self.robots_for = b""  # the position of the URI that waits for it
        self.free_from = b""  # while URIs are out: no other URI stands before it
        self.nap_ms = 0  # when it was last to be offered again while BUSY
        self.ahead = Ahead()
        self.lines: tuple[object, ...] = ()  # the hosts and groups whose lines it is in
        # Level → the ordinal of its first URI, None if it is empty. Other levels are unknown.
        self.firsts: dict[int, int | None] = {}
        self.lasts: dict[int, int] = {}  # level → no URI of it has a higher ordinal; likewise
        self.passing: Passing | None = None  # if some of its URIs must wait and others pass
        self.interval_ms = 0  # the least time from one of its fetches to the next, as of the last; 0: unknown
        self.wake_ms = 0  # while SNOOZED
        self.rest_reason = ""  # while SNOOZED
        self.snooze_serial = 0  # heap entries of earlier snoozes have other serials

    def __repr__(self) -> str:
        row = self.row
        uris = f"{row.count} URIs, {self.leases_out} out"
        return f"<queue {row.key} of crawl {self.crawl}: {self.state.value}, {uris}>"

    @property
    def partition(self) -> bytes:
        return self.queue[:8]

    @property
    def far(self) -> bool:
        """Whether it is snoozed on disk."""
        return self.row.far_ms > 0

    def give_back(self, position: bytes, lane: bytes) -> None:
        """Note that a URI that was out waits at its position again."""
        self.free_from = min(self.free_from, position)
        if self.passing is not None and lane:
            self.passing.arrived(lane, position)

    @property
    def in_memory(self) -> bool:
        """Whether it is active and in memory."""
        return self.state in ACTIVE and not self.row.far_ms
