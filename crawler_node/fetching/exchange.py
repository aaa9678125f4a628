"""One request over a connection, and the answer to it, by h11 (HTTP/1.1)."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import h11

from .connection import Stream, WriteFailed

MAX_EVENT_BYTES = 100 * 1024
"""Most of a head, or of a chunk's, that is kept until it is complete."""

Header = tuple[bytes, bytes]

GET, CONNECT = b"GET", b"CONNECT"


class Unsendable(Exception):
    """A request that would not be the one it says it is: with a line end in a header, say."""


@dataclass(slots=True)
class Answer:
    """The head of an answer, as it was sent, and the way to its body."""

    status: int
    version: bytes  # such as HTTP/1.1
    reason: bytes
    headers: list[Header]
    _machine: h11.Connection = field(repr=False)
    _stream: Stream = field(repr=False)

    def body(self) -> Iterator[bytes]:
        """The body as it is read, without its chunks. Raises the errors of `ask`."""
        while type(event := _next_event(self._machine, self._stream)) is h11.Data:
            yield bytes(event.data)


def ask(stream: Stream, method: bytes, target: bytes, headers: Sequence[Header]) -> Answer:
    """Sends a request without body, and reads the head of its answer; interim ones are passed over.

    Raises Unsendable, h11.RemoteProtocolError for an answer that is none, and the errors of `connection`.
    """
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_EVENT_BYTES)
    machine.send(_SENT[method])
    machine.send(h11.EndOfMessage())
    with suppress(WriteFailed):  # the server may have answered before it hung up
        stream.write(_checked(head(b"%s %s HTTP/1.1" % (method, target), headers), len(headers)))
    while type(event := _next_event(machine, stream)) is h11.InformationalResponse:
        if event.status_code == SWITCHING_PROTOCOLS:
            break
    if type(event) is not h11.Response:
        raise h11.RemoteProtocolError(f"{event!r}, which nobody asked for"[:200])
    version = b"HTTP/" + event.http_version
    return Answer(event.status_code, version, event.reason, event.headers.raw_items(), machine, stream)


def head(first_line: bytes, headers: Sequence[Header]) -> bytes:
    """The bytes of a head."""
    return b"\r\n".join([first_line, *(b"%s: %s" % each for each in headers), b"", b""])


def _checked(request: bytes, header_count: int) -> bytes:
    lines = header_count + 2
    if request.count(b"\n") != lines or request.count(b"\r") != lines or b"\0" in request:
        raise Unsendable("line ends or zeros in the request")
    return request


def _next_event(machine: h11.Connection, stream: Stream) -> object:
    while (event := machine.next_event()) is h11.NEED_DATA:
        data = stream.read()
        if not data and machine.their_state is h11.SEND_RESPONSE:
            raise h11.RemoteProtocolError("the server hung up without an answer")
        machine.receive_data(data)
    return event


SWITCHING_PROTOCOLS = 101

# What h11 needs to know of a request to read the answer. It would check, copy and write all headers of the
# real one, which takes as long as reading the answer.
_SENT = {
    GET: h11.Request(method=GET, target="/", headers=[("Host", "h"), ("Connection", "close")]),
    CONNECT: h11.Request(method=CONNECT, target="h:443", headers=[("Host", "h:443")]),
}
