"""Makes URIs canonical. The canonical URI is fetched, and two URIs with the same one are the same.

The canonical form is the WHATWG URL standard's, without fragment, user name and
password, trailing dots of the host, and empty query. Servers answer alike under each of
these rules. Rules that may lose pages (lower case, `www.`, session ids) are in `identity`.

Most URIs are canonical already. A check finds this in a fifth of the parser's time: the
parser has accepted their origin before, and the rest has no character that it would
change.
"""

import re
from functools import lru_cache

import can_ada
import msgspec

MAX_URI_BYTES = 8192
SCHEMES = ("http:", "https:")
MAX_ORIGIN_BYTES = 280  # of cached origins: a host name has at most 253
# Paths and queries that the parser does not change. It removes segments of dots: these begin with `.` or `%`,
# so all segments that do are left to the parser.
_PLAIN = re.compile(
    r"(?:/(?![.%])[A-Za-z0-9_~!$&()*+,;=:@%.-]*)+(?:\?[A-Za-z0-9_~!$&()*+,;=:@%./?-]+)?"
).fullmatch


class Malformed(ValueError):
    """The text is not a valid URI."""


class UnsupportedScheme(ValueError):
    """The scheme is neither http nor https."""


class TooLong(ValueError):
    """The URI is longer than MAX_URI_BYTES, before or after it was made canonical."""


class CanonicalUri(msgspec.Struct, frozen=True, gc=False):
    """A canonical URI and the parts that decisions depend on."""

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
    """Where the origin ends, if the text is canonical whenever its origin is; 0 if that is not certain."""
    at = text.find("/", 8)  # after `https://`, or after the first character of an http host
    return at if 8 < at <= MAX_ORIGIN_BYTES and len(text) <= MAX_URI_BYTES and _PLAIN(text, at) else 0


def canonical_origin(origin: str) -> CanonicalUri | None:
    """The root page of `https://host:port`, if that origin is canonical."""
    parts = _parts(origin)
    return None if parts is None else CanonicalUri(f"{origin}/", *parts, "/", origin)


@lru_cache(maxsize=16384)
def _parts(origin: str) -> tuple[str, str, str] | None:
    """Scheme, host and authority of `https://host:port`, if that origin is canonical."""
    try:
        uri = parsed(f"{origin}/")
    except (Malformed, UnsupportedScheme, TooLong):
        return None
    return (uri.scheme, uri.host, uri.authority) if uri.uri == f"{origin}/" else None


def parsed(text: str) -> CanonicalUri:
    """`canonical`, always by the parser."""
    if longer_than(text, MAX_URI_BYTES):
        raise TooLong(f"a URI must have at most {MAX_URI_BYTES} bytes, got {len(text)} characters")
    try:
        url = can_ada.parse(text)
    except (ValueError, TypeError) as problem:  # TypeError: lone surrogates
        raise Malformed("not an absolute URI") from problem
    protocol = url.protocol
    if protocol not in SCHEMES:
        raise UnsupportedScheme(f"the scheme must be http or https, got {protocol!r}")
    if url.has_hash():
        url.hash = ""
    if url.has_credentials():
        url.username = ""
        url.password = ""
    hostname = url.hostname
    if hostname.endswith("."):
        url.hostname = hostname.rstrip(".")
        hostname = url.hostname  # unchanged if no valid host is left
    if not hostname or ".." in hostname or hostname[0] == "." or hostname[-1] == ".":
        raise Malformed("no host name")
    uri = url.href
    if "^" in uri or "/." in uri:
        # The parser leaves a `^` as it is, which the standard encodes since 2024 and some servers refuse, and
        # overlooks `/../` behind a name that begins with a dot, but not behind a `/./`. Nodes do the same.
        url.pathname = "/." + url.pathname.replace("^", "%5E")
        uri = url.href
    if uri.endswith("?") and not url.search:
        uri = uri[:-1]
    if len(uri) > MAX_URI_BYTES:
        raise TooLong(f"a URI must have at most {MAX_URI_BYTES} bytes, got {len(uri)}")
    authority = url.host
    scheme = protocol[:-1]
    end = len(scheme) + 3 + len(authority)
    return CanonicalUri(uri, scheme, hostname, authority, uri[end:], uri[:end])


def resolved(uri: str, base: str) -> str | None:
    """A URI resolved against a base, as in the WHATWG URL standard; None if that is impossible."""
    try:
        joined: str = (can_ada.parse(base) + uri).href
        return joined
    except (ValueError, TypeError):
        return None


def longer_than(text: str, most_bytes: int) -> bool:
    """Whether a text has more than `most_bytes` in UTF-8."""
    if len(text) * 4 <= most_bytes:
        return False
    return len(text) > most_bytes or len(text.encode(errors="replace")) > most_bytes
