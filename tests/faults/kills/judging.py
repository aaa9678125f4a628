"""Many lives of a frontier, one after the other, and what is said when one is found wanting."""

from pathlib import Path

from faults.kills.campaign import KILLS_OF_A_LIFE, Life, Tally
from frontier_harness.soaking import Soak


def assert_nothing(tally: Tally) -> None:
    """What was acknowledged is there, once, and nothing is wrong."""
    assert not tally.found.all(), "\n".join([str(tally), *tally.found.all()[:50]])
    assert tally.checked


def lives(kind: type[Life], folder: Path, soak: Soak, kills: int) -> None:
    """So many kills in all, or as many as the user wants."""
    left, seed = soak.cycles(kills), soak.seed
    while left:
        tally = kind(folder / str(seed), seed).play(min(left, KILLS_OF_A_LIFE))
        print(tally, flush=True)
        found = tally.found
        soak.count(
            faults=tally.kills.total(),
            checked=tally.checked,
            lost=len(found.lost),
            doubled=len(found.doubled),
            violated=len(found.violated),
        )
        assert_nothing(tally)
        left, seed = left - tally.kills.total(), seed + 1
