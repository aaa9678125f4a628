"""One call: the messages that have arrived, and those that are to be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grpc import StatusCode

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
MAX_UNREAD_BYTES = 1024 * 1024
"""A client may send more than this only once the call has read."""

_PREFIX_BYTES = 5
_MAX_UNSENT_BYTES = 256 * 1024


class Aborted(Exception):
    """The call ends with a status other than OK."""

    def __init__(self, message: str, code: StatusCode) -> None:
        super().__init__(message)
        self.code = code


class Call:
    """A stream of HTTP/2 as a gRPC call. `read` and `write` serve it; the rest is for its connection.

    `send` asks the connection to send soon; `acknowledge` opens the client's window by so many bytes.
    """

    task: asyncio.Task[None]

    def __init__(
        self, stream: int, send: Callable[[Call], None], acknowledge: Callable[[int, int], None]
    ) -> None:
        self.stream = stream
        self.unsent = bytearray()
        self.has_begun = False  # its headers are sent
        self.has_all = False  # the client sends no more
        self.unacknowledged_bytes = 0
        self._send, self._acknowledge = send, acknowledge
        self._partial = bytearray()
        self._messages: list[bytes] = []
        self._unread_bytes = 0
        self._fault: Aborted | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    async def read(self) -> list[bytes]:
        """All messages that have arrived, once there are any; none at the end. Raises Aborted."""
        while not self._messages:
            if self._fault is not None:
                raise self._fault
            if self.has_all:
                if self._partial:
                    raise Aborted("the stream ends within a message", StatusCode.INTERNAL)
                return []
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        messages, self._messages, self._unread_bytes = self._messages, [], 0
        self._open_window()
        return messages

    async def write(self, *messages: bytes) -> None:
        """Sends messages. Waits while the client leaves too much unsent."""
        for message in messages:
            self.unsent += b"\0" + len(message).to_bytes(4, "big")
            self.unsent += message
        self._send(self)
        await self.sent(_MAX_UNSENT_BYTES)

    async def sent(self, most_unsent_bytes: int = 0) -> None:
        """Waits until all is sent, or all but so much."""
        while len(self.unsent) > most_unsent_bytes:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def receive(self, data: bytes, flow_bytes: int) -> None:
        """Takes data of the client, which used up so much of its window."""
        self.unacknowledged_bytes += flow_bytes
        if self._fault is None:
            self._partial += data
            self._cut()
            _wake(self._reader)
        if self._unread_bytes < MAX_UNREAD_BYTES:
            self._open_window()

    def end(self) -> None:
        """The client sends no more."""
        self.has_all = True
        _wake(self._reader)

    def has_sent(self) -> None:
        """Something of `unsent` is sent."""
        _wake(self._writer)

    def _cut(self) -> None:
        """Moves the whole messages out of the data."""
        partial, at = self._partial, 0
        while len(partial) - at >= _PREFIX_BYTES:
            length = int.from_bytes(partial[at + 1 : at + _PREFIX_BYTES], "big")
            self._fault = _fault(partial[at], length)
            end = at + _PREFIX_BYTES + length
            if self._fault is not None or len(partial) < end:
                break
            self._messages.append(bytes(partial[at + _PREFIX_BYTES : end]))
            at = end
        del partial[:at]
        self._unread_bytes += at

    def _open_window(self) -> None:
        given, self.unacknowledged_bytes = self.unacknowledged_bytes, 0
        if given:
            self._acknowledge(given, self.stream)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _fault(compressed: int, length: int) -> Aborted | None:
    if compressed:
        return Aborted("messages must not be compressed", StatusCode.UNIMPLEMENTED)
    if length > MAX_MESSAGE_BYTES:
        return Aborted(
            f"a message must have at most {MAX_MESSAGE_BYTES} bytes, got {length}",
            StatusCode.RESOURCE_EXHAUSTED,
        )
    return None
