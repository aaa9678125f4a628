"""Clocks that are set, by seconds and by weeks, and programs that stand still for longer than leases live."""

from pathlib import Path

import pytest
from faults.kills.clock import WrongClock
from faults.kills.judging import assert_nothing, lives
from faults.power.campaign import compiler
from frontier_harness.soaking import Soak

pytestmark = pytest.mark.skipif(
    compiler() is None, reason="there is no C compiler (cc): without it no clock can be set"
)


def test_a_wall_clock_that_is_set_while_a_frontier_serves_and_while_it_is_down_changes_nothing(
    tmp_path: Path,
) -> None:
    life = WrongClock(tmp_path, seed=3)
    assert_nothing(life.play(1))
    assert life.jumps


@pytest.mark.soak("time")
@pytest.mark.timeout(7200)
def test_clocks_that_are_set_and_programs_that_stand_still_cost_nothing_that_was_acknowledged(
    tmp_path: Path, soak: Soak
) -> None:
    lives(WrongClock, tmp_path, soak, 200)
