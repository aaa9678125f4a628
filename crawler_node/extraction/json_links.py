"""The references of JSON-LD (https://schema.org): the pages and the media that a page describes; and those of
web app manifests (https://www.w3.org/TR/appmanifest/).

It is read token by token and not parsed: JSON that is written into pages by hand is often broken, and hostile
JSON is nested without end. Takes time in proportion to the length.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

from ..fetching.references import MAX_URI_BYTES
from .links import Hop, is_plausible

# Properties whose value is a URI, in lower case. Left out are properties that name things or templates
# instead of documents: @id, @context, @type, sameAs (the same elsewhere), target, urlTemplate.
_HOPS = {
    **dict.fromkeys(("image", "logo", "photo", "thumbnail", "screenshot", "primaryimageofpage"), Hop.EMBED),
    **dict.fromkeys(("contenturl", "thumbnailurl", "embedurl", "associatedmedia"), Hop.EMBED),
    **dict.fromkeys(("url", "mainentityofpage", "item", "relatedlink", "significantlink"), Hop.LINK),
    **dict.fromkeys(("discussionurl", "downloadurl"), Hop.LINK),
}
# Those of a web app manifest: of icons, screenshots, shortcuts.
_MANIFEST_HOPS: Mapping[str, Hop] = {"src": Hop.EMBED, "start_url": Hop.LINK, "url": Hop.LINK}
# The own names of an object, which count as the property that holds the object.
_OWN = frozenset({"url", "@id"})
_MAX_DEPTH = 64
_MAX_ESCAPED_CHARS = 6 * MAX_URI_BYTES

_TOKEN = re.compile(r'"((?:[^"\\]++|\\.)*+)("?)\s*+(:?)|[{}\[\]]', re.DOTALL)


def hop_of_property(name: str) -> Hop | None:
    """How to follow the URI in a schema.org property; None if the property names no document."""
    return _HOPS.get(name.lower())


def manifest_references(text: str) -> Iterator[tuple[str, Hop]]:
    """The references of a web app manifest, as of `json_references`: only a URI may stand there, whatever it
    looks like. Leaves out the templates of handlers (`/open?url=%s`)."""
    return _references(text, _MANIFEST_HOPS, lambda text: text != "" and "%s" not in text)


def json_references(text: str) -> Iterator[tuple[str, Hop]]:
    """The references of a JSON-LD document, each with the hop to another page or to a part of this one.

    An object's own `url` or `@id` counts as the property that holds the object: an `image` that is an
    ImageObject with a `url` is an image. References deeper than 64 objects and lists are left out.
    """
    return _references(text, _HOPS, is_plausible)


def _references(
    text: str, hops: Mapping[str, Hop], is_reference: Callable[[str], bool]
) -> Iterator[tuple[str, Hop]]:
    # For each open object and list, innermost last: the property whose value it is, and the property that its
    # own name counts as.
    holders: list[tuple[str, str]] = []
    name = ""  # the property of the next value
    too_deep = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == "{" or mark == "[":
            if len(holders) == _MAX_DEPTH:
                too_deep += 1
            else:
                holders.append((name, name))
                name = name if mark == "[" else ""
        elif mark == "}" or mark == "]":
            if too_deep:
                too_deep -= 1
            else:
                name = holders.pop()[0] if holders else ""
        elif too_deep or not token[2]:
            continue
        elif token[3]:
            name = token[1].lower()
        elif name == "@type":
            if token[1] == "ImageObject" and holders:
                holders[-1] = (holders[-1][0], "image")
        else:
            holder = holders[-1][1] if holders and name in _OWN else ""
            hop = hops.get(holder) or hops.get(name)
            reference = _unescaped(token[1]) if hop else ""
            if hop and is_reference(reference):
                yield reference, hop


def _unescaped(string: str) -> str:
    """The text of a JSON string; empty if it makes no sense."""
    if "\\" not in string:
        return string
    try:
        return str(json.loads(f'"{string}"', strict=False)) if len(string) <= _MAX_ESCAPED_CHARS else ""
    except ValueError:
        return ""
