"""What the router asks of the coordinator (see `router.coordination.Coordination`)."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from ..core.core import Core
from ..core.rows.errors import FrontierError, UnknownCrawl
from ..core.state.agenda import empty_reason
from ..core.state.crawl import Crawl
from ..core.state.model import Candidate, EmptyReason, JobView
from ..core.state.order import Facts, Progress
from ..shell.runner import Runner, TryLater
from .coordinator import Coordinator
from .jobs import PartedJobs
from .leader import Leader
from .parking import Parking

_OF_RUNNING = (EmptyReason.NOTHING_DUE, EmptyReason.LIMIT_REACHED)


class Requests:
    """The coordinator as the router knows it."""

    def __init__(
        self,
        coordinator: Coordinator,
        parking: Parking,
        jobs: PartedJobs,
        leader: Leader,
        runner: Runner,
    ) -> None:
        self._coordinator = coordinator
        self._parking = parking
        self._jobs = jobs
        self._leader = leader
        self._runner = runner

    async def settled(self, crawl: str, timeout_s: float) -> None:
        """Wait until the shards that are there have a crawl's settings, or for so long."""
        await self._leader.settled(crawl, timeout_s)

    async def steered(self, crawl: str, timeout_s: float) -> None:
        """Wait until the shards that are there obey the last wish for a crawl's state, or for so long."""
        if not self._leader.is_steered(crawl):
            await self._leader.steered(crawl, timeout_s)

    async def refresh(self, crawl: str) -> None:
        """Hear from the shards that are there how their parts of a crawl are now."""
        await self._leader.refresh(crawl)

    async def reason(self, crawl: str, exactly_s: float = 0.0) -> EmptyReason:
        """Why a crawl gives no leases; NOTHING_DUE or LIMIT_REACHED if it runs. It may have begun to run a
        moment ago: with `exactly_s`, the shards that are there have so long to hear that. Raises
        UnknownCrawl."""
        registry = self._runner.core.shard.registry
        found = empty_reason(registry.names.get(crawl) or registry.named(crawl))
        if exactly_s and found in _OF_RUNNING:
            await self.steered(crawl, exactly_s)
        return found

    def absence(self) -> None:
        """None: the coordinator is here."""

    def forget(self, crawl: str) -> None:
        """Does nothing: the coordinator knows what has a name."""

    async def check_unfinished(self, crawl: str) -> None:
        """Raise UnknownCrawl, CrawlTornDown, CrawlHeld or CrawlFinished if a crawl takes in no URIs now."""
        registry = self._runner.core.shard.registry
        try:
            registry.unfinished(crawl)
        except FrontierError:  # it is told when what it follows from is durable
            await self._runner.read(lambda core, _: registry.unfinished(crawl))

    def change(self, crawl: str) -> AbstractContextManager[asyncio.Future[None]]:
        """A future that is done when that may have changed for a crawl (empty: any)."""
        return self._runner.waiting.one((crawl or None, ()))

    async def crawl_deleted(self) -> None:
        """Let the shards delete their parts of a crawl that is gone."""
        await self._leader.crawl_deleted()

    async def record_act(self, crawl: str, by: str, action: str, detail: str) -> None:
        """Record what an operator has done in the shards, once for the whole crawl."""
        await self._runner.run(
            lambda core, now_ms: self._coordinator.record_act(crawl, by, action, detail, now_ms)
        )

    async def record_drain(self, node: str, by: str) -> None:
        """Record in the crawls that a node fetches for that it is asked to end."""
        await self._runner.run(lambda core, now_ms: self._coordinator.record_drain(node, by, now_ms))

    async def check_session(self, node: str, session: str) -> None:
        """Raise SessionSuperseded if another session has replaced one, as far as the coordinator knows."""
        await self._runner.read(lambda core, _: self._coordinator.check_session(node, session))

    async def accept(self, node: str, session: str) -> None:
        """Give a node's name to a session, for all shards. Raises SessionSuperseded if another has replaced
        it."""
        await self._runner.run(lambda core, now_ms: self._coordinator.accept(node, session, now_ms))

    async def park(self, crawl: str, shard: int, candidates: Sequence[Candidate]) -> bool:
        """Keep candidates for a shard that is away; whether there was room for them. Raises UnknownCrawl or
        CrawlFinished."""
        try:
            self._runner.admit()
        except TryLater:
            return False
        return await self._runner.run(
            lambda core, now_ms: self._parking.park(crawl, shard, candidates, now_ms)
        )

    def parked(self, crawl: str) -> Mapping[int, int]:
        """How many links of a crawl are kept, by the numbers of the shards that they wait for."""
        return self._parking.counts(crawl)

    def parked_for(self, shard: int) -> int:
        """How many links of all crawls are kept for a shard."""
        return self._parking.count_for(shard)

    async def count_received(self, crawl: str, job: int, rows: int) -> None:
        """Count the rows of an import that shards get. Raises IllegalState if it takes none any more."""
        await self._runner.run(lambda core, now_ms: self._jobs.count_received(crawl, job, rows, now_ms))

    async def begin_import(self, crawl: str, job: int, parts: Mapping[int, tuple[int, int]]) -> JobView:
        """Let an import begin, as the shards have its rows: the number and the rows of each part's job."""
        await self._runner.run(lambda core, now_ms: self._jobs.begin_import(crawl, job, parts, now_ms))
        return await self._runner.read(lambda core, _: core.administration.job(crawl, job))

    def last_known(self, crawl: str) -> Mapping[int, Progress]:
        """How the parts of a crawl were when they were heard last, by the numbers of their shards."""
        return self._coordinator.last_known(crawl)

    def next_ranks(self, crawl: str) -> Sequence[int]:
        """The ranks of the queues whose turns come next in the shards; empty if several crawls have turns."""
        return self._coordinator.next_ranks(crawl)

    def pool_size_of(self, node: str) -> int | None:
        """How many toe threads operators have asked a node to have."""
        return self._runner.core.shard.pool_size_of(node)

    # What routers that are elsewhere are told.

    async def described(self, crawl: str) -> tuple[Facts, bytes]:
        """A crawl's facts, once they are durable, and its spec. Raises UnknownCrawl."""

        def read(core: Core, _: int) -> tuple[Facts, bytes]:
            found = core.shard.registry.named(crawl)
            return self._facts(found), found.spec.spec

        return await self._runner.read(read)

    async def news(self, change: int) -> tuple[Mapping[str, Facts | None], int]:
        """The facts of crawls that have changed since a change, None of one that is gone, and the number of
        the last change."""

        def read(core: Core, _: int) -> tuple[Mapping[str, Facts | None], int]:
            names, last = self._coordinator.changed_after(change)
            found: dict[str, Facts | None] = {}
            for name in names:
                try:
                    found[name] = self._facts(core.shard.registry.named(name))
                except UnknownCrawl:
                    found[name] = None
            return found, last

        return await self._runner.read(read)

    def _facts(self, crawl: Crawl) -> Facts:
        try:
            self._runner.core.shard.registry.unfinished(crawl.name)
        except FrontierError:
            takes_in = False
        else:
            takes_in = True
        ranks = tuple(self._coordinator.next_ranks(crawl.name))
        return Facts(crawl.number, empty_reason(crawl), takes_in, ranks if len(set(ranks)) > 1 else ())

    def next_change(self) -> asyncio.Future[None]:
        """A future that is done at the next change."""
        return self._runner.next_change()

    def incarnation_of(self, shard: int) -> int:
        """The incarnation in which a shard was met last."""
        return self._coordinator.incarnations[shard]

    def pool_sizes(self) -> Mapping[str, int]:
        """How many toe threads operators have asked for, by node; empty for any other."""
        return self._runner.core.shard.server.pool_sizes
