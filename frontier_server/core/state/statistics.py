"""Statistics of the URIs of hosts and sources (Heritrix: FetchStats), and their quotas.

Memory keeps the rows that were read; an operation writes each changed row once, at its end.
"""

from typing import NamedTuple

import msgspec

from ..rows.keys import FetchStatisticsOf
from ..rows.records import FetchStatisticsRow, decode
from ..rows.store import Family, Transaction
from ..rows.sums import added
from ..rules.disposition import ROBOTS_PRECLUDED, Disposition
from .crawl import Crawl
from .head import Head
from .operation import Operation


class Happened(msgspec.Struct, frozen=True, gc=False):
    """The result of a fetch, to be counted."""

    fetch_status: int
    disposition: Disposition
    body_bytes: int = 0
    novel: bool = False


def of(tx: Transaction, crawl: Crawl, kind: FetchStatisticsOf, name: str) -> FetchStatisticsRow:
    """The statistics of a host or a source."""
    row = crawl.statistics.get((kind, name))
    if row is None:
        value = tx.get(Family.FETCH_STATISTICS, crawl.statistics_key(kind, name))
        row = FetchStatisticsRow() if value is None else decode(FetchStatisticsRow, value)
        crawl.statistics[kind, name] = row
    return row


def note(op: Operation, crawl: Crawl, host: str, source: str, happened: Happened) -> None:
    """Count a result for the host and the source of a URI."""
    for kind, name in ((FetchStatisticsOf.HOST, host), (FetchStatisticsOf.SOURCE, source)):
        if name:
            _count(of(op.tx, crawl, kind, name), happened, op.now_ms)
            op.counters(crawl)
            op.statistics.add((crawl.number, kind, name))


def _count(row: FetchStatisticsRow, happened: Happened, now_ms: int) -> None:
    if happened.fetch_status > 0:
        row.responses += 1
        row.response_bytes = added(row.response_bytes, happened.body_bytes)
    else:
        row.non_responses += 1
    match happened.disposition:
        case Disposition.SUCCEEDED:
            row.successes += 1
            row.success_bytes = added(row.success_bytes, happened.body_bytes)
            row.last_success_ms = now_ms
        case Disposition.FAILED:
            row.failures += 1
        case Disposition.DISREGARDED:
            row.disregards += 1
            row.robots_denials += happened.fetch_status == ROBOTS_PRECLUDED
    if happened.novel:
        row.novel += 1
        row.novel_bytes = added(row.novel_bytes, happened.body_bytes)


class Spent(NamedTuple):
    """A spent quota: its field, its size, and its host or source."""

    field: str  # `host_quota.max_successes`
    most: int
    name: str

    @property
    def message(self) -> str:
        """The quota in words."""
        return f"quota limits.{self.field} {self.most} of {self.name} is spent"


def over_quota(tx: Transaction, crawl: Crawl, head: Head) -> Spent | None:
    """The quota of a head's host or source that is spent, if one is.

    Quotas are checked before each lease, so leases in flight can exceed them.
    """
    limits = head.settings.limits
    if not (limits.host_quota or limits.source_quota):
        return None
    for part, quota, kind, name in (
        ("host_quota", limits.host_quota, FetchStatisticsOf.HOST, head.uri.host),
        ("source_quota", limits.source_quota, FetchStatisticsOf.SOURCE, head.source),
    ):
        if quota and name:
            row = of(tx, crawl, kind, name)
            for field, most, actual in (
                ("max_successes", quota.max_successes, row.successes),
                ("max_success_bytes", quota.max_success_bytes, row.success_bytes),
                ("max_responses", quota.max_responses, row.responses),
                ("max_response_bytes", quota.max_response_bytes, row.response_bytes),
            ):
                if most and actual >= most:
                    return Spent(f"{part}.{field}", most, name)
    return None
