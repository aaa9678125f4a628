"""Undoes Content-Encoding within bounds of output and work. Charsets are extract's business."""

import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import BinaryIO

PIECE_BYTES = 64 * 1024

MAX_CODINGS = 2
"""Codings one over the other that are undone; a response with more is left alone."""

MAX_MEMBERS = 1024
"""Gzip members of one body that are read; some sites append a few, a hostile one millions of empty ones."""

_Stage = Callable[[Iterator[bytes]], Iterator[bytes]]


def decoded(body: BinaryIO, content_encoding: str, limit: int) -> bytes | None:
    """The first `limit` bytes of a body as its author wrote it.

    Reads `body` from its start. A broken stream gives what comes before the break. None when the codings
    cannot be undone (unknown, or more than MAX_CODINGS).
    """
    pieces = decoding(body, content_encoding, limit)
    if pieces is None:
        return None
    data = BytesIO()  # joining pieces would need twice the memory
    for piece in pieces:
        data.write(piece)
    return data.getvalue()


def decoding(body: BinaryIO, content_encoding: str, limit: int) -> Iterator[bytes] | None:
    """As `decoded`, in pieces of at most PIECE_BYTES, made as they are asked for."""
    stages = _stages(content_encoding)
    if stages is None:
        return None
    body.seek(0)
    pieces: Iterator[bytes] = iter(lambda: body.read(PIECE_BYTES), b"")
    for stage in stages:
        # Each coding is bounded, not the last alone: an outer one may swell to gigabytes of nothing.
        pieces = _first(stage(pieces), limit)
    return pieces if stages else _first(pieces, limit)


def _stages(content_encoding: str) -> list[_Stage] | None:
    """What undoes the codings, outermost (last named) first; None when something in there is unknown."""
    names = [name.strip().lower() for name in content_encoding.split(",")]
    codings = [name for name in reversed(names) if name not in _NO_CODING]
    if len(codings) > MAX_CODINGS or any(name not in _CODINGS for name in codings):
        return None
    return [_CODINGS[name] for name in codings]


def _first(pieces: Iterator[bytes], limit: int) -> Iterator[bytes]:
    left = limit
    for piece in pieces:
        if left <= 0:
            return
        yield piece[:left]
        left -= len(piece)


def _gunzip(source: Iterator[bytes]) -> Iterator[bytes]:
    data = _two_bytes(b"", source)
    if data[:2] != _GZIP_MAGIC:
        # Said to be gzip and is not: some servers label what they did not compress.
        yield data
        yield from source
        return
    for _ in range(MAX_MEMBERS):
        member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        yield from _inflate(member, data, source)
        if not member.eof:  # broken off
            return
        data = _two_bytes(member.unused_data, source)
        if data[:2] != _GZIP_MAGIC:  # the end, or padding
            return


def _undeflate(source: Iterator[bytes]) -> Iterator[bytes]:
    data = _two_bytes(b"", source)
    # "deflate" means zlib's format (RFC 9110 8.4.1.2), but raw deflate is what some servers send.
    is_zlib = len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    yield from _inflate(zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS), data, source)


def _two_bytes(data: bytes, source: Iterator[bytes]) -> bytes:
    """`data` and as much of the source as makes it two bytes long, if there is as much."""
    while len(data) < 2 and (more := next(source, b"")):
        data += more
    return data


def _inflate(stream: "zlib._Decompress", data: bytes, source: Iterator[bytes]) -> Iterator[bytes]:
    """Feeds a zlib stream from `data` and then `source` until its end, or the end of all input."""
    while not stream.eof:
        if not data:
            data = next(source, b"")
        try:
            piece = stream.decompress(data, PIECE_BYTES)
        except zlib.error:
            return
        if piece:
            yield piece
        elif not data:
            return
        data = stream.unconsumed_tail


_GZIP_MAGIC = b"\x1f\x8b"
_NO_CODING = frozenset({"", "identity", "none"})
_CODINGS: dict[str, _Stage] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "x-deflate": _undeflate,
}
