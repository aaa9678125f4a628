"""Looks from another process at the crawl in a directory, whose frontier comes and goes with each run of
`toehold crawl`.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, ExitStatus, Statistics
from toehold_cli import frontier_file
from toehold_cli.frontier_file import EmbeddedFrontier
from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.errors import ClientClosed, UnknownCrawl
from toehold_client.watching.crawl_directory import crawl_file_of, crawl_logs_of, last_report
from toehold_client.watching.look import Look
from toehold_client.watching.observer import AWAY, Observer

_CALL_S = 10.0
_PAUSED = CrawlStatus(state=CrawlState.CRAWL_STATE_PAUSED, exit_status=ExitStatus.EXIT_STATUS_PAUSED)


class OutsideObserver:
    """Looks at the crawl in a directory. While no frontier runs there, the crawl is paused, or has finished:
    then it gives what it saw last, or what the report of the last run says.

    `name` chooses a crawl of the directory's frontier; by default it is the one that the directory is for.
    """

    def __init__(self, directory: Path, name: str | None, on_news: Callable[[], None]) -> None:
        self._directory = directory
        self._name = name
        self._on_news = on_news
        self._found: EmbeddedFrontier | None = None
        self._observer: Observer | None = None
        self._seen: Look | None = None
        self._lock = threading.Lock()
        self._over = False

    def look(self) -> Look:
        """The crawl now.

        InvalidArgument if there is no such directory, FrontierUnavailable if it holds no crawl, and
        UnknownCrawl if its frontier has none of this name.
        """
        self._check_goes_on()
        try:
            observer = self._at(frontier_file.find(self._directory))
            seen = observer.look()
        except AWAY as error:
            return self._without_frontier(error)
        except UnknownCrawl as error:
            if self._name:
                raise
            return self._without_frontier(error)  # it is about to be created
        self._seen = seen
        return seen

    def close(self) -> None:
        """Stops listening to events."""
        if self._observer is not None:
            self._observer.close()

    def end(self) -> None:
        """From another thread: ends all waits. A look raises ClientClosed from there on."""
        with self._lock:
            self._over = True
            if self._observer is not None:
                self._observer.end()

    def _at(self, found: EmbeddedFrontier) -> Observer:
        """The observer of this frontier. Each run of the crawl has another."""
        if self._observer is not None and found == self._found:
            return self._observer
        if self._observer is not None:
            self._observer.end()
            self._observer.close()
        crawl = self._name or found.crawl
        logs = crawl_logs_of(self._directory, crawl)
        with self._lock:
            self._check_goes_on()
            controller = CrawlController(FrontierClient(found.address, timeout_s=_CALL_S), crawl)
            self._found, self._observer = found, Observer(controller, self._on_news, logs=logs)
            return self._observer

    def _check_goes_on(self) -> None:
        if self._over:
            raise ClientClosed("the watch has ended")

    def _without_frontier(self, error: Exception) -> Look:
        if not crawl_file_of(self._directory).is_file():
            raise error
        report = last_report(self._directory)
        seen = self._seen or _reported(report, self._directory, self._name)
        if report.get("state") == "FINISHED":
            return replace(seen, status=_end(report), why="", away="", away_s=0.0)
        status = seen.status if seen.status.state == _PAUSED.state else _PAUSED
        return replace(
            seen, status=status, why="", away="", away_s=0.0, waiting_in=str(self._directory), nodes=()
        )


def _end(report: Mapping[str, Any]) -> CrawlStatus:
    end = f"EXIT_STATUS_{report.get('exit_status')}"
    known = ExitStatus.Value(end) if end in dict(ExitStatus.items()) else ExitStatus.EXIT_STATUS_UNSPECIFIED
    failure = str(report.get("failure") or "")
    return CrawlStatus(state=CrawlState.CRAWL_STATE_FINISHED, exit_status=known, failure=failure)


def _reported(report: Mapping[str, Any], directory: Path, name: str | None) -> Look:
    """All that the report of the last run says of a crawl; nothing if there was no run to its end."""
    dispositions = report.get("dispositions", {})
    statistics = Statistics(
        succeeded_count=report.get("pages", 0),
        failed_count=dispositions.get("FAILED", 0),
        disregarded_count=dispositions.get("DISREGARDED", 0),
        bytes_count=report.get("bytes", 0),
        queued_count=report.get("queued", 0),
        discovered_count=report.get("discovered", 0),
        fetch_status_counts={int(code): n for code, n in report.get("fetch_statuses", {}).items()},
    )
    statistics.elapsed_duration.FromMilliseconds(round(report.get("duration_seconds", 0) * 1000))
    crawl = Crawl(crawl=name or report.get("crawl", "") or directory.name)
    return Look(str(directory), crawl, CrawlStatus(), statistics, "")
