"""A URI at its turn: its row, and what follows from that."""

from typing import NamedTuple

from .crawl import Crawl
from .model import Candidate, CandidateCodec
from .records import PendingUri
from .spec.settings import CrawlSettings
from .uri.canonical import CanonicalUri, canonical


class Head(NamedTuple):
    """The first URI of a queue, or one that is out."""

    position: bytes
    pending: PendingUri
    candidate: Candidate
    uri: CanonicalUri
    settings: CrawlSettings


def read_head(crawl: Crawl, codec: CandidateCodec, position: bytes, pending: PendingUri) -> Head:
    """A URI as it is stored, with its settings of now."""
    candidate = codec.decode(pending.candidate)
    uri = canonical(candidate.uri)
    return Head(position, pending, candidate, uri, crawl.settings_for(uri))
