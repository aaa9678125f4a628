"""Which shard a URI belongs to.

A shard has whole sites, so for most crawls the host of a URI decides, and is looked at once. Only rewrites of
a crawl's own may lead to another site; then each URI is made canonical here, too.
"""

import re
from collections.abc import Callable, Sequence

from toehold.frontier.v1 import frontier_pb2

from ..core.spec.settings import CrawlSettings
from ..core.state.meaning import groups_of
from ..core.uri.assign import Places
from ..core.uri.canonical import (
    MAX_ORIGIN_BYTES,
    Malformed,
    TooLong,
    UnsupportedScheme,
    canonical,
    resolved,
)
from ..core.uri.identity import identity_of

MAX_KNOWN = 50_000  # origins
BEHIND_SCHEME = len("https://")
ANYWHERE = 0  # the shard that judges what has no place

URI = 1 << 3 | 2  # the tag of a candidate's first field; size and text follow
LONG, FIRST_LONG = 0x80, b"\x80"  # a size from 128 on takes two bytes
SHORT_AT, LONG_AT = 2, 3  # where the text begins
NO_ORIGIN = b"\xff"  # no text has such a byte

_HOST = r"(?:(?!xn--)[a-z0-9-]+\.)*(?!xn--)[a-z][a-z0-9-]*"  # neither a number nor encoded
_PLAIN = re.compile(rf"https?://({_HOST})(?::[0-9]+)?/".encode()).fullmatch
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]+)?(?=[/?#]|$)").match


class Placing:
    """The shards of one crawl's URIs. All that it depends on is fixed for the crawl's life."""

    def __init__(
        self, settings: CrawlSettings, places: Places, shard_of: Callable[[bytes], int], crawl: int = 0
    ) -> None:
        """`crawl` is the crawl's number, by which shards know that it is the one that they have."""
        self.crawl = crawl
        self._settings = settings
        self._places = places
        self._shard_of = shard_of
        self._groups = groups_of(settings)
        self._by_host = not settings.identity.rewrites
        self._has_no_rules = self._by_host and not settings.identity.rules
        self._known: dict[bytes, int] = {}

    def by_shard(self, candidates: Sequence[bytes]) -> dict[int, list[int]]:
        """The places of candidates in their request, by the shards that they belong to. They are in bytes, as
        a library writes them: the URI first, and once.

        All that the front does for each candidate is this loop, so it is written out. An origin that is known
        is found without a look at the rest. What seems to be one may reach beyond the URI, or be that of
        another field, so tag and size are looked at, too.
        """
        found: dict[int, list[int]] = {}
        known = self._known.get
        before, least = NO_ORIGIN, 0  # the origin of the candidate before: many links of a page have one
        indexes: list[int] = []
        for index, data in enumerate(candidates):
            if not (data.startswith(before, SHORT_AT) and data[0] == URI and least <= data[1] < LONG):
                start = SHORT_AT if data[1:2] < FIRST_LONG else LONG_AT
                before = data[start : data.find(b"/", start + BEHIND_SCHEME) + 1]
                least = len(before)
                shard = known(before)
                if shard is None:
                    shard = self._learned(before)
                if shard is None or data[0] != URI or data[1] < least:
                    message = frontier_pb2.Candidate.FromString(data)
                    shard = self.shard(message.uri, message.base)
                    before = NO_ORIGIN
                indexes = found.setdefault(shard, [])
            indexes.append(index)
        return found

    def shard(self, text: str, base: str = "") -> int:
        """The shard of a URI as it is offered."""
        match = _ORIGIN(text) if self._by_host else None
        origin = b"" if match is None else f"{match[0]}/".encode()
        shard = self._known.get(origin)
        if shard is None:
            shard = self._learned(origin)
        if shard is None:
            shard = self._found(text, base)
            if shard is None:
                return ANYWHERE
            if origin:
                self._keep(origin, shard)
        return shard

    def _learned(self, origin: bytes) -> int | None:
        """The shard of an origin whose host stands for itself, known from now on; None of another origin, or
        what is none."""
        plain = _PLAIN(origin) if self._has_no_rules and len(origin) <= MAX_ORIGIN_BYTES else None
        return None if plain is None else self._keep(origin, self._of_host(plain[1].decode()))

    def _keep(self, origin: bytes, shard: int) -> int:
        if len(origin) <= MAX_ORIGIN_BYTES:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[origin] = shard
        return shard

    def _found(self, text: str, base: str) -> int | None:
        """The shard of any URI; None of what is none."""
        whole = resolved(text, base) if base else text
        if whole is None:
            return None
        try:
            uri = canonical(whole)
        except (Malformed, TooLong, UnsupportedScheme):
            return None
        return self._of_host(identity_of(uri, self._settings.identity).host)

    def _of_host(self, host: str) -> int:
        """The shard of the URIs whose identity has this host."""
        return self._shard_of(self._places.partition(host, self._settings, self._groups))


PlacingOf = Callable[[str], Placing]
"""The placing of a crawl's URIs. Raises UnknownCrawl."""
