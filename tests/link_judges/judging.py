"""Compares the links that the node finds in a page with those that a browser sees, and judges the
differences."""

from collections import Counter
from dataclasses import dataclass, field

from node_doubles.extracting import fetch

from crawler_node.extraction.extract import outlinks
from crawler_node.extraction.links import Outlink
from crawler_node.fetching.fetch import ExtractSettings

from . import browser
from .browser import Seen

SETTINGS = ExtractSettings(max_links=1_000_000, obey_robots_meta=False)

NO_DOCUMENT = frozenset({"dns-prefetch", "edituri", "pingback", "preconnect", "wlwmanifest"})
"""Relations of a `<link>` to hosts and services."""

# Where the node looks beyond what a browser does by itself (docs/fetchers.md).
MORE = {
    "a/@data-href": "scripts follow it",
    "json-ld": "search engines read it",
    "meta/@content": "programs that show a page elsewhere read it (Open Graph)",
}
"""The contexts of links that only the node finds, and who else reads them."""

OTHERS = "what no other rule names"


@dataclass
class Tally:
    """The pages that were compared, and the differences by their judgement."""

    pages: int = 0
    links: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Links that a browser sees and the node leaves out, by the reason."""
    added: Counter[str] = field(default_factory=Counter)
    """Links that only the node finds, by the reason."""
    lost: list[str] = field(default_factory=list)
    """Links that the node should have found."""
    odd: list[str] = field(default_factory=list)
    """Links that only the node finds, and no reason names."""

    def compare(self, body: bytes, uri: str, charset: str = "") -> None:
        """Adds a page. `charset` is that of its Content-Type, if that has any."""
        media_type = f"text/html; charset={charset}" if charset else "text/html"
        found = outlinks(fetch(body, media_type, uri), SETTINGS, "toehold")
        if found.error is not None:
            raise found.error
        ours = {link.uri: link for link in found.links}
        page = browser.read(body, uri, charset)
        if not page.base.startswith("http"):  # nothing could be fetched from there, so the node does not move
            page = page._replace(base=uri)
        seen = [link for link in browser.links(page) if link.uri is not None]
        self.pages += 1
        self.links += len(seen)
        for link in seen:
            if link.uri in ours:
                continue
            if reason := left_out(link, uri):
                self.left_out[reason] += 1
            else:
                self.lost.append(f"{uri}: {link}")
        known = {link.uri for link in seen}
        for only in ours.values():
            if only.uri in known:
                continue
            if reason := added(only):
                self.added[reason] += 1
            else:
                self.odd.append(f"{uri}: {only}")

    def lines(self) -> str:
        """The figures, one a line."""
        rows = [f"{self.pages} pages, {self.links} links, {len(self.lost)} lost"]
        rows += [f"  left out: {reason}: {count}" for reason, count in self.left_out.most_common()]
        rows += [f"  added: {reason}: {count}" for reason, count in self.added.most_common()]
        return "\n".join(rows)


def left_out(link: Seen, page_uri: str) -> str:
    """Why the node leaves a link out that a browser sees; empty if there is no reason."""
    if link.place.endswith(("/@action", "/@formaction")) and link.detail != "get":
        return "a form that does not get"
    if link.place == "link/@href":
        if link.detail.startswith("rev "):
            return "a <link> with rev and no rel, which names a person"
        if link.detail and NO_DOCUMENT.issuperset(link.detail.split()):
            return "a <link> to a host or service"
    if link.reference.strip(" \t\r\n\f")[:1] in ("", "#") and link.place != "a/@href":
        return "an embedded part of the page itself"
    return ""


def added(link: Outlink) -> str:
    """Why the node takes a link that a browser does not follow; empty if there is no reason."""
    return MORE.get(link.context, "")
