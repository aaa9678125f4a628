"""Estimates the time that a crawl still needs.

The shortest time is that of all URIs at the crawl's best rate, the present one or the average. The longest
is that at its worst rate, or the time that its largest queue needs by itself, if that is longer. Limits of
the crawl shorten both. URIs that are found later come on top. A crawl that pauses or is paused has the
estimate of its average rate, for the time from when it runs again.
"""

from ..crawl import Crawl
from ..machines.lifecycle import CrawlState

LEAST_SUCCESSES = 5  # fewer allow no estimate
_HAVE_ONE = frozenset((CrawlState.RUNNING, CrawlState.PAUSING, CrawlState.PAUSED))


def remaining_ms(crawl: Crawl, now_ms: int) -> tuple[int, int] | None:
    """The shortest and the longest time that a crawl still needs; None if nothing allows an estimate."""
    counters, limits = crawl.counters, crawl.settings.limits
    elapsed_ms = crawl.elapsed_ms(now_ms)
    if crawl.state not in _HAVE_ONE or counters.succeeded < LEAST_SUCCESSES or not elapsed_ms:
        return None
    left = eligible(crawl)
    largest = min(max(crawl.largest.values(), default=0), left)
    if limits.max_documents:
        left = min(left, max(limits.max_documents - counters.succeeded, 0))
        largest = min(largest, left)
    average = counters.succeeded / elapsed_ms
    recent = crawl.pace.rates(now_ms)[0] / 1000 if crawl.running else 0.0
    rates = (average, recent) if recent else (average,)
    low, high = round(left / max(rates)), round(left / min(rates))
    alone = round(largest * _interval_ms(crawl))
    low, high = max(low, alone), max(high, alone)
    if limits.max_elapsed_ms:
        most = max(limits.max_elapsed_ms - elapsed_ms, 0)
        low, high = min(low, most), min(high, most)
    return low, high


def eligible(crawl: Crawl) -> int:
    """How many URIs wait that can be fetched."""
    return max(crawl.counters.queued - crawl.counters.ineligible_uris, 0)


def _interval_ms(crawl: Crawl) -> float:
    """The least time between two pages of a queue that takes no requests at once."""
    politeness = crawl.settings.politeness
    return politeness.min_delay_ms / max(politeness.max_parallel, 1)
