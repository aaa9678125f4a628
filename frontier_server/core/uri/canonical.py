"""URI text → canonical URI: what is fetched, and what makes two URIs the same.

The canonical form is the WHATWG URL standard's, without fragment, user name and
password, trailing dots of the host, and empty query. Every rule is one under
which servers answer alike; rules that lose pages (lower case, `www.`, session ids)
are none of them.

Most URIs are canonical already. That is proved in a fifth of the time that the parser
takes: the parser has found their origin to be so, and the rest has no character that it
would touch.
"""

import re
from functools import lru_cache

import can_ada
import msgspec

MAX_URI_BYTES = 8192
SCHEMES = ("http:", "https:")
MAX_ORIGIN_BYTES = 280  # of those that are remembered: a name has 253 at most
# A path and a query that the parser leaves as they are. Segments of dots, which it takes away, begin with `.`
# or `%`; those are not told apart here.
_PLAIN = re.compile(
    r"(?:/(?![.%])[A-Za-z0-9_~!$&()*+,;=:@%.-]*)+(?:\?[A-Za-z0-9_~!$&()*+,;=:@%./?-]+)?"
).fullmatch


class Malformed(ValueError):
    """Not a URI that can be fetched."""


class UnsupportedScheme(ValueError):
    """A URI, but not http or https."""


class TooLong(ValueError):
    """Longer than MAX_URI_BYTES, before or after it was made canonical."""


class CanonicalUri(msgspec.Struct, frozen=True, gc=False):
    """A canonical URI and the parts that decisions rest on."""

    uri: str
    scheme: str  # "http" or "https"
    host: str  # without port; IPv6 in brackets
    authority: str  # host, and `:port` unless it is the scheme's own
    target: str  # path and query, as robots.txt rules match them
    origin: str  # scheme and authority: `https://host:port`


def canonical(text: str) -> CanonicalUri:
    """The canonical form of an absolute URI. Raises Malformed, UnsupportedScheme or TooLong."""
    at = plain_from(text)
    if at:
        origin = text[:at]
        parts = _parts(origin)
        if parts is not None:
            return CanonicalUri(text, *parts, text[at:], origin)
    return parsed(text)


def plain_from(text: str) -> int:
    """Where the origin of a text ends that is a canonical URI if its origin is one; 0 if that is not sure."""
    at = text.find("/", 8)  # behind `https://`, or the first character of a host
    return at if 8 < at <= MAX_ORIGIN_BYTES and len(text) <= MAX_URI_BYTES and _PLAIN(text, at) else 0


def canonical_origin(origin: str) -> CanonicalUri | None:
    """The root page of `https://host:port`, if that is canonical as it is."""
    parts = _parts(origin)
    return None if parts is None else CanonicalUri(f"{origin}/", *parts, "/", origin)


@lru_cache(maxsize=16384)
def _parts(origin: str) -> tuple[str, str, str] | None:
    """Scheme, host and authority of `https://host:port`, if that is canonical as it is."""
    try:
        uri = parsed(f"{origin}/")
    except (Malformed, UnsupportedScheme, TooLong):
        return None
    return (uri.scheme, uri.host, uri.authority) if uri.uri == f"{origin}/" else None


def parsed(text: str) -> CanonicalUri:
    """The same by the parser, whatever the text is."""
    if longer_than(text, MAX_URI_BYTES):
        raise TooLong(f"URI of {len(text)} characters; at most {MAX_URI_BYTES} bytes are taken")
    try:
        url = can_ada.parse(text)
    except (ValueError, TypeError) as problem:  # TypeError: lone surrogates
        raise Malformed("not an absolute URI") from problem
    protocol = url.protocol
    if protocol not in SCHEMES:
        raise UnsupportedScheme(f"scheme {protocol!r}; http and https are fetched")
    if url.has_hash():
        url.hash = ""
    if url.has_credentials():
        url.username = ""
        url.password = ""
    hostname = url.hostname
    if hostname.endswith("."):
        url.hostname = hostname.rstrip(".")
        hostname = url.hostname  # as it was, if it is none without the dots
    if not hostname or ".." in hostname or hostname[0] == "." or hostname[-1] == ".":
        raise Malformed("no host name")
    uri = url.href
    if uri.endswith("?") and not url.search:
        uri = uri[:-1]
    if len(uri) > MAX_URI_BYTES:
        raise TooLong(f"URI of {len(uri)} bytes; at most {MAX_URI_BYTES} are taken")
    authority = url.host
    scheme = protocol[:-1]
    end = len(scheme) + 3 + len(authority)
    return CanonicalUri(uri, scheme, hostname, authority, uri[end:], uri[:end])


def longer_than(text: str, most_bytes: int) -> bool:
    """Whether a text has more bytes than that."""
    if len(text) * 4 <= most_bytes:
        return False
    return len(text) > most_bytes or len(text.encode(errors="replace")) > most_bytes
