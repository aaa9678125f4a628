"""Divides a store between two new ones, and compares them with it. That of an undivided frontier also gives a
coordinator its store.
"""

from collections.abc import Callable, Iterator, Sequence

from ..jobs.restoring import unfinished_copy
from ..opening import opening
from ..rows import keys
from ..rows.keys import CrawlRow, is_mark
from ..rows.records import encode
from ..rows.store import Family, Store
from ..state.crawl import Crawl, SettingsOf
from ..state.model import CandidateCodec
from .halves import (
    BOTH,
    COORDINATOR,
    FIRST,
    SECOND,
    Halves,
    Recount,
    halved_counters,
    halved_states,
    leases_out,
    led_counters,
    led_row,
    led_state,
    recount,
    to_revisit,
)

ALL = (FIRST, SECOND, COORDINATOR)

OwnedRow = tuple[int, Family, bytes, bytes]
"""The owner of a row, which is one of `ALL`; the row's family, key and value."""


class Unequal(Exception):
    """A store that is to be divided contradicts itself, or its parts differ from it."""


class Division:
    """The division of a store. The caller writes what `rows` yields, then what `crawl_rows` does."""

    def __init__(
        self,
        store: Store,
        half_of: Callable[[bytes], int],
        settings_of: SettingsOf,
        codec: CandidateCodec,
        undivided: bool,
    ) -> None:
        """`half_of` tells which half a partition belongs to; another number means none."""
        self._store = store
        self._half_of = half_of
        self._codec = codec
        self._undivided = undivided
        server = opening.server_row(store)
        places_row = opening.places_row(store, server)
        self.by_site = places_row is not None and places_row.by_site
        places = opening.places_of(places_row)
        self._rows = {rows.number: rows for rows in opening.crawl_rows(store, server.next_crawl)}
        self.crawls: dict[int, Crawl] = {}
        for rows in self._rows.values():
            crawl = Crawl(rows.number, rows.spec, settings_of, places, "", rows.state, rows.counters)
            opening.read_overrides(store, crawl)
            self.crawls[rows.number] = crawl
        self._halves = Halves(self._is_second, self._is_here, self.crawls, undivided)

    def _is_here(self, partition: bytes) -> bool:
        return self._half_of(partition) in BOTH

    def _is_second(self, partition: bytes) -> bool:
        half = self._half_of(partition)
        if half not in BOTH:
            raise Unequal(f"a row of partition {partition.hex()} is in a shard that does not have its slot")
        return half == SECOND

    def check(self) -> None:
        """Raise Unequal if the counts of a crawl do not agree with its rows."""
        for number, crawl in self.crawls.items():
            wrong = recount(self._store, number).differences(crawl.counters)
            if wrong and self._is_counted(crawl):
                raise Unequal(f"crawl {crawl.name} contradicts itself: {'; '.join(wrong)}")

    def _is_counted(self, crawl: Crawl) -> bool:
        """Whether a crawl's rows must add up: not those of one that is being deleted, or was stopped before a
        checkpoint was copied. Neither can go on."""
        return not crawl.state_row.deleted and unfinished_copy(self._store, crawl.number) is None

    def rows(self) -> Iterator[OwnedRow]:
        """All rows but those of the crawls themselves."""
        for family in _divided_families():
            for key, value in self._store.scan(family, b"", b""):
                for owner, its in self._owned(family, key, value):
                    yield owner, family, key, its

    def _owned(self, family: Family, key: bytes, value: bytes) -> Iterator[tuple[int, bytes]]:
        """The owners of a row, and what each of them has."""
        for owner in self._halves.of(family, key):
            yield owner, led_row(family, value) if owner == COORDINATOR else value

    def compare(self, stores: Sequence[Store]) -> None:
        """Raise Unequal unless each of these rows is where it belongs, and nothing else is anywhere."""
        for family in _divided_families():
            copies = [store.scan(family, b"", b"") for store in stores]
            for key, value in self._store.scan(family, b"", b""):
                for owner, its in self._owned(family, key, value):
                    if next(copies[owner], None) != (key, its):
                        raise Unequal(f"row {key.hex()} of {family.value} is missing where it belongs")
            for copy in copies:
                if (more := next(copy, None)) is not None:
                    raise Unequal(f"row {more[0].hex()} of {family.value} is in too many stores")

    def crawl_rows(self, stores: Sequence[Store]) -> Iterator[OwnedRow]:
        """The rows of the crawls themselves, and of the server, for stores that have all others. Raises
        Unequal if what they count does not add up."""
        for number, rows in self._rows.items():
            crawl = self.crawls[number]
            recounts = recount(stores[FIRST], number), recount(stores[SECOND], number)
            self._check_sum(crawl, *recounts)
            state, counters = rows.state, rows.counters
            if self._undivided:
                counters, of_whole = led_counters(counters)
                state = led_state(state, crawl.settings, rows.spec.create_ms)
                yield from self._of_crawl(COORDINATOR, number, encode(rows.state), encode(of_whole))
            waits = to_revisit(stores[SECOND], crawl, self._codec) if counters.to_revisit else 0
            lives = halved_states(state, leases_out(stores[SECOND], number))
            counts = halved_counters(counters, recounts, waits)
            for half in (FIRST, SECOND):
                yield from self._of_crawl(half, number, encode(lives[half]), encode(counts[half]))
        prefix = keys.crawl_prefix(keys.SERVER)
        for key, value in self._store.scan(Family.CRAWLS, prefix, prefix):
            if is_mark(Family.CRAWLS, key):
                continue  # no log knows the new stores
            for owner in ALL[: len(stores)]:
                yield owner, Family.CRAWLS, key, value

    def _check_sum(self, crawl: Crawl, first: Recount, second: Recount) -> None:
        wrong = first.plus(second).differences(crawl.counters)
        if wrong and self._is_counted(crawl):
            raise Unequal(f"the halves of crawl {crawl.name} do not add up: {'; '.join(wrong)}")

    def _of_crawl(self, owner: int, number: int, state: bytes, counters: bytes) -> Iterator[OwnedRow]:
        spec = encode(self._rows[number].spec)
        for row, value in (
            (CrawlRow.SPEC, spec),
            (CrawlRow.STATE, state),
            (CrawlRow.COUNTERS, counters),
        ):
            yield owner, Family.CRAWLS, keys.crawl_key(number, row), value


def _divided_families() -> list[Family]:
    return [family for family in Family if family is not Family.CRAWLS]
