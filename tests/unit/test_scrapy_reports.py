"""The reports of a spider's fetches, and the order in which the frontier gets them."""

import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest
from frontier_harness.waiting import PATIENCE_S, eventually
from OpenSSL import SSL
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    StopDownload,
)
from scrapy.http import Response
from scrapy.settings import Settings
from twisted.internet.error import ConnectionLost, SSLError
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.python.failure import Failure
from twisted.web._newclient import ParseError, ResponseFailed

from frontier_server.core.rules.disposition import Disposition, decide
from frontier_server.wire.specs import settings_of, spec
from toehold.frontier.v1.crawl_pb2 import (
    DISPOSITION_AWAY,
    DISPOSITION_INVALID_REPORT,
    DISPOSITION_SUCCEEDED,
    VERDICT_QUEUED,
    CrawlSpec,
    FetchPolicy,
)
from toehold.frontier.v1.frontier_pb2 import (
    PURPOSE_PAGE,
    PURPOSE_ROBOTS,
    TRUNCATION_DISCONNECT,
    TRUNCATION_LENGTH,
    Candidate,
    Lease,
    Report,
    ReportResult,
)
from toehold_client import errors
from toehold_client.worker import rests
from toehold_client.worker.contact import Contact
from toehold_scrapy import fetches, outbox
from toehold_scrapy.book import Book, SpiderLease, SpiderStage
from toehold_scrapy.configuration import Configuration
from toehold_scrapy.log import SpiderLog
from toehold_scrapy.outbox import Done, Launch, Outbox, RequestOffer

URL = "http://a.test/"
LEASE = Lease(token=b"t", uri=URL, last_digest="sha1:LAST")
CERTIFICATE = SSL.Error([("SSL routines", "", "certificate verify failed")])


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CannotResolveHostError(), -1),
        (DownloadConnectionRefusedError(), -2),
        (caused(DownloadTimeoutError(), ConnectTimeout()), -2),
        (caused(DownloadFailedError(), ResponseFailed([Failure(SSLError())])), -2),
        (caused(DownloadFailedError(), ResponseFailed([Failure(ConnectionLost())])), -3),
        (ResponseDataLossError(), -3),
        (DownloadTimeoutError(), -4),
        (DownloadCancelledError(), -5),
        (IgnoreRequest(), -5),
        (RuntimeError(), -5),
        (caused(DownloadFailedError(), ResponseFailed([Failure(ParseError("", b""))])), -10),
    ],
    ids=repr,
)
def test_each_error_has_its_fetch_status(error: Exception, status: int) -> None:
    assert fetches.failed(error, fetches.FetchClock()).status == status


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CannotResolveHostError("DNS lookup failed"), ""),
        (DownloadConnectionRefusedError("Connection was\nrefused."), "Connection was refused."),
        (caused(DownloadFailedError(), ResponseFailed([Failure(CERTIFICATE)])), "certificate verify failed"),
        (caused(DownloadFailedError(), ResponseFailed([Failure(ConnectionLost())])), str(ConnectionLost())),
        (IgnoreRequest("not today"), "a downloader middleware ignored the request: not today"),
        (IgnoreRequest(), "a downloader middleware ignored the request"),
        (RuntimeError("no luck"), "RuntimeError: no luck"),
        (RuntimeError(), "RuntimeError"),
    ],
    ids=repr,
)
def test_a_report_without_an_answer_tells_people_why(error: Exception, reason: str) -> None:
    assert fetches.report(LEASE, fetches.failed(error, fetches.FetchClock())).reason == reason


def test_a_download_that_the_spider_stops_counts_as_cut() -> None:
    stop = StopDownload()
    stop.response = Response(URL, body=b"half", flags=["download_stopped"])
    found = fetches.report(LEASE, fetches.failed(stop, fetches.FetchClock()))
    assert (found.fetch_status, found.body_bytes, found.truncation) == (200, 4, TRUNCATION_LENGTH)


def test_a_report_tells_of_the_answer_as_it_came() -> None:
    headers = {"Content-Type": "Text/HTML; charset=utf-8", "ETag": '"1"', "Retry-After": "7"}
    found = fetches.report(
        LEASE, fetches.answered(Response(URL, 429, headers=headers, body=b"abc"), fetches.FetchClock())
    )
    assert (found.token, found.fetch_status, found.body_bytes) == (b"t", 429, 3)
    assert (found.media_type, found.etag) == ("text/html", '"1"')
    assert found.digest == "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"
    assert found.retry_after_duration.seconds == 7


@pytest.mark.parametrize(
    ("location", "told"),
    [
        (b"/login", "/login"),
        (b"http://a.test/login", "/login"),
        (b"http://a.test:81/login", "http://a.test:81/login"),
        (b"http://a.test", "http://a.test"),
        ("/b\u00fccher".encode(), "/b\u00fccher"),
        (b"/b\xfccher", "/b\ufffdcher"),
        (b"/a\x1b[2J\x07 b", "/a [2J b"),
        (b"/" + b"a" * 300, "/" + "a" * 199),
        (b"", ""),
    ],
)
def test_a_report_of_a_redirect_names_its_target_in_printable_text(location: bytes, told: str) -> None:
    response = Response(URL, 302, headers={"Location": location})
    assert fetches.report(LEASE, fetches.answered(response, fetches.FetchClock())).reason == told


def test_a_body_that_broke_off_leaves_no_validators() -> None:
    response = Response(URL, headers={"ETag": '"1"'}, body=b"abc", flags=["dataloss"])
    found = fetches.report(LEASE, fetches.answered(response, fetches.FetchClock()))
    assert (found.truncation, found.etag) == (TRUNCATION_DISCONNECT, "")


def test_an_unchanged_page_has_the_digest_of_the_last_visit() -> None:
    assert (
        fetches.report(LEASE, fetches.answered(Response(URL, 304), fetches.FetchClock())).digest
        == "sha1:LAST"
    )


@pytest.mark.parametrize("status", [*(-1, -2, -3, -4, -5, -7, -10, -404), *(200, 304, 404, 429, 500, 503)])
def test_the_spider_knows_beforehand_which_fetches_the_frontier_repeats(status: int) -> None:
    for max_attempts in (1, 3, 30):
        wanted = CrawlSpec()
        wanted.retry.max_attempts = max_attempts
        wanted.retry.statuses.add(fetch_status=404, max_attempts=5)
        wanted.retry.statuses.add(fetch_status=-4)
        settings = settings_of(wanted)
        for attempt in range(1, 7):
            repeated = decide(status, attempt, settings.retry).disposition is Disposition.DEFERRED
            assert fetches.is_retried(status, attempt, spec(settings).retry) == repeated, attempt


class Frontier:
    """Takes down what it is sent. `refuse` has errors for the next calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []
        self.refuse: list[errors.ToeholdError | None] = []
        self.dispositions = DISPOSITION_SUCCEEDED
        self.away: list[bytes] = []  # the leases whose shards are away, of the next calls

    def _call(self, name: str, what: list[Any]) -> None:
        error = self.refuse.pop(0) if self.refuse else None
        if error is not None:
            raise error
        self.calls.append((name, what))

    def schedule(self, crawl: str, candidates: Sequence[Candidate], park: bool) -> list[int]:
        self._call("schedule", [candidate.uri for candidate in candidates])
        return [VERDICT_QUEUED] * len(candidates)

    def finished(
        self, reports: Sequence[Report], *, node: str, session: str, partial: bool
    ) -> list[ReportResult]:
        self._call("finished", [(report.token, report.fetch_status) for report in reports])
        away = self.away.pop(0) if self.away else b""
        return [
            ReportResult(disposition=DISPOSITION_AWAY if report.token == away else self.dispositions)
            for report in reports
        ]


class Sent:
    """An outbox, and what becomes of its entries."""

    def __init__(self) -> None:
        self.frontier = Frontier()
        self.book = Book(4)
        self.judged: list[tuple[Request, int]] = []
        settings = Settings({"TOEHOLD_FRONTIER": "127.0.0.1:1", "TOEHOLD_CRAWL": "c"})
        self.box = Outbox(
            Configuration.of(settings),
            cast(Any, self.frontier),
            self.book,
            Contact(SpiderLog()),
            judged=self.judged.extend,
            launch_failed=pytest.fail,
        )

    def held(self, token: bytes) -> SpiderLease:
        held = SpiderLease(Lease(token=token, uri=f"http://a.test/{token.decode()}"), FetchPolicy())
        self.book.add([held])
        return held

    def done(self, held: SpiderLease) -> Done:
        return Done(held, Report(token=held.lease.token, fetch_status=200))

    def run(self) -> list[tuple[str, list[Any]]]:
        self.box.close()
        self.box.run()
        return self.frontier.calls


def offer(uri: str, parent: SpiderLease | None = None) -> RequestOffer:
    return RequestOffer(Request(uri), Candidate(uri=uri), parent)


@pytest.fixture
def sent() -> Sent:
    return Sent()


def test_a_page_is_reported_after_all_that_was_found_on_it(sent: Sent) -> None:
    sent.box.put(offer("http://a.test/1"), sent.done(sent.held(b"p")), offer("http://a.test/2"))
    sent.box.put(sent.done(sent.held(b"q")))
    sent.frontier.refuse = [errors.FrontierUnavailable("away"), None, errors.FrontierUnavailable("away")]
    assert sent.run() == [
        ("schedule", ["http://a.test/1", "http://a.test/2"]),
        ("finished", [(b"p", 200), (b"q", 200)]),
    ]
    assert [verdict for _, verdict in sent.judged] == [VERDICT_QUEUED] * 2
    assert sent.book.tokens() == []


def test_reports_wait_for_their_shard_and_hold_up_no_others(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "REST_S", 0.001)
    sent.frontier.away = [b"p"] * 3
    sent.box.put(sent.done(sent.held(b"p")), sent.done(sent.held(b"q")))
    assert sent.run() == [("finished", [(b"p", 200), (b"q", 200)]), *[("finished", [(b"p", 200)])] * 3]
    assert sent.book.tokens() == []


def test_reports_that_wait_for_their_shard_are_not_put_off_by_others(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "REST_S", 0.2)
    sent.frontier.away = [b"p"]
    sent.box.put(sent.done(sent.held(b"p")))
    thread = threading.Thread(target=sent.run)
    thread.start()
    others = 0

    def is_settled() -> bool:
        """Whether that report has gone; before, there is another one, long before the rest is over."""
        nonlocal others
        others += 1
        sent.box.put(sent.done(sent.held(f"other {others}".encode())))
        return b"p" not in sent.book.tokens()

    try:
        eventually(is_settled, "the report that waited")
    finally:
        sent.box.give_up()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("robots", [True, False])
def test_leases_whose_reports_wait_leave_room_for_fetches(robots: bool) -> None:
    book = Book(2)
    purpose = PURPOSE_ROBOTS if robots else PURPOSE_PAGE
    leases = [
        SpiderLease(Lease(token=bytes([number]), purpose=purpose), FetchPolicy()) for number in range(2)
    ]
    book.add(leases)
    assert book.wait_for_room(0) == 0
    for held in leases:
        held.reported = True
    assert book.wait_for_room(0) == 2


def test_an_outbox_that_gives_up_waits_for_no_shard(sent: Sent) -> None:
    sent.frontier.away = [b"p"] * 10**6
    sent.box.put(sent.done(sent.held(b"p")))
    thread = threading.Thread(target=sent.run)
    thread.start()
    eventually(lambda: sent.frontier.calls, "the first report")
    sent.box.give_up()
    thread.join(PATIENCE_S)
    assert not thread.is_alive() and sent.book.tokens() == [b"p"]


def test_a_page_whose_links_are_refused_is_fetched_again(sent: Sent) -> None:
    page = sent.held(b"p")
    found = [offer(f"http://a.test/{number}", page) for number in range(1000)]
    sent.box.put(*found, offer("http://a.test/other"), sent.done(page), sent.done(sent.held(b"q")))
    sent.frontier.refuse = [errors.ToeholdError("no")]
    assert sent.run() == [
        ("schedule", ["http://a.test/other"]),
        ("finished", [(b"p", -50), (b"q", 200)]),
    ]


def test_reports_are_kept_while_the_frontier_does_not_know_the_spider(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever renews its token saves its work."""
    monkeypatch.setattr(rests, "DENIED_REST_S", 0.001)
    sent.box.put(sent.done(sent.held(b"p")))
    sent.frontier.refuse = [errors.Unauthenticated("token 07 expired", reason="TOKEN_EXPIRED")] * 3
    assert sent.run() == [("finished", [(b"p", 200)])]


def test_a_spider_that_may_not_launch_its_crawl_is_told_at_once(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    denial = errors.PermissionDenied("LaunchCrawl is for operators", reason="ROLE_MISSING")

    class Controller:
        def __init__(self, *arguments: object) -> None: ...

        def launch(self) -> None:
            raise denial

    monkeypatch.setattr(outbox, "CrawlController", Controller)
    failures: list[str] = []
    monkeypatch.setattr(sent.box, "_launch_failed", failures.append)
    sent.box.put(Launch())
    sent.run()
    assert failures == [str(denial)]


def test_a_page_is_reported_although_its_crawl_takes_no_links_any_more(sent: Sent) -> None:
    sent.box.put(offer("http://a.test/1"), sent.done(sent.held(b"p")))
    sent.frontier.refuse = [errors.CrawlFinished("over")]
    assert sent.run() == [("finished", [(b"p", 200)])]


def test_a_report_that_is_refused_is_replaced_by_a_bare_one(sent: Sent) -> None:
    sent.box.put(sent.done(sent.held(b"p")))
    sent.frontier.dispositions = DISPOSITION_INVALID_REPORT
    assert sent.run() == [("finished", [(b"p", 200)]), ("finished", [(b"p", -5)])]


def test_a_lease_that_has_ended_is_not_reported(sent: Sent) -> None:
    held = sent.held(b"p")
    held.stage = SpiderStage.FETCHING
    held.ended = True
    sent.box.put(sent.done(held))
    assert sent.run() == []
    assert sent.book.tokens() == []


def test_a_page_that_is_wanted_again_is_offered_after_its_report(sent: Sent) -> None:
    held = sent.held(b"p")
    held.again.append((Request(held.lease.uri), Candidate(uri=held.lease.uri)))
    sent.box.put(sent.done(held))
    assert [name for name, _ in sent.run()] == ["finished", "schedule"]


def test_a_book_has_room_for_as_many_leases_as_can_be_fetched() -> None:
    book = Book(2)
    one, two = (SpiderLease(Lease(token=token), FetchPolicy()) for token in (b"1", b"2"))
    book.add([one, two])
    assert book.wait_for_room(0) == 0
    assert book.take() is one
    assert book.wait_for_room(0) == 0
    book.fetched(one)
    assert book.wait_for_room(0) == 1
    assert book.withdraw() == [two]
    assert book.take() is None
    assert set(book.tokens()) == {b"1", b"2"}
    book.settle([one, two])
    assert book.wait_for_room(0) == 2


def test_leases_that_the_frontier_has_ended_are_not_fetched() -> None:
    book = Book(2)
    waiting, begun = (SpiderLease(Lease(token=token), FetchPolicy()) for token in (b"w", b"b"))
    book.add([begun, waiting])
    assert book.take() is begun
    book.end([b"w", b"b", b"unknown"])
    assert book.take() is None
    assert begun.ended
    assert book.tokens() == [b"b"]
