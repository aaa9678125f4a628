"""How a reference becomes an absolute URI."""

import can_ada

MAX_URI_BYTES = 8192
"""Longer URIs are dropped: the frontier would refuse them."""

_SCHEMES = ("http:", "https:")


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


def absolute(uri: str) -> str | None:
    """As resolve, for what must be absolute by itself."""
    return resolve(uri.strip(), "")


def _parse(uri: str) -> can_ada.URL | None:
    try:
        return can_ada.parse(uri)
    except (ValueError, TypeError):
        return None
