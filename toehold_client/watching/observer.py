"""Looks at a crawl: the observer that takes them, and the thread that takes one after another."""

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Protocol, Self

from toehold.frontier.v1.admin_pb2 import Crawl, GetFrontierResponse, SeedResult
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Statistics
from toehold_client import errors
from toehold_client.controller import CrawlController
from toehold_client.events import Event
from toehold_client.listener import Listener
from toehold_client.spec.plain import seconds_of
from toehold_client.text import duration_text
from toehold_client.waits import ENDED
from toehold_client.watching.interruptions import Bell

from .crawl_log import last_pages_of
from .history import History
from .look import Look, is_problem, seconds_until
from .seeds import MOST_SEEDS, Seeds

MOST_PROBLEMS = 50

SEEDS_S = 10.0
"""How long a look shows the same seeds, if there are many to list."""

FEW_SEEDS = 50
"""So many seeds are listed at each look, until none is pending."""

_MOST_PAGES = 12
_AWAY_LOOK_S = 1.0
AWAY = (errors.FrontierUnavailable, errors.DeadlineExceeded, errors.Overloaded)
"""The errors of a frontier that does not answer, or only says what it waits for."""

FINISHED = CrawlState.CRAWL_STATE_FINISHED
_DESCRIBING = frozenset(("update", "add-seeds", "reopen"))
"""Requests after which the crawl's description is another one."""
_TELLING = frozenset(("status_changed", "held", "released", "torn_down"))


class Beat:
    """Says when a look is due: every `interval_s`, the first at once."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._due_s = -math.inf

    @property
    def left_s(self) -> float:
        """How long it is until the next."""
        return max(0.0, self._due_s - self._clock())

    def is_due(self) -> bool:
        """Whether one is due now. Then the next is due an interval later."""
        now_s = self._clock()
        due = now_s >= self._due_s
        if due:
            self._due_s = now_s + self._interval_s
        return due


class Observing(Protocol):
    """Looks at a crawl, in one thread."""

    def look(self) -> Look:
        """The crawl now."""

    def close(self) -> None:
        """Stops listening to events."""

    def end(self) -> None:
        """From another thread: ends all waits. A look raises ClientClosed from there on."""


class Observer:
    """Looks at a crawl whenever it is asked to, in one thread. While the frontier does not answer, it gives
    what it saw last.

    `on_news`, if given, is called in another thread when an event calls for another look. `logs` are the
    crawl logs, if they are on this machine.
    """

    def __init__(
        self,
        crawl: CrawlController,
        on_news: Callable[[], None] | None = None,
        *,
        logs: Sequence[Path] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = crawl
        self._on_news = on_news
        self._logs = logs
        self._clock = clock
        self._described: Crawl | None = None
        self._seen: Look | None = None
        self._sees_nodes = True
        self._seeds = Seeds()
        self._seeds_beat = Beat(SEEDS_S, clock)
        self._away_since_s: float | None = None
        self._listener: Listener | None = None
        # From events:
        self._lock = threading.Lock()
        self._heard = 0  # the number of the last
        self._updated = False  # its spec
        self._status = CrawlStatus()  # the latest that was told
        self._problems: deque[Event] = deque(maxlen=MOST_PROBLEMS)
        self._history = History()

    def close(self) -> None:
        """Stops listening to events."""
        if self._listener is not None:
            with contextlib.suppress(errors.ToeholdError):  # missed events don't matter any more
                self._listener.close()

    def end(self) -> None:
        """From another thread: closes the client, which ends all waits."""
        self._controller.frontier.close()

    def look(self) -> Look:
        """The crawl now, or the last look while the frontier does not answer.

        UnknownCrawl. FrontierUnavailable or DeadlineExceeded if the frontier has never answered.
        """
        try:
            self._seen = self._ask()
            if self._on_news is not None:
                self._listen()
        except AWAY as error:
            if self._seen is None:
                raise
            return self._seen_last(self._seen, str(error))
        self._away_since_s = None
        return self._seen

    def catch_up(self) -> None:
        """Reads all kept events, up to now."""
        for event in self._controller.events("start"):
            self.hear(event)

    def note(self, event: Event) -> None:
        """Each event comes here once, in order. For others who want to hear them."""

    def _ask(self) -> Look:
        frontier, name = self._controller.frontier, self._controller.crawl
        with self._lock:
            if self._updated:
                self._described, self._updated = None, False
        if self._described is None:
            self._described = self._controller.describe()
        answer, server = self._controller.statistics(), self._server()
        with self._lock:
            at_s = answer.statistics.snapshot_time.ToNanoseconds() / 1e9
            self._history.record_total(at_s, answer.statistics.succeeded_count)
            history = self._history.rates()
        return Look(
            address=frontier.address,
            crawl=self._described,
            status=answer.status,
            statistics=answer.statistics,
            why=answer.statistics.limited_by or self._explained(answer.statistics),
            lease_s=seconds_of(server.lease_duration),
            sees_nodes=self._sees_nodes,
            history=history,
            seeds=self._asked_seeds(answer.status),
            nodes=list(server.nodes),
            shards=list(server.shards),
            jobs=[job for job in frontier.list_jobs(name) if job.state not in ENDED],
            slowest=frontier.slowest_queues(name),
            largest=frontier.largest_queues(name),
            problems=self._problems_heard(),
            pages=last_pages_of(self._logs, _MOST_PAGES) if self._logs else [],
        )

    def _server(self) -> GetFrontierResponse:
        """The frontier and its nodes; nothing if the caller may not see them."""
        if self._sees_nodes:
            try:
                return self._controller.frontier.get_frontier()
            except errors.PermissionDenied:
                self._sees_nodes = False
        return GetFrontierResponse()

    def _asked_seeds(self, status: CrawlStatus) -> Seeds:
        """The seeds, as they were `SEEDS_S` ago at most; as they are if there are few of them, and when the
        crawl has just ended.
        """
        ended = status.state == FINISHED and (self._seen is None or self._seen.status.state != FINISHED)
        pending = self._seeds.counts.get(SeedResult.SEED_RESULT_PENDING, 0)
        few = pending > 0 and sum(self._seeds.counts.values()) <= FEW_SEEDS
        if self._seeds_beat.is_due() or few or ended:
            listed = self._controller.frontier.list_seeds(self._controller.crawl)
            self._seeds = Seeds.of(islice(listed, MOST_SEEDS))
        return self._seeds

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
            status = self._status
        # A frontier may end with its crawl, before the next look.
        later = status.reach_time.ToNanoseconds() >= seen.status.reach_time.ToNanoseconds()
        return replace(
            seen,
            status=status if later else seen.status,
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
            except errors.CursorTooOld:
                cursor = "start"
            except AWAY:
                pass  # it is back
        self._listener = self._controller.listen(self.hear, cursor)

    def hear(self, event: Event) -> None:
        """Notes an event, in any thread. An event that comes again is ignored."""
        kind, problem = event.WhichOneof("kind"), is_problem(event)
        with self._lock:
            if event.sequence <= self._heard:
                return
            self._heard = event.sequence
            self.note(event)
            if kind == "status_changed":
                self._status = event.message.status_changed
            elif kind == "torn_down":
                status = CrawlStatus()
                status.CopyFrom(self._status)
                status.torn_down = True
                self._status = status
            elif kind == "operator_acted" and event.operator_acted.action in _DESCRIBING:
                self._updated = True
            elif kind == "statistics":
                told_s = event.event_time.ToNanoseconds() / 1e9
                interval = event.statistics
                length_s = seconds_of(interval.interval_duration)
                self._history.record_interval(told_s, length_s, interval.succeeded_count)
            if problem:
                self._problems.append(event)
        if (problem or kind in _TELLING) and self._on_news is not None:
            self._on_news()


class Looks:
    """Looks at a crawl from a thread of its own: every `interval_s`, and at once when an event calls for it,
    until the crawl's end. The bell rings for each look. The next look waits until the last one was taken, so
    none is missed, and the frontier has no work for looks that nobody sees.

    `observing` makes the observer, given what it is to call when an event calls for another look.

    The main thread does not call the frontier, so it reacts to signals at once, and no signal interrupts a
    call. A context; at its end it ends the observer.
    """

    def __init__(
        self, observing: Callable[[Callable[[], None]], Observing], interval_s: float, bell: Bell
    ) -> None:
        self._beat = Beat(interval_s)
        self._bell = bell
        self._news = threading.Event()
        self._taken = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._latest: Look | None = None
        self._error: BaseException | None = None
        self._observer = observing(self._news.set)
        self._thread = threading.Thread(target=self._run, name="toehold-looks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._taken.set()
        self._news.set()
        self._observer.end()
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
        last: tuple[bool, CrawlStatus] | None = None
        try:
            while True:
                self._news.clear()  # before the look: what comes meanwhile may not be in it
                self._taken.clear()
                if self._stop.is_set():  # asked after both are cleared: an end sets them
                    return
                due = self._beat.is_due()
                look = replace(self._observer.look(), due=due)
                away = bool(look.away or look.waiting_in)
                if due or not away or (away, look.status) != last:  # else it is as it was
                    with self._lock:
                        self._latest = look
                    self._bell.ring()
                    if look.ended:
                        return
                    self._taken.wait()
                last = away, look.status
                # Its return is seen soon, however long the interval is.
                self._news.wait(min(self._beat.left_s, _AWAY_LOOK_S) if away else self._beat.left_s)
        except errors.ClientClosed:
            return  # the context has ended
        except BaseException as error:  # whatever it is, `take` raises it
            with self._lock:
                self._error = error
            self._bell.ring()
        finally:
            self._observer.close()
