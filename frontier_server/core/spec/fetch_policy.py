"""Fetch policies: what nodes need to know to fetch, made from settings and named by what they say."""

from dataclasses import dataclass, replace
from hashlib import blake2b

from ..uri.canonical import CanonicalUri
from ..uri.surt import surt_of, surt_prefix
from .settings import CrawlSettings, Credential, ExtractSettings, FetchSettings

MAX_REMEMBERED = 1_000  # settings whose policies are


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """What a node needs to know to fetch. `fetch` is without credentials: `credential` is the one to use."""

    policy_id: str
    user_agent: str
    allowed_addresses: tuple[str, ...]
    max_bytes_per_second: int
    fetch: FetchSettings
    credential: Credential | None
    extract: ExtractSettings


class FetchPolicies:
    """The fetch policies of a crawl. `version` is that of the user agent."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._by_id: dict[str, FetchPolicy] = {}
        # By identity: settings are as large as they are few. Each is kept, so that no other gets its id.
        self._made: dict[tuple[int, Credential | None], tuple[CrawlSettings, FetchPolicy]] = {}

    def of(self, settings: CrawlSettings, uri: CanonicalUri) -> FetchPolicy:
        """How a URI with these settings is fetched."""
        credentials = settings.fetch.credentials
        key = (id(settings), _matching(credentials, uri) if credentials else None)
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= MAX_REMEMBERED:
                self._made.clear()
            made = self._made[key] = (settings, fetch_policy(settings, key[1], self._version))
            self._by_id.setdefault(made[1].policy_id, made[1])
        return made[1]

    def named(self, policy_id: str) -> FetchPolicy:
        """A policy of a lease that was given."""
        return self._by_id[policy_id]


def fetch_policy(settings: CrawlSettings, credential: Credential | None, version: str) -> FetchPolicy:
    """The fetch policy of settings; its id is a digest of all that it says."""
    fetch, politeness = settings.fetch, settings.politeness
    contact = f" (+{settings.contact})" if settings.contact else ""
    agent = f"{fetch.product_token}/{version}{contact}"
    rate = politeness.max_bytes_per_second
    policy = FetchPolicy(
        "",
        agent,
        settings.allowed_addresses,
        max(1, rate // politeness.max_parallel) if rate else 0,
        replace(fetch, credentials=()),
        credential,
        settings.extract,
    )
    policy_id = blake2b(repr(policy).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return replace(policy, policy_id=policy_id)


def _matching(credentials: tuple[Credential, ...], uri: CanonicalUri) -> Credential | None:
    """The credential with the longest prefix. One for https is not shown to whoever listens to http."""
    surt = surt_of(uri)
    fitting = [
        (len(prefix), each)
        for each in credentials
        if surt.startswith(prefix := surt_prefix(each.surt_prefix))
        and (uri.scheme == "https" or not each.surt_prefix.strip().lower().startswith("https:"))
    ]
    return max(fitting, key=lambda found: found[0])[1] if fitting else None
