"""The numbers that memory has, for somebody who looks every few seconds: no row is read.

Each question is about a bounded part, so that a caller can let others run in between.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from ..machines.lifecycle import CrawlState
from ..opening.shard import Shard
from ..state.crawl import Crawl
from ..state.host import Host
from ..state.model import Presence
from ..state.queue import QueueState
from .views import counts_of, queue_counts


@dataclass(frozen=True, slots=True)
class CrawlMeasures:
    """A crawl in numbers."""

    name: str
    state: CrawlState
    has_problem: bool  # a problem led to this state
    counts: Mapping[str, int]
    fetch_statuses: Mapping[int, int]
    verdicts: Mapping[str, int]
    queues: Mapping[QueueState, int]
    deepest_queue: int
    events: int


class Measures:
    """The numbers of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def crawls(self, most: int) -> tuple[Sequence[int], Sequence[int]]:
        """The numbers of the crawls in memory: of `most`, those that have not finished before others and new
        ones before old ones; and those of the rest."""
        crawls = self._shard.registry.crawls
        if len(crawls) <= most:
            return list(crawls), ()
        first = nlargest(most, crawls.values(), key=_rank)
        chosen = {crawl.number for crawl in first}
        return sorted(chosen), [number for number in crawls if number not in chosen]

    @property
    def torn_down(self) -> int:
        """How many crawls were torn down."""
        return len(self._shard.registry.torn)

    def crawl(self, number: int) -> CrawlMeasures | None:
        """A crawl; None if it is no longer in memory."""
        crawl = self._shard.registry.crawls.get(number)
        if crawl is None:
            return None
        counters = crawl.counters
        return CrawlMeasures(
            crawl.name,
            crawl.state,
            bool(crawl.state_row.reason),
            counts=counts_of(crawl),
            fetch_statuses=dict(counters.fetch_statuses),
            verdicts=dict(counters.verdicts),
            queues=queue_counts(crawl),
            deepest_queue=crawl.queues.largest.most,
            events=counters.next_event - 1,
        )

    def nodes(self, now_ms: int) -> Counter[Presence]:
        """How many of the listed nodes are there, silent, lost, or have left."""
        return self._shard.leases.nodes.presences(max(now_ms, self._shard.now_ms))

    def hosts(self) -> Sequence[Host]:
        """The hosts in memory, and the groups of hosts. `resting` counts a part of them."""
        return self._shard.hosts.known()

    def resting(self, hosts: Sequence[Host], now_ms: int) -> int:
        return sum([host.row.next_allowed_ms > now_ms for host in hosts])


def _rank(crawl: Crawl) -> tuple[bool, int]:
    return crawl.state is not CrawlState.FINISHED, crawl.number
