"""A robots.txt that is none, has no end, or is there to make its reader work."""

import gzip
from collections.abc import Iterator

from practice_web.hostile.connections import CONNECT_LOST, NO_ROBOTS, PROTOCOL_ERROR, TIMEOUT
from practice_web.hostile.nastiness import (
    LEAF,
    Handler,
    Nastiness,
    Visit,
    answers,
    head,
    link,
    page,
    redirect,
    says,
    says_and_waits,
    says_for_ever,
    sends_much,
)
from practice_web.hostile.redirects import UNFETCHABLE

ROBOTS_TXT = "/robots.txt"
PRECLUDED = -9998
MAX_ROBOTS_BYTES = 500 * 1024

_TEXT = "text/plain"
_RULES = b"User-agent: *\nDisallow: /closed\n"
_HOME = page(link("/closed"))
_OPEN, _CLOSED = {"/": 200, "/closed": 200}, {"/": 200, "/closed": PRECLUDED}


def _robots(name: str, does: str, ends: dict[str, int], handler: Handler) -> Nastiness:
    return Nastiness(f"robots-{name}", does, ends, {ROBOTS_TXT: handler, "/": _HOME, "/closed": LEAF})


def _text(body: bytes, *headers: str) -> Handler:
    return answers(body, *headers, media_type=_TEXT)


def _ten_megabytes() -> Iterator[bytes]:
    yield _RULES
    for _ in range(1000):
        yield b"# nothing to see here\n" * 500
    yield b"User-agent: *\nDisallow: /\n"  # beyond what must be read, and so unread


_STARS = b"User-agent: *\n" + b"Disallow: /" + b"*a" * 500 + b"b\n"

_SITEMAP = b"<?xml version='1.0'?><urlset><url><loc>/behind</loc></url></urlset>"


async def _names_a_sitemap(visit: Visit) -> None:
    sitemap = visit.ports.fill("Sitemap: http://robots-sitemap.hostile.example:{own}/list\n")
    await _text(sitemap.encode())(visit)


ROBOTS = (
    _robots(
        "10-mb",
        "has 10 MB, with the rules that count at the beginning",
        _CLOSED,
        sends_much(_ten_megabytes, media_type=_TEXT),
    ),
    _robots("one-line", "has a line of 5 MB", _CLOSED, _text(_RULES + b"Disallow: /" + b"x" * 5_000_000)),
    _robots("many-rules", "has 40 000 rules", _CLOSED, _text(_RULES + b"Disallow: /x\n" * 40_000)),
    _robots(
        "many-groups", "has 20 000 groups", _CLOSED, _text(_RULES + b"User-agent: x\nDisallow: /\n" * 20_000)
    ),
    _robots("html", "is a page of HTML", _OPEN, answers(b"<!DOCTYPE html><h1>Welcome!</h1>")),
    _robots("binary", "is an image", _OPEN, _text(bytes(range(256)) * 100)),
    _robots("nul", "has NUL bytes between its lines", _CLOSED, _text(b"\0\0\n" + _RULES + b"\0")),
    _robots("loop", "redirects forever", _OPEN, redirect(ROBOTS_TXT)),
    _robots(
        "to-loopback",
        "redirects to the crawler's own machine",
        {ROBOTS_TXT: UNFETCHABLE, "/": UNFETCHABLE},
        redirect("http://127.0.0.1:{decoy}/robots.txt"),
    ),
    _robots("to-file", "redirects to a file", _OPEN, redirect("file:///etc/passwd")),
    _robots(
        "endless",
        "goes on without end",
        _CLOSED,
        says_for_ever(head(media_type=_TEXT) + _RULES, b"# more\n" * 10_000),
    ),
    _robots("cut", "breaks off", _CLOSED, says(head(length=1000, media_type=_TEXT), _RULES)),
    _robots(
        "cut-permission",
        "breaks off in a line that then permits more than intended",
        _CLOSED,
        says(head(length=1000, media_type=_TEXT), _RULES + b"Allow: /closed"),
    ),
    _robots(
        "cut-at-once",
        "breaks off before its first byte",
        {ROBOTS_TXT: CONNECT_LOST, "/": NO_ROBOTS},
        says(head(length=1000, media_type=_TEXT)),
    ),
    _robots(
        "half",
        "falls silent within its rules",
        {ROBOTS_TXT: TIMEOUT, "/": NO_ROBOTS},
        says_and_waits(head(length=1000, media_type=_TEXT), b"User-agent: *\nDisallow: /other\n"),
    ),
    _robots(
        "missing-kept-open",
        "is missing, says so without a length, and keeps the connection",
        _OPEN,
        says_and_waits(head(status="404 Not Found"), b"<p>Nothing here."),
    ),
    _robots("503", "is always unavailable", {"/": NO_ROBOTS}, answers(b"", status="503 Service Unavailable")),
    _robots(
        "aws-chunked",
        "sends the coding with which it was once uploaded",
        _CLOSED,
        _text(_RULES, "Content-Encoding: aws-chunked"),
    ),
    _robots(
        "charset-as-coding",
        "names a charset as its coding",
        _CLOSED,
        _text(_RULES, "Content-Encoding: UTF-8"),
    ),
    _robots(
        "brotli-that-is-plain",
        "announces brotli and is plain text",
        _CLOSED,
        _text(_RULES, "Content-Encoding: br"),
    ),
    _robots(
        "deflate-that-is-plain",
        "announces deflate and is plain text that begins like deflate",
        _CLOSED,
        _text(b"# Rules\n" + _RULES, "Content-Encoding: deflate"),
    ),
    _robots(
        "unknown-coding",
        "is in a coding that the crawler did not offer",
        {ROBOTS_TXT: PROTOCOL_ERROR, "/": NO_ROBOTS},
        _text(bytes(range(256)), "Content-Encoding: br"),
    ),
    _robots(
        "broken-gzip",
        "announces gzip and has only its beginning",
        {ROBOTS_TXT: PROTOCOL_ERROR, "/": NO_ROBOTS},
        _text(b"\x1f\x8b\x08\x00\x00", "Content-Encoding: gzip"),
    ),
    _robots("empty", "has no bytes", _OPEN, _text(b"")),
    _robots("garbage", "is not HTTP", {"/": NO_ROBOTS}, says(b"!\r\n\r\n")),
    _robots(
        "crawl-delay",
        "asks for a delay of 10^300 seconds",
        _CLOSED,
        _text(_RULES + b"Crawl-delay: 1" + b"0" * 300 + b"\n"),
    ),
    _robots(
        "crawl-delay-odd",
        "asks for invalid delays",
        _CLOSED,
        _text(_RULES + b"Crawl-delay: nan\nCrawl-delay: -inf\nCrawl-delay: 1e999\n"),
    ),
    _robots("utf-16", "is in UTF-16", _OPEN, _text(_RULES.decode().encode("utf-16"))),
    Nastiness(
        "robots-stars",
        "has a pattern of 500 stars, which is cut and therefore forbids more",
        {"/": 200, "/" + "a" * 2000: PRECLUDED},
        {ROBOTS_TXT: _text(_STARS), "/": page(link("/" + "a" * 2000)), "/" + "a" * 2000: LEAF},
    ),
    Nastiness(
        "robots-sitemap",
        "names a sitemap that is labelled HTML, zipped, and preceded by a warning",
        {"/": 200, "/list": 200, "/behind": 200},
        {
            ROBOTS_TXT: _names_a_sitemap,
            "/": LEAF,
            "/list": answers(gzip.compress(b"<b>Warning</b>\n" + _SITEMAP)),
            "/behind": LEAF,
        },
    ),
)
