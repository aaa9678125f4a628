"""Parts that listeners with threads and with tasks share."""

import threading
from typing import Generic, Protocol, TypeVar

from toehold.frontier.v1.frontier_pb2 import StateEventsResponse


class Hearing:
    """A listener's place in the events, and its error."""

    def __init__(self, first: StateEventsResponse) -> None:
        self._cursor = first.cursor
        self._error: BaseException | None = None

    @property
    def cursor(self) -> str:
        """The place after the last event that the listener has returned from, for `listen(…, cursor)`."""
        return self._cursor

    def note(self, message: StateEventsResponse) -> None:
        self._cursor = message.cursor or self._cursor

    def raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


class _Ending(Protocol):
    @property
    def over(self) -> bool: ...


_L = TypeVar("_L", bound=_Ending)


class Listeners(Generic[_L]):
    """The listeners of a controller that are not over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[_L] = []

    def add(self, listener: _L) -> _L:
        """Adds a listener; the same listener."""
        with self._lock:
            self._all = [each for each in self._all if not each.over] + [listener]
        return listener

    def take(self) -> list[_L]:
        """Removes all of them, and returns them."""
        with self._lock:
            taken, self._all = self._all, []
        return taken
