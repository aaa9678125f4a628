"""Sitemaps, feeds and style sheets that bite."""

from collections.abc import Iterator, Mapping
from functools import cache

from practice_web.hostile.bodies import deflated
from practice_web.hostile.nastiness import LEAF, Handler, Nastiness, Visit, answers, link, page, sends_much
from practice_web.hostile.pages import MALFORMED

_XML, _RSS, _CSS = "application/xml", "application/rss+xml", "text/css"
_FOUND = {"/behind": 200}
_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'

_LAUGHS = (
    "<!DOCTYPE x [<!ENTITY l0 'ha'>"
    + "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 15))
    + "]>"
)
_OUTER = (
    "<!DOCTYPE x [<!ENTITY file SYSTEM 'file:///etc/passwd'>"
    "<!ENTITY net SYSTEM 'http://127.0.0.1:{decoy}/entity'>"
    "<!ENTITY % dtd SYSTEM 'http://127.0.0.1:{decoy}/dtd'> %dtd;]>"
)


def _linked(
    name: str,
    does: str,
    path: str,
    handler: Handler,
    found: Mapping[str, int] | None = None,
    *,
    more: int = 0,
) -> Nastiness:
    """A document that the first page leads to; `found` are the ends of what it leads to itself."""
    leaves = dict.fromkeys(found or {}, LEAF)
    ends = {"/": 200, path: 200, **(found or {})}
    return Nastiness(name, does, ends, {"/": page(link(path)), **leaves, path: handler}, more=more)


def _urlset(*locations: str, prolog: str = "") -> bytes:
    entries = "".join(f"<url><loc>{location}</loc></url>" for location in locations)
    return f"{prolog}<urlset {_NAMESPACE}>{entries}</urlset>".encode()


def _filled(body: str, media_type: str) -> Handler:
    """A document with ports filled in."""

    async def handle(visit: Visit) -> None:
        await answers(visit.ports.fill(body).encode(), media_type=media_type)(visit)

    return handle


@cache
def _zipped_bomb() -> bytes:
    start = f"<urlset {_NAMESPACE}><url><loc>/behind</loc></url>".encode()
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + deflated(start, 500) + bytes(8)


async def _bomb(visit: Visit) -> None:
    await answers(_zipped_bomb(), media_type="application/gzip")(visit)


def _deep() -> Iterator[bytes]:
    yield f"<urlset {_NAMESPACE}><url><loc>/behind</loc></url>".encode()
    yield from [b"<a>" * 20_000] * 50


def _unclosed() -> Iterator[bytes]:
    yield f"<urlset {_NAMESPACE}><url><loc>/behind</loc></url><!--".encode()
    yield from [b"- " * 32_768] * 150


def _locations() -> Iterator[bytes]:
    yield f"<urlset {_NAMESPACE}>".encode()
    yield b"<url><loc>http://127.0.0.1/not-in-scope</loc></url>" * 60_000


def _css(piece: bytes, size: int) -> Handler:
    return sends_much(lambda: [b"a{b:url(/behind)}", piece * (size // len(piece))], media_type=_CSS)


def _feed(prolog: str, title: str) -> str:
    item = "<item><link>/behind</link></item>"
    return f"{prolog}<rss version='2.0'><channel><title>{title}</title>{item}</channel></rss>"


_ITEM = b"<rss version='2.0'><channel><item><link>/behind</link></item>"


_BROKEN = "<url><loc>http://\xe9.hostile.example/?a&b&nbsp;</url></b>\x01<x:y><"


def _unclosed_feed() -> Iterator[bytes]:
    yield _ITEM + b"<item><title><![CDATA["
    yield from [b"] ]>" * 12_500] * 100


def _deep_feed() -> Iterator[bytes]:
    yield _ITEM + b"<item>" * 100_000


DOCUMENTS = (
    _linked(
        "sitemap-laughs",
        "has a sitemap of a billion laughs",
        "/sitemap.xml",
        answers(_urlset("/&l14;", prolog=_LAUGHS), media_type=_XML),
    ),
    _linked(
        "sitemap-entities",
        "has a sitemap whose entities are a file and a URI of the crawler's machine",
        "/sitemap.xml",
        _filled(_urlset("/?&file;", "/?&net;", prolog=_OUTER).decode(), _XML),
    ),
    _linked(
        "sitemap-of-itself",
        "has a sitemap index that names itself",
        "/sitemap.xml",
        answers(
            f"<sitemapindex {_NAMESPACE}><sitemap><loc>/sitemap.xml</loc></sitemap></sitemapindex>".encode(),
            media_type=_XML,
        ),
    ),
    _linked(
        "sitemap-bomb",
        "has a sitemap of 500 MB in 500 KB of gzip",
        "/sitemap.xml.gz",
        _bomb,
        _FOUND,
    ),
    _linked(
        "sitemap-deep",
        "has a sitemap 1 000 000 elements deep",
        "/sitemap.xml",
        sends_much(_deep, media_type=_XML),
        _FOUND,
    ),
    _linked(
        "sitemap-unclosed",
        "has a sitemap with a comment of 10 MB that never ends",
        "/sitemap.xml",
        sends_much(_unclosed, media_type=_XML),
        _FOUND,
    ),
    _linked(
        "sitemap-of-others",
        "has a sitemap of 60 000 pages of the crawler's own machine",
        "/sitemap.xml",
        sends_much(_locations, media_type=_XML),
    ),
    _linked(
        "sitemap-codec",
        "has a sitemap that declares a codec of Python as its charset",
        "/sitemap.xml",
        answers(
            _urlset("/behind", prolog='<?xml version="1.0" encoding="unicode_escape"?>'), media_type=_XML
        ),
        _FOUND,
    ),
    _linked(
        "sitemap-broken",
        "has a sitemap that is broken in every entry",
        "/sitemap.xml",
        answers(
            f"<urlset {_NAMESPACE}>{_BROKEN * 1000}<url><loc>/behind?a&b</loc></url></urlset>".encode(
                "latin-1"
            ),
            media_type=_XML,
        ),
        {"/behind?a&b": 200},
    ),
    _linked(
        "sitemap-lines",
        "has a plain sitemap with a line of 10 MB",
        "/sitemap.txt",
        sends_much(lambda: [b"http://", b"x" * 10_000_000], media_type="text/plain"),
    ),
    _linked(
        "feed-laughs",
        "has a feed of a billion laughs",
        "/feed",
        answers(_feed(_LAUGHS, "&l14;").encode(), media_type=_RSS),
        _FOUND,
    ),
    _linked(
        "feed-entities",
        "has a feed with entities from elsewhere",
        "/feed",
        _filled(_feed(_OUTER, "&file;&net;"), _RSS),
        _FOUND,
    ),
    _linked(
        "feed-broken",
        "has a feed with HTML and a form feed in it",
        "/feed",
        answers(
            _feed("", "a</b><p>&nbsp;<br>\f<").encode(),
            media_type="text/html",
        ),
        _FOUND,
    ),
    _linked(
        "feed-unclosed",
        "has a feed with 5 MB of character data that never ends",
        "/feed",
        sends_much(_unclosed_feed, media_type=_RSS),
        _FOUND,
    ),
    _linked(
        "feed-deep",
        "has a feed 100 000 elements deep",
        "/feed",
        sends_much(_deep_feed, media_type=_RSS),
        _FOUND,
    ),
    _linked(
        "css-unclosed",
        "has a style sheet with 5 MB of url( that never close",
        "/style.css",
        _css(b"url(", 5_000_000),
        _FOUND,
        more=MALFORMED,
    ),
    _linked(
        "css-escapes",
        "has a style sheet with 5 MB of escapes",
        "/style.css",
        _css(b"\\61 \\", 5_000_000),
        _FOUND,
    ),
    _linked(
        "css-comments",
        "has a style sheet with 5 MB of comments within comments",
        "/style.css",
        _css(b"/*/", 5_000_000),
        _FOUND,
    ),
    _linked(
        "css-imports",
        "has a style sheet that imports itself",
        "/style.css",
        answers(b'@import "style.css"; @import url(/style.css);', media_type=_CSS),
    ),
)
