"""One request over a connection, and its answer (HTTP/1.1)."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from .answer_head import (
    AnswerHead,
    Header,
    ProtocolError,
    check_beginning,
    cut_redirect,
    end_of_head,
    parse_head,
    without_blank_lines,
)
from .connection import ConnectionLost, SiteConnection, WriteFailed
from .failure import FetchFailure
from .framing import Body, Chunked, ChunkedOrPlain, Counted, framing

GET, CONNECT = b"GET", b"CONNECT"

SWITCHING_PROTOCOLS = 101


class Unsendable(FetchFailure):
    """The request would not arrive as it is meant, with a line end in a header, say."""


@dataclass(slots=True)
class Answer:
    """The head of an answer, and the way to its body."""

    head: AnswerHead
    has_ambiguous_length: bool
    """Whether the head names several lengths, or an odd one, so that another body may be meant."""
    _body: Body = field(repr=False)
    _connection: SiteConnection = field(repr=False)
    _come: bytes = field(repr=False)  # the bytes that came with the head, behind it
    _is_alone: bool = field(repr=False)  # nothing came before it

    @property
    def status(self) -> int:
        """The status, as it was sent."""
        return self.head.status

    @property
    def announced(self) -> int | None:
        """The length of the body, if the head announces one."""
        return self._body.length if isinstance(self._body, Counted) else None

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks, which `body` removes, or is said to."""
        return isinstance(self._body, Chunked | ChunkedOrPlain)

    def idle_s(self) -> float:
        """How long its connection may wait for another request; 0 unless the answer was read whole, is framed
        without doubt, and nothing came before or behind it."""
        body = self._body
        if not (body.complete and self._is_alone) or self.has_ambiguous_length:
            return 0.0
        behind = body.behind or self._come
        if len(behind) < len(body.end):
            behind += self._connection.read_now(len(body.end) - len(behind))
        return self.head.idle_s() if behind == body.end else 0.0

    def body(self) -> Iterator[bytes]:
        """Reads the body, without its chunks. Raises ConnectionLost where it breaks off, and the other errors
        of `ask`, behind all that came."""
        body = self._body
        while not body.complete:
            try:
                data = self._come or self._connection.read()
            except FetchFailure:
                yield from body.feed(b"")  # what it holds back
                raise
            self._come = b""
            yield from body.feed(data)
            if not data:
                break
        if not body.complete and not body.may_end():
            raise ConnectionLost("the connection ended within the body")


def ask(connection: SiteConnection, method: bytes, target: bytes, headers: Sequence[Header]) -> Answer:
    """Sends a request without body, and reads the head of its answer. Skips interim answers.

    Raises Unsendable, ProtocolError for bytes that are no answer, and the errors of `connection`, whose limit
    bounds the head.
    """
    with suppress(WriteFailed):  # the server may have answered before it hung up
        connection.write(_checked(head(b"%s %s HTTP/1.1" % (method, target), headers), len(headers)))
    come, before = bytearray(), connection.received
    while (answer := _read_head(connection, come)).status < 200:
        if answer.status == SWITCHING_PROTOCOLS:
            raise ProtocolError("101 Switching Protocols, unasked", "status 101, which nobody asked for")
    has_body = method != CONNECT or answer.status >= 300
    body, is_ambiguous = framing(answer, has_body=has_body)
    is_alone = connection.received - before == len(answer.raw) + len(come)
    return Answer(answer, is_ambiguous, body, connection, bytes(come), is_alone)


def head(first_line: bytes, headers: Sequence[Header]) -> bytes:
    return b"\r\n".join([first_line, *(b"%s: %s" % each for each in headers), b"", b""])


def _checked(request: bytes, header_count: int) -> bytes:
    lines = header_count + 2
    if request.count(b"\n") != lines or request.count(b"\r") != lines or b"\0" in request:
        raise Unsendable(
            "line ends or zeros in the request", "a line end or a zero byte would be in the request"
        )
    return request


def _read_head(connection: SiteConnection, come: bytearray) -> AnswerHead:
    """Reads until `come` has a head, and takes that off it."""
    seen = 0
    while True:
        without_blank_lines(come)
        check_beginning(come)
        end = end_of_head(come, seen)
        if end >= 0:
            raw = bytes(come[:end])
            del come[:end]
            return parse_head(raw)
        seen = len(come)
        data = connection.read()
        if not data:
            if (redirect := cut_redirect(bytes(come))) is not None:
                come.clear()
                return redirect
            if come:
                raise ConnectionLost(
                    "the server hung up within the head", "closed within the head of the answer"
                )
            raise ConnectionLost("no answer", "closed without an answer")
        come += data
