"""Brings events to the job logs: those of a flush are written before anybody hears of them."""

import time
from collections.abc import Callable
from typing import NamedTuple

from .core.crawl import Crawl
from .core.errors import CursorTooOld
from .core.frontier import Frontier
from .core.operators.views import events_after
from .core.records import EventRow
from .job_log import JobLogs, launch_id_of

RETRY_S = 5.0  # a log that cannot be written is tried again


class News(NamedTuple):
    """Events of a crawl that are not in its log."""

    crawl: str
    launch_id: str
    rows: list[tuple[int, EventRow]]


class JobFeed:
    """Feeds the job logs of a frontier's crawls. `collect` on the loop, `write` in any thread."""

    def __init__(
        self, logs: JobLogs, frontier: Frontier, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.logs = logs
        self._frontier = frontier
        self._clock_s = clock_s
        self._retry_s = 0.0

    def catch_up(self) -> None:
        """Write what a crash has kept from the logs; before anybody is served."""
        registry = self._frontier.registry
        for name in registry.names_after("", len(registry)):
            self.write(self._news_of(registry.named(name)))

    @property
    def overdue(self) -> bool:
        """Whether it is time to try again what could not be written."""
        return bool(self.logs.behind()) and self._clock_s() >= self._retry_s

    def collect(self) -> list[News]:
        """What has happened since the last call, and what could not be written a while ago."""
        crawls = {crawl.name: crawl for crawl in self._frontier.take_news() if not crawl.state_row.deleted}
        if self.overdue:
            self._retry_s = self._clock_s() + RETRY_S
            registry = self._frontier.registry
            crawls |= {name: registry.named(name) for name in self.logs.behind() if name in registry}
        return [news for crawl in crawls.values() for news in self._news_of(crawl)]

    def write(self, found: list[News]) -> None:
        """Write it. Whatever the disk does, this returns."""
        for news in found:
            self.logs.append(news.crawl, news.launch_id, news.rows)

    def _news_of(self, crawl: Crawl) -> list[News]:
        last = crawl.counters.next_event - 1
        position = self.logs.position(crawl.name, last)
        launch_id = launch_id_of(crawl.state_row.launch_ms)
        found = []
        while position < last:
            try:
                rows = events_after(self._frontier.store, crawl, position)
            except CursorTooOld as gap:
                position = int(gap.metadata["oldest"]) - 1
                continue
            found.append(News(crawl.name, launch_id, rows))
            position = rows[-1][0]
        return found
