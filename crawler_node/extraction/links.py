"""What links are made of, and how they are collected within bounds.

Whether a link is wanted is the frontier's decision, not made here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ..fetching.references import MAX_URI_BYTES, Base

_NEVER = re.compile(r"""[\s<>{}|\\^`"']""")
_FILE_NAME = re.compile(r"[\w%~-]\.[a-zA-Z]\w{1,4}(?:[?#]|$)")


class Hop(StrEnum):
    """How a URI was found: the letter that its discovery path grows by (Heritrix section 2.10)."""

    LINK = "L"
    EMBED = "E"
    SPECULATIVE = "X"
    REDIRECT = "R"
    SITEMAP = "M"


FOLLOWED = frozenset({Hop.LINK, Hop.SPECULATIVE})
"""Hops to other pages. The others lead to what is part of a page, stands for it, or was made for crawlers."""


@dataclass(frozen=True, slots=True)
class Outlink:
    """A link out of a fetched document.

    `uri` is absolute, http or https, without fragment, at most MAX_URI_BYTES long.
    `context` says where it stood, such as `a/@href`. `refetch_before_ms` is when a sitemap says that it has
    changed last, in milliseconds since the epoch: what was fetched before then is out of date.
    """

    uri: str
    hop: Hop
    context: str
    refetch_before_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in a fetch: its links, words for the crawl log, and the last error of an extractor that
    a page broke; what the others found is there."""

    links: list[Outlink]
    notes: tuple[str, ...] = ()
    error: Exception | None = None


def is_plausible(text: str) -> bool:
    """Whether a text that may be anything looks like a reference: it has a slash or the name of a file in it,
    and none of what marks a phrase, a template or code."""
    text = text.strip()
    if len(text) > MAX_URI_BYTES or text.startswith("#") or _NEVER.search(text):
        return False
    return "/" in text or _FILE_NAME.search(text) is not None


Reference = tuple[str, Hop, str]
"""What a document refers to, before it is resolved, with the hop and the context that an Outlink has."""


class References:
    """The references of one document in the order of their first appearance, unresolved, within a bound.

    Kept unresolved because a `<base>` may come after them. Without `follow`, only what is part of the
    document is taken.
    """

    __slots__ = ("_follow", "_found", "_limit", "full")

    def __init__(self, limit: int, follow: bool = True) -> None:
        self._found: dict[str, tuple[Hop, str]] = {}
        # More than links asked for: some of them will turn out to be the same, or none at all.
        self._limit = 4 * limit
        self._follow = follow
        self.full = limit == 0
        """True when more would not be kept."""

    def add(self, reference: str, hop: Hop, context: str) -> None:
        """Takes a reference; not one that is too long, nor an embed that is a part of the document itself."""
        if len(reference) > MAX_URI_BYTES or self.full or (hop in FOLLOWED and not self._follow):
            return
        if reference.startswith("#"):
            if hop is Hop.EMBED:
                return
            reference = "#"  # wherever in the document: it is looked up once
        self._found.setdefault(reference, (hop, context))
        self.full = len(self._found) >= self._limit

    def outlinks(self, base: Base) -> Iterator[Outlink]:
        """What they lead to, as far as they make sense; different ones may mean the same URI."""
        for reference, (hop, context) in self._found.items():
            uri = base.resolve(reference)
            if uri is not None:
                yield Outlink(uri, hop, context)
