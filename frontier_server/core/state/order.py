"""What the coordinator of a larger crawl asks of the part that this core has, and what it hears of it.

An order says everything that the part should be, and not what has changed. So a lost one is made good by the
next, a repeated one changes nothing, and a late one is known by its number and ignored.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from ..machines.lifecycle import CrawlState
from ..machines.target import Target
from ..rows.records import CountersRow
from .model import EmptyReason

DIGEST_BYTES = 16


class Facts(NamedTuple):
    """A crawl as those must know it who pass calls on to its parts."""

    number: int
    reason: EmptyReason  # why it gives no leases; NOTHING_DUE or LIMIT_REACHED if it runs
    takes_in: bool
    next_ranks: tuple[int, ...]  # of the queues whose turns come next, by part; empty if they are equal


class Order(msgspec.Struct, frozen=True):
    """The part of a crawl as it should be. `number` is the crawl's, and the same in all parts."""

    crawl: str
    number: int
    serial: int  # above that of all earlier orders of the crawl to this part
    digest: bytes  # of `spec` and `overrides`
    spec: bytes | None = None  # None if the part has them already
    overrides: Sequence[tuple[str, bytes]] = ()
    target: Target | None = None  # None until the crawl's seeds are announced
    interrupts: bool = False  # fetches of a crawl that ends are broken off
    documents: int = 0  # its share of the document limit, with the documents that it has fetched
    toes: int = 0  # its share of `max_toes`
    recrawl_ms: int = 0  # known pages fetched before are fetched again
    tears_down: bool = False
    deleted: bool = False
    launch_ms: int = 0  # when the crawl was launched; 0 until then


class Stamp(msgspec.Struct, frozen=True):
    """Equal stamps of a part that was at rest both times: it was at rest all the time in between."""

    incarnation: int
    intakes: int
    leases: int


class Progress(msgspec.Struct, frozen=True):
    """The part of a crawl as it is. Without `state` the core does not have it."""

    crawl: str
    number: int
    moment: int = 0  # counts what the core has changed since its start; the later, the newer
    order: int = 0  # the serial of the last order
    digest: bytes = b""
    state: CrawlState | None = None
    held: bool = False
    torn_down: bool = False
    reason: str = ""
    trouble: str = ""
    counters: CountersRow | None = None
    queues: Mapping[str, int] = {}
    leases_out: int = 0
    pages_out: int = 0
    left: bool = True
    stamp: Stamp = Stamp(0, 0, 0)
    documents_lent: int = 0
    toes_lent: int = 0
    documents: int = 0  # that count towards the limit
    starves: bool = False  # it has URIs to lease, but a share that is used up
    recrawl_ms: int = 0
    nodes: Mapping[str, str] = {}
    last_event: int = 0
    next_rank: int | None = None  # of the queues that have their turns next, if it is known


def digest_of(spec: bytes, overrides: Sequence[tuple[str, bytes]]) -> bytes:
    """The digest of a spec and its overrides, in the order of their prefixes."""
    found = blake2b(len(spec).to_bytes(8, "big") + spec, digest_size=DIGEST_BYTES)
    for prefix, override in overrides:
        for each in (prefix.encode(), override):
            found.update(len(each).to_bytes(8, "big") + each)
    return found.digest()
