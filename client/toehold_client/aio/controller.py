"""AsyncCrawlController: `controller.CrawlController` for asyncio.

The same methods, arguments, answers and errors, awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    Crawl,
    GetStatisticsResponse,
    Job,
    UriOutcome,
    WaitingUri,
)
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus, Event, TargetState
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse
from toehold_client.awaiting import (
    FINISHED,
    NASCENT,
    AwaitedJob,
    AwaitedState,
    Pace,
    is_as_asked,
    is_last,
    is_torn_down,
)
from toehold_client.controller import TEARDOWN_S
from toehold_client.errors import (
    CrawlExists,
    DeadlineExceeded,
    FrontierUnavailable,
    IllegalState,
    RefusedForNow,
)
from toehold_client.listening import AsyncListener, Listeners
from toehold_client.rpc.batches import MAX_ITEMS
from toehold_client.rpc.drivers import RECONNECT_S
from toehold_client.rpc.streams import AsyncEventStream

from .client import AsyncFrontierClient


class AsyncCrawlController:
    """One crawl of a frontier, by its name, for asyncio programs.

    Belongs to the event loop of its client. Everything else is as CrawlController says.
    """

    def __init__(self, frontier: AsyncFrontierClient, crawl: str) -> None:
        self.frontier = frontier
        self.crawl = crawl
        self._listeners: Listeners[AsyncListener] = Listeners()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with AsyncExitStack() as leaving:  # closes each of them, whatever the others raise
            for listener in self._listeners.take():
                leaving.push_async_callback(listener.close)

    # its life

    async def create(self, spec: CrawlSpec, seeds: Iterable[str] = ()) -> AddSeedsResponse:
        """See CrawlController.create."""
        try:
            await self.frontier.create_crawl(self.crawl, spec)
        except CrawlExists:
            if not is_as_asked(await self.describe(), spec):
                raise
        return await self.add_seeds(seeds)

    async def copy(self, name: str, *, seeds: bool = False) -> AsyncCrawlController:
        """See CrawlController.copy."""
        copied = AsyncCrawlController(self.frontier, name)
        await copied.create((await self.describe()).spec)
        if seeds:
            batch: list[str] = []
            async for seed in self.frontier.list_seeds(self.crawl):
                batch.append(seed.uri)
                if len(batch) == MAX_ITEMS:
                    await copied.add_seeds(batch)
                    batch = []
            if batch:
                await copied.add_seeds(batch)
        return copied

    async def add_seeds(self, uris: Iterable[str]) -> AddSeedsResponse:
        """See CrawlController.add_seeds."""
        return await self.frontier.add_seeds(self.crawl, uris)

    async def launch(self, checkpoint: str = "", checkpoint_crawl: str = "") -> CrawlStatus:
        """See CrawlController.launch."""
        status = await self.status()
        try:
            return await self.frontier.launch_crawl(self.crawl, checkpoint, checkpoint_crawl)
        except IllegalState:
            if status.state != NASCENT:
                raise
            now = await self.status()
            if now.state == NASCENT:
                raise
            return now

    async def pause(self) -> CrawlStatus:
        """See CrawlController.pause."""
        return await self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_PAUSE)

    async def resume(self) -> CrawlStatus:
        """See CrawlController.resume."""
        return await self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_RUN)

    async def hold(self) -> CrawlStatus:
        """See CrawlController.hold."""
        return await self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_HOLD)

    async def stop(self) -> CrawlStatus:
        """See CrawlController.stop."""
        return await self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_FINISH)

    async def teardown(self, timeout_s: float | None = TEARDOWN_S) -> bool:
        """See CrawlController.teardown."""
        if (await self.frontier.tear_down_crawl(self.crawl)).status.torn_down:
            return True
        try:
            async with self._events(timeout_s) as stream:
                async for message in stream:
                    if is_torn_down(message):
                        return True
            return (await self.status()).torn_down
        except (DeadlineExceeded, FrontierUnavailable, RefusedForNow):
            return False

    async def delete(self) -> None:
        """See CrawlController.delete."""
        await self.frontier.delete_crawl(self.crawl)

    # what holds while it lives

    async def update(self, spec: CrawlSpec, paths: Collection[str] = ()) -> Crawl:
        """See CrawlController.update."""
        return await self.frontier.update_crawl(self.crawl, spec, paths)

    async def set_pool_size(self, size: int | None) -> None:
        """See CrawlController.set_pool_size."""
        await self.frontier.set_pool_size(size)

    # what becomes of it

    async def wait_for(
        self, states: Collection[CrawlState.ValueType], timeout_s: float | None = None
    ) -> CrawlStatus:
        """See CrawlController.wait_for."""
        awaited = AwaitedState(self.crawl, states)
        try:
            async with self._events(timeout_s) as stream:
                async for message in stream:
                    status = awaited.reached(message)
                    if status is not None:
                        return status
        except DeadlineExceeded as error:
            raise awaited.late(timeout_s, error) from None
        await self.status()  # ClientClosed, if it is that which has ended the stream
        raise awaited.broken_off()

    async def follow(self, cursor: str = "") -> AsyncIterator[Event]:
        """See CrawlController.follow."""
        async with self.frontier.state_events(self.crawl, cursor) as stream:
            async for message in stream:
                if message.HasField("event"):
                    yield message.event

    async def events(self, cursor: str = "start") -> AsyncIterator[Event]:
        """See CrawlController.events."""
        async with self.frontier.state_events(self.crawl) as now:
            end = (await anext(now, StateEventsResponse())).cursor
        async with self.frontier.state_events(self.crawl, cursor) as stream:
            async for message in stream:
                if message.HasField("event"):
                    yield message.event
                if is_last(message, end):
                    return

    async def listen(
        self, listener: Callable[[Event], Awaitable[object] | object], cursor: str = ""
    ) -> AsyncListener:
        """See CrawlController.listen.

        The task is one of the client's loop. What `listener` returns is awaited, if it can be.
        """
        stream = self.frontier.state_events(self.crawl, cursor)
        first = await anext(stream, StateEventsResponse())
        return self._listeners.add(AsyncListener(stream, listener, first))

    async def statistics(self) -> GetStatisticsResponse:
        """See CrawlController.statistics."""
        return await self.frontier.get_statistics(self.crawl)

    async def statistics_every(self, interval_s: float) -> AsyncIterator[GetStatisticsResponse]:
        """See CrawlController.statistics_every."""
        pace = Pace(interval_s)
        while True:
            statistics = await self.statistics()
            yield statistics
            if statistics.status.state == FINISHED:
                return
            await asyncio.sleep(pace.rest_s())

    async def outcomes(self, cursor: str = "start", *, follow: bool = False) -> AsyncIterator[UriOutcome]:
        """See CrawlController.outcomes."""
        async with self.frontier.stream_outcomes(self.crawl, cursor, follow=follow) as stream:
            async for message in stream:
                for item in message.outcomes:
                    yield item

    async def waiting(self) -> AsyncIterator[WaitingUri]:
        """See CrawlController.waiting."""
        async with self.frontier.export_uris(self.crawl) as stream:
            async for message in stream:
                for item in message.uris:
                    yield item

    async def wait_for_job(self, job: int, timeout_s: float | None = None) -> Job:
        """See CrawlController.wait_for_job."""
        awaited = AwaitedJob(self.crawl, timeout_s)
        while True:
            found = await self.frontier.get_job(self.crawl, job)
            rest_s = awaited.rest_s(found)
            if rest_s is None:
                return found
            await asyncio.sleep(rest_s)

    async def describe(self) -> Crawl:
        """See CrawlController.describe."""
        return await self.frontier.get_crawl(self.crawl)

    async def status(self) -> CrawlStatus:
        """See CrawlController.status."""
        return (await self.describe()).status

    def _events(self, timeout_s: float | None) -> AsyncEventStream:
        reconnect_s = RECONNECT_S if timeout_s is None else timeout_s
        return self.frontier.state_events(self.crawl, timeout_s=timeout_s, reconnect_s=reconnect_s)
