"""Candidates and specs as the core's tests store them; the server stores the contract's messages instead."""

import msgspec

from frontier_server.core.model import DEFAULT_PRECEDENCE, Candidate, Directive
from frontier_server.core.settings import CrawlSettings


class PlainCodec:
    """A candidate's record is MessagePack of its fields."""

    def decode(self, record: bytes) -> Candidate:
        """A candidate that was stored."""
        uri, via, path, directive, precedence, seed, annotations = msgspec.msgpack.decode(record)
        return Candidate(uri, record, via, path, directive, precedence, seed, None, annotations)

    def seed(self, uri: str) -> Candidate:
        """The candidate of a seed."""
        return candidate(uri, directive=Directive.MEDIUM, seed=True)


def candidate(
    uri: str,
    *,
    via: str = "",
    path: str = "",
    directive: int = Directive.NORMAL,
    precedence: int = DEFAULT_PRECEDENCE,
    seed: bool = False,
    refetch_before_ms: int | None = None,
    annotations: bytes = b"",
) -> Candidate:
    """A candidate with its record. (When to fetch again matters only while it is judged.)"""
    fields = (uri, via, path, int(directive), precedence, seed, annotations)
    record = msgspec.msgpack.encode(fields)
    return Candidate(uri, record, via, path, int(directive), precedence, seed, refetch_before_ms, annotations)


def spec_of(settings: CrawlSettings) -> bytes:
    """Settings as a spec that is stored."""
    return msgspec.json.encode(settings)


def settings_of(spec: bytes) -> CrawlSettings:
    """The settings of a stored spec."""
    return msgspec.json.decode(spec, type=CrawlSettings)
