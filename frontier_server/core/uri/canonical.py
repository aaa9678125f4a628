"""URI text → canonical URI: what is fetched, and what makes two URIs the same.

The canonical form is the WHATWG URL standard's, without fragment, user name and
password, trailing dots of the host, and empty query. Every rule is one under
which servers answer alike; rules that lose pages (lower case, `www.`, session ids)
are none of them.
"""

from dataclasses import dataclass

import can_ada

MAX_URI_BYTES = 8192
SCHEMES = ("http:", "https:")


class Malformed(ValueError):
    """Not a URI that can be fetched."""


class UnsupportedScheme(ValueError):
    """A URI, but not http or https."""


class TooLong(ValueError):
    """Longer than MAX_URI_BYTES, before or after it was made canonical."""


@dataclass(frozen=True, slots=True)
class CanonicalUri:
    """A canonical URI and the parts that decisions rest on."""

    uri: str
    scheme: str  # "http" or "https"
    host: str  # without port; IPv6 in brackets
    authority: str  # host, and `:port` unless it is the scheme's own
    target: str  # path and query, as robots.txt rules match them


def canonical(text: str) -> CanonicalUri:
    """Parse an absolute URI. Raises Malformed, UnsupportedScheme or TooLong."""
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
    return CanonicalUri(uri, scheme, hostname, authority, uri[len(scheme) + 3 + len(authority) :])


def longer_than(text: str, most_bytes: int) -> bool:
    """Whether a text has more bytes than that."""
    if len(text) * 4 <= most_bytes:
        return False
    return len(text) > most_bytes or len(text.encode(errors="replace")) > most_bytes
