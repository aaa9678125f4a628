"""The frontier's time: stored with each change, and set by an operator, who changes no rest by that."""

import pytest
from core_doubles.lives import NAME, SEEDS, fetch, fetching, launched, report
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.opening.opening import server_row
from frontier_server.core.opening.time_reset import set_time
from frontier_server.core.spec.settings import DAY_MS, PolitenessSettings, RetrySettings
from frontier_server.core.state.model import Grant, Report

WEEK_MS = 7 * DAY_MS
POLITE = PolitenessSettings(delay_factor=0, min_delay_ms=5_000, max_delay_ms=5_000)
RETRY = RetrySettings(max_attempts=3, delay_ms=60_000)


def polite() -> tuple[Shell, Grant]:
    """A crawl of a host that rests five seconds after each answer, with a page out."""
    shell = launched(SEEDS[0], politeness=POLITE)
    fetch(shell, *shell.grants())
    shell.now_ms += 5_000
    shell.tick()
    (page,) = shell.grants()
    return shell, page


def set_to(shell: Shell, now_ms: int) -> None:
    """Stop, set the time, and start again."""
    shell.store.write(set_time(shell.store, shell.now_ms, now_ms))
    shell.now_ms = now_ms
    shell.restart()


def test_no_time_that_was_answered_lies_behind_the_next_start() -> None:
    """Each change has its time beside it in the same write: a kill takes back neither."""
    shell, (page,) = fetching(SEEDS[0])
    for _ in range(10):
        shell.now_ms += 7
        shell.schedule(NAME, f"{SEEDS[0]}{shell.now_ms}")
        assert server_row(shell.store).time_ms == shell.now_ms
    shell.finish(report(page))
    assert max(row.time_ms for row in shell.events(NAME)) <= server_row(shell.store).time_ms


@pytest.mark.parametrize("by_ms", [-WEEK_MS, WEEK_MS])
def test_a_host_goes_on_resting_for_what_is_left_of_its_retry_after(by_ms: int) -> None:
    shell, page = polite()
    shell.finish(Report(page.token, fetch_status=503, retry_after_ms=1_800_000))
    shell.now_ms += 600_000
    set_to(shell, shell.now_ms + by_ms)
    shell.now_ms += 1_199_999
    assert shell.grants() == []
    shell.now_ms += 1
    shell.tick()
    (again,) = shell.grants()
    assert again.robots == (by_ms > DAY_MS), "that is out of date after a week"


@pytest.mark.parametrize("by_ms", [-WEEK_MS, WEEK_MS])
def test_a_host_whose_rest_was_over_is_asked_at_once(by_ms: int) -> None:
    """Not a week later, when the clock that was ahead comes to where it was."""
    shell, page = polite()
    shell.schedule(NAME, f"{SEEDS[0]}2")
    fetch(shell, page)
    shell.now_ms += 5_000
    set_to(shell, shell.now_ms + by_ms)
    if by_ms > DAY_MS:  # its robots.txt is out of date
        fetch(shell, *shell.grants())
        shell.now_ms += 5_000
        shell.tick()
    assert [grant.uri for grant in shell.grants()] == [f"{SEEDS[0]}2"]


@pytest.mark.parametrize("by_ms", [-WEEK_MS, WEEK_MS])
def test_a_queue_tries_again_after_what_is_left_of_its_rest(by_ms: int) -> None:
    shell, (page,) = fetching(SEEDS[0], retry=RETRY)
    shell.finish(report(page, -2))
    shell.now_ms += 20_000
    set_to(shell, shell.now_ms + by_ms)
    shell.now_ms += 39_999
    assert shell.grants() == []
    shell.now_ms += 1
    shell.tick()
    (again,) = shell.grants()
    assert again.robots if by_ms > DAY_MS else again.attempt == 2


@pytest.mark.parametrize("by_ms", [-WEEK_MS, WEEK_MS])
def test_a_crawl_has_run_as_long_as_it_has(by_ms: int) -> None:
    shell, (page,) = fetching(SEEDS[0])
    shell.now_ms += 30_000
    set_to(shell, shell.now_ms + by_ms)
    shell.now_ms += 1_000
    fetch(shell, page)
    assert shell.state(NAME) is CrawlState.FINISHED
    assert 31_000 <= shell.core.views.statistics(NAME, shell.now_ms).elapsed_ms < 60_000


def test_a_clock_that_differs_is_told_to_each_crawl_that_lives() -> None:
    shell, _ = fetching(SEEDS[0])
    shell.do(lambda core, now: core.upkeep.record_clock("a week ahead", now))
    assert shell.events(NAME)[-1].fields == {"kind": "clock", "detail": "a week ahead"}
    assert shell.state(NAME) is CrawlState.RUNNING
