"""The figures of docs/fetchers.md about keepalive: how often a client may ping."""

import socket
from typing import BinaryIO

from frontier_harness.calls import TIMEOUT_S
from frontier_harness.process import ServerProcess

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY, ACK = 4, 6, 7, 1
ENHANCE_YOUR_CALM = 11  # RFC 9113, 7


def frame(kind: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """A frame of no stream (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + bytes(4) + payload


def until(answer: BinaryIO, *wanted: tuple[int, int]) -> tuple[int, bytes]:
    """The next frame of one of these kinds and flags: its kind and payload."""
    while True:
        head = answer.read(9)
        assert len(head) == 9, "the connection ended"
        payload = answer.read(int.from_bytes(head[:3], "big"))
        if (head[3], head[4]) in wanted:
            return head[3], payload


def test_the_fourth_ping_in_a_row_that_comes_too_early_ends_the_connection(server: ServerProcess) -> None:
    host, _, port = server.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), TIMEOUT_S) as connection,
        connection.makefile("rb") as answer,
    ):
        connection.sendall(PREFACE + frame(SETTINGS) + frame(SETTINGS, flags=ACK))
        until(answer, (SETTINGS, ACK))
        for _ in range(3):
            connection.sendall(frame(PING, b"8 bytes."))
            assert until(answer, (PING, ACK), (GOAWAY, 0))[0] == PING
        connection.sendall(frame(PING, b"8 bytes."))
        _, payload = until(answer, (GOAWAY, 0))
        assert int.from_bytes(payload[4:8], "big") == ENHANCE_YOUR_CALM
        assert payload[8:] == b"too_many_pings"
        assert answer.read() == b"", "the connection goes on"
