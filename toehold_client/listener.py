"""A listener: called for each event of a crawl as it happens, in a thread of its own."""

import threading
from collections.abc import Callable
from typing import TypeAlias

from toehold.frontier.v1.frontier_pb2 import StateEventsResponse

from .events import Event
from .rpc.listeners import Hearing
from .rpc.streams import EventStream

Callback: TypeAlias = Callable[[Event], object]
"""Called with each event."""


class Listener(Hearing):
    """A listener on a crawl's events, called in a thread of its own; `CrawlController.listen` starts it.

    It ends with the stream of events (`CrawlController.follow`), with an error in the listener, or when it or
    the client is closed. A program can end without waiting for it.
    """

    def __init__(self, stream: EventStream, listener: Callback, first: StateEventsResponse) -> None:
        super().__init__(first)
        self._stream = stream
        self._listener = listener
        self._thread = threading.Thread(target=self._listen, name="toehold-listener", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether it has ended and has no error to raise."""
        return not self._thread.is_alive() and self._error is None

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits up to `timeout_s` until it has ended; whether it has.

        Raises its error, once: the listener's own, FrontierUnavailable or CursorTooOld.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self.raise_error()
        return True

    def close(self) -> None:
        """Stops calling the listener, and waits until it has returned, unless the listener itself closes it.

        Raises the errors of `join`. Closing again has no effect.
        """
        self._stream.close()
        if threading.current_thread() is not self._thread:
            self.join()

    def _listen(self) -> None:
        try:
            for message in self._stream:
                if message.HasField("event"):
                    self._listener(Event(message.event))
                self.note(message)
        except BaseException as error:  # `join` raises it
            self._error = error
        finally:
            self._stream.close()
