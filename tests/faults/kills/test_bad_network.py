"""A network that loses, doubles, delays, stalls, cuts and half closes, before a frontier that is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.kills.judging import assert_nothing, lives
from faults.kills.network import BadNetwork
from frontier_harness.soaking import Soak


def test_a_bad_network_loses_and_doubles_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    life = BadNetwork(tmp_path, seed=11)
    assert_nothing(life.play(2))


@pytest.mark.soak("network")
@pytest.mark.timeout(7200)
def test_a_network_that_is_bad_in_many_ways_loses_and_doubles_nothing_that_was_acknowledged(
    tmp_path: Path, soak: Soak
) -> None:
    lives(BadNetwork, tmp_path, soak, 400)
