"""Which shards may have something to lease, and calls of Next that wait for that.

A shard that had nothing for a caller is not asked again until it says that it may have: one call of
`Await` is open to it for all callers who want the same, however many they are.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from weakref import WeakSet

from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import frontier_pb2
from toehold.shard.v1 import shard_pb2

from ..core.rows.errors import ShardAway
from ..core.state.kinds import Kinds
from ..shards.links import Link, Links, Relayed
from ..shell.tasks import Closing, Tasks

AWAIT = "toehold.shard.v1.ShardService/Await"
AWAIT_S = 30.0  # then the shard is asked again
AWAY_S = 0.3
AT_ONCE_S, FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.01, 0.25
"""A shard that says at once that it may have something, but then has nothing, is asked after pauses: what it
has is not for these callers."""
UNKNOWN_S = 2.0
MAX_KNOWN = 1_000  # kinds of wishes; those asked for last


class Wish(NamedTuple):
    """What callers want from a shard. Those who want the same wait together."""

    crawl: str  # empty: any
    kinds: Kinds  # of fetchers that the caller is
    queues: tuple[str, ...] = ()
    per_queue: int = 0


class Told(NamedTuple):
    """Why a shard gave nothing, and when it may be asked again (in seconds of the loop's clock)."""

    reason: int = frontier_pb2.EMPTY_REASON_NOTHING_DUE
    again_s: float = 0.0


class Chance:
    """What is known of the shards for one wish."""

    def __init__(self, wish: Wish, shards: int) -> None:
        self.wish = wish
        self.may = [True] * shards
        self.told = [Told()] * shards
        self.awaited = [False] * shards
        self.pauses_s = [0.0] * shards
        self.waiting = 0
        """How many callers wait for it."""
        self.turn = 0
        """How often callers have got something: each time another shard is asked first."""
        self._changed = self._new()
        self._end: Closing | None = None

    @contextmanager
    def waiter(self) -> Iterator[None]:
        """Somebody waits for it, within a `with` block."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    @property
    def changed(self) -> asyncio.Future[None]:
        """Done when a shard may have something. Raises Closing once nobody may wait any more."""
        if self._end is not None:
            raise self._end
        return self._changed

    def _new(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    def comes(self, shard: int) -> None:
        """Note that a shard may have something, and let those who wait ask."""
        self.may[shard] = True
        self._wake()

    def end(self, why: Closing) -> None:
        """End all waits."""
        self._end = why
        self._wake()

    def _wake(self) -> None:
        self._changed.set_result(None)
        self._changed = self._new()


class Chances:
    """The chances of all wishes."""

    def __init__(self, links: Links, tasks: Tasks) -> None:
        self.tasks = tasks
        self._links = links
        self._known: OrderedDict[Wish, Chance] = OrderedDict()
        self._all: WeakSet[Chance] = WeakSet()  # also those that are not known any more, and waited for
        self._end: Closing | None = None

    def of(self, wish: Wish) -> Chance:
        """The chance of a wish."""
        known = self._known.get(wish)
        if known is None:
            known = self._known[wish] = Chance(wish, len(self._links))
            if self._end is not None:
                known.end(self._end)
            self._all.add(known)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(wish)
        return known

    def end(self, why: Closing) -> None:
        """End all waits, and let no other begin."""
        self._end = why
        for chance in self._all:
            chance.end(why)

    def gave_all(self, chance: Chance, link: Link) -> None:
        """Note that a shard has given all that it has now."""
        chance.pauses_s[link.number] = 0.0
        self._await(chance, link)

    def gave_nothing(self, chance: Chance, link: Link, told: Told) -> None:
        """Note why a shard has given nothing."""
        chance.told[link.number] = told
        self._await(chance, link)

    def _is_wanted(self, chance: Chance) -> bool:
        """Whether somebody waits for it, or may ask for it again."""
        return chance.waiting > 0 or self._known.get(chance.wish) is chance

    def is_away(self, chance: Chance, link: Link) -> None:
        """Note that a shard cannot be asked now."""
        again_s = asyncio.get_running_loop().time() + UNKNOWN_S
        self.gave_nothing(chance, link, Told(again_s=again_s))

    def _await(self, chance: Chance, link: Link) -> None:
        """Wait in the background until the shard may have something. Where nobody waits, all shards are asked
        each time."""
        if not chance.waiting:
            return
        chance.may[link.number] = False
        if not chance.awaited[link.number]:
            chance.awaited[link.number] = True
            self.tasks.once(f"wait for shard {link.number}", self._wait(chance, link))

    async def _wait(self, chance: Chance, link: Link) -> None:
        wish, number, clock = chance.wish, link.number, asyncio.get_running_loop().time
        request = shard_pb2.AwaitRequest(
            crawl=wish.crawl, fetcher_kinds=wish.kinds, wait_duration=Duration(seconds=int(AWAIT_S))
        )
        pause_s = chance.pauses_s[number]
        await asyncio.sleep(pause_s)
        began_s = clock()
        while not await self._says(link, request):
            if not link.away:
                await asyncio.sleep(AWAY_S)  # it is about to be known to be away
            with suppress(TimeoutError):
                async with asyncio.timeout(AWAIT_S):
                    await link.is_present.wait()
            if not self._is_wanted(chance):
                return
        at_once = clock() - began_s < AT_ONCE_S
        chance.pauses_s[number] = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S) if at_once else 0.0
        chance.awaited[number] = False
        chance.comes(number)

    async def _says(self, link: Link, request: shard_pb2.AwaitRequest) -> bool:
        """Whether a shard says that it may have something, once it does; False if it is away."""
        if link.away:
            return False
        try:
            await link.call(AWAIT, request, shard_pb2.AwaitResponse, AWAIT_S + 5)
        except ShardAway:
            return False
        except Relayed:  # whoever asks is told the refusal
            pass
        return True
