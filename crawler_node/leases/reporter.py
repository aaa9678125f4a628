"""Reporter: reports finished pages to the frontier, in batches, and each only after its records are durable.

A batch is every page that has finished so far. The reporter makes its WARC records durable, then offers its
links to Schedule, then reports its pages to Finished, and goes on to the next batch. There is no timer: under
load batches grow by themselves, and a single slow page is reported at once.

While a shard of the frontier is away, the pages that need it wait in the outbox, with their leases held, and
the others go on. Some of them are a batch again and again, until the shard is back, or the node ends.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog

from toehold.frontier.v1.crawl_pb2 import (
    DISPOSITION_AWAY,
    DISPOSITION_INVALID_REPORT,
    DISPOSITION_STALE,
    DISPOSITION_UNKNOWN_TOKEN,
)
from toehold.frontier.v1.frontier_pb2 import ReportResult
from toehold_client.errors import SessionSuperseded, ToeholdError
from toehold_client.verdicts import Verdicts
from toehold_client.worker.meaning import Meaning, meaning_of
from toehold_client.worker.rests import Abandoned
from toehold_client.worker.threads import persist

from ..fetching.outcome import Status
from ..output.archive import Archive
from .book import HeldLease, LeaseBook
from .frontier import FrontierConnection
from .offers import REDIRECT_LOOP, KnownOfCrawls, candidates, ends_of_loops, waiting_links
from .outbox import Outbox, longest_wait_s
from .report import FinishedPage, annotate, failed, put_off, released

MAX_BACKLOG_PAGES = 500
"""With so many finished pages in the backlog toes wait. Their bodies are gone by then."""

MAX_BACKLOG_BYTES = 64 * 1024 * 1024
"""About how much the links and robots.txt bodies in the backlog may take before toes wait."""

MAX_BATCH_PAGES = 500
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""A batch ends with the page that reaches this size; as candidates, links take several times as much."""

HAND_BACK_S = 5.0
"""At the end, how long pages that wait for shards may take to go back."""

log = structlog.get_logger()

_T = TypeVar("_T")


class Reporter:
    """Takes finished pages from the toes, and reports them until `finish` says that no more will come."""

    def __init__(self, frontier: FrontierConnection, book: LeaseBook, archive: Archive) -> None:
        self._frontier = frontier
        self._book = book
        self._archive = archive
        self._known = KnownOfCrawls()
        lock = threading.Lock()
        self._lock = lock
        self._work = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._backlog: deque[tuple[FinishedPage, int]] = deque()  # with its size
        self._backlog_bytes = 0
        self._in_hand_count = 0
        self._outbox = Outbox()
        self._tried_last = False
        self._waiting_since_s: float | None = None
        self._moved_s = 0.0  # when a page was settled last, or the end began
        self._patience_s = math.inf  # from then on, if all that are left wait for shards
        self._hands_back = False  # pages whose links wait
        self._open_ended = False
        self._finishing = False
        self._abandoned = threading.Event()

    # from other threads

    def put(self, page: FinishedPage) -> None:
        """Takes a page that a toe is done with. Waits while the backlog is full."""
        size_bytes = page.size_bytes
        with self._lock:
            while self._is_full() and not self._open_ended:
                self._room.wait()
            self._backlog.append((page, size_bytes))
            self._backlog_bytes += size_bytes
            self._work.notify()

    def give_back(self, held: Iterable[HeldLease]) -> None:
        """Hands leases back unstarted. Does not wait, as they are few and small."""
        self.append([FinishedPage(one, released(one.lease)) for one in held])

    def append(self, pages: Iterable[FinishedPage]) -> None:
        """Takes small pages without waiting."""
        with self._lock:
            self._backlog.extend((page, 0) for page in pages)
            self._work.notify()

    def lift_bound(self) -> None:
        """Lets no toe wait any more, as each has at most one more page."""
        with self._lock:
            self._open_ended = True
            self._room.notify_all()

    def finish(self, patience_s: float = math.inf) -> None:
        """Says that no more pages will come. `run` then ends when all are reported; or when nothing but pages
        which wait for shards is left, and none could go for so long. Before that it hands back those whose
        links wait, since their own shards may be there."""
        with self._lock:
            self._finishing, self._moved_s, self._patience_s = True, time.monotonic(), patience_s
            self._work.notify()

    def abandon(self) -> None:
        """Gives up on the pages that are not reported yet. `run` then ends as soon as it can."""
        self._abandoned.set()
        self.finish()

    def unreported_count(self) -> int:
        """How many leases wait for their report, those that go back included."""
        with self._lock:
            return len(self._backlog) + self._in_hand_count + len(self._outbox)

    def outbox_count(self) -> int:
        """How many of these wait for a shard of the frontier that is away."""
        with self._lock:
            return len(self._outbox)

    # the reporter's own thread

    def run(self) -> None:
        """Reports pages. Raises SessionSuperseded."""
        try:
            while batch := self._take_batch():
                self._hand_over(batch)
        except Abandoned:
            return

    def _take_batch(self) -> list[FinishedPage]:
        """Waits for pages. Returns all that have finished so far, or some that waited for a shard, within
        bounds; none when no more will come."""
        with self._lock:
            self._in_hand_count = 0
            while not self._abandoned.is_set():
                if batch := self._next_batch():
                    self._in_hand_count = len(batch)
                    return batch
                if self._finishing and not self._backlog and (not self._outbox or self._gives_up()):
                    break
                self._work.wait(self._outbox.rest_s)
            return []

    def _hand_over(self, batch: list[FinishedPage]) -> None:
        pages = self._stored([page for page in batch if not page.held.ended])
        by_spell: dict[int, list[FinishedPage]] = {}
        for page in pages:
            if page.links:
                by_spell.setdefault(page.held.spell, []).append(page)
        waiting = {page.held: page for group in by_spell.values() for page in self._offer(group)}
        reported = [page for page in pages if not page.held.ended and page.held not in waiting]
        reported += self._overdue(waiting)
        waiting.update((page.held, page) for page in self._report(reported))
        for held in [held for held in waiting if held.ended]:
            del waiting[held]
        settled = [page.held for page in batch if page.held not in waiting]
        self._book.settle(settled)
        for held in settled:
            if held.trace is not None:
                held.trace.end()
        self._keep(waiting.values(), moved=bool(settled))

    def _overdue(self, waiting: dict[HeldLease, FinishedPage]) -> list[FinishedPage]:
        """Takes out the pages whose links have waited too long, and hands their leases back, to have them
        fetched again."""
        now_s, period_s = time.monotonic(), self._book.period_s
        overdue = [
            held
            for held, page in waiting.items()
            if self._hands_back or now_s - (page.waits_since_s or now_s) > longest_wait_s(page, period_s)
        ]
        for held in overdue:
            del waiting[held]
        if overdue:
            log.warning("pages_handed_back", pages=len(overdue))
        return [FinishedPage(held, released(held.lease)) for held in overdue]

    def _keep(self, waiting: Collection[FinishedPage], moved: bool) -> None:
        """Keeps the pages of a batch that wait for a shard. It has `moved` if others do not."""
        with self._lock:
            if moved:
                self._moved_s = time.monotonic()
            self._outbox.put(waiting)
            self._in_hand_count -= len(waiting)
            count = len(self._outbox)
        now_s = time.monotonic()
        if count and self._waiting_since_s is None:
            self._waiting_since_s = now_s
            log.warning("outbox_begun", pages=count)
        elif not count and self._waiting_since_s is not None:
            log.info("outbox_empty", waited_s=round(now_s - self._waiting_since_s, 1))
            self._waiting_since_s = None

    def _stored(self, pages: list[FinishedPage]) -> list[FinishedPage]:
        """Makes the records of pages durable. Puts off pages whose records are not."""
        if all(page.stored_in is None for page in pages):
            return pages
        epoch = self._archive.sync()
        return [
            page
            if page.stored_in is None or page.stored_in == epoch
            else FinishedPage(page.held, put_off(page.report, "the node could not store the page"))
            for page in pages
        ]

    def _offer(self, pages: Sequence[FinishedPage]) -> list[FinishedPage]:
        """Offers the links of pages of one crawl. Returns the pages that have links which wait for a shard,
        with these alone. Narrows a refusal down to a page, and annotates its report."""
        crawl, spell = pages[0].held.lease.crawl, pages[0].held.spell
        scope_version, seen_version = self._book.newest_versions(crawl)
        offered = candidates(pages, self._known.of(spell, seen_version), scope_version)
        if not offered:
            return []

        def schedule() -> Verdicts:
            if all(page.held.ended for page in pages):
                raise _LeasesEnded
            return self._frontier.schedule(crawl, offered)

        try:
            verdicts = self._persist(schedule)
        except _LeasesEnded:
            log.info(
                "links_dropped",
                cause="the leases of their pages have ended",
                crawl=crawl,
                links=len(offered),
            )
        except SessionSuperseded:
            raise
        except ToeholdError as refusal:
            if meaning_of(refusal) is Meaning.CRAWL_OVER:  # pages are reported all the same
                log.info(
                    "links_dropped",
                    cause="the crawl is over",
                    crawl=crawl,
                    links=len(offered),
                    error=str(refusal),
                    request_id=refusal.request_id,
                )
                self._known.forget(spell)
            elif len(pages) > 1:
                return [page for half in _halves(pages) for page in self._offer(half)]
            else:
                log.error(
                    "links_refused",
                    uri=pages[0].held.lease.uri,
                    error=str(refusal),
                    request_id=refusal.request_id,
                )
                annotate(pages[0].report, "linksRefused")
        else:
            self._known.learn(spell, offered, verdicts)
            for page in ends_of_loops(pages, offered, verdicts):
                annotate(page.report, REDIRECT_LOOP)
            now_s = time.monotonic()
            # The records of these pages are durable, whatever becomes of the archive's later epochs.
            return [
                replace(page, links=links, stored_in=None, waits_since_s=page.waits_since_s or now_s)
                for page, links in waiting_links(pages, offered, verdicts)
            ]
        return []

    def _report(self, pages: Sequence[FinishedPage]) -> list[FinishedPage]:
        """Reports pages. Returns those that wait for a shard. Reports one whose report is refused as failed,
        so that it holds up no others."""
        waiting: list[FinishedPage] = []
        replaced: list[FinishedPage] = []
        for page, result in zip(pages, self._finished(pages), strict=True):
            held, report = page.held, page.report
            if result.disposition == DISPOSITION_AWAY:
                waiting.append(FinishedPage(held, report))
                continue
            if held.trace is not None:
                held.trace.end(result.disposition)
            if result.disposition == DISPOSITION_INVALID_REPORT:
                log.error("report_refused", uri=held.lease.uri, problem=result.problem)
                bare = failed(
                    held.lease,
                    Status.RUNTIME_EXCEPTION,
                    report.toe_number,
                    "reportRefused",
                    reason=f"the frontier refused the report: {result.problem}",
                )
                replaced.append(FinishedPage(held, bare))
            elif result.disposition in (DISPOSITION_STALE, DISPOSITION_UNKNOWN_TOKEN):
                log.debug("report_late", uri=held.lease.uri)
                self._known.forget(held.spell)
        for page, result in zip(replaced, self._finished(replaced), strict=True):
            if result.disposition == DISPOSITION_AWAY:
                waiting.append(page)
        return waiting

    def _finished(self, pages: Sequence[FinishedPage]) -> Sequence[ReportResult]:
        """The results of pages, in their order; INVALID_REPORT for a page that the frontier refuses to
        judge."""
        if not pages:
            return ()
        for page in pages:
            trace = page.held.trace
            page.report.traceparent = page.held.lease.traceparent if trace is None else trace.reporting()
        try:
            return self._persist(lambda: self._frontier.finished([page.report for page in pages]))
        except SessionSuperseded:
            raise
        except ToeholdError as refusal:
            if len(pages) > 1:
                return [result for half in _halves(pages) for result in self._finished(half)]
            return [ReportResult(disposition=DISPOSITION_INVALID_REPORT, problem=str(refusal))]

    def _persist(self, call: Callable[[], _T]) -> _T:
        return persist(call, self._frontier.contact.log, self._abandoned)

    # under the lock

    def _gives_up(self) -> bool:
        """Whether the pages that wait for shards have waited in vain for too long, also once those whose
        links wait were handed back."""
        now_s = time.monotonic()
        if now_s < self._moved_s + self._patience_s:
            return False
        if not self._hands_back:
            self._hands_back, self._moved_s, self._patience_s = True, now_s, HAND_BACK_S
            return False
        return True

    def _next_batch(self) -> list[FinishedPage]:
        """The pages to report now: in turn those that waited for a shard, and those that have just
        finished."""
        is_due = self._outbox.rest_s == 0
        takes_new = bool(self._backlog) and (self._finishing or not self._outbox.is_full)
        self._tried_last = is_due and not (takes_new and self._tried_last)
        if self._tried_last:
            return self._outbox.take()
        return self._new_batch() if takes_new else []

    def _new_batch(self) -> list[FinishedPage]:
        batch: list[FinishedPage] = []
        batch_bytes = 0
        while self._backlog and len(batch) < MAX_BATCH_PAGES and batch_bytes < MAX_BATCH_BYTES:
            page, size_bytes = self._backlog.popleft()
            batch.append(page)
            batch_bytes += size_bytes
        self._backlog_bytes -= batch_bytes
        self._room.notify_all()
        return batch

    def _is_full(self) -> bool:
        return len(self._backlog) >= MAX_BACKLOG_PAGES or self._backlog_bytes >= MAX_BACKLOG_BYTES


class _LeasesEnded(Exception):
    """The leases of all these pages have ended. A crawl that is held may take its links much later, and must
    not hold up the pages of other crawls."""


def _halves(pages: Sequence[FinishedPage]) -> tuple[Sequence[FinishedPage], Sequence[FinishedPage]]:
    middle = len(pages) // 2
    return pages[:middle], pages[middle:]
