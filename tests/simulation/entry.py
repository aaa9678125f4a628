"""One operation, as it goes into the books; and a call that waits for leases."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulation.calls import Call

from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.rows.store import Changes
from frontier_server.core.state.model import EmptyReason

Reply = Callable[[Any], None]


class Violated(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Entry:
    """An operation. It counts once it is flushed, when its answer leaves; or if it outlives a crash."""

    now_ms: int
    present_ms: int  # how long the frontier has been able to answer so far, all in all
    call: Call
    answer: Any  # or the FrontierError that refused it
    changes: Changes

    @property
    def refused(self) -> bool:
        """Whether it was refused."""
        return isinstance(self.answer, FrontierError)


@dataclass(slots=True)
class Waiter:
    """A call for leases that waits."""

    call: Call
    reply: Reply
    end_ms: int
    first: EmptyReason | None
    begin_ms: int


def demand(holds: object, promise: str) -> None:
    """Raise Violated unless something holds."""
    if not holds:
        raise Violated(promise)
