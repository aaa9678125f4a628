"""Messages that come in: each in its time, batches a few at a time, few streams of URIs and seeds at once.

A message that is being received takes its bytes already, and its sender may never finish it.
"""

import asyncio
import math
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from toehold_base.serving.places import Places

from ..core.rows.errors import InvalidRequest
from ..shell.runner import TryLater
from .answers import Context

MAX_RECEIVING, RECEIVE_S = 8, 20.0  # batches received at once, and the time that each message may take
HURRIED_S = 2.0  # the time that a batch may take while others wait for its place
MAX_STREAMS = 8  # of URIs and seeds, at once

_T = TypeVar("_T")


class Incoming:
    """The batches and streams that are being received."""

    def __init__(self) -> None:
        self.places = Places(MAX_RECEIVING, HURRIED_S)
        self.streams: set[Stream] = set()

    async def batch(self, context: Context) -> bytes:
        """The message of a batch, received when its turn comes."""
        with _late():
            async with self.places.one(context.peer, RECEIVE_S):
                return await _message(context)

    @contextmanager
    def stream(self) -> Iterator["Stream"]:
        """A place for a stream, which may be that of one that gives way. Raises TryLater if none does."""
        if len(self.streams) >= MAX_STREAMS:
            silent = min(self.streams, key=lambda stream: stream.silent_since_s)
            if not silent.gives_way():
                message = f"{MAX_STREAMS} streams of URIs are open, the most that can be; try later"
                raise TryLater("OVERLOADED", message, 2_000)
            self.streams.discard(silent)
        stream = Stream()
        self.streams.add(stream)
        try:
            yield stream
        finally:
            self.streams.discard(stream)


class Stream:
    """A stream that comes in. If another stream needs its place, and its caller has sent nothing for long, or
    more than it may, it gives way: it might never end."""

    def __init__(self) -> None:
        self._patience: asyncio.Timeout | None = None
        self.silent_since_s = math.inf
        """When its caller's turn began, on the event loop's clock; infinite while it is the server's turn."""

    async def received(self, context: Context) -> list[bytes]:
        """Its next message, alone in a list; an empty list at its end. Raises TryLater if it gives way."""
        data = await self.waited_for(context.read())
        return [data] if isinstance(data, bytes) else []

    async def waited_for(self, due: Awaitable[_T]) -> _T:
        """The result of something that is its caller's turn. Raises TryLater if it gives way meanwhile."""
        try:
            async with asyncio.timeout(None) as self._patience:
                self.silent_since_s = asyncio.get_running_loop().time()
                return await due
        except TimeoutError:
            message = f"the stream has not gone on for {RECEIVE_S:g} s, and another stream needs its place"
            raise TryLater("OVERLOADED", message, 2_000) from None
        finally:
            self._patience, self.silent_since_s = None, math.inf

    def gives_way(self) -> bool:
        """Give way if it has been silent for long enough; whether it does."""
        now_s = asyncio.get_running_loop().time()
        if self._patience is None or now_s - self.silent_since_s < RECEIVE_S:
            return False
        self._patience.reschedule(now_s)
        return True


async def received(context: Context) -> bytes:
    """The one message of a call."""
    with _late():
        async with asyncio.timeout(RECEIVE_S):
            return await _message(context)


async def _message(context: Context) -> bytes:
    data = await context.read()  # an iterator would keep it
    if not isinstance(data, bytes):
        raise InvalidRequest("the call ended without a message; it must send one", field="")
    return data


@contextmanager
def _late() -> Iterator[None]:
    """Raises TryLater for a message that does not come in time."""
    try:
        yield
    except TimeoutError:
        message = f"the request did not arrive within {RECEIVE_S:g} s; it is slow, or too many arrive"
        raise TryLater("OVERLOADED", message, 1_000) from None
