"""The outbox: pages that wait for a shard of the frontier hold up no others, and go when it is back."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from frontier_harness.waiting import PATIENCE_S, eventually
from node_doubles.leases import held, lease
from node_doubles.reporting import Rig
from structlog.testing import capture_logs

from crawler_node.leases import outbox, reporter
from crawler_node.leases.report import released
from toehold.frontier.v1.crawl_pb2 import (
    DISPOSITION_AWAY,
    DISPOSITION_INVALID_REPORT,
    DISPOSITION_SUCCEEDED,
    VERDICT_ALREADY_SEEN,
    VERDICT_AWAY,
    VERDICT_QUEUED,
    Verdict,
)
from toehold.frontier.v1.frontier_pb2 import Candidate, Report, ReportResult
from toehold_client.errors import CrawlFinished, InvalidArgument


class Shards:
    """A frontier whose shards are away by the first letter of what they have: of links, and of pages."""

    def __init__(self, rig: Rig, away: str = "") -> None:
        self.away = set(away)
        self.offers = 0
        rig.client.on_schedule = self.schedule
        rig.client.on_finished = self.finished

    def schedule(self, crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        self.offers += 1
        return [VERDICT_AWAY if each.uri[0] in self.away else VERDICT_QUEUED for each in candidates]

    def finished(self, reports: Sequence[Report]) -> list[ReportResult]:
        away = [chr(report.token[0]) in self.away for report in reports]
        return [ReportResult(disposition=DISPOSITION_AWAY if one else DISPOSITION_SUCCEEDED) for one in away]


def told(rig: Rig, what: str) -> list[list[str]]:
    return [about for kind, about in rig.client.told if kind == what]


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "REST_S", 0.005)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def running(rig: Rig) -> Iterator[Rig]:
    """A reporter at work in its own thread."""
    thread = threading.Thread(target=rig.reporter.run)
    thread.start()
    yield rig
    rig.reporter.lift_bound()
    rig.reporter.abandon()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_page_whose_links_wait_for_a_shard_holds_up_no_others(running: Rig) -> None:
    shards = Shards(running, away="z")
    running.put("a", "x1", "z1")
    eventually(lambda: shards.offers > 2)
    running.put("b", "x2")
    eventually(lambda: told(running, "finished") == [["b"]])
    eventually(lambda: running.book.tokens() == [b"a"])
    eventually(lambda: running.reporter.unreported_count() == 1)


def test_a_page_is_reported_after_the_last_of_its_links(running: Rig) -> None:
    shards = Shards(running, away="yz")
    running.put("a", "x1", "y1", "z1")
    eventually(lambda: shards.offers > 2)
    shards.away = {"z"}
    eventually(lambda: ["z1"] in told(running, "schedule"))
    assert told(running, "finished") == []
    shards.away = set()
    eventually(lambda: running.book.tokens() == [])
    assert running.client.told[-2:] == [("schedule", ["z1"]), ("finished", ["a"])]
    eventually(lambda: running.reporter.unreported_count() == running.reporter.outbox_count() == 0)


def test_only_the_links_that_wait_are_offered_again(running: Rig) -> None:
    shards = Shards(running, away="z")
    running.put("a", "x1", "z1", "R:z2", "R:x2")
    eventually(lambda: shards.offers > 2)
    assert told(running, "schedule")[:2] == [["z2", "x2", "x1", "z1"], ["z2", "z1"]]


def test_a_link_that_waits_is_not_known_and_holds_up_each_page_that_has_it(running: Rig) -> None:
    """The lease of the page that it was offered for may end."""
    held(running.book, lease("keeps the crawl in hand"))
    shards = Shards(running, away="z")
    running.put("a", "z1")
    eventually(lambda: shards.offers > 2)
    running.put("b", "z1")
    eventually(lambda: running.reporter.outbox_count() == 2)
    assert told(running, "finished") == []
    running.book.end([b"a"])
    shards.away = set()
    eventually(lambda: told(running, "finished") == [["b"]])
    running.put("c", "z1")
    eventually(lambda: told(running, "finished") == [["b"], ["c"]])
    offered = len(told(running, "schedule"))
    running.put("d", "z1", "x1")
    eventually(lambda: told(running, "schedule")[offered:] == [["x1"]])


def test_a_report_waits_for_its_shard_alone(running: Rig) -> None:
    shards = Shards(running, away="z")
    running.put("z page", "x1")
    eventually(lambda: told(running, "finished").count(["z page"]) > 2)
    running.put("a", "x2")
    eventually(lambda: ["a"] in told(running, "finished"))
    eventually(lambda: running.book.tokens() == [b"z page"])
    shards.away = set()
    eventually(lambda: running.book.tokens() == [])
    assert told(running, "schedule") == [["x1"], ["x2"]]


def test_a_report_that_replaces_a_refused_one_waits_for_its_shard(running: Rig) -> None:
    answers = [DISPOSITION_INVALID_REPORT, DISPOSITION_AWAY, DISPOSITION_AWAY, DISPOSITION_SUCCEEDED]
    running.client.on_finished = lambda reports: [ReportResult(disposition=answers.pop(0))]
    running.put("a")
    eventually(lambda: running.book.tokens() == [])
    assert [report.fetch_status for report in running.client.reports] == [200, -5, -5, -5]


def test_the_records_of_a_page_that_waits_stay_durable(running: Rig) -> None:
    """A later sync that fails concerns later pages alone."""
    shards = Shards(running, away="z")
    running.put("a", "z1")
    eventually(lambda: shards.offers > 2)
    running.writer.fail_sync = True
    running.put("b")
    eventually(lambda: ["b"] in told(running, "finished"))
    shards.away = set()
    eventually(lambda: running.book.tokens() == [])
    statuses = {report.token.decode(): report.fetch_status for report in running.client.reports}
    assert statuses == {"b": -50, "a": 200}


def test_a_page_whose_lease_ends_leaves_the_outbox_unreported(running: Rig) -> None:
    shards = Shards(running, away="z")
    running.put("a", "z1")
    eventually(lambda: shards.offers > 2)
    running.book.end([b"a"])
    eventually(lambda: running.book.tokens() == [])
    eventually(lambda: running.reporter.unreported_count() == 0)
    assert told(running, "finished") == []


def test_pages_that_wait_are_reported_when_their_crawl_is_over(running: Rig) -> None:
    def over(crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        raise CrawlFinished("it has finished")

    shards = Shards(running, away="z")
    running.put("a", "z1")
    eventually(lambda: shards.offers > 2)
    running.client.on_schedule = over
    eventually(lambda: told(running, "finished") == [["a"]])


def test_a_page_that_waits_and_is_refused_then_holds_up_no_others(running: Rig) -> None:
    def offered(crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        if any(candidate.uri == "z bad" for candidate in candidates):
            raise InvalidArgument("no")
        return [VERDICT_QUEUED] * len(candidates)

    shards = Shards(running, away="z")
    running.put("a", "z bad")
    running.put("b", "z1")
    eventually(lambda: running.reporter.outbox_count() == 2 or shards.offers > 4)
    running.client.on_schedule = offered
    eventually(lambda: running.book.tokens() == [])
    assert running.annotations() == {"a": ["linksRefused"], "b": []}


def test_a_link_that_another_page_brought_in_is_not_offered_again(running: Rig) -> None:
    held(running.book, lease("keeps the crawl in hand"))
    shards = Shards(running, away="z")
    running.put("a", "z1")
    eventually(lambda: shards.offers > 2)
    running.client.on_schedule = lambda crawl, candidates: [VERDICT_ALREADY_SEEN] * len(candidates)
    eventually(lambda: told(running, "finished") == [["a"]])


@pytest.mark.parametrize(("bound", "value"), [("MAX_PAGES", 1), ("MAX_BYTES", 100)])
def test_while_the_outbox_is_full_finished_pages_wait(
    running: Rig, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(outbox, bound, value)
    shards = Shards(running, away="z")
    running.put("a", "z1")
    eventually(lambda: shards.offers > 2)
    running.put("b")
    seen = shards.offers
    eventually(lambda: shards.offers > seen + 2)
    assert told(running, "finished") == []
    assert running.reporter.unreported_count() == 2
    shards.away = set()
    eventually(lambda: running.book.tokens() == [])
    assert sorted(uri for uris in told(running, "finished") for uri in uris) == ["a", "b"]


def test_a_full_outbox_is_tried_a_part_at_a_time_while_the_shard_is_away(
    running: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in its turn, so that pages of a shard that is back do not wait for those of another."""
    monkeypatch.setattr(outbox, "MAX_TRIED_PAGES", 2)
    shards = Shards(running, away="yz")
    for index in range(5):
        running.put(f"a{index}", f"z{index}")
    running.put("b", "y")
    eventually(lambda: running.reporter.outbox_count() == 6)
    seen = len(told(running, "schedule"))
    shards.away = {"z"}
    eventually(lambda: told(running, "finished") == [["b"]])
    assert max(len(uris) for uris in told(running, "schedule")[seen:]) <= 2
    shards.away = set()
    eventually(lambda: running.book.tokens() == [])


def test_pages_rest_until_some_of_those_that_were_tried_leave(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "REST_S", 0.5)
    monkeypatch.setattr(outbox, "MAX_TRIED_PAGES", 2)
    now_s = 10.0
    waiting = outbox.Outbox(lambda: now_s)

    def rest_s() -> float | None:
        return waiting.rest_s

    assert rest_s() is None
    waiting.put([rig.page(uri, "z") for uri in ("a", "b", "c", "d")])
    assert rest_s() == 0.5
    now_s = 10.4
    waiting.put([rig.page("e", "z")])
    assert rest_s() == pytest.approx(0.1)
    now_s = 10.6
    tried = waiting.take()
    waiting.put(tried)
    assert rest_s() == 0.5, "none has left"
    now_s = 11.2
    tried = waiting.take()
    waiting.put(tried[1:])
    assert rest_s() == 0, "one has left"
    assert [page.held.lease.uri for page in tried] == ["c", "d"]
    assert [page.held.lease.uri for page in waiting.take()] == ["e", "a"]


def test_the_end_waits_for_the_pages_in_the_outbox(rig: Rig) -> None:
    shards = Shards(rig, away="z")
    rig.put("a", "z1")
    rig.reporter.finish()
    thread = threading.Thread(target=rig.reporter.run)
    thread.start()
    eventually(lambda: shards.offers > 2)
    assert thread.is_alive()
    shards.away = set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert told(rig, "finished") == [["a"]]


@pytest.mark.parametrize("room", [1, outbox.MAX_PAGES])
def test_the_end_hands_back_pages_whose_links_wait_in_vain_and_leaves_reports_that_do(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(outbox, "MAX_PAGES", room)
    monkeypatch.setattr(reporter, "MAX_BATCH_PAGES", 1)
    monkeypatch.setattr(reporter, "HAND_BACK_S", 0.1)
    shards = Shards(rig, away="z")
    page = rig.put("a", "z1")
    rig.put("z page", "x1")
    rig.put("b", "x2")
    rig.reporter.finish(patience_s=0.1)
    thread = threading.Thread(target=rig.reporter.run)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert rig.book.tokens() == [b"z page"] and rig.reporter.unreported_count() == 1
    assert rig.client.reports.count(released(page.held.lease)) == 1
    assert shards.offers > 2


def test_an_abandoned_reporter_ends_with_pages_in_the_outbox(rig: Rig) -> None:
    shards = Shards(rig, away="z")
    rig.put("a", "z1")
    thread = threading.Thread(target=rig.reporter.run)
    thread.start()
    eventually(lambda: shards.offers > 2)
    rig.reporter.abandon()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert rig.reporter.unreported_count() == 1
    assert told(rig, "finished") == []


def test_a_page_whose_links_have_waited_too_long_is_handed_back(
    running: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease would lapse, which counts as a failure of its URI."""
    shards = Shards(running, away="z")
    page = running.put("a", "z1")
    eventually(lambda: shards.offers > 2)
    assert outbox.longest_wait_s(page, 1.0) == 10.0, "the time of a fetch"
    assert outbox.longest_wait_s(page, 30.0) == 150.0, "half of the ten periods that a lease lives"
    monkeypatch.setattr(reporter, "longest_wait_s", lambda page, period_s: 0.01)
    eventually(lambda: running.book.tokens() == [])
    assert running.client.reports == [released(page.held.lease)]


def test_the_log_says_once_that_pages_wait_and_once_that_none_does(running: Rig) -> None:
    with capture_logs() as lines:
        shards = Shards(running, away="z")
        running.put("a", "z1")
        running.put("b", "z2")
        eventually(lambda: shards.offers > 4)
        shards.away = set()
        eventually(lambda: running.book.tokens() == [])
        eventually(lambda: any(line["event"] == "outbox_empty" for line in lines))
    known = [line for line in lines if line["event"].startswith("outbox_")]
    assert [line["event"] for line in known] == ["outbox_begun", "outbox_empty"]
    assert {*known[0]} == {"event", "log_level", "pages"}
