"""Turns references into absolute URIs."""

import codecs
import re

import can_ada

MAX_URI_BYTES = 8192
"""Longer URIs are dropped: the frontier would refuse them."""

_SCHEMES = ("http:", "https:")

_known: dict[tuple[str, str], str | None] = {}
"""What references mean, with the part of the base that decides that: pages of a site repeat themselves."""
_MOST_KNOWN, _MOST_KNOWN_CHARS = 20_000, 300


class Base:
    """The base of the references of one document.

    `encoder` is the codec of their queries, if that is not UTF-8. Raises ValueError unless the URI is an
    absolute http or https URI.
    """

    __slots__ = ("_encoder", "_folder", "_root", "_url")

    def __init__(self, uri: str, encoder: str | None = None) -> None:
        url = _parse(uri)
        if url is None or url.protocol not in _SCHEMES:
            raise ValueError(f"the base must be an absolute http or https URI, got {uri[:200]!r}")
        self._url = url
        self._encoder = encoder
        place = _QUERY_AND_FRAGMENT.sub("", url.href)
        self._folder = place[: place.rindex("/") + 1]
        self._root = place[: place.index("/", len("https://"))]

    def moved(self, reference: str | None) -> "Base":
        """The base after a `<base href>`; this one if that makes no sense."""
        uri = None if reference is None else self.resolve(reference)
        return self if uri is None else Base(uri, self._encoder)

    def written_in(self, encoder: str | None) -> "Base":
        """The same base, for references whose queries have another charset."""
        return self if encoder == self._encoder else Base(self._url.href, encoder)

    def resolve(self, reference: str) -> str | None:
        """The absolute URI that a reference means, without its fragment.

        Parses the reference as the WHATWG URL standard says: blanks around it and tabs and line ends in it do
        not count. None if it is malformed, too long, or neither http nor https.
        """
        place = self._place_of(reference)
        if place is None or len(place) > _MOST_KNOWN_CHARS:
            return self._resolved(reference)
        try:
            return _known[reference, place]
        except KeyError:
            uri = self._resolved(reference)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        if uri is None or len(uri) <= _MOST_KNOWN_CHARS:
            _known[reference, place] = uri
        return uri

    def _place_of(self, reference: str) -> str | None:
        """The part of the base that a reference is resolved against; None if that may be all of it."""
        first = reference[:1]
        if first <= " " or first in "?#" or self._encoder is not None or len(reference) > _MOST_KNOWN_CHARS:
            return None
        if first == "/":
            return self._root
        if ":" not in reference:
            return self._folder
        return "" if reference.startswith(("http://", "https://")) else None  # `http:?x` is a query, too

    def _resolved(self, reference: str) -> str | None:
        reference = reference.strip(" \t\r\n\f")
        if len(reference) > MAX_URI_BYTES:
            return None
        if self._encoder is not None and not reference.isascii():
            reference = _with_query_in(reference, self._encoder)
        try:
            url = self._url + reference
        except (ValueError, TypeError):  # TypeError: a lone surrogate
            return None
        if url.protocol not in _SCHEMES:
            return None
        if url.has_hash():
            url.hash = ""
        uri = url.href
        if "^" in uri or "/." in uri:
            # The parser leaves a `^` as it is, which the standard encodes since 2024 and some servers refuse,
            # and overlooks `/../` behind a name that begins with a dot, but not behind a `/./`. The frontier
            # does the same (core/uri/canonical.py).
            url.pathname = "/." + url.pathname.replace("^", "%5E")
            uri = url.href
        return uri if len(uri) <= MAX_URI_BYTES else None


def resolve(base: str, reference: str) -> str | None:
    """As Base.resolve, for a single reference. None for an impossible base, too."""
    try:
        return Base(base).resolve(reference)
    except ValueError:
        return None


def reference_of(value: bytes) -> str:
    """A reference in bytes of which no charset is told, as in a header.

    Bytes that are not UTF-8 are percent-encoded as they came, as browsers do: a server that writes a name in
    Latin-1 there knows the file by these bytes. A host is no name of a file, and is read as Latin-1.
    """
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        host = _TO_HOST.match(value)
        end = host.end() if host is not None else 0
        return _text(value[:end]) + _HIGH.sub(lambda byte: b"%%%02X" % ord(byte[0]), value[end:]).decode()


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


_TO_HOST = re.compile(rb"\s*+(?:https?:)?+[/\\]{2,}+[^/\\?#]*+", re.IGNORECASE)
_HIGH = re.compile(rb"[\x80-\xff]")
_QUERY_AND_FRAGMENT = re.compile(r"[?#].*", re.DOTALL)
_QUERY = re.compile(r"[^?#]*+\?([^#]++)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]++")
_NEVER_IN_QUERY = re.compile(rb"[^!$-&(-;=?-~]")  # the special-query percent-encode set
_REFERENCED = "toehold.referenced"


def _with_query_in(reference: str, encoder: str) -> str:
    """A reference with its query percent-encoded in a charset (WHATWG URL, percent-encode after encoding).
    Characters that the charset lacks become character references, as in forms."""
    match = _QUERY.match(reference)
    if match is None:
        return reference
    query = _NOT_ASCII.sub(lambda text: _percent_encoded(text[0], encoder), match[1])
    return reference[: match.start(1)] + query + reference[match.end(1) :]


def _percent_encoded(text: str, encoder: str) -> str:
    written = text.encode(encoder, _REFERENCED)
    return _NEVER_IN_QUERY.sub(lambda byte: b"%%%02X" % ord(byte[0]), written).decode("ascii")


def _referenced(error: UnicodeError) -> tuple[str, int]:
    """The percent-encoded character references for characters that an encoder lacks."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(f"%26%23{ord(each)}%3B" for each in error.object[error.start : error.end]), error.end


codecs.register_error(_REFERENCED, _referenced)


def _parse(uri: str) -> can_ada.URL | None:
    try:
        return can_ada.parse(uri)
    except (ValueError, TypeError):
        return None
