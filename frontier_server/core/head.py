"""A URI at its turn: its row, and what follows from that."""

from typing import NamedTuple

from .crawl import Crawl
from .enqueue import first_uri, uris_from
from .model import Candidate, CandidateCodec
from .operation import Operation
from .queue import WorkQueue
from .records import PendingUri
from .spec.settings import CrawlSettings
from .uri.canonical import CanonicalUri, canonical


class Head(NamedTuple):
    """The first URI of a queue, or another one that is stored: waiting, out, or for later."""

    position: bytes  # empty if it is in no queue
    pending: PendingUri
    candidate: Candidate
    uri: CanonicalUri
    settings: CrawlSettings

    @property
    def source(self) -> str:
        """The seed that it descends from."""
        return self.candidate.source or (self.uri.uri if self.candidate.seed else "")


def read_head(crawl: Crawl, codec: CandidateCodec, position: bytes, pending: PendingUri) -> Head:
    """A URI as it is stored, with its settings of now."""
    candidate = codec.decode(pending.candidate)
    uri = canonical(candidate.uri)
    return Head(position, pending, candidate, uri, crawl.settings_for(uri))


def first_of(op: Operation, crawl: Crawl, codec: CandidateCodec, queue: WorkQueue) -> Head:
    """The first URI of a queue that has one."""
    return read_head(crawl, codec, *first_uri(op, crawl, queue))


def head_at(op: Operation, crawl: Crawl, codec: CandidateCodec, queue: WorkQueue, position: bytes) -> Head:
    """A URI at its place in a queue, as if it were the first."""
    return read_head(crawl, codec, *next(uris_from(op, crawl, queue, position)))


def queue_settings(op: Operation, crawl: Crawl, codec: CandidateCodec, queue: WorkQueue) -> CrawlSettings:
    """The settings of a queue as a whole: those of its head."""
    if not len(crawl.overrides) or not queue.row.count:
        return crawl.settings
    return first_of(op, crawl, codec, queue).settings
