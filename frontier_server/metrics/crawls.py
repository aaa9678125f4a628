"""Crawls in numbers, as families of metrics. MAX_CRAWLS crawls have a label each; the others are summed."""

from collections import Counter
from collections.abc import Iterable

from toehold_base.observability.metrics import Metric, status_label
from toehold_base.observability.metrics_page import Families

from ..core.machines.lifecycle import CrawlState
from ..core.operators.measures import CrawlMeasures
from .definitions import (
    BYTES,
    CRAWL_PROBLEM,
    CRAWL_STATE,
    DEEPEST,
    DISCOVERED,
    DISPOSITIONS,
    EVENTS,
    LAPSES,
    LEASES,
    NOTED,
    NOVEL_BYTES,
    OTHERS,
    QUEUES,
    RELOCATED,
    ROBOTS_FETCHES,
    STATUSES,
    URIS,
    VERDICTS,
)

_COUNTS: tuple[tuple[Metric, str, str], ...] = (  # metric, label, count of the core
    (DISCOVERED, "", "discovered_count"),
    (DISPOSITIONS, "succeeded", "succeeded_count"),
    (DISPOSITIONS, "failed", "failed_count"),
    (DISPOSITIONS, "disregarded", "disregarded_count"),
    (DISPOSITIONS, "deferred", "deferred_count"),
    (ROBOTS_FETCHES, "", "robots_fetch_count"),
    (BYTES, "", "bytes_count"),
    (NOVEL_BYTES, "", "novel_bytes_count"),
    (RELOCATED, "", "relocated_count"),
    (NOTED, "", "noted_count"),
    (LAPSES, "", "lapsed_count"),
    (LEASES, "", "leased_count"),
    (URIS, "queued", "queued_count"),
    (URIS, "future", "future_count"),
    (URIS, "retired", "retired_uri_count"),
    (URIS, "ineligible", "ineligible_uri_count"),
)

Values = Counter[tuple[Metric, str]]
"""Metric and its second label (empty if it has none) → value."""


def values_of(crawl: CrawlMeasures) -> Values:
    values: Values = Counter()
    for state in CrawlState:
        values[CRAWL_STATE, state.value] = int(state is crawl.state)
    values[CRAWL_PROBLEM, ""] = int(crawl.has_problem)
    for metric, label, name in _COUNTS:
        values[metric, label] = crawl.counts[name]
    for verdict, count in crawl.verdicts.items():
        values[VERDICTS, verdict] = count
    for status, count in crawl.fetch_statuses.items():
        values[STATUSES, status_label(status)] += count
    for queue_state, count in crawl.queues.items():
        values[QUEUES, queue_state.value] = count
    values[DEEPEST, ""] = crawl.deepest_queue
    values[EVENTS, ""] = crawl.events
    return values


def add_crawls(families: Families, named: Iterable[CrawlMeasures], others: Iterable[CrawlMeasures]) -> None:
    """Add the values of crawls, and the sums of the others."""
    for crawl in named:
        _add(families, crawl.name, values_of(crawl))
    sums: Values = Counter()
    for crawl in others:
        deepest = max(sums[DEEPEST, ""], crawl.deepest_queue)
        sums.update(values_of(crawl))
        sums[DEEPEST, ""] = deepest
    if sums:
        _add(families, OTHERS, sums)


def _add(families: Families, crawl: str, values: Values) -> None:
    for (metric, label), value in values.items():
        families.add(metric, value, crawl, *((label,) if len(metric.labels) > 1 else ()))
