"""ShardService: what a shard hears from the front of its frontier, and tells it."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence

from toehold.shard.v1 import shard_pb2, shard_pb2_grpc

from .. import wire
from ..core.core import Core
from ..core.rows.errors import UnknownCheckpoint
from ..core.rows.records import encode
from ..core.rows.store import Changes
from ..core.state.order import Order, Progress
from ..logs.crawl_log import CrawlLogs
from ..shell.exchange import Exchange
from ..shell.runner import TryLater
from ..stores.checkpoints import Checkpoints, check_name
from .answers import Context, answered, streamed
from .checkpoints import refused
from .load import Load

KEEPALIVE_S = 1.0
COUNTS_S = 0.5  # between two times that the front hears of mere counts
GATHER_S = 0.05  # changes are gathered for so long before the front hears of them
MAX_HOLD_S = 60.0
AWAY_S = 20.0
"""A shard that has waited for its log, or its disk, for so long is of no use, and tells no more that it is
there. A request to a log's storage takes ten seconds at most, and a question may wait for two."""


class ShardService(shard_pb2_grpc.ShardServiceServicer):
    """The RPCs of the front."""

    def __init__(
        self, exchange: Exchange, incarnation: int, checkpoints: Checkpoints, load: Load, logs: CrawlLogs
    ) -> None:
        self._exchange = exchange
        self._logs = logs
        self._deleting = asyncio.Lock()
        self._deletions = set[asyncio.Task[int]]()
        self._load = load
        self._checkpoints = checkpoints
        self._runner = exchange.runner
        self._incarnation = incarnation

    @answered
    async def Obey(self, request: shard_pb2.ObeyRequest, context: Context) -> shard_pb2.ObeyResponse:
        found: list[Progress] = []
        mark = 0
        if request.HasField("known_crawls"):
            known, spared = map(frozenset, (request.known_crawls.numbers, request.known_crawls.spared))
            mark = await self._delete(lambda core, now_ms: core.orders.delete_others(known, now_ms, spared))
        for message in request.orders:
            order = wire.order(message)
            if self._runner.core.orders.ends_a_part(order) or self._deleting.locked():
                await self._delete(functools.partial(_delete_part, order))
            progress, mark = await self._runner.apply(functools.partial(_obey, order))
            found.append(progress)
            await asyncio.sleep(0)  # others go in between
        await self._runner.durable(mark)
        return shard_pb2.ObeyResponse(
            incarnation=self._incarnation, progress=[wire.progress_message(each) for each in found]
        )

    async def _delete(self, operation: Callable[[Core, int], tuple[list[str], Changes]]) -> int:
        """Delete parts, and their logs before there is another of a name, even if the front leaves meanwhile;
        the mark of that."""
        task = asyncio.create_task(self._deleted(operation))
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)
        return await asyncio.shield(task)

    async def _deleted(self, operation: Callable[[Core, int], tuple[list[str], Changes]]) -> int:
        async with self._deleting:
            names, mark = await self._runner.apply(operation)
            if names:
                await self._runner.durable(mark)
            for name in names:
                await asyncio.to_thread(self._logs.forget, name)
        return mark

    @answered
    async def Look(self, request: shard_pb2.LookRequest, context: Context) -> shard_pb2.LookResponse:
        names = list(request.crawls)
        found: list[Progress] = []
        if names:
            found = await self._runner.read(lambda core, _: core.orders.progress(names))
        else:  # it tells nothing that must be durable
            await self._runner.is_alive()
        return shard_pb2.LookResponse(
            incarnation=self._incarnation, progress=[wire.progress_message(each) for each in found]
        )

    @streamed
    async def Follow(
        self, request: shard_pb2.FollowRequest, context: Context
    ) -> AsyncIterator[shard_pb2.FollowResponse]:
        loop = asyncio.get_running_loop()
        change, pace = request.change, _Pace()
        while True:
            next_change = self._runner.next_change()
            reading = asyncio.ensure_future(self._runner.read(functools.partial(_changed, change)))
            try:
                end_s = loop.time() + AWAY_S
                while (now_s := loop.time()) < end_s:
                    if (await asyncio.wait((reading,), timeout=pace.left_s(now_s)))[0]:
                        break
                    yield shard_pb2.FollowResponse(incarnation=self._incarnation, change=change)
                    pace.told(loop.time())
                found, change = await reading
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            told = pace.due(found, loop.time())
            if told or pace.is_silent(loop.time()):
                yield shard_pb2.FollowResponse(
                    incarnation=self._incarnation,
                    change=change,
                    progress=[wire.progress_message(each) for each in told],
                )
                pace.told(loop.time())
            await asyncio.wait((next_change,), timeout=KEEPALIVE_S)
            await asyncio.sleep(GATHER_S)

    @answered
    async def Announce(
        self, request: shard_pb2.AnnounceRequest, context: Context
    ) -> shard_pb2.AnnounceResponse:
        candidates = [wire.candidate(message) for message in request.request.candidates]
        verdicts = await self._exchange.schedule(request.request.crawl, candidates, anew=request.anew)
        return shard_pb2.AnnounceResponse(response=wire.verdicts(candidates, verdicts))

    @answered
    async def TellSeeds(
        self, request: shard_pb2.TellSeedsRequest, context: Context
    ) -> shard_pb2.TellSeedsResponse:
        seeds = await self._runner.read(
            lambda core, now_ms: core.administration.seeds_here(
                request.crawl, request.uris, request.led_only, now_ms
            )
        )
        return shard_pb2.TellSeedsResponse(seeds=[wire.seed(seed) for seed in seeds])

    @answered
    async def Await(self, request: shard_pb2.AwaitRequest, context: Context) -> shard_pb2.AwaitResponse:
        sought = request.crawl or None, tuple(request.fetcher_kinds)
        with self._runner.waiting.one(sought) as waiter:
            if not self._runner.core.frontier.leasable(*sought):
                await asyncio.wait((waiter,), timeout=wire.milliseconds(request.wait_duration) / 1000)
        return shard_pb2.AwaitResponse()

    @answered
    async def ListEvents(
        self, request: shard_pb2.ListEventsRequest, context: Context
    ) -> shard_pb2.ListEventsResponse:
        rows = await self._runner.read(lambda core, _: core.orders.events_after(request.crawl, request.after))
        return shard_pb2.ListEventsResponse(
            events=[shard_pb2.StoredEvent(number=number, row=encode(row)) for number, row in rows]
        )

    @answered
    async def HoldReports(
        self, request: shard_pb2.HoldReportsRequest, context: Context
    ) -> shard_pb2.HoldReportsResponse:
        hold_s = min(wire.milliseconds(request.hold_duration) / 1000, MAX_HOLD_S)
        await self._exchange.hold_reports(hold_s)
        return shard_pb2.HoldReportsResponse()

    @answered
    async def CopyStore(
        self, request: shard_pb2.CopyStoreRequest, context: Context
    ) -> shard_pb2.CopyStoreResponse:
        self._runner.admit()
        await self._runner.read(lambda core, _: None)  # waits until acknowledged changes are on disk
        name = check_name(request.checkpoint)
        try:
            await asyncio.to_thread(self._delete_others, {name, *request.other_checkpoints})
            await asyncio.to_thread(self._checkpoints.create, self._runner.now_ms(), name)
        except OSError as problem:
            raise refused("the checkpoint cannot be made", problem) from None
        if not self._exchange.holds_reports:  # it may have taken some in that another part lacks
            message = "the shard has begun anew, and holds no reports back; try later"
            raise TryLater("OVERLOADED", message, 1_000)
        return shard_pb2.CopyStoreResponse()

    def _delete_others(self, known: set[str]) -> None:
        """Delete parts of checkpoint sets that were never completed, since the front ended meanwhile."""
        for kept in self._checkpoints.kept():
            if kept.name not in known:
                self._checkpoints.delete(kept.name)

    @answered
    async def Restore(self, request: shard_pb2.RestoreRequest, context: Context) -> shard_pb2.RestoreResponse:
        self._runner.admit()
        await asyncio.to_thread(self._checkpoints.open, check_name(request.checkpoint))
        job = await self._runner.run(
            lambda core, now_ms: core.orders.restore(
                request.crawl, request.number, request.checkpoint, request.source, now_ms
            )
        )
        return shard_pb2.RestoreResponse(job=job)

    @answered
    async def DeleteCopy(
        self, request: shard_pb2.DeleteCopyRequest, context: Context
    ) -> shard_pb2.DeleteCopyResponse:
        try:
            await asyncio.to_thread(self._checkpoints.delete, request.checkpoint)
        except UnknownCheckpoint:
            pass  # an earlier request has deleted it
        except OSError as problem:
            raise refused(f"checkpoint {request.checkpoint} cannot be deleted", problem) from None
        return shard_pb2.DeleteCopyResponse()

    @answered
    async def TellLoad(
        self, request: shard_pb2.TellLoadRequest, context: Context
    ) -> shard_pb2.TellLoadResponse:
        return await self._load.told()


class _Pace:
    """When a front hears of changes: at once of those that it may have to act on, of mere counts now and
    then."""

    def __init__(self) -> None:
        self._signs: dict[str, tuple[object, ...]] = {}  # crawl → what mattered when it was last told
        self._later: dict[str, Progress] = {}
        self._told_s = 0.0  # when anything was told last
        self._counted_s = 0.0  # and when parts were

    def due(self, found: Sequence[Progress], now_s: float) -> list[Progress]:
        """Those to tell now, of parts that have changed and of those that were left for later."""
        now: list[Progress] = []
        for progress in found:
            sign = _sign(progress)
            if self._signs.get(progress.crawl) == sign:
                self._later[progress.crawl] = progress
            else:
                self._signs[progress.crawl] = sign
                self._later.pop(progress.crawl, None)
                now.append(progress)
        if self._later and now_s - self._counted_s >= COUNTS_S:
            now += self._later.values()
            self._later.clear()
        if now:
            self._counted_s = now_s
        return now

    def is_silent(self, now_s: float) -> bool:
        """Whether nothing was told for so long that the front must hear that the shard lives."""
        return self.left_s(now_s) <= 0

    def left_s(self, now_s: float) -> float:
        """How long it may go on to be silent."""
        return self._told_s + KEEPALIVE_S - now_s

    def told(self, now_s: float) -> None:
        """Note that something was told."""
        self._told_s = now_s


def _sign(progress: Progress) -> tuple[object, ...]:
    return (
        progress.number,
        progress.order,
        progress.state,
        progress.held,
        progress.torn_down,
        progress.reason,
        progress.trouble,
        progress.left,
        progress.starves,
        progress.last_event,
        tuple(progress.nodes.items()),
    )


def _delete_part(order: Order, core: Core, now_ms: int) -> tuple[list[str], Changes]:
    return core.orders.delete_part(order, now_ms)


def _obey(order: Order, core: Core, now_ms: int) -> tuple[Progress, Changes]:
    return core.orders.obey(order, now_ms)


def _changed(change: int, core: Core, now_ms: int) -> tuple[list[Progress], int]:
    return core.orders.progress_after(change)
