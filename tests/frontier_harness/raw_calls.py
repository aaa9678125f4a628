"""A client that sends HTTP/2's frames as it likes, valid or not."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import IntEnum

import hpack

from .waiting import PATIENCE_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_HEAD_BYTES = 9


class Kind(IntEnum):
    """Kinds of frames (RFC 9113, 6)."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


@dataclass
class Answer:
    """What came of one stream."""

    data: bytearray = field(default_factory=bytearray)
    headers: dict[str, str] = field(default_factory=dict)
    reset: int | None = None

    @property
    def messages(self) -> list[bytes]:
        """The whole messages."""
        found, at = [], 0
        while at < len(self.data):
            end = at + 5 + int.from_bytes(self.data[at + 1 : at + 5], "big")
            found.append(bytes(self.data[at + 5 : end]))
            at = end
        return found

    @property
    def status(self) -> int:
        """gRPC's status."""
        return int(self.headers["grpc-status"])


class RawClient:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        self.answers: dict[int, Answer] = {}
        self.credit: dict[int, int] = {}
        self.gone_away: int | None = None

    def send(self, *frames: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(b"".join(frames))

    def block(self, path: str, more: Mapping[str, str] | None = None) -> bytes:
        """The headers of a call."""
        headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "test"}
        found: bytes = self._encoder.encode([*headers.items(), *(more or {}).items()])
        return found

    def call(self, stream: int, path: str, *messages: bytes, more: Mapping[str, str] | None = None) -> None:
        """Make a whole call, in frames of at most 16 KiB."""
        self.send(frame(Kind.HEADERS, END_HEADERS, stream, self.block(path, more)))
        text = b"".join(map(framed, messages))
        for at in range(0, len(text), 16_384):
            self.send(frame(Kind.DATA, 0, stream, text[at : at + 16_384]))
        self.send(frame(Kind.DATA, END_STREAM, stream, b""))

    async def until_end(self, stream: int) -> Answer:
        """The answer of a stream, once it has ended or was reset."""
        while not (
            (answer := self.answers.get(stream)) and ("grpc-status" in answer.headers or answer.reset)
        ):
            await self.take()
        return answer

    async def take(self) -> Kind:
        """Take the next frame. Raises IncompleteReadError at the end of the connection."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self._reader.readexactly(_HEAD_BYTES)
            payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        if kind == Kind.DATA:
            self.answers.setdefault(stream, Answer()).data += payload
        elif kind == Kind.HEADERS:
            headers = {str(name): str(value) for name, value in self._decoder.decode(payload)}
            self.answers.setdefault(stream, Answer()).headers.update(headers)
        elif kind == Kind.RST_STREAM:
            self.answers.setdefault(stream, Answer()).reset = int.from_bytes(payload, "big")
        elif kind == Kind.WINDOW_UPDATE:
            self.credit[stream] = self.credit.get(stream, 0) + int.from_bytes(payload, "big")
        elif kind == Kind.GOAWAY:
            self.gone_away = int.from_bytes(payload[4:8], "big")
        elif kind == Kind.SETTINGS and not flags & ACK:
            self.send(frame(Kind.SETTINGS, ACK, 0, b""))
        return Kind(kind)

    async def settled(self) -> None:
        """Wait until the server has taken all that was sent."""
        self.send(frame(Kind.PING, 0, 0, b"8 bytes."))
        while await self.take() != Kind.PING:
            pass

    async def until_closed(self) -> int | None:
        """The error code that the server closed the connection with."""
        try:
            while True:
                await self.take()
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return self.gone_away


@asynccontextmanager
async def raw_client(port: int, preface: bytes = PREFACE, settings: bytes = b"") -> AsyncIterator[RawClient]:
    """A connection to a server on loopback."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = RawClient(reader, writer)
    client.send(preface)
    if preface == PREFACE:
        client.send(frame(Kind.SETTINGS, 0, 0, settings))
    try:
        yield client
    finally:
        writer.close()


def framed(message: bytes) -> bytes:
    """A message as gRPC sends it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def frame(kind: Kind, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def setting(name: int, value: int) -> bytes:
    """A setting, as SETTINGS has it."""
    return struct.pack(">HI", name, value)
