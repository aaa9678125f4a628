"""Looks at a crawl whenever it is asked to, and hears of the crawl's events in between.

It outlives the frontier: while that does not answer, there is to see what was seen last.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Event, Statistics
from toehold_client.awaiting import ENDED
from toehold_client.cli.text import duration_text
from toehold_client.controller import CrawlController
from toehold_client.errors import CursorTooOld, DeadlineExceeded, FrontierUnavailable, ToeholdError
from toehold_client.listening import Listener
from toehold_client.spec.plain import seconds_of

from .look import Look, is_problem, seconds_until

MOST_PROBLEMS = 50
_AWAY = (FrontierUnavailable, DeadlineExceeded)
_TELLING = frozenset(("status_changed", "held", "released", "torn_down"))


class Observer:
    """The watch over one crawl, in one thread. `on_news`, if given, is called in another one when an event
    has come after which one would look again.
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
        # What events bring:
        self._lock = threading.Lock()
        self._updated = False  # its spec
        self._status = CrawlStatus()  # the latest that was told
        self._problems: deque[Event] = deque(maxlen=MOST_PROBLEMS)

    def close(self) -> None:
        """Hears of no more events."""
        if self._listener is not None:
            with contextlib.suppress(ToeholdError):  # what it missed nobody wants to know any more
                self._listener.close()

    def look(self) -> Look:
        """The crawl now, or, while the frontier does not answer, as it was seen last.

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
        """Hears of all events that are kept, up to now."""
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
        """Why nothing is fetched now, if the frontier names a reason."""
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
        # A frontier may leave with its crawl's end, before the crawl is looked at again.
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
        """Hears events from the first that is kept, and goes on there when the frontier was away for long."""
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
