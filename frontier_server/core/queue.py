"""One work queue's life: the transition table, and the queue itself.

State is one explicit field (D11). READY, BUSY and SNOOZED queues are *active*: in
memory, and derived when a store is opened from active rows, queue rows and leases.
(Beyond a number of them, snoozed queues wait on disk: `WorkQueue.far`.)
"""

from bisect import bisect_left
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from .records import QueueRow


class QueueState(Enum):
    """Where a queue stands; the contract's names."""

    EXHAUSTED = "EXHAUSTED"
    INACTIVE = "INACTIVE"
    READY = "READY"
    BUSY = "BUSY"
    SNOOZED = "SNOOZED"
    RETIRED = "RETIRED"
    INELIGIBLE = "INELIGIBLE"

    __hash__ = object.__hash__  # by identity: each URI looks up several


class QueueEvent(Enum):
    """What happens to a queue."""

    FILLED = "a URI was put into it"
    ACTIVATED = "a node had nothing better to do"
    LEASED = "its head was given out"
    RESTED = "it must wait until a time"
    FREED = "its lease ended, and it need not wait"
    WOKEN = "its time has come"
    DRAINED = "it has no URI left"
    YIELDED = "others go first, or its session has spent its budget"
    RETIRED = "its whole budget or a quota is spent, or somebody retires it"
    UNRETIRED = "it is given another chance"
    BECAME_INELIGIBLE = "its precedence is at the floor, or somebody pauses it"
    ADMITTED = "neither any more"

    __hash__ = object.__hash__


_S, _E = QueueState, QueueEvent

# Heritrix's transitions (T1 to T15); what is not here is a defect.
TABLE: dict[tuple[QueueState, QueueEvent], QueueState] = {
    (_S.EXHAUSTED, _E.FILLED): _S.INACTIVE,  # T1: never straight to ready
    (_S.EXHAUSTED, _E.RETIRED): _S.RETIRED,
    (_S.INACTIVE, _E.FILLED): _S.INACTIVE,  # T2: of a better precedence, perhaps; one entry all the same
    (_S.INACTIVE, _E.ACTIVATED): _S.READY,  # T3
    (_S.INACTIVE, _E.DRAINED): _S.EXHAUSTED,  # its URIs were deleted, or moved
    (_S.INACTIVE, _E.RETIRED): _S.RETIRED,
    (_S.INACTIVE, _E.BECAME_INELIGIBLE): _S.INELIGIBLE,
    (_S.READY, _E.FILLED): _S.READY,
    (_S.READY, _E.DRAINED): _S.EXHAUSTED,  # T4
    (_S.READY, _E.LEASED): _S.BUSY,  # T6
    (_S.READY, _E.YIELDED): _S.INACTIVE,  # T7
    (_S.READY, _E.RETIRED): _S.RETIRED,  # T8
    (_S.READY, _E.RESTED): _S.SNOOZED,  # its host rests, or its robots.txt does
    (_S.READY, _E.BECAME_INELIGIBLE): _S.INELIGIBLE,
    (_S.BUSY, _E.FILLED): _S.BUSY,
    (_S.BUSY, _E.RESTED): _S.SNOOZED,  # T10: also when it is empty now
    (_S.BUSY, _E.FREED): _S.READY,  # T11
    (_S.BUSY, _E.YIELDED): _S.INACTIVE,  # T11
    (_S.BUSY, _E.RETIRED): _S.RETIRED,  # T12
    (_S.BUSY, _E.BECAME_INELIGIBLE): _S.INELIGIBLE,
    (_S.SNOOZED, _E.FILLED): _S.SNOOZED,
    (_S.SNOOZED, _E.WOKEN): _S.READY,  # T13, T14
    (_S.SNOOZED, _E.DRAINED): _S.EXHAUSTED,  # its crawl has ended
    (_S.SNOOZED, _E.YIELDED): _S.INACTIVE,  # T13; or its crawl has ended
    (_S.SNOOZED, _E.RETIRED): _S.RETIRED,
    (_S.SNOOZED, _E.BECAME_INELIGIBLE): _S.INELIGIBLE,
    (_S.RETIRED, _E.FILLED): _S.RETIRED,
    (_S.RETIRED, _E.UNRETIRED): _S.INACTIVE,  # T15
    (_S.INELIGIBLE, _E.FILLED): _S.INELIGIBLE,
    (_S.INELIGIBLE, _E.ADMITTED): _S.INACTIVE,
    (_S.INELIGIBLE, _E.DRAINED): _S.EXHAUSTED,
    (_S.INELIGIBLE, _E.RETIRED): _S.RETIRED,
}
# T5 and T9 are no transitions here: a queue is in one place only, and a URI that belongs
# elsewhere is moved before its queue's turn goes on.

ACTIVE = frozenset((_S.READY, _S.BUSY, _S.SNOOZED))


class IllegalMove(Exception):
    """The table has no such transition: a defect of the core."""


def after(state: QueueState, event: QueueEvent) -> QueueState:
    """The state that follows. Raises IllegalMove."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise IllegalMove(f"a queue that is {state.value} cannot take {event.name}") from None


class Held(NamedTuple):
    """An authority whose URIs let others pass: until when, why, and its first URI in the queue."""

    until_ms: int  # 0: until the queue's next turn
    reason: str
    position: bytes


class Passing:
    """How far a queue that several hosts share has been walked past URIs that must wait (see `passing`)."""

    __slots__ = ("held", "walked")

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}  # authority → of the URIs before `walked` there are none but theirs
        self.walked = b""

    def arrived(self, position: bytes) -> None:
        """A URI has come into the queue."""
        self.walked = min(self.walked, position)

    def let_in(self, now_ms: int) -> None:
        """Go back to those that need wait no more."""
        for authority, held in list(self.held.items()):
            if held.until_ms <= now_ms:
                del self.held[authority]
                self.walked = min(self.walked, held.position)


READ_AHEAD = 8
READ_AHEAD_BYTES = 4096  # of rows beyond the first


class Ahead:
    """The first URIs of a queue as they are stored, so that not each turn of it costs an iterator.

    As long as there are any, the queue has no URI before the last of them that is not among them.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[tuple[bytes, bytes]] = []  # place and value, in order

    @property
    def first(self) -> tuple[bytes, bytes] | None:
        """The first URI, if it is known: its place and its value."""
        return self._rows[0] if self._rows else None

    @property
    def rows(self) -> tuple[tuple[bytes, bytes], ...]:
        """All that are known."""
        return tuple(self._rows)

    def read(self, rows: Iterable[tuple[bytes, bytes]], behind: int = 0, most: int = READ_AHEAD) -> None:
        """Keep the first of a queue's rows, in their order; `most` of them are asked for.

        Their keys are cut so far, where the queue is named.
        """
        self._rows.clear()
        size = 0
        for key, value in rows:
            self._rows.append((key[behind:], value))
            size += len(value)
            if len(self._rows) in (most, READ_AHEAD) or size >= READ_AHEAD_BYTES:
                break

    def put(self, position: bytes, value: bytes) -> None:
        """A URI has come into the queue, or stays in its place with another value."""
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
        """A URI has left the queue."""
        rows = self._rows
        at = bisect_left(rows, (position,))
        if at < len(rows) and rows[at][0] == position:
            del rows[at]

    def forget(self) -> None:
        """Let go of all."""
        self._rows.clear()


class WorkQueue:
    """A work queue in memory: its row, and what is derived."""

    __slots__ = (
        "ahead",
        "crawl",
        "firsts",
        "leases_out",
        "line",
        "passing",
        "queue",
        "rest_reason",
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
        self.leases_out = 0
        self.ahead = Ahead()
        self.line: object = None  # what it waits for in line, while READY; see `line`
        # Levels of which that is known → the ordinal of the first URI, None if there is none.
        self.firsts: dict[int, int | None] = {}
        self.passing: Passing | None = None  # if it has URIs that let others pass
        self.wake_ms = 0  # while SNOOZED
        self.rest_reason = ""  # while SNOOZED
        self.snooze_serial = 0  # tells a heap entry of an earlier snooze

    @property
    def partition(self) -> bytes:
        """The partition that it belongs to."""
        return self.queue[:8]

    @property
    def far(self) -> bool:
        """Whether it is snoozed on disk, not in memory."""
        return self.row.far_ms > 0

    @property
    def in_memory(self) -> bool:
        """Whether it is active and memory holds it."""
        return self.state in ACTIVE and not self.row.far_ms
