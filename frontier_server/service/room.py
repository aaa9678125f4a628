"""Room for requests: counts the bytes of those that wait or are worked on, and the calls that are open.

Requests beyond the limits are refused, with a hint when to try again. The limit of bytes never refuses small
messages, such as heartbeats.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ..shell.runner import TryLater

MIB = 1024 * 1024
SMALL_BYTES = 64 * 1024
MAX_BYTES = 64 * MIB  # of larger requests that are worked on; as many again of calls that wait
SHORT_BYTES = 1024  # of a waiting call's request; such a request is not counted
MAX_CALLS = 40_000  # open at once: each waits, or is a stream


class Room:
    """What a server's requests that are not answered yet may take."""

    def __init__(self) -> None:
        self.calls = 0
        """How many are open."""
        self._bytes = self._kept_bytes = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        if self.calls >= MAX_CALLS:
            raise TryLater(
                "OVERLOADED",
                f"{self.calls} calls are open, the most that can be ({MAX_CALLS}); try later",
                2_000,
            )
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1

    @contextmanager
    def worked_on(self, size: int) -> Iterator[None]:
        """Room for a message; decode it within."""
        if size <= SMALL_BYTES:
            size = 0
        elif self._bytes + size > MAX_BYTES:
            message = (
                f"no room for a request of {size} bytes while requests of {self._bytes} bytes are processed"
            )
            raise TryLater("OVERLOADED", message, 1_000)
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    @contextmanager
    def kept(self, size: int) -> Iterator[None]:
        """Room for a request that is kept as long as its caller waits."""
        if size <= SHORT_BYTES:
            size = 0
        elif self._kept_bytes + size > MAX_BYTES:
            message = f"no room for a request of {size} bytes while calls with {self._kept_bytes} bytes wait"
            raise TryLater("OVERLOADED", message, 1_000)
        self._kept_bytes += size
        try:
            yield
        finally:
            self._kept_bytes -= size
