"""Writes events to the job logs: when they are durable, and before anybody sees them."""

import time
from collections.abc import Callable

from ..core.core import Core
from ..core.operators.history import events_after
from ..core.rows.errors import CursorTooOld, StoreCorrupt
from ..core.state.crawl import Crawl
from ..shell.runner import News
from .job_log import JobLogs, Synced, launch_id_of

RETRY_S = 5.0  # after a log could not be written


class JobFeed:
    """Feeds the job logs of a frontier's crawls. Call `write` in any thread, the others on the loop.

    Call `note` when the changes of an operation are in the store; `collect` takes only noted events. During
    a write, memory has events that the store does not show yet.
    """

    def __init__(self, logs: JobLogs, core: Core, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.logs = logs
        self._core = core
        self._clock_s = clock_s
        self._retry_s = 0.0
        self._noted: dict[str, tuple[Crawl, int]] = {}  # by name, with the last event in the store

    def catch_up(self) -> None:
        """Write events that the logs lack after a crash. Call it before serving."""
        registry = self._core.shard.registry
        for name in registry.names_after("", len(registry)):
            crawl = registry.named(name)
            self.write(self._news_of(crawl, crawl.counters.next_event - 1))

    def overdue(self) -> bool:
        """Whether it is time to retry logs that could not be written."""
        return bool(self.logs.behind()) and self._clock_s() >= self._retry_s

    def note(self) -> set[str]:
        """Note that all events until now are in the store. Returns the names of their crawls."""
        news = self._core.upkeep.take_news()
        for crawl in news:
            self._noted[crawl.name] = crawl, crawl.counters.next_event - 1
        return {crawl.name for crawl in news}

    def collect(self) -> list[News]:
        """The events noted since the last call, and those that are due for a retry."""
        noted, self._noted = self._noted, {}
        if self.overdue():
            self._retry_s = self._clock_s() + RETRY_S
            registry = self._core.shard.registry
            for name, last in self.logs.behind().items():
                if name in registry:
                    noted.setdefault(name, (registry.named(name), last))
        return [
            news
            for crawl, last in noted.values()
            if not crawl.state_row.deleted
            for news in self._news_of(crawl, last)
        ]

    def write(self, found: list[News]) -> None:
        """Write events. Errors of the disk are logged, not raised."""
        for news in found:
            self.logs.append(news.crawl, news.launch_id, news.rows)

    def _news_of(self, crawl: Crawl, last: int) -> list[News]:
        counters = crawl.counters
        synced = Synced(counters.job_log_event, counters.job_log_bytes)
        position = self.logs.position(crawl.name, last, synced)
        launch_id = launch_id_of(crawl.state_row.launch_ms)
        found = []
        while position < last:
            try:
                rows = events_after(self._core.shard.store, crawl, position)
            except CursorTooOld as gap:
                position = int(gap.metadata["oldest"]) - 1
                continue
            if not rows:
                raise StoreCorrupt(f"crawl {crawl.name}: events {position + 1} to {last} are missing")
            found.append(News(crawl.name, launch_id, rows))
            position = rows[-1][0]
        return found
