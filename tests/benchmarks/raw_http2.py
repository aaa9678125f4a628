"""As much of HTTP/2 as a gRPC client needs whose messages are made beforehand.

It costs a few µs a message, where grpcio costs some fifty: on a machine with few processors, that would be a
part of what is measured.
"""

import select
import socket
import struct
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Self

import hpack
from frontier_harness.raw_calls import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEAD_BYTES,
    PREFACE,
    Kind,
    SettingCodes,
    frame,
    frame_head,
    framed,
    header_block,
    messages_off,
    setting,
)

PAYLOAD_BYTES = 16_384
_WINDOW, _MOST = 65_535, 2**31 - 1
_STUCK_S = 120.0
_BUFFER_BYTES = 262_144


class Stream:
    """A call of its connection."""

    def __init__(self, number: int, window: int) -> None:
        self.number, self.window = number, window
        self.data = bytearray()
        self.ended = False


class Connection:
    """A connection to a server on loopback, within a `with` block; for one thread."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._in, self._out = bytearray(), bytearray(PREFACE)
        self._encoder = hpack.Encoder()
        self._next = 1
        self._window = self._stream_window = _WINDOW
        self._streams: dict[int, Stream] = {}
        settings = setting(SettingCodes.ENABLE_PUSH, 0) + setting(SettingCodes.INITIAL_WINDOW_SIZE, _MOST)
        self._frame(Kind.SETTINGS, 0, 0, settings)
        self._frame(Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", _MOST - _WINDOW))
        self._settled = False
        while not self._settled:
            self._turn()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def open(self, path: str) -> Stream:
        """Begin a call."""
        stream = Stream(self._next, self._stream_window)
        self._next += 2
        self._streams[stream.number] = stream
        block = header_block(self._encoder, path, self._address)
        self._frame(Kind.HEADERS, END_HEADERS, stream.number, block)
        return stream

    def exchange(self, stream: Stream, payloads: "deque[bytes]", count: int) -> list[bytes]:
        """Send payloads, and wait for so many answers."""
        answers: list[bytes] = []
        while len(answers) < count:
            while payloads and len(self._out) < _BUFFER_BYTES:
                size = len(payloads[0])
                if size > self._window or size > stream.window:
                    break
                self._window -= size
                stream.window -= size
                self._frame(Kind.DATA, 0, stream.number, payloads.popleft())
            self._turn()
            answers += messages_off(stream.data)
            if stream.ended and len(answers) < count:
                raise RuntimeError(f"the stream ended after {len(answers)} of {count} answers")
        return answers

    def finish(self, stream: Stream, message: bytes | None = None) -> list[bytes]:
        """Send a last message, if any, and wait for the end; the answers that came."""
        text = b"" if message is None else framed(message)
        self._window -= len(text)
        self._frame(Kind.DATA, END_STREAM, stream.number, text)
        while not stream.ended:
            self._turn()
        del self._streams[stream.number]
        return messages_off(stream.data)

    def _turn(self) -> None:
        """Write what can be written; wait for something, and take it."""
        if self._out:
            with suppress(BlockingIOError):
                del self._out[: self._socket.send(self._out)]
        wanted = [self._socket] if self._out else []
        readable, writable, _ = select.select([self._socket], wanted, [], _STUCK_S)
        if not readable:
            if not writable:
                raise RuntimeError(f"nothing happened for {_STUCK_S} s")
            return
        found = self._socket.recv(_BUFFER_BYTES)
        if not found:
            raise RuntimeError("the server closed the connection")
        self._in += found
        start = 0
        while len(self._in) - start >= HEAD_BYTES:
            at = start + HEAD_BYTES
            length, kind, flags, number = frame_head(self._in[start:at])
            if len(self._in) < at + length:
                break
            start = at + length
            self._take(kind, flags, number, bytes(self._in[at:start]))
        del self._in[:start]

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if kind in (Kind.DATA, Kind.HEADERS) and stream is not None:
            if kind == Kind.DATA:
                stream.data += payload
            stream.ended = stream.ended or bool(flags & END_STREAM)
        elif kind == Kind.SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == SettingCodes.INITIAL_WINDOW_SIZE:
                    for other in self._streams.values():
                        other.window += value - self._stream_window
                    self._stream_window = value
            self._frame(Kind.SETTINGS, ACK, 0, b"")
            self._settled = True
        elif kind == Kind.PING and not flags & ACK:
            self._frame(Kind.PING, ACK, 0, payload)
        elif kind == Kind.WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if stream is not None:
                stream.window += more
            elif number == 0:
                self._window += more
        elif kind in (Kind.RST_STREAM, Kind.GOAWAY):
            raise RuntimeError(f"the server gave up: frame {kind}, {payload!r}")

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        self._out += frame(kind, flags, number, payload)


def packed(items: Iterable[bytes]) -> "deque[bytes]":
    """Messages as payloads of DATA frames."""
    text = b"".join(map(framed, items))
    return deque(text[at : at + PAYLOAD_BYTES] for at in range(0, len(text), PAYLOAD_BYTES))
