"""AsyncCrawlController: takes one crawl through its life, for asyncio programs.

The crawl's life is in the frontier. A controller holds no truth of its own: it asks, waits and listens, so
any number of them, at any time, may steer and watch the same crawl. `waits` judges what it waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import AsyncExitStack
from typing import Self

from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    Crawl,
    GetStatisticsResponse,
    Job,
    UriOutcome,
    WaitingUri,
)
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, TargetState
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse
from toehold_client import errors
from toehold_client.events import Event
from toehold_client.rpc.arguments import several
from toehold_client.rpc.batches import MAX_ITEMS
from toehold_client.rpc.listeners import Listeners
from toehold_client.rpc.retry import RECONNECT_S
from toehold_client.seeds import OnRefused, check_on_refused
from toehold_client.shown import shown_crawl, shown_statistics, shown_status
from toehold_client.spec.given import GivenSpec, spec_of
from toehold_client.states import State
from toehold_client.waits import (
    FINISHED,
    NASCENT,
    TEARDOWN_S,
    AwaitedJob,
    AwaitedState,
    Pace,
    is_as_asked,
    is_last,
    is_torn_down,
)

from .client import AsyncFrontierClient
from .listener import AsyncListener, Callback
from .streams import AsyncEventStream


class AsyncCrawlController:
    """One crawl of a frontier, by its name; it need not exist yet.

    Every method may raise the errors of AsyncFrontierClient, and UnknownCrawl unless the crawl has been
    created. Methods that change the crawl raise CrawlHeld while it is held, except those that ask for another
    state or for the teardown; and CrawlTornDown once it is torn down, except `delete`. A refused request has
    changed nothing.

    As a context manager the controller closes its listeners at the end. The crawl goes on, then and when the
    program ends.
    """

    def __init__(self, frontier: AsyncFrontierClient, crawl: str) -> None:
        self.frontier = frontier
        self.crawl = crawl
        self._listeners: Listeners[AsyncListener] = Listeners()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as leaving:  # closes each, even if others raise errors
            for listener in self._listeners.take():
                leaving.push_async_callback(listener.close)

    # its life

    async def create(
        self, spec: GivenSpec, seeds: Iterable[str] = (), *, on_refused: OnRefused = "raise"
    ) -> AddSeedsResponse:
        """Creates the crawl, NASCENT, and stores its seeds, from a list or any other iterable. The spec may
        be a dict with the names of a spec file.

        If the frontier refuses some seeds, the crawl has the others, and SeedsRefused says which and why.
        With `on_refused="report"` nothing is raised: the answer lists them.

        It may be repeated until the crawl is launched, after a lost answer or with more seeds: a NASCENT
        crawl of this name with the same spec is the one meant. Any other one is CrawlExists. InvalidName,
        InvalidSpec.
        """
        check_on_refused(on_refused)
        several(seeds, "seeds", "URIs")
        wanted = spec_of(spec)
        try:
            await self.frontier.create_crawl(self.crawl, wanted)
        except errors.CrawlExists:
            if not is_as_asked(await self.describe(), wanted):
                raise
        return await self.add_seeds(seeds, on_refused=on_refused)

    async def copy(self, name: str, *, seeds: bool = False) -> AsyncCrawlController:
        """Creates a NASCENT crawl of another name with this one's present spec; its controller.

        From any state. With `seeds` it gets the same seeds, as they were added. May be repeated, like
        `create`. CrawlExists, InvalidName.
        """
        copied = AsyncCrawlController(self.frontier, name)
        described = await self.describe()
        await copied.create(described.spec)
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

    async def add_seeds(self, uris: Iterable[str], *, on_refused: OnRefused = "raise") -> AddSeedsResponse:
        """Adds any number of seeds, and waits until all are stored; refused ones are as in `create`.

        From any state but FINISHED (CrawlFinished). The frontier announces them when the crawl is launched,
        or at once after that. Harmless to repeat.
        """
        return await self.frontier.add_seeds(self.crawl, uris, on_refused=on_refused)

    async def launch(self, checkpoint: str = "", checkpoint_crawl: str = "") -> CrawlStatus:
        """From NASCENT: announces the seeds and starts the crawl. Returns at once: PREPARING or beyond.

        With the name of a checkpoint, the crawl continues from there instead, as the crawl of the same name
        or `checkpoint_crawl`: see LaunchCrawl in the contract. UnknownCheckpoint; UnknownCrawl if the
        checkpoint has no such crawl; InvalidSpec if the specs differ in fixed settings; IllegalState if this
        crawl has taken in URIs or had jobs, or if the checkpoint has only a part of that one.

        RUNNING follows, or PAUSED with the spec's `pause_at_start`. NoSeeds; DiskReserve; IllegalState from
        any other state. If an answer is lost and the repeat is refused because the crawl has been launched,
        the launch counts as a success.
        """
        status = await self.status()
        try:
            return shown_status(await self.frontier.launch_crawl(self.crawl, checkpoint, checkpoint_crawl))
        except errors.IllegalState:
            if status.state != NASCENT:
                raise
            now = await self.status()
            if now.state == NASCENT:
                raise
            return now

    async def pause(self) -> CrawlStatus:
        """From RUNNING or EMPTY: leases no more URIs. Returns at once: PAUSING, or PAUSED without leases.

        PAUSED follows when the last lease has ended, or at the spec's `pause_timeout`. On a crawl that is
        pausing or paused it only releases a hold, and keeps a crawl that trouble has paused from resuming by
        itself. IllegalState from any other state.
        """
        return shown_status(await self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_PAUSE))

    async def resume(self) -> CrawlStatus:
        """From PAUSING or PAUSED, held or not: leases URIs again. Returns at once; RUNNING follows.

        On a running crawl it has no effect. DiskReserve while the frontier's disk is nearly full;
        IllegalState from any other state.
        """
        return shown_status(await self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_RUN))

    async def hold(self) -> CrawlStatus:
        """From RUNNING, EMPTY, PAUSING or PAUSED: pauses the crawl, and then holds it. Returns at once.

        The crawl is held once its status says `held`, and the event Held tells it. From then on the frontier
        writes nothing about it, and refuses changes with CrawlHeld, until `resume`, `pause` or `stop`.
        IllegalState from any other state.
        """
        return shown_status(await self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_HOLD))

    async def stop(self) -> CrawlStatus:
        """From any state: ends the crawl for good. Returns at once: STOPPING, or FINISHED without leases.

        FINISHED follows when the last lease has ended, or at the spec's `stop_timeout`. A second stop of a
        STOPPING crawl makes nodes interrupt their fetches, and FINISHED follows within 15 s. On a finished
        crawl it has no effect.
        """
        return shown_status(await self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_FINISH))

    async def teardown(self, timeout_s: float | None = TEARDOWN_S) -> bool:
        """From any state: stops the crawl if necessary, and removes it from the frontier's memory.

        Waits for that up to `timeout_s` (None: as long as it takes). True: the teardown is complete, and the
        crawl's last event has happened. False: it is not complete, or the frontier went away; the frontier
        completes it anyway, also after a restart and without this program. The stored data can be read until
        `delete`.

        Any number of controllers may ask, at once or again: the frontier does it once, and each gets True
        when it is complete. If the crawl is STOPPING, its fetches are interrupted, as by a second `stop`.
        """
        answer = await self.frontier.tear_down_crawl(self.crawl)
        if answer.status.torn_down:
            return True
        try:
            async with self._events(timeout_s) as stream:
                async for message in stream:
                    if is_torn_down(message):
                        return True
            status = await self.status()
            return status.torn_down
        except (errors.DeadlineExceeded, errors.FrontierUnavailable, errors.RefusedForNow):
            return False

    async def delete(self, *, force: bool = False) -> None:
        """Deletes the crawl and all its stored data.

        From NASCENT or FINISHED; CrawlActive otherwise, unless `force` is set: then its leases end.
        """
        await self.frontier.delete_crawl(self.crawl, force=force)

    # its settings

    async def update(self, spec: GivenSpec, paths: Collection[str] = ()) -> Crawl:
        """Changes settings, from the next decision on; the crawl's new description, which prints what has
        changed: `max_toes was 0, is 10`.

        From any state but FINISHED (CrawlFinished). `paths` names the settings to change, such as
        `limits.max_documents` or `politeness`: each gets its value in `spec`, or its default if `spec` has
        none. Without `paths`, the settings in `spec` change; if it is a dict, all that it names, also to an
        empty list. InvalidSpec tells every problem, and every fixed setting.
        """
        before = await self.frontier.get_crawl(self.crawl)
        return shown_crawl(await self.frontier.update_crawl(self.crawl, spec, paths), before.spec)

    async def reopen(
        self,
        spec: GivenSpec | None = None,
        paths: Collection[str] = (),
        *,
        pause: bool = False,
        recrawl_before: Timestamp | None = None,
    ) -> Crawl:
        """From FINISHED: changes settings as `update` does, and lets the crawl run again with what it left in
        its queues; its new description. With `pause` it is PAUSED, so that URIs can be added first.
        With `recrawl_before` a recrawl begins, and the limits count from now on, as the client's
        `reopen_crawl` explains.

        IllegalState from any other state, and while a limit of the crawl is still reached; InvalidSpec;
        DiskReserve. If an answer is lost and the repeat is refused because the crawl has been reopened, that
        counts as a success.
        """
        before = await self.frontier.get_crawl(self.crawl)
        try:
            now = await self.frontier.reopen_crawl(
                self.crawl, spec, paths, pause=pause, recrawl_before=recrawl_before
            )
        except errors.IllegalState:
            now = await self.frontier.get_crawl(self.crawl)
            if before.status.state != FINISHED or now.status.state == FINISHED:
                raise
        return shown_crawl(now, before.spec)

    async def set_pool_size(self, size: int | None) -> None:
        """Sets how many toe threads each node of the frontier has, for all its crawls: 0 to 10 000, or None
        for as many as it was started with.

        In any state. Nodes follow with their next heartbeat. `set_pool_size` of the client can name one node;
        the spec's `max_toes` bounds this crawl alone.
        """
        await self.frontier.set_pool_size(size)

    # its progress

    async def wait_for(
        self, states: State | Collection[State], timeout_s: float | None = None
    ) -> CrawlStatus:
        """From any state: waits until the crawl is in a state, such as "PAUSED", or in one of several, such
        as {"PAUSED", "FINISHED"}; its status at that moment.

        A state that the crawl has left again counts, if it was reached after the call. If the frontier
        restarts, the wait goes on, up to `timeout_s`, or without one for a minute each time. WaitTimedOut;
        CrawlFinished if the crawl ends and FINISHED is not among the states; InvalidArgument if one of them
        is not a state.
        """
        awaited = AwaitedState(self.crawl, states)
        try:
            async with self._events(timeout_s) as stream:
                async for message in stream:
                    status = awaited.reached(message)
                    if status is not None:
                        return shown_status(status)
        except errors.DeadlineExceeded as error:
            raise awaited.late(timeout_s, error) from None
        await self.status()  # ClientClosed, if it is that which has ended the stream
        raise awaited.broken_off()

    async def follow(self, cursor: str = "") -> AsyncIterator[Event]:
        """The crawl's events after `cursor` ("" for those from now on, "start" for all kept), until it has
        finished, or until it is torn down if the teardown was requested before that.

        To continue after an event, use its `cursor`. If the frontier restarts, the stream waits up to a
        minute for it. It ends when the iterator is closed. CursorTooOld.
        """
        async with self.frontier.state_events(self.crawl, cursor) as stream:
            async for message in stream:
                if message.HasField("event"):
                    yield Event(message.event)

    async def events(self, cursor: str = "start") -> AsyncIterator[Event]:
        """The events after `cursor`, up to now, without waiting for more. CursorTooOld."""
        async with self.frontier.state_events(self.crawl) as now:
            first = await anext(now, StateEventsResponse())
        async with self.frontier.state_events(self.crawl, cursor) as stream:
            async for message in stream:
                if message.HasField("event"):
                    yield Event(message.event)
                if is_last(message, first.cursor):
                    return

    async def listen(self, listener: Callback, cursor: str = "") -> AsyncListener:
        """Calls `listener` with each event after `cursor`, one at a time, in a task of its own, until the
        crawl's events end as in `follow`. Returns when it listens: it misses no later event. `listen(print)`
        prints a sentence for each.

        If the frontier restarts, it waits up to a minute, and misses and repeats nothing. An error in the
        listener ends it: `close` and `join` of the returned object raise the error, and its `cursor` is then
        before that event. They raise CursorTooOld, too.
        """
        stream = self.frontier.state_events(self.crawl, cursor)
        first = await anext(stream, StateEventsResponse())
        return self._listeners.add(AsyncListener(stream, listener, first))

    async def statistics(self) -> GetStatisticsResponse:
        """The crawl's statistics, and its status at the same moment. From any state."""
        return shown_statistics(await self.frontier.get_statistics(self.crawl))

    async def statistics_every(self, interval_s: float) -> AsyncIterator[GetStatisticsResponse]:
        """The crawl's statistics now, and then every `interval_s` seconds, until it has finished: the last
        ones have that status.

        From any state. If the frontier restarts, the client's patience counts. InvalidArgument unless the
        interval is more than 0.
        """
        pace = Pace(interval_s)
        while True:
            statistics = await self.statistics()
            yield statistics
            if statistics.status.state == FINISHED:
                return
            await asyncio.sleep(pace.rest_s())

    async def outcomes(self, cursor: str = "start", *, follow: bool = False) -> AsyncIterator[UriOutcome]:
        """The kept final dispositions after `cursor`; with `follow` also later ones, until the crawl has
        finished.

        To continue after an outcome, use its `cursor`. If the frontier restarts, the stream waits up to a
        minute for it. CursorTooOld.
        """
        async with self.frontier.stream_outcomes(self.crawl, cursor, follow=follow) as stream:
            async for message in stream:
                for item in message.outcomes:
                    yield item

    async def waiting(self) -> AsyncIterator[WaitingUri]:
        """All URIs that wait, by queue, then those that are due later. If the frontier restarts, the stream
        waits for it.
        """
        async with self.frontier.export_uris(self.crawl) as stream:
            async for message in stream:
                for item in message.uris:
                    yield item

    async def wait_for_job(self, job: int, timeout_s: float | None = None) -> Job:
        """Waits until a job has ended, in any state of the crawl; the job then. WaitTimedOut; UnknownJob."""
        awaited = AwaitedJob(self.crawl, timeout_s)
        while True:
            found = await self.frontier.get_job(self.crawl, job)
            rest_s = awaited.rest_s(found)
            if rest_s is None:
                return found
            await asyncio.sleep(rest_s)

    async def describe(self) -> Crawl:
        """The crawl's spec with all defaults, its status, its times, and how many seeds it has."""
        return shown_crawl(await self.frontier.get_crawl(self.crawl))

    async def status(self) -> CrawlStatus:
        """The crawl's state, and more about it. It prints as a sentence, and its `state` as a name."""
        described = await self.frontier.get_crawl(self.crawl)
        return shown_status(described.status)

    def _events(self, timeout_s: float | None) -> AsyncEventStream:
        reconnect_s = RECONNECT_S if timeout_s is None else timeout_s
        return self.frontier.state_events(self.crawl, timeout_s=timeout_s, reconnect_s=reconnect_s)
