"""The links in an answer's headers: Link (RFC 8288), Refresh, Content-Location. The Fetch has Location."""

import re
from collections.abc import Iterator

from ..fetching.fetch import Fetch
from .links import Hop, Reference
from .relations import hop_of, is_nofollow

_MAX_CHARS = 256 * 1024

_LINK = re.compile(r"""<([^<>]*+)>((?:[^",<]++|"(?:[^"\\]++|\\.)*+"?)*+)""", re.DOTALL)
_PARAMETER = re.compile(r';\s*+([\w*-]++)\s*+(?:=\s*+(?:"((?:[^"\\]++|\\.)*+)"?|([^\s;,"]*+)))?', re.DOTALL)
_REFRESH = re.compile(
    r"""\s*+[\d.]++(?:\s*+[;,]|\s)\s*+(?:url\s*+=\s*+)?+(?:"([^"]*+)|'([^']*+)|(.++))""",
    re.IGNORECASE | re.DOTALL,
)


def header_references(fetch: Fetch, obey_nofollow: bool) -> Iterator[Reference]:
    """The references of the headers, relative to the URI of the fetch."""
    for target, parameters in _LINK.findall(_text(fetch, "link")):
        given: dict[str, str] = {}
        for name, quoted, bare in _PARAMETER.findall(parameters):
            given.setdefault(name.lower(), quoted or bare)  # the first one counts (RFC 8288 3.3)
        rel = given.get("rel", "")
        hop = hop_of(rel)
        # A link with an anchor is one of another document.
        if hop is not None and "anchor" not in given and not (obey_nofollow and is_nofollow(rel)):
            yield target, hop, "Link"
    target = refresh_target(_text(fetch, "refresh"))
    if target:
        yield target, Hop.REDIRECT, "Refresh"
    target = _text(fetch, "content-location")
    if target:
        yield target, Hop.LINK, "Content-Location"


def refresh_target(refresh: str) -> str | None:
    """The target of a Refresh header or `<meta>`, as written there: `5; url=next`."""
    found = _REFRESH.match(refresh)
    return (found[1] or found[2] or found[3]) if found else None


def _text(fetch: Fetch, header: str) -> str:
    """A header as text, in UTF-8 if possible, else Latin-1; empty when there is none."""
    value = (fetch.header(header) or "")[:_MAX_CHARS]
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value
