"""Events for those who follow a crawl: read once each time something happens, however many follow.

Each reads what has happened before from the store, by itself, and then waits with all others
for what comes: one task a crawl reads it, and wakes them in batches, with others in between; also
while nothing happens, as thousands of timers would all go off at once.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from .core.core import Core
from .core.errors import FrontierError
from .core.machines.lifecycle import CrawlState
from .core.model import CrawlView
from .core.records import EventRow
from .runner import Runner
from .tasks import Closing

HEARTBEAT_S = 10.0
LATEST = 200  # events that are kept for those who are a little behind
BATCH, MAX_BATCH_S = 100, 0.01  # followers who are told at once; then others have as long as that took

Rows = list[tuple[int, EventRow]]


class Following:
    """Those who follow the crawls of a frontier."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._latest: dict[int, _Latest] = {}  # by crawl

    async def events(self, crawl: str, sequence: int) -> AsyncIterator[tuple[int, EventRow] | None]:
        """Events behind a sequence number as they become durable; None while nothing happens.

        Ends after the event of FINISHED, or after the last one of a crawl that is being torn
        down. Raises UnknownCrawl, CursorTooOld, and Closing when the server shuts down.
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
            with self._followed(view, sequence) as follower:
                while (news := await follower.behind(sequence)) is not None:
                    for row in news:
                        yield row
                        sequence = row[0]
                    if not news:
                        yield None

    async def _read(self, crawl: str, number: int, sequence: int) -> tuple[Rows, CrawlView]:
        """Some events behind one, and the crawl as it was then."""

        def question(core: Core, _: int) -> tuple[Rows, CrawlView]:
            view = core.views.crawl(crawl, number)
            return core.history.events_after(crawl, sequence), view

        return await self._runner.read(question)

    @contextmanager
    def _followed(self, view: CrawlView, sequence: int) -> "Iterator[_Follower]":
        """Somebody who follows a crawl, whose latest events are read as long as there are any such."""
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
        """Read what happens, for all. When this ends, for whatever reason, each looks for himself again."""
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
            return  # each hears of it by himself
        finally:
            del self._latest[crawl.number]
            latest.end()


class _Latest:
    """The latest events of a crawl, and those who follow it."""

    def __init__(self, sequence: int) -> None:
        self.followers: set[_Follower] = set()
        self.rows: deque[tuple[int, EventRow]] = deque(maxlen=LATEST)
        self.before = self.last = sequence  # the events that come before and last, of these
        self.ended = False
        self._told: set[_Follower] = set()  # of the present batch
        self._all_back = asyncio.Event()

    async def add(self, rows: Rows) -> None:
        """There is more: tell all."""
        for row in rows:
            if len(self.rows) == LATEST:
                self.before = self.rows[0][0]
            self.rows.append(row)
        self.last = rows[-1][0]
        await self._tell()

    async def tell_that_nothing_happens(self, happened: asyncio.Future[None]) -> None:
        """Give all a sign of life, unless something has happened after all."""
        await self._tell(happened)

    async def _tell(self, unless: asyncio.Future[None] | None = None) -> None:
        """Wake all, a batch as soon as the one before has passed it on. `unless` is for signs of life: once
        it is done, those who are left will be told more than that."""
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
                async with asyncio.timeout(MAX_BATCH_S):  # nobody waits for those who do not read
                    await self._all_back.wait()
            await asyncio.sleep(min(loop.time() - start_s, MAX_BATCH_S))

    def is_back(self, follower: "_Follower") -> None:
        """A follower has passed on what it was told, or is gone."""
        self._told.discard(follower)
        if not self._told:
            self._all_back.set()

    def end(self) -> None:
        """Nothing more is read here."""
        self.ended = True
        for follower in self.followers:
            follower.wake()


class _Follower:
    """One who follows a crawl."""

    def __init__(self, latest: _Latest) -> None:
        self._latest = latest
        self._waiter: asyncio.Future[bool] | None = None  # whether nothing has happened

    @property
    def waits(self) -> bool:
        """Whether it has had all there was."""
        return self._waiter is not None

    def wake(self, nothing: bool = False) -> None:
        """Let it look again, or pass on that nothing happens."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(nothing)

    async def behind(self, sequence: int) -> Rows | None:
        """Events behind one as soon as there are some, [] while nothing happens. None: read for yourself."""
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
    """Whether nothing will happen behind an event any more."""
    ended = view.state is CrawlState.FINISHED and (view.torn_down or not view.tearing_down)
    return ended and sequence >= view.last_event
