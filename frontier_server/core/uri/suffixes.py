"""Registered domains and sites, by a list of public suffixes (https://publicsuffix.org).

Another version of the list would move hosts to other places, and their pages would be fetched again. So each
store keeps the list that it was made with, packed, and never uses another.
"""

import re
import zlib
from functools import lru_cache

from publicsuffixlist import PublicSuffixList

from .surt import is_address

_WWW = re.compile(r"(?:www[0-9]*\.)+(?=.)")


def packed(text: str) -> bytes:
    """A list of public suffixes without its remarks, compressed. Its sections stay told apart."""
    lines = (line.strip() for line in text.splitlines())
    kept = [line for line in lines if line and (not line.startswith("//") or "===" in line)]
    return zlib.compress("\n".join(kept).encode(), 9)


def without_www(host: str) -> str:
    """A host without `www.`, `www2.` and the like in front."""
    found = _WWW.match(host)
    return host if found is None else host[found.end() :]


@lru_cache(maxsize=4)
def _read(packed_list: bytes, only_icann: bool) -> PublicSuffixList:
    """Takes some 30 ms, so it waits until somebody asks, and frontiers in one process share what is read."""
    return PublicSuffixList(zlib.decompress(packed_list) if packed_list else None, only_icann=only_icann)


class Suffixes:
    """A list of public suffixes. Without one, the list that comes with the installed `publicsuffixlist`."""

    def __init__(self, packed_list: bytes = b"") -> None:
        self.packed = packed_list

    def check(self) -> None:
        """Read the list. Raises ValueError if that cannot be done."""
        try:
            for only_icann in (True, False):
                _read(self.packed, only_icann)
        except (zlib.error, UnicodeDecodeError) as problem:
            raise ValueError(f"the list of public suffixes cannot be read: {problem}") from problem

    def registered_domain(self, host: str) -> str:
        """`example.co.uk` for `www.example.co.uk`, by the ICANN section of the list.

        Addresses, single labels and public suffixes stay as they are.
        """
        return host if is_address(host) else _read(self.packed, True).privatesuffix(host) or host

    def site(self, host: str) -> str:
        """The registered domain by the whole list: `a.github.io` and `b.github.io` are two sites.

        `www.github.io` is of the site `github.io`: rules of identity may remove the `www.` in front.
        """
        host = without_www(host)
        return host if is_address(host) else _read(self.packed, False).privatesuffix(host) or host
