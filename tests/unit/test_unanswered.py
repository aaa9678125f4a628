"""URIs that a host leaves without an answer: whom they hold up, and how operators have them tried again."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import Shell

from frontier_server.core.core import Core
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.rows.store import Changes
from frontier_server.core.spec.settings import (
    CrawlSettings,
    PolitenessSettings,
    QueueSettings,
    RetryRule,
    RetrySettings,
    RevisitSettings,
    RobotsSettings,
)
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Report, ReportResult

HOUR_MS = 3_600_000
SETTINGS = CrawlSettings(
    allowed_addresses=("loopback",),
    politeness=PolitenessSettings(delay_factor=0, min_delay_ms=0),
    robots=RobotsSettings(policy="ignore"),
    retry=RetrySettings(delay_ms=HOUR_MS),
)
PAGES = [f"http://a.example/{number}" for number in range(6)]
OTHERS = [f"http://b.example/{number}" for number in range(6)]


def launched(*uris: str, settings: CrawlSettings = SETTINGS) -> Shell:
    shell = Shell()
    shell.create("crawl", settings)
    shell.launch("crawl", *uris)
    return shell


def answered(shell: Shell, *statuses: int, crawl: str = "crawl", bound: bool = False) -> list[str]:
    """The URIs that get these fetch statuses, one after the other."""
    asked = []
    for status in statuses:
        grants = shell.do(
            lambda core, now: core.frontier.next(crawl, "1", Want(1), crawl, now, bound=bound)
        ).grants
        asked += [grant.uri for grant in grants]
        reports = [Report(grant.token, fetch_status=status) for grant in grants]
        shell.do(partial(_finish, reports, crawl, bound))
    return asked


def _finish(
    reports: list[Report], crawl: str, bound: bool, core: Core, now_ms: int
) -> tuple[list[ReportResult], Changes]:
    return core.frontier.finished(reports, crawl, "1", now_ms, bound=bound)


def job(shell: Shell, pattern: str) -> Mapping[str, int]:
    """Wake the queues whose keys match; the job's counts."""
    wanted = {"queue_pattern": pattern}
    started = shell.do(
        lambda core, now: core.administration.start_job("crawl", JobKind.WAKE_QUEUES, wanted, now)
    )
    shell.work()
    return shell.core.administration.job("crawl", started.number).counts


@pytest.mark.parametrize("status", [-3, -4, -5, -10, 404, 500])
def test_a_uri_that_is_tried_again_lets_the_others_of_its_host_go_on(status: int) -> None:
    rule = RetryRule(status, max_attempts=9, delay_ms=HOUR_MS)
    settings = replace(SETTINGS, retry=replace(SETTINGS.retry, statuses=(rule,)))
    shell = launched(*PAGES, settings=settings)
    assert answered(shell, status, *[200] * 6) == PAGES
    shell.now_ms += HOUR_MS
    shell.tick()
    assert answered(shell, 200, 200) == PAGES[:1]


@pytest.mark.parametrize("status", [-1, -2, -50])
def test_a_host_that_is_not_reached_is_not_asked_for_other_pages(status: int) -> None:
    shell = launched(*PAGES)
    tries = 11 if status == -50 else 1  # ten of these are free
    assert answered(shell, *[status] * tries, 200, 200) == PAGES[:1] * tries


def test_a_host_without_answers_rests_after_three_of_its_uris_and_one_of_each_later_try() -> None:
    shell = launched(*PAGES)
    assert answered(shell, *[-3] * 6) == PAGES[:3]
    shell.restart()
    for further in (PAGES[3], PAGES[4]):
        shell.now_ms += HOUR_MS
        shell.tick()
        assert answered(shell, -3, -3, -3) == [further]
    shell.now_ms += HOUR_MS
    shell.tick()
    assert sorted(answered(shell, *[200] * 9)) == PAGES, "after an answer none of them waits for another"


@pytest.mark.parametrize(("tries", "at_once"), [(1, 6), (2, 3), (3, 3)])
def test_a_host_without_answers_rests_after_the_last_try_of_a_uri_too(tries: int, at_once: int) -> None:
    """Unless the crawl tries each URI once only."""
    shell = launched(*PAGES, settings=replace(SETTINGS, retry=replace(SETTINGS.retry, max_attempts=tries)))
    assert answered(shell, *[-3] * 6) == PAGES[:at_once]
    asked = at_once
    while shell.state("crawl") is CrawlState.RUNNING:
        shell.now_ms += HOUR_MS
        shell.tick()
        assert len(answered(shell, *[-3] * 6)) == 1, "one for each rest"
        asked += 1
    assert asked == tries * len(PAGES)
    assert shell.state("crawl") is CrawlState.FINISHED


def test_a_page_that_alone_fails_does_not_hold_up_its_host_once_it_was_silent() -> None:
    shell = launched(*PAGES[:4])
    assert answered(shell, -3, -3, -3, -3) == PAGES[:3]
    shell.now_ms += HOUR_MS
    shell.tick()
    first, failed, *others = answered(shell, 200, -3, 200, 200)
    assert first == PAGES[3] and sorted([failed, *others]) == PAGES[:3]
    shell.now_ms += HOUR_MS
    shell.tick()
    assert answered(shell, 200, 200) == [failed]


def test_hosts_that_share_a_queue_rest_each_by_itself() -> None:
    queues = QueueSettings(partition="registered-domain", assignment="registered-domain")
    of_both = [f"http://{host}.site.example/{number}" for number in range(4) for host in ("a", "b")]
    shell = launched(*of_both, settings=replace(SETTINGS, queues=queues))
    statuses = [-3 if "//a." in uri else 200 for uri in of_both[:5]]
    assert answered(shell, *statuses, *[200] * 5) == [uri for uri in of_both if uri != of_both[6]]
    shell.now_ms += HOUR_MS
    shell.tick()
    assert sorted(answered(shell, *[200] * 5)) == of_both[::2]


def test_crawls_that_share_a_host_count_its_silence_together() -> None:
    shell = launched(*PAGES[:3])
    shell.create("other", SETTINGS)
    shell.launch("other", *PAGES[3:])
    assert answered(shell, -3, -3) == PAGES[:2]
    assert answered(shell, -3, -3, crawl="other") == PAGES[3:4]


def test_reports_of_a_bound_caller_count_for_its_crawl_alone() -> None:
    shell = launched(*PAGES[:3])
    shell.create("other", SETTINGS)
    shell.launch("other", *PAGES[3:])
    assert answered(shell, -3, -3, crawl="other", bound=True) == PAGES[3:5]
    assert answered(shell, -3, -3, 200) == PAGES[:3]
    assert answered(shell, -3, 200, crawl="other", bound=True) == PAGES[5:], "it has not heard of the answer"
    assert shell.core.administration.queue("other", "example,a,")[0].reason.startswith("retry after")


def test_waking_a_queue_has_its_failed_uris_tried_again_and_no_others() -> None:
    settings = replace(SETTINGS, revisit=RevisitSettings(policy="fixed", interval_ms=HOUR_MS))
    shell = launched(*PAGES[:2], *OTHERS[:1], settings=settings)
    shell.schedule("crawl", candidate("http://a.example/later", not_before_ms=shell.now_ms + HOUR_MS))
    assert set(answered(shell, -3, -3, -3)) == {*PAGES[:2], *OTHERS[:1]}
    shell.do(
        lambda core, now: core.administration.change_queue("crawl", "example,a,", QueueChange(wake=True), now)
    )
    assert sorted(answered(shell, *[200] * 4)) == PAGES[:2]


def test_waking_queues_by_a_pattern_has_their_failed_uris_tried_again() -> None:
    shell = launched(*PAGES[:2], *OTHERS[:2])
    answered(shell, *[-3] * 4)
    assert job(shell, "example,b,") == {"recalled": 2}
    assert sorted(answered(shell, *[200] * 4)) == OTHERS[:2]
    assert job(shell, ".*") == {"recalled": 2}
    assert sorted(answered(shell, *[200] * 4)) == PAGES[:2]


def test_waking_queues_finds_every_failed_uri_in_slices() -> None:
    many = [f"http://{number}.example/" for number in range(1_203)]
    shell = launched(*many[:1_000])
    shell.schedule("crawl", *[candidate(uri, seed=True) for uri in many[1_000:]])
    answered(shell, *[-3] * len(many))
    assert shell.count("crawl", "future_count") == len(many)
    assert job(shell, ".*") == {"recalled": len(many)}
    assert sorted(answered(shell, *[200] * len(many))) == sorted(many)


def test_a_retry_outlives_the_server() -> None:
    shell = launched(*PAGES[:1])
    answered(shell, -3)
    shell.restart()
    shell.now_ms += HOUR_MS
    shell.tick()
    assert answered(shell, 200) == PAGES[:1]


WORDS = {-3: "connection lost", -10: "the answer was not HTTP"}


@pytest.mark.parametrize("statuses", [(-3, -10), (-10, -3)])
def test_a_crawl_that_waits_for_retries_says_why_after_a_restart_and_after_the_first(
    statuses: tuple[int, ...],
) -> None:
    rules = tuple(
        RetryRule(status, max_attempts=9, delay_ms=hours * HOUR_MS)
        for hours, status in enumerate(statuses, start=1)
    )
    shell = launched(*PAGES[:2], settings=replace(SETTINGS, retry=replace(SETTINGS.retry, statuses=rules)))
    first, second = (f"in 60 min (retry after fetch status {each}: {WORDS[each]})" for each in statuses)

    def limited_by(*statuses: int) -> str:
        answered(shell, *statuses, 200)
        return shell.core.views.statistics("crawl", shell.now_ms).limited_by

    assert limited_by(*statuses) == f"2 URIs to be fetched later, the first {first}"
    shell.restart()
    shell.tick()
    assert limited_by() == f"2 URIs to be fetched later, the first {first}"
    shell.now_ms += HOUR_MS
    shell.tick()
    assert limited_by(200) == f"1 URI to be fetched later, the first {second}"
