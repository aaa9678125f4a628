"""A frontier that is killed again and again while everybody uses it, and starts again on what it has left."""

from pathlib import Path

import pytest
from faults.kills.campaign import AT_START, Life
from faults.kills.judging import assert_nothing, lives
from frontier_harness.soaking import Soak

MUTANTS = ("leases are not stored", "the rests of hosts are not stored")


def test_a_frontier_killed_six_times_under_full_load_loses_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    tally = Life(tmp_path, seed=4).play(6)
    assert tally.kills.total() == 6 and set(tally.kills) == {*Life.later, AT_START}
    assert_nothing(tally)


@pytest.mark.soak("kills")
@pytest.mark.timeout(7200)
def test_a_frontier_killed_a_thousand_times_loses_nothing_that_was_acknowledged(
    tmp_path: Path, soak: Soak
) -> None:
    lives(Life, tmp_path, soak, 1000)


@pytest.mark.soak("mutants")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_promise_is_noticed_when_a_frontier_is_killed(
    tmp_path: Path, mutant: str, soak: Soak
) -> None:
    noticed = bool(Life(tmp_path, soak.seed, mutant).play(40).found.all())
    soak.count(faults=1, violated=not noticed)
    assert noticed
