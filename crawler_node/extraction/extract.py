"""The links of a fetch: finds out the kind of document, and calls the extractor for that kind.

Takes time in proportion to a document's length. A document that breaks an extractor loses only the links that
this one would have found. The target of a redirect is in the FetchResult.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import chain

from ..fetching.fetch import ExtractSettings, FetchResult
from . import sitemap
from .charset import codec_of, xml_charset
from .css_links import css_references, declared_charset
from .document import ZIPPED_TYPES, Document
from .feed_links import feed_links
from .header_links import header_references
from .html_links import html_links
from .json_links import json_references, manifest_references
from .links import FOLLOWED, FoundLinks, Hop, Outlink
from .playlist_links import PLAYLIST_TYPES, playlist_references
from .script_links import SCRIPT_TYPES, script_references
from .sniff import HEADER_BYTES, says_nothing, sniffed
from .xml_styles import xml_styles

MAX_LINK_BYTES = 8 * 1024 * 1024
"""The most URI bytes of one document's links: a short document with a long URI or base can have many."""


class DocumentKind(StrEnum):
    """A kind of document, and the name of its extractor in `extractorFailed:`."""

    HTML = "html"
    XHTML = "xhtml"
    """HTML or SVG in XML, which has another way to declare its charset and to close its elements."""
    CSS = "css"
    FEED = "feed"
    SITEMAP = "sitemap"
    SITEMAP_LIST = "list"
    JSON_LD = "json"
    MANIFEST = "manifest"
    """A web app manifest."""
    PLAYLIST = "playlist"
    SCRIPT = "javascript"


_KINDS: dict[str, DocumentKind] = {
    "text/html": DocumentKind.HTML,
    "application/xhtml+xml": DocumentKind.XHTML,
    "text/css": DocumentKind.CSS,
    "application/ld+json": DocumentKind.JSON_LD,
    "application/manifest+json": DocumentKind.MANIFEST,
    **dict.fromkeys(PLAYLIST_TYPES, DocumentKind.PLAYLIST),
    **dict.fromkeys((media_type for media_type in SCRIPT_TYPES if "/" in media_type), DocumentKind.SCRIPT),
}
# The root element tells the kind of XML, whatever its media type.
_ROOTS: dict[bytes, DocumentKind] = {
    **dict.fromkeys((b"html", b"svg"), DocumentKind.XHTML),
    **dict.fromkeys((b"urlset", b"sitemapindex"), DocumentKind.SITEMAP),
    **dict.fromkeys((b"rss", b"feed", b"rdf", b"opml"), DocumentKind.FEED),
}
_XML_TYPES = frozenset(
    {"application/xml", "text/xml", "text/rss", "text/atom", "text/rdf", "text/x-opml", "text/opml"}
)
_PLAIN_TYPE = "text/plain"
_UNTOLD_TYPES = ZIPPED_TYPES | {"", "application/octet-stream"}  # they do not tell what was zipped
_LIST_NAME = re.compile(r"sitemap[^/]*\.txt$", re.IGNORECASE)
_MANIFEST_NAME = re.compile(r"(?:\bmanifest\.json|\.webmanifest)$", re.IGNORECASE)
_MANIFEST_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?+\s*+\{")
_JSON_TYPES = frozenset({"application/json", "text/json", "text/plain"})
_PLAYLIST_NAME = re.compile(r"\.m3u8?$", re.IGNORECASE)
_PLAYLIST_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?+\s*+#EXTM3U")
_ROOT = re.compile(
    rb"""
    (?: [^<]++
      | <\?(?:[^?]++|\?(?!>))*+\?>
      | <!--(?:[^-]++|-(?!->))*+-->
      | <![^>\[]*+(?:\[(?:[^\]]++|\](?!\s*+>))*+\]\s*+)?>
    )*+
    <(?:[\w.-]{1,100}:)?([\w.-]{1,100})
    """,
    re.VERBOSE,
)
_ROOT_WITHIN_BYTES = 16 * 1024
_LISTS = frozenset({DocumentKind.SITEMAP, DocumentKind.FEED})
_XML_KINDS = _LISTS | {DocumentKind.XHTML}
_MARK = rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?+\s*+"  # a byte order mark, and blanks
_OPENING = re.compile(_MARK + rb"<")
_XML_OPENING = re.compile(_MARK + rb"<\?xml")
# A line with blanks or quotes is no phrase if another URI comes in the next one.
_LIST_LINE = re.compile(
    _MARK + rb"""https?://(?:[^\s<>"]++\s*+(?:https?:|$)|[^\r\n]++[\r\n]\s*+https?:)""", re.IGNORECASE
)
_SITEMAP_ROOT = re.compile(rb"<(?:[\w.-]{1,100}:)?(?:urlset|sitemapindex)[\s>]")


def outlinks(
    fetch: FetchResult, settings: ExtractSettings, product_token: str, is_listed: bool = False
) -> FoundLinks:
    """The links of a fetch: the style sheets of XML, then what its body has, then its headers, each URI once,
    where it is found first.

    At most `settings.max_links` links (sitemap.MAX_URIS for a sitemap) and MAX_LINK_BYTES. `product_token` is
    our name in rules for robots. `is_listed`: robots.txt or a sitemap names the document, so that it is read
    as a sitemap if it looks like one, whatever its media type.

    The notes: `codingBroken:<where>` if its Content-Encoding broke off or has a wrong checksum or length (see
    decode.Break), and only what it gave counts; `sniffed:<kind>` if it was read as another kind of document
    than its media type says; `xmlError:<why>` for a sitemap or feed that is broken XML; `nofollow` if such a
    rule left links out; `extractorFailed:<name>` for each extractor that it broke (`kind`: the search for the
    right one), which is logged as well; `linksCut` if there are more bytes of links than MAX_LINK_BYTES.
    """
    try:
        document = Document(fetch, settings, product_token, is_listed)
    except ValueError:
        return FoundLinks([])
    with document:
        kind = next(document.attempt("kind", lambda: (_kind_of(document),)), None)
        styles = document.attempt("xml", _xml_styles, document, kind)
        if kind is None and fetch.media_type == _PLAIN_TYPE:
            document.body()  # it has no links, and a text, of which a note may say that it is not whole
        body = iter(()) if kind is None else document.attempt(kind, _EXTRACTORS[kind], document)
        # After the body, which may forbid to follow the links of headers, too.
        head = document.attempt("header", _header_links, document)
        limit = (
            sitemap.MAX_URIS
            if kind in (DocumentKind.SITEMAP, DocumentKind.SITEMAP_LIST)
            else settings.max_links
        )
        links_by_uri: dict[str, Outlink] = {}
        notes: list[str] = []
        left_bytes = MAX_LINK_BYTES
        for link in chain(styles, body, head):
            if len(links_by_uri) >= limit:
                break
            if link.uri in links_by_uri or (link.hop in FOLLOWED and not document.follow):
                continue
            left_bytes -= len(link.uri)
            if left_bytes < 0:
                notes.append("linksCut")
                break
            links_by_uri[link.uri] = link
        if not document.follow:
            notes.append("nofollow")
        notes = [*document.notes, *notes]
        notes += [f"extractorFailed:{name}" for name in document.broken]
        return FoundLinks(list(links_by_uri.values()), tuple(notes), document.error)


def _kind_of(document: Document) -> DocumentKind | None:
    """The kind to read it as. Notes it if the media type says another one."""
    declared = _said(document) or _named(document)
    kind = (document.is_listed and _sitemap_of_any_type(document)) or declared or _sniffed(document)
    if kind is DocumentKind.HTML and declared is DocumentKind.HTML:
        # Feeds are often called HTML (WHATWG MIME Sniffing 7.3), and so are sitemaps.
        root = _ROOTS.get(_root_of(document))
        kind = root if root in _LISTS else kind
    if kind is not declared:
        document.notes.append(f"sniffed:{kind}")
    return kind if kind is not DocumentKind.SCRIPT or document.settings.javascript else None


def _said(document: Document) -> DocumentKind | None:
    """The kind that its media type says, or for XML its root element."""
    media_type = document.fetch.media_type
    if media_type in _KINDS:
        return _KINDS[media_type]
    if media_type == _PLAIN_TYPE:
        return DocumentKind.SITEMAP_LIST if _LIST_NAME.search(document.path) else None
    if _is_xml_type(media_type) or (media_type in _UNTOLD_TYPES and document.has_zipped_name):
        return _ROOTS.get(_root_of(document))
    return None


def _named(document: Document) -> DocumentKind | None:
    """The kind that its name says and its beginning confirms, under a media type that says as good as
    nothing: many servers do not know these kinds."""
    media_type = document.fetch.media_type
    if not (media_type in _JSON_TYPES or says_nothing(media_type)):
        return None
    for name, opening, kind in (
        (_MANIFEST_NAME, _MANIFEST_OPENING, DocumentKind.MANIFEST),
        (_PLAYLIST_NAME, _PLAYLIST_OPENING, DocumentKind.PLAYLIST),
    ):
        if name.search(document.path) and opening.match(document.beginning(HEADER_BYTES)):
            return kind
    return None


def _is_xml_type(media_type: str) -> bool:
    return media_type in _XML_TYPES or media_type.endswith("+xml")


def _sniffed(document: Document) -> DocumentKind | None:
    """The kind that it looks like, if its media type says nothing."""
    if not says_nothing(document.fetch.media_type):
        return None
    header = document.beginning(HEADER_BYTES)
    media_type = sniffed(header)
    if media_type == "text/html":
        return DocumentKind.HTML
    if media_type == "text/xml":
        return _ROOTS.get(_root_of(document))
    if media_type != "text/plain":
        return None
    if _LIST_NAME.search(document.path):
        return DocumentKind.SITEMAP_LIST
    # Beyond the standard: XML without a declaration, and text with a byte order mark.
    kind = _ROOTS.get(_root_of(document)) if _OPENING.match(header.replace(b"\0", b"")) else None
    return DocumentKind.HTML if kind is DocumentKind.XHTML else kind


def _sitemap_of_any_type(document: Document) -> DocumentKind | None:
    """The kind of sitemap that it looks like, feeds included."""
    root = _root_of(document)
    if root in _ROOTS:
        kind = _ROOTS[root]
        return kind if kind in _LISTS else None
    beginning = _ascii_beginning(document)
    if _SITEMAP_ROOT.search(beginning):  # perhaps behind a warning of the program that wrote it
        return DocumentKind.SITEMAP
    return DocumentKind.SITEMAP_LIST if _LIST_LINE.match(beginning) else None


def _root_of(document: Document) -> bytes:
    """The name of an XML document's root element in lower case; empty if there is none at its beginning."""
    root = _ROOT.match(_ascii_beginning(document))
    return root[1].lower() if root else b""


def _ascii_beginning(document: Document) -> bytes:
    """Its beginning without zeros, which makes tags in UTF-16 ASCII."""
    return document.beginning(_ROOT_WITHIN_BYTES).replace(b"\0", b"")


def _xml_styles(document: Document, kind: DocumentKind | None) -> Iterator[Outlink]:
    """The style sheets of XML, whatever its root. Browsers do not look for any in HTML."""
    media_type = document.fetch.media_type
    is_xml = kind in _XML_KINDS or _is_xml_type(media_type)
    if not is_xml and not (says_nothing(media_type) and _XML_OPENING.match(_ascii_beginning(document))):
        return iter(())
    beginning = document.beginning(_ROOT_WITHIN_BYTES)
    codec = codec_of(beginning, document.fetch.charset or xml_charset(beginning))
    sheets = xml_styles(beginning.decode(codec, "replace"))
    return document.links((reference, Hop.EMBED, "xml-stylesheet/@href") for reference in sheets)


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
    return feed_links(document.base, document.text(xml_charset), document.xml_broke)


def _sitemap(document: Document) -> Iterator[Outlink]:
    now_ms = document.fetch.start_time_ms if document.settings.sitemap_lastmod else None
    return sitemap.links_of_xml(document.base, document.pieces(), now_ms, document.xml_broke)


def _sitemap_list(document: Document) -> Iterator[Outlink]:
    return sitemap.links_of_list(document.base, document.pieces())


def _json_ld(document: Document) -> Iterator[Outlink]:
    return document.links((*reference, "json-ld") for reference in json_references(document.text()))


def _manifest(document: Document) -> Iterator[Outlink]:
    return document.links((*reference, "manifest") for reference in manifest_references(document.text()))


def _playlist(document: Document) -> Iterator[Outlink]:
    references = playlist_references(document.text())
    return document.links((reference, Hop.EMBED, "playlist") for reference in references)


def _script(document: Document) -> Iterator[Outlink]:
    references = script_references(document.text(), inline=False)
    return document.links((reference, Hop.SPECULATIVE, "script") for reference in references)


_EXTRACTORS: dict[DocumentKind, Callable[[Document], Iterator[Outlink]]] = {
    DocumentKind.HTML: _html,
    DocumentKind.XHTML: _xhtml,
    DocumentKind.CSS: _css,
    DocumentKind.FEED: _feed,
    DocumentKind.SITEMAP: _sitemap,
    DocumentKind.SITEMAP_LIST: _sitemap_list,
    DocumentKind.JSON_LD: _json_ld,
    DocumentKind.MANIFEST: _manifest,
    DocumentKind.PLAYLIST: _playlist,
    DocumentKind.SCRIPT: _script,
}
