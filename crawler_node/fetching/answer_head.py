"""The head of an answer, read as generously as browsers, curl and http.client do. Pure.

Sloppy heads do no harm here: a connection carries one request and is closed after its answer, so that nothing
of one answer can pass for another. (A server, or a proxy, must be strict.) Takes time in proportion to the
head's length, whose limit is the caller's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

Header = tuple[bytes, bytes]

_PROTOCOL = b"HTTP/"
_STATUS_LINE = re.compile(
    rb"HTTP/\d{1,3}(?:\.\d{1,3})?[ \t]+([1-9]\d\d)(?:[ \t].*)?", re.IGNORECASE | re.DOTALL
)
_BLANK_LINE = re.compile(rb"\n\r?\n")
_BLANKS = b" \t\r"


class ProtocolError(Exception):
    """The bytes that came are no HTTP answer, or nobody can tell where its body ends."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """A head, as it was sent and as it is understood."""

    raw: bytes
    status: int
    headers: list[Header]
    """Without blanks around them; several lines of one value are joined by blanks."""

    def listed(self, name: bytes) -> list[bytes]:
        """The values of a header (named in lower case) that is a list, in lower case; none that is empty."""
        values = [value for key, value in self.headers if key.lower() == name]
        parts = (part.strip(_BLANKS).lower() for part in b",".join(values).split(b","))
        return [part for part in parts if part]

    def raw_without(self, name: bytes) -> bytes:
        """As it was sent, but for the lines of a header (named in lower case)."""
        kept: list[bytes] = []
        is_kept = True
        for line in self.raw.split(b"\n"):
            if not line.startswith((b" ", b"\t")):
                is_kept = _name_of(line).lower() != name
            if is_kept:
                kept.append(line)
        return b"\n".join(kept)


def end_of_head(data: bytes | bytearray, seen: int = 0) -> int:
    """Where the body begins, behind a blank line; -1 if there is none yet, as in the first `seen` bytes."""
    found = _BLANK_LINE.search(data, max(0, seen - 2))
    return -1 if found is None else found.end()


def check_beginning(data: bytes | bytearray) -> None:
    """Raises ProtocolError as soon as what comes can be no head of HTTP/1."""
    beginning = bytes(data[: len(_PROTOCOL)]).upper()
    if not _PROTOCOL.startswith(beginning):
        raise ProtocolError(f"no status line: {bytes(data[:40])!r}")


def parse_head(raw: bytes) -> AnswerHead:
    """Reads a head, with the blank line at its end. Raises ProtocolError.

    Taken are names with blanks behind them, of any bytes; values of any bytes, of which a lone CR counts as a
    blank (RFC 9112 2.2); lines that end in LF alone. Lines that name nothing are passed over.
    """
    if b"\0" in raw:
        raise ProtocolError("NUL in the head")
    first, *lines = raw.split(b"\n")
    status_line = _STATUS_LINE.fullmatch(first.rstrip(_BLANKS))
    if status_line is None:
        raise ProtocolError(f"no status line: {first[:40]!r}")
    return AnswerHead(raw, int(status_line[1]), list(_headers(lines)))


def _headers(lines: list[bytes]) -> Iterator[Header]:
    starts = [number for number, line in enumerate(lines) if not line.startswith((b" ", b"\t"))]
    for start, end in pairwise([*starts, len(lines)]):
        name = _name_of(lines[start])
        if name:
            value = b" ".join(
                line.strip(_BLANKS) for line in (lines[start].partition(b":")[2], *lines[start + 1 : end])
            )
            yield name, value.strip(_BLANKS).replace(b"\r", b" ")


def _name_of(line: bytes) -> bytes:
    """The name before the colon; empty if there is none."""
    name, colon, _ = line.partition(b":")
    return name.strip(_BLANKS).replace(b"\r", b" ") if colon else b""
