"""ToeThread: takes a lease, fetches it, finds its links, stores it, and hands it to the reporter.

A toe never calls the frontier, and nothing that happens to one lease ends its thread.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import structlog

from toehold.frontier.v1.frontier_pb2 import PURPOSE_ROBOTS, Report

from .book import Held, LeaseBook, Stage
from .decode import decoded
from .fetch import NOT_MODIFIED, ExtractSettings, Fetch, Fetcher, FetchPolicy, Validators
from .links import MAX_URI_BYTES, Found, Hop, Outlink
from .outcome import Status
from .page import Page
from .report import SERIOUS_ERROR, annotate, failed, fetched, killed, put_off, released
from .visit import Stored, Visit

MAX_ROBOTS_BYTES = 500 * 1024
"""The part of a robots.txt that is reported (RFC 9309 2.5 wants at least so much to be read)."""

MAX_LINK_BYTES = 8 * 1024 * 1024
"""URI bytes of one page's links; those beyond it are left out, and the report says `linksCut`."""

log = structlog.get_logger()


class Step(StrEnum):
    """What a toe thread is doing (Heritrix's ToeThread.Step, S4.8); heartbeats tell it."""

    ABOUT_TO_GET_URI = "ABOUT_TO_GET_URI"
    FETCHING = "FETCHING"
    EXTRACTING = "EXTRACTING"
    WRITING = "WRITING"
    FINISHING = "FINISHING"
    """Handing the page to the reporter, and waiting while that has too much."""


class Store(Protocol):
    """Where fetches are kept."""

    def append(self, visit: Visit) -> Stored:
        """Stores a fetch, whatever became of it; see Archive.append. OSError if it cannot be stored."""
        ...


class Handover(Protocol):
    """Takes the pages that toes are done with."""

    def put(self, page: Page) -> None:
        """Takes a page; waits while there are too many."""
        ...


@dataclass(frozen=True, slots=True)
class Stages:
    """What a toe does to a lease: how it fetches, finds links, and stores."""

    fetcher: Fetcher
    outlinks: Callable[[Fetch, ExtractSettings, str], Found]
    sitemaps: Callable[[bytes], Sequence[str]]
    store: Store


class ToeThread:
    """One toe thread. Made idle; `start` lets it work until it is retired."""

    def __init__(self, serial: int, book: LeaseBook, stages: Stages, handover: Handover) -> None:
        self.serial = serial
        self.step = Step.ABOUT_TO_GET_URI
        self._book = book
        self._stages = stages
        self._handover = handover
        self._retired = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"toe-{serial}", daemon=True)

    def start(self) -> None:
        """Begins to work."""
        self._thread.start()

    def retire(self) -> None:
        """Ends the thread when it has no lease in hand (S4.14), and while it waits for one (D25):
        LeaseBook.resize makes it look."""
        self._retired.set()

    @property
    def retired(self) -> bool:
        """Whether it was told to end."""
        return self._retired.is_set()

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def join(self, timeout_s: float | None = None) -> None:
        """Waits for the thread's end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while (held := self._book.take(self._retired)) is not None:
                self._process(held)
                self.step = Step.ABOUT_TO_GET_URI
        except BaseException:  # S4.11: the thread dies and is told of; the pool replaces it
            log.critical("fatal exception in toe thread", toe=self.serial, exc_info=True)

    def _process(self, held: Held) -> None:
        lease = held.lease
        if held.stage is not Stage.STARTED:  # it had lapsed before it could be started
            self._handover.put(Page(held, released(lease)))
            return
        try:
            page = self._visit(held)
        except MemoryError:  # S4.12
            log.critical("out of memory", toe=self.serial, uri=lease.uri, exc_info=True)
            page = Page(held, failed(lease, SERIOUS_ERROR, self.serial, "outOfMemory"))
        except Exception as error:
            log.error("a URI could not be processed", toe=self.serial, uri=lease.uri, exc_info=True)
            page = self._failed(held, Status.RUNTIME_EXCEPTION, f"{type(error).__name__}:{error}")
        except BaseException:  # S4.13: whatever ends the thread, its lease is handed back
            self._finish(self._failed(held, Status.PROCESSING_THREAD_KILLED, "toeDied"))
            raise
        self._finish(page)

    def _visit(self, held: Held) -> Page:
        if held.policy is None:
            return self._failed(held, Status.RUNTIME_EXCEPTION, "noFetchPolicy")
        fetch = self._fetch(held, held.policy)
        try:
            if fetch.status == Status.PROCESSING_THREAD_KILLED:
                # Interrupted because this node ends, it counts as not tried.
                broken_off = killed if held.killed else put_off
                return Page(held, broken_off(fetched(held.lease, fetch, self.serial)))
            return self._fetched(held, held.policy, fetch)
        finally:
            fetch.close()

    def _fetch(self, held: Held, policy: FetchPolicy) -> Fetch:
        self.step = Step.FETCHING
        fetcher, lease = self._stages.fetcher, held.lease
        if _is_robots(held):
            return fetcher.fetch_robots(lease.uri, policy, held.cancellation)
        last_visit = Validators(lease.etag, lease.last_modified)
        return fetcher.fetch(lease.uri, policy, held.cancellation, last_visit)

    def _fetched(self, held: Held, policy: FetchPolicy, fetch: Fetch) -> Page:
        self.step = Step.EXTRACTING
        if _is_robots(held):
            links, report = self._read_robots(held, fetch)
        else:
            links, report = self._read_page(held, policy, fetch)
        self.step = Step.WRITING
        try:
            stored = self._stages.store.append(Visit(held.lease, fetch, links))
        except OSError:  # what is not stored is not reported; the store tells the log
            return Page(held, put_off(report))
        annotate(report, *stored.notes)
        return Page(held, report, links, stored.epoch)

    def _read_page(self, held: Held, policy: FetchPolicy, fetch: Fetch) -> tuple[Sequence[Outlink], Report]:
        if not 200 <= fetch.status < 400 or fetch.status == NOT_MODIFIED:
            return (), fetched(held.lease, fetch, self.serial)
        found = self._stages.outlinks(fetch, policy.extract, policy.product_token)
        links, notes = found.links, found.notes
        if fetch.redirect_target is not None:
            links = [Outlink(fetch.redirect_target, Hop.REDIRECT, "Location"), *links]
        kept = _first_bytes(links, MAX_LINK_BYTES)
        if len(kept) < len(links):
            notes = (*notes, "linksCut")
        return kept, fetched(held.lease, fetch, self.serial, notes=notes)

    def _read_robots(self, held: Held, fetch: Fetch) -> tuple[Sequence[Outlink], Report]:
        lease = held.lease
        if not 200 <= fetch.status < 300:
            return (), fetched(lease, fetch, self.serial)
        body = decoded(fetch.body, fetch.content_encoding, MAX_ROBOTS_BYTES)
        if body is None:
            return (), fetched(lease, fetch, self.serial, notes=("unknownCoding",))
        links = [Outlink(uri, Hop.SITEMAP, "Sitemap") for uri in self._stages.sitemaps(body)]
        return links, fetched(lease, fetch, self.serial, robots_body=body)

    def _failed(self, held: Held, status: Status, *notes: str) -> Page:
        return Page(held, failed(held.lease, status, self.serial, *notes))

    def _finish(self, page: Page) -> None:
        self.step = Step.FINISHING
        try:
            self._handover.put(page)
        finally:
            self._book.done(page.held)


def _is_robots(held: Held) -> bool:
    return held.lease.purpose == PURPOSE_ROBOTS


def _first_bytes(links: Sequence[Outlink], limit: int) -> Sequence[Outlink]:
    if len(links) * MAX_URI_BYTES <= limit:  # as nearly always
        return links
    for number, link in enumerate(links):
        limit -= len(link.uri)
        if limit < 0:
            return links[:number]
    return links
