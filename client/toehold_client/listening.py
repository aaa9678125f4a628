"""A listener: called for each event of a crawl as it happens, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from toehold.frontier.v1.crawl_pb2 import Event
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse

from .rpc.listeners import Hearing
from .rpc.streams import EventStream

Callback: TypeAlias = Callable[[Event], object]
"""Called with each event."""


class Listener(Hearing):
    """A listener on a crawl's events, called in a thread of its own; `CrawlController.listen` starts it.

    It ends when the stream of events does (`CrawlController.follow`), when the listener raises, when it is
    closed, and when the client is. A program that ends does not wait for it.
    """

    def __init__(self, stream: EventStream, listener: Callback, first: StateEventsResponse) -> None:
        super().__init__(first)
        self._stream = stream
        self._listener = listener
        self._thread = threading.Thread(target=self._hear, name="toehold-listener", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """It has ended, and there is no error to be raised."""
        return not self._thread.is_alive() and self._error is None

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits until it has ended, at most `timeout_s`; whether it has.

        Raises what it ended with, once: what the listener raised, FrontierUnavailable, CursorTooOld.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self.raise_error()
        return True

    def close(self) -> None:
        """Calls the listener no more. Waits until it has returned, unless it is the listener that closes.

        Raises as `join` does. Closing again does nothing.
        """
        self._stream.close()
        if threading.current_thread() is not self._thread:
            self.join()

    def _hear(self) -> None:
        try:
            for message in self._stream:
                if message.HasField("event"):
                    self._listener(message.event)
                self.heard(message)
        except BaseException as error:  # whatever it is, `join` raises it
            self._error = error
        finally:
            self._stream.close()
