"""Canonical URI → where it lives: partition, work queue and fingerprint.

The partition is a pure function of the host, fixed for ever: it decides which
shard owns a URI. Queue keys subdivide a partition (Heritrix's SURT authority
policy: `com,example,www,`, with `#port` for a port other than 80).
"""

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from .canonical import CanonicalUri


class Place(NamedTuple):
    """Where the URIs of one scheme and authority live."""

    partition: bytes  # 8 bytes
    queue: bytes  # 16 bytes: the partition, and 8 more of the queue key's hash
    queue_key: str


def hash64(text: str) -> bytes:
    """64 bits that a hostile author of URIs cannot steer cheaply (keyless BLAKE2b)."""
    return hash64_bytes(text.encode())


def hash64_bytes(data: bytes) -> bytes:
    """The same, of bytes."""
    return blake2b(data, digest_size=8).digest()


@lru_cache(maxsize=65536)
def partition_of(host: str) -> bytes:
    """The partition of a host."""
    return hash64(host)


@lru_cache(maxsize=65536)
def place(scheme: str, host: str, authority: str) -> Place:
    """Partition and queue of the URIs of a scheme and authority."""
    key = queue_key(scheme, host, authority)
    partition = partition_of(host)
    return Place(partition, partition + hash64(key), key)


def queue_key(scheme: str, host: str, authority: str) -> str:
    """The SURT authority: `com,example,www,`; `#443` for https, `#8080` for another port of http.

    http and https of a host are two queues, as their robots.txt are two files: a
    queue then waits for no robots.txt but its own (D23). Where the port does not
    tell the scheme, the key does (`#8443/https`).
    """
    port = authority[len(host) + 1 :] or ("443" if scheme == "https" else "")
    if host.startswith("[") or host.replace(".", "").isdigit():
        labels = host  # addresses are not turned around
    else:
        labels = ",".join(reversed(host.split("."))) + ","
    if not port:
        return labels
    told = "https" if port == "443" else "http"
    return f"{labels}#{port}" if scheme == told else f"{labels}#{port}/{scheme}"


def fingerprint(uri: CanonicalUri) -> bytes:
    """64 bits of the canonical URI; with its partition, the key of the seen-set."""
    return hash64(uri.uri)
