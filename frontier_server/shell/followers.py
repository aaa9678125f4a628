"""Events for the followers of a crawl: each new event is read once, for all of them.

A follower reads past events from the store by itself, and then waits with all others for new
ones. One task a crawl reads those, and wakes followers in batches, with others' work in between.
It also gives them keepalives: thousands of timers would all go off at once.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from ..core.core import Core
from ..core.machines.lifecycle import CrawlState
from ..core.rows.errors import FrontierError
from ..core.rows.records import EventRow
from ..core.state.model import CrawlView
from .runner import Runner
from .tasks import Closing

HEARTBEAT_S = 10.0
LATEST = 200  # events that are kept for followers who are a little behind
BATCH, MAX_BATCH_S = 100, 0.01  # followers woken at once; others then get as much time as that took

Rows = list[tuple[int, EventRow]]


class Followers:
    """The followers of a frontier's crawls."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._latest: dict[int, _Latest] = {}  # by crawl

    async def events(self, crawl: str, sequence: int) -> AsyncIterator[tuple[int, EventRow] | None]:
        """Events after a sequence number as they become durable; None while nothing happens.

        Ends after the event of FINISHED, or, if the crawl is being torn down, after its last
        event; in a read-only frontier after the last one that is kept. Raises
        UnknownCrawl, CursorTooOld, and Closing when the server shuts down.
        """
        number = 0
        while True:
            rows, view = await self._read(crawl, number, sequence)
            number = view.number
            for row in rows:
                yield row
                sequence = row[0]
            if _over(view, sequence):
                return
            if rows:
                continue
            if self._runner.read_only:
                return  # there will be no more
            with self._followed(view, sequence) as follower:
                while (news := await follower.behind(sequence)) is not None:
                    for row in news:
                        yield row
                        sequence = row[0]
                    if not news:
                        yield None

    async def _read(self, crawl: str, number: int, sequence: int) -> tuple[Rows, CrawlView]:
        """Some events after a sequence number, and the crawl at that moment."""

        def question(core: Core, _: int) -> tuple[Rows, CrawlView]:
            view = core.views.crawl(crawl, number)
            return core.history.events_after(crawl, sequence), view

        return await self._runner.read(question)

    @contextmanager
    def _followed(self, view: CrawlView, sequence: int) -> "Iterator[_Follower]":
        """A new follower of a crawl. Its latest events are read as long as it has followers."""
        latest = self._latest.get(view.number)
        if latest is None:
            latest = self._latest[view.number] = _Latest(sequence)
            self._runner.tasks.once("reader of events", self._keep_up(view, latest))
        follower = _Follower(latest)
        latest.followers.add(follower)
        try:
            yield follower
        finally:
            latest.followers.discard(follower)
            latest.is_back(follower)

    async def _keep_up(self, crawl: CrawlView, latest: "_Latest") -> None:
        """Read new events for all. When this ends, for whatever reason, each follower reads by itself."""
        try:
            view = crawl
            while latest.followers and not _over(view, latest.last):
                happened = self._runner.next_event(crawl.name)
                rows, view = await self._read(crawl.name, crawl.number, latest.last)
                if rows:
                    await latest.add(rows)
                    continue
                done, _ = await asyncio.wait((happened,), timeout=HEARTBEAT_S)
                if not done:
                    await latest.tell_that_nothing_happens(happened)
        except (FrontierError, Closing):
            return  # each follower gets the error by itself
        finally:
            del self._latest[crawl.number]
            latest.end()


class _Latest:
    """The latest events of a crawl, and its followers."""

    def __init__(self, sequence: int) -> None:
        self.followers: set[_Follower] = set()
        self.rows: deque[tuple[int, EventRow]] = deque(maxlen=LATEST)
        self.before = self.last = sequence  # the event before these, and the last of these
        self.ended = False
        self._told: set[_Follower] = set()  # followers of the present batch that are not back
        self._all_back = asyncio.Event()

    async def add(self, rows: Rows) -> None:
        """Add new events, and wake all."""
        for row in rows:
            if len(self.rows) == LATEST:
                self.before = self.rows[0][0]
            self.rows.append(row)
        self.last = rows[-1][0]
        await self._tell()

    async def tell_that_nothing_happens(self, happened: asyncio.Future[None]) -> None:
        """Give all a keepalive, unless an event comes meanwhile."""
        await self._tell(happened)

    async def _tell(self, unless: asyncio.Future[None] | None = None) -> None:
        """Wake all, batch by batch: each when the one before has passed its news on. `unless` is for signs of
        life: once it is done, the others get events instead."""
        loop = asyncio.get_running_loop()
        nothing = unless is not None
        waiting = iter([follower for follower in self.followers if follower.waits])
        while (batch := list(islice(waiting, BATCH))) and not (unless and unless.done()):
            start_s = loop.time()
            self._told = set(batch)
            self._all_back.clear()
            for follower in batch:
                follower.wake(nothing)
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_BATCH_S):  # slow readers delay nobody
                    await self._all_back.wait()
            await asyncio.sleep(min(loop.time() - start_s, MAX_BATCH_S))

    def is_back(self, follower: "_Follower") -> None:
        """A follower has passed its news on, or is gone."""
        self._told.discard(follower)
        if not self._told:
            self._all_back.set()

    def end(self) -> None:
        """No more events are read here."""
        self.ended = True
        for follower in self.followers:
            follower.wake()


class _Follower:
    """A follower of a crawl."""

    def __init__(self, latest: _Latest) -> None:
        self._latest = latest
        self._waiter: asyncio.Future[bool] | None = None  # whether nothing has happened

    @property
    def waits(self) -> bool:
        """Whether it has had all events so far."""
        return self._waiter is not None

    def wake(self, nothing: bool = False) -> None:
        """Let it look again, or pass on a keepalive if `nothing` happens."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(nothing)

    async def behind(self, sequence: int) -> Rows | None:
        """Events after a number as soon as there are any; [] is a keepalive. None: read the store."""
        latest = self._latest
        latest.is_back(self)
        while sequence >= latest.last and not latest.ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                nothing = await self._waiter
            finally:
                self._waiter = None
            if nothing:
                return []
        if not latest.before <= sequence < latest.last:
            return None
        return [row for row in latest.rows if row[0] > sequence]


def _over(view: CrawlView, sequence: int) -> bool:
    """Whether an event is the last one that a follower gets."""
    ended = view.state is CrawlState.FINISHED and (view.torn_down or not view.tearing_down)
    return ended and sequence >= view.last_event
