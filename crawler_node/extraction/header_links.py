"""The links in an answer's headers: Link (RFC 8288), Refresh, Content-Location. FetchResult has Location."""

import re
from collections.abc import Iterator

from ..fetching.fetch import FetchResult
from ..fetching.references import reference_of
from .links import Hop, Reference
from .relations import hop_of, is_nofollow

_MAX_CHARS = 256 * 1024

_LINK = re.compile(r"""<([^<>]*+)>((?:[^",<]++|"(?:[^"\\]++|\\.)*+"?)*+)""", re.DOTALL)
_PARAMETER = re.compile(
    r';\s*+([\w*-]++)\s*+(?:=\s*+(?:"((?:[^"\\]++|\\.)*+)"?|([^\s;,"]*+)))?', re.DOTALL | re.ASCII
)
_REFRESH = re.compile(
    r"""\s*+[\d.]++(?:\s*+[;,]|\s)\s*+(?:url\s*+=\s*+)?+(?:"([^"]*+)|'([^']*+)|(.++))""",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)


def header_references(fetch: FetchResult, obey_nofollow: bool) -> Iterator[Reference]:
    """The references of the headers, relative to the URI of the fetch."""
    # Parsed as Latin-1, which has a character for each byte, so that each target keeps its own bytes.
    for target, parameters in _LINK.findall(_value(fetch, "link")):
        given: dict[str, str] = {}
        for name, quoted, bare in _PARAMETER.findall(parameters):
            given.setdefault(name.lower(), quoted or bare)  # the first one counts (RFC 8288 3.3)
        rel = given.get("rel", "")
        hop = hop_of(rel)
        # A link with an anchor is one of another document.
        if hop is not None and "anchor" not in given and not (obey_nofollow and is_nofollow(rel)):
            yield _reference(target), hop, "Link"
    refresh = refresh_target(_value(fetch, "refresh"))
    if refresh:
        yield _reference(refresh), Hop.REDIRECT, "Refresh"
    location = _value(fetch, "content-location")
    if location:
        yield _reference(location), Hop.LINK, "Content-Location"


def refresh_target(refresh: str) -> str | None:
    """The target of a Refresh header or `<meta>`, as written there: `5; url=next`."""
    match = _REFRESH.match(refresh)
    return (match[1] or match[2] or match[3]) if match else None


def _value(fetch: FetchResult, header: str) -> str:
    """A header in Latin-1; empty when there is none."""
    return (fetch.header(header) or "")[:_MAX_CHARS]


def _reference(target: str) -> str:
    return target if target.isascii() else reference_of(target.encode("latin-1"))
