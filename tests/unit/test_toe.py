"""What a toe thread makes of a lease."""

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from frontier_harness.waiting import PATIENCE_S
from node_doubles.leases import POLICY, lease
from node_doubles.stages import FakeFetcher, lines, page

from crawler_node.extraction.links import FoundLinks, Hop, Outlink
from crawler_node.fetching.fetch import (
    MAX_ROBOTS_BYTES,
    ExtractSettings,
    FetchPolicy,
    FetchResult,
    Validators,
)
from crawler_node.fetching.outcome import Status, Truncation
from crawler_node.fetching.shared_cookies import CookiesUnavailable
from crawler_node.leases.book import LeaseBook
from crawler_node.leases.report import FinishedPage
from crawler_node.memory import MemoryReserve
from crawler_node.output.logs import RUNTIME_ERRORS, NodeLogs
from crawler_node.output.visit import PageVisit, Stored
from crawler_node.toes.chain import Stages, Step, ToeChain
from crawler_node.toes.toe import ToeThread
from toehold.frontier.v1.frontier_pb2 import (
    OUTCOME_FETCHED,
    OUTCOME_RELEASED,
    PURPOSE_PAGE,
    PURPOSE_ROBOTS,
    Lease,
    Purpose,
)


class Work:
    """One toe thread's work on one lease, and what it was doing at each stage."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.notes: tuple[str, ...] = ()
        self.pages: list[FinishedPage] = []
        self.fetcher = FakeFetcher(self.fetched)
        self.stored: list[FetchResult] = []
        self.answer: Callable[[str], FetchResult] = page
        self.append_error: Exception | None = None
        self.outlinks: Callable[[FetchResult, ExtractSettings, str, bool], FoundLinks] = lines
        self.listed: list[bool] = []
        self.robots_uris: list[str] = []
        self.toe: ToeThread | None = None
        self.logs = NodeLogs()

    def on(self, one: Lease, *, with_policy: bool = True, book: LeaseBook | None = None) -> FinishedPage:
        book = book or LeaseBook()
        book.resize(1)
        book.add([(one, POLICY if with_policy else None)])
        stages = Stages(self.fetcher, self.extract, self.sitemaps, self, self.logs)
        self.toe = ToeThread(7, book, ToeChain(stages), self)
        self.toe.start()
        self.toe.join(PATIENCE_S)
        (done,) = self.pages
        return done

    def note_step(self) -> None:
        assert self.toe is not None
        self.steps.append(self.toe.step)

    def fetched(self, uri: str) -> FetchResult:
        self.note_step()
        return self.answer(uri)

    def extract(
        self, fetch: FetchResult, settings: ExtractSettings, product_token: str, is_listed: bool
    ) -> FoundLinks:
        self.note_step()
        self.listed.append(is_listed)
        assert (settings, product_token) == (POLICY.extract, POLICY.product_token)
        return self.outlinks(fetch, settings, product_token, is_listed)

    def sitemaps(self, uri: str, body: bytes) -> list[str]:
        self.robots_uris.append(uri)
        return [line.decode() for line in body.split() if line.startswith(b"http")]

    archives = captured = False

    def append(self, visit: PageVisit) -> Stored:
        self.note_step()
        if self.append_error is not None:
            raise self.append_error
        self.stored.append(visit.fetch)
        return Stored(3, self.notes, self.captured)

    def put(self, page: FinishedPage) -> None:
        self.note_step()
        self.pages.append(page)
        assert self.toe is not None
        self.toe.retire()  # one lease is enough


@pytest.fixture
def work() -> Work:
    return Work()


def uris(page: FinishedPage) -> list[tuple[str, str]]:
    return [(link.hop, link.uri) for link in page.links]


def test_a_page_is_fetched_searched_stored_and_handed_over(work: Work) -> None:
    """S4.8: the order of the steps."""
    work.answer = lambda uri: page(uri, body=b"http://h/1 http://h/2")
    done = work.on(lease("http://h/"))
    assert work.steps == [Step.FETCHING, Step.EXTRACTING, Step.WRITING, Step.FINISHING]
    assert uris(done) == [("L", "http://h/1"), ("L", "http://h/2")]
    assert done.stored_in == 3
    assert [fetch.uri for fetch in work.stored] == ["http://h/"]
    assert (done.report.fetch_status, done.report.toe_number) == (200, 7)
    assert work.stored[0].body.closed


@pytest.mark.parametrize(
    ("path", "is_listed"),
    [("", False), ("L", False), ("PM", True), ("PMM", True), ("PMRR", True), ("PML", False), ("R", False)],
)
def test_what_a_sitemap_or_robots_txt_named_is_told_to_the_extractor(
    work: Work, path: str, is_listed: bool
) -> None:
    work.on(lease("http://h/", path=path))
    assert work.listed == [is_listed]


def test_what_the_store_remarks_is_reported(work: Work) -> None:
    work.notes = ("warcRevisit:digest",)
    assert list(work.on(lease("http://h/")).report.annotations) == ["warcRevisit:digest"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_link_and_comes_first(work: Work, status: int) -> None:
    work.answer = lambda uri: page(uri, status, b"http://h/1", redirect_target="http://h/2")
    assert uris(work.on(lease("http://h/"))) == [("R", "http://h/2"), ("L", "http://h/1")]


@pytest.mark.parametrize("status", [404, 410, 429, 500, 503])
def test_error_pages_are_stored_but_not_searched(work: Work, status: int) -> None:
    work.answer = lambda uri: page(uri, status, b"http://h/1")
    done = work.on(lease("http://h/"))
    assert uris(done) == [] and done.report.fetch_status == status and len(work.stored) == 1


def test_a_page_is_asked_for_with_the_validators_of_its_last_visit(work: Work) -> None:
    work.on(lease("http://h/", etag='"7"', last_modified="yesterday"))
    assert work.fetcher.validators == [Validators('"7"', "yesterday")]


@pytest.mark.parametrize("capture_ms", [0, 1])
def test_archive_asks_with_validators_only_if_it_has_the_page(work: Work, capture_ms: int) -> None:
    """Else a 304 would leave it without one."""
    work.archives = True
    work.on(lease("http://h/", etag='"7"', last_modified="yesterday", capture_ms=capture_ms))
    assert work.fetcher.validators == [Validators('"7"', "yesterday") if capture_ms else Validators()]


@pytest.mark.parametrize("captured", [False, True])
def test_report_has_the_date_of_the_record_that_archives_its_page(work: Work, captured: bool) -> None:
    work.captured = captured
    report = work.on(lease("http://h/")).report
    assert report.HasField("capture_time") is captured
    assert not captured or report.capture_time == report.start_time


def test_a_page_that_has_not_changed_is_an_answer_without_links(work: Work) -> None:
    work.answer = lambda uri: page(uri, 304, b"http://h/1", conditional=True)
    done = work.on(lease("http://h/", etag='"7"', last_digest="sha1:OLD"))
    assert (done.report.fetch_status, done.report.digest, uris(done)) == (304, "sha1:OLD", [])
    assert [fetch.unchanged for fetch in work.stored] == [True]


def test_a_fetch_without_an_answer_is_reported_with_its_status(work: Work) -> None:
    work.answer = lambda uri: page(uri, Status.CONNECT_FAILED)
    done = work.on(lease("http://h/"))
    assert done.report.outcome == OUTCOME_FETCHED and done.report.fetch_status == -2 and uris(done) == []


def test_a_robots_txt_is_reported_with_its_body_and_its_sitemaps(work: Work) -> None:
    body = b"Disallow: /x\nhttp://h/map.xml\n"
    work.answer = lambda uri: page(uri, body=body)
    done = work.on(lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS))
    assert work.fetcher.robots_asked == ["http://h/robots.txt"]
    assert done.report.robots_body == body
    assert done.links == [Outlink("http://h/map.xml", Hop.SITEMAP, "Sitemap")]


def test_sitemaps_are_relative_to_where_a_robots_txt_came_from(work: Work) -> None:
    """RFC 3986 5.1.3: after redirects, that is the last URI."""
    work.answer = lambda uri: page("http://elsewhere/dir/robots.txt", body=b"Sitemap: /sm.xml")
    work.on(lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS))
    assert work.robots_uris == ["http://elsewhere/dir/robots.txt"]


def test_a_robots_txt_is_cut_at_500_kib(work: Work) -> None:
    work.answer = lambda uri: page(uri, body=b"#" * (MAX_ROBOTS_BYTES + 1))
    done = work.on(lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS))
    assert len(done.report.robots_body) == 512_000


def test_a_robots_txt_that_did_not_come_whole_in_time_could_not_be_had(work: Work) -> None:
    """RFC 9309 2.3.1.4: rules may be missing."""
    work.answer = lambda uri: page(uri, body=b"User-agent: *", truncation=Truncation.TIME)
    done = work.on(lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS))
    assert (done.report.fetch_status, done.report.robots_body) == (-4, b"")


@pytest.mark.parametrize(("status", "told"), [(302, -404), (404, 404), (503, 503), (-2, -2)])
def test_a_robots_txt_that_is_none_has_no_body(work: Work, status: int, told: int) -> None:
    work.answer = lambda uri: page(uri, status, b"Disallow: /\nhttp://h/map.xml")
    done = work.on(lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS))
    assert done.report.robots_body == b"" and uris(done) == [] and done.report.fetch_status == told
    assert not done.report.robots_empty
    assert [fetch.status for fetch in work.stored] == [status], "the answer is kept as it was"


@pytest.mark.parametrize(("body", "is_empty"), [(b"", True), (b"\n", False)])
def test_a_robots_txt_of_no_bytes_is_reported_as_empty(work: Work, body: bytes, is_empty: bool) -> None:
    work.answer = lambda uri: page(uri, body=body)
    report = work.on(lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS)).report
    assert (report.fetch_status, report.robots_body, report.robots_empty) == (200, body, is_empty)


def test_a_robots_txt_in_an_unknown_coding_could_not_be_had_and_says_so(work: Work) -> None:
    work.answer = lambda uri: page(uri, body=b"\x8b\0", headers=[(b"Content-Encoding", b"br")])
    report = work.on(lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS)).report
    assert (report.fetch_status, report.robots_body, report.robots_empty) == (-10, b"", False)
    assert list(report.annotations) == ["unknownCoding:br"]


def test_a_page_of_plain_text_in_a_coding_that_it_has_not_says_so(work: Work) -> None:
    headers = [(b"Content-Encoding", b"aws-chunked")]
    work.answer = lambda uri: page(uri, body=b"http://h/1", headers=headers)
    report = work.on(lease("http://h/")).report
    assert list(report.annotations) == ["codingIgnored:aws-chunked"]


def test_an_exception_is_that_uris_outcome_and_nobody_elses(work: Work) -> None:
    """2.20/recoverable: recoverable problems become S_RUNTIME_EXCEPTION, with an annotation."""

    def fail(uri: str) -> FetchResult:
        raise ZeroDivisionError("by, zero")

    work.answer = fail
    done = work.on(lease("http://h/"))
    assert done.report.fetch_status == -5
    assert list(done.report.annotations) == ["ZeroDivisionError:by_zero"]
    assert done.report.reason == "ZeroDivisionError: by, zero"
    assert done.stored_in is None and work.stored == []


def test_a_page_that_breaks_its_extraction_is_stored_and_reported_with_its_redirect(
    work: Work, tmp_path: Path
) -> None:
    def fail(*args: object) -> FoundLinks:
        raise ZeroDivisionError("by zero")

    work.logs = NodeLogs(tmp_path)
    work.outlinks = fail
    work.answer = lambda uri: page(uri, 302, b"http://h/1", redirect_target="http://h/2")
    done = work.on(lease("http://h/"))
    assert (done.report.fetch_status, done.stored_in, len(work.stored)) == (302, 3, 1)
    assert (list(done.report.annotations), done.report.reason) == (["extractorFailed"], "/2")
    assert uris(done) == [("R", "http://h/2")]
    assert "ZeroDivisionError: by zero" in (tmp_path / RUNTIME_ERRORS).read_text()


def test_a_robots_txt_that_breaks_the_search_for_sitemaps_is_obeyed_all_the_same(
    work: Work, tmp_path: Path
) -> None:
    def fail(uri: str, body: bytes) -> list[str]:
        raise ZeroDivisionError("by zero")

    work.logs = NodeLogs(tmp_path)
    work.sitemaps = fail  # type: ignore[method-assign]  # a stage of the test's own
    work.answer = lambda uri: page(uri, body=b"Disallow: /x")
    done = work.on(lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS))
    assert (done.report.fetch_status, done.report.robots_body) == (200, b"Disallow: /x")
    assert list(done.report.annotations) == ["extractorFailed"] and len(work.stored) == 1
    assert "ZeroDivisionError: by zero" in (tmp_path / RUNTIME_ERRORS).read_text()


def test_running_out_of_memory_is_a_serious_error(work: Work) -> None:
    """S4.12: the URI is marked with -3000."""

    def fail(*args: object) -> FoundLinks:
        raise MemoryError

    work.outlinks = fail
    assert work.on(lease("http://h/")).report.fetch_status == -3000


def test_memory_is_kept_in_reserve_and_taken_again_when_it_was_let_go() -> None:
    """S4.12: a reserve, which is freed when there is no more."""
    size_bytes = 10_000_000
    held_bytes: list[int] = []
    tracemalloc.start()
    reserve = MemoryReserve(size_bytes)
    held_bytes.append(tracemalloc.get_traced_memory()[0])
    for act in (reserve.release, reserve.refill):
        act()
        held_bytes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert [held >= size_bytes for held in held_bytes] == [True, False, True]


def test_a_killed_thread_notices_between_two_stages(work: Work) -> None:
    """S4.9: what it fetched is not stored, and has failed."""

    def killed_meanwhile(*args: object) -> FoundLinks:
        assert work.toe is not None
        work.toe.kill()
        return FoundLinks([Outlink("http://h/1", Hop.LINK, "a/@href")])

    work.outlinks = killed_meanwhile
    done = work.on(lease("http://h/"))
    assert (done.report.fetch_status, work.stored, list(done.links)) == (-7000, [], [])
    assert done.report.HasField("fetch_duration"), "its host was asked, and must rest"
    assert work.toe is not None and not work.toe.is_alive()


def test_what_a_thread_brings_after_its_lease_was_taken_away_is_discarded(work: Work) -> None:
    taken: list[object] = []

    def abandoned_meanwhile(*args: object) -> FoundLinks:
        assert work.toe is not None
        taken.append(work.toe.abandon())
        return FoundLinks([])

    work.outlinks = abandoned_meanwhile
    book = LeaseBook()
    book.resize(1)
    book.add([(lease("http://h/"), POLICY)])
    work.toe = ToeThread(7, book, ToeChain(Stages(work.fetcher, work.extract, work.sitemaps, work)), work)
    work.toe.start()
    work.toe.join(PATIENCE_S)
    assert len(taken) == 1 and taken[0] is not None
    assert work.pages == [] and work.stored == []
    assert book.wait_for_room() == 2, "nobody is at work"


def test_what_cannot_be_stored_is_not_reported_but_put_off(work: Work) -> None:
    work.answer = lambda uri: page(uri, body=b"http://h/1")
    work.append_error = OSError(28, "No space left on device")
    done = work.on(lease("http://h/"))
    assert (done.report.outcome, done.report.fetch_status) == (OUTCOME_FETCHED, -50)
    assert uris(done) == [] and done.report.body_bytes == 0


def test_an_interrupted_fetch_is_put_off_so_that_its_host_rests(work: Work) -> None:
    work.answer = lambda uri: page(uri, Status.PROCESSING_THREAD_KILLED)
    report = work.on(lease("http://h/")).report
    assert (report.outcome, report.fetch_status) == (OUTCOME_FETCHED, -50)
    assert report.HasField("fetch_duration") and work.stored == []


@pytest.mark.parametrize("purpose", [PURPOSE_PAGE, PURPOSE_ROBOTS])
def test_a_fetch_that_the_frontier_wants_broken_off_has_failed(
    work: Work, purpose: Purpose.ValueType
) -> None:
    """S0.17: a second stop interrupts toe threads; section 2.20: what they were at fails with -7000."""
    book = LeaseBook()

    def killed(uri: str) -> FetchResult:
        assert book.kill([uri.encode()]) == []
        return page(uri, Status.PROCESSING_THREAD_KILLED, body=b"half", annotations=("cut",))

    work.answer = killed
    report = work.on(lease("http://h/", purpose=purpose), book=book).report
    assert (report.outcome, report.fetch_status, report.toe_number) == (OUTCOME_FETCHED, -7000, 7)
    assert report.HasField("fetch_duration") and not report.body_bytes and work.stored == []


def test_a_fetch_that_ended_before_it_could_be_broken_off_is_reported_as_it_is(work: Work) -> None:
    book = LeaseBook()

    def killed_too_late(uri: str) -> FetchResult:
        book.kill([uri.encode()])
        return page(uri, body=b"http://h/1")

    work.answer = killed_too_late
    done = work.on(lease("http://h/"), book=book)
    assert done.report.fetch_status == 200 and uris(done) == [("L", "http://h/1")]


def test_a_lapsed_lease_is_handed_back_unstarted(work: Work) -> None:
    now_s = iter([0.0, 30.0])
    done = work.on(lease("http://h/"), book=LeaseBook(lambda: next(now_s)))
    assert done.report.outcome == OUTCOME_RELEASED
    assert Step.FETCHING not in work.steps


def test_a_lease_whose_policy_is_unknown_fails(work: Work) -> None:
    done = work.on(lease("http://h/"), with_policy=False)
    assert done.report.fetch_status == -5 and list(done.report.annotations) == ["noFetchPolicy"]


def test_what_the_extractors_remark_is_reported(work: Work) -> None:
    work.outlinks = lambda *args: FoundLinks([], ("nofollow", "linksCut"))
    assert list(work.on(lease("http://h/")).report.annotations) == ["nofollow", "linksCut"]


def test_a_toe_at_work_is_not_free_before_its_page_is_handed_over(work: Work) -> None:
    book = LeaseBook()
    room_at_hand_over: list[int] = []
    put = work.put

    def note_room(page: FinishedPage) -> None:
        room_at_hand_over.append(book.wait_for_room())
        put(page)

    work.put = note_room  # type: ignore[method-assign]
    work.on(lease("http://h/"), book=book)
    assert room_at_hand_over == [1] and book.wait_for_room() == 2


def test_a_thread_that_dies_hands_its_lease_back_first(work: Work) -> None:
    """S4.11: what is meant to end threads ends it. S4.13: what it had not finished goes back with -7000."""

    def die(*args: object) -> FoundLinks:
        raise SystemExit

    work.outlinks = die
    assert work.on(lease("http://h/")).report.fetch_status == -7000
    assert work.toe is not None and not work.toe.is_alive()


@pytest.mark.parametrize("keeps", [True, False])
def test_a_redirect_has_the_marks_of_its_cookies(
    work: Work, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    """That of the page, and those of its targets now; a crawl without cookies has none, and asks for none."""
    asked: list[str] = []
    with_cookies = replace(POLICY, cookies=keeps)
    monkeypatch.setattr(sys.modules[__name__], "POLICY", with_cookies)

    def mark(uri: str, policy: FetchPolicy, crawl: str) -> bytes:
        asked.append(uri)
        assert (policy, crawl) == (with_cookies, "crawl")
        return b"now of " + uri.encode()

    monkeypatch.setattr(work.fetcher, "cookie_mark", mark)
    target = "http://h/to"
    work.answer = lambda uri: page(uri, 302, b"http://h/1", redirect_target=target, cookie_mark=b"sent")
    done = work.on(lease("http://h/"))
    assert done.cookies_sent == b"sent"
    assert (asked, dict(done.cookies_now)) == (
        ([target], {target: b"now of http://h/to"}) if keeps else ([], {})
    )


def test_a_redirect_whose_targets_cookies_cannot_be_had_is_put_off(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise CookiesUnavailable("no supervisor")

    monkeypatch.setattr(sys.modules[__name__], "POLICY", replace(POLICY, cookies=True))
    monkeypatch.setattr(work.fetcher, "cookie_mark", fail)
    work.answer = lambda uri: page(uri, 302, redirect_target="http://h/to")
    done = work.on(lease("http://h/"))
    assert (done.report.fetch_status, done.report.reason) == (Status.DEFERRED, "no supervisor")
    assert (list(done.links), work.stored) == ([], [])


@pytest.mark.parametrize("purpose", [PURPOSE_PAGE, PURPOSE_ROBOTS])
def test_a_page_whose_cookies_cannot_be_had_is_put_off(purpose: Purpose.ValueType) -> None:
    """Neither what came is stored, nor are its links followed."""
    work = Work()
    work.answer = lambda uri: page(uri, Status.DEFERRED, b"http://h/1", reason="no supervisor")
    done = work.on(lease("http://h/", purpose=purpose))
    assert (done.report.outcome, done.report.fetch_status) == (OUTCOME_FETCHED, Status.DEFERRED)
    assert (done.report.reason, list(done.links), work.stored) == ("no supervisor", [], [])
