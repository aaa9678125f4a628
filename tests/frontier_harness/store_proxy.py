"""What lies between a frontier and its object store: slow, silent or cut; and the store may refuse."""

import asyncio
from collections import Counter
from enum import Enum, auto
from typing import NamedTuple
from urllib.parse import urlsplit

from .loopback_proxy import LoopbackProxy

_ERROR = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{}</Code><Message>{}</Message></Error>"


class Fault(Enum):
    """What happens to a request."""

    NONE = auto()
    REFUSED = auto()
    """503, and no effect."""
    DENIED = auto()
    """403, and no effect: its credentials count no more."""
    FULL = auto()
    """507 for whatever takes room, and no effect."""
    CUT = auto()
    """Its connection is broken before it arrives."""
    SILENT = auto()
    """It vanishes, and nobody is told."""
    LOST = auto()
    """It takes effect; then its connection is broken."""


_REFUSALS = {
    Fault.REFUSED: ("503 Service Unavailable", "SlowDown", "Please reduce your request rate."),
    Fault.DENIED: ("403 Forbidden", "InvalidAccessKeyId", "The access key does not exist in our records."),
    Fault.FULL: ("507 Insufficient Storage", "XMinioStorageFull", "The backend has reached its free limit."),
}


class _Message(NamedTuple):
    first: str
    head: bytes  # with the first line, without that on the connection
    body: bytes
    length: int | None


class StoreProxy(LoopbackProxy):
    """A proxy of HTTP on loopback within a `with` block, in a thread of its own.

    Each answer takes `delay_s` longer. That may be changed at any time, and so may faults.
    """

    def __init__(self, target: str) -> None:
        super().__init__()
        parts = urlsplit(target)
        self._host, self._port = parts.hostname, parts.port
        self.delay_s = 0.0
        self._fault, self._every, self._below = Fault.NONE, 1, ""
        self._count = 0
        self.met: Counter[Fault] = Counter()
        """How many requests met which fault."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def become(self, fault: Fault, every: int = 1, below: str = "") -> None:
        """Let requests meet a fault from now on: of every so many the last, and only those whose URLs have
        `below` in them."""
        self._run(self._become(fault, every, below))

    async def _become(self, fault: Fault, every: int, below: str) -> None:
        self._fault, self._every, self._below = fault, every, below
        if fault in (Fault.CUT, Fault.SILENT):
            self._break_off()
        if fault is Fault.SILENT:
            self._goes_on.clear()
        else:
            self._goes_on.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while (request := await _received(reader)) is not None:
                if not await self._answered(request, writer):
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of both has gone
        finally:
            self._connections.discard(writer)
            writer.transport.abort()

    async def _answered(self, request: _Message, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; whether the connection stays."""
        fault = self._next_fault(request)
        self.met[fault] += 1
        if fault is Fault.SILENT:
            await self._goes_on.wait()  # the answer comes too late for anybody: a new connection is better
            return False
        if fault is Fault.CUT:
            return False
        if fault in _REFUSALS:
            status, code, message = _REFUSALS[fault]
            body = _ERROR.format(code, message).encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}"
            answer = head.encode() + b"\r\n\r\n" + body
        else:
            answer = await self._passed_on(request)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if fault is Fault.LOST:
            return False
        writer.write(answer)
        await writer.drain()
        return True

    def _next_fault(self, request: _Message) -> Fault:
        if self._below not in request.first:
            return Fault.NONE
        if self._fault is Fault.FULL and not request.first.startswith(("PUT", "POST")):
            return Fault.NONE
        self._count += 1
        return self._fault if self._count % self._every == 0 else Fault.NONE

    async def _passed_on(self, request: _Message) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(request.head + b"\r\nConnection: close\r\n\r\n" + request.body)
            answer = await _received(reader, request.first.startswith("HEAD"))
            if answer is None:
                raise ConnectionResetError
            length = len(answer.body) if answer.length is None else answer.length
            told = b"" if " 204 " in answer.first else f"\r\nContent-Length: {length}".encode()
            return answer.head + told + b"\r\n\r\n" + answer.body
        finally:
            writer.transport.abort()


async def _received(reader: asyncio.StreamReader, is_bare: bool = False) -> _Message | None:
    """A request or an answer; None if there is no more. A bare one has no body."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    kept, length, is_chunked = [first], None, False
    for line in lines:
        name, _, value = line.partition(":")
        match name.lower():
            case "content-length":
                length = int(value)
                if not first.startswith("HTTP/"):
                    kept.append(line)
            case "connection":
                pass  # each side has its own
            case "transfer-encoding":
                is_chunked = True
            case "expect":
                raise OSError("a proxy for tests knows no Expect")
            case _:
                kept.append(line)
    body = b""
    if is_bare or " 204 " in first or " 304 " in first:
        pass  # there is none
    elif is_chunked:
        body = await _chunks(reader)
        if not first.startswith("HTTP/"):
            kept.append(f"Content-Length: {len(body)}")
    elif length is not None:
        body = await reader.readexactly(length)
    elif first.startswith("HTTP/"):
        body = await reader.read()
    return _Message(first, "\r\n".join(kept).encode("latin-1"), body, length)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return body
