"""Finds the end of an answer's body (RFC 9112, 6.3). Pure: all bytes go in, and those of the body come
out."""

import re
from collections.abc import Iterator
from typing import Protocol

from .answer_head import WITHOUT_BODY, AnswerHead, ProtocolError
from .failure import shown

MAX_LINE_BYTES = 16 * 1024
"""The longest line between chunks."""

MAX_LENGTH = 10**18
"""Longer lengths count as this one."""

_LENGTH = re.compile(rb"[0-9]+")
_LENGTH_AND_MORE = re.compile(rb"\+?[0-9].*", re.DOTALL)
_CHUNK_LINE = re.compile(rb"[ \t]*([0-9A-Fa-f]*)[ \t\r]*(?:;.*)?", re.DOTALL)
_MAX_CHUNK_DIGITS = 16
_SMALL_SIZES = {form % size: size for size in range(1, 256) for form in (b"%x", b"%X", b"%02x", b"%02X")}
_UNASKED_CODINGS = frozenset({b"gzip", b"x-gzip", b"deflate", b"compress", b"x-compress", b"br", b"zstd"})


class Body(Protocol):
    """Takes the bytes behind a head, until the body is complete."""

    complete: bool
    """Whether the body has come to its end."""

    behind: bytes
    """What came behind the body, as far as it has been given."""

    end: bytes
    """What belongs there."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The parts of the body in the data; no data means that the connection has ended. Raises
        ProtocolError where the data makes no sense."""

    def may_end(self) -> bool:
        """Whether the body is whole if the connection ends here."""


class Counted:
    """A body of an announced length. If the head names several, the longest holds, unless the connection ends
    at a shorter one."""

    end = b""

    def __init__(self, lengths: set[int]) -> None:
        self.length = max(lengths)
        self._lengths = lengths
        self._count = 0
        self._left = self.length
        self.complete = not self._left
        self.behind = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        piece = data[: self._left]
        self._count += len(piece)
        self._left -= len(piece)
        self.complete = not self._left
        self.behind = data[len(piece) :]
        yield piece

    def may_end(self) -> bool:
        return self._count in self._lengths


class UntilClose:
    """A body that ends with its connection."""

    complete = False
    behind = end = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def may_end(self) -> bool:
        return True


class Chunked:
    """A body in chunks (RFC 9112, 7.1). It ends with its last chunk; later bytes are left unread.

    The chunks in one piece of data come out as one piece: each piece costs its taker much more than a chunk
    of a byte costs its sender.
    """

    end = b"\r\n"  # of a trailer without fields

    def __init__(self) -> None:
        self.behind = b""
        self._line = b""  # its part that has come
        self._left = 0  # of the present chunk
        self._is_behind_chunk = False
        self.complete = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        pieces: list[bytes] = []
        try:
            self._take(data, pieces)
        finally:
            if pieces:
                yield b"".join(pieces)

    def _take(self, data: bytes, pieces: list[bytes]) -> None:
        at = 0
        while at < len(data) and not self.complete:
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                pieces.append(piece)
                continue
            if not self._line and not self._is_behind_chunk:
                at = self._take_plain(data, at, pieces)
            end = data.find(b"\n", at)
            line = self._line + (data[at:] if end < 0 else data[at:end])
            if len(line) > MAX_LINE_BYTES:
                raise ProtocolError(f"a line between chunks has more than {MAX_LINE_BYTES} bytes")
            is_whole = end >= 0
            size = self._line_end(line) if self._is_behind_chunk else self._size(line, is_whole)
            if not is_whole:
                self._line = line
                return
            self._line, at = b"", end + 1
            self._left = size
            self.complete = not size and not self._is_behind_chunk
            self._is_behind_chunk = size > 0
        self.behind = data[at:]

    def _take_plain(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Takes the small chunks from a place on that are whole and have nothing unusual. Returns the place
        behind them."""
        while True:
            line_end = data.find(b"\r\n", at, at + 4)
            size = _SMALL_SIZES.get(data[at:line_end]) if line_end >= 0 else None
            begin = line_end + 2
            if size is None or data[begin + size : begin + size + 2] != b"\r\n":
                return at
            pieces.append(data[begin : begin + size])
            at = begin + size + 2

    def may_end(self) -> bool:
        return self.complete

    def _line_end(self, line: bytes) -> int:
        if line.strip(b" \t\r"):
            raise ProtocolError("a chunk is longer than it says")
        return 0

    def _size(self, line: bytes, is_whole: bool) -> int:
        """The size of the next chunk, as far as it has come."""
        digits = _digits(line)
        if digits is None or (is_whole and not digits):
            raise ProtocolError(f"no size of a chunk: {line[:40]!r}", f"{shown(line)} is no size of a chunk")
        return int(digits or b"0", 16)


class ChunkedOrPlain:
    """A body that is said to come in chunks, which HTTP/1.0 does not have: in chunks if it begins with the
    size of one, else plain."""

    behind = end = b""

    def __init__(self, plain: Body) -> None:
        self.complete = False
        self._plain = plain
        self._body: Body | None = None  # once it is known
        self._line = b""  # the part of its first line that has come

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._body is None:
            data = self._line + data
            may_go_on = len(data) > len(self._line) and len(data) <= MAX_LINE_BYTES
            line, end, _ = data.partition(b"\n")
            digits = _digits(line)
            self._line = data
            if digits is not None and not end and may_go_on:
                return
            is_size = digits and end and len(line) <= MAX_LINE_BYTES
            self._body = Chunked() if is_size else self._plain
        yield from self._body.feed(data)
        self.complete = self._body.complete

    def may_end(self) -> bool:
        return self._body is None or self._body.may_end()


def framing(head: AnswerHead, *, has_body: bool = True) -> tuple[Body, bool]:
    """How to read the body behind a head, and whether its length is ambiguous, so that another may be meant.

    Chunks go before lengths. The longest of several lengths holds; a length with more than digits is ignored.
    Raises ProtocolError for a value that is no length at all, and for transfer codings that hide the body,
    which no request asks for. HTTP/1.0 has no transfer codings: they are ignored there, unless chunks come
    after all.
    """
    codings = head.listed(b"transfer-encoding")
    lengths = head.listed(b"content-length")
    if not has_body or head.status in WITHOUT_BODY:
        return Counted({0}), False
    is_old = head.version < (1, 1)
    is_chunked = b"chunked" in codings
    if not is_old and not _UNASKED_CODINGS.isdisjoint(codings):
        named = b", ".join(codings)
        raise ProtocolError(
            f"unasked transfer coding: {named[:40]!r}",
            f"Transfer-Encoding {shown(named)}, which nobody asked for",
        )
    if is_chunked and not is_old:
        return Chunked(), bool(lengths)
    is_odd = not {b"identity"}.issuperset(codings)
    body: Body = UntilClose()
    if all(map(_LENGTH.fullmatch, lengths)):
        announced = {_bounded(length) for length in lengths}
        is_odd = is_odd or len(announced) > 1
        body = Counted(announced) if announced else body
    elif is_chunked or all(map(_LENGTH_AND_MORE.fullmatch, lengths)):
        is_odd = True
    else:
        named = b", ".join(lengths)
        raise ProtocolError(f"no length: {named[:40]!r}", f"Content-Length {shown(named)} is no length")
    return (ChunkedOrPlain(body) if is_chunked else body), is_odd


def _digits(line: bytes) -> bytes | None:
    """The digits of a chunk's size, as far as its line has come; None if it is no such line."""
    match = _CHUNK_LINE.fullmatch(line)
    return None if match is None or len(match[1].lstrip(b"0")) > _MAX_CHUNK_DIGITS else match[1]


def _bounded(length: bytes) -> int:
    digits = length.lstrip(b"0")
    return MAX_LENGTH if len(digits) > 18 else int(digits or b"0")
