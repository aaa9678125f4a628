"""Sends what this process has for the frontier, in order: candidates, the launch, and reports.

The candidates of a page enter before its report, and a batch sends candidates first. So a page is reported
only after the frontier has stored all that was found on it.

While a shard of the frontier is away, reports of its pages are tried again and again, and the others go on.
The frontier keeps candidates for it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from scrapy import Request

from toehold.frontier.v1.crawl_pb2 import (
    DISPOSITION_AWAY,
    DISPOSITION_INVALID_REPORT,
    VERDICT_UNSPECIFIED,
    Verdict,
)
from toehold.frontier.v1.frontier_pb2 import Candidate, Report, ReportResult
from toehold_client import CrawlController, FrontierClient, ToeholdError
from toehold_client.errors import IllegalState, PermissionDenied, Unauthenticated
from toehold_client.worker.contact import Contact
from toehold_client.worker.meaning import Meaning, meaning_of
from toehold_client.worker.rests import Abandoned
from toehold_client.worker.threads import persist

from .book import Book, SpiderLease
from .candidates import force
from .configuration import Configuration
from .fetches import DEFERRED, FAILED, annotate, bare_report
from .log import logger

MAX_BATCH = 1000
REST_S = 0.5  # of reports whose shard is away


@dataclass(frozen=True, slots=True)
class RequestOffer:
    """A request to offer, and the page that it was found on."""

    request: Request
    candidate: Candidate
    parent: SpiderLease | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A lease to report."""

    held: SpiderLease
    report: Report


@dataclass(frozen=True, slots=True)
class Launch:
    """The crawl is to be launched: all start requests have been offered."""


_T = TypeVar("_T")
Entry: TypeAlias = RequestOffer | Done | Launch
Judged: TypeAlias = Sequence[tuple[Request, "Verdict.ValueType"]]


class Outbox:
    """Sends entries until it is closed. Its callbacks run in its thread: `judged` gets the verdicts of
    requests, with VERDICT_UNSPECIFIED for those that the frontier would not judge; `launch_failed` gets the
    reason.
    """

    def __init__(
        self,
        configuration: Configuration,
        client: FrontierClient,
        book: Book,
        contact: Contact,
        *,
        judged: Callable[[Judged], None],
        launch_failed: Callable[[str], None],
    ) -> None:
        self._configuration = configuration
        self._client = client
        self._book = book
        self._contact = contact
        self._judged = judged
        self._launch_failed = launch_failed
        self._changed = threading.Condition()
        self._entries: deque[Entry] = deque()
        self._waiting: list[Done] = []  # reports whose shard is away
        self._due_s = 0.0  # when they are tried again
        self._closing = False
        self._given_up = threading.Event()

    def put(self, *entries: Entry) -> None:
        """Adds entries, in this order."""
        with self._changed:
            self._entries.extend(entries)
            self._changed.notify_all()

    def close(self) -> None:
        """Ends `run` once everything is sent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def give_up(self) -> None:
        """Ends `run` now. What is not sent is lost here; the frontier gives its leases out again."""
        self._given_up.set()
        self.close()

    def run(self) -> None:
        """Sends entries."""
        while batch := self._next_batch():
            try:
                self._send(batch)
            except Abandoned:
                return

    def _next_batch(self) -> list[Entry]:
        """Waits for entries, and takes those that come next. Empty at the end."""
        with self._changed:
            while not self._given_up.is_set():
                rest_s = self._due_s - time.monotonic() if self._waiting else None
                if rest_s is not None and rest_s <= 0:
                    self._entries.extend(self._waiting)
                    self._waiting.clear()
                if self._entries or (self._closing and not self._waiting):
                    return self._taken()
                self._changed.wait(rest_s)
            return []

    def _taken(self) -> list[Entry]:
        """The next entries, up to a launch, which is a batch of its own."""
        batch: list[Entry] = []
        while self._entries and len(batch) < MAX_BATCH:
            if isinstance(self._entries[0], Launch) and batch:
                break
            batch.append(self._entries.popleft())
            if isinstance(batch[0], Launch):
                break
        return batch

    def _send(self, batch: Sequence[Entry]) -> None:
        offers = [entry for entry in batch if isinstance(entry, RequestOffer)]
        done = [entry for entry in batch if isinstance(entry, Done)]
        if any(isinstance(entry, Launch) for entry in batch):
            self._launch()
        if offers:
            self._offer(offers)
        if done:
            self._report([Done(each.held, _put_off(each)) for each in done])

    def _launch(self) -> None:
        controller = CrawlController(self._client, self._configuration.crawl)

        def launch() -> ToeholdError | None:
            try:
                controller.launch()
            except (PermissionDenied, Unauthenticated) as error:  # the right of an operator, not of a worker
                return error
            return None

        try:
            if (denial := self._persist(launch)) is not None:
                raise denial
            logger.info("Crawl %s launched", self._configuration.crawl)
        except IllegalState:
            logger.info("Crawl %s was launched by another process", self._configuration.crawl)
        except ToeholdError as error:
            self._launch_failed(str(error))

    def _offer(self, offers: Sequence[RequestOffer]) -> None:
        candidates = [offer.candidate for offer in offers]
        try:
            verdicts = self._persist(
                lambda: self._client.schedule(self._configuration.crawl, candidates, park=True)
            )
        except ToeholdError as error:
            if meaning_of(error) is Meaning.CRAWL_OVER:
                logger.info("Requests dropped: %d (%s)", len(offers), error)
            else:
                logger.error("Requests that the frontier refused: %d (%s)", len(offers), error)
                for offer in offers:
                    if offer.parent is not None:
                        offer.parent.links_refused = True
            self._judged([(offer.request, VERDICT_UNSPECIFIED) for offer in offers])
        else:
            self._judged([(offer.request, verdict) for offer, verdict in zip(offers, verdicts, strict=True)])

    def _report(self, done: Sequence[Done]) -> None:
        counting = [each for each in done if not each.held.ended]
        away: list[Done] = []
        try:
            results = self._finished([each.report for each in counting])
            away = [
                each
                for each, result in zip(counting, results, strict=True)
                if result.disposition == DISPOSITION_AWAY
            ]
            self._finished(
                [
                    bare_report(
                        each.held.lease,
                        FAILED,
                        "reportRefused",
                        reason=f"the frontier refused the report: {result.problem}",
                    )
                    for each, result in zip(counting, results, strict=True)
                    if result.disposition == DISPOSITION_INVALID_REPORT
                ]
            )
        except ToeholdError as error:  # also of another session, of which the poller hears, too
            logger.error("Reports that the frontier refused: %d (%s)", len(counting), error)
        with self._changed:
            if not self._waiting:  # those that wait are not put off by others
                self._due_s = time.monotonic() + REST_S
            self._waiting += away
        waiting = {each.held.lease.token for each in away}
        settled = [each for each in done if each.held.lease.token not in waiting]
        self._book.settle(each.held for each in settled)
        again = [RequestOffer(*each) for entry in settled for each in entry.held.again]
        for offer in again:
            force(offer.candidate)
        if again:
            self._offer(again)

    def _finished(self, reports: Sequence[Report]) -> Sequence[ReportResult]:
        if not reports:
            return []
        results = self._persist(
            lambda: self._client.finished(
                reports,
                node=self._configuration.node,
                session=self._configuration.session,
                partial=True,
            )
        )
        for result in results:
            if result.problem:
                logger.error("The frontier refused a report: %s", result.problem)
        return results

    def _persist(self, call: Callable[[], _T]) -> _T:
        def noted() -> _T:
            with self._contact.noting():
                return call()

        return persist(noted, self._contact.log, self._given_up)


def _put_off(done: Done) -> Report:
    """The report of a page; if the frontier did not take its links, one that has it fetched again."""
    report = done.report
    if not done.held.links_refused:
        return report
    deferred = Report(
        token=report.token,
        outcome=report.outcome,
        fetch_status=DEFERRED,
        start_time=report.start_time,
        fetch_duration=report.fetch_duration,
    )
    annotate(deferred, ("linksRefused",))
    return deferred
