"""Pages that are hard to read: large, deep, broken, or full of links."""

import io
import zipfile
from collections.abc import Iterable, Iterator

from practice_web.hostile.nastiness import (
    HTML,
    LEAF,
    Nastiness,
    answers,
    link,
    page,
    sends_much,
)

MEGABYTE = 1_000_000
QUOTA = 30
"""Most pages of a host that the crawl fetches."""

MALFORMED = 1
"""`url(a{b:url(` is no link by CSS Syntax 4.3.6, and one to whoever is lenient."""

_ON = link("/behind").encode()
_FOUND = {"/": 200, "/behind": 200}


def _large(
    name: str, does: str, first: bytes, piece: bytes, size: int, last: bytes = b"", *, more: int = 0
) -> Nastiness:
    """A large page; its first bytes lead on, and that must be found."""
    times = size // len(piece)

    def pieces() -> Iterator[bytes]:
        yield _ON + first
        few = max(1, 65536 // len(piece))
        for _ in range(times // few):
            yield piece * few
        yield last

    return Nastiness(name, does, _FOUND, {"/": sends_much(pieces), "/behind": LEAF}, more=more)


def _html(name: str, does: str, html: str, *found: str, media_type: str = HTML) -> Nastiness:
    """A small page, and what must be found in it; a link after the nasty part is found, too."""
    body = html.encode() + _ON
    return Nastiness(
        name,
        does,
        {"/": 200, "/behind": 200, **dict.fromkeys(found, 200)},
        {"/": answers(body, media_type=media_type), **dict.fromkeys((*found, "/behind"), LEAF)},
    )


def _many_links() -> Iterable[bytes]:
    return [b"".join(b'<a href="/%d">%d</a>\n' % (n, n) for n in range(100_000))]


def _zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("index.html", "<a href=/inside>on</a>" * 1000)
    return file.getvalue()


_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 100

_ODD_JSON = """
<script type="application/ld+json">{"url": NaN, "@id": "http://[bad", "a": "\\ud800", "a": 1e999}</script>
<script type="application/ld+json">{"url": "\\u0000</script>
"""

_ODD_LINKS = """
<a href="http://user:secret@odd-links.hostile.example:{own}/userinfo">1</a>
<a href="http://[fe80::1%25eth0]:{decoy}/zone">2</a>
<a href="http://[::1]:{decoy}/loopback">3</a>
<a href="http://127.0.0.1:{decoy}/loopback">4</a>
<a href="http://odd%2Dlinks.hostile.example:{own}/escaped-host">5</a>
<a href="http://\u043edd-links.hostile.example:{own}/cyrillic">6</a>
<a href="http://xn--\u00fc.hostile.example/">7</a>
<a href="http://\uff4fdd-links.hostile.example:{own}/fullwidth">8</a>
<a href="http://odd-links.hostile.example:{own}/a&#0;b">9</a>
<a href="/surrogate-&#xD800;">10</a>
<a href="http://a..b.example/">11</a>
<a href="http://a b.example/">12</a>
<a href="http://%00.example/">13</a>
<a href="http:///odd-links.hostile.example:{own}/slashes">14</a>
<a href="http://odd-links.hostile.example:{own}@127.0.0.1:{decoy}/userinfo-as-host">15</a>
<a href="http://127.0.0.1:{decoy}\\@odd-links.hostile.example:{own}/backslash">16</a>
<a href="view-source:http://127.0.0.1:{decoy}/">17</a>
<a href="ht&#9;tp://odd-links.hostile.example:{own}/tab">18</a>
<a href="/%">19</a>
<a href="/%zz">20</a>
<a href="/&#x202E;lmth.live">21</a>
<a href="http://127.0.0.1:0{decoy}/port-with-zero">22</a>
"""
_ODD_PATHS = (
    "/userinfo",
    "/escaped-host",
    "/fullwidth",
    "/slashes",
    "/tab",
    "/surrogate-%EF%BF%BD",
    "/%E2%80%AElmth.live",
    "/a%EF%BF%BDb",
    "/%",
    "/%zz",
)

PAGES = (
    _large("div-50-mb", "has 50 MB of <div>", b"", b"<div>", 50 * MEGABYTE),
    _large("unclosed-comment", "has a comment of 20 MB that never ends", b"<!--", b"- ", 20 * MEGABYTE),
    _large(
        "unclosed-script", "has a script of 20 MB that never ends", b"<script>", b"</scrip ", 20 * MEGABYTE
    ),
    _large("unclosed-tag", "has a tag of 2 MB that never ends", b"<a href=", b"x", 2 * MEGABYTE),
    _large("open-angles", "has 2 MB of <", b"", b"<", 2 * MEGABYTE),
    _large("huge-attribute", "has an attribute of 10 MB", b'<p title="', b"&amp", 10 * MEGABYTE, b'">'),
    _large("many-attributes", "has a tag of 100 000 attributes", b"<p ", b"a1=b ", 500_000, b">"),
    _large(
        "same-attributes",
        "has a tag of 250 000 times the same attribute",
        b"<a ",
        b"rel=x ",
        1_500_000,
        b"=>",
    ),
    _large("huge-tag-name", "has a tag whose name has 1 MB", b"<", b"a", MEGABYTE, b">"),
    _large("entities", "has 1 MB of character references", b"<p>", b"&#x41;&notit;", MEGABYTE),
    _large("nul-bytes", "has 1 MB of NUL", b"<p>", b"\0", MEGABYTE),
    _large("srcset-bomb", "has an image in 250 000 sizes", b'<img srcset="', b", ,,", MEGABYTE, b'">'),
    _large(
        "style-bomb", "has a style attribute of 5 MB", b'<p style="', b"background:url(", 5 * MEGABYTE, b'">'
    ),
    _large(
        "inline-css",
        "contains a style sheet of 5 MB",
        b"<style>",
        b"a{b:url(",
        5 * MEGABYTE,
        b"</style>",
        more=MALFORMED,
    ),
    _large("lazy-bomb", "has a lazy image in 250 000 sizes", b'<img data-srcset="', b", ,,", MEGABYTE, b'">'),
    _large(
        "data-uri",
        "contains an image of 5 MB (data:)",
        b'<img src="data:image/png;base64,',
        b"AAAA",
        5 * MEGABYTE,
        b'">',
    ),
    _large("bases", "sets the base of its links 100 000 times", b"", b"<base href=x>", 1_300_000),
    _large(
        "robots-meta",
        "has 1 MB of directives for robots",
        b'<meta name="robots" content="',
        b"noindex,",
        MEGABYTE,
        b'">',
    ),
    _large("deep-lists", "has 100 000 lists within lists", b"", b"<ul><li>", 800_000),
    _large("noscripts", "has 100 000 noscripts within noscripts", b"", b"<noscript>", MEGABYTE),
    _large("templates", "has 100 000 templates within templates", b"", b"<template>", MEGABYTE),
    _large("formatting", "has 100 000 unclosed formatting elements", b"", b"<b><i><a>", 300_000),
    _large(
        "json-ld-deep",
        "has JSON-LD that is 100 000 arrays deep",
        b'<script type="application/ld+json">',
        b"[",
        100_000,
        b"]" * 100_000 + b"</script>",
    ),
    _html(
        "json-ld-odd",
        "has invalid JSON-LD",
        _ODD_JSON,
    ),
    _large(
        "json-ld-digits",
        "has JSON-LD with a number of 1 000 000 digits",
        b'<script type="application/ld+json">{"url":',
        b"9",
        MEGABYTE,
        b"}</script>",
    ),
    Nastiness(
        "links-100000",
        "has 100 000 links",
        {"/": 200, "/0": 200},
        {"/": sends_much(_many_links)},
        otherwise=LEAF,
        more=QUOTA,
    ),
    _large(
        "links-100-kb",
        "has links of 100 KB",
        b"",
        b'<a href="/' + b"x" * 100_000 + b'">long</a>',
        2 * MEGABYTE,
    ),
    Nastiness(
        "odd-links",
        "has links with users, zones, surrogates, homographs, escapes in the host",
        {"/": 200, **dict.fromkeys(_ODD_PATHS, 200)},
        {"/": page(_ODD_LINKS), **dict.fromkeys(_ODD_PATHS, LEAF)},
    ),
    _html(
        "refresh-to-itself", "refreshes to itself at once", '<meta http-equiv="refresh" content="0; url=/">'
    ),
    _html(
        "refresh-odd",
        "refreshes in 10^400 seconds to a script",
        f'<meta http-equiv=refresh content="{"9" * 400};url=javascript:x">',
    ),
    Nastiness(
        "refresh-header",
        "refreshes to itself at once, by a header",
        {"/": 200},
        {"/": answers(b"<p>", "Refresh: 0; url=/")},
    ),
    Nastiness(
        "link-header",
        "has 60 KB of links that never close in a header",
        {"/": 200},
        {"/": answers(b"<p>", "Link: " + "<x" * 30_000)},
    ),
    Nastiness(
        "base-elsewhere",
        "sets the base of its links to the crawler's own machine",
        {"/": 200},
        {"/": page('<base href="http://127.0.0.1:{decoy}/base/">' + link("behind")), "/behind": LEAF},
    ),
    _html("base-script", "sets the base of its links to a script", '<base href="javascript:alert(1)//">'),
    _html("base-data", "sets the base of its links to data", '<base href="data:text/html,x">'),
    Nastiness("image-as-html", "labels an image as HTML", {"/": 200}, {"/": answers(_PNG)}),
    Nastiness("zip-as-html", "labels a zip file as HTML", {"/": 200}, {"/": answers(_zipped())}),
    Nastiness(
        "html-as-image",
        "labels HTML as an image",
        {"/": 200},
        {"/": answers(_ON, media_type="image/png"), "/behind": LEAF},
    ),
    *(
        Nastiness(
            name,
            does,
            _FOUND,
            {"/": answers(b"<!DOCTYPE html>" + _ON, media_type=media_type), "/behind": LEAF},
            notes=("sniffed:html",),
        )
        for name, does, media_type in (
            ("no-type", "sends no media type", ""),
            ("quoted-type", "has its media type in quotes", '"text/html"'),
            ("misspelt-type", "misspells its media type", "text/hmtl"),
            ("any-type", "labels HTML as an arbitrary file", "application/octet-stream"),
        )
    ),
)
