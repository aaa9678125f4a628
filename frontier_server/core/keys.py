"""The key of every row, and the token of a lease.

All integers are big endian, so key order is number order. Everything of a crawl
begins with its 32-bit number (0 is the server's own), then the partition where a
row belongs to one, so that a range of partitions is a range of keys. Variable
text stands last, so that any bytes in it are safe.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

SERVER = 0  # the crawl number of rows that belong to no crawl


class CrawlRow(IntEnum):
    """The rows of a crawl in the family `crawls`."""

    SPEC = 0  # name and spec: written once
    STATE = 1  # life: written when it changes
    COUNTERS = 2  # statistics and serial numbers: written with whatever they count
    SERVER = 3  # of crawl 0
    SESSION = 4  # of crawl 0: whose a node's name is, which follows


class FetchStatisticsOf(IntEnum):
    """Whose statistics a row of the family `figures` holds."""

    HOST = 0
    SOURCE = 1


class IndexSet(IntEnum):
    """The sets in the family `index`."""

    ACTIVE = 0
    INACTIVE = 1
    SCOPE = 2
    RETIRED = 3
    INELIGIBLE = 4
    FAR = 5
    FUTURE = 6
    NAME = 7


crawl_prefix: Callable[[int], bytes] = struct.Struct(">I").pack
"""What every key of a crawl begins with. Each row asks for it: a method of C takes half as long."""


def crawl_key(crawl: int, row: CrawlRow) -> bytes:
    """Family `crawls`."""
    return crawl_prefix(crawl) + bytes((row,))


def serial_key(crawl: int, serial: int) -> bytes:
    """Families `seeds`, `events`, `outcomes` and `jobs`: numbered rows of a crawl."""
    return crawl_prefix(crawl) + serial.to_bytes(8, "big")


def serial_of(key: bytes) -> int:
    """The number of such a row."""
    return int.from_bytes(key[4:12], "big")


def queue_row_key(crawl: int, queue: bytes) -> bytes:
    """Family `queues`; also what all keys of its pending URIs begin with."""
    return crawl_prefix(crawl) + queue


POSITION_BYTES = 8
LAST_POSITION = b"\xff" * POSITION_BYTES


def level_position(level: int, ordinal: int) -> bytes:
    """The order of a URI within its queue: directive and precedence, which are its level, then its ordinal
    (Heritrix 2.3)."""
    return level.to_bytes(2, "big") + ordinal.to_bytes(6, "big")


def level_of(position: bytes) -> int:
    """The level of such a place."""
    return int.from_bytes(position[:2], "big")


def ordinal_of(position: bytes) -> int:
    """The ordinal of such a place."""
    return int.from_bytes(position[2:], "big")


def pending_key(crawl: int, queue: bytes, position: bytes) -> bytes:
    """Family `pending`."""
    return crawl_prefix(crawl) + queue + position


def seen_key(crawl: int, partition: bytes, fingerprint: bytes) -> bytes:
    """Family `seen`."""
    return crawl_prefix(crawl) + partition + fingerprint


def inactive_key(crawl: int, precedence: int, serial: int, queue: bytes) -> bytes:
    """Family `index`: a queue that waits for activation, first come first."""
    return inactive_prefix(crawl) + bytes((precedence,)) + serial.to_bytes(8, "big") + queue


def inactive_prefix(crawl: int) -> bytes:
    """All inactive queues of a crawl, in the order of activation."""
    return crawl_prefix(crawl) + bytes((IndexSet.INACTIVE,))


def set_prefix(crawl: int, index: IndexSet) -> bytes:
    """All members of a set of a crawl."""
    return crawl_prefix(crawl) + bytes((index,))


def member_key(crawl: int, index: IndexSet, queue: bytes) -> bytes:
    """Family `index`: a queue in a set without order."""
    return set_prefix(crawl, index) + queue


def timed_key(crawl: int, index: IndexSet, due_ms: int, member: bytes) -> bytes:
    """Family `index`: a snoozed queue or a future URI, by the time when it is due.

    A queue is told by its 16 bytes, a URI by its partition and its fingerprint.
    """
    return set_prefix(crawl, index) + due_ms.to_bytes(8, "big") + member


def due_of(key: bytes) -> int:
    """The time in such a key."""
    return int.from_bytes(key[5:13], "big")


def name_prefix(crawl: int, key_hash: bytes) -> bytes:
    """Family `index`: all queues whose key has this hash; partitions follow."""
    return set_prefix(crawl, IndexSet.NAME) + key_hash


def statistics_key(crawl: int, kind: int, partition: bytes, name: str) -> bytes:
    """Family `statistics`: what happened to the URIs of a host or of a source (see `FetchStatisticsOf`)."""
    return statistics_prefix(crawl, kind) + partition + name.encode()


def statistics_prefix(crawl: int, kind: int) -> bytes:
    """All hosts, or all sources, of a crawl."""
    return crawl_prefix(crawl) + bytes((kind,))


def override_key(crawl: int, surt_prefix: str) -> bytes:
    """Family `overrides`."""
    return crawl_prefix(crawl) + surt_prefix.encode()


def import_key(crawl: int, job: int, place: int) -> bytes:
    """Family `imports`: what a job of import has yet to take in."""
    return import_prefix(crawl, job) + place.to_bytes(8, "big")


def import_prefix(crawl: int, job: int) -> bytes:
    """All that a job of import has yet to take in."""
    return crawl_prefix(crawl) + job.to_bytes(8, "big")


def scope_key(crawl: int, partition: bytes, authority_hash: bytes) -> bytes:
    """Family `index`: a host in scope."""
    return crawl_prefix(crawl) + bytes((IndexSet.SCOPE,)) + partition + authority_hash


def lease_key(crawl: int, partition: bytes, serial: int) -> bytes:
    """Family `leases`."""
    return crawl_prefix(crawl) + partition + serial.to_bytes(8, "big")


def host_key(partition: bytes, host: str) -> bytes:
    """Family `hosts`; of all crawls."""
    return partition + host.encode()


def own_host_key(crawl: int, partition: bytes, host: str) -> bytes:
    """Family `own_hosts`: hosts that a crawl counts for itself alone, and its groups of hosts."""
    return crawl_prefix(crawl) + partition + host.encode()


def robots_key(partition: bytes, scheme: str, authority: str, agent: str) -> bytes:
    """Family `robots`; of all crawls with the same product token."""
    return partition + f"{scheme}://{authority}\0{agent}".encode()


def lease_serial(incarnation: int, count: int) -> int:
    """The number of a crawl's lease, used once in all the world.

    `incarnation` is 32 random bits of the server's start, `count` which of the crawl's leases it is. A store
    that was copied, put back or cut short by a power loss counts again what has been counted already; the
    start tells those leases apart.
    """
    return (incarnation & _MASK) << 32 | count & _MASK


_MASK = (1 << 32) - 1


class Token(NamedTuple):
    """What a lease's token says, once it has been found genuine."""

    crawl: int
    partition: bytes
    serial: int
    fingerprint: bytes  # the URI's fingerprint, or for robots.txt what its host's rows begin with
    robots: bool


_TOKEN = struct.Struct(">I8sQ8s?")
_TAG_BYTES = 8


def encode_token(token: Token, secret: bytes) -> bytes:
    """The token as it leaves the server, with a tag that only the server can make."""
    body = _TOKEN.pack(*token)
    return body + blake2b(body, digest_size=_TAG_BYTES, key=secret).digest()


def decode_token(data: bytes, secret: bytes) -> Token | None:
    """The token, or None if the server that has the secret never made it."""
    body, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    if (
        len(data) != _TOKEN.size + _TAG_BYTES
        or tag != blake2b(body, digest_size=_TAG_BYTES, key=secret).digest()
    ):
        return None
    return Token(*_TOKEN.unpack(body))
