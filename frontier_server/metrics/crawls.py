"""Crawls in numbers, as families of metrics. MAX_CRAWLS crawls have a label each; the others are summed."""

from collections import Counter
from collections.abc import Iterable

from toehold_base.observability.metrics import Metric, status_label
from toehold_base.observability.metrics_page import Families

from ..core.machines.lifecycle import CrawlState
from ..core.operators.measures import CrawlMeasures
from . import definitions

_COUNTS: tuple[tuple[Metric, str, str], ...] = (  # metric, label, count of the core
    (definitions.DISCOVERED, "", "discovered_count"),
    (definitions.DISPOSITIONS, "succeeded", "succeeded_count"),
    (definitions.DISPOSITIONS, "failed", "failed_count"),
    (definitions.DISPOSITIONS, "disregarded", "disregarded_count"),
    (definitions.DISPOSITIONS, "deferred", "deferred_count"),
    (definitions.ROBOTS_FETCHES, "", "robots_fetch_count"),
    (definitions.BYTES, "", "bytes_count"),
    (definitions.NOVEL_BYTES, "", "novel_bytes_count"),
    (definitions.RELOCATED, "", "relocated_count"),
    (definitions.NOTED, "", "noted_count"),
    (definitions.LAPSES, "", "lapsed_count"),
    (definitions.LEASES, "", "leased_count"),
    (definitions.URIS, "queued", "queued_count"),
    (definitions.URIS, "future", "future_count"),
    (definitions.URIS, "retired", "retired_uri_count"),
    (definitions.URIS, "ineligible", "ineligible_uri_count"),
)

Values = Counter[tuple[Metric, str]]
"""Metric and its second label (empty if it has none) → value."""


def values_of(crawl: CrawlMeasures) -> Values:
    values: Values = Counter()
    for state in CrawlState:
        values[definitions.CRAWL_STATE, state.value] = int(state is crawl.state)
    values[definitions.CRAWL_PROBLEM, ""] = int(crawl.has_problem)
    for metric, label, name in _COUNTS:
        values[metric, label] = crawl.counts[name]
    for verdict, count in crawl.verdicts.items():
        values[definitions.VERDICTS, verdict] = count
    for status, count in crawl.fetch_statuses.items():
        values[definitions.STATUSES, status_label(status)] += count
    for queue_state, count in crawl.queues.items():
        values[definitions.QUEUES, queue_state.value] = count
    values[definitions.DEEPEST, ""] = crawl.deepest_queue
    values[definitions.EVENTS, ""] = crawl.events
    return values


def add_crawls(families: Families, named: Iterable[CrawlMeasures], others: Iterable[CrawlMeasures]) -> None:
    """Add the values of crawls, and the sums of the others."""
    for crawl in named:
        _add(families, crawl.name, values_of(crawl))
    sums: Values = Counter()
    for crawl in others:
        deepest = max(sums[definitions.DEEPEST, ""], crawl.deepest_queue)
        sums.update(values_of(crawl))
        sums[definitions.DEEPEST, ""] = deepest
    if sums:
        _add(families, definitions.OTHERS, sums)


def _add(families: Families, crawl: str, values: Values) -> None:
    for (metric, label), value in values.items():
        families.add(metric, value, crawl, *((label,) if len(metric.labels) > 1 else ()))
