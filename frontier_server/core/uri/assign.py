"""Finds the place of a canonical URI: its partition, work queue and fingerprint.

The partition decides which shard owns a URI. It is a pure function of the URI's identity, of settings that
are fixed at the crawl's creation, and of the rule and the list of public suffixes that the store was made
with. Queue keys subdivide a partition: URIs with the same key wait for each other. A queue never leaves its
partition, so two hosts share a queue only if they share the partition.

A partition begins with 16 bits of the site, and 48 bits of the host follow. Hosts of one site are neighbours,
so identity rules, which may turn one host of a site into another, do not lead out of a shard's range.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType

import msgspec

from ..rows.keys import robots_key
from ..spec.settings import CrawlSettings, IdentitySettings
from .canonical import CanonicalUri, canonical
from .identity import identity_of
from .suffixes import Suffixes, without_www
from .surt import turned

SITE_BYTES = 2  # of a partition
CACHED = 16_384  # hosts whose places are remembered


class Place(msgspec.Struct, frozen=True, gc=False):
    """The place of a URI."""

    partition: bytes  # 8 bytes
    queue: bytes  # 16 bytes: the partition, and 8 more of the queue key's hash
    queue_key: str
    forced: bool = False  # the caller chose the key


HASH_BYTES = 8


def hash64(text: str) -> bytes:
    """64 bits (keyless BLAKE2b); a hostile author of URIs cannot cheaply find collisions."""
    return blake2b(text.encode(), digest_size=HASH_BYTES).digest()


@lru_cache(maxsize=CACHED)
def keyed(partition: bytes, key: str) -> Place:
    """The place of the URIs of a partition whose caller chose the key of their queue."""
    return Place(partition, partition + hash64(key), key, True)


class Places:
    """The places of hosts and URIs in a store.

    `suffixes` is the list that the store was made with. In stores before format 3 (`by_site` is False) a
    partition has no bits of the site: it is the hash of a host, a registered domain or a group.
    """

    def __init__(self, suffixes: Suffixes, by_site: bool = True) -> None:
        self.suffixes = suffixes
        self.by_site = by_site
        # A method's own cache would keep each store's places alive; a crawl's hosts come again and again.
        self.of_host: Callable[[str], bytes] = lru_cache(maxsize=CACHED)(self._of_host)
        self._place = lru_cache(maxsize=CACHED)(self._placed)

    def of_uri(
        self, uri: CanonicalUri, identity: CanonicalUri, settings: CrawlSettings, groups: Mapping[str, str]
    ) -> Place:
        """Partition and queue of a URI.

        `identity` is `identity_of` the URI, and decides the partition: the same URIs share it.
        `groups` is `groups_of` the crawl's settings.
        """
        queues, host = settings.queues, identity.host
        return self._place(
            uri.scheme,
            uri.host,
            uri.authority,
            host,
            self._group(host, settings.identity, groups) if groups else None,
            _branch(uri.target, queues.parallel_queues) if queues.parallel_queues > 1 else "",
            queues.partition,
            queues.assignment,
            queues.buckets,
            queues.queue_key,
        )

    def partition(self, host: str, settings: CrawlSettings, groups: Mapping[str, str]) -> bytes:
        """The partition alone of the URIs whose identity has this host."""
        group = self._group(host, settings.identity, groups) if groups else None
        return self._partition(host, group, settings.queues.partition)

    def robots_key(self, scheme: str, host: str, authority: str, settings: CrawlSettings) -> bytes:
        """The key of the robots.txt of an authority, for crawls with these settings."""
        return robots_key(self.of_host(host), scheme, authority, settings.fetch.product_token.lower())

    def _of_host(self, host: str) -> bytes:
        """The partition that a host has by itself. Rows about hosts use it, whatever a crawl's policy."""
        own = hash64(host)
        return hash64(self.suffixes.site(host))[:SITE_BYTES] + own[SITE_BYTES:] if self.by_site else own

    def _group(self, host: str, identity: IdentitySettings, groups: Mapping[str, str]) -> str | None:
        """The named group of the URIs with a host in their identity."""
        group = groups.get(host)
        if group is None and self.by_site and identity.rules:
            # A home page keeps its `www.`, and must not leave the other pages of its host.
            return groups.get(_host_of_pages(host, identity))
        return group

    def _placed(
        self,
        scheme: str,
        host: str,
        authority: str,
        identity_host: str,
        group: str | None,
        branch: str,
        partition_policy: str,
        assignment: str,
        buckets: int,
        forced_key: str,
    ) -> Place:
        partition = self._partition(identity_host, group, partition_policy)
        policy = ASSIGNMENTS[assignment]
        key = (forced_key or policy(scheme, host, authority, buckets, self.suffixes)) + branch
        return Place(partition, partition + hash64(key), key)

    def _partition(self, identity_host: str, group: str | None, policy: str) -> bytes:
        if group is not None:
            return hash64(f"group:{group}")  # unlike any host: those have a colon only in brackets
        if policy == "registered-domain":
            within = without_www(identity_host) if self.by_site else identity_host
            return hash64(self.suffixes.registered_domain(within))
        return self.of_host(identity_host)


def groups_of(settings: CrawlSettings) -> dict[str, str]:
    """Each host of a named group, and the group's name."""
    groups: dict[str, str] = {}
    for group in settings.groups:
        for host in group.hosts:
            for member in group_members(host, settings.identity):
                groups.setdefault(member, group.name)
    return groups


def group_members(host: str, identity: IdentitySettings) -> tuple[str, ...]:
    """The hosts that an entry of a group's list stands for: itself, and the host of its identity.

    Raises the same errors as `canonical`.
    """
    uri = canonical(f"http://{host}/page")  # rules may treat home pages as an exception
    return (uri.host, identity_of(uri, identity).host)


@lru_cache(maxsize=CACHED)
def _host_of_pages(host: str, identity: IdentitySettings) -> str:
    """The host in the identity of a host's pages, apart from its home page."""
    return identity_of(canonical(f"http://{host}/page"), identity).host


def queue_key(scheme: str, host: str, authority: str) -> str:
    """The SURT authority: `com,example,www,`; `#443` for https, `#8080` for another port of http.

    http and https of a host are two queues, since they have two robots.txt files: so each
    queue waits only for its own robots.txt. If the port does not imply the scheme, the key
    names it (`#8443/https`).
    """
    return turned(host) + _port(scheme, host, authority)


def fingerprint(uri: CanonicalUri) -> bytes:
    """64 bits of the canonical URI; with its partition, the key of the seen-set."""
    return hash64(uri.uri)


def _port(scheme: str, host: str, authority: str) -> str:
    port = authority[len(host) + 1 :] or ("443" if scheme == "https" else "")
    if not port:
        return ""
    told = "https" if port == "443" else "http"
    return f"#{port}" if scheme == told else f"#{port}/{scheme}"


def _by_host(scheme: str, host: str, authority: str, buckets: int, suffixes: Suffixes) -> str:
    """`www.example.com`, with ports as in the SURT authority (Heritrix's Hostname)."""
    return host + _port(scheme, host, authority)


def _by_surt_authority(scheme: str, host: str, authority: str, buckets: int, suffixes: Suffixes) -> str:
    return queue_key(scheme, host, authority)


def _by_registered_domain(scheme: str, host: str, authority: str, buckets: int, suffixes: Suffixes) -> str:
    """`example.com` for all its hosts, schemes and ports (Heritrix's AssignmentLevelSurt)."""
    return suffixes.registered_domain(host)


def _by_bucket(scheme: str, host: str, authority: str, buckets: int, suffixes: Suffixes) -> str:
    """`bucket-17`: hosts are spread over a fixed number of queues by their hash."""
    return f"bucket-{int.from_bytes(hash64(host)) % buckets}"


PARTITIONS = ("host", "registered-domain")
ASSIGNMENTS: Mapping[str, Callable[[str, str, str, int, Suffixes], str]] = MappingProxyType(
    {
        "surt-authority": _by_surt_authority,
        "host": _by_host,
        "registered-domain": _by_registered_domain,
        "buckets": _by_bucket,
    }
)


def _branch(target: str, parallel_queues: int) -> str:
    """One of the parallel queues, by the first folder of the path; `+0` if there is none.

    URIs in one folder stay together, as in Heritrix.
    """
    path = target.partition("?")[0]
    end = path.find("/", 1)
    number = int.from_bytes(hash64(path[1:end])) % parallel_queues if end > 1 else 0
    return f"+{number}"
