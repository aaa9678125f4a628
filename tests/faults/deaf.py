"""A reader of events that does not read: HTTP/2 by hand, as gRPC's own clients read on their own account."""

import socket
import sys
from fcntl import ioctl
from termios import FIONREAD

from frontier_harness.raw_calls import whole_call

from toehold.frontier.v1.frontier_pb2 import StateEventsRequest

WINDOW_BYTES = 65_535
"""What an HTTP/2 connection, and each stream, may be sent before its receiver allows more (RFC 9113)."""

_EVENTS = "/toehold.frontier.v1.FrontierService/StateEvents"


class DeafReader:
    """Asks for a crawl's events from the first, and never reads an answer, nor allows more to be sent."""

    def __init__(self, address: str, crawl: str) -> None:
        host, _, port = address.rpartition(":")
        message = StateEventsRequest(crawl=crawl, cursor="start").SerializeToString()
        self._socket = socket.create_connection((host, int(port)))
        self._socket.sendall(whole_call(address, _EVENTS, message))

    @property
    def unread_bytes(self) -> int:
        """How much waits to be read."""
        return int.from_bytes(ioctl(self._socket, FIONREAD, b"\0" * 4), sys.byteorder)

    def close(self) -> None:
        """Goes."""
        self._socket.close()
