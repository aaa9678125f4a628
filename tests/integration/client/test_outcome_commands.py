"""Outcomes and reasons: `toehold report`, `refusals`, `outcomes`, `uris show` and `reopen`."""

import re

import grpc
import pytest
from client_doubles.command_line import RUNNING, TIME, said, status
from client_doubles.fake_frontier import FakeFrontier, Refusal
from frontier_harness.command_line import Toehold
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1.admin_pb2 import (
    Crawl,
    GetCrawlResponse,
    GetStatisticsResponse,
    GetUriResponse,
    ListRefusalsRequest,
    ListRefusalsResponse,
    ListSeedsResponse,
    RefusalRule,
    ReopenCrawlResponse,
    Seed,
    SeedResult,
    StreamOutcomesResponse,
    UriOutcome,
    UriStory,
)
from toehold.frontier.v1.admin_pb2 import Refusal as Refused
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, Disposition, LimitSpec, Statistics

FAILED = SeedResult.SEED_RESULT_FAILED
SEEDS = [
    Seed(uri="http://a.com/", outcome="fetched (200)", result=SeedResult.SEED_RESULT_FETCHED),
    Seed(uri="http://b.com/", outcome="answered 404", result=SeedResult.SEED_RESULT_ERROR),
    Seed(uri="http://docs.example/", outcome="name not found", result=FAILED),
    Seed(uri="http://127.0.0.1/", outcome="address refused: 127.0.0.1 is not public", result=FAILED),
    Seed(uri="http://c.com/", outcome="not fetched yet", result=SeedResult.SEED_RESULT_PENDING),
]
HOPS = RefusalRule(
    rule="scope.max_link_hops",
    refused_count=1_200,
    message="max_link_hops = 3",
    examples=[
        Refused(uri="http://a.com/deep", via="http://a.com/", path="LLLL", refuse_time=TIME),
        Refused(uri="http://a.com/\x1b[2J"),
    ],
)
ROBOTS = RefusalRule(
    rule="robots", message="robots.txt", refused_count=1, examples=[Refused(uri="http://a.com/private")]
)


# report crawl


@pytest.mark.parametrize("command", [("report",), ("report", "crawl")])
def test_without_a_kind_the_report_is_that_of_the_crawl_with_its_failure_and_its_time_left(
    frontier: FakeFrontier, toehold_at: Toehold, command: tuple[str, ...]
) -> None:
    statistics = Statistics(
        queued_count=9,
        remaining_min_duration=Duration(seconds=3_600),
        remaining_max_duration=Duration(seconds=10_800),
    )
    failed = status("FINISHED", failure="no page was fetched: 2 timed out", reason="the disk is full")
    answer = GetStatisticsResponse(status=failed, statistics=statistics)
    frontier.will("GetCrawl", *[GetCrawlResponse(crawl=Crawl(crawl="c"))] * 2)
    frontier.will("GetStatistics", *[answer] * 2)
    code, output, errors = toehold_at(*command, "--crawl", "c")
    assert (code, errors) == (0, "")
    told = dict(re.split(r"  +", line) for line in output.splitlines())
    assert (told["crawl"], told["status"], told["still queued"]) == ("c", "Finished, 9 URLs left", "9")
    assert (told["failure"], told["reason"]) == ("no page was fetched: 2 timed out", "the disk is full")
    assert told["estimate"] == "1 to 3 h left"
    (plain,) = said(toehold_at(*command, "--crawl", "c", "--json")[1])
    assert (plain["remaining_min_seconds"], plain["remaining_max_seconds"]) == (3_600, 10_800)


# report seeds


def test_seeds_are_reported_with_their_outcomes_in_words(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListSeeds", ListSeedsResponse(seeds=SEEDS))
    code, output, _ = toehold_at("report", "seeds", "--crawl", "c")
    heading, *rows, summary = output.splitlines()
    assert (code, heading.split()) == (0, ["seed", "outcome"])
    assert [row.split(None, 1) for row in rows] == [[seed.uri, seed.outcome] for seed in SEEDS]
    assert summary == "5 seeds: 1 fetched, 1 answered with an error, 2 failed, 1 not fetched yet"


@pytest.mark.parametrize(
    ("seeds", "summary"),
    [
        (SEEDS[:1], "1 seed: 1 fetched"),
        (SEEDS[2:4], "2 seeds: 0 fetched, 2 failed"),
        ([], "0 seeds: 0 fetched"),
    ],
)
def test_seeds_are_counted(
    frontier: FakeFrontier, toehold_at: Toehold, seeds: list[Seed], summary: str
) -> None:
    frontier.will("ListSeeds", ListSeedsResponse(seeds=seeds))
    assert toehold_at("report", "seeds", "--crawl", "c")[1].splitlines()[-1] == summary


def test_seeds_are_reported_to_programs_with_their_results(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    frontier.will("ListSeeds", ListSeedsResponse(seeds=SEEDS))
    told = said(toehold_at("report", "seeds", "--crawl", "c", "--json")[1])
    assert [seed["result"] for seed in told] == ["FETCHED", "ERROR", "FAILED", "FAILED", "PENDING"]
    assert told[2]["outcome"] == "name not found"


# refusals


@pytest.mark.parametrize("command", [("refusals",), ("report", "refusals")])
def test_refusals_are_shown_by_rule_with_counts_and_examples(
    frontier: FakeFrontier, toehold_at: Toehold, command: tuple[str, ...]
) -> None:
    frontier.will("ListRefusals", ListRefusalsResponse(rules=[HOPS, ROBOTS]))
    code, output, _ = toehold_at(*command, "--crawl", "c")
    assert code == 0
    assert output.splitlines() == [
        "1 200 URIs refused by scope.max_link_hops: max_link_hops = 3",
        "  http://a.com/deep  from http://a.com/",
        r"  http://a.com/\x1b[2J",
        "",
        "1 URI refused by robots.txt",
        "  http://a.com/private",
    ]
    assert frontier.asked["ListRefusals"] == [ListRefusalsRequest(crawl="c")]


def test_refusals_of_one_rule(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListRefusals", *[ListRefusalsResponse(rules=[ROBOTS])] * 2)
    assert toehold_at("refusals", "robots", "--crawl", "c")[0] == 0
    (told,) = said(toehold_at("refusals", "robots", "--crawl", "c", "--json")[1])
    assert (told["rule"], told["refused_count"], told["examples"][0]["uri"]) == (
        "robots",
        1,
        "http://a.com/private",
    )
    assert frontier.asked["ListRefusals"] == [ListRefusalsRequest(crawl="c", rule="robots")] * 2


def test_that_nothing_was_refused_is_told(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListRefusals", *[ListRefusalsResponse()] * 3)
    assert toehold_at("refusals", "--crawl", "c") == (0, "No rule has refused a URI.\n", "")
    assert toehold_at("refusals", "robots", "--crawl", "c") == (0, "robots has refused no URI.\n", "")
    assert toehold_at("refusals", "--crawl", "c", "--json") == (0, "", "")


# report failures


def outcome(uri: str, fetch_status: int, reason: str = "", path: str = "L") -> UriOutcome:
    failed = fetch_status < 0
    disposition = Disposition.DISPOSITION_FAILED if failed else Disposition.DISPOSITION_SUCCEEDED
    return UriOutcome(uri=uri, fetch_status=fetch_status, reason=reason, path=path, disposition=disposition)


def has_outcomes(frontier: FakeFrontier, finished: int, *outcomes: UriOutcome) -> None:
    """The frontier counts so many finished URIs, and keeps these outcomes."""
    counts = Statistics(succeeded_count=finished)
    frontier.will("GetStatistics", GetStatisticsResponse(status=RUNNING, statistics=counts))
    frontier.will("StreamOutcomes", [StreamOutcomesResponse(outcomes=outcomes)])


FAILURES = (
    outcome("http://a.com/", 200),
    outcome("http://a.com/old", 404),
    outcome("http://b.com:81/robots.txt", -2, "connection refused", path="P"),
    outcome("http://a.com/broken", 500),
    outcome("http://a.com/older", 404),
    outcome("http://c.com/robots.txt", 404, path="P"),
)


def test_failures_are_reported_by_host_and_reason_with_an_example(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    has_outcomes(frontier, 4, *FAILURES)
    code, output, errors = toehold_at("report", "failures", "--crawl", "c")
    assert (code, errors) == (0, "")
    heading, *rows, summary = output.splitlines()
    assert [re.split(r"  +", row) for row in (heading, *rows)] == [
        ["host", "URIs", "why", "example"],
        ["a.com", "2", "404", "http://a.com/old"],
        ["a.com", "1", "500", "http://a.com/broken"],
        ["b.com:81", "1", "-2 connect failed: connection refused", "http://b.com:81/robots.txt"],
    ]
    assert summary == "4 URIs of 2 hosts failed or were answered with an error."


def test_failures_for_programs(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    has_outcomes(frontier, 4, *FAILURES)
    *_, last = said(toehold_at("report", "failures", "--crawl", "c", "--json")[1])
    assert last == {
        "host": "b.com:81",
        "fetch_status": -2,
        "reason": "connection refused",
        "uri_count": 1,
        "example_uri": "http://b.com:81/robots.txt",
    }


def test_of_a_uri_that_was_fetched_again_only_the_latest_outcome_counts(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    has_outcomes(frontier, 2, outcome("http://a.com/", 500), outcome("http://a.com/", 200))
    assert toehold_at("report", "failures", "--crawl", "c") == (
        0,
        "No URI failed or was answered with an error.\n",
        "",
    )


def test_the_report_of_failures_says_if_earlier_outcomes_are_not_kept(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    has_outcomes(frontier, 5, *FAILURES)
    _, output, errors = toehold_at("report", "failures", "--crawl", "c")
    assert output.endswith("4 URIs of 2 hosts failed or were answered with an error.\n")
    assert errors == "This covers only the latest 4 outcomes (outcomes_kept). crawl.log has all.\n"


def test_one_failure_is_told_in_the_singular(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    has_outcomes(frontier, 1, outcome("http://a.com/", 500))
    summary = toehold_at("report", "failures", "--crawl", "c")[1].splitlines()[-1]
    assert summary == "1 URI of 1 host failed or was answered with an error."


# report changes

FETCHED_TWICE = (
    *(outcome(f"http://a.com/{path}", 200) for path in ("", "same", "gone", "down", "copy")),
    outcome("http://a.com/robots.txt", 200, path="P"),
    *[UriOutcome(uri="http://a.com/no", disposition=Disposition.DISPOSITION_DISREGARDED)] * 2,
    outcome("http://a.com/", 200),
    outcome("http://a.com/same", 304),
    outcome("http://a.com/gone", 404),
    outcome("http://a.com/down", -2),
    UriOutcome(uri="http://a.com/copy", fetch_status=200, annotations=["duplicate:digest"]),
    outcome("http://a.com/robots.txt", 200, path="P"),
)


def test_changes_are_the_uris_whose_latest_fetch_found_another_body(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    has_outcomes(frontier, 10, *FETCHED_TWICE)
    code, output, errors = toehold_at("report", "changes", "--crawl", "c")
    assert (code, errors) == (0, "")
    *rows, summary = output.splitlines()
    assert [row.split() for row in rows] == [
        ["URI", "now", "before"],
        ["http://a.com/", "200", "200"],
        ["http://a.com/gone", "404", "200"],
    ]
    assert summary == "5 pages fetched again: 2 changed, 2 unchanged, 1 failed"


def test_changes_for_programs(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    has_outcomes(frontier, 10, *FETCHED_TWICE)
    *_, last = said(toehold_at("report", "changes", "--crawl", "c", "--json")[1])
    assert last == {"uri": "http://a.com/gone", "fetch_status": 404, "fetch_status_before": 200}


def test_that_nothing_was_fetched_again_is_told(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    has_outcomes(frontier, 1, outcome("http://a.com/", 200))
    assert toehold_at("report", "changes", "--crawl", "c") == (0, "No page was fetched again.\n", "")


# outcomes and stories


def test_an_outcome_ends_with_its_reason(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    failed = UriOutcome(
        uri="http://a.com/",
        cursor="o1",
        outcome_time=TIME,
        disposition=Disposition.DISPOSITION_FAILED,
        fetch_status=-2,
        reason="127.0.0.1 is not public",
    )
    fetched = UriOutcome(uri="http://b.com/", cursor="o2", outcome_time=TIME, fetch_status=200)
    answers = [StreamOutcomesResponse(outcomes=[failed, fetched])]
    frontier.will("StreamOutcomes", answers)
    first, second = toehold_at("outcomes", "--crawl", "c")[1].splitlines()
    assert first.endswith("  http://a.com/  -  -  -  -  127.0.0.1 is not public")
    assert second.endswith("  http://b.com/  -  -  -  -")


def test_the_story_of_a_uri_has_the_reason(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("GetUri", GetUriResponse(story=UriStory(uri="http://a.com/", reason="it timed out")))
    assert "reason  it timed out" in " ".join(
        toehold_at("uris", "show", "u", "--crawl", "c")[1].split(" " * 6)
    )


# reopen

ENDED = status("FINISHED", "FINISHED_DOCUMENT_LIMIT")


def reopens(frontier: FakeFrontier, limit: int) -> None:
    """The frontier will describe an ended crawl, and reopen it with this limit."""
    before = CrawlSpec(limits=LimitSpec(max_documents=10))
    frontier.will("GetCrawl", *[GetCrawlResponse(crawl=Crawl(crawl="c", status=ENDED, spec=before))] * 2)
    after = Crawl(crawl="c", status=RUNNING, spec=CrawlSpec(limits=LimitSpec(max_documents=limit)))
    frontier.will("ReopenCrawl", ReopenCrawlResponse(crawl=after))


def test_reopen_changes_settings_and_tells_the_state(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    reopens(frontier, 1_000)
    code, output, errors = toehold_at("reopen", "limits.max_documents=1000", "--crawl", "c")
    assert (code, errors) == (0, "")
    assert output.splitlines() == ["c: limits.max_documents was 10, is 1000", "c: RUNNING"]
    (request,) = frontier.asked["ReopenCrawl"]
    assert (request.spec.limits.max_documents, list(request.update_mask.paths), request.pause) == (
        1000,
        ["limits.max_documents"],
        False,
    )


def test_reopen_needs_no_settings_and_can_leave_the_crawl_paused(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    reopens(frontier, 10)
    (told,) = said(toehold_at("reopen", "--pause", "--crawl", "c", "--json")[1])
    assert (told["crawl"], told["status"]["state"], told["changes"]) == ("c", "RUNNING", [])
    (request,) = frontier.asked["ReopenCrawl"]
    assert request.pause and not request.update_mask.paths


def test_a_crawl_that_has_not_ended_is_not_reopened(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("GetCrawl", *[GetCrawlResponse(crawl=Crawl(crawl="c", status=RUNNING))] * 3)
    message = "crawl 'c' is RUNNING; only a FINISHED crawl can be reopened"
    refusal = Refusal(grpc.StatusCode.FAILED_PRECONDITION, message, "ILLEGAL_STATE", {"state": "RUNNING"})
    frontier.will("ReopenCrawl", refusal)
    assert toehold_at("reopen", "--crawl", "c") == (5, "", f"Error: {message}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits.max_document=3", "limits.max_document: no such setting; did you mean limits.max_documents?"),
        ("limits.max_documents", "a setting must be NAME=VALUE, got 'limits.max_documents'"),
    ],
)
def test_a_bad_setting_reopens_nothing(
    frontier: FakeFrontier, toehold_at: Toehold, text: str, message: str
) -> None:
    assert toehold_at("reopen", text, "--crawl", "c") == (2, "", f"Error: {message}\n")
    assert not frontier.asked
