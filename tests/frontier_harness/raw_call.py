"""A gRPC call made of bytes: its metadata may be what no gRPC library would send."""

import socket

from .calls import TIMEOUT_S

_SETTINGS, _HEADERS, _DATA, _RESET = 4, 1, 0, 3
_END_HEADERS, _END_STREAM = 4, 1


def raw_call(address: str, path: str, message: bytes, *metadata: tuple[bytes, bytes]) -> None:
    """Call an RPC with one message, and wait until it has ended, however it does."""
    host, _, port = address.rpartition(":")
    headers = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path.encode()),
        (b":authority", address.encode()),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *metadata,
    ]
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, b"")
            + _frame(_HEADERS, _END_HEADERS, 1, b"".join(_header(*each) for each in headers))
            + _frame(_DATA, _END_STREAM, 1, b"\0" + len(message).to_bytes(4, "big") + message)
        )
        with connection.makefile("rb") as answer:
            while True:
                head = answer.read(9)
                assert len(head) == 9, "the connection ends before the call"
                kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
                answer.read(int.from_bytes(head[:3], "big"))
                if stream == 1 and (kind == _RESET or flags & _END_STREAM):
                    return


def _frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    """RFC 9113, 4.1."""
    return len(data).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + data


def _header(name: bytes, value: bytes) -> bytes:
    """RFC 7541, 6.2.2: literal, not indexed, not compressed."""
    return b"\0" + _length(name) + name + _length(value) + value


def _length(text: bytes) -> bytes:
    """RFC 7541, 5.1, with a prefix of 7 bits."""
    length = len(text)
    if length < 127:
        return bytes((length,))
    length -= 127
    found = [127]
    while length >= 128:
        found.append(length % 128 + 128)
        length //= 128
    return bytes((*found, length))
