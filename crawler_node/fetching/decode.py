"""Undoes Content-Encoding within bounds of output and work. Charsets are extract's business.

Servers label bodies that they did not code: a storage keeps the label of an upload (`aws-chunked`), a server
confuses codings with charsets (`UTF-8`), a cache undoes the coding and keeps its name. So a body that is text
as it came is taken as it came, whatever its label. A broken stream yields all that comes before the break, to
the byte, and a wrong checksum or length behind whole data costs nothing, as in browsers.
"""

import codecs
import zlib
from collections.abc import Callable, Generator, Iterator
from enum import StrEnum
from io import BytesIO
from typing import BinaryIO

PIECE_BYTES = 64 * 1024

MAX_CODINGS = 2
"""The most codings, one over the other, that are undone."""

MAX_MEMBERS = 1024
"""The most gzip members of one body that are read: some sites have a few, a hostile one has millions."""

START_BYTES = 1445
"""How much of a body tells whether it is text (as in WHATWG MIME Sniffing, 5.2)."""


class Break(StrEnum):
    """Where a coded stream is broken."""

    DATA = "data"
    """The data make no sense from some place on."""
    CHECKSUM = "checksum"
    """The data are whole, and their checksum is another."""
    LENGTH = "length"
    """The data and their checksum are right, and the length behind them is another."""
    END = "end"
    """The body ends before the stream."""

    @property
    def note(self) -> str:
        """An annotation for the crawl log about it."""
        return f"codingBroken:{self}"


_Told = Callable[[Break], None]
_Stage = Callable[[Iterator[bytes], _Told], Iterator[bytes]]


def decoded(
    body: BinaryIO, content_encoding: str, limit: int, on_break: _Told = lambda where: None
) -> bytes | None:
    """The first `limit` bytes of a body as its author wrote it.

    Reads `body` from its start. A broken stream yields the part before the break, and calls `on_break`. None
    if the body is no text and its codings cannot be undone: one is unknown, or there are more than
    MAX_CODINGS.
    """
    pieces = decoding(body, content_encoding, limit, on_break)
    if pieces is None:
        return None
    data = BytesIO()  # joining pieces would need twice the memory
    for piece in pieces:
        data.write(piece)
    return data.getvalue()


def decoding(
    body: BinaryIO, content_encoding: str, limit: int, on_break: _Told = lambda where: None
) -> Iterator[bytes] | None:
    """As `decoded`, in pieces of at most PIECE_BYTES, each made on demand."""
    stages = _stages_of(body, content_encoding)
    if stages is None:
        return None
    body.seek(0)
    pieces: Iterator[bytes] = iter(lambda: body.read(PIECE_BYTES), b"")
    for stage in stages:
        # The limit holds for each coding, as an outer one may swell to gigabytes that the next one shrinks.
        pieces = _first(stage(pieces, on_break), limit)
    return pieces if stages else _first(pieces, limit)


def coding_note(body: BinaryIO, content_encoding: str) -> str:
    """An annotation for the crawl log about a body's Content-Encoding; empty if that is in order.

    `codingIgnored:br`: the body is taken as it came. `unknownCoding:br`: it cannot be read.
    """
    stages = _stages_of(body, content_encoding)
    if stages is None:
        return f"unknownCoding:{content_encoding.strip()}"
    if stages or not _codings(content_encoding) or not _start(body):
        return ""
    return f"codingIgnored:{content_encoding.strip()}"


def is_text(start: bytes) -> bool:
    """Whether a body that begins with `start` is text, and neither compressed nor otherwise binary.

    Text has none of the control characters that mark binary data, unless it is marked as UTF-16. A few binary
    bytes may have none by chance; so a short text must also be UTF-8, or mostly ASCII.
    """
    start = start[:START_BYTES]
    if start.startswith(_MARKS):
        return True
    if start.translate(None, _BINARY) != start:
        return False
    if len(start) >= _TELLING_BYTES:
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return sum(byte >= 0x80 for byte in start) <= _MOST_HIGH * len(start)
    return True


def is_credible(body: BinaryIO, content_encoding: str, text: bytes) -> bool:
    """Whether `text`, the decoded body of a document that must be text, is what its author wrote. It is not
    if the body came otherwise coded than its label says, or nothing could be decoded."""
    if not text:
        return holds_nothing(body)
    return not coding_note(body, content_encoding) or is_text(_start(body))


def holds_nothing(body: BinaryIO) -> bool:
    """Whether a short body is empty, or a complete stream of a coding that is empty."""
    body.seek(0)
    data = body.read(START_BYTES)
    return not data or any(map(_is_empty_stream, (data,) * len(_WINDOWS), _WINDOWS))


def _stages_of(body: BinaryIO, content_encoding: str) -> list[_Stage] | None:
    """The decoders for a body, for its outermost coding (the last named) first; None if it cannot be read."""
    codings = _codings(content_encoding)
    if not codings:
        return []
    start = _start(body)
    if len(codings) > MAX_CODINGS or any(name not in _CODINGS for name in codings):
        return [] if is_text(start) else None
    if is_text(start) and not (_CODINGS[codings[0]] is _undeflate and _inflates(start)):
        return []
    if _CODINGS[codings[0]] is _gunzip and start[:2] != _GZIP_MAGIC:
        return []  # some servers label bodies that they did not compress, images too
    return [_CODINGS[name] for name in codings]


def _codings(content_encoding: str) -> list[str]:
    """The names of the codings, outermost (last named) first."""
    names = [name.strip().lower() for name in content_encoding.split(",")]
    codings = [name for name in reversed(names) if name not in _NO_CODING]
    return [name for name in codings if name != _OF_UPLOADS] or codings


def _start(body: BinaryIO) -> bytes:
    body.seek(0)
    return body.read(START_BYTES)


def _inflates(start: bytes) -> bool:
    """Whether a body that looks like text is deflate after all: it inflates to something, to its end."""
    stream = zlib.decompressobj(zlib.MAX_WBITS if _is_zlib(start) else -zlib.MAX_WBITS)
    try:
        data = stream.decompress(start, PIECE_BYTES)
    except zlib.error:
        return False
    return bool(data) and not stream.unused_data


def _is_empty_stream(data: bytes, window_bits: int) -> bool:
    stream = zlib.decompressobj(window_bits)
    try:
        return not stream.decompress(data, 1) and stream.eof
    except zlib.error:
        return False


def _first(pieces: Iterator[bytes], limit: int) -> Iterator[bytes]:
    left = limit
    for piece in pieces:
        if left <= 0:
            return
        yield piece[:left]
        left -= len(piece)


def _gunzip(source: Iterator[bytes], on_break: _Told) -> Iterator[bytes]:
    data = _at_least(2, b"", source)
    if data[:2] != _GZIP_MAGIC:
        # Some servers label bodies as gzip that they did not compress.
        yield data
        yield from source
        return
    for _ in range(MAX_MEMBERS):
        rest = yield from _inflate(zlib.decompressobj(zlib.MAX_WBITS + 16), data, source, on_break)
        if rest is None:
            return
        data = _at_least(2, rest, source)
        if data[:2] != _GZIP_MAGIC:  # the end, or padding
            return


def _undeflate(source: Iterator[bytes], on_break: _Told) -> Iterator[bytes]:
    data = _at_least(2, b"", source)
    # "deflate" means zlib's format (RFC 9110 8.4.1.2), but raw deflate is what some servers send.
    window_bits = zlib.MAX_WBITS if _is_zlib(data) else -zlib.MAX_WBITS
    yield from _inflate(zlib.decompressobj(window_bits), data, source, on_break)


def _is_zlib(data: bytes) -> bool:
    return len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0


def _at_least(count: int, data: bytes, source: Iterator[bytes]) -> bytes:
    """`data`, and as much of the source as makes it `count` bytes long, if there is enough."""
    while len(data) < count and (more := next(source, b"")):
        data += more
    return data


def _inflate(
    stream: "zlib._Decompress", data: bytes, source: Iterator[bytes], on_break: _Told
) -> Generator[bytes, None, bytes | None]:
    """Feeds a zlib stream from `data` and then `source`, until its end or the end of all input. Returns what
    follows it in its last piece; None if it is broken, so that its end is unknown."""
    while not stream.eof:
        if not data:
            data = next(source, b"")
        before = stream.copy()
        try:
            piece = stream.decompress(data, PIECE_BYTES)
        except zlib.error as problem:
            piece, rest = _to_the_break(before, data)
            if piece:
                yield piece
            return _behind_break(str(problem), rest, source, on_break)
        if piece:
            yield piece
        elif not data:
            on_break(Break.END)
            return None
        data = stream.unconsumed_tail
    return stream.unused_data


def _to_the_break(stream: "zlib._Decompress", data: bytes) -> tuple[bytes, bytes]:
    """What a stream yields from data in which it breaks, which zlib does not tell, and the data behind the
    byte that breaks it. Halves the data, as feeding bytes one by one would take a hundred times as long."""
    pieces: list[bytes] = []
    start, end = 0, len(data)  # the byte is between them
    while end - start > 1:
        middle = (start + end) // 2
        trial = stream.copy()
        try:
            pieces.append(trial.decompress(data[start:middle]))
        except zlib.error:
            end = middle
        else:
            stream, start = trial, middle
    return b"".join(pieces), data[end:]


def _behind_break(problem: str, rest: bytes, source: Iterator[bytes], on_break: _Told) -> bytes | None:
    """Tells where a stream broke. Returns what follows it if only its checksum or length is wrong."""
    if problem.endswith("incorrect data check"):
        on_break(Break.CHECKSUM)
        return _at_least(_LENGTH_BYTES, rest, source)[_LENGTH_BYTES:]
    if problem.endswith("incorrect length check"):
        on_break(Break.LENGTH)
        return rest
    on_break(Break.DATA)
    return None


_GZIP_MAGIC = b"\x1f\x8b"
_LENGTH_BYTES = 4  # behind the checksum of gzip
_WINDOWS = (zlib.MAX_WBITS + 16, zlib.MAX_WBITS, -zlib.MAX_WBITS)
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)
_BINARY = bytes({*range(0x20)} - {*b"\t\n\f\r\x1b"})
_TELLING_BYTES = 128  # one in a million compressed bodies has none of the binary ones in so many
_MOST_HIGH = 0.3  # the share in a short text; compressed data have a half
_OF_UPLOADS = "aws-chunked"  # a coding of the upload to a storage, which the body no longer has
_NO_CODING = frozenset({"", "identity", "none"})
_CODINGS: dict[str, _Stage] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "x-deflate": _undeflate,
}
