"""A network that loses, doubles, delays, stalls, cuts and half closes, before a frontier that is killed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from acceptance.parts import Parts
from acceptance.programs import Programs, pass_time
from faults.kills.judging import assert_nothing, lives
from faults.kills.network import BadNetwork
from faults.proxy import Network, Proxy
from faults.relay import Relay
from frontier_harness.soaking import Soak

from practice_web.practice import PracticeWeb

LEASE_S, LONGEST_S = 10.0, 0.8


def test_a_bad_network_loses_and_doubles_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    life = BadNetwork(tmp_path, seed=11)
    assert_nothing(life.play(2))


@pytest.mark.soak("network")
@pytest.mark.timeout(7200)
def test_a_network_that_is_bad_in_many_ways_loses_and_doubles_nothing_that_was_acknowledged(
    tmp_path: Path, soak: Soak
) -> None:
    lives(BadNetwork, tmp_path, soak, 400)


@pytest.mark.soak("network")
@pytest.mark.timeout(3600)
def test_nodes_behind_a_bad_network_fetch_no_page_twice_whose_lease_lives(
    web: PracticeWeb, programs: Programs, tmp_path: Path, soak: Soak
) -> None:
    """No fault lasts as long as a lease. What a lost answer to Next gave out comes back when it lapses."""
    parts = Parts(web, programs, tmp_path, lease_s=LEASE_S)
    chance, faults = Random(soak.seed), max(soak.cycles(400) // 10, 1)
    done = 0
    with (
        Proxy(parts.address) as proxy,
        Relay(proxy.address, lose={"Schedule": 5, "Finished": 5, "Heartbeat": 5, "Next": 100}) as relay,
    ):
        nodes = [parts.node(name, frontier=relay.address) for name in ("one", "two")]
        parts.launch(("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"))
        while done < faults and not parts.has_finished():
            pass_time(chance.uniform(0, LONGEST_S))
            proxy.delay_s = chance.choice((0.0, 0.005, 0.02))
            _be_bad(proxy, chance)
            done += 1
        parts.until_finished()
        assert all(node.runs for node in nodes)
        lost = relay.lost.total()
    repeated = parts.repeated()
    assert len(repeated) <= parts.status()["statistics"]["lapsed_count"]
    assert parts.complaints(again=repeated) == []
    soak.count(faults=done + lost, checked=len(parts.pages))


def _be_bad(proxy: Proxy, chance: Random) -> None:
    """For much less than the life of a lease."""
    if chance.random() < 0.25:
        proxy.half_close()
    else:
        proxy.become(chance.choice((Network.CUT, Network.SILENT, Network.LATE)))
        pass_time(chance.uniform(0, LONGEST_S))
        proxy.become(Network.WELL)
