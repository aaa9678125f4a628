"""The reporter: what is told to the frontier, in which order, and what its refusals mean."""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pytest
from frontier_harness.waiting import PATIENCE_S, eventually
from node_doubles.leases import held, lease
from node_doubles.reporting import Rig

from crawler_node.extraction.links import LOCATION, Hop, Outlink
from crawler_node.leases import reporter as reporter_module
from crawler_node.leases.report import FinishedPage, released
from toehold.frontier.v1.crawl_pb2 import (
    DISPOSITION_INVALID_REPORT,
    DISPOSITION_SUCCEEDED,
    VERDICT_ALREADY_QUEUED,
    VERDICT_ALREADY_SEEN,
    VERDICT_OUT_OF_SCOPE,
    VERDICT_QUEUED,
    Verdict,
)
from toehold.frontier.v1.frontier_pb2 import Candidate, Report, ReportResult
from toehold_client import errors
from toehold_client.worker.rests import MAX_FAILURES, Rests


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rests, "FIRST_S", 0.001)
    monkeypatch.setattr(Rests, "LONGEST_S", 0.002)
    monkeypatch.setattr(Rests, "LONGEST_ASKED_S", 0.002)


def test_a_batch_is_stored_then_its_links_are_offered_then_it_is_reported(rig: Rig) -> None:
    synced_when_offered: list[list[str]] = []

    def offered(crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        synced_when_offered.append(list(rig.writer.synced))
        return [VERDICT_QUEUED] * len(candidates)

    rig.client.on_schedule = offered
    rig.put("a", "1")
    rig.put("b", "2")
    rig.report()
    assert synced_when_offered == [["a", "b"]]
    assert rig.client.told == [("schedule", ["1", "2"]), ("finished", ["a", "b"])]
    assert rig.book.tokens() == []


def test_leases_stay_held_until_the_frontier_has_their_report(rig: Rig) -> None:
    held_meanwhile: list[Collection[bytes]] = []

    def finished(reports: Sequence[Report]) -> list[ReportResult]:
        held_meanwhile.append(rig.book.tokens())
        return [ReportResult(disposition=DISPOSITION_SUCCEEDED)]

    rig.client.on_finished = finished
    rig.put("a")
    rig.report()
    assert held_meanwhile == [[b"a"]] and rig.book.tokens() == []


def test_a_page_without_links_is_reported_without_an_offer(rig: Rig) -> None:
    rig.put("a")
    rig.report()
    assert rig.client.told == [("finished", ["a"])]


def test_a_candidate_says_where_it_was_found(rig: Rig) -> None:
    rig.put("a", "1", "R:2", path="LE")
    rig.report()
    assert [(c.uri, c.via, c.path) for c in rig.client.candidates] == [("2", "a", "LER"), ("1", "a", "LEL")]


def test_a_link_has_the_source_of_the_page_that_it_was_found_on(rig: Rig) -> None:
    rig.put("a", "1", "R:2", source="http://seed.example/")
    rig.put("b", "3", source="http://other.example/")
    rig.report()
    assert {c.uri: c.source for c in rig.client.candidates} == {
        "1": "http://seed.example/",
        "2": "http://seed.example/",
        "3": "http://other.example/",
    }


def test_a_link_is_offered_once_a_batch_by_the_path_with_the_fewest_hops(rig: Rig) -> None:
    rig.put("deep", "1", "2", path="LLL")
    rig.put("seed", "2", "1", path="")
    rig.report()
    assert [(c.uri, c.path) for c in rig.client.candidates] == [("2", "L"), ("1", "L")]


def test_redirects_go_first_and_go_also_when_they_are_linked_to(rig: Rig) -> None:
    """A seed's redirect widens the scope that links are judged by."""
    rig.put("a", "1")
    rig.put("b", "R:1")
    rig.report()
    assert [(c.uri, c.path) for c in rig.client.candidates] == [("1", "R"), ("1", "L")]


def test_each_crawls_links_go_to_that_crawl(rig: Rig) -> None:
    crawls: list[str] = []

    def offered(crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        crawls.append(crawl)
        return [VERDICT_QUEUED] * len(candidates)

    rig.client.on_schedule = offered
    rig.put("a", "1", crawl="one")
    rig.put("b", "1", crawl="two")
    rig.report()
    assert crawls == ["one", "two"]
    assert rig.client.told[-1] == ("finished", ["a", "b"])


def test_the_reporter_gives_the_chain_of_redirects_to_targets_and_not_to_links(rig: Rig) -> None:
    """From each source: a target may be fetched for the sake of one, and not of another."""
    page, other = rig.page("http://h/a"), rig.page("http://h/b")
    page.held.lease.redirects, other.held.lease.redirects = b"of a", b"of b"
    location = Outlink("http://h/t", Hop.REDIRECT, LOCATION)
    found = [location, Outlink("http://h/link", Hop.LINK, "a/@href")]
    rig.reporter.put(FinishedPage(page.held, page.report, found, page.stored_in))
    rig.reporter.put(FinishedPage(other.held, other.report, [location], other.stored_in))
    rig.report()
    told = [(each.uri, each.via, each.redirects) for each in rig.client.candidates]
    assert told == [
        ("http://h/t", "http://h/a", b"of a"),
        ("http://h/t", "http://h/b", b"of b"),
        ("http://h/link", "http://h/a", b""),
    ]


@pytest.mark.parametrize("location_first", [False, True])
def test_a_location_is_offered_after_the_refreshes_of_its_page(rig: Rig, location_first: bool) -> None:
    """The frontier takes the last one for where a seed leads."""
    page = rig.page("http://h/a")
    found = [
        Outlink("http://h/there", Hop.REDIRECT, LOCATION),
        Outlink("http://h/header", Hop.REDIRECT, "Refresh"),
        Outlink("http://h/meta", Hop.REDIRECT, "meta/@content"),
    ]
    rig.reporter.put(
        FinishedPage(page.held, page.report, found if location_first else found[::-1], page.stored_in)
    )
    rig.report()
    assert rig.client.candidates[-1].uri == "http://h/there" and len(rig.client.candidates) == len(found)


@pytest.mark.parametrize(
    ("context", "target", "told"),
    [
        (LOCATION, "http://h/a", b"chain"),
        ("Refresh", "http://h/b", b"chain"),
        ("meta/@content", "http://h/b", b"chain"),
        ("Refresh", "http://h/a", b""),
        ("meta/@content", "http://h/a", b""),
    ],
)
def test_a_page_that_only_reloads_itself_is_not_fetched_again(
    rig: Rig, context: str, target: str, told: bytes
) -> None:
    page = rig.page("http://h/a")
    page.held.lease.redirects = b"chain"
    link = Outlink(target, Hop.REDIRECT, context)
    rig.reporter.put(FinishedPage(page.held, page.report, [link], page.stored_in))
    rig.report()
    assert [each.redirects for each in rig.client.candidates] == [told]


@pytest.mark.parametrize(
    ("context", "target", "sent", "now", "is_told"),
    [
        (LOCATION, "http://h/a", b"", b"new", True),
        (LOCATION, "http://h/b", b"old", b"", True),
        ("Refresh", "http://h/b", b"old", b"new", True),
        ("Refresh", "http://h/a", b"", b"new", True),
        ("meta/@content", "http://h/a", b"", b"new", True),
        ("meta/@content", "http://h/a", b"old", b"new", False),
    ],
)
def test_the_target_of_a_redirect_has_the_marks_of_its_cookies(
    rig: Rig, context: str, target: str, sent: bytes, now: bytes, is_told: bool
) -> None:
    """A page that reloads itself may be a cookie wall if it has set the first cookie."""
    page = rig.page("http://h/a")
    page.held.lease.redirects = b"chain"
    found = [Outlink(target, Hop.REDIRECT, context), Outlink("http://h/link", Hop.LINK, "a/@href")]
    rig.reporter.put(FinishedPage(page.held, page.report, found, page.stored_in, sent, {target: now}))
    rig.report()
    told = [(each.redirects, each.cookies_sent, each.cookies_now) for each in rig.client.candidates]
    assert told == [(b"chain", sent, now) if is_told else (b"", b"", b""), (b"", b"", b"")]


@pytest.mark.parametrize(
    ("path", "target", "verdict", "notes"),
    [
        ("R", "http://h/a", VERDICT_ALREADY_QUEUED, ["redirectLoop"]),
        ("R", "http://h/via", VERDICT_ALREADY_SEEN, ["redirectLoop"]),
        ("R", "http://h/a", VERDICT_QUEUED, []),
        ("R", "http://h/login", VERDICT_ALREADY_SEEN, []),
        ("R", "http://h/via", VERDICT_OUT_OF_SCOPE, []),
        ("L", "http://h/a", VERDICT_ALREADY_SEEN, ["redirectLoop"]),
        ("L", "http://h/via", VERDICT_ALREADY_SEEN, []),
        ("RM", "http://h/via", VERDICT_ALREADY_SEEN, []),
    ],
)
def test_a_page_that_redirects_back_in_vain_says_so(
    rig: Rig, path: str, target: str, verdict: Verdict.ValueType, notes: list[str]
) -> None:
    """A page that links to it, as a home page does to `/index`, has not redirected to it."""
    page = rig.page("http://h/a", path=path)
    page.held.lease.redirects, page.held.lease.via = b"chain", "http://h/via"
    rig.client.on_schedule = lambda crawl, offered: [verdict] * len(offered)
    found = [Outlink(target, Hop.REDIRECT, LOCATION)]
    rig.reporter.put(FinishedPage(page.held, page.report, found, page.stored_in))
    rig.report()
    assert rig.annotations() == {"http://h/a": notes}


def test_refused_links_are_narrowed_down_to_their_page(rig: Rig) -> None:
    def offered(crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        if any(candidate.uri == "bad" for candidate in candidates):
            raise errors.InvalidArgument("no")
        return [VERDICT_QUEUED] * len(candidates)

    rig.client.on_schedule = offered
    for uri in "a", "b", "c", "d", "e":
        rig.put(uri, "bad" if uri == "d" else f"of {uri}")
    rig.report()
    assert sorted(c.uri for c in rig.client.candidates) == ["of a", "of b", "of c", "of e"]
    assert rig.annotations() == {"a": [], "b": [], "c": [], "d": ["linksRefused"], "e": []}


def test_pages_of_a_crawl_that_is_over_are_reported_without_their_links(rig: Rig) -> None:
    def offered(crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        raise errors.CrawlFinished("it has finished")

    rig.client.on_schedule = offered
    rig.put("a", "1")
    rig.put("b", "2")
    rig.report()
    assert rig.client.told == [("schedule", ["1", "2"]), ("finished", ["a", "b"])]
    assert rig.annotations() == {"a": [], "b": []}


def test_a_refused_report_holds_up_no_other(rig: Rig) -> None:
    def finished(reports: Sequence[Report]) -> list[ReportResult]:
        if any(report.token == b"b" and report.fetch_status == 200 for report in reports):
            raise errors.InvalidArgument("no")
        return [ReportResult(disposition=DISPOSITION_SUCCEEDED)] * len(reports)

    rig.client.on_finished = finished
    for uri in "a", "b", "c":
        rig.put(uri)
    rig.report()
    told = {report.token.decode(): report.fetch_status for report in rig.client.reports}
    assert told == {"a": 200, "c": 200, "b": -5}
    assert rig.annotations()["b"] == ["reportRefused"]


def test_a_report_that_makes_no_sense_is_replaced_by_one_that_does(rig: Rig) -> None:
    def finished(reports: Sequence[Report]) -> list[ReportResult]:
        return [
            ReportResult(
                disposition=DISPOSITION_INVALID_REPORT if r.fetch_status > 0 else DISPOSITION_SUCCEEDED
            )
            for r in reports
        ]

    rig.client.on_finished = finished
    rig.put("a")
    rig.report()
    assert [report.fetch_status for report in rig.client.reports] == [200, -5]


def times(count: int, error: Exception) -> Callable[[], None]:
    """Raises an error so many times, then no more."""
    left = [error] * count

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


@pytest.mark.parametrize(
    "error", [errors.FrontierUnavailable("away"), errors.Overloaded("much to do", retry_after_s=60)]
)
def test_a_batch_waits_for_the_frontier_and_the_next_one_waits_behind_it(rig: Rig, error: Exception) -> None:
    fail = times(3, error)

    def offered(crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        fail()
        if not any(page.held.lease.uri == "b" for page in later):
            later.append(rig.put("b"))
        return [VERDICT_QUEUED] * len(candidates)

    later: list[FinishedPage] = []
    rig.client.on_schedule = offered
    rig.put("a", "1")
    rig.report()
    assert rig.client.told == [("schedule", ["1"])] * 4 + [("finished", ["a"]), ("finished", ["b"])]


def test_a_frontier_that_fails_for_no_named_reason_is_asked_a_few_times(rig: Rig) -> None:
    fail = times(MAX_FAILURES - 1, errors.UnexpectedAnswer("INTERNAL"))

    def finished(reports: Sequence[Report]) -> list[ReportResult]:
        fail()
        return [ReportResult(disposition=DISPOSITION_SUCCEEDED)] * len(reports)

    rig.client.on_finished = finished
    rig.put("a")
    rig.report()
    assert len(rig.client.told) == MAX_FAILURES and rig.annotations() == {"a": []}


def test_pages_whose_records_are_not_durable_are_put_off(rig: Rig) -> None:
    rig.put("a", "1")
    rig.put("b", "2")
    later = rig.page("appended before the error, and finished after it")
    rig.writer.fail_sync = True
    rig.report()
    rig.writer.fail_sync = False
    rig.reporter.put(later)
    rig.put("c", "3")
    rig.report()
    put_off = {report.token.decode(): report.fetch_status == -50 for report in rig.client.reports}
    assert put_off == {"a": True, "b": True, later.held.lease.uri: True, "c": False}
    assert [c.uri for c in rig.client.candidates] == ["3"]


def test_a_page_with_nothing_stored_is_reported_although_nothing_can_be(rig: Rig) -> None:
    rig.writer.fail_sync = True
    rig.put("a", status=-2)
    rig.report()
    assert [report.fetch_status for report in rig.client.reports] == [-2]


def test_leases_that_have_ended_are_not_reported_and_their_links_not_offered(rig: Rig) -> None:
    rig.put("a", "1")
    rig.put("b", "2")
    rig.book.end([b"a"])
    rig.report()
    assert rig.client.told == [("schedule", ["2"]), ("finished", ["b"])]
    assert rig.book.tokens() == []


def test_leases_are_handed_back(rig: Rig) -> None:
    (one,) = held(rig.book, lease("a"))
    rig.reporter.give_back([one])
    rig.report()
    assert rig.client.reports == [released(one.lease)]
    assert rig.book.tokens() == []


@pytest.fixture
def running(rig: Rig) -> Iterator[Rig]:
    """A reporter at work in its own thread."""
    thread = threading.Thread(target=rig.reporter.run)
    thread.start()
    yield rig
    rig.client.gate.set()
    rig.reporter.lift_bound()
    rig.reporter.abandon()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_single_page_is_reported_at_once(running: Rig) -> None:
    running.put("a")
    eventually(lambda: running.client.told == [("finished", ["a"])])


def test_what_finishes_while_a_batch_is_under_way_is_the_next_lot(running: Rig) -> None:
    running.client.gate.clear()
    running.put("a")
    eventually(lambda: running.client.waiting)
    for uri in "b", "c", "d":
        running.put(uri)
    running.client.gate.set()
    eventually(lambda: running.client.told == [("finished", ["a"]), ("finished", ["b", "c", "d"])])


@pytest.mark.parametrize(
    ("bound", "value", "links"), [("MAX_BACKLOG_PAGES", 2, 0), ("MAX_BACKLOG_BYTES", 400, 1)]
)
def test_toes_wait_while_too_much_waits_to_be_reported(
    running: Rig, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, links: int
) -> None:
    monkeypatch.setattr(reporter_module, bound, value)
    running.client.gate.clear()
    running.put("in hand")
    eventually(lambda: running.client.waiting)
    for uri in "b", "c":
        running.put(uri, *["x" * 100] * links)
    toe = threading.Thread(target=running.put, args=("d",))
    toe.start()
    toe.join(0.05)
    assert toe.is_alive()
    assert running.reporter.unreported_count() == 3
    running.reporter.give_back([])  # never waits
    running.client.gate.set()
    toe.join(PATIENCE_S)
    eventually(lambda: {report.token for report in running.client.reports} == {b"in hand", b"b", b"c", b"d"})


def test_at_the_end_no_toe_waits_any_more(running: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "MAX_BACKLOG_PAGES", 0)
    running.client.gate.clear()
    toe = threading.Thread(target=running.put, args=("a",))
    toe.start()
    running.reporter.lift_bound()
    toe.join(PATIENCE_S)
    assert not toe.is_alive()


def test_an_abandoned_reporter_ends_although_the_frontier_is_away(rig: Rig) -> None:
    def finished(reports: Sequence[Report]) -> list[ReportResult]:
        rig.reporter.abandon()
        raise errors.FrontierUnavailable("away")

    rig.client.on_finished = finished
    rig.put("a")
    rig.reporter.run()
    assert rig.reporter.unreported_count() == 1


def test_a_superseded_session_ends_the_reporting(rig: Rig) -> None:
    def finished(reports: Sequence[Report]) -> list[ReportResult]:
        raise errors.SessionSuperseded("somebody else is `node` now")

    rig.client.on_finished = finished
    rig.put("a")
    with pytest.raises(errors.SessionSuperseded, match="somebody else"):
        rig.reporter.run()
