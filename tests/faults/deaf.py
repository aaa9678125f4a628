"""A reader of events that does not read: HTTP/2 by hand, as gRPC's own clients read on their own account."""

from __future__ import annotations

import socket
import struct
from fcntl import ioctl
from termios import FIONREAD

from toehold.frontier.v1.frontier_pb2 import StateEventsRequest

WINDOW_BYTES = 65_535
"""What an HTTP/2 connection, and each stream, may be sent before its receiver allows more (RFC 9113)."""

DATA, HEADERS, SETTINGS = 0, 1, 4
ACK = END_STREAM = 1
END_HEADERS = 4


class DeafReader:
    """Asks for a crawl's events from the first, and never reads an answer, nor allows more to be sent."""

    def __init__(self, address: str, crawl: str) -> None:
        host, _, port = address.rpartition(":")
        message = StateEventsRequest(crawl=crawl, cursor="start").SerializeToString()
        self._socket = socket.create_connection((host, int(port)))
        self._socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(SETTINGS, 0, 0, b"")
            + _frame(SETTINGS, ACK, 0, b"")  # of those that the server begins with
            + _frame(HEADERS, END_HEADERS, 1, _head(address))
            + _frame(DATA, END_STREAM, 1, struct.pack(">BI", 0, len(message)) + message)
        )

    @property
    def unread_bytes(self) -> int:
        """How much waits to be read."""
        return struct.unpack("i", ioctl(self._socket, FIONREAD, b"\0" * 4))[0]  # type: ignore[no-any-return]

    def close(self) -> None:
        """Goes."""
        self._socket.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _head(address: str) -> bytes:
    """The request's header fields, in HPACK without compression (RFC 7541)."""
    return (
        b"\x83\x86"  # :method POST, :scheme http
        + b"\x04" + _text("/toehold.frontier.v1.FrontierService/StateEvents")  # :path
        + b"\x01" + _text(address)  # :authority
        + b"\x0f\x10" + _text("application/grpc")  # content-type
        + b"\x00" + _text("te") + _text("trailers")
    )  # fmt: skip


def _text(text: str) -> bytes:
    assert len(text) < 127  # more would need more than one byte
    return bytes([len(text)]) + text.encode()
