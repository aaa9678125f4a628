"""A crawl whose URIs are in many parts: its life is here, and its queues are in the shards.

It is a crawl as the core knows it, without queues of its own. Its counts are the sums of what the parts say,
and what the core's rules of a crawl's life ask of queues and leases is answered from them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ..core.machines.lifecycle import CrawlState
from ..core.machines.target import Target
from ..core.opening.opening import CrawlRows
from ..core.opening.registry import MakeCrawl
from ..core.rows.records import SpecRow
from ..core.state.crawl import Crawl, SettingsOf
from ..core.state.job import JobKind
from ..core.state.order import Order, Progress
from ..core.uri.assign import Places
from .pool import Pool

# The counts of parts that add up to those of the crawl. All others are the crawl's own.
SUMS = (
    "discovered",
    "queued",
    "succeeded",
    "failed",
    "disregarded",
    "deferred",
    "lapsed",
    "robots_fetches",
    "bytes",
    "novel",
    "novel_bytes",
    "relocated",
    "retired_uris",
    "ineligible_uris",
    "future",
    "noted",
    "to_revisit",
    "revisited",
    "kept_room",
    "connections",
    "tls_handshakes",
    "kept_connections",
)
TABLES = ("fetch_statuses", "verdicts", "media_types", "refused", "annotations", "seed_statuses")

ORDERS_PER_TERM = 1 << 40

ANNOUNCED = frozenset((JobKind.SEED, JobKind.RESEED))  # the jobs that are not done in the parts

_K = TypeVar("_K", int, str)

_ARRIVED = {
    Target.RUN: (CrawlState.RUNNING, CrawlState.EMPTY),
    Target.PAUSE: (CrawlState.PAUSED,),
    Target.HOLD: (CrawlState.PAUSED,),
    Target.FINISH: (CrawlState.FINISHED,),
}


class Part(msgspec.Struct):
    """What is known of one part, and what it was told."""

    progress: Progress | None = None  # None: it was not heard since its shard was met
    awaited: bool = False  # it was asked how it is, and has not answered; a new crawl's is not there yet
    serial: int = 0  # of the last order
    steered: int = 0  # serial of the first order with the present target
    target: tuple[int, Target | None, bool] = (0, None, False)  # of the last order, with its request
    tears_down: bool = False  # by the last order


class Feed(NamedTuple):
    """How far everything has come by which a coordinator lets parts work, or gives them URIs."""

    request: int  # for a state
    jobs: int
    parked: int


class WholeCrawl(Crawl):
    """A crawl in many parts."""

    def __init__(self, rows: CrawlRows, settings_of: SettingsOf, places: Places, version: str, parts: int):
        super().__init__(rows.number, rows.spec, settings_of, places, version, rows.state, rows.counters)
        self.parts = [Part() for _ in range(parts)]
        self.documents_pool, self.toes_pool = Pool(parts, comes_back=False), Pool(parts, comes_back=True)
        if rows.counters.next_event == 1:  # it was made a moment ago: each crawl that is stored has events
            for pool in (self.documents_pool, self.toes_pool):
                pool.begin()
        self._rested = -1  # the request during which it was found at rest

    @property
    def rests(self) -> bool:
        """Whether no part had anything to do, all at one moment since the last request, and none has said
        otherwise since. A crawl that is reopened, or resumed, may have got URIs that nobody has told of."""
        return self._rested == self.state_row.request

    @rests.setter
    def rests(self, rests: bool) -> None:
        self._rested = self.state_row.request if rests else -1

    def set_spec(self, spec: SpecRow) -> None:
        """Replace the spec. If the crawl may end by itself from now on, a part may have got URIs that it has
        not told of: it mattered to nobody."""
        waited = self.settings.run_while_empty
        super().set_spec(spec)
        if waited and not self.settings.run_while_empty:
            self.rests = False

    @property
    def parked(self) -> int:
        """How many links wait for parts whose shards were away."""
        return sum([after - first for first, after in self.state_row.parked.values()])

    @property
    def feed(self) -> Feed:
        """What has fed it so far."""
        row = self.state_row
        parked = sum([after for _, after in row.parked.values()])
        return Feed(row.request, self.counters.next_job, parked)

    # What the rules of a crawl's life ask.

    @property
    def left(self) -> bool:
        return bool(self.jobs or self.receiving or self.parked) or not self.rests

    @property
    def in_flight(self) -> bool:
        return not self.rests if self.target is Target.RUN else not self.arrived

    @property
    def unloaded(self) -> bool:
        return not self.jobs and all(
            part.progress is not None and part.progress.torn_down for part in self.parts
        )

    @property
    def has_uris(self) -> bool:
        return False  # so seeds that all redirect to a login do not count as failed

    @property
    def works(self) -> bool:
        # Whoever announces its seeds, or sees to parts of jobs, asks `jobs`; what a checkpoint has of the
        # whole is copied as in any crawl.
        return bool(self.restoring) and self.state_row.parts_copied and super().works

    @property
    def watched(self) -> bool:
        return True

    @property
    def bound(self) -> tuple[int, str] | None:
        return None  # each part has its own

    @property
    def arrived(self) -> bool:
        """Whether all parts have reached the present target."""
        return all(self._has_arrived(part) for part in self.parts)

    def _has_arrived(self, part: Part) -> bool:
        progress, target = part.progress, self.target
        if progress is None or not self.obeys(part):
            return False
        held = target is Target.HOLD
        return progress.state in _ARRIVED[target] and progress.held == held

    def obeys(self, part: Part) -> bool:
        """Whether a part has heard the present target. One that was torn down gets no more orders."""
        progress = part.progress
        if progress is None or progress.torn_down:
            return progress is not None
        return self._knows_target(part) and progress.order >= part.steered

    def _knows_target(self, part: Part) -> bool:
        return part.target[:2] == (self.state_row.request, self.target)

    # What parts say.

    def add_up(self) -> None:
        """Set the counts to the sums of those of all parts. While a part is not known, none falls."""
        known = [part.progress for part in self.parts if part.progress is not None]
        rows = [progress.counters for progress in known if progress.counters is not None]
        counters, lacks = self.counters, len(known) < len(self.parts)
        for name in SUMS:
            added = sum([getattr(row, name) for row in rows])
            setattr(counters, name, max(added, getattr(counters, name)) if lacks else added)
        for name in TABLES:
            table = _added([getattr(row, name) for row in rows])
            setattr(counters, name, _highest(table, getattr(counters, name)) if lacks else table)
        queues = _added([progress.queues for progress in known])
        counters.queues = _highest(queues, counters.queues) if lacks else queues
        self.leases_out = sum([progress.leases_out for progress in known])
        self.pages_out = sum([progress.pages_out for progress in known])

    def merged_nodes(self) -> dict[str, str]:
        """The nodes that fetch for any part."""
        nodes: dict[str, str] = {}
        for part in self.parts:
            if part.progress is not None:
                nodes |= part.progress.nodes
        return nodes

    def lend(self) -> None:
        """Divide the limits of documents and toes among the parts."""
        if documents := self.settings.limits.max_documents:
            self.documents_pool.lend(documents)
        if toes := self.settings.max_toes:
            self.toes_pool.lend(toes)

    # What parts are told.

    def order(self, part: int, term: int) -> Order | None:
        """What a part is told; None if it is as it should be. `term` is above those of former
        coordinators."""
        its = self.parts[part]
        row = self.state_row
        progress = its.progress or Progress(self.name, self.number)
        if its.awaited or (progress.torn_down and row.tearing_down):
            return None  # it must be heard first, or has nothing left to do
        target = self.target if row.request else None
        if progress.state is CrawlState.STOPPING and target not in (None, Target.FINISH):
            return None  # a part that stops ends first, and is reopened then
        if self.restoring and target is None and progress.state is not None:
            return None  # else it would lose the overrides of the checkpoint, until the whole has them
        interrupts = bool(row.interrupt_ms)
        lacks = progress.digest != self.digest
        documents, toes = self.documents_pool.shares[part].told, self.toes_pool.shares[part].told
        told = (row.request, target, interrupts)
        due = (
            lacks
            or its.target != told
            or progress.order < its.serial
            or (documents != progress.documents_lent and bool(self.settings.limits.max_documents))
            or (toes != progress.toes_lent and bool(self.settings.max_toes))
            or (row.recrawl_ms and self._recrawls_less(progress))
            or row.tearing_down != its.tears_down
        )
        if not due:
            return None
        # A part may know a later one, of a coordinator whose last writes are lost.
        its.serial = max(its.serial, progress.order, term * ORDERS_PER_TERM - 1) + 1
        self.documents_pool.order(part)
        self.toes_pool.order(part)
        if its.target != told:
            its.target, its.steered = told, its.serial
        its.tears_down = row.tearing_down
        return Order(
            self.name,
            self.number,
            its.serial,
            self.digest,
            spec=self.spec.spec if lacks else None,
            overrides=self.overrides.items() if lacks else (),
            target=target,
            interrupts=interrupts,
            documents=documents,
            toes=toes,
            recrawl_ms=row.recrawl_ms,
            tears_down=row.tearing_down,
            launch_ms=row.launch_ms,
        )

    def _recrawls_less(self, progress: Progress) -> bool:
        return progress.recrawl_ms < self.state_row.recrawl_ms


def _added(tables: Sequence[Mapping[_K, int]]) -> dict[_K, int]:
    total: dict[_K, int] = {}
    for table in tables:
        for key, count in table.items():
            total[key] = total.get(key, 0) + count
    return total


def _highest(table: Mapping[_K, int], before: Mapping[_K, int]) -> dict[_K, int]:
    return {key: max(table.get(key, 0), before.get(key, 0)) for key in {**before, **table}}


def whole_crawls(parts: int) -> MakeCrawl:
    """Makes crawls in so many parts of their rows."""

    def made(rows: CrawlRows, settings_of: SettingsOf, places: Places, version: str) -> Crawl:
        return WholeCrawl(rows, settings_of, places, version, parts)

    return made
