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

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
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
        self._in, self._out = bytearray(), bytearray(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self._next = 1
        self._window = self._stream_window = _WINDOW
        self._streams: dict[int, Stream] = {}
        self._frame(SETTINGS, 0, 0, struct.pack(">HIHI", 2, 0, 4, _MOST))
        self._frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", _MOST - _WINDOW))
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
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", self._address),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        )
        self._frame(HEADERS, END_HEADERS, stream.number, b"".join(map(_literal, *zip(*headers, strict=True))))
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
                self._frame(DATA, 0, stream.number, payloads.popleft())
            self._turn()
            answers += messages(stream.data)
            if stream.ended and len(answers) < count:
                raise RuntimeError(f"the stream ended after {len(answers)} of {count} answers")
        return answers

    def finish(self, stream: Stream, message: bytes | None = None) -> list[bytes]:
        """Send a last message, if any, and wait for the end; the answers that came."""
        text = b"" if message is None else framed(message)
        self._window -= len(text)
        self._frame(DATA, END_STREAM, stream.number, text)
        while not stream.ended:
            self._turn()
        del self._streams[stream.number]
        return messages(stream.data)

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
        while len(self._in) - start >= 9:
            end = start + 9 + int.from_bytes(self._in[start : start + 3], "big")
            if len(self._in) < end:
                break
            kind, flags = self._in[start + 3], self._in[start + 4]
            number = int.from_bytes(self._in[start + 5 : start + 9], "big") & _MOST
            self._take(kind, flags, number, bytes(self._in[start + 9 : end]))
            start = end
        del self._in[:start]

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if kind in (DATA, HEADERS) and stream is not None:
            if kind == DATA:
                stream.data += payload
            stream.ended = stream.ended or bool(flags & END_STREAM)
        elif kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == 4:
                    for other in self._streams.values():
                        other.window += value - self._stream_window
                    self._stream_window = value
            self._frame(SETTINGS, ACK, 0, b"")
            self._settled = True
        elif kind == PING and not flags & ACK:
            self._frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if stream is not None:
                stream.window += more
            elif number == 0:
                self._window += more
        elif kind in (RST_STREAM, GOAWAY):
            raise RuntimeError(f"the server gave up: frame {kind}, {payload!r}")

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        self._out += len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, number) + payload


def framed(message: bytes) -> bytes:
    """A message as gRPC sends it."""
    return b"\0" + struct.pack(">I", len(message)) + message


def packed(items: Iterable[bytes]) -> "deque[bytes]":
    """Messages as payloads of DATA frames."""
    text = b"".join(map(framed, items))
    return deque(text[at : at + PAYLOAD_BYTES] for at in range(0, len(text), PAYLOAD_BYTES))


def messages(data: bytearray) -> list[bytes]:
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


def _literal(name: str, value: str) -> bytes:
    """A header of a request, as HPACK writes it without a table (RFC 7541, 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
