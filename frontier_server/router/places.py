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
from ..core.uri.canonical import Malformed, TooLong, UnsupportedScheme, canonical, resolved
from ..core.uri.identity import identity_of

MAX_KNOWN = 50_000  # origins
BEHIND_SCHEME = len("https://")
ANYWHERE = 0  # the shard that judges what has no place

_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]+)?(?=[/?#]|$)").match


class Placing:
    """The shards of one crawl's URIs. All that it depends on is fixed for the crawl's life."""

    def __init__(self, settings: CrawlSettings, places: Places, shard_of: Callable[[bytes], int]) -> None:
        self._settings = settings
        self._places = places
        self._shard_of = shard_of
        self._groups = groups_of(settings)
        self._by_host = not settings.identity.rewrites
        self._known: dict[str, int] = {}

    def by_shard(self, candidates: Sequence[frontier_pb2.Candidate]) -> dict[int, list[int]]:
        """The places of candidates in their request, by the shards that they belong to.

        Half of what a request costs the front is this loop, so it is written out. An origin that is known is
        found without a look at its text: only those that `_ORIGIN` takes are.
        """
        found: dict[int, list[int]] = {}
        known = self._known
        before: str | tuple[()] = ()  # the origin of the candidate before: many links of a page have one
        indexes: list[int] = []
        for index, text in enumerate([candidate.uri for candidate in candidates]):
            if not text.startswith(before):
                end = text.find("/", BEHIND_SCHEME)
                shard = known.get(text[:end]) if end > 0 else None
                if shard is None:
                    shard = self.shard(text, candidates[index].base)
                    before = ()
                else:
                    before = text[: end + 1]
                indexes = found.setdefault(shard, [])
            indexes.append(index)
        return found

    def shard(self, text: str, base: str = "") -> int:
        """The shard of a URI as it is offered."""
        origin = _ORIGIN(text) if self._by_host else None
        if origin is None:
            return self._found(text, base)
        known = self._known.get(origin[0])
        if known is None:
            known = self._found(text, base)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[origin[0]] = known
        return known

    def _found(self, text: str, base: str) -> int:
        whole = resolved(text, base) if base else text
        if whole is None:
            return ANYWHERE
        try:
            uri = canonical(whole)
        except (Malformed, TooLong, UnsupportedScheme):
            return ANYWHERE
        identity = identity_of(uri, self._settings.identity)
        return self._shard_of(self._places.of_uri(uri, identity, self._settings, self._groups).partition)


PlacingOf = Callable[[str], Placing]
"""The placing of a crawl's URIs. Raises UnknownCrawl."""
