"""Whatever three owners of a log do to one another, nothing is lost; without one of the rules, there is."""

import pytest
from frontier_harness.soaking import Soak
from simulation.interleavings import Bounds, Rules, search

THREE = Bounds(owners=3, places=6, changes=1)
QUICK = [
    pytest.param(THREE, 200_000, id="three owners"),
    pytest.param(Bounds(2, 7, 2, answers_are_lost=True, requests_are_late=True), 100_000, id="a bad network"),
]
FULL = [
    pytest.param(Bounds(3, 8, 2, answers_are_lost=True), 6_000_000, id="lost answers"),
    pytest.param(
        Bounds(3, 6, 1, answers_are_lost=True, requests_are_late=True), 7_000_000, id="a bad network"
    ),
]


@pytest.mark.parametrize(("bounds", "at_least"), QUICK)
def test_owners_lose_nothing_in_any_order_of_their_requests(bounds: Bounds, at_least: int) -> None:
    searched = search(bounds)
    assert (searched.loss, searched.way) == ("", [])
    assert searched.states > at_least


@pytest.mark.soak("interleavings")
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("bounds", "at_least"), FULL)
def test_owners_lose_nothing_in_some_million_states(bounds: Bounds, at_least: int, soak: Soak) -> None:
    searched = search(bounds)
    soak.count(checked=searched.states, violated=searched.loss != "")
    assert (searched.loss, searched.way) == ("", [])
    assert searched.states > at_least


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Rules(looks_again=False), "owner 1 reads 0 and not 1"),
        (Rules(keeps_fences=False), "1 is acknowledged, and owner 1 has read the log without it"),
        (Rules(checks_what_was_read=False), "owner 1 does not find a record"),
    ],
    ids=["an opener does not look again", "fences are deleted", "what was read is not checked"],
)
def test_without_a_rule_there_is_a_loss(rules: Rules, said: str) -> None:
    """The way to it is short, for people."""
    searched = search(THREE, rules)
    assert searched.loss == said
    assert len(searched.way) <= 20
