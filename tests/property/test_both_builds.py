"""The compiled core and the interpreted one, step by step: the same history gives the same answers and
change lists. The histories are those of `test_frontier_machine`.
"""

from collections.abc import Iterator
from typing import ClassVar

import pytest
from core_doubles.both_builds import BothShells
from core_doubles.other_build import OtherBuild, lacking
from core_doubles.several_leases import A, settings
from core_doubles.shell import CheckedShell
from frontier_harness.soaking import Soak
from hypothesis.stateful import invariant, run_state_machine_as_test
from property.test_frontier_machine import FrontierMachine, profile

from frontier_server.core.state import seeds
from frontier_server.service import core_kind


class BothMachine(FrontierMachine):
    """The machine, on both."""

    other: ClassVar[OtherBuild]
    steps: ClassVar[int] = 0

    def new_shell(self) -> CheckedShell:
        return BothShells(self.other)

    @invariant()
    def counted(self) -> None:
        """How many steps there were."""
        BothMachine.steps += 1


@pytest.fixture
def other() -> Iterator[OtherBuild]:
    if reason := lacking():
        pytest.skip(reason)
    with OtherBuild() as other:
        BothMachine.other, BothMachine.steps = other, 0
        yield other


@pytest.mark.timeout(3600)
def test_both_builds_play_histories_alike(other: OtherBuild) -> None:
    run_state_machine_as_test(BothMachine, settings=profile(examples=15, steps=50))
    assert BothMachine.steps >= 200


@pytest.mark.soak("compiled")
@pytest.mark.timeout(0)
def test_both_builds_play_histories_alike_for_long(other: OtherBuild, soak: Soak) -> None:
    examples = soak.cycles(400)
    run_state_machine_as_test(BothMachine, settings=profile(examples=examples, steps=200))
    soak.count(checked=BothMachine.steps)
    assert BothMachine.steps >= 100 * examples


def test_a_difference_between_builds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process has the same build here, so that no compiler is needed, but larger slices."""
    with OtherBuild(core_kind()) as other:
        shell = BothShells(other)
        monkeypatch.setattr(seeds, "SEEDS_PER_SLICE", 1)
        shell.create("crawl", settings())
        with pytest.raises(AssertionError, match=r"the builds differ in upkeep\.work"):
            shell.launch("crawl", f"{A}/1", f"{A}/2", f"{A}/3")
