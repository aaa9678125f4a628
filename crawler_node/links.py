"""What links are made of: how a reference becomes an absolute URI, and how links are collected within bounds.

Whether a link is wanted is the frontier's decision, not made here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import can_ada

MAX_URI_BYTES = 8192
"""Longer URIs are dropped: the frontier would refuse them."""

MAX_LINKS = 6000
"""Most different links taken from one page (Heritrix's maxOutlinks)."""

_SCHEMES = ("http:", "https:")

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


class Base:
    """What the references of one document are relative to.

    Raises ValueError for a URI that is not absolute, or neither http nor https.
    """

    __slots__ = ("_url",)

    def __init__(self, uri: str) -> None:
        url = _parse(uri)
        if url is None or url.protocol not in _SCHEMES:
            raise ValueError(f"base {uri[:200]!r} is not an absolute http or https URI")
        self._url = url

    def moved(self, reference: str | None) -> "Base":
        """The base that a `<base href>` makes of this one; this one if that makes no sense."""
        uri = None if reference is None else self.resolve(reference)
        return self if uri is None else Base(uri)

    def resolve(self, reference: str) -> str | None:
        """The absolute URI that a reference means, without its fragment.

        Parsed as the WHATWG URL standard says: blanks around it and tabs and line ends within it do not
        count. None for what is malformed, too long, or neither http nor https.
        """
        reference = reference.strip(" \t\r\n\f")
        if len(reference) > MAX_URI_BYTES:
            return None
        try:
            url = self._url + reference
        except (ValueError, TypeError):  # TypeError: a lone surrogate
            return None
        if url.protocol not in _SCHEMES:
            return None
        if url.has_hash():
            url.hash = ""
        uri = url.href
        return uri if len(uri) <= MAX_URI_BYTES else None


def resolve(base: str, reference: str) -> str | None:
    """As Base.resolve, for a single reference; None for an impossible base too."""
    try:
        return Base(base).resolve(reference)
    except ValueError:
        return None


def is_plausible(text: str) -> bool:
    """Whether a text that may be anything looks like a reference: it has a slash or the name of a file in it,
    and none of what marks a phrase, a template or code."""
    text = text.strip()
    if len(text) > MAX_URI_BYTES or text.startswith("#") or _NEVER.search(text):
        return False
    return "/" in text or _FILE_NAME.search(text) is not None


def absolute(uri: str) -> str | None:
    """As resolve, for what must be absolute by itself."""
    return resolve(uri.strip(), "")


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


def _parse(uri: str) -> can_ada.URL | None:
    try:
        return can_ada.parse(uri)
    except (ValueError, TypeError):
        return None
