"""The keys of all rows, and the tokens of leases.

All integers are big endian, so key order is number order. The keys of a crawl begin with
its 32-bit number (0 is the server's own), then the partition if the row belongs to one, so
that a range of partitions is a range of keys. Variable text stands last, so it may contain
any bytes.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

from .store import Changes, Family

SERVER = 0  # the crawl number of rows that belong to no crawl


class CrawlRow(IntEnum):
    """The rows of a crawl in the family `crawls`."""

    SPEC = 0  # name and spec: written once
    STATE = 1  # life: written when it changes
    COUNTERS = 2  # statistics and serial numbers: written with the changes that they count
    SERVER = 3  # of crawl 0
    SESSION = 4  # of crawl 0, followed by a node's name: the session that has the name
    PLACES = 5  # of crawl 0: what the places of all rows follow
    LOG = 6  # of crawl 0, in the store alone: how far it has come in its log (`stores.logged`)


class FetchStatisticsOf(IntEnum):
    """The subject of a row in the family `fetch_statistics`."""

    HOST = 0
    SOURCE = 1


STANDS_BACK = 256
"""Above all precedences: the ranks of inactive queues that stand back begin here."""


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
    REFUSED = 8
    LANE = 9
    LANE_HEAD = 10
    LED = 11
    LANDED = 12


_COUNTS = frozenset({CrawlRow.COUNTERS, CrawlRow.SERVER})
_CRAWL_ROW_AT = 4  # in the key of a crawl's row

crawl_prefix: Callable[[int], bytes] = struct.Struct(">I").pack
"""The beginning of all keys of a crawl. A method of C: it takes half as long, and every row calls it."""


def crawl_key(crawl: int, row: CrawlRow) -> bytes:
    """Family `crawls`."""
    return crawl_prefix(crawl) + bytes((row,))


_MARK_KEY = crawl_key(SERVER, CrawlRow.LOG)


def is_mark(family: Family, key: bytes) -> bool:
    """Whether a row says how far a store has come in its log."""
    return family is Family.CRAWLS and key == _MARK_KEY


def are_counts(changes: Changes) -> bool:
    """Whether changes are of crawls' counters and the server's row alone: what led to them is counted, and
    leaves no other trace."""
    return all(family is Family.CRAWLS and key[_CRAWL_ROW_AT] in _COUNTS for family, key in changes)


def serial_key(crawl: int, serial: int) -> bytes:
    """Families `seeds`, `events`, `outcomes` and `jobs`: the numbered rows of a crawl."""
    return crawl_prefix(crawl) + serial.to_bytes(8, "big")


def serial_of(key: bytes) -> int:
    """The number of such a row."""
    return int.from_bytes(key[4:12], "big")


def queue_row_key(crawl: int, queue: bytes) -> bytes:
    """Family `queues`; also the beginning of the keys of its pending URIs."""
    return crawl_prefix(crawl) + queue


POSITION_BYTES = 8
QUEUE_BYTES = 16  # of a queue's id: its partition, and the hash of its key
LAST_POSITION = b"\xff" * POSITION_BYTES


def level_position(level: int, ordinal: int) -> bytes:
    """The position of a URI in its queue: its level (directive and precedence), then its ordinal."""
    return level.to_bytes(2, "big") + ordinal.to_bytes(6, "big")


def before(position: bytes) -> bytes:
    """The last position before one. No URI has the very first."""
    return (int.from_bytes(position, "big") - 1).to_bytes(POSITION_BYTES, "big")


def level_of(position: bytes) -> int:
    return int.from_bytes(position[:2], "big")


def ordinal_of(position: bytes) -> int:
    return int.from_bytes(position[2:], "big")


BY_TIME = 1 << 40  # ordinals of queues in the order of arrival stay below it
PLACES_OF_A_SECOND = 1 << 16


def timed_ordinal(due_ms: int, number: int) -> int:
    """The ordinal of a URI in a queue in the order of time: 32 bits of seconds, and 16 to tell URIs apart."""
    return max(min(due_ms // 1000, (1 << 32) - 1) << 16, BY_TIME) | number & 0xFFFF


def due_of_position(position: bytes) -> int:
    """Since when a URI of a queue is due, if the queue is in that order; 0 otherwise."""
    ordinal = ordinal_of(position)
    return (ordinal >> 16) * 1000 if ordinal >= BY_TIME else 0


def pending_key(crawl: int, queue: bytes, position: bytes) -> bytes:
    """Family `pending`."""
    return crawl_prefix(crawl) + queue + position


def seen_key(crawl: int, partition: bytes, fingerprint: bytes) -> bytes:
    """Family `seen`."""
    return crawl_prefix(crawl) + partition + fingerprint


def inactive_key(crawl: int, rank: int, serial: int, queue: bytes) -> bytes:
    """Family `index`: a queue that waits for activation, first come first within a rank."""
    return rank_prefix(crawl, rank) + serial.to_bytes(8 if rank < STANDS_BACK else 6, "big") + queue


def rank_prefix(crawl: int, rank: int) -> bytes:
    """The inactive queues of a rank: a precedence, over STANDS_BACK if they stand back. The ranks sort in the
    order of activation, as no serial number begins with the byte 128.
    """
    ranked = bytes((rank,)) if rank < STANDS_BACK else bytes((255, 128, rank - STANDS_BACK))
    return crawl_prefix(crawl) + bytes((IndexSet.INACTIVE,)) + ranked


def set_prefix(crawl: int, index: IndexSet) -> bytes:
    """All members of a set of a crawl."""
    return crawl_prefix(crawl) + bytes((index,))


def member_key(crawl: int, index: IndexSet, queue: bytes) -> bytes:
    """Family `index`: a queue in a set without order."""
    return set_prefix(crawl, index) + queue


def timed_key(crawl: int, index: IndexSet, due_ms: int, member: bytes) -> bytes:
    """Family `index`: a snoozed queue or a future URI, by the time when it is due.

    `member` is the queue's 16 bytes, or the URI's partition and fingerprint.
    """
    return set_prefix(crawl, index) + due_ms.to_bytes(8, "big") + member


def due_of(key: bytes) -> int:
    """The time in a timed key."""
    return int.from_bytes(key[5:13], "big")


def lane_prefix(crawl: int, queue: bytes, lane: bytes) -> bytes:
    """Family `index`: the URIs of an authority in a queue that several share; their positions follow."""
    return set_prefix(crawl, IndexSet.LANE) + queue + lane


def lane_head_prefix(crawl: int, queue: bytes) -> bytes:
    """Family `index`: the lanes of a queue, in order. The position of the first URI, and the lane, follow."""
    return set_prefix(crawl, IndexSet.LANE_HEAD) + queue


def refusal_prefix(crawl: int, rule: str) -> bytes:
    """Family `index`: the examples of URIs that a rule refused."""
    name = rule.encode()
    return set_prefix(crawl, IndexSet.REFUSED) + bytes((len(name),)) + name


def refusal_key(crawl: int, rule: str, place: int) -> bytes:
    """Family `index`: one of these examples."""
    return refusal_prefix(crawl, rule) + bytes((place,))


def led_key(crawl: int, uri_hash: bytes) -> bytes:
    """Family `index`: what a URI redirects to, if a seed has led to it by redirects (see `landings`)."""
    return set_prefix(crawl, IndexSet.LED) + uri_hash


def landed_prefix(crawl: int, uri_hash: bytes) -> bytes:
    """Family `index`: the seeds that were led to a URI; the hash of each one's page follows."""
    return set_prefix(crawl, IndexSet.LANDED) + uri_hash


def name_prefix(crawl: int, key_hash: bytes) -> bytes:
    """Family `index`: all queues whose key has this hash; partitions follow."""
    return set_prefix(crawl, IndexSet.NAME) + key_hash


def statistics_key(crawl: int, kind: int, partition: bytes, name: str) -> bytes:
    """Family `fetch_statistics`: counts of the URIs of a host or a source (see `FetchStatisticsOf`)."""
    return statistics_prefix(crawl, kind) + partition + name.encode()


def statistics_prefix(crawl: int, kind: int) -> bytes:
    """All hosts, or all sources, of a crawl."""
    return crawl_prefix(crawl) + bytes((kind,))


def override_key(crawl: int, surt_prefix: str) -> bytes:
    """Family `overrides`."""
    return crawl_prefix(crawl) + surt_prefix.encode()


def import_key(crawl: int, job: int, place: int) -> bytes:
    """Family `imports`: an entry that an import has yet to take in."""
    return import_prefix(crawl, job) + place.to_bytes(8, "big")


def import_prefix(crawl: int, job: int) -> bytes:
    """All entries that an import has yet to take in."""
    return crawl_prefix(crawl) + job.to_bytes(8, "big")


def parked_key(crawl: int, part: int, place: int) -> bytes:
    """Family `imports` of a coordinator: a link that waits for a part of a crawl."""
    return import_key(crawl, part, place)


def parked_part(key: bytes) -> int:
    """The part that a link waits for."""
    return int.from_bytes(key[4:12])


def parked_place(key: bytes) -> int:
    """The number of a link among those that wait for its part."""
    return int.from_bytes(key[12:])


def parked_with_part(key: bytes, part: int) -> bytes:
    """The key of a link that waits for another part."""
    return key[:4] + part.to_bytes(8) + key[12:]


def scope_key(crawl: int, partition: bytes, authority_hash: bytes) -> bytes:
    """Family `index`: a host in scope."""
    return crawl_prefix(crawl) + bytes((IndexSet.SCOPE,)) + partition + authority_hash


def lease_key(crawl: int, partition: bytes, serial: int) -> bytes:
    """Family `leases`."""
    return crawl_prefix(crawl) + partition + serial.to_bytes(8, "big")


def host_key(partition: bytes, host: str) -> bytes:
    """Family `hosts`, shared by all crawls."""
    return partition + host.encode()


def own_host_key(crawl: int, partition: bytes, host: str) -> bytes:
    """Family `own_hosts`: hosts that a crawl does not share, and its groups of hosts."""
    return crawl_prefix(crawl) + partition + host.encode()


def robots_key(partition: bytes, scheme: str, authority: str, agent: str) -> bytes:
    """Family `robots`, shared by all crawls with the same product token."""
    return partition + f"{scheme}://{authority}\0{agent}".encode()


def own_robots_key(shared: bytes, crawl: int) -> bytes:
    """The key of an answer that counts for one crawl alone, beside the one that all crawls share."""
    return shared + f"\0{crawl}".encode()


def lease_serial(incarnation: int, count: int) -> int:
    """The number of a crawl's lease, unique in the whole world.

    `incarnation` is 32 random bits of the server's start, `count` the lease's number in its crawl. Counts
    repeat if a store was copied, set back or cut short by a power loss; the incarnation then tells the
    leases apart.
    """
    return (incarnation & _MASK) << 32 | count & _MASK


_MASK = (1 << 32) - 1


class Token(NamedTuple):
    """The content of a genuine token."""

    crawl: int
    partition: bytes
    serial: int
    fingerprint: bytes  # of the URI; for a robots.txt, the beginning of its host's rows
    robots: bool


_TOKEN = struct.Struct(">I8sQ8s?")
_TAG_BYTES = 8


def encode_token(token: Token, secret: bytes) -> bytes:
    """A token in bytes, with a tag that only the server can make."""
    body = _TOKEN.pack(*token)
    return body + blake2b(body, digest_size=_TAG_BYTES, key=secret).digest()


def decode_token(data: bytes, secret: bytes) -> Token | None:
    """A token from bytes; None unless a server with this secret made it."""
    body, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    if (
        len(data) != _TOKEN.size + _TAG_BYTES
        or tag != blake2b(body, digest_size=_TAG_BYTES, key=secret).digest()
    ):
        return None
    return Token(*_TOKEN.unpack(body))
