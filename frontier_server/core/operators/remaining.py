"""Estimates the time that a crawl still needs, and what decides it: its rate, one host, or a limit.

All URIs take the crawl's rate: the present one or the average, the best for the shortest time and the worst
for the longest. But no host gives more than a page an interval, so one with many URIs, or with a long rest,
may take longer by itself, and so may a URI that rests alone before a retry. If a limit ends the crawl before,
the time is that until the limit. URIs that are found later come on top.

At most `MOST_HOSTS` hosts are looked at by themselves, of the queues that need longest (`Crawl.longest`) and
of those that rest (`resting.sampled`). A crawl that pauses or is paused has the estimate of its average rate,
for the time from when it runs again.
"""

from collections.abc import Sequence
from heapq import nlargest
from typing import NamedTuple

from ..machines.lifecycle import CrawlState
from ..state.crawl import Crawl
from ..state.lanes import shares
from ..state.model import Remaining
from ..state.queue import ACTIVE, QueueState, WorkQueue
from .resting import sampled

LEAST_SUCCESSES = 5  # fewer allow no estimate
MOST_HOSTS = 20
CLEARLY = 1.1  # times as long as the others: a host is the last
_STEPS = 40  # of a bisection
_HAVE_ONE = frozenset((CrawlState.RUNNING, CrawlState.PAUSING, CrawlState.PAUSED))
_FETCHED_FROM = ACTIVE | {QueueState.INACTIVE}
DOCUMENTS, BYTES, TIME = "limits.max_documents", "limits.max_bytes", "limits.max_elapsed_seconds"


class HostNeed(NamedTuple):
    """What a host still needs by itself."""

    name: str
    wait_ms: int  # its present rest
    uris: int
    interval_ms: int

    @property
    def ms(self) -> int:
        """How long its URIs take, of which the first can be fetched after its rest."""
        return self.wait_ms + (self.uris - 1) * self.interval_ms

    def fetched_after(self, ms: float) -> float:
        """How many of its URIs can be fetched in a time."""
        if ms < self.wait_ms:
            return 0.0
        return float(min(self.uris, 1 + (ms - self.wait_ms) / max(self.interval_ms, 1)))


def remaining(crawl: Crawl, now_ms: int) -> Remaining | None:
    """The estimate; None if nothing allows one."""
    counters, limits = crawl.counters, crawl.settings.limits
    elapsed_ms = crawl.elapsed_ms(now_ms)
    if crawl.state not in _HAVE_ONE or counters.succeeded < LEAST_SUCCESSES or not elapsed_ms:
        return None
    average = counters.succeeded / elapsed_ms
    recent = crawl.pace.rates(now_ms)[0] / 1000 if crawl.running else 0.0
    best, worst = max(average, recent), min(average, recent or average)
    left = eligible(crawl)
    pages, limit = _to_fetch(crawl, left)
    hosts = _hosts(crawl, now_ms)
    low = max(pages / best, _polite_ms(hosts, left, pages, best))
    high = max(pages / worst, _polite_ms(hosts, left, pages, worst))
    if limits.max_elapsed_ms:
        most = max(limits.max_elapsed_ms - crawl.limited_ms(now_ms), 0)
        if most < low:
            pages, limit = min(round(most * best), pages), TIME
        low, high = min(low, most), min(high, most)
    if not limit:
        rest_ms = _retry_ms(crawl, now_ms)
        low, high = max(low, rest_ms), max(high, rest_ms)
    last = "" if limit else _last(crawl, hosts, low)
    return Remaining(round(low), round(high), last, limit, max(left - pages, 0) if limit else 0)


def eligible(crawl: Crawl) -> int:
    """How many URIs wait that can be fetched."""
    return max(crawl.counters.queued - crawl.counters.ineligible_uris, 0)


def _to_fetch(crawl: Crawl, left: int) -> tuple[int, str]:
    """How many pages will be fetched, of so many URIs, and the limit that allows no more."""
    counters, most_bytes = crawl.counters, crawl.settings.limits.max_bytes
    pages, limit = left, ""
    documents = crawl.documents_left
    if documents is not None and documents < pages:
        pages, limit = documents, DOCUMENTS
    if most_bytes and counters.bytes:
        within = max(most_bytes - crawl.limited_bytes, 0) * counters.succeeded // counters.bytes
        if within < pages:
            pages, limit = within, BYTES
    return pages, limit


def _hosts(crawl: Crawl, now_ms: int) -> list[HostNeed]:
    """The hosts that need longest by themselves, the longest first."""
    queues: dict[bytes, WorkQueue] = dict(crawl.queues.longest.queues)
    queues.update({queue.queue: queue for queue in sampled(crawl)[0]})
    needs: dict[str, HostNeed] = {}
    for queue in queues.values():
        if not queue.row.count or queue.state not in _FETCHED_FROM or shares(queue, crawl.settings):
            continue
        name = queue.row.host or queue.row.key
        wakes_ms = max(queue.wake_ms, queue.row.far_ms) if queue.state is QueueState.SNOOZED else 0
        wait_ms = max(wakes_ms - now_ms, 0) if crawl.running else 0
        interval_ms = queue.interval_ms or crawl.settings.politeness.min_delay_ms
        # Several queues of a host rest together, and their URIs take turns.
        known = needs.get(name, HostNeed(name, 0, 0, 0))
        needs[name] = HostNeed(
            name,
            max(known.wait_ms, wait_ms),
            known.uris + queue.row.count,
            max(known.interval_ms, interval_ms),
        )
    return nlargest(MOST_HOSTS, needs.values(), key=lambda need: need.ms)


def _retry_ms(crawl: Crawl, now_ms: int) -> int:
    """How long the first URI that rests alone before a retry still rests."""
    due_ms, why = crawl.first_retry
    rests = crawl.running and why and due_ms == crawl.first_future_ms
    return max(due_ms - now_ms, 0) if rests else 0


def _polite_ms(hosts: Sequence[HostNeed], left: int, pages: int, rate: float) -> float:
    """How long so many pages of all that are left take, if these hosts rest and all others have the rate."""
    longest = float(hosts[0].ms) if hosts else 0.0
    if pages >= left:
        return longest
    others = max(left - sum([host.uris for host in hosts]), 0)
    low, high = 0.0, max(longest, others / rate)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if min(float(others), rate * middle) + sum([host.fetched_after(middle) for host in hosts]) < pages:
            low = middle
        else:
            high = middle
    return high


def _last(crawl: Crawl, hosts: Sequence[HostNeed], least_ms: float) -> str:
    """The host that is fetched from when all others are done; empty if there is none, or no other host."""
    counters = crawl.counters
    queues = sum(counters.queues.values()) + sum(crawl.queues.counts.values()) + crawl.inactive_queues
    if not hosts or queues < 2 or hosts[0].ms < least_ms:
        return ""
    second = hosts[1].ms if len(hosts) > 1 else 0
    return hosts[0].name if hosts[0].ms >= CLEARLY * second else ""
