"""Bodies of lengths, chunks and codings that are not what was said."""

import gzip
import zlib
from collections.abc import Callable
from functools import cache

from practice_web.hostile.connections import PROTOCOL_ERROR
from practice_web.hostile.nastiness import (
    LEAF,
    Handler,
    Nastiness,
    Visit,
    answers,
    head,
    link,
    says,
    says_and_waits,
    says_for_ever,
)

_CHUNKED = head("Transfer-Encoding: chunked")
_BLOCK = 1024 * 1024

_PAGE = b"<!DOCTYPE html><p>" + link("/behind").encode()
_PAGE_IN_BROTLI = bytes.fromhex("1b2900f825dddee09a1049864146bf528d3f2dc936bf81436a20")


def _body(name: str, does: str, status: int, handler: Handler, *notes: str) -> Nastiness:
    return Nastiness(name, does, {"/": status}, {"/": handler}, notes=notes)


def _kept_open(name: str, does: str, *answer: bytes, ends: int = 200) -> Nastiness:
    """A page with a link, whose connection stays open behind what came of its body."""
    pages = {"/": says_and_waits(*answer), "/behind": LEAF}
    return Nastiness(name, does, {"/": ends, "/behind": 200}, pages, notes=("timeTrunc",))


def _coded(
    name: str, does: str, coding: str, body: Callable[[], bytes], *, readable: bool = True, note: str = ""
) -> Nastiness:
    """A page with a Content-Encoding, and a link that shows to who can read it."""

    async def handle(visit: Visit) -> None:
        await answers(body(), f"Content-Encoding: {coding}")(visit)

    ends = {"/": 200, "/behind": 200} if readable else {"/": 200}
    return Nastiness(name, does, ends, {"/": handle, "/behind": LEAF}, notes=(note,) if note else ())


# --- bombs, made of one compressed block over and over ------------------------------------------


def deflated(start: bytes, megabytes: int) -> bytes:
    """`start` and then so many megabytes of blanks, as raw deflate."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    opening = squeeze.compress(start) + squeeze.flush(zlib.Z_FULL_FLUSH)
    block = squeeze.compress(b" " * _BLOCK) + squeeze.flush(zlib.Z_FULL_FLUSH)
    return opening + block * megabytes + squeeze.flush()


@cache
def _gzip_bomb() -> bytes:
    # The checksum and length at its end are wrong: nobody should come so far.
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + deflated(_PAGE, 500) + bytes(8)


@cache
def _gzip_bomb_in_gzip() -> bytes:
    return gzip.compress(_gzip_bomb(), mtime=0)


@cache
def _deflate_bomb() -> bytes:
    return deflated(_PAGE, 500)


@cache
def _empty_members() -> bytes:
    return gzip.compress(_PAGE, mtime=0) + gzip.compress(b"", mtime=0) * 200_000


@cache
def _truncated() -> bytes:
    whole = gzip.compress(_PAGE + bytes(range(256)) * 400, mtime=0)
    return whole[: len(whole) // 2]


def _page_with_another(at: int) -> Callable[[], bytes]:
    """The page in gzip, with one byte changed."""

    def body() -> bytes:
        data = bytearray(gzip.compress(_PAGE, mtime=0))
        data[at] ^= 0xFF
        return bytes(data)

    return body


@cache
def _broken_within() -> bytes:
    squeeze = zlib.compressobj(wbits=zlib.MAX_WBITS + 16)
    whole_blocks = squeeze.compress(_PAGE) + squeeze.flush(zlib.Z_FULL_FLUSH)
    return whole_blocks + b"\x07" * 1000  # a block of a kind that does not exist


def _many_codings() -> bytes:
    body = _PAGE
    for _ in range(10):
        body = gzip.compress(body, mtime=0)
    return body


BODIES = (
    _body(
        "endless-body",
        "sends a body without end",
        200,
        says_for_ever(head(media_type="text/plain"), b"x" * 65536),
        "lenTrunc",
        "timeTrunc",
    ),
    _body(
        "drip-body",
        "sends a byte of the body every quarter of a second",
        200,
        says_for_ever(head(length=10_000), b"x", pause_s=0.25),
        "timeTrunc",
    ),
    _body(
        "endless-chunks",
        "sends chunks without end",
        200,
        says_for_ever(_CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"),
        "lenTrunc",
        "timeTrunc",
    ),
    _body(
        "tiny-chunks",
        "sends chunks of one byte without end",
        200,
        says_for_ever(_CHUNKED, b"1\r\nx\r\n" * 100, pause_s=0.02),
        "timeTrunc",
    ),
    _body(
        "endless-chunk-size",
        "sends a chunk size that never ends",
        PROTOCOL_ERROR,
        says_for_ever(_CHUNKED, b"0" * 65536),
    ),
    _body(
        "endless-chunk-extension",
        "sends a chunk extension that never ends",
        PROTOCOL_ERROR,
        says_for_ever(_CHUNKED + b"5;x=", b"y" * 65536),
    ),
    _body(
        "endless-trailer",
        "sends trailers without end",
        200,
        says_for_ever(_CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n" * 1000),
    ),
    _body(
        "bad-chunk-size",
        "has a chunk size that is not a number",
        PROTOCOL_ERROR,
        says(_CHUNKED, b"zzz\r\nhello\r\n0\r\n\r\n"),
    ),
    _body(
        "negative-chunk",
        "has a chunk of -1 bytes",
        PROTOCOL_ERROR,
        says(_CHUNKED, b"-1\r\nhello\r\n0\r\n\r\n"),
    ),
    _body(
        "chunk-overflow",
        "has a chunk of 2^80 bytes",
        PROTOCOL_ERROR,
        says(_CHUNKED, b"100000000000000000000\r\nhello\r\n0\r\n\r\n"),
    ),
    _body(
        "chunk-too-long",
        "has a chunk longer than announced",
        200,
        says(_CHUNKED, b"3\r\nhello\r\n0\r\n\r\n"),
        "disconnectTrunc",
    ),
    _body(
        "unended-chunks",
        "ends without a last chunk",
        200,
        says(_CHUNKED, b"5\r\nhello\r\n"),
        "disconnectTrunc",
    ),
    Nastiness(
        "too-short",
        "sends less than announced",
        {"/": 200, "/behind": 200},
        {"/": says(head(length=1000), _PAGE), "/behind": LEAF},
        notes=("disconnectTrunc",),
    ),
    Nastiness(
        "too-short-redirect",
        "redirects with a body shorter than announced",
        {"/": 302, "/behind": 200},
        {"/": says(head("Location: /behind", status="302 Found", length=1000), _PAGE), "/behind": LEAF},
        notes=("disconnectTrunc",),
    ),
    Nastiness(
        "unended-chunks-page",
        "has a link, and no last chunk",
        {"/": 200, "/behind": 200},
        {"/": says(_CHUNKED, b"%x\r\n%s\r\n" % (len(_PAGE), _PAGE)), "/behind": LEAF},
        notes=("disconnectTrunc",),
    ),
    _kept_open(
        "kept-open",
        "sends a page without a length, and keeps the connection",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: keep-alive\r\n\r\n",
        _PAGE,
    ),
    _kept_open(
        "kept-open-1-0",
        "does so in HTTP/1.0",
        b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n",
        _PAGE,
    ),
    _kept_open(
        "too-short-kept-open",
        "sends less than announced, and keeps the connection",
        head(length=1000),
        _PAGE,
    ),
    _kept_open(
        "unended-chunks-kept-open",
        "sends no last chunk, and keeps the connection",
        _CHUNKED,
        b"%x\r\n%s\r\n" % (len(_PAGE), _PAGE),
    ),
    _kept_open(
        "redirect-kept-open",
        "redirects, sends nothing of the body, and keeps the connection",
        head("Location: /behind", status="302 Found", length=1000),
        ends=302,
    ),
    _kept_open(
        "half-a-gzip",
        "falls silent within gzip",
        head("Content-Encoding: gzip", length=10_000),
        _broken_within()[:-1000],
    ),
    _kept_open(
        "half-a-feed",
        "falls silent within a feed",
        head(length=10_000, media_type="application/rss+xml"),
        b"<rss><channel><item><link>/behind</link></item><item><ti",
    ),
    _body(
        "body-that-never-begins",
        "falls silent behind the head",
        200,
        says_and_waits(head(length=10_000)),
        "timeTrunc",
    ),
    _body(
        "said-chunked",
        "announces chunks, and sends none",
        PROTOCOL_ERROR,
        says(_CHUNKED, _PAGE),
    ),
    _body("lf-chunks", "ends the lines of its chunks with LF alone", 200, says(_CHUNKED, b"5\nhello\n0\n")),
    _body("too-long", "sends more than announced", 200, says(head(length=3), b"<p>", b"x" * 100_000)),
    _body(
        "garbage-after",
        "sends an unrequested second answer",
        200,
        says(head(length=3), b"<p>", head(length=4), b"evil"),
    ),
    _body(
        "two-lengths",
        "announces two lengths",
        200,
        says(head("Content-Length: 5", length=6), b"hello!"),
        "ambiguousLength",
    ),
    _body("negative-length", "announces a length of -1", PROTOCOL_ERROR, says(head(length=-1), b"hello")),
    _body(
        "worded-length",
        "announces a length in words",
        PROTOCOL_ERROR,
        says(head("Content-Length: many"), b"hello"),
    ),
    _body(
        "huge-length",
        "announces a length of 10^30",
        200,
        says(head(length=10**30), b"hello"),
        "disconnectTrunc",
    ),
    _body(
        "large-length",
        "announces a length of 10^18",
        200,
        says(head(length=10**18), b"hello"),
        "disconnectTrunc",
    ),
    _body(
        "chunked-and-length",
        "announces a length and sends chunks",
        200,
        says(head("Transfer-Encoding: chunked", length=3), b"5\r\nhello\r\n0\r\n\r\n"),
        "ambiguousLength",
    ),
    _body(
        "unknown-transfer",
        "sends an unrequested transfer coding",
        PROTOCOL_ERROR,
        says(head("Transfer-Encoding: gzip, chunked"), b"5\r\nhello\r\n0\r\n\r\n"),
    ),
    _body("nothing", "answers 200 with an empty body", 200, says(head(length=0))),
    _body(
        "204-with-a-body",
        "answers 204 and sends a body",
        204,
        says(head(status="204 No Content", length=5), b"hello"),
    ),
    _coded("gzip-bomb", "sends 500 MB in 500 KB of gzip", "gzip", _gzip_bomb),
    _coded("deflate-bomb", "sends 500 MB in 500 KB of deflate", "deflate", _deflate_bomb),
    _coded("gzip-bomb-in-gzip", "sends 500 MB in a few KB, twice gzip", "gzip, gzip", _gzip_bomb_in_gzip),
    _coded("empty-gzip-members", "sends 200 000 empty gzip streams", "gzip", _empty_members),
    _coded("truncated-gzip", "breaks off within gzip", "gzip", _truncated, note="codingBroken:end"),
    _coded("broken-gzip", "has garbage within gzip", "gzip", _broken_within, note="codingBroken:data"),
    _coded(
        "gzip-checksum",
        "ends gzip with a wrong checksum",
        "gzip",
        _page_with_another(-6),
        note="codingBroken:checksum",
    ),
    _coded(
        "gzip-length",
        "ends gzip with a wrong length",
        "gzip",
        _page_with_another(-2),
        note="codingBroken:length",
    ),
    _coded("gzip-that-is-plain", "announces gzip and sends plain text", "gzip", lambda: _PAGE),
    _coded(
        "gzip-that-is-garbage",
        "announces gzip and sends garbage",
        "gzip",
        lambda: b"\x1f\x8b" + _PAGE,
        readable=False,
    ),
    _coded(
        "brotli",
        "sends a coding that the crawler did not offer",
        "br",
        lambda: _PAGE_IN_BROTLI,
        readable=False,
    ),
    _coded("brotli-that-is-plain", "announces brotli and sends plain text", "br", lambda: _PAGE),
    _coded("deflate-that-is-plain", "announces deflate and sends plain text", "deflate", lambda: _PAGE),
    _coded(
        "aws-chunked", "sends the coding with which its page was once uploaded", "aws-chunked", lambda: _PAGE
    ),
    _coded(
        "aws-chunked-gzip",
        "sends the coding with which its gzip was once uploaded",
        "gzip,aws-chunked",
        lambda: gzip.compress(_PAGE, mtime=0),
    ),
    _coded("charset-as-coding", "names a charset as its coding", "UTF-8", lambda: _PAGE),
    _coded("many-codings", "compresses ten times", ", ".join(["gzip"] * 10), _many_codings, readable=False),
    _body(
        "stalled-gzip",
        "falls silent behind the header of gzip",
        200,
        says_and_waits(
            head("Content-Encoding: gzip", length=10**6), b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
        ),
        "timeTrunc",
    ),
)
