"""The links of an HTML document: which elements link, and how.

A tokenizer, no tree: time is in proportion to the length, whatever the nesting. Links in `<template>`,
`<noscript>` and `<noframes>` count as well.
"""

import re
from collections.abc import Iterator

import turbohtml

from .charset import text_of
from .links import Base, Hop, Outlink, References

_START_TAG = turbohtml.TokenType.START_TAG
_TEXT = turbohtml.TokenType.TEXT

# What links how, as Heritrix has it: a page is gone to, the rest is part of the page.
_ATTRIBUTES: dict[str, tuple[tuple[str, Hop], ...]] = {
    "a": (("href", Hop.LINK),),
    "area": (("href", Hop.LINK),),
    "audio": (("src", Hop.EMBED),),
    "body": (("background", Hop.EMBED),),
    "embed": (("src", Hop.EMBED),),
    "frame": (("src", Hop.EMBED),),
    "iframe": (("src", Hop.EMBED),),
    "img": (("src", Hop.EMBED),),
    "object": (("data", Hop.EMBED),),
    "script": (("src", Hop.EMBED),),
    "source": (("src", Hop.EMBED),),
    "table": (("background", Hop.EMBED),),
    "td": (("background", Hop.EMBED),),
    "th": (("background", Hop.EMBED),),
    "track": (("src", Hop.EMBED),),
    "tr": (("background", Hop.EMBED),),
    "video": (("src", Hop.EMBED), ("poster", Hop.EMBED)),
}
_SRCSETS = {"img": "srcset", "source": "srcset", "link": "imagesrcset"}
_FALLBACKS = frozenset({"noscript", "noframes"})
_OTHERS = frozenset({"base", "meta", "link", "input"})

# What a <link> says that it leads to; other relations (preconnect, dns-prefetch, pingback) name no document.
_RELS: dict[str, Hop] = {
    **dict.fromkeys(("stylesheet", "icon", "mask-icon", "manifest", "preload", "modulepreload"), Hop.EMBED),
    **dict.fromkeys(("apple-touch-icon", "apple-touch-icon-precomposed"), Hop.EMBED),
    **dict.fromkeys(("canonical", "alternate", "amphtml", "shortlink", "help", "search"), Hop.LINK),
    **dict.fromkeys(("next", "prev", "previous", "first", "last", "start", "up", "index"), Hop.LINK),
    **dict.fromkeys(("contents", "chapter", "section", "author", "license"), Hop.LINK),
}

_SRCSET_URI = re.compile(r"[\s,]*+(\S++)")
_REFRESH = re.compile(
    r"""\s*+[\d.]++(?:\s*+[;,]|\s)\s*+(?:url\s*+=\s*+)?+(?:"([^"]*+)|'([^']*+)|(.++))""",
    re.IGNORECASE | re.DOTALL,
)


def html_links(base: Base, charset: str | None, body: bytes, max_links: int) -> list[Outlink]:
    """At most `max_links` links, each URI once, in the order of their appearance.

    A `<base href>` (the first one) holds for all of them. `charset` is what the Content-Type says.
    """
    references = References(max_links)
    based: str | None = None
    for token in _start_tags(text_of(body, charset)):
        tag = token.tag or ""
        for name, hop in _ATTRIBUTES.get(tag, ()):
            reference = token.attr(name)
            if reference:
                references.add(reference, hop, f"{tag}/@{name}")
        if tag in _SRCSETS:
            name = _SRCSETS[tag]
            for reference in _srcset(token.attr(name) or ""):
                references.add(reference, Hop.EMBED, f"{tag}/@{name}")
        if tag in _OTHERS:
            if tag == "base":
                based = token.attr("href") if based is None else based
            else:
                _add_other(references, tag, token)
        if references.full:
            break
    return references.outlinks(base.moved(based), max_links)


def _start_tags(text: str, within_fallback: bool = False) -> Iterator[turbohtml.Token]:
    """The start tags of a document. What stands in for scripts and frames is one text to the tokenizer, and
    is tokenized again: once, lest nesting cost quadratic time."""
    fallback = False
    for token in turbohtml.tokenize(text):
        kind = token.type
        if kind is _START_TAG:
            yield token
            fallback = not within_fallback and token.tag in _FALLBACKS
        elif fallback and kind is _TEXT and token.data:
            yield from _start_tags(token.data, True)
        else:
            fallback = False


def _add_other(references: References, tag: str, token: turbohtml.Token) -> None:
    if tag == "meta":
        if (token.attr("http-equiv") or "").lower() == "refresh":
            found = _REFRESH.match(token.attr("content") or "")
            if found and (reference := found[1] or found[2] or found[3]):
                references.add(reference, Hop.REDIRECT, "meta/@content")
    elif tag == "link":
        hop = _hop_of_rel(token.attr("rel") or "")
        if hop is not None and (reference := token.attr("href")):
            references.add(reference, hop, "link/@href")
    elif (token.attr("type") or "").lower() == "image" and (reference := token.attr("src")):
        references.add(reference, Hop.EMBED, "input/@src")


def _hop_of_rel(rel: str) -> Hop | None:
    hops = {_RELS[word] for word in rel[:1000].lower().split() if word in _RELS}
    return Hop.EMBED if Hop.EMBED in hops else next(iter(hops), None)


def _srcset(value: str) -> Iterator[str]:
    """The URIs of a srcset, each followed by descriptors up to a comma (WHATWG HTML 4.8.4.2.1)."""
    at = 0
    while found := _SRCSET_URI.match(value, at):
        uri, at = found[1], found.end()
        if uri.endswith(","):
            uri = uri.rstrip(",")
        else:
            at = value.find(",", at)
        yield uri
        if at < 0:
            return
