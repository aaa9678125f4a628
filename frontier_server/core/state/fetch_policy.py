"""Fetch policies: the settings that nodes need to fetch. Their ids are digests of their contents."""

import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import blake2b

from ..spec.settings import CrawlSettings, Credential, ExtractSettings, FetchSettings
from ..uri.canonical import CanonicalUri
from ..uri.surt import SurtPrefixes, surt_of, surt_prefix

MAX_REMEMBERED = 1_000  # settings with their policies


@dataclass(frozen=True, slots=True)
class Provenance:
    """What archives say of a crawl, whatever the overrides of a URI."""

    launch_ms: int
    operator: str
    contact: str
    description: str
    user_agent: str
    robots_policy: str


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """The settings that a node needs to fetch. `credential` replaces the credentials of `fetch`."""

    policy_id: str
    user_agent: str
    allowed_addresses: tuple[str, ...]
    max_bytes_per_second: int
    min_delay_ms: int
    fetch: FetchSettings
    credential: Credential | None
    extract: ExtractSettings
    provenance: Provenance


class FetchPolicies:
    """The fetch policies of a crawl. The user agent includes `version`."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._by_id: dict[str, FetchPolicy] = {}
        # By identity: settings are large, and few.
        self._made: OrderedDict[int, _Made] = OrderedDict()  # the one used last is last

    def of(
        self, settings: CrawlSettings, uri: CanonicalUri, crawl: CrawlSettings, launch_ms: int
    ) -> FetchPolicy:
        """The fetch policy of a URI with these settings, in a crawl with those, launched at that time."""
        made = self._made.get(id(settings))
        if made is None:
            made = self._made[id(settings)] = _Made(settings)
            if len(self._made) > MAX_REMEMBERED:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(id(settings))
        credential = made.credential(uri)
        policy = made.policies.get(credential)
        if policy is None:
            whose = provenance(crawl, launch_ms, self._version)
            policy = fetch_policy(settings, credential, self._version, whose)
            made.policies[credential] = policy
            self._by_id.setdefault(policy.policy_id, policy)
        return policy

    def named(self, policy_id: str) -> FetchPolicy:
        """A policy of a lease that was given."""
        return self._by_id[policy_id]


class _Made:
    """The policies of some settings. It keeps the settings, so that no others get their `id()`."""

    def __init__(self, settings: CrawlSettings) -> None:
        self.settings = settings
        self.policies: dict[Credential | None, FetchPolicy] = {}
        self._credentials: dict[str, SurtPrefixes[Credential]] = {
            "http": SurtPrefixes(),
            "https": SurtPrefixes(),
        }
        for each in settings.fetch.credentials:
            prefix = surt_prefix(each.surt_prefix)
            self._credentials["https"].put(prefix, each)
            # A credential for https must not be readable on the network over http.
            if not each.surt_prefix.strip().lower().startswith("https:"):
                self._credentials["http"].put(prefix, each)

    def credential(self, uri: CanonicalUri) -> Credential | None:
        """The credential with the longest prefix of a URI."""
        if not self.settings.fetch.credentials:
            return None
        found = self._credentials[uri.scheme].longest(surt_of(uri))
        return found[1] if found is not None else None


def provenance(settings: CrawlSettings, launch_ms: int, version: str) -> Provenance:
    """What archives say of a crawl with these settings."""
    return Provenance(
        launch_ms,
        settings.operator,
        settings.contact,
        settings.description,
        _user_agent(settings, version),
        settings.robots.policy,
    )


def fetch_policy(
    settings: CrawlSettings, credential: Credential | None, version: str, whose: Provenance
) -> FetchPolicy:
    """The fetch policy of settings; its id is a digest of its contents."""
    fetch, politeness = settings.fetch, settings.politeness
    rate = politeness.max_bytes_per_second
    policy = FetchPolicy(
        "",
        _user_agent(settings, version),
        settings.allowed_addresses,
        max(1, rate // politeness.max_parallel) if rate else 0,
        politeness.min_delay_ms,
        replace(fetch, credentials=()),
        credential,
        settings.extract,
        whose,
    )
    policy_id = blake2b(repr(policy).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return replace(policy, policy_id=policy_id)


def _user_agent(settings: CrawlSettings, version: str) -> str:
    if template := settings.fetch.user_agent:
        values = {"product": settings.fetch.product_token, "version": version, "contact": settings.contact}
        return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], template).strip()
    contact = f" (+{settings.contact})" if settings.contact else ""
    return f"{settings.fetch.product_token}/{version}{contact}"
