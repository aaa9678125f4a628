"""The links of a fetched document: what kind of document it is, and how much of it is read.

Never raises for what a document holds, and takes time in proportion to its length. Redirects are not
looked at; their target is in the Fetch.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

from . import sitemap
from .decode import decoding
from .fetch import ExtractSettings, Fetch
from .html_links import html_links
from .links import MAX_LINKS, Base, Found, Outlink

MAX_HTML_BYTES = 8 * 1024 * 1024
"""The part of an HTML document, decoded, in which links are looked for."""

_LARGE_BYTES = 1024 * 1024
# Text and tokens take several times a document's size, so few large ones are in memory at a time.
_large_documents = threading.BoundedSemaphore(2)

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_XML_TYPES = frozenset({"application/xml", "text/xml"})
_GZIP_TYPES = frozenset({"application/gzip", "application/x-gzip"})
_XML_NAME = re.compile(r"\.xml\.gz$", re.IGNORECASE)
_LIST_NAME = re.compile(r"sitemap[^/]*\.txt$", re.IGNORECASE)
_ROOT = re.compile(rb"<(?:[\w.-]{1,100}:)?([\w.-]{1,100})")


def outlinks(fetch: Fetch, settings: ExtractSettings, product_token: str) -> Found:
    """The links of what was fetched, its body decoded.

    HTML (see MAX_HTML_BYTES) and sitemaps (see sitemap.MAX_BYTES) have links: each URI once, in the order
    of appearance, at most `max_links` of an HTML document, and of a sitemap as many as a sitemap may have.
    A Content-Encoding that the server was not offered hides them.
    """
    encoding = fetch.content_encoding
    if fetch.media_type in _GZIP_TYPES:
        encoding = "gzip," + encoding  # the file itself was zipped
    pieces = decoding(fetch.body, encoding, sitemap.MAX_BYTES)
    if pieces is None:
        return Found([])
    return Found(_links(fetch.uri, fetch.media_type, fetch.charset, pieces, settings.max_links))


def extract(
    base_uri: str, media_type: str, charset: str | None, body: bytes, max_links: int = MAX_LINKS
) -> list[Outlink]:
    """As `outlinks`, of a decoded body found at `base_uri`. `charset` is what its Content-Type says."""
    return _links(base_uri, media_type, charset, iter((body[: sitemap.MAX_BYTES],)), max_links)


def _links(
    uri: str, media_type: str, charset: str | None, pieces: Iterator[bytes], max_links: int
) -> list[Outlink]:
    try:
        base = Base(uri)
        path = urlsplit(uri).path
    except ValueError:
        return []
    if media_type in _HTML_TYPES:
        return _html(base, charset, pieces, max_links)
    if media_type in _XML_TYPES or (media_type in _GZIP_TYPES and _XML_NAME.search(path)):
        first = next(pieces, b"")
        root = _ROOT.search(first, 0, 4096)
        if root is not None and root[1].lower() == b"html":
            return _html(base, charset, _again(first, pieces), max_links)
        return sitemap.links_of_xml(base, _again(first, pieces))
    if media_type == "text/plain" and _LIST_NAME.search(path):
        return sitemap.links_of_list(base, pieces)
    return []


def _html(base: Base, charset: str | None, pieces: Iterator[bytes], max_links: int) -> list[Outlink]:
    body = bytearray()
    with ExitStack() as turn:
        for piece in pieces:
            if len(body) <= _LARGE_BYTES < len(body) + len(piece):
                turn.enter_context(_large_documents)
            body += piece
            if len(body) >= MAX_HTML_BYTES:
                break
        return html_links(base, charset, bytes(body[:MAX_HTML_BYTES]), max_links)


def _again(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
