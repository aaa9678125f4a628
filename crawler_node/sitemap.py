"""The URIs that sites list for crawlers: sitemaps (https://www.sitemaps.org/protocol.html) in XML and as
plain lists, and the sitemaps that robots.txt names.
"""

import re
from collections.abc import Iterable, Iterator
from xml.parsers import expat

from .links import MAX_URI_BYTES, Base, Hop, Outlink, absolute

MAX_BYTES = 50 * 1024 * 1024
"""The part of a sitemap, decoded, that is read; the protocol allows no more."""

MAX_URIS = 50_000
"""URIs taken from one sitemap; the protocol allows no more."""

MAX_ROBOTS_SITEMAPS = 100
"""Sitemaps taken from one robots.txt."""

_PIECE_BYTES = 64 * 1024
_MAX_DEPTH = 32
# The XML parser looks at an unfinished tag, comment or the like again for every piece that is added to it.
_MAX_TOKEN_BYTES = 256 * 1024
_ENTRIES = {"urlset": "url", "sitemapindex": "sitemap"}
_ABSOLUTE = re.compile(rb"\s*+https?:", re.IGNORECASE)
_SITEMAP_LINE = re.compile(rb"[ \t]*+sitemap[ \t]*+:[ \t]*+([^\r\n#]++)", re.IGNORECASE)


def links_of_xml(base: Base, pieces: Iterable[bytes]) -> list[Outlink]:
    """The URIs of a sitemap or sitemap index given in pieces; empty for other XML.

    Broken XML gives what comes before the break. A document type is taken for a break: sitemaps have none,
    and entities are what XML is attacked with.
    """
    return _outlinks(base, _SitemapReader().locations(pieces), "loc", MAX_URIS)


def links_of_list(base: Base, pieces: Iterable[bytes]) -> list[Outlink]:
    """The URIs of a sitemap that is a plain text of one URI a line; other lines are passed over."""
    lines = (line.strip() for line in _lines(pieces))
    references = (
        line.decode("utf-8", "replace") for line in lines if line[:5].lower() in (b"http:", b"https")
    )
    return _outlinks(base, references, "line", MAX_URIS)


def sitemaps_of_robots(body: bytes) -> list[str]:
    """The sitemaps that a decoded robots.txt names, for whatever group, up to MAX_ROBOTS_SITEMAPS."""
    found: dict[str, None] = {}
    for line in body.splitlines():
        match = _SITEMAP_LINE.match(line)
        uri = match and absolute(match[1].decode("utf-8", "replace"))
        if uri:
            found[uri] = None
            if len(found) == MAX_ROBOTS_SITEMAPS:
                break
    return list(found)


class _NoSitemap(Exception):
    """Nothing more is to be had from this XML."""


class _SitemapReader:
    """Picks the locations out of a sitemap while it is parsed; no tree, so memory does not grow."""

    def __init__(self) -> None:
        # A sitemap is in UTF-8, whatever it declares; a declared name would be looked up among Python's
        # codecs, which remember every name they lack.
        parser = expat.ParserCreate("UTF-8", " ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        self._parser = parser
        self._depth = 0
        self._tags = 0
        self._entry = self._location = ""
        self._in_entry = False
        self._text: list[str] | None = None  # of the location that we are in
        self._found: list[str] = []

    def locations(self, pieces: Iterable[bytes]) -> Iterator[str]:
        tags = unfinished = 0
        for piece in _small(pieces):
            try:
                self._parser.Parse(piece, False)
            except (expat.ExpatError, _NoSitemap):
                break
            unfinished = unfinished + len(piece) if self._tags == tags else 0
            if unfinished > _MAX_TOKEN_BYTES:
                break
            tags = self._tags
            yield from self._found
            self._found.clear()
        yield from self._found

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._tags += 1
        self._depth += 1
        if self._depth == 1:
            namespace, space, local = name.rpartition(" ")
            if local not in _ENTRIES:
                raise _NoSitemap
            self._entry = namespace + space + _ENTRIES[local]
            self._location = namespace + space + "loc"
        elif self._depth == 2:
            self._in_entry = name == self._entry
        elif self._depth == 3 and self._in_entry and name == self._location:
            self._text = []
        elif self._depth > _MAX_DEPTH:
            raise _NoSitemap

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, name: str) -> None:
        self._tags += 1
        self._depth -= 1
        if self._depth == 2 and self._text is not None:
            self._found.append("".join(self._text))
            self._text = None

    def _doctype(self, *declaration: object) -> None:
        raise _NoSitemap


def _outlinks(base: Base, references: Iterable[str], context: str, limit: int) -> list[Outlink]:
    found: dict[str, Outlink] = {}
    for reference in references:
        if len(found) >= limit:
            break
        uri = base.resolve(reference)
        if uri is not None:
            found.setdefault(uri, Outlink(uri, Hop.SITEMAP, context))
    return list(found.values())


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in _small(pieces):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        rest = rest[: MAX_URI_BYTES + 1]  # a longer line stays too long
    yield rest


def _small(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        for at in range(0, len(piece), _PIECE_BYTES):
            yield piece[at : at + _PIECE_BYTES]
