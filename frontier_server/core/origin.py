"""What scheme, host and port of a URI decide: settings, standing in the scope, where it lives, whose
robots.txt it follows.

Links come in swarms, most of them of few origins. So a crawl remembers what it found for each, as far as
path and query have no say in it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from .keys import crawl_prefix
from .robotstxt.robots_table import key_of
from .spec.overrides import Overrides
from .spec.settings import CrawlSettings
from .uri import assign
from .uri.canonical import CanonicalUri, canonical_origin
from .uri.identity import identity_of
from .uri.scope import ScopeRules, Standing
from .uri.surt import surt_of

MAX_KNOWN = 20_000


class Site(NamedTuple):
    """Where a URI lives, and the key of its robots.txt."""

    place: assign.Place
    robots_key: bytes


class Origin(msgspec.Struct, frozen=True, gc=False):
    """What holds for all URIs of an origin; None where it depends on their path or query."""

    name: str  # `https://host:port`
    scheme: str
    host: str
    authority: str
    settings: CrawlSettings | None
    standing: Standing | None
    site: Site | None
    seen_prefix: bytes = b""
    """What the keys of all its URIs in the seen-set begin with, before their fingerprints; only where
    nothing of this is None."""

    def uri(self, text: str) -> CanonicalUri:
        """A URI of it that is canonical as it is written."""
        name = self.name
        return CanonicalUri(text, self.scheme, self.host, self.authority, text[len(name) :], name)


class Origins:
    """Those of a crawl, with its settings, overrides and scope of now, and with these hosts in groups
    (`assign.groups_of`)."""

    def __init__(
        self,
        crawl: int,
        settings: CrawlSettings,
        groups: Mapping[str, str],
        overrides: Overrides,
        rules: ScopeRules,
    ) -> None:
        self._crawl = crawl
        self._settings = settings
        self._groups = groups
        self._overrides = overrides
        self._rules = rules
        self._known: dict[str, Origin] = {}

    def named(self, name: str) -> Origin | None:
        """An origin by its name; None if that is not canonical."""
        known = self._known.get(name)
        if known is not None:
            return known
        root = canonical_origin(name)
        return None if root is None else self._remembered(root)

    def of(self, uri: CanonicalUri) -> Origin:
        """The origin of a URI."""
        return self._known.get(uri.origin) or self._remembered(uri)

    def settings_for(self, uri: CanonicalUri) -> CrawlSettings:
        """The settings of a URI: the crawl's, with the overrides of its SURT prefixes."""
        return self.of(uri).settings or self._overridden(surt_of(uri))

    def standing(self, uri: CanonicalUri) -> Standing:
        """What the scope says of a URI by what its SURT begins with."""
        return self.of(uri).standing or self._rules.standing(uri)

    def site(self, uri: CanonicalUri, settings: CrawlSettings) -> Site:
        """The site of a URI that has these settings."""
        origin = self.of(uri)
        if origin.site is not None and origin.settings is settings:
            return origin.site
        return self._site(uri, identity_of(uri, settings.identity), settings)

    def located(self, uri: CanonicalUri, settings: CrawlSettings) -> tuple[Site, bytes]:
        """The same, and the URI's fingerprint there."""
        origin = self.of(uri)
        if origin.site is not None and origin.settings is settings:
            return origin.site, assign.fingerprint(uri)
        identity = identity_of(uri, settings.identity)
        return self._site(uri, identity, settings), assign.fingerprint(identity)

    def forget(self) -> None:
        """Let go of what is remembered: overrides have changed, or nobody will ask."""
        self._known.clear()

    def _remembered(self, uri: CanonicalUri) -> Origin:
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        origin = self._known[uri.origin] = self._made(uri)
        return origin

    def _made(self, uri: CanonicalUri) -> Origin:
        surt = surt_of(uri)
        settings = None if self._overrides.tells_apart(surt) else self._overridden(surt)
        standing = None if self._rules.tells_apart(surt) else self._rules.standing_of(uri.scheme, surt)
        site, prefix = None, b""
        if settings is not None and _lives_by_origin(settings):
            site = self._site(uri, uri, settings)
            if standing is not None:
                prefix = crawl_prefix(self._crawl) + site.place.partition
        return Origin(uri.origin, uri.scheme, uri.host, uri.authority, settings, standing, site, prefix)

    def _overridden(self, surt: str) -> CrawlSettings:
        return self._overrides.settings_for(surt) or self._settings

    def _site(self, uri: CanonicalUri, identity: CanonicalUri, settings: CrawlSettings) -> Site:
        place = assign.place_of(uri, identity, settings, self._groups)
        return Site(place, key_of(uri.scheme, uri.host, uri.authority, settings))


def _lives_by_origin(settings: CrawlSettings) -> bool:
    """Whether path and query have no say in where a URI lives."""
    identity = settings.identity
    return not (identity.rules or identity.rewrites) and settings.queues.parallel_queues == 1
