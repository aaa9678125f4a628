"""SURTs: URIs with the host turned around, so that related URIs have a common prefix.

`https://www.example.com:8080/a` → `http://(com,example,www,:8080)/a`. As in Heritrix
(SURT, SurtPrefixSet), https is written http, and all is lower case, so that neither
makes two sites of one; addresses are not turned around.
"""

import re
from bisect import insort
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Generic, TypeVar

from .canonical import (
    MAX_URI_BYTES,
    CanonicalUri,
    Malformed,
    TooLong,
    UnsupportedScheme,
    canonical,
    longer_than,
)

MAX_SHOWN = 80

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SURT = re.compile(r"https?://\(")
_LABEL = r"[a-z0-9_~!$&'*+;=%-]+"
_HOST = rf"(?:(?:{_LABEL},)+|[0-9.]+|\[[0-9a-f:]+\])"
_SURT_PREFIX = re.compile(
    rf"https?://\((?:{_HOST}(?::[0-9]+)?\)(?:/[!-~]*)?"  # closed: this host, and a path
    rf"|(?:{_LABEL},)*(?:{_LABEL})?|[0-9.]+|\[[0-9a-f:]*\]?|{_HOST}:[0-9]*)"  # open: all hosts that begin so
)
# Characters with a meaning in a SURT, escaped: a host could use them to pass for another.
_ESCAPES = str.maketrans({",": "%2c", "(": "%28", ")": "%29"})

T = TypeVar("T")


def surt_of(uri: CanonicalUri) -> str:
    host = uri.host
    return f"http://({turned(host)}{uri.authority[len(host) :]}){uri.target}".lower()


def surt_prefix(text: str) -> str:
    """The SURT prefix that a text stands for. Raises Malformed, which names the text.

    - a host, also as `http://host`, means the host and its subdomains, on every port:
      `example.com` → `http://(com,example,`
    - a host with a port, or an address, means exactly that: `example.com:81` →
      `http://(com,example,:81)`
    - a URL means its folder, without the last component of the path and the query:
      `http://example.com/a/b` → `http://(com,example,)/a/`; `http://example.com/` means that host
      alone, without subdomains
    - a SURT prefix means itself, as http and in lower case

    Heritrix leaves the parenthesis open for ports and addresses, too: its 127.0.0.1 also
    matches 127.0.0.10.
    """
    wrong = (
        f"{text[:MAX_SHOWN]!r} is not a host, an http(s) URL or a SURT prefix such as "
        "http://(com,example, or http://(com,example,www,)/folder/"
    )
    plain = text.strip()
    if longer_than(plain, MAX_URI_BYTES) or any(mark in plain for mark in "\t\r\n"):
        raise Malformed(wrong)
    form = plain.lower()
    if _SURT.match(form):
        if not _SURT_PREFIX.fullmatch(form):
            raise Malformed(wrong)
        return "http" + form[form.index(":") :]
    if not _SCHEME.match(plain):
        plain = f"http://{plain}"
    beyond = plain[plain.index("://") + 3 :]
    authority = re.split(r"[/\\?#]", beyond, maxsplit=1)[0]
    if any(mark in authority for mark in "@ ,()"):
        raise Malformed(wrong)
    try:
        uri = canonical(plain)
    except (Malformed, UnsupportedScheme, TooLong) as problem:
        raise Malformed(wrong) from problem
    host = turned(uri.host)
    port = uri.authority[len(uri.host) :]
    if authority != beyond:
        path = uri.target.partition("?")[0]
        return f"http://({host}{port}){path[: path.rindex('/') + 1]}".lower()
    return f"http://({host}{port})" if port or is_address(uri.host) else f"http://({host}"


@lru_cache(maxsize=16384)
def turned(host: str) -> str:
    """`www.example.com` → `com,example,www,`; an address stays as it is."""
    if is_address(host):
        return host
    return ",".join(reversed(host.translate(_ESCAPES).split("."))) + ","


def is_address(host: str) -> bool:
    """Whether the host of a canonical URI is an IP address."""
    return host[0] == "[" or host.replace(".", "").isdigit()


class SurtPrefixes(Generic[T]):
    """A value for each of many SURT prefixes.

    A look-up costs one step for each distinct length of the prefixes, however many
    prefixes there are.
    """

    def __init__(self) -> None:
        self._values: dict[str, T] = {}
        self._deep: Counter[str] = Counter()  # SURT of an authority → its prefixes with a path
        self._of_length: dict[int, int] = {}  # length → prefixes
        self._lengths: list[int] = []  # ascending

    def put(self, prefix: str, value: T) -> None:
        """Set the value of a prefix, as `surt_prefix` returns it."""
        if prefix not in self._values:
            self._count_path(prefix, 1)
            length = len(prefix)
            count = self._of_length.get(length, 0)
            if count == 0:
                insort(self._lengths, length)
            self._of_length[length] = count + 1
        self._values[prefix] = value

    def discard(self, prefix: str) -> None:
        """Forget a prefix, if it is there."""
        if prefix not in self._values:
            return
        del self._values[prefix]
        self._count_path(prefix, -1)
        length = len(prefix)
        self._of_length[length] -= 1
        if self._of_length[length] == 0:
            del self._of_length[length]
            self._lengths.remove(length)

    def longest(self, surt: str) -> tuple[str, T] | None:
        """The longest prefix of a SURT, and its value."""
        for length in reversed(self._lengths):
            if length <= len(surt) and (prefix := surt[:length]) in self._values:
                return prefix, self._values[prefix]
        return None

    def matching(self, surt: str) -> list[T]:
        """The values of all prefixes of a SURT, the shortest first."""
        return [
            self._values[prefix]
            for length in self._lengths
            if length <= len(surt) and (prefix := surt[:length]) in self._values
        ]

    def tells_apart(self, surt: str) -> bool:
        """Whether some URIs of a SURT's origin begin with a prefix that others don't."""
        return bool(self._deep) and surt[: surt.index(")") + 1] in self._deep

    def _count_path(self, prefix: str, by: int) -> None:
        """Count a prefix with a path, except for the path `/`."""
        authority, closed, path = prefix.partition(")")
        if len(path) > 1:
            left = self._deep[authority + closed] = self._deep[authority + closed] + by
            if not left:
                del self._deep[authority + closed]

    def items(self) -> Iterable[tuple[str, T]]:
        """The prefixes and their values, in no particular order."""
        return self._values.items()

    def __len__(self) -> int:
        return len(self._values)
