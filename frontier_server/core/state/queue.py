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

from enum import Enum

from ..rows.records import QueueRow
from .passing import Passing
from .read_ahead import Ahead


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


class WorkQueue:
    """A work queue in memory: its row, and values derived from it."""

    __slots__ = (
        "ahead",
        "cost_out",
        "crawl",
        "firsts",
        "free_from",
        "interval_ms",
        "last_lease_ms",
        "last_node",
        "lasts",
        "leases_out",
        "lines",
        "nap_ms",
        "out",
        "overtaken",
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
        self.last_node = ""  # that had a lease of it since the start: it may still be connected to the host
        self.last_lease_ms = 0
        self.overtaken = 0  # turns of queues behind it in line, since it had one
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
