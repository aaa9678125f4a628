"""Finds the place of a canonical URI: its partition, work queue and fingerprint.

The partition decides which shard owns a URI. It is a pure function of the URI's
identity and of settings that are fixed at the crawl's creation: its host or registered
domain, or the named group of the host. Queue keys subdivide a partition: URIs with the
same key wait for each other. A queue never leaves its partition, so two hosts share a
queue only if they share the partition.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from hashlib import blake2b
from types import MappingProxyType

import msgspec
from publicsuffixlist import PublicSuffixList

from ..spec.settings import CrawlSettings, IdentitySettings
from .canonical import CanonicalUri, canonical
from .identity import identity_of
from .surt import is_address, turned


class Place(msgspec.Struct, frozen=True, gc=False):
    """The place of a URI."""

    partition: bytes  # 8 bytes
    queue: bytes  # 16 bytes: the partition, and 8 more of the queue key's hash
    queue_key: str
    forced: bool = False  # the caller chose the key


def hash64(text: str) -> bytes:
    """64 bits (keyless BLAKE2b); a hostile author of URIs cannot cheaply find collisions."""
    return blake2b(text.encode(), digest_size=8).digest()


@lru_cache(maxsize=16384)
def partition_of(host: str) -> bytes:
    """The partition that a host has by itself; rows about hosts always use this one."""
    return hash64(host)


def place_of(
    uri: CanonicalUri, identity: CanonicalUri, settings: CrawlSettings, groups: Mapping[str, str]
) -> Place:
    """Partition and queue of a URI.

    `identity` is `identity_of` the URI, and decides the partition: the same URIs share it.
    `groups` is `groups_of` the crawl's settings.
    """
    queues = settings.queues
    host = identity.host
    return _place(
        uri.scheme,
        uri.host,
        uri.authority,
        host,
        groups.get(host),
        _branch(uri.target, queues.parallel_queues) if queues.parallel_queues > 1 else "",
        queues.partition,
        queues.assignment,
        queues.buckets,
        queues.queue_key,
    )


@lru_cache(maxsize=16384)
def keyed(partition: bytes, key: str) -> Place:
    """The place of the URIs of a partition whose caller chose the key of their queue."""
    return Place(partition, partition + hash64(key), key, True)


@lru_cache(maxsize=16384)
def place(scheme: str, host: str, authority: str) -> Place:
    """Partition and queue of the URIs of a scheme and authority, in the default settings."""
    key = queue_key(scheme, host, authority)
    partition = partition_of(host)
    return Place(partition, partition + hash64(key), key)


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


@lru_cache(maxsize=16384)
def registered_domain(host: str) -> str:
    """`example.co.uk` for `www.example.co.uk`, by the ICANN section of the Public Suffix List.

    Addresses, single labels and public suffixes stay as they are. The list comes with the
    installed `publicsuffixlist`: another version may move hosts to other partitions.
    """
    if is_address(host):
        return host
    return _suffixes().privatesuffix(host) or host


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


def _by_host(scheme: str, host: str, authority: str, buckets: int) -> str:
    """`www.example.com`, with ports as in the SURT authority (Heritrix's Hostname)."""
    return host + _port(scheme, host, authority)


def _by_surt_authority(scheme: str, host: str, authority: str, buckets: int) -> str:
    return queue_key(scheme, host, authority)


def _by_registered_domain(scheme: str, host: str, authority: str, buckets: int) -> str:
    """`example.com` for all its hosts, schemes and ports (Heritrix's AssignmentLevelSurt)."""
    return registered_domain(host)


def _by_bucket(scheme: str, host: str, authority: str, buckets: int) -> str:
    """`bucket-17`: hosts are spread over a fixed number of queues by their hash."""
    return f"bucket-{int.from_bytes(hash64(host)) % buckets}"


def _own(host: str) -> str:
    return host


PARTITIONS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"host": _own, "registered-domain": registered_domain}
)
ASSIGNMENTS: Mapping[str, Callable[[str, str, str, int], str]] = MappingProxyType(
    {
        "surt-authority": _by_surt_authority,
        "host": _by_host,
        "registered-domain": _by_registered_domain,
        "buckets": _by_bucket,
    }
)


@lru_cache(maxsize=16384)
def _place(
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
    """`place_of`, cached: a crawl has few settings, and its hosts come again and again."""
    if group is None:
        partition = partition_of(PARTITIONS[partition_policy](identity_host))
    else:
        partition = partition_of(f"group:{group}")  # unlike any host: those have a colon only in brackets
    key = (forced_key or ASSIGNMENTS[assignment](scheme, host, authority, buckets)) + branch
    return Place(partition, partition + hash64(key), key)


def _branch(target: str, parallel_queues: int) -> str:
    """One of the parallel queues, by the first folder of the path; `+0` if there is none.

    URIs in one folder stay together, as in Heritrix.
    """
    path = target.partition("?")[0]
    end = path.find("/", 1)
    number = int.from_bytes(hash64(path[1:end])) % parallel_queues if end > 1 else 0
    return f"+{number}"


@cache
def _suffixes() -> PublicSuffixList:
    """The list, read at its first use: that takes about 40 ms."""
    return PublicSuffixList(only_icann=True)
