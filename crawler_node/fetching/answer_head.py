"""Reads the head of an answer, as generously as browsers, curl and http.client do. Pure.

Sloppy heads do no harm here: a connection is closed after an answer that has anything unusual, so that no
part of one answer can pass for another. (A server or a proxy must be strict.) Takes time in proportion to the
head's length, which the caller limits.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from .failure import FetchFailure, shown

Header = tuple[bytes, bytes]

WITHOUT_BODY = frozenset({204, 304})
"""The statuses whose answers end with their heads, whatever these say."""

_PROTOCOL = b"HTTP/"
_STATUS_LINE = re.compile(
    rb"HTTP/(\d{1,3})(?:\.(\d{1,3}))?[ \t]+([1-9]\d\d)(?:[ \t].*)?", re.IGNORECASE | re.DOTALL
)
_BLANK_LINE = re.compile(rb"\n\r?\n")
_STRICT_HEAD = re.compile(
    rb"HTTP/1\.1 [2-5]\d\d(?: [^\r\n\0]*+)?\r\n(?:[\w!#$%&'*+.^`|~-]++:[^\r\n\0]*+\r\n)*+\r\n", re.ASCII
)
_KEEP_ALIVE = re.compile(rb"(timeout|max)[ \t]*=[ \t]*\"?([0-9]{1,9})\"?")
_BLANKS = b" \t\r"


class ProtocolError(FetchFailure):
    """The bytes received are no HTTP answer, or do not tell where its body ends."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """A head, as sent and as understood."""

    raw: bytes
    status: int
    headers: list[Header]
    """Names and values without blanks around them. Blanks join the lines of one value."""
    version: tuple[int, int] = (1, 1)
    """The version of HTTP that it claims."""
    is_whole: bool = True
    """Whether its blank line was sent, and not added here."""

    def listed(self, name: bytes) -> list[bytes]:
        """The values of a header that is a list, in lower case and without empty ones. `name` is in lower
        case."""
        values = [value for key, value in self.headers if key.lower() == name]
        parts = (part.strip(_BLANKS).lower() for part in b",".join(values).split(b","))
        return [part for part in parts if part]

    def idle_s(self) -> float:
        """How long the server may wait for another request over this connection (RFC 9112 9.3, and the
        Keep-Alive header of RFC 2068). 0 if it hangs up, is of another version, or if anything in the head is
        unusual. `inf` if it does not tell."""
        if not self.is_whole or _STRICT_HEAD.fullmatch(self.raw) is None:
            return 0.0
        codings, lengths = self.listed(b"transfer-encoding"), self.listed(b"content-length")
        if self.status in WITHOUT_BODY and (codings or lengths not in ([], [b"0"])):
            return 0.0
        if codings not in ([], [b"chunked"]) or b"close" in self.listed(b"connection"):
            return 0.0
        wishes = (_KEEP_ALIVE.fullmatch(each) for each in self.listed(b"keep-alive"))
        told = {wish[1]: int(wish[2]) for wish in wishes if wish is not None}
        return float(told.get(b"timeout", inf)) if told.get(b"max", 1) else 0.0

    def raw_without(self, name: bytes) -> bytes:
        """The head as sent, without the lines of one header. `name` is in lower case."""
        kept: list[bytes] = []
        is_kept = True
        for line in self.raw.split(b"\n"):
            if not line.startswith((b" ", b"\t")):
                is_kept = _name_of(line).lower() != name
            if is_kept:
                kept.append(line)
        return b"\n".join(kept)


def renamed(raw: bytes, prefix: bytes, is_meant: Callable[[Header], bool]) -> bytes:
    """A head as sent, with a prefix before the names of the headers that are meant. Their names and values
    are as in AnswerHead."""
    first, *lines = raw.split(b"\n")
    for place, header in _placed_headers(lines):
        if is_meant(header):
            lines[place] = prefix + lines[place]
    return b"\n".join([first, *lines])


def without_blank_lines(come: bytearray) -> None:
    """Takes blank lines off its beginning (RFC 9112 2.2): some servers send them before the status line."""
    if come.startswith((b"\r", b"\n")):
        del come[: len(come) - len(come.lstrip(b"\r\n"))]


def end_of_head(data: bytes | bytearray, seen: int = 0) -> int:
    """The offset of the body, behind a blank line; -1 before that has come. The first `seen` bytes have
    none."""
    match = _BLANK_LINE.search(data, max(0, seen - 2))
    return -1 if match is None else match.end()


def check_beginning(data: bytes | bytearray) -> None:
    """Raises ProtocolError as soon as the data can be no head of HTTP/1."""
    beginning = bytes(data[: len(_PROTOCOL)]).upper()
    if not _PROTOCOL.startswith(beginning):
        raise ProtocolError(
            f"no status line: {bytes(data[:40])!r}",
            f"it begins with {shown(data)}",
        )


def parse_head(raw: bytes) -> AnswerHead:
    """Reads a head, with the blank line at its end. Raises ProtocolError.

    Names may be any bytes, with blanks behind them. Values may be any bytes; a lone CR in them counts as a
    blank (RFC 9112 2.2). Lines may end in LF alone. Lines without a name are skipped.
    """
    if b"\0" in raw:
        raise ProtocolError("NUL in the head", "a zero byte in the head")
    first, *lines = raw.split(b"\n")
    status_line = _STATUS_LINE.fullmatch(first.rstrip(_BLANKS))
    if status_line is None:
        raise ProtocolError(f"no status line: {first[:40]!r}", f"no status line, but {shown(first)}")
    major, minor, status = status_line.groups(b"0")
    headers = [header for _, header in _placed_headers(lines)]
    return AnswerHead(raw, int(status), headers, (int(major), int(minor)))


def cut_redirect(come: bytes) -> AnswerHead | None:
    """The head of a server that hung up after `come`, before the blank line, if it is a redirect whose target
    has come: some scripts end so, and browsers follow. A line without its end does not count, as it may be
    half a target."""
    try:
        head = parse_head(come[: come.rfind(b"\n") + 1] + b"\r\n")
    except ProtocolError:
        return None
    is_redirect = 300 <= head.status < 400 and any(name.lower() == b"location" for name, _ in head.headers)
    return replace(head, is_whole=False) if is_redirect else None


def _placed_headers(lines: list[bytes]) -> Iterator[tuple[int, Header]]:
    """The headers, each with the index of its first line."""
    starts = [number for number, line in enumerate(lines) if not line.startswith((b" ", b"\t"))]
    for start, end in pairwise([*starts, len(lines)]):
        name = _name_of(lines[start])
        if name:
            value = b" ".join(
                line.strip(_BLANKS) for line in (lines[start].partition(b":")[2], *lines[start + 1 : end])
            )
            yield start, (name, value.strip(_BLANKS).replace(b"\r", b" "))


def _name_of(line: bytes) -> bytes:
    """The name before the colon; empty if there is none."""
    name, colon, _ = line.partition(b":")
    return name.strip(_BLANKS).replace(b"\r", b" ") if colon else b""
