"""A stored URI, with the values that follow from its row."""

from typing import NamedTuple

from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.records import PendingUri, decode_pending
from ..rows.store import Family
from ..spec.settings import CrawlSettings
from ..uri.assign import Place
from ..uri.canonical import CanonicalUri, canonical
from .crawl import Crawl
from .model import Candidate, CandidateCodec
from .operation import Operation
from .pending import first_uri, uris_from
from .queue import WorkQueue


class Head(NamedTuple):
    """The first URI of a queue, or another stored URI: waiting, leased, or a future one."""

    position: bytes  # empty if the URI is in no queue
    pending: PendingUri
    candidate: Candidate
    uri: CanonicalUri
    settings: CrawlSettings

    @property
    def source(self) -> str:
        """The seed that the URI descends from."""
        return self.candidate.seed_of(self.uri.uri)


def read_head(crawl: Crawl, codec: CandidateCodec, position: bytes, pending: PendingUri) -> Head:
    """A stored URI, with its present settings."""
    candidate = codec.decode(pending.candidate)
    uri = canonical(candidate.uri)
    return Head(position, pending, candidate, uri, crawl.settings_for(uri))


def stored_place(crawl: Crawl, head: Head, partition: bytes) -> Place:
    """The place of a stored URI, which cannot leave the partition that its rows are in.

    Raises StoreCorrupt: the partition follows from settings and a list that never change.
    """
    place = crawl.origins.site(head.uri, head.settings, head.candidate.queue_key).place
    if place.partition != partition:
        raise StoreCorrupt(
            f"crawl {crawl.name}: {head.uri.uri} must be in partition {place.partition.hex()} by the crawl's "
            f"settings and the store's list of public suffixes, but its rows are in {partition.hex()}"
        )
    return place


def first_of(op: Operation, crawl: Crawl, codec: CandidateCodec, queue: WorkQueue) -> Head:
    """The first URI of a non-empty queue."""
    return read_head(crawl, codec, *first_uri(op, crawl, queue))


def head_at(op: Operation, crawl: Crawl, codec: CandidateCodec, queue: WorkQueue, position: bytes) -> Head:
    """The URI at a position in a queue."""
    return read_head(crawl, codec, *next(uris_from(op, crawl, queue, position)))


def stored_head(op: Operation, crawl: Crawl, codec: CandidateCodec, queue_id: bytes, position: bytes) -> Head:
    """The URI that a lease or the seen-set says is at a position. Raises StoreCorrupt if it is missing."""
    value = op.tx.get(Family.PENDING, keys.pending_key(crawl.number, queue_id, position))
    if value is None:
        raise StoreCorrupt(
            f"crawl {crawl.name}: URI {position.hex()} of queue {queue_id.hex()} is not stored"
        )
    return read_head(crawl, codec, position, decode_pending(value))


def queue_settings(op: Operation, crawl: Crawl, codec: CandidateCodec, queue: WorkQueue) -> CrawlSettings:
    """The settings of a queue: those of its head."""
    if not len(crawl.overrides) or not queue.row.count:
        return crawl.settings
    return first_of(op, crawl, codec, queue).settings
