"""Where URIs live and whose robots.txt they follow: what their scheme and authority decide.

Links come in swarms, most of them of few origins. So a crawl remembers what was found for each, where its own
settings hold and neither path nor query has a say.
"""

from collections.abc import Mapping
from typing import NamedTuple

from .robotstxt.robots_table import key_of
from .spec.settings import CrawlSettings
from .uri import assign
from .uri.canonical import CanonicalUri
from .uri.identity import identity_of

MAX_KNOWN = 20_000


class Site(NamedTuple):
    """What holds for the URIs of an origin."""

    place: assign.Place
    robots_key: bytes


class Sites:
    """Those of a crawl with these settings, and these hosts in groups (`assign.groups_of`)."""

    def __init__(self, settings: CrawlSettings, groups: Mapping[str, str]) -> None:
        self._settings = settings
        self._groups = groups
        identity = settings.identity
        self._by_origin = not (identity.rules or identity.rewrites) and settings.queues.parallel_queues == 1
        self._known: dict[str, Site] = {}

    def of(self, uri: CanonicalUri, settings: CrawlSettings) -> Site:
        """The site of a URI that has these settings: the crawl's, or with overrides."""
        if self._by_origin and settings is self._settings:
            return self._known.get(uri.origin) or self._remembered(uri)
        return self._found(uri, identity_of(uri, settings.identity), settings)

    def located(self, uri: CanonicalUri, settings: CrawlSettings) -> tuple[Site, bytes]:
        """The same, and the URI's fingerprint there."""
        if self._by_origin and settings is self._settings:
            return self._known.get(uri.origin) or self._remembered(uri), assign.fingerprint(uri)
        identity = identity_of(uri, settings.identity)
        return self._found(uri, identity, settings), assign.fingerprint(identity)

    def forget(self) -> None:
        """Let go of what is remembered."""
        self._known.clear()

    def _remembered(self, uri: CanonicalUri) -> Site:
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        site = self._known[uri.origin] = self._found(uri, uri, self._settings)
        return site

    def _found(self, uri: CanonicalUri, identity: CanonicalUri, settings: CrawlSettings) -> Site:
        place = assign.place_of(uri, identity, settings, self._groups)
        return Site(place, key_of(uri.scheme, uri.host, uri.authority, settings))
