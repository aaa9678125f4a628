"""Watches: each looks at one crawl, in the name of one token, for all browsers that show it.

A thread looks, as often as `toehold watch` does, and hears the crawl's events. Browsers get each look. A
watch ends some seconds after the last browser has left.
"""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.credentials import Credentials
from toehold_client.errors import ClientClosed, CursorTooOld, ToeholdError
from toehold_client.events import Event
from toehold_client.watching.look import Look
from toehold_client.watching.observer import AWAY, Observer

from . import shown
from .contract import Refusal
from .course import Course, Point
from .failure_report import FailureReport

LOOK_S = 1.0
LINGER_S = 10.0
CALL_S = 10.0
MOST_WATCHES = 100
MOST_TOLD = 300
"""So many of the latest events a browser gets at first."""
MOST_ACTS = 200
MOST_BEHIND = 50
"""A browser that is so many looks behind is left out until it reads again."""

_REPLACED = {"away": ("refused",), "refused": ("away", "look", "course"), "look": ("away", "refused")}
"""The kinds of news that are no longer true after others."""

News = tuple[str, str]
"""The kind of a server-sent event, and its data."""


class CrawlObserver(Observer):
    """Looks at a crawl, and keeps what a page shows of its events."""

    def __init__(self, crawl: CrawlController, on_news: Callable[[], None]) -> None:
        super().__init__(crawl, on_news)
        self.course = Course()
        self.acts: deque[Event] = deque(maxlen=MOST_ACTS)
        self.told: deque[Event] = deque(maxlen=MOST_TOLD)
        self.fresh: deque[Event] = deque(maxlen=MOST_TOLD)
        self.course_is_new = False

    def note(self, event: Event) -> None:
        """Keeps an event; in the listener's thread, under the observer's lock."""
        self.course_is_new |= self.course.record_event(event)
        if event.kind == "operator_acted":
            self.acts.append(event)
        self.told.append(event)
        self.fresh.append(event)

    def taken(self, look: Look) -> tuple[list[Event], list[Point]]:
        """The events since the last time, and the course, if it has changed."""
        with self._lock:
            fresh = list(self.fresh)
            self.fresh.clear()
            seen = not look.away and self.course.record_look(look.crawl, look.status, look.statistics)
            changed = self.course_is_new | seen
            self.course_is_new = False
            return fresh, self.course.points if changed else []


class Watch:
    """Looks at a crawl until it is ended."""

    def __init__(self, address: str, credentials: Credentials, crawl: str) -> None:
        self._client = FrontierClient(address, timeout_s=CALL_S, credentials=credentials)
        self.crawl = CrawlController(self._client, crawl)
        self.failures = FailureReport(self.crawl)
        """Why URIs failed. Another one after a refusal, like the observer."""
        self._news = threading.Event()
        self._stop = threading.Event()
        self._observer = CrawlObserver(self.crawl, self._news.set)
        self._loop = asyncio.get_running_loop()
        self._readers: set[asyncio.Queue[News]] = set()
        self._latest: dict[str, str] = {}
        self.users = 0
        """So many browsers and questions use it."""
        self._thread = threading.Thread(target=self._run, name=f"watch {crawl}", daemon=True)
        self._thread.start()

    @property
    def acts(self) -> list[Event]:
        """The latest requests of operators, the latest last."""
        return list(self._observer.acts)

    async def news(self) -> AsyncGenerator[News, None]:
        """The latest news, then each as it comes."""
        queue: asyncio.Queue[News] = asyncio.Queue(MOST_BEHIND)
        self._readers.add(queue)
        try:
            if self._observer.told:
                yield "told", json.dumps([shown.event(event) for event in list(self._observer.told)])
            for kind, data in list(self._latest.items()):
                yield kind, data
            while True:
                yield await queue.get()
        finally:
            self._readers.discard(queue)

    async def end(self) -> None:
        """Ends the thread, and all calls."""
        self._stop.set()
        self._news.set()
        await asyncio.to_thread(self._client.close)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._news.clear()
                self._look()
                self._news.wait(LOOK_S)
                if not self._stop.is_set():
                    self._stop.wait(LOOK_S / 4)  # several events make one look
        except ClientClosed:
            return
        finally:
            self._observer.close()

    def _look(self) -> None:
        try:
            look = self._observer.look()
        except CursorTooOld:
            return  # it listens again from the first that is kept
        except ClientClosed:
            raise
        except AWAY as error:  # it has never answered
            self._tell("away", {"error": str(error)})
            return
        except ToeholdError as error:
            self._forget()
            self._tell("refused", {"error": str(error), "reason": error.reason})
            return
        fresh, points = self._observer.taken(look)
        if points:
            self._tell("course", shown.course(points))
        self._tell("look", shown.look(look, self.acts))
        if fresh:
            self._tell("happened", [shown.event(event) for event in fresh])

    def _forget(self) -> None:
        """Forgets what was seen: the caller may not see it any more, or another crawl gets this name."""
        self._observer.close()
        self._observer = CrawlObserver(self.crawl, self._news.set)
        self.failures = FailureReport(self.crawl)

    def _tell(self, kind: str, content: Any) -> None:
        data = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        if not self._stop.is_set():
            self._loop.call_soon_threadsafe(self._publish, kind, data)

    def _publish(self, kind: str, data: str) -> None:
        if kind != "happened":
            self._latest[kind] = data
            for other in _REPLACED.get(kind, ()):
                self._latest.pop(other, None)
        for queue in self._readers:
            if not queue.full():
                queue.put_nowait((kind, data))


class Watches:
    """The watches of a console, by crawl and token."""

    def __init__(self, address: str, credentials_of: Callable[[str], Credentials]) -> None:
        self._address = address
        self._credentials_of = credentials_of
        self._watches: dict[tuple[str, str], Watch] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self._lingering: dict[tuple[str, str], asyncio.TimerHandle] = {}

    def has(self, crawl: str, token: str) -> bool:
        """Whether there is a watch of a crawl for a token."""
        return (crawl, token) in self._watches

    @contextmanager
    def used(self, crawl: str, token: str) -> Iterator[Watch]:
        """The watch of a crawl for a token; begins one if there is none. It ends soon after its last use.

        Refusal if there are too many.
        """
        key = (crawl, token)
        self.check_room(crawl, token)
        timer = self._lingering.pop(key, None)
        if timer is not None:
            timer.cancel()
        watch = self._watches.get(key)
        if watch is None:
            if len(self._watches) >= MOST_WATCHES:
                self._end(next(iter(self._lingering)))  # the one that nobody has used for the longest time
            watch = self._watches[key] = Watch(self._address, self._credentials_of(token), crawl)
        watch.users += 1
        try:
            yield watch
        finally:
            watch.users -= 1
            if not watch.users and self._watches.get(key) is watch:
                self._lingering[key] = asyncio.get_running_loop().call_later(LINGER_S, self._end, key)

    async def close(self) -> None:
        """Ends all, and begins no other."""
        self._closed = True
        for timer in self._lingering.values():
            timer.cancel()
        self._lingering.clear()
        watches, self._watches = list(self._watches.values()), {}
        await asyncio.gather(*(watch.end() for watch in watches), *self._ending)

    def check_room(self, crawl: str, token: str) -> None:
        """Raise Refusal if there are too many watches for another one. Those that nobody uses make room."""
        if self._closed:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "the console is ending", "CONSOLE_ENDING")
        if len(self._watches) >= MOST_WATCHES and not self._lingering and not self.has(crawl, token):
            raise Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "too many crawls are being watched here; close a page, or start another console",
                "CONSOLE_FULL",
            )

    def _end(self, key: tuple[str, str]) -> None:
        """Ends a watch that nobody uses."""
        self._lingering.pop(key).cancel()
        task = asyncio.get_running_loop().create_task(self._watches.pop(key).end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
