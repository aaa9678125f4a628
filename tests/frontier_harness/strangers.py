"""Strangers: they reach a program's port, have no credentials, and mean no good."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import hpack

from .raw_calls import ACK, END_HEADERS, PREFACE, ErrorCodes, Kind, frame, header_block

SETTLED = PREFACE + frame(Kind.SETTINGS, 0, 0, b"") + frame(Kind.SETTINGS, ACK, 0, b"")
"""All that a client says before its first call."""

KINDS = {
    "silent": b"",
    "half a preface": PREFACE[:10],
    "a preface": PREFACE,
    "half a frame": PREFACE + frame(Kind.SETTINGS, 0, 0, b"")[:5],
    "HTTP/1.1": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "half of a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "settled": SETTLED,
}
"""What they say before they fall silent."""

CANCEL = ErrorCodes.CANCEL.to_bytes(4, "big")
CALLS_A_WRITE = 200


class Connections:
    """So many connections that fall silent."""

    def __init__(self, address: str, count: int, said: bytes) -> None:
        host, _, port = address.rpartition(":")
        self._place, self._said = (host.strip("[]"), int(port)), said
        self.open: list[socket.socket] = []
        for _ in range(count):
            self._one()

    def _one(self) -> None:
        with suppress(OSError):  # closed at once, perhaps
            made = socket.create_connection(self._place, 10)
            self.open.append(made)
            made.sendall(self._said)
            made.setblocking(False)

    def left(self) -> int:
        """How many the server has not closed."""
        for each in list(self.open):
            try:
                while data := each.recv(65536):
                    del data
            except BlockingIOError:
                continue
            except OSError:
                pass
            each.close()
            self.open.remove(each)
        return len(self.open)

    def close(self) -> None:
        """Close all."""
        for each in self.open:
            each.close()


@contextmanager
def connections(address: str, count: int, said: bytes = b"") -> Iterator[Connections]:
    """Connections that are there within the block, unless the server closes them."""
    made = Connections(address, count, said)
    try:
        yield made
    finally:
        made.close()


def unfinished_calls(path: str, calls: int, data: bytes) -> bytes:
    """All that a client says which begins calls, sends this much of each one's request, and no more."""
    encoder = hpack.Encoder()
    said = bytearray(SETTLED)
    for number in range(calls):
        stream = 2 * number + 1
        said += frame(Kind.HEADERS, END_HEADERS, stream, header_block(encoder, path, "x"))
        said += frame(Kind.DATA, 0, stream, data)
    return bytes(said)


def flood(address: str, path: str, seconds: float, kind: str = "resets") -> int:
    """Send as fast as the server takes it, on one connection: calls that are reset at once, or pings, or
    settings, or empty frames. How many; the server may have closed the connection before the end."""
    host, _, port = address.rpartition(":")
    encoder, sent, stream = hpack.Encoder(), 0, 1
    until_s = time.monotonic() + seconds
    with socket.create_connection((host, int(port)), 10) as made, suppress(OSError):
        made.sendall(SETTLED)
        reading = threading.Thread(target=_read_all, args=(made,), daemon=True)
        reading.start()
        while time.monotonic() < until_s:
            said = bytearray()
            for _ in range(CALLS_A_WRITE):
                if kind == "resets":
                    said += frame(Kind.HEADERS, END_HEADERS, stream, header_block(encoder, path, "x"))
                    said += frame(Kind.RST_STREAM, 0, stream, CANCEL)
                    stream += 2
                elif kind == "pings":
                    said += frame(Kind.PING, 0, 0, b"8 bytes.")
                elif kind == "settings":
                    said += frame(Kind.SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535))
                else:
                    said += frame(Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))
            made.sendall(said)
            sent += CALLS_A_WRITE
    return sent


def _read_all(made: socket.socket) -> None:
    with suppress(OSError):
        while made.recv(65536):
            pass
