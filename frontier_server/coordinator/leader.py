"""Leads the shards: hears how the parts of crawls are, gives orders, announces seeds, and finds the end.

A task for each shard follows it, and another gives it orders. Both begin anew when the shard has been away.
What a shard says goes into the coordinator's store; orders leave only when what they follow from is durable
there.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TypeVar

import structlog
from google.protobuf.message import Message

from toehold.shard.v1 import shard_pb2

from .. import wire
from ..core.core import Core
from ..core.rows.errors import FrontierError, ShardAway
from ..core.rows.records import EventRow, decode
from ..core.rows.store import Changes
from ..core.state.model import Verdict
from ..core.state.order import Order, Progress
from ..shards.links import Link, Relayed
from ..shell.runner import Runner
from .coordinator import Announcement, Coordinator
from .parking import Parked, Parking
from .whole import Feed

SERVICE = "toehold.shard.v1.ShardService"
BEAT_S = 1.0  # between two calls by which a shard hears that its front is there
AGAIN_S = 0.1  # after a shard has not answered
ROUND_AGAIN_S = 0.5  # after two rounds that were not equal
ANNOUNCE_AGAIN_S = 0.5
SILENT_S = 5.0  # a shard that says nothing for so long is away
CALL_S = 30.0
CRAWLS_PER_LOOK = 200
ORDERS_PER_CALL = 50

M = TypeVar("M", bound=Message)

Announce = Callable[[Announcement], Awaitable[Sequence[Verdict]]]
"""Offers seeds to the parts that they belong to. Raises ShardAway if one cannot be reached."""

Deliver = Callable[[Parked], Awaitable[None]]
"""Offers parked links to the parts that they belong to. Raises ShardAway likewise, Relayed for a refusal."""

_log = structlog.get_logger()


class Leader:
    """The coordinator's tasks."""

    def __init__(
        self,
        coordinator: Coordinator,
        parking: Parking,
        runner: Runner,
        links: Sequence[Link],
        announce: Announce,
        deliver: Deliver,
    ) -> None:
        self._coordinator = coordinator
        self._parking = parking
        self._runner = runner
        self._links = links
        self._announce = announce
        self._deliver = deliver
        self._has_parked = [asyncio.Event() for _ in links]
        self._met: set[int] = set()  # the shards that have not been away since

    async def begin(self) -> None:
        """Begin to lead."""
        await self._runner.run(lambda core, now_ms: self._coordinator.begin_term(now_ms))
        for link in self._links:
            self._runner.tasks.keep(f"leading of shard {link.number}", self._lead(link))
            self._runner.tasks.keep(f"parked links of shard {link.number}", self._deliver_all(link))
        self._runner.tasks.keep("announcement of seeds", self._announce_all())
        self._runner.tasks.keep("search for ends", self._find_ends())

    async def all_present(self, timeout_s: float) -> None:
        """Wait until all shards are there, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(link.is_present.wait() for link in self._links))

    async def crawl_deleted(self) -> None:
        """Let the shards that are there delete their parts of a crawl that is gone; others do when they are
        back."""

        async def tell(link: Link) -> None:
            with suppress(ShardAway, Relayed):
                await self._tell_known(link)

        await asyncio.gather(*(tell(link) for link in self._links if not link.away))

    async def settled(self, name: str, timeout_s: float) -> None:
        """Wait until all shards that are there have the settings of a crawl, or for so long."""
        await self._until_all(functools.partial(self._coordinator.has_settings, name), timeout_s)

    async def steered(self, name: str, timeout_s: float) -> None:
        """Wait until all shards that are there obey the last wish for a crawl's state, or for so long."""
        await self._until_all(functools.partial(self._coordinator.is_steered, name), timeout_s)

    async def refresh(self, name: str) -> None:
        """Hear from the shards that are there how their parts of a crawl are now."""

        async def look(link: Link) -> None:
            request = shard_pb2.LookRequest(crawls=[name])
            with suppress(ShardAway, Relayed):
                answer = await self._ask(link, "Look", request, shard_pb2.LookResponse)
                await self._record(link, answer.progress, answer.incarnation)

        await asyncio.gather(*(look(link) for link in self._links if not link.away))

    def is_steered(self, name: str) -> bool:
        """Whether they obey it now."""
        return self._of_all(functools.partial(self._coordinator.is_steered, name))

    def _of_all(self, holds: Callable[[int], bool]) -> bool:
        return all(holds(link.number) for link in self._links if not link.away)

    async def _until_all(self, holds: Callable[[int], bool], timeout_s: float) -> None:
        def hold(core: Core, now_ms: int) -> bool:
            return self._of_all(holds)

        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    change = self._runner.next_change()
                    if await self._runner.read(hold):
                        return
                    await asyncio.wait((change,))

    # A shard.

    async def _lead(self, link: Link) -> None:
        while True:
            try:
                await self._meet(link)
            except (ShardAway, Relayed) as problem:
                if link.number in self._met:
                    self._met.remove(link.number)
                    _log.warning("shard_away", shard=link.number, problem=str(problem))
                link.step_back()
                await asyncio.sleep(AGAIN_S)

    async def _meet(self, link: Link) -> None:
        """Learn how the shard is, then follow it and give it orders until it is away."""
        first = await self._ask(link, "Look", shard_pb2.LookRequest(), shard_pb2.LookResponse)
        part = link.number
        names = await self._runner.read(lambda core, _: self._coordinator.hear_anew(part, first.incarnation))
        for start in range(0, len(names), CRAWLS_PER_LOOK):
            request = shard_pb2.LookRequest(crawls=names[start : start + CRAWLS_PER_LOOK])
            answer = await self._ask(link, "Look", request, shard_pb2.LookResponse)
            if answer.incarnation != first.incarnation:
                raise link.absence()
            await self._record(link, answer.progress, answer.incarnation)
        await self._tell_known(link)
        change, gave = 0, True
        while gave:  # it serves nodes when it knows what has been wished meanwhile
            change, gave = await self._give_orders(link, first.incarnation, change)
        self._met.add(part)
        _log.info("shard_present", shard=part)
        link.away = False
        await self._tell_known(link)  # a crawl may have been deleted while it was away
        tasks = [
            asyncio.create_task(self._follow(link, first.incarnation)),
            asyncio.create_task(self._order(link, first.incarnation, change)),
            asyncio.create_task(self._beat(link)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self, link: Link) -> None:
        """Call the shard again and again: while its front is away, it blames no node for its silence."""
        while True:
            await asyncio.sleep(BEAT_S)
            await self._ask(link, "Look", shard_pb2.LookRequest(), shard_pb2.LookResponse)

    async def _tell_known(self, link: Link) -> None:
        known, spared = await self._runner.read(
            lambda core, _: (self._coordinator.known_numbers(), self._coordinator.spared())
        )
        request = shard_pb2.ObeyRequest(known_crawls=shard_pb2.KnownCrawls(numbers=known, spared=spared))
        await self._ask(link, "Obey", request, shard_pb2.ObeyResponse)

    async def _follow(self, link: Link, incarnation: int) -> None:
        method, asked = f"{SERVICE}/Follow", shard_pb2.FollowRequest()
        async with aclosing(link.messages(method, asked, shard_pb2.FollowResponse, SILENT_S)) as messages:
            async for message in messages:
                if message.incarnation != incarnation:
                    raise link.absence()
                if message.progress:
                    await self._record(link, message.progress, incarnation)

    async def _order(self, link: Link, incarnation: int, change: int) -> None:
        while True:
            next_change = self._runner.next_change()
            change, gave = await self._give_orders(link, incarnation, change)
            if not gave:
                await asyncio.wait((next_change,))

    async def _give_orders(self, link: Link, incarnation: int, change: int) -> tuple[int, bool]:
        """Give the orders that follow from what has changed since a change; the number of the last change,
        and whether there were any."""
        orders, last = await self._runner.read(functools.partial(self._orders, link.number, change))
        for start in range(0, len(orders), ORDERS_PER_CALL):
            request = shard_pb2.ObeyRequest(
                orders=[wire.order_message(each) for each in orders[start : start + ORDERS_PER_CALL]]
            )
            answer = await self._ask(link, "Obey", request, shard_pb2.ObeyResponse)
            if answer.incarnation != incarnation:
                raise link.absence()
            await self._record(link, answer.progress, incarnation)
        return last, bool(orders)

    def _orders(self, part: int, change: int, core: Core, now_ms: int) -> tuple[list[Order], int]:
        names, last = self._coordinator.changed_after(change)
        if any(part in self._parking.counts(name) for name in names):
            self._has_parked[part].set()
        found = (self._coordinator.order(name, part) for name in names)
        return [order for order in found if order is not None], last

    async def _record(self, link: Link, messages: Sequence[shard_pb2.Progress], incarnation: int) -> None:
        """Take in how parts are, after their events: these tell why it is so."""
        told = [wire.progress(message, incarnation) for message in messages]
        for progress in told:
            await self._hear(link, progress)
        await self._runner.apply(lambda core, now_ms: self._coordinator.record(link.number, told, now_ms))

    async def _hear(self, link: Link, progress: Progress) -> None:
        part = link.number
        while (after := self._coordinator.unheard(part, progress)) is not None:
            request = shard_pb2.ListEventsRequest(crawl=progress.crawl, after=after)
            answer = await self._ask(link, "ListEvents", request, shard_pb2.ListEventsResponse)
            events = [(each.number, decode(EventRow, each.row)) for each in answer.events]
            if not events:
                break
            await self._runner.apply(
                functools.partial(_hear, self._coordinator, part, progress, after, events)
            )

    async def _ask(self, link: Link, method: str, request: Message, kind: type[M]) -> M:
        return await link.call(f"{SERVICE}/{method}", request, kind, CALL_S)

    # Seeds.

    async def _announce_all(self) -> None:
        while True:
            next_change = self._runner.next_change()
            names = await self._runner.read(lambda core, _: self._coordinator.announcing())
            waits = False
            for name in names:
                announcement = await self._runner.run(functools.partial(_next_seeds, self._coordinator, name))
                if announcement is None:
                    continue
                try:
                    verdicts = await self._announce(announcement)
                except (FrontierError, Relayed):
                    waits = True  # a shard is away, or has not made its part yet
                    continue
                await self._runner.run(
                    functools.partial(_announced, self._coordinator, announcement, verdicts)
                )
            if waits:
                await asyncio.sleep(ANNOUNCE_AGAIN_S)
            elif not names:
                await asyncio.wait((next_change,))

    # Parked links.

    async def _deliver_all(self, link: Link) -> None:
        """Offer a shard the links that wait for it, whenever it is there."""
        part, has_some = link.number, self._has_parked[link.number]
        refused = set[str]()  # crawls whose links the shard does not take in just now
        while True:
            await link.is_present.wait()
            if not self._parking.count_for(part):
                has_some.clear()
                await has_some.wait()
                continue
            next_change = self._runner.next_change()
            parked = await self._runner.read(lambda core, _: self._parking.next_for(part, refused))
            if parked is None and refused:
                await asyncio.sleep(ANNOUNCE_AGAIN_S)
                refused.clear()
                continue
            if parked is None:
                await asyncio.wait((next_change,))
                continue
            try:
                await self._deliver(parked)
            except (FrontierError, Relayed) as problem:
                _log.debug("parked_links_wait", shard=part, crawl=parked.crawl, problem=str(problem))
                refused.add(parked.crawl)
                continue
            await self._runner.run(functools.partial(_delivered, self._parking, parked))

    # The end.

    async def _find_ends(self) -> None:
        change, suspects = 0, set[str]()
        while True:
            next_change = self._runner.next_change()
            names, change = await self._runner.read(functools.partial(_changed, self._coordinator, change))
            suspects.update(names)
            for name in list(suspects):
                feed = await self._runner.read(functools.partial(_may_have_ended, self._coordinator, name))
                if feed is None or await self._two_rounds(name, feed):
                    suspects.discard(name)
            await asyncio.wait((next_change,), timeout=ROUND_AGAIN_S if suspects else None)

    async def _two_rounds(self, name: str, feed: Feed) -> bool:
        """Ask all shards twice whether a crawl has anything left; whether it has not."""
        try:
            first = await self._round(name)
            second = await self._round(name)
        except (ShardAway, Relayed):
            return False
        return await self._runner.run(
            functools.partial(_conclude, self._coordinator, name, feed, first, second)
        )

    async def _round(self, name: str) -> list[Progress]:
        asked = shard_pb2.LookRequest(crawls=[name])
        answers = await asyncio.gather(
            *(self._ask(link, "Look", asked, shard_pb2.LookResponse) for link in self._links)
        )
        return [wire.progress(answer.progress[0], answer.incarnation) for answer in answers]


def _changed(coordinator: Coordinator, change: int, core: Core, now_ms: int) -> tuple[list[str], int]:
    return coordinator.changed_after(change)


def _may_have_ended(coordinator: Coordinator, name: str, core: Core, now_ms: int) -> Feed | None:
    return coordinator.may_have_ended(name)


def _hear(
    coordinator: Coordinator,
    part: int,
    progress: Progress,
    after: int,
    events: Sequence[tuple[int, EventRow]],
    core: Core,
    now_ms: int,
) -> tuple[None, Changes]:
    return coordinator.hear(part, progress, after, events, now_ms)


def _next_seeds(
    coordinator: Coordinator, name: str, core: Core, now_ms: int
) -> tuple[Announcement | None, Changes]:
    return coordinator.next_seeds(name, now_ms)


def _announced(
    coordinator: Coordinator,
    announcement: Announcement,
    verdicts: Sequence[Verdict],
    core: Core,
    now_ms: int,
) -> tuple[None, Changes]:
    return coordinator.announced(announcement, verdicts, now_ms)


def _delivered(parking: Parking, parked: Parked, core: Core, now_ms: int) -> tuple[None, Changes]:
    return parking.delivered(parked, now_ms)


def _conclude(
    coordinator: Coordinator,
    name: str,
    feed: Feed,
    first: Sequence[Progress],
    second: Sequence[Progress],
    core: Core,
    now_ms: int,
) -> tuple[bool, Changes]:
    return coordinator.conclude(name, feed, first, second, now_ms)
