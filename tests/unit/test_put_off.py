"""What a node puts off (-50) is free, but not for ever."""

import pytest
from core_doubles.lives import NAME, SEEDS, fetch, fetching, launched, report
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.rules.disposition import DEFERRED, MAX_DEFERRALS
from frontier_server.core.spec.settings import RetrySettings, RobotsSettings
from frontier_server.core.state.model import Grant, Report

RETRY = RetrySettings(max_attempts=3, delay_ms=60_000)
ROBOTS = RobotsSettings(max_attempts=2, retry_delay_ms=60_000)


def put_off(shell: Shell, *grants: Grant) -> list[str]:
    """Put leases off; what that meant."""
    return [each.disposition.value for each in shell.finish(*(report(grant, DEFERRED) for grant in grants))]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_uri_that_is_put_off_again_and_again_fails_after_its_tries(restarts: bool) -> None:
    """Ten times are free and at once; then it rests and counts, as a connection that was refused."""
    shell, (page,) = fetching(SEEDS[0], retry=RETRY)
    for _ in range(MAX_DEFERRALS):
        assert page.attempt == 1 and put_off(shell, page) == ["DEFERRED"]
        if restarts:
            shell.restart()
        (page,) = shell.grants()
    for attempt in (1, 2):
        assert page.attempt == attempt and put_off(shell, page) == ["DEFERRED"]
        assert shell.grants() == []
        shell.now_ms += RETRY.delay_ms
        (page,) = shell.grants()
    assert put_off(shell, page) == ["FAILED"]
    assert [(row.uri, row.fetch_status) for row in shell.outcomes(NAME)][-1] == (SEEDS[0], DEFERRED)
    assert shell.state(NAME) is CrawlState.FINISHED


def test_one_that_is_fetched_in_the_end_has_lost_nothing() -> None:
    shell, (page,) = fetching(SEEDS[0], retry=RETRY)
    for _ in range(MAX_DEFERRALS):
        put_off(shell, page)
        (page,) = shell.grants()
    fetch(shell, page)
    assert shell.count(NAME, "succeeded_count") == 1


def test_a_robots_txt_that_is_put_off_again_and_again_could_not_be_had() -> None:
    """Then it has the tries of one that is unreachable, and its URI fails with -61."""
    shell = launched(SEEDS[0], robots=ROBOTS)
    for _ in range(MAX_DEFERRALS):
        assert put_off(shell, *shell.grants()) == ["DEFERRED"]
    (robots,) = shell.grants()
    assert robots.robots and robots.attempt == 1
    assert put_off(shell, robots) == ["FAILED"]
    assert shell.grants() == []
    shell.now_ms += ROBOTS.retry_delay_ms
    assert put_off(shell, *shell.grants()) == ["FAILED"]
    assert shell.grants() == []
    assert [row.fetch_status for row in shell.outcomes(NAME)][-1] == -61
    assert shell.state(NAME) is CrawlState.FINISHED


def test_what_is_handed_back_unstarted_says_nothing_else() -> None:
    """OUTCOME_RELEASED: no other field counts, not even the wish that its queue be retired."""
    shell, (page,) = fetching(SEEDS[0])
    shell.finish(Report(page.token, released=True, retire_queue=True, fetch_status=-7))
    (again,) = shell.grants()
    assert (again.uri, again.attempt) == (SEEDS[0], 1)
