"""A frontier that was itself away (stopped, a paused machine, a disk that hung) blames no node for it."""

import pytest
from core_doubles.lives import NAME, advance, fetching, report
from core_doubles.shell import PERIOD_MS, Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import FetchSettings
from frontier_server.core.state.model import Grant, Report
from frontier_server.shell.absence import Absence

HOUR_MS = 3_600_000
BEAT_MS = PERIOD_MS // 10


def beat(shell: Shell, *grants: Grant) -> list[bytes]:
    """A heartbeat that names leases; those that it says have ended."""
    tokens = [grant.token for grant in grants]
    return shell.do(lambda core, now: core.frontier.heartbeat("node", "1", tokens, [], now)).ended


def away(shell: Shell, length_ms: int = HOUR_MS) -> None:
    """The server is away, comes back, and does what is overdue first."""
    shell.now_ms += length_ms
    shell.core.upkeep.excuse(length_ms, shell.now_ms)
    shell.tick()


# The core: what does not count.


def test_leases_outlive_the_absence_with_what_was_left_to_them() -> None:
    shell, (named, lost) = fetching(most=2)
    shell.now_ms += BEAT_MS
    away(shell)
    assert beat(shell, named, lost) == []
    shell.now_ms += PERIOD_MS - 1
    beat(shell, named)
    shell.tick()
    assert shell.core.nodes.leases_out == 2
    shell.now_ms += 1
    shell.tick()
    assert beat(shell, named, lost) == [lost.token]


def test_a_node_that_was_dead_before_is_not_waited_for_longer_than_it_would_have_been() -> None:
    shell, _ = fetching(most=2)
    shell.now_ms += PERIOD_MS - 1
    away(shell)
    assert shell.core.nodes.leases_out == 2
    shell.now_ms += 1
    shell.tick()
    assert shell.core.nodes.leases_out == 0


def test_a_fetch_may_have_taken_as_long_as_the_absence_beyond_its_limit() -> None:
    """Its report could not come. The hard limit counts on from there."""
    shell, (grant,) = fetching(most=1, fetch=FetchSettings(timeout_ms=6 * PERIOD_MS))
    away(shell)
    for _ in range(23):
        beat(shell, grant)
        shell.now_ms += PERIOD_MS // 2
        shell.tick()
    beat(shell, grant)
    shell.now_ms += PERIOD_MS // 2 - 1
    shell.tick()
    assert beat(shell, grant) == []
    shell.now_ms += 1
    shell.tick()
    assert beat(shell, grant) == [grant.token]


def test_a_lease_that_was_given_when_it_was_back_gets_nothing_more() -> None:
    shell, _ = fetching(most=1)
    shell.now_ms += HOUR_MS
    (young,) = shell.grants(most=1)
    shell.core.upkeep.excuse(HOUR_MS, shell.now_ms)
    shell.now_ms += PERIOD_MS
    shell.tick()
    assert beat(shell, young) == [young.token]


def test_nodes_are_not_taken_to_have_left() -> None:
    shell, _ = fetching(most=1)
    away(shell)
    assert "node_left" not in [row.kind for row in shell.events(NAME)]
    for _ in range(3):
        shell.now_ms += PERIOD_MS
        shell.tick()
    assert "node_left" in [row.kind for row in shell.events(NAME)]


@pytest.mark.parametrize("wish", [Input.PAUSE, Input.STOP])
def test_a_pause_and_an_end_do_not_cancel_what_could_not_be_reported(wish: Input) -> None:
    shell, (grant,) = fetching(most=1, pause_timeout_ms=10_000, stop_timeout_ms=10_000)
    shell.request(NAME, wish)
    shell.now_ms += 5_000
    away(shell)
    assert shell.core.nodes.leases_out == 1
    shell.now_ms += 4_999
    shell.tick()
    (result,) = shell.finish(report(grant))
    assert result.disposition is Disposition.SUCCEEDED


def test_the_bound_of_a_pause_that_begins_when_it_is_back_is_the_ordinary_one() -> None:
    shell, (grant,) = fetching(most=1, pause_timeout_ms=10_000)
    away(shell)
    shell.request(NAME, Input.PAUSE)
    assert shell.state(NAME) is CrawlState.PAUSING
    shell.now_ms += 10_000
    beat(shell, grant)
    shell.tick()
    assert shell.state(NAME) is CrawlState.PAUSED


def test_without_an_excuse_everything_lapses() -> None:
    """So that the tests above test something."""
    shell, (grant,) = fetching(most=1)
    shell.now_ms += HOUR_MS
    shell.tick()
    (result,) = shell.finish(Report(grant.token, fetch_status=200))
    assert result.disposition is Disposition.STALE


def test_after_an_absence_the_timer_still_comes_for_each_lease() -> None:
    shell, _ = fetching(most=2)
    away(shell)
    for _ in range(10):
        if shell.core.nodes.leases_out:
            advance(shell)
    assert shell.core.nodes.leases_out == 0


# The shell: how long it was.


def test_a_server_that_answers_was_not_away() -> None:
    absence = Absence(3_000, 0)
    for now_ms in range(0, 100_000, 1_500):
        assert absence.more_ms(now_ms) == 0
        assert absence.answered(now_ms) == 0


def test_what_is_beyond_the_tolerance_is_told_once_bit_by_bit_or_as_a_whole() -> None:
    absence = Absence(3_000, 10_000)
    told = [absence.more_ms(now_ms) for now_ms in (13_000, 13_001, 20_000, 20_000, 40_000)]
    assert told == [0, 1, 6_999, 0, 20_000]
    assert absence.answered(40_500) == 27_000
    assert absence.more_ms(43_500) == 0
    assert absence.more_ms(50_500) == 7_000
