"""Links, and how they are collected within bounds. The frontier decides which ones it wants."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from ..fetching.references import MAX_URI_BYTES, Base

_NEVER = re.compile(r"""[\s<>{}|\\^`"']""")
# What begins with a host or a root may have any of these, but is no template and no srcset.
_ROOTED = re.compile(r"(?:https?:|\.{1,2})?[/\\]", re.IGNORECASE)
_NEVER_ROOTED = re.compile(r"\{\{|\$\{|\{[a-z_]\w*\}|\{%\s|<%|\s(?:https?:|[\d.]{1,9}[wx],\s)", re.IGNORECASE)
_FILE_NAME = re.compile(r"[\w%~)-]\.[a-zA-Z]\w{1,4}(?:[?#]|$)")


class Hop(StrEnum):
    """How a URI was found: the letter that its discovery path grows by, as in Heritrix."""

    LINK = "L"
    EMBED = "E"
    SPECULATIVE = "X"
    REDIRECT = "R"
    SITEMAP = "M"


LOCATION = "Location"
"""The context of the target of an HTTP redirect."""

FOLLOWED = frozenset({Hop.LINK, Hop.SPECULATIVE})
"""Hops to other pages. Other hops lead to parts of a page, to its new place, or to lists for crawlers."""


class Outlink(msgspec.Struct, frozen=True, gc=False):
    """A link out of a fetched document.

    `uri` is absolute, http or https, without fragment, at most MAX_URI_BYTES long. `context` tells where it
    was found, such as `a/@href`. `refetch_before_ms` is the last change according to a sitemap, in
    milliseconds since the epoch: an earlier fetch is out of date.
    """

    uri: str
    hop: Hop
    context: str
    refetch_before_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FoundLinks:
    """The links found in a fetch, notes for the crawl log, and the last error of an extractor that the page
    broke; the finds of the other extractors are there."""

    links: list[Outlink]
    notes: tuple[str, ...] = ()
    error: Exception | None = None


def is_plausible(text: str) -> bool:
    """Whether any text looks like a reference: it names a file, and has no mark of a phrase, a template or
    code. After a host or a root, blanks, quotes and the like are no such marks: people do not escape them."""
    text = text.strip()
    never = _NEVER_ROOTED if _ROOTED.match(text) else _NEVER
    return names_file(text) and not never.search(text)


def names_file(text: str) -> bool:
    """Whether a text that stands for a URI, with whatever characters, is more than a word such as `none`: it
    has a slash or a file name in it."""
    text = text.strip()
    if len(text) > MAX_URI_BYTES or text.startswith("#"):
        return False
    return "/" in text or _FILE_NAME.search(text) is not None


Reference = tuple[str, Hop, str]
"""A reference of a document, before it is resolved, with the hop and the context of an Outlink."""


class References:
    """The references of one document in the order of their first appearance, unresolved, within a bound.

    They stay unresolved because a `<base>` may come after them. Without `follow`, only references to parts of
    the document are taken.
    """

    __slots__ = ("_follow", "_limit", "found", "full")

    def __init__(self, limit: int, follow: bool = True) -> None:
        self.found: dict[str, tuple[Hop, str]] = {}
        """The references so far, with their hops and contexts."""
        # More than the limit, as some will turn out to be equal, or no URIs.
        self._limit = 4 * limit
        self._follow = follow
        self.full = limit == 0
        """Whether later references are dropped."""

    def add(self, reference: str, hop: Hop, context: str) -> None:
        """Takes a reference, unless it is too long, or an embed with only a fragment."""
        if len(reference) > MAX_URI_BYTES or self.full or (hop in FOLLOWED and not self._follow):
            return
        if reference.startswith("#"):
            if hop is Hop.EMBED:
                return
            reference = "#"  # one stands for all fragments of the document
        self.found.setdefault(reference, (hop, context))
        self.full = len(self.found) >= self._limit

    def outlinks(self, base: Base) -> Iterator[Outlink]:
        """The links of the references that make sense. Different references may mean the same URI."""
        for reference, (hop, context) in self.found.items():
            uri = base.resolve(reference)
            if uri is not None:
                yield Outlink(uri, hop, context)
