"""Watches of a node's health: anybody may begin one, and each takes memory as long as it stays."""

import threading
from collections import Counter

import grpc

MAX_WATCHES, MAX_WATCHES_OF_CONNECTION = 100, 8


class TooManyWatches(Exception):
    """The caller's connection has as many watches as it may."""

    reason = "OVERLOADED"
    retry_ms = 1_000


class Watches:
    """Those that are open. Beyond the most, the oldest gives way to a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[grpc.ServicerContext, str] = {}  # with their connections, the oldest first
        self._of_connection: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, context: grpc.ServicerContext) -> None:
        """Let a watch in. Raises TooManyWatches."""
        connection, oldest = context.peer(), None
        with self._lock:
            if self._of_connection[connection] >= MAX_WATCHES_OF_CONNECTION:
                raise TooManyWatches(
                    f"a connection may have {MAX_WATCHES_OF_CONNECTION} watches, and this one has as many"
                )
            if len(self._open) >= MAX_WATCHES:
                oldest = next(iter(self._open))
                self._forget(oldest)
            self._open[context] = connection
            self._of_connection[connection] += 1
        if oldest is not None:
            oldest.cancel()
        if not context.add_callback(lambda: self._ended(context)):  # it has ended already
            self._ended(context)

    def _ended(self, context: grpc.ServicerContext) -> None:
        with self._lock:
            self._forget(context)

    def _forget(self, context: grpc.ServicerContext) -> None:
        connection = self._open.pop(context, None)
        if connection is not None:
            self._of_connection[connection] -= 1
            if not self._of_connection[connection]:
                del self._of_connection[connection]
