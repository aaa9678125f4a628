"""ToeChain: takes a lease stage by stage to a page to report (as Heritrix's processors do).

A chain never calls the frontier. An error at a page becomes the page's outcome; only an error that ends the
thread is raised.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import Protocol

import structlog

from toehold.frontier.v1.frontier_pb2 import PURPOSE_ROBOTS, Report

from ..extraction.links import LOCATION, FoundLinks, Hop, Outlink
from ..fetching.decode import coding_note
from ..fetching.fetch import NOT_MODIFIED, ExtractSettings, Fetcher, FetchPolicy, FetchResult, Validators
from ..fetching.outcome import Status
from ..fetching.robots_file import robots_file
from ..fetching.shared_cookies import CookiesUnavailable
from ..leases.book import HeldLease
from ..leases.report import SERIOUS_ERROR, FinishedPage, annotate, failed, fetched, killed, put_off
from ..memory import MemoryReserve
from ..meter import UNMEASURED, Meter, NodePart, PageStage, Purpose
from ..output.hook import HOOK_FAILED
from ..output.logs import NodeLogs
from ..output.visit import PageVisit, Stored

EXTRACTOR_FAILED = "extractorFailed"

KILLED = "its toe thread was killed"
"""The reason of a lease whose thread was killed."""

log = structlog.get_logger()


class Step(StrEnum):
    """The step that a toe thread is at (Heritrix's ToeThread.Step); heartbeats tell it."""

    ABOUT_TO_GET_URI = "ABOUT_TO_GET_URI"
    FETCHING = "FETCHING"
    EXTRACTING = "EXTRACTING"
    WRITING = "WRITING"
    FINISHING = "FINISHING"
    """Handing the page to the reporter, and waiting while its backlog is full."""


class Killed(Exception):
    """The toe thread was killed while it worked on a lease."""


class Toe(Protocol):
    """The part of a toe thread that a chain needs, which runs in it."""

    @property
    def serial(self) -> int:
        """Its number, for the crawl log."""

    def enter(self, step: Step) -> None:
        """Notes what it is doing now. Raises Killed if it was killed."""


class PageStore(Protocol):
    """Where fetches are kept."""

    @property
    def archives(self) -> bool:
        """See Archive.archives."""

    def append(self, visit: PageVisit) -> Stored:
        """Stores a fetch, whatever its outcome; see Archive.append. Raises OSError if it cannot be stored."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a toe: how it fetches, finds links, and stores."""

    fetcher: Fetcher
    outlinks: Callable[[FetchResult, ExtractSettings, str, bool], FoundLinks]
    sitemaps: Callable[[str, bytes], Sequence[str]]
    store: PageStore
    logs: NodeLogs = field(default_factory=NodeLogs)


class ToeChain:
    """Runs the stages, one after the other. All toe threads use it at once."""

    def __init__(self, stages: Stages, meter: Meter = UNMEASURED) -> None:
        self._stages = stages
        self._meter = meter
        self._reserve = MemoryReserve()

    def process(self, held: HeldLease, toe: Toe) -> FinishedPage:
        """Turns a started lease into a page to report. Raises only what is no Exception and ends the
        thread."""
        page = self._page(held, toe)
        self._meter.worked(_purpose(held), page.report.fetch_status)
        return page

    def _page(self, held: HeldLease, toe: Toe) -> FinishedPage:
        lease = held.lease
        try:
            return self._visit(held, toe)
        except Killed:
            return _failed(held, toe, Status.PROCESSING_THREAD_KILLED, reason=KILLED)
        except MemoryError:
            self._reserve.release()
            log.error("memory_exhausted", toe=toe.serial, uri=lease.uri, exc_info=True)
            return _failed(held, toe, SERIOUS_ERROR, "outOfMemory", reason="out of memory")
        except Exception as error:
            self._stages.logs.runtime_error(lease.uri, error)
            kind = type(error).__name__
            return _failed(held, toe, Status.RUNTIME_EXCEPTION, f"{kind}:{error}", reason=f"{kind}: {error}")

    def mend(self) -> None:
        """Keeps the reserve of memory full."""
        self._reserve.refill()

    def _visit(self, held: HeldLease, toe: Toe) -> FinishedPage:
        if held.policy is None:
            reason = "the fetch policy cannot be used; the node's log says why"
            return _failed(held, toe, Status.RUNTIME_EXCEPTION, "noFetchPolicy", reason=reason)
        fetch = self._fetch(held, held.policy, toe)
        if held.trace is not None:
            held.trace.note_fetch(fetch.status, fetch.body_bytes, fetch.connecting_ns)
        for each in (*fetch.hops, fetch):
            self._meter.fetched(_purpose(held), each.duration_ms / 1000, each.received_bytes)
            self._meter.connected(each.connections, each.handshakes)
            for stage, seconds in each.took_s.items():
                self._meter.took(stage, seconds)
        try:
            if fetch.status == Status.PROCESSING_THREAD_KILLED:
                # A fetch that was interrupted because the node ends counts as not tried.
                report = fetched(held.lease, fetch, toe.serial)
                ended = killed(report, "") if held.killed else put_off(report, "the node ended")
                return FinishedPage(held, ended)
            if fetch.status == Status.DEFERRED:
                return FinishedPage(held, put_off(fetched(held.lease, fetch, toe.serial), fetch.reason))
            return self._fetched(held, held.policy, fetch, toe)
        except Killed:
            return FinishedPage(held, killed(fetched(held.lease, fetch, toe.serial), KILLED))
        except CookiesUnavailable as problem:
            return FinishedPage(held, put_off(fetched(held.lease, fetch, toe.serial), problem.reason))
        finally:
            fetch.close()

    def _fetch(self, held: HeldLease, policy: FetchPolicy, toe: Toe) -> FetchResult:
        toe.enter(Step.FETCHING)
        fetcher, lease = self._stages.fetcher, held.lease
        if _is_robots(held):
            return fetcher.fetch_robots(lease.uri, policy, held.cancellation, lease.crawl)
        if self._stages.store.archives and not lease.HasField("capture_time"):
            last_visit = Validators()  # a 304 would leave the archive without the page
        else:
            last_visit = Validators(lease.etag, lease.last_modified)
        return fetcher.fetch(lease.uri, policy, held.cancellation, last_visit, lease.crawl, lease.via)

    def _fetched(self, held: HeldLease, policy: FetchPolicy, fetch: FetchResult, toe: Toe) -> FinishedPage:
        toe.enter(Step.EXTRACTING)
        start_s = perf_counter()
        if _is_robots(held):
            links, report = self._read_robots(held, fetch, toe)
        else:
            links, report = self._read_page(held, policy, fetch, toe)
        now = self._cookies_now(held, policy, links) if policy.cookies else {}
        toe.enter(Step.WRITING)
        extracted_s = perf_counter()
        self._meter.took(PageStage.EXTRACT, extracted_s - start_s)
        try:
            visit = PageVisit(held.lease, fetch, links, provenance=policy.provenance)
            stored = self._stages.store.append(visit)
        except OSError as error:  # a page that is not stored must not be reported; the store logs the error
            why = f"the node could not store the page: {error.strerror or error}"
            return FinishedPage(held, put_off(report, why))
        self._meter.took(PageStage.WRITE, perf_counter() - extracted_s)
        if HOOK_FAILED in stored.notes:
            self._meter.failed(NodePart.HOOK)
        annotate(report, *stored.notes)
        if stored.captured:
            report.capture_time.CopyFrom(report.start_time)
        return FinishedPage(held, report, links, stored.epoch, fetch.cookie_mark, now)

    def _read_page(
        self, held: HeldLease, policy: FetchPolicy, fetch: FetchResult, toe: Toe
    ) -> tuple[Sequence[Outlink], Report]:
        if not 200 <= fetch.status < 400 or fetch.status == NOT_MODIFIED:
            return (), fetched(held.lease, fetch, toe.serial)
        is_listed = _is_listed(held.lease.path)
        found_links = self._extracted(
            held, lambda: self._stages.outlinks(fetch, policy.extract, policy.product_token, is_listed)
        )
        links = found_links.links
        if fetch.redirect_target is not None:
            links = [Outlink(fetch.redirect_target, Hop.REDIRECT, LOCATION), *links]
        return links, fetched(
            held.lease, fetch, toe.serial, notes=(*found_links.notes, *_coding_notes(fetch))
        )

    def _cookies_now(
        self, held: HeldLease, policy: FetchPolicy, links: Sequence[Outlink]
    ) -> Mapping[str, bytes]:
        """The marks of the cookies that the targets of a page's redirects would be asked for with."""
        targets = {link.uri for link in links if link.hop is Hop.REDIRECT}
        fetcher, crawl = self._stages.fetcher, held.lease.crawl
        return {uri: fetcher.cookie_mark(uri, policy, crawl) for uri in targets}

    def _read_robots(self, held: HeldLease, fetch: FetchResult, toe: Toe) -> tuple[Sequence[Outlink], Report]:
        file = robots_file(fetch)
        found_links = FoundLinks([])
        if file.was_had:
            found_links = self._extracted(held, lambda: self._sitemaps(fetch.uri, file.body))
        notes = (*found_links.notes, *file.notes, *_coding_notes(fetch))
        report = fetched(held.lease, fetch, toe.serial, notes=notes, robots_body=file.body)
        report.fetch_status, report.reason = file.status, file.reason
        report.robots_empty = file.was_had and not file.body
        return found_links.links, report

    def _sitemaps(self, robots_uri: str, robots_body: bytes) -> FoundLinks:
        sitemaps = self._stages.sitemaps(robots_uri, robots_body)
        return FoundLinks([Outlink(uri, Hop.SITEMAP, "Sitemap") for uri in sitemaps])

    def _extracted(self, held: HeldLease, extract: Callable[[], FoundLinks]) -> FoundLinks:
        """The links that `extract` finds. An error, which is logged, loses links, and not the page."""
        try:
            found_links = extract()
        except MemoryError:
            raise
        except Exception as error:
            found_links = FoundLinks([], (EXTRACTOR_FAILED,), error)
        if found_links.error is not None:
            self._meter.failed(NodePart.EXTRACTOR)
            self._stages.logs.runtime_error(held.lease.uri, found_links.error)
        return found_links


def _failed(held: HeldLease, toe: Toe, status: int, *notes: str, reason: str) -> FinishedPage:
    return FinishedPage(held, failed(held.lease, status, toe.serial, *notes, reason=reason))


def _coding_notes(fetch: FetchResult) -> tuple[str, ...]:
    return (coding_note(fetch.body, fetch.content_encoding),)


def _purpose(held: HeldLease) -> Purpose:
    return Purpose.ROBOTS if _is_robots(held) else Purpose.PAGE


def _is_robots(held: HeldLease) -> bool:
    return held.lease.purpose == PURPOSE_ROBOTS


def _is_listed(path: str) -> bool:
    """Whether robots.txt or a sitemap named the URI of this path, or one that redirected to it."""
    return path.rstrip(Hop.REDIRECT).endswith(Hop.SITEMAP)
