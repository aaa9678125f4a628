"""What the router asks of the coordinator, beside what every frontier's service asks of its store.

The router of fetchers' calls asks little (`Guidance`), so each machine of a cluster can have one. That of
operators' calls is beside the coordinator.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..core.rows.errors import ShardAway
from ..core.state.model import Candidate, EmptyReason, JobView
from ..core.state.order import Facts, Progress
from ..shards.pipe import Metadata


class Introducing(Protocol):
    """Introduces nodes' sessions to the shards."""

    async def introduce(self, node: str, session: str, metadata: Metadata) -> None:
        """Let all shards that are there know a node's session, if it is new. Raises SessionSuperseded, or
        Relayed for the same, if another session has replaced it."""


class Guidance(Protocol):
    """A coordinator as the router of fetchers' calls knows it. It need not be in the router's process."""

    async def reason(self, crawl: str, exactly_s: float = 0.0) -> EmptyReason:
        """Why a crawl gives no leases; NOTHING_DUE or LIMIT_REACHED if it runs. It may have begun to run a
        moment ago: with `exactly_s`, the shards that are there have so long to hear that. Raises
        UnknownCrawl."""

    async def check_unfinished(self, crawl: str) -> None:
        """Raise UnknownCrawl, CrawlTornDown, CrawlHeld or CrawlFinished if a crawl takes in no URIs now."""

    def change(self, crawl: str) -> AbstractContextManager[asyncio.Future[None]]:
        """A future that is done when that may have changed for a crawl (empty: any)."""

    async def park(self, crawl: str, shard: int, candidates: Sequence[Candidate]) -> bool:
        """Keep candidates for a shard that is away, and offer them to it when it is back; whether there was
        room for them. Raises UnknownCrawl or CrawlFinished."""

    def next_ranks(self, crawl: str) -> Sequence[int]:
        """The ranks of the queues whose turns come next in the shards, for a crawl, or for any (empty), as
        they were heard last. Empty if several crawls have turns."""

    def pool_size_of(self, node: str) -> int | None:
        """How many toe threads operators have asked a node to have."""

    def absence(self) -> ShardAway | None:
        """The refusal of a call while the coordinator is away, and shards therefore are not called; None
        while it is there."""

    def forget(self, crawl: str) -> None:
        """Note that a shard does not know a crawl: another may have its name by now."""


class Coordination(Guidance, Protocol):
    """A coordinator as a router in its process knows it."""

    async def described(self, crawl: str) -> tuple[Facts, bytes]:
        """A crawl's facts, once they are durable, and its spec. Raises UnknownCrawl."""

    async def news(self, change: int) -> tuple[Mapping[str, Facts | None], int]:
        """The facts of crawls that have changed since a change, None of one that is gone, and the number of
        the last change."""

    def next_change(self) -> asyncio.Future[None]:
        """A future that is done at the next change."""

    def incarnation_of(self, shard: int) -> int:
        """The incarnation in which a shard was met last."""

    def pool_sizes(self) -> Mapping[str, int]:
        """How many toe threads operators have asked for, by node; empty for any other."""

    async def settled(self, crawl: str, timeout_s: float) -> None:
        """Wait until the shards that are there have a crawl's settings, or for so long."""

    async def steered(self, crawl: str, timeout_s: float) -> None:
        """Wait until the shards that are there obey the last wish for a crawl's state, or for so long."""

    async def refresh(self, crawl: str) -> None:
        """Hear from the shards that are there how their parts of a crawl are now."""

    async def crawl_deleted(self) -> None:
        """Let the shards delete their parts of a crawl that is gone."""

    async def record_act(self, crawl: str, by: str, action: str, detail: str) -> None:
        """Record what an operator has done in the shards, once for the whole crawl."""

    async def record_drain(self, node: str, by: str) -> None:
        """Record in the crawls that a node fetches for that it is asked to end."""

    async def check_session(self, node: str, session: str) -> None:
        """Raise SessionSuperseded if another session has replaced one, as far as the coordinator knows."""

    async def accept(self, node: str, session: str) -> None:
        """Give a node's name to a session, for all shards. Raises SessionSuperseded if another has replaced
        it."""

    def parked(self, crawl: str) -> Mapping[int, int]:
        """How many links of a crawl are kept, by the numbers of the shards that they wait for."""

    def parked_for(self, shard: int) -> int:
        """How many links of all crawls are kept for a shard."""

    async def count_received(self, crawl: str, job: int, rows: int) -> None:
        """Count the rows of an import that shards get. Raises IllegalState if it takes none any more."""

    async def begin_import(self, crawl: str, job: int, parts: Mapping[int, tuple[int, int]]) -> JobView:
        """Let an import begin, as the shards have its rows: the number and the rows of each part's job."""

    def last_known(self, crawl: str) -> Mapping[int, Progress]:
        """How the parts of a crawl were when they were heard last, by the numbers of their shards."""
