"""Links that wait for a shard that is away: kept here, in the order of arrival, and offered to it later.

A page whose links are parked can be reported at once, so its host need not wait for a shard that it does not
belong to. A crawl has not ended while links of it are parked.
"""

from collections.abc import Container, Mapping, Sequence

import msgspec

from ..core.machines.lifecycle import ENDING
from ..core.opening.shard import Shard
from ..core.rows import keys
from ..core.rows.records import ImportRow, decode, encode
from ..core.rows.store import Changes, Family
from ..core.state.crawl import Crawl
from ..core.state.model import Candidate
from ..core.state.operation import Operation
from ..core.uri.assign import hash64
from .whole import WholeCrawl

MAX_PARKED = 2_000_000  # links of one crawl for one shard; some 200 bytes each
MAX_REMEMBERED = 200_000  # links that are not parked twice
LINKS_PER_DELIVERY = 500
_NOTHING = (1, 1)


class Parked(msgspec.Struct, frozen=True):
    """Links that are to be offered to a part next."""

    crawl: str
    number: int  # of the crawl
    part: int
    first: int  # the number of the first one
    places: int  # how many numbers they have
    records: Sequence[bytes]


class Parking:
    """The parked links of a coordinator's crawls."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._remembered: set[bytes] = set()

    def park(
        self, name: str, part: int, candidates: Sequence[Candidate], now_ms: int
    ) -> tuple[bool, Changes]:
        """Keep candidates for a part; whether there was room for them. Raises UnknownCrawl or
        CrawlFinished."""
        crawl = self._shard.registry.unfinished(name)
        op = self._shard.begin(now_ms)
        first, after = crawl.state_row.parked.get(part, _NOTHING)
        if after - first + len(candidates) > MAX_PARKED or not isinstance(crawl, WholeCrawl):
            return False, self._shard.end(op)
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
        for candidate in candidates:
            if _is_plain(candidate):
                mark = _mark(crawl.number, part, candidate)
                if mark in self._remembered:
                    continue
                self._remembered.add(mark)
            key = keys.parked_key(crawl.number, part, after)
            op.tx.put(Family.IMPORTS, key, encode(ImportRow(candidate.record)))
            after += 1
        crawl.rests = False
        self._set(op, crawl, part, (first, after))
        return True, self._shard.end(op)

    def next_for(self, part: int, but: Container[str] = ()) -> Parked | None:
        """The next links for a part, of any crawl but some; None if there are none, or their crawls take in
        none now."""
        crawls = self._shard.registry.crawls.values()
        crawl = next((each for each in crawls if each.name not in but and _takes_in(each, part)), None)
        if crawl is None:
            return None
        first, after = crawl.state_row.parked[part]
        places = range(first, min(after, first + LINKS_PER_DELIVERY))
        wanted = [keys.parked_key(crawl.number, part, place) for place in places]
        rows = self._shard.store.get_many(Family.IMPORTS, wanted)
        records = [decode(ImportRow, row).record for row in rows if row is not None]
        return Parked(crawl.name, crawl.number, part, first, len(places), records)

    def delivered(self, parked: Parked, now_ms: int) -> tuple[None, Changes]:
        """Forget links that their part has taken in."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.names.get(parked.crawl)
        if isinstance(crawl, WholeCrawl) and crawl.number == parked.number:
            first, after = crawl.state_row.parked.get(parked.part, _NOTHING)
            if first == parked.first:
                for place in range(first, first + parked.places):
                    op.tx.delete(Family.IMPORTS, keys.parked_key(crawl.number, parked.part, place))
                self._remembered.clear()
                crawl.rests = False
                self._set(op, crawl, parked.part, (first + parked.places, after))
        return None, self._shard.end(op)

    def counts(self, name: str) -> Mapping[int, int]:
        """How many links of a crawl are parked, by part."""
        crawl = self._shard.registry.names.get(name)
        rows = {} if crawl is None else crawl.state_row.parked
        return {part: after - first for part, (first, after) in rows.items() if after > first}

    def count_for(self, part: int) -> int:
        """How many links of all crawls are parked for a part."""
        parked = (crawl.state_row.parked for crawl in self._shard.registry.crawls.values())
        numbers = [rows[part] for rows in parked if part in rows]
        return sum([after - first for first, after in numbers])

    def _set(self, op: Operation, crawl: Crawl, part: int, numbers: tuple[int, int]) -> None:
        crawl.state_row.parked[part] = numbers
        op.put_state(crawl)
        op.counters(crawl)


def _takes_in(crawl: Crawl, part: int) -> bool:
    row = crawl.state_row
    first, after = row.parked.get(part, _NOTHING)
    return first < after and not crawl.held and not row.tearing_down and crawl.state not in ENDING


def _is_plain(candidate: Candidate) -> bool:
    """Whether a link changes nothing if it is offered again."""
    return not (candidate.redirects or candidate.annotations or candidate.refetch_before_ms is not None)


def _mark(crawl: int, part: int, candidate: Candidate) -> bytes:
    """What tells links apart that are not the same to the crawl: all but the page that has the link."""
    wishes = (candidate.seed, candidate.directive, candidate.precedence, candidate.cost)
    place = (candidate.path, candidate.source, candidate.queue_key, candidate.not_before_ms)
    return hash64(repr((crawl, part, candidate.uri, candidate.base, place, wishes)))
