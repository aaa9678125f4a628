"""A frontier that is killed again and again while everybody uses it, and starts again on what it has left."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.kills.campaign import KILLS_OF_A_LIFE, Life, Tally
from frontier_harness.soaking import Soak

MUTANTS = ("leases are not stored", "the rests of hosts are not stored")


def assert_nothing(tally: Tally) -> None:
    """What was acknowledged is there, once, and nothing is wrong."""
    assert not tally.found.all(), "\n".join([str(tally), *tally.found.all()[:50]])
    assert tally.checked


def test_a_frontier_killed_six_times_under_full_load_loses_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    tally = Life(tmp_path, seed=4).play(6)
    assert sum(tally.kills.values()) == 6 and min(tally.kills.values()) > 0  # with each aim
    assert_nothing(tally)


@pytest.mark.soak("kills")
@pytest.mark.timeout(7200)
def test_a_frontier_killed_a_thousand_times_loses_nothing_that_was_acknowledged(
    tmp_path: Path, soak: Soak
) -> None:
    left, number = soak.cycles(900), 0
    while left:
        tally = Life(tmp_path / str(number), soak.seed + number).play(min(left, KILLS_OF_A_LIFE))
        print(tally)
        found = tally.found
        soak.count(
            faults=sum(tally.kills.values()),
            checked=tally.checked,
            lost=len(found.lost),
            doubled=len(found.doubled),
            violated=len(found.violated),
        )
        assert_nothing(tally)
        left, number = left - sum(tally.kills.values()), number + 1


@pytest.mark.soak("mutants")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_promise_is_noticed_when_a_frontier_is_killed(
    tmp_path: Path, mutant: str, soak: Soak
) -> None:
    noticed = bool(Life(tmp_path, soak.seed, mutant).play(40).found.all())
    soak.count(faults=1, violated=not noticed)
    assert noticed
