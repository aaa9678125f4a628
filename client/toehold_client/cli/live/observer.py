"""Looks at a crawl: the observer that takes them, and the thread that takes one after another."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Event, Statistics
from toehold_client.awaiting import ENDED
from toehold_client.cli.interruptions import Bell
from toehold_client.cli.text import duration_text
from toehold_client.controller import CrawlController
from toehold_client.errors import (
    ClientClosed,
    CursorTooOld,
    DeadlineExceeded,
    FrontierUnavailable,
    ToeholdError,
)
from toehold_client.listening import Listener
from toehold_client.spec.plain import seconds_of

from .look import Look, is_problem, seconds_until

MOST_PROBLEMS = 50
_AWAY = (FrontierUnavailable, DeadlineExceeded)
_TELLING = frozenset(("status_changed", "held", "released", "torn_down"))


class Observer:
    """Looks at a crawl whenever it is asked to, in one thread. While the frontier does not answer, it gives
    what it saw last.

    `on_news`, if given, is called in another thread when an event calls for another look.
    """

    def __init__(
        self,
        crawl: CrawlController,
        on_news: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = crawl
        self._on_news = on_news
        self._clock = clock
        self._described: Crawl | None = None
        self._seen: Look | None = None
        self._away_since_s: float | None = None
        self._listener: Listener | None = None
        # From events:
        self._lock = threading.Lock()
        self._updated = False  # its spec
        self._status = CrawlStatus()  # the latest that was told
        self._problems: deque[Event] = deque(maxlen=MOST_PROBLEMS)

    def close(self) -> None:
        """Stops listening to events."""
        if self._listener is not None:
            with contextlib.suppress(ToeholdError):  # missed events don't matter any more
                self._listener.close()

    def look(self) -> Look:
        """The crawl now, or the last look while the frontier does not answer.

        UnknownCrawl. FrontierUnavailable or DeadlineExceeded if the frontier has never answered.
        """
        try:
            self._seen = self._ask()
            if self._on_news is not None:
                self._listen()
        except _AWAY as error:
            if self._seen is None:
                raise
            return self._seen_last(self._seen, str(error))
        self._away_since_s = None
        return self._seen

    def catch_up(self) -> None:
        """Reads all kept events, up to now."""
        for event in self._controller.events("start"):
            self._hear(event)

    def _ask(self) -> Look:
        frontier, name = self._controller.frontier, self._controller.crawl
        with self._lock:
            if self._updated:
                self._described, self._updated = None, False
        if self._described is None:
            self._described = self._controller.describe()
        answer, server = self._controller.statistics(), frontier.get_frontier()
        return Look(
            address=frontier.address,
            crawl=self._described,
            status=answer.status,
            statistics=answer.statistics,
            why=answer.statistics.limited_by or self._explained(answer.statistics),
            lease_s=seconds_of(server.lease_duration),
            nodes=list(server.nodes),
            jobs=[job for job in frontier.list_jobs(name) if job.state not in ENDED],
            slowest=frontier.slowest_queues(name),
            largest=frontier.largest_queues(name),
            problems=self._problems_heard(),
        )

    def _explained(self, statistics: Statistics) -> str:
        """The frontier's reason why nothing is being fetched now, if there is one."""
        for reason in self._controller.frontier.explain(self._controller.crawl):
            if not reason.HasField("until_time"):
                return reason.message
            return f"{reason.message} (in {duration_text(seconds_until(statistics, reason.until_time))})"
        return ""

    def _seen_last(self, seen: Look, error: str) -> Look:
        now_s = self._clock()
        if self._away_since_s is None:
            self._away_since_s = now_s
        with self._lock:
            told = self._status
        # A frontier may end with its crawl, before the next look.
        later = told.reach_time.ToNanoseconds() >= seen.status.reach_time.ToNanoseconds()
        return replace(
            seen,
            status=told if later else seen.status,
            problems=self._problems_heard(),
            away=error,
            away_s=now_s - self._away_since_s,
        )

    def _problems_heard(self) -> list[Event]:
        with self._lock:
            return list(self._problems)

    def _listen(self) -> None:
        """Listens to events from the first that is kept, and again after a long absence of the frontier."""
        cursor = "start"
        if self._listener is not None:
            cursor = self._listener.cursor
            try:
                if not self._listener.join(0):
                    return
            except CursorTooOld:
                cursor = "start"
            except _AWAY:
                pass  # it is back
        self._listener = self._controller.listen(self._hear, cursor)

    def _hear(self, event: Event) -> None:
        kind, problem = event.WhichOneof("kind"), is_problem(event)
        with self._lock:
            if kind == "status_changed":
                self._status = event.status_changed
            elif kind == "torn_down":
                told = CrawlStatus()
                told.CopyFrom(self._status)
                told.torn_down = True
                self._status = told
            elif kind == "operator_acted" and event.operator_acted.action == "update":
                self._updated = True
            if problem:
                self._problems.append(event)
        if (problem or kind in _TELLING) and self._on_news is not None:
            self._on_news()


class Looks:
    """Looks at a crawl from a thread of its own: every `interval_s`, and at once when an event calls for it,
    until the crawl's end. The bell rings for each look. The next look waits until the last one was taken, so
    none is missed, and the frontier has no work for looks that nobody sees.

    The main thread does not call the frontier, so it reacts to signals at once, and no signal interrupts a
    call. A context; at its end it closes the controller's client, which ends all waits.
    """

    def __init__(self, crawl: CrawlController, interval_s: float, bell: Bell) -> None:
        self._crawl = crawl
        self._interval_s = interval_s
        self._bell = bell
        self._news = threading.Event()
        self._taken = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._latest: Look | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="toehold-looks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._taken.set()
        self._news.set()
        self._crawl.frontier.close()
        self._thread.join()

    def take(self) -> Look | None:
        """The latest look, unless it has been taken. Raises the errors of Observer.look."""
        with self._lock:
            look, self._latest = self._latest, None
            if self._error is not None:
                raise self._error
        if look is not None:
            self._taken.set()
        return look

    def _run(self) -> None:
        observer = Observer(self._crawl, self._news.set)
        due_s = -math.inf
        try:
            while True:
                self._news.clear()  # before the look: what comes meanwhile may not be in it
                self._taken.clear()
                if self._stop.is_set():  # asked after both are cleared: an end sets them
                    return
                now_s = time.monotonic()
                due = now_s >= due_s
                if due:
                    due_s = now_s + self._interval_s
                look = replace(observer.look(), due=due)
                with self._lock:
                    self._latest = look
                self._bell.ring()
                if look.ended:
                    return
                self._taken.wait()
                self._news.wait(max(0.0, due_s - time.monotonic()))
        except ClientClosed:
            return  # the context has ended
        except BaseException as error:  # whatever it is, `take` raises it
            with self._lock:
                self._error = error
            self._bell.ring()
        finally:
            observer.close()
