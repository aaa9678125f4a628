"""A whole crawl of the practice web by `toehold crawl`, run once and judged by the web's access log, by what
the crawl left behind, and by the one against the other.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from acceptance.judging import (
    FEW,
    MAX_ATTEMPTS,
    MAX_LINK_HOPS,
    MIN_DELAY_S,
    MIN_REST_S,
    crawl_arguments,
)
from acceptance.outcomes import (
    Exchange,
    LogLine,
    all_exchanges,
    check_failures,
    closed_files,
    crawl_log,
    open_files,
    pages,
)
from acceptance.programs import toehold
from frontier_harness.waiting import WHOLE_CRAWL_S

from practice_web import robots, traps, truth
from practice_web.log import Entry
from practice_web.practice import PracticeWeb
from practice_web.web import ORIGINS

CRAWL_FAILED = 4

ALL = tuple(origin.key for origin in ORIGINS)


@dataclass(frozen=True)
class Whole:
    """The whole crawl, after its end."""

    web: PracticeWeb
    directory: Path
    exit_code: int
    printed: Any
    """What --json printed."""
    complained: str

    @cached_property
    def log(self) -> list[Entry]:
        """What the web saw."""
        return self.web.log()

    @cached_property
    def expected(self) -> truth.Expected:
        """What it should have seen."""
        return truth.expected_pages(self.web.web, MAX_LINK_HOPS)

    @cached_property
    def lines(self) -> list[LogLine]:
        """crawl.log."""
        return crawl_log(self.directory / "frontier" / "crawls" / "crawl" / "crawl.log")

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """What the WARC files have."""
        return all_exchanges(self.directory / "warcs")

    @cached_property
    def report(self) -> Any:
        """report.json."""
        return json.loads((self.directory / "report.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """One crawl of everything, for all tests here."""
    folder = tmp_path_factory.mktemp("whole")
    with PracticeWeb(folder / "web") as web:
        arguments = crawl_arguments(web, folder / "crawl", "--json", keys=ALL)
        done = toehold(*arguments, within_s=WHOLE_CRAWL_S)
        printed = json.loads(done.stdout) if done.stdout else None
        yield Whole(web, folder / "crawl", done.returncode, printed, done.stderr)


# --- by the access log --------------------------------------------------------------------------


def test_it_ends_by_itself_with_exit_code_0_and_has_nothing_to_complain_about(whole: Whole) -> None:
    assert (whole.exit_code, whole.complained) == (0, "")
    assert (whole.report["state"], whole.report["exit_status"]) == ("FINISHED", "FINISHED")


def test_it_covers_at_least_8_hosts_and_300_pages(whole: Whole) -> None:
    well = {entry.url: entry.host for entry in whole.log if entry.status == 200 and not _is_robots(entry)}
    assert len(set(well.values())) >= 8
    assert len(well) >= 300


def test_every_page_that_links_reach_was_requested(whole: Whole) -> None:
    assert truth.missing_pages(whole.expected, whole.log) == []


def test_nothing_was_requested_that_no_link_leads_to_within_scope_robots_and_hop_limit(whole: Whole) -> None:
    assert truth.unexpected_requests(whole.web.web, whole.expected, whole.log) == []


def test_nothing_was_requested_that_robots_txt_forbids(whole: Whole) -> None:
    assert truth.forbidden_requests(whole.web.web, whole.log) == []


def test_robots_txt_came_first_on_every_host(whole: Whole) -> None:
    assert truth.robots_first_violations(whole.web.web, whole.log) == []
    asked = {(entry.scheme, entry.host) for entry in whole.log if entry.path == robots.PATH}
    assert asked == {(origin.scheme, origin.name) for origin in ORIGINS}


def test_a_host_whose_robots_txt_answers_503_got_nothing_else(whole: Whole) -> None:
    closed = whole.web.web.origins["xi"].name
    paths = [entry.path for entry in whole.log if entry.host == closed]
    assert paths == [robots.PATH] * MAX_ATTEMPTS


def test_no_two_requests_to_a_host_overlapped_or_came_sooner_than_its_delay(whole: Whole) -> None:
    assert truth.overlaps_and_gaps(whole.web.web, whole.log, MIN_DELAY_S) == []


def test_pages_of_a_host_share_connections(whole: Whole) -> None:
    answered = [entry for entry in whole.log if not entry.aborted]
    connections = {(entry.host, entry.connection) for entry in answered}
    assert len(connections) < len(answered) / 4


def test_hosts_that_asked_for_patience_by_retry_after_got_it(whole: Whole) -> None:
    assert any(entry.retry_until is not None for entry in whole.log)
    assert truth.impatient_requests(whole.log) == []


def test_every_page_was_requested_once_and_one_to_retry_no_more_often_than_the_attempt_limit(
    whole: Whole,
) -> None:
    assert truth.repeated_requests(whole.web.web, whole.log, MAX_ATTEMPTS) == []


def test_pages_to_retry_were_retried_up_to_the_limit_after_a_rest(whole: Whole) -> None:
    assert truth.early_retries(whole.web.web, whole.log, MIN_REST_S) == []
    counts = truth.request_counts(whole.log)
    url = whole.web.web.url
    assert counts[url("kappa", "/traps/twice")] == 3  # busy twice, then well
    for origin, path in (
        ("kappa", "always"),
        ("lambda", "always"),
        ("mu", "hang-up.html"),
    ):
        assert counts[url(origin, f"/traps/{path}")] == MAX_ATTEMPTS, path


def test_a_page_that_breaks_off_is_an_answer_and_its_links_are_followed(whole: Whole) -> None:
    counts = truth.request_counts(whole.log)
    for path in ("cut.html", "before-the-cut.html"):
        assert counts[whole.web.web.url("mu", f"/traps/{path}")] == 1, path


def test_the_endless_calendar_is_bounded_by_the_hop_limit(whole: Whole) -> None:
    months = [entry.path for entry in whole.log if entry.path.startswith("/calendar/")]
    before = 2  # the first month is a link of a link of the seed
    assert len(months) == MAX_LINK_HOPS - before + 1


def test_it_never_asked_another_host_than_the_seeds(whole: Whole) -> None:
    assert {entry.host for entry in whole.log} == {origin.name for origin in ORIGINS}
    assert not any("out.of.scope" in line.url or "192.0.2.1" in line.url for line in whole.lines)


def test_without_a_contact_the_user_agent_is_the_product_alone(whole: Whole) -> None:
    assert {entry.user_agent.partition("/")[0] for entry in whole.log} == {"toehold"}
    assert not any("+" in entry.user_agent for entry in whole.log)


# --- crawl.log, against the access log ----------------------------------------------------------


def test_each_page_reached_exactly_one_final_disposition(whole: Whole) -> None:
    """S1.10."""
    counts = Counter(line.url for line in pages(whole.lines))
    assert [url for url, count in counts.items() if count > 1] == []
    assert whole.expected.required - counts.keys() == set()


def test_what_robots_txt_forbids_and_only_that_was_disregarded(whole: Whole) -> None:
    forbidden = {line.url for line in pages(whole.lines) if line.status == -9998}
    assert forbidden == {line.url for line in pages(whole.lines) if line.disposition == "disregarded"}
    assert all(not robots.allows(*_place(whole, url)) for url in forbidden)
    listed = [trap for trap in traps.TRAPS if trap.listed and not robots.allows(trap.origin, trap.path)]
    reached = {whole.web.web.url(trap.origin, trap.path) for trap in listed if trap.origin != "xi"}
    assert reached <= forbidden


def test_final_statuses_are_those_that_the_web_answered_last(whole: Whole) -> None:
    answered = {entry.url: entry.status for entry in whole.log}
    lost = {whole.web.web.url("mu", "/traps/hang-up.html")}
    fetched = {line.url: line.status for line in pages(whole.lines) if line.status > 0}
    assert {url: status for url, status in answered.items() if url in fetched} == fetched
    assert {line.url for line in pages(whole.lines) if line.status == -3} == lost
    unfetched = {line.url for line in pages(whole.lines) if line.status in (-61, -9998)}
    assert not unfetched & answered.keys()


def test_a_page_fails_only_for_want_of_an_answer_or_of_attempts(whole: Whole) -> None:
    failed = {line.url: line.status for line in pages(whole.lines) if line.disposition == "failed"}
    url = whole.web.web.url
    assert failed == {
        url("kappa", "/traps/always"): 503,
        url("lambda", "/traps/always"): 429,
        url("mu", "/traps/hang-up.html"): -3,
        url("xi", "/"): -61,
    }


# --- report.json, against crawl.log and the access log -------------------------------------------


def test_the_report_counts_what_crawl_log_tells(whole: Whole) -> None:
    told = pages(whole.lines)
    dispositions = Counter(line.disposition.upper() for line in told)
    assert whole.report["dispositions"] == dispositions
    assert whole.report["fetch_statuses"] == {
        str(status): count for status, count in Counter(line.status for line in told).items()
    }
    assert whole.report["pages"] == dispositions["SUCCEEDED"]
    assert whole.report["discovered"] == len(told)
    assert (whole.report["queued"], whole.report["lapses"]) == (0, 0)


def test_the_report_counts_what_the_web_saw(whole: Whole) -> None:
    asked = truth.request_counts(entry for entry in whole.log if not _is_robots(entry))
    repeats = sum(count - 1 for count in asked.values())
    assert whole.report["deferrals"] == repeats
    assert whole.report["robots_fetches"] == sum(entry.path == robots.PATH for entry in whole.log)
    assert whole.report["verdicts"]["QUEUED"] == len(asked) + 1  # and the seed of the host that is closed


def test_the_report_is_complete_and_is_what_was_printed(whole: Whole) -> None:
    assert whole.printed == whole.report
    assert [seed["url"] for seed in whole.report["seeds"]] == whole.web.seeds
    start, end = (datetime.fromisoformat(whole.report[f"{name}_time"]) for name in ("start", "end"))
    assert start < end
    assert 0 < whole.report["duration_seconds"] < WHOLE_CRAWL_S
    assert whole.report["bytes"] > 0
    files = closed_files(whole.directory / "warcs")
    assert whole.report["warc_files"] == [f"warcs/{file.name}" for file in files]
    assert whole.report["warc_bytes"] == sum(file.stat().st_size for file in files) > 0
    assert whole.report["unfinished_warc_files"] == []


# --- WARC files, against the access log and the web itself ---------------------------------------


def test_every_warc_file_was_closed_and_passes_two_independent_checks(whole: Whole) -> None:
    files = closed_files(whole.directory / "warcs")
    assert files
    assert open_files(whole.directory / "warcs") == []
    assert [failure for file in files for failure in check_failures(file)] == []


def test_warc_files_are_named_by_crawl_node_and_process(whole: Whole) -> None:
    for file in closed_files(whole.directory / "warcs"):
        assert re.fullmatch(r"toehold-crawl-\d{17}-\d{5}-embedded(_\d+)?~\d+\.warc\.gz", file.name), file.name


def test_each_answer_is_in_a_warc_file_once(whole: Whole) -> None:
    answers = Counter((entry.url, entry.status) for entry in whole.log if entry.status)
    assert Counter((each.url, each.status) for each in whole.exchanges) == answers


def test_each_payload_is_what_the_web_serves(whole: Whole) -> None:
    seen: Counter[str] = Counter()
    wrong = []
    for each in whole.exchanges:
        found = whole.web.web.find(each.url)
        assert found is not None, each.url
        if not each.shows(whole.web.web.reply(*found, seen[each.url])):
            wrong.append(each.url)
        seen[each.url] += 1
    assert wrong == []


def test_each_response_has_its_request_as_it_was_sent(whole: Whole) -> None:
    agents = {entry.user_agent for entry in whole.log}
    for each in whole.exchanges:
        first, *headers = each.request.split("\r\n")
        authority = each.url.split("/")[2]
        assert first == f"GET {each.url.partition(authority)[2]} HTTP/1.1"
        assert f"Host: {authority}" in headers
        assert agents & {header.removeprefix("User-Agent: ") for header in headers}


def test_pages_that_were_cut_are_marked_and_only_they(whole: Whole) -> None:
    url = whole.web.web.url
    assert {each.url: each.truncated for each in whole.exchanges if each.truncated} == {
        url("eta", "/robots.txt"): "length",  # of which no more counts
        url("iota", "/traps/huge.html"): "length",
        url("mu", "/traps/drip.html"): "time",
        url("mu", "/traps/cut.html"): "disconnect",
    }


# --- smaller crawls -----------------------------------------------------------------------------


def test_the_crawl_ends_after_exactly_as_many_pages_as_asked_for(web: PracticeWeb, tmp_path: Path) -> None:
    done = toehold(*crawl_arguments(web, tmp_path / "crawl", "--max-pages", "40", "--json"))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["state"], report["exit_status"]) == ("FINISHED", "FINISHED_DOCUMENT_LIMIT")
    assert report["pages"] == 40
    assert len({entry.url for entry in web.log() if not _is_robots(entry)}) == 40


def test_a_crawl_of_loopback_connects_to_nothing_beyond(web: PracticeWeb, tmp_path: Path) -> None:
    """192.0.2.1 is nobody's (TEST-NET-1): were it tried, the outcome would be another than -7."""
    outside = "http://outside.example:8080/"
    more = ("--resolve", "outside.example:8080:192.0.2.1", "http://192.0.2.1/", outside)
    done = toehold(*crawl_arguments(web, tmp_path / "crawl", "--max-hops", "0", "--json", *more))
    assert done.returncode == 0, done.stderr
    statuses = _statuses(tmp_path / "crawl")
    assert (statuses["http://192.0.2.1/"], statuses[outside]) == (-7, -7)
    assert all(statuses[web.web.url(key, "/")] == 200 for key in FEW)


def test_hosts_that_cannot_be_found_end_a_crawl_soon_with_their_reason(tmp_path: Path) -> None:
    seed = "http://no-such-host.invalid/"
    done = toehold(
        *("crawl", "--dir", str(tmp_path / "crawl"), "--contact", "me@crawler.example", "--json"),
        *("--retry-delay", "0.3", "--min-delay", "0.05", seed),
    )
    assert done.returncode == CRAWL_FAILED, done.stderr
    report = json.loads(done.stdout)
    assert report["state"] == "FINISHED"
    assert "name not found" in report["seeds"][0]["outcome"]
    assert report["dispositions"]["FAILED"] == 1
    assert report["robots_fetches"] == MAX_ATTEMPTS


def _statuses(directory: Path) -> dict[str, int]:
    lines = crawl_log(directory / "frontier" / "crawls" / "crawl" / "crawl.log")
    return {line.url: line.status for line in pages(lines)}


def _is_robots(entry: Entry) -> bool:
    hops = {hop.partition("example")[2] for hop in robots.HOPS}
    return entry.path == robots.PATH or entry.path in hops


def _place(whole: Whole, url: str) -> tuple[str, str]:
    found = whole.web.web.find(url)
    assert found is not None
    return found[0].key, found[1]
