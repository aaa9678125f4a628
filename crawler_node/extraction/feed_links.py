"""The links of feeds: RSS 0.9x and 2.0, RSS 1.0 (RDF) and Atom (RFC 4287), with Media RSS and the like; and
of lists of feeds in OPML.

The links in contents that a feed quotes of pages are left to these pages.
"""

from collections.abc import Callable, Iterator

from ..fetching.references import Base
from .links import Hop, Outlink, is_plausible, names_file
from .relations import hop_of
from .xml_reader import XmlReader

_XML_BASE = "http://www.w3.org/XML/1998/namespace base"

# Elements whose text or attribute is a URI, by local name, as feeds mix their namespaces.
_TEXTS = {
    **dict.fromkeys(("link", "guid", "comments", "origLink"), Hop.LINK),
    **dict.fromkeys(("logo", "icon"), Hop.EMBED),
}
_ATTRIBUTES = {
    ("enclosure", "url"): Hop.EMBED,
    ("content", "url"): Hop.EMBED,
    ("content", "src"): Hop.EMBED,
    ("thumbnail", "url"): Hop.EMBED,
    ("image", "href"): Hop.EMBED,
    ("player", "url"): Hop.LINK,
    **dict.fromkeys((("outline", name) for name in ("xmlurl", "htmlurl", "url")), Hop.LINK),
}


def feed_links(base: Base, xml: str, broke: Callable[[str], None] = lambda why: None) -> Iterator[Outlink]:
    """The links of a feed, in their order, with repetitions; see XmlReader. `base` is the feed's own URI.
    `broke` gets the reason if the XML is broken."""
    return _FeedReader(base).read([xml.encode()], broke)


class _FeedReader(XmlReader[Outlink]):
    max_depth = 256  # entries may contain whole pages
    roots = frozenset({"rss", "feed", "rdf", "opml"})
    parents = roots | {"channel"}

    def __init__(self, base: Base) -> None:
        super().__init__()
        self._open: list[tuple[str, Base]] = [("", base)]  # the open elements

    def is_entry(self, name: str) -> bool:
        return name.rpartition(" ")[2] in ("item", "entry")

    def opened(self, name: str, attributes: dict[str, str]) -> bool:
        parent, base = self._open[-1]
        local = name.rpartition(" ")[2]
        base = base.moved(attributes.get(_XML_BASE))
        self._open.append((local, base))
        for attribute, value in attributes.items():
            hop = _ATTRIBUTES.get((local, attribute.lower()))
            if hop is not None:
                self._find(base, value, hop, f"{local}/@{attribute}")
        if local == "link" and "href" in attributes:
            hop = hop_of(attributes.get("rel", "alternate"))
            if hop is not None:
                self._find(base, attributes["href"], hop, "link/@href")
            return False
        if local == "guid":
            return attributes.get("isPermaLink") != "false"
        if local == "url":
            return parent == "image"
        return local in _TEXTS and parent.lower() != "textinput"

    def closed(self, name: str, text: str | None) -> None:
        local, base = self._open.pop()
        # A guid may be any name.
        if text is not None and (is_plausible(text) if local == "guid" else names_file(text)):
            self._find(base, text, _TEXTS.get(local, Hop.EMBED), local)

    def _find(self, base: Base, reference: str, hop: Hop, context: str) -> None:
        uri = base.resolve(reference)
        if uri is not None:
            self.found.append(Outlink(uri, hop, context))
