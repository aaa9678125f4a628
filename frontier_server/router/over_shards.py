"""The base of the operators' RPCs over several shards: how shards are asked."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from google.protobuf.message import Message

from ..config import Config
from ..core.rows.errors import ShardAway
from ..logs.crawl_log import CrawlLogs
from ..service import FrontierAdminService
from ..service.answers import Context, operator_of
from ..shards.links import Link, Links, Relayed, passed_on, time_left_s
from ..shell.runner import Runner
from ..stores.checkpoints import Checkpoints
from .coordination import Coordination
from .places import PlacingOf

M = TypeVar("M", bound=Message)
V = TypeVar("V")

SERVICE = "toehold.frontier.v1.FrontierAdminService"
LATE_S = 6.0  # a shard that stands still is known to be away by then
BACK_S = 1.0  # for the answer of a shard that is away, and may be back already


class OverShards(FrontierAdminService):
    """A service over the coordinator's store, which also asks shards."""

    def __init__(
        self,
        runner: Runner,
        config: Config,
        logs: CrawlLogs,
        checkpoints: Checkpoints,
        start_ms: int,
        links: Links,
        placing_of: PlacingOf,
        coordination: Coordination,
    ) -> None:
        super().__init__(runner, config, logs, checkpoints, start_ms)
        self._links = links
        self._placing_of = placing_of
        self._coordination = coordination
        self._sets = asyncio.Lock()
        """Held while a checkpoint set is made or deleted. Its stores are copied one after the other, so what
        lets all parts of a crawl begin or go at once waits for that."""

    async def _recorded(
        self, crawl: str, action: str, detail: str, context: Context, work: Coroutine[Any, Any, V]
    ) -> V:
        """The result of work by which an operator changes parts of a crawl. It is done although its caller
        leaves, and recorded although a shard goes away meanwhile: others may have changed."""
        by = operator_of(context)

        async def record() -> V:
            try:
                found = await work
            except ShardAway:
                await self._coordination.record_act(crawl, by, action, detail)
                raise
            await self._coordination.record_act(crawl, by, action, detail)
            return found

        return await self._whoever_waits(record())

    async def _check_known(self, crawl: str) -> None:
        """Raise UnknownCrawl if there is no such crawl."""
        await self._runner.read(lambda core, _: core.views.crawl(crawl))

    async def _ask(self, link: Link, method: str, request: Message, kind: type[M], context: Context) -> M:
        """The answer of a shard about a crawl. Raises Relayed, ShardAway or UnknownCrawl."""
        left_s, metadata = patience_s(link, context), passed_on(context)
        async with self._knowing(link, request):
            return await link.call(f"{SERVICE}/{method}", request, kind, left_s, metadata, left_s > LATE_S)

    async def _stream(
        self, link: Link, method: str, request: Message, kind: type[M], context: Context
    ) -> AsyncGenerator[M, None]:
        """The answers of a shard about a crawl. Raises the same."""
        answers = link.answers(f"{SERVICE}/{method}", request, kind, passed_on(context))
        async with self._knowing(link, request), aclosing(answers):
            async for answer in answers:
                yield answer

    @asynccontextmanager
    async def _knowing(self, link: Link, request: Message) -> AsyncIterator[None]:
        """A context in which a shard that does not know a crawl is away: it was so when the crawl was
        created, and gets its part now. Raises UnknownCrawl if there is no such crawl."""
        try:
            yield
        except Relayed as refusal:
            if refusal.reason != "UNKNOWN_CRAWL":
                raise
            await self._check_known(getattr(request, "crawl", ""))
            raise link.absence() from None

    async def _of_shards(
        self,
        method: str,
        request: Message,
        kind: type[M],
        context: Context,
        of: Sequence[Link] | None = None,
    ) -> list[M]:
        """The answers of all shards, or of some, to one request. Raises ShardAway if one is away."""
        return await self._links.of_all(lambda link: self._ask(link, method, request, kind, context), of)

    async def _of_present(self, method: str, request: Message, kind: type[M], context: Context) -> list[M]:
        """The answers of the shards that are there. Raises ShardAway if none is."""

        async def ask(link: Link) -> M | None:
            try:
                return await self._ask(link, method, request, kind, context)
            except ShardAway:
                return None

        answers = await self._links.of_all(ask)
        found = [answer for answer in answers if answer is not None]
        if not found:
            raise self._links[0].absence()
        return found

    async def _of_those_that_know(
        self,
        method: str,
        request: Message,
        kind: type[M],
        context: Context,
        unknown: str,
        of: Sequence[Link] | None = None,
    ) -> list[M]:
        """The answers of the shards that know what a request names; their refusal `unknown` if none does."""
        refusals: list[Relayed] = []

        async def ask(link: Link) -> M | None:
            try:
                return await self._ask(link, method, request, kind, context)
            except Relayed as refusal:
                if refusal.reason != unknown:
                    raise
                refusals.append(refusal)
                return None

        found = [answer for answer in await self._links.of_all(ask, of) if answer is not None]
        if not found:
            raise refusals[0]
        return found

    def _shard_of(self, crawl: str, uri: str) -> Link:
        """The way to the shard that has a URI."""
        return self._links[self._placing_of(crawl).shard(uri)]


def patience_s(link: Link, context: Context) -> float:
    """How long a shard may take to answer a call."""
    left_s = time_left_s(context)
    return min(left_s, BACK_S) if link.away else left_s
