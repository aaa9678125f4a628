"""One work queue's life: the transition table, and the queue itself.

State is one explicit field (D11). READY, BUSY and SNOOZED queues are *active*: in
memory, and derived when a store is opened from active rows, queue rows and leases.
"""

from enum import Enum

from .records import QueueRow


class QueueState(Enum):
    """Where a queue stands; the contract's names."""

    EXHAUSTED = "EXHAUSTED"
    INACTIVE = "INACTIVE"
    READY = "READY"
    BUSY = "BUSY"
    SNOOZED = "SNOOZED"


class QueueEvent(Enum):
    """What happens to a queue."""

    FILLED = "a URI was put into it"
    ACTIVATED = "a node had nothing better to do"
    LEASED = "its head was given out"
    RESTED = "it must wait until a time"
    FREED = "its lease ended, and it need not wait"
    WOKEN = "its time has come"
    DRAINED = "its turn came, and it was empty"
    DEACTIVATED = "it leaves memory with URIs left"


_S, _E = QueueState, QueueEvent

# Heritrix's transitions; what is not here is a defect.
TABLE: dict[tuple[QueueState, QueueEvent], QueueState] = {
    (_S.EXHAUSTED, _E.FILLED): _S.INACTIVE,  # T1: never straight to ready
    (_S.INACTIVE, _E.FILLED): _S.INACTIVE,
    (_S.READY, _E.FILLED): _S.READY,
    (_S.BUSY, _E.FILLED): _S.BUSY,
    (_S.SNOOZED, _E.FILLED): _S.SNOOZED,
    (_S.INACTIVE, _E.ACTIVATED): _S.READY,  # T3
    (_S.READY, _E.LEASED): _S.BUSY,  # T6
    (_S.READY, _E.DRAINED): _S.EXHAUSTED,  # T4
    (_S.READY, _E.RESTED): _S.SNOOZED,  # its host rests, or its robots.txt does
    (_S.BUSY, _E.RESTED): _S.SNOOZED,  # T10: also when it is empty now
    (_S.BUSY, _E.FREED): _S.READY,  # T11
    (_S.SNOOZED, _E.WOKEN): _S.READY,  # T13
    # A crawl that has finished lets go of its queues.
    (_S.READY, _E.DEACTIVATED): _S.INACTIVE,
    (_S.SNOOZED, _E.DEACTIVATED): _S.INACTIVE,
    (_S.SNOOZED, _E.DRAINED): _S.EXHAUSTED,
}

ACTIVE = frozenset((_S.READY, _S.BUSY, _S.SNOOZED))


class IllegalMove(Exception):
    """The table has no such transition: a defect of the core."""


def after(state: QueueState, event: QueueEvent) -> QueueState:
    """The state that follows. Raises IllegalMove."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise IllegalMove(f"a queue that is {state.value} cannot take {event.name}") from None


class WorkQueue:
    """A work queue in memory: its row, and what is derived."""

    __slots__ = (
        "crawl",
        "first",
        "leases_out",
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
        self.first: bytes | None = None  # the suffix of its first URI, if that is known exactly
        self.wake_ms = 0  # while SNOOZED
        self.rest_reason = ""  # while SNOOZED
        self.snooze_serial = 0  # tells a heap entry of an earlier snooze

    @property
    def partition(self) -> bytes:
        """The partition that it belongs to."""
        return self.queue[:8]
