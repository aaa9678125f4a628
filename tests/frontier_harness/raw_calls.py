"""gRPC calls made of HTTP/2's frames, valid or not, with metadata that no gRPC library would send."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import IntEnum

import hpack

from .waiting import PATIENCE_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
HEAD_BYTES = 9


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


class SettingCodes(IntEnum):
    """Settings of a connection (RFC 9113, 6.5.2)."""

    ENABLE_PUSH = 2
    INITIAL_WINDOW_SIZE = 4


class ErrorCodes(IntEnum):
    """Why a stream or a connection ends (RFC 9113, 7)."""

    CANCEL = 8
    ENHANCE_YOUR_CALM = 11


@dataclass
class Answer:
    """What came of one stream."""

    data: bytearray = field(default_factory=bytearray)
    headers: dict[str, str] = field(default_factory=dict)
    reset: int | None = None

    @property
    def messages(self) -> list[bytes]:
        """The whole messages."""
        return messages_off(self.data.copy())

    @property
    def status(self) -> int:
        """gRPC's status."""
        return int(self.headers["grpc-status"])


class RawClient:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        assert isinstance(writer.transport, asyncio.Transport)
        self._transport = writer.transport
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        self.answers: dict[int, Answer] = {}
        self.credit: dict[int, int] = {}
        self.gone_away: int | None = None
        self.farewell = b""

    def send(self, *frames: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(b"".join(frames))

    def pause(self) -> None:
        """Take nothing from the network, not even into a buffer."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Take from the network again."""
        self._transport.resume_reading()

    def block(self, path: str, more: Mapping[str, str] | None = None) -> bytes:
        """The headers of a call."""
        return header_block(self._encoder, path, "test", (more or {}).items())

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
            length, kind, flags, stream = frame_head(await self._reader.readexactly(HEAD_BYTES))
            payload = await self._reader.readexactly(length)
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
            self.gone_away, self.farewell = int.from_bytes(payload[4:8], "big"), payload[8:]
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


def raw_call(address: str, path: str, message: bytes, *metadata: tuple[bytes, bytes]) -> None:
    """Call an RPC with one message, and wait until it has ended, however it does."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall(whole_call(address, path, message, *metadata))
        with connection.makefile("rb") as answer:
            while True:
                head = answer.read(HEAD_BYTES)
                assert len(head) == HEAD_BYTES, "the connection ends before the call"
                length, kind, flags, stream = frame_head(head)
                answer.read(length)
                if stream == 1 and (kind == Kind.RST_STREAM or flags & END_STREAM):
                    return


def whole_call(address: str, path: str, message: bytes, *metadata: tuple[bytes, bytes]) -> bytes:
    """All that the client of a connection with one call sends."""
    return (
        PREFACE
        + frame(Kind.SETTINGS, 0, 0, b"")
        + frame(Kind.SETTINGS, ACK, 0, b"")  # of those that the server begins with
        + frame(Kind.HEADERS, END_HEADERS, 1, header_block(hpack.Encoder(), path, address, metadata))
        + frame(Kind.DATA, END_STREAM, 1, framed(message))
    )


def header_block(
    encoder: hpack.Encoder, path: str, authority: str, more: Iterable[tuple[str | bytes, str | bytes]] = ()
) -> bytes:
    """The headers of a call."""
    headers = (
        *((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", authority)),
        *(("te", "trailers"), ("content-type", "application/grpc")),
        *more,
    )
    found: bytes = encoder.encode(headers)
    return found


def framed(message: bytes) -> bytes:
    """A message as gRPC sends it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def messages_off(data: bytearray) -> list[bytes]:
    """Takes the whole messages off what has come."""
    found, at = [], 0
    while len(data) - at >= 5:
        end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
        if len(data) < end:
            break
        found.append(bytes(data[at + 5 : end]))
        at = end
    del data[:at]
    return found


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def frame_head(head: bytes | bytearray) -> tuple[int, int, int, int]:
    """A frame's length, kind, flags and stream."""
    return int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big") & 2**31 - 1


def setting(name: int, value: int) -> bytes:
    """A setting, as SETTINGS has it."""
    return struct.pack(">HI", name, value)
