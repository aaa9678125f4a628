"""The links in an answer's headers: Link (RFC 8288), Refresh, Content-Location. Location is in the Fetch."""

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
    """What the headers refer to, how, and in which header. All are relative to what was fetched."""
    for target, parameters in _LINK.findall(_text(fetch, "link")):
        given: dict[str, str] = {}
        for name, quoted, bare in _PARAMETER.findall(parameters):
            given.setdefault(name.lower(), quoted or bare)  # of several the first one counts (RFC 8288 3.3)
        rel = given.get("rel", "")
        hop = hop_of(rel)
        # With an anchor it is a link of another document.
        if hop is not None and "anchor" not in given and not (obey_nofollow and is_nofollow(rel)):
            yield target, hop, "Link"
    target = refresh_target(_text(fetch, "refresh"))
    if target:
        yield target, Hop.REDIRECT, "Refresh"
    target = _text(fetch, "content-location")
    if target:
        yield target, Hop.LINK, "Content-Location"


def refresh_target(refresh: str) -> str | None:
    """Where a Refresh header or its `<meta>` leads to, as it is written there: `5; url=next`."""
    found = _REFRESH.match(refresh)
    return (found[1] or found[2] or found[3]) if found else None


def _text(fetch: Fetch, header: str) -> str:
    """A header as text: UTF-8 if it is that, else Latin-1; empty when there is none."""
    value = (fetch.header(header) or "")[:_MAX_CHARS]
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value
