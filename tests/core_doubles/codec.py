"""Candidates and specs as the core's tests store them; the server stores the contract's messages instead."""

from collections.abc import Sequence
from typing import Any

import msgspec

from frontier_server.core.rows.errors import StoreCorrupt
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Candidate, Directive


class PlainCodec:
    """A candidate's record is MessagePack of its fields."""

    def decode(self, record: bytes) -> Candidate:
        """A candidate that was stored."""
        try:
            uri, via, path, directive, precedence, seed, annotations, *rest = msgspec.msgpack.decode(record)
            cost, not_before_ms, source, queue_key, refetch_before_ms, redirects, sent, now = rest
        except (msgspec.DecodeError, TypeError) as problem:
            raise StoreCorrupt("a stored candidate cannot be read") from problem
        return Candidate(
            uri,
            record,
            via,
            path,
            directive,
            precedence,
            seed,
            None if refetch_before_ms is None else int(refetch_before_ms),
            annotations,
            cost=cost,
            not_before_ms=not_before_ms,
            source=source,
            queue_key=queue_key,
            redirects=redirects,
            cookies_sent=sent,
            cookies_now=now,
        )

    def refetched(self, offered: Candidate, before_ms: int) -> Candidate:
        """A candidate that is fetched again if its URI was last fetched before this time."""
        fields = msgspec.msgpack.decode(offered.record)
        fields[11] = str(before_ms)
        return self.decode(msgspec.msgpack.encode(fields))

    def seed(self, uri: str) -> Candidate:
        """The candidate of a seed."""
        return candidate(uri, directive=Directive.MEDIUM, seed=True)


def candidate(
    uri: str,
    *,
    via: str = "",
    path: str = "",
    directive: int = Directive.NORMAL,
    precedence: int | None = None,
    seed: bool = False,
    refetch_before_ms: int | None = None,
    annotations: bytes = b"",
    cost: int | None = None,
    not_before_ms: int = 0,
    source: str = "",
    queue_key: str = "",
    redirects: bytes = b"",
    cookies_sent: bytes = b"",
    cookies_now: bytes = b"",
) -> Candidate:
    """A candidate with its record."""
    urgency = int(directive), precedence
    fields = (uri, via, path, *urgency, seed, annotations, cost, not_before_ms, source, queue_key)
    # In words: a time of the contract may have more than 64 bits of milliseconds.
    again = None if refetch_before_ms is None else str(refetch_before_ms)
    chained = again, redirects, cookies_sent, cookies_now
    return PlainCodec().decode(msgspec.msgpack.encode((*fields, *chained)))


def spec_of(settings: CrawlSettings) -> bytes:
    """Settings as a spec that is stored."""
    return msgspec.json.encode(settings)


def settings_of(spec: bytes, overrides: Sequence[bytes] = ()) -> CrawlSettings:
    """The settings of a stored spec, with overrides on top in their order."""
    try:
        return _settings_of(spec, overrides)
    except (msgspec.DecodeError, LookupError, TypeError) as problem:
        raise StoreCorrupt("a stored spec cannot be read") from problem


def _settings_of(spec: bytes, overrides: Sequence[bytes]) -> CrawlSettings:
    settings = msgspec.json.decode(spec, type=CrawlSettings)
    for override in overrides:
        made = msgspec.to_builtins(settings)
        for part, fields in msgspec.json.decode(override, type=dict[str, dict[str, Any]]).items():
            for name, value in fields.items():
                made[part][name] = {**made[part][name], **value} if isinstance(value, dict) else value
        settings = msgspec.convert(made, CrawlSettings)
    return settings


def override_of(**parts: dict[str, Any]) -> bytes:
    """An override as it is stored: parts of the settings, and their fields that it sets."""
    return msgspec.json.encode(parts)
