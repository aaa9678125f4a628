"""The links of what was fetched: what kind of document it is, and which extractor reads that kind.

Takes time in proportion to a document's length. A document that breaks an extractor costs what this one
would have found. Redirects are not looked at; their target is in the Fetch.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import chain

from ..fetching.fetch import ExtractSettings, Fetch
from . import sitemap
from .charset import xml_charset
from .css_links import css_references, declared_charset
from .document import ZIPPED_TYPES, Document
from .feed_links import feed_links
from .header_links import header_references
from .html_links import html_links
from .json_links import json_references
from .links import FOLLOWED, Found, Hop, Outlink
from .script_links import SCRIPT_TYPES, script_references

MAX_LINK_BYTES = 8 * 1024 * 1024
"""URI bytes of one document's links: a short document at a long URI, or with a long base, can have many."""


class Kind(StrEnum):
    """A kind of document. `extractorFailed:` names extractors by it."""

    HTML = "html"
    XHTML = "xhtml"
    """HTML or SVG in XML, which declares its charset and closes its elements in another way."""
    CSS = "css"
    FEED = "feed"
    SITEMAP = "sitemap"
    SITEMAP_LIST = "list"
    JSON_LD = "json"
    SCRIPT = "javascript"


_KINDS: dict[str, Kind] = {
    "text/html": Kind.HTML,
    "application/xhtml+xml": Kind.XHTML,
    "text/css": Kind.CSS,
    "application/ld+json": Kind.JSON_LD,
    **dict.fromkeys((media_type for media_type in SCRIPT_TYPES if "/" in media_type), Kind.SCRIPT),
}
# XML is what its root element says, whatever media type it has.
_ROOTS: dict[bytes, Kind] = {
    **dict.fromkeys((b"html", b"svg"), Kind.XHTML),
    **dict.fromkeys((b"urlset", b"sitemapindex"), Kind.SITEMAP),
    **dict.fromkeys((b"rss", b"feed", b"rdf"), Kind.FEED),
}
_XML_TYPES = frozenset({"application/xml", "text/xml", "text/rss", "text/atom", "text/rdf"})
_UNTOLD_TYPES = ZIPPED_TYPES | {"", "application/octet-stream"}  # which say nothing of what was zipped
_LIST_NAME = re.compile(r"sitemap[^/]*\.txt$", re.IGNORECASE)
_ROOT = re.compile(
    rb"""
    (?: [^<]++
      | <\?(?:[^?]++|\?(?!>))*+\?>
      | <!--(?:[^-]++|-(?!->))*+-->
      | <![^>\[]*+(?:\[[^\]]*+\][^>]*+)?>
    )*+
    <(?:[\w.-]{1,100}:)?([\w.-]{1,100})
    """,
    re.VERBOSE,
)
_ROOT_WITHIN_BYTES = 16 * 1024


def outlinks(fetch: Fetch, settings: ExtractSettings, product_token: str) -> Found:
    """The links of what was fetched: those of its body, then those of its headers, each URI once, as it is
    found first.

    At most `settings.max_links`, of a sitemap sitemap.MAX_URIS, and MAX_LINK_BYTES. `product_token` is our
    name in rules for robots. The notes are `nofollow`, if links were left out because such a rule says so,
    `extractorFailed:<name>` for each extractor that it broke, which is logged as well, and `linksCut`, if
    there are more bytes of links than that.
    """
    try:
        document = Document(fetch, settings, product_token)
    except ValueError:
        return Found([])
    with document:
        kind = _kind_of(document)
        body = iter(()) if kind is None else document.attempt(kind, _EXTRACTORS[kind], document)
        # After the body, which may forbid to follow these as well.
        head = document.attempt("header", _header_links, document)
        limit = sitemap.MAX_URIS if kind in (Kind.SITEMAP, Kind.SITEMAP_LIST) else settings.max_links
        found: dict[str, Outlink] = {}
        notes: list[str] = []
        left_bytes = MAX_LINK_BYTES
        for link in chain(body, head):
            if len(found) >= limit:
                break
            if link.uri in found or (link.hop in FOLLOWED and not document.follow):
                continue
            left_bytes -= len(link.uri)
            if left_bytes < 0:
                notes.append("linksCut")
                break
            found[link.uri] = link
        if not document.follow:
            notes.append("nofollow")
        notes += [f"extractorFailed:{name}" for name in document.broken]
        return Found(list(found.values()), tuple(notes), document.error)


def _kind_of(document: Document) -> Kind | None:
    media_type = document.fetch.media_type
    kind = _KINDS.get(media_type)
    if kind is not None:
        return kind if kind is not Kind.SCRIPT or document.settings.javascript else None
    if media_type == "text/plain":
        return Kind.SITEMAP_LIST if _LIST_NAME.search(document.path) else None
    if (
        media_type in _XML_TYPES
        or media_type.endswith("+xml")
        or (media_type in _UNTOLD_TYPES and document.has_zipped_name)
    ):
        # Without zeros UTF-16 reads as ASCII, as far as tags are concerned.
        beginning = document.beginning()[:_ROOT_WITHIN_BYTES].replace(b"\0", b"")
        root = _ROOT.match(beginning)
        return _ROOTS.get(root[1].lower()) if root else None
    return None


def _header_links(document: Document) -> Iterator[Outlink]:
    return document.links(header_references(document.fetch, document.settings.obey_nofollow))


def _html(document: Document) -> Iterator[Outlink]:
    return html_links(document, document.text())


def _xhtml(document: Document) -> Iterator[Outlink]:
    return html_links(document, document.text(xml_charset), is_xml=True)


def _css(document: Document) -> Iterator[Outlink]:
    css = document.text(declared_charset)
    return document.links((reference, Hop.EMBED, "css") for reference in css_references(css))


def _feed(document: Document) -> Iterator[Outlink]:
    return feed_links(document.base, document.text(xml_charset))


def _sitemap(document: Document) -> Iterator[Outlink]:
    now_ms = document.fetch.start_time_ms if document.settings.sitemap_lastmod else None
    return sitemap.links_of_xml(document.base, document.pieces(), now_ms)


def _sitemap_list(document: Document) -> Iterator[Outlink]:
    return sitemap.links_of_list(document.base, document.pieces())


def _json_ld(document: Document) -> Iterator[Outlink]:
    return document.links((*found, "json-ld") for found in json_references(document.text()))


def _script(document: Document) -> Iterator[Outlink]:
    found = script_references(document.text(), inline=False)
    return document.links((reference, Hop.SPECULATIVE, "script") for reference in found)


_EXTRACTORS: dict[Kind, Callable[[Document], Iterator[Outlink]]] = {
    Kind.HTML: _html,
    Kind.XHTML: _xhtml,
    Kind.CSS: _css,
    Kind.FEED: _feed,
    Kind.SITEMAP: _sitemap,
    Kind.SITEMAP_LIST: _sitemap_list,
    Kind.JSON_LD: _json_ld,
    Kind.SCRIPT: _script,
}
