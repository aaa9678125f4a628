"""The origin of a URI decides its settings, its standing in the scope, its place and its robots.txt.

Links come in swarms, most of them to few origins. So a crawl remembers these decisions for each origin,
unless they depend on path or query.
"""

from collections.abc import Mapping

import msgspec

from ..rows.keys import crawl_prefix
from ..spec.settings import CrawlSettings
from ..uri import assign
from ..uri.canonical import CanonicalUri, canonical_origin
from ..uri.identity import identity_of
from ..uri.scope import ScopeRules, ScopeStanding
from ..uri.surt import surt_of
from .overrides import Overrides

MAX_KNOWN = 20_000


class Site(msgspec.Struct, frozen=True, gc=False):
    """The place of a URI, the key of its robots.txt, and the prefix of its key in the seen-set. The URI's
    fingerprint follows that prefix."""

    place: assign.Place
    robots_key: bytes
    seen_prefix: bytes


class Origin(msgspec.Struct, gc=False):
    """The decisions for all URIs of an origin; None where they depend on path or query."""

    name: str  # `https://host:port`
    scheme: str
    host: str
    authority: str
    settings: CrawlSettings | None
    standing: ScopeStanding | None
    together: bool  # whether all URIs have one site
    site: Site | None = None  # that site, made on demand: most origins are out of scope

    @property
    def decides(self) -> bool:
        """Whether path and query are irrelevant to all of these decisions."""
        return self.together and self.standing is not None

    def uri(self, text: str) -> CanonicalUri:
        """A URI of this origin whose text is canonical."""
        name = self.name
        return CanonicalUri(text, self.scheme, self.host, self.authority, text[len(name) :], name)


class Origins:
    """The origins of a crawl, for its present settings, overrides and scope. `groups` is
    `assign.groups_of`."""

    def __init__(
        self,
        crawl: int,
        settings: CrawlSettings,
        groups: Mapping[str, str],
        overrides: Overrides,
        rules: ScopeRules,
        places: assign.Places,
    ) -> None:
        self._crawl = crawl
        self._places = places
        self._settings = settings
        self._groups = groups
        self._overrides = overrides
        self._rules = rules
        self._known: dict[str, Origin] = {}

    def named(self, name: str) -> Origin | None:
        """An origin by its name; None if the name is not canonical."""
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

    def standing(self, uri: CanonicalUri) -> ScopeStanding:
        """The standing of a URI in the scope by its SURT."""
        return self.of(uri).standing or self._rules.standing(uri)

    def site(self, uri: CanonicalUri, settings: CrawlSettings, queue_key: str = "") -> Site:
        """The site of a URI with these settings, and the key of its queue if its caller chose that."""
        if queue_key:
            return keyed(self.site(uri, settings), queue_key)
        origin = self.of(uri)
        if origin.together and origin.settings is settings:
            return self.site_of(origin, settings)
        return self._found(uri, identity_of(uri, settings.identity), settings)

    def site_of(self, origin: Origin, settings: CrawlSettings) -> Site:
        """The one site of an origin whose URIs have these settings and are `together`."""
        if origin.site is None:
            root = origin.uri(f"{origin.name}/")
            origin.site = self._found(root, root, settings)
        return origin.site

    def located(self, uri: CanonicalUri, settings: CrawlSettings, queue_key: str = "") -> tuple[Site, bytes]:
        """The site of a URI as in `site`, and its fingerprint there."""
        return self.site(uri, settings, queue_key), assign.fingerprint(identity_of(uri, settings.identity))

    def forget(self) -> None:
        """Forget all decisions."""
        self._known.clear()

    def _remembered(self, uri: CanonicalUri) -> Origin:
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        origin = self._known[uri.origin] = self._made(uri)
        return origin

    def _made(self, uri: CanonicalUri) -> Origin:
        surt = surt_of(uri) if len(self._overrides) or self._rules.has_prefixes else ""
        settings = None if self._overrides.tells_apart(surt) else self._overridden(surt)
        standing = None if self._rules.tells_apart(surt) else self._rules.standing_of(uri.scheme, surt)
        together = settings is not None and _lives_by_origin(settings)
        return Origin(uri.origin, uri.scheme, uri.host, uri.authority, settings, standing, together)

    def _overridden(self, surt: str) -> CrawlSettings:
        return self._overrides.settings_for(surt) or self._settings

    def _found(self, uri: CanonicalUri, identity: CanonicalUri, settings: CrawlSettings) -> Site:
        place = self._places.of_uri(uri, identity, settings, self._groups)
        robots_key = self._places.robots_key(uri.scheme, uri.host, uri.authority, settings)
        return Site(place, robots_key, crawl_prefix(self._crawl) + place.partition)


def keyed(site: Site, queue_key: str) -> Site:
    """A site, but with a queue whose key the caller of the URI chose."""
    place = assign.keyed(site.place.partition, queue_key)
    return Site(place, site.robots_key, site.seen_prefix)


def _lives_by_origin(settings: CrawlSettings) -> bool:
    """Whether path and query are irrelevant to the place of a URI."""
    identity = settings.identity
    return not (identity.rules or identity.rewrites) and settings.queues.parallel_queues == 1
