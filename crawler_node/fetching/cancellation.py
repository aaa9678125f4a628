"""Cancellation: cuts a fetch from another thread."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from .failure import FetchFailure


class Cancelled(FetchFailure):
    """The fetch was cut from another thread."""


class Cancellation:
    """Cuts one fetch from another thread, wherever it waits: for a name, a connection, or bytes.

    The caller makes one for each fetch. Cancelling before the fetch starts ends it when it does; after its
    end, cancelling does nothing.
    """

    __slots__ = ("_cancelled", "_cut", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._cut: Callable[[], None] | None = None

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._cut is not None:
                self._cut()

    def check(self) -> None:
        """Raises Cancelled after `cancel`."""
        if self._cancelled:
            raise Cancelled

    def watch(self, cut: Callable[[], None] | None) -> None:
        """Sets how to end the present wait; `cut` must not block. Raises Cancelled after `cancel`."""
        with self._lock:
            self._cut = cut
            if cut is not None:
                self.check()


def shut(sock: socket.socket) -> None:
    """Wakes the thread that waits at a socket, from another thread. Harmless on a socket that is gone."""
    with suppress(OSError):
        # The plain socket's method: the TLS one's would tear the session from under the reader.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
