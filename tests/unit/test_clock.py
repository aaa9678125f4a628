"""The frontier's own time: the wall clock's at start, then the monotonic clock's, never less than before."""

import pytest

from frontier_server.clock import Clock


class Machine:
    """The two clocks of a machine, in nanoseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wall_ms: int) -> None:
        self.wall_ns = wall_ms * 1_000_000
        self.monotonic_ns = 123_456_789
        monkeypatch.setattr("time.time_ns", lambda: self.wall_ns)
        monkeypatch.setattr("time.monotonic_ns", lambda: self.monotonic_ns)

    def passes(self, length_ms: float) -> None:
        self.wall_ns += int(length_ms * 1_000_000)
        self.monotonic_ns += int(length_ms * 1_000_000)


def test_it_starts_with_the_wall_clock_and_goes_on_with_what_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1_000_000)
    ours = Clock()
    assert ours.now_ms() == 1_000_000
    machine.passes(0.9)
    assert ours.now_ms() == 1_000_000
    machine.passes(1.1)
    assert ours.now_ms() == 1_000_002


@pytest.mark.parametrize("jump_ms", [-500_000, 500_000])
def test_a_jump_of_the_wall_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch, jump_ms: int) -> None:
    machine = Machine(monkeypatch, 1_000_000)
    ours = Clock()
    machine.wall_ns += jump_ms * 1_000_000
    machine.passes(5)
    assert ours.now_ms() == 1_000_005


def test_it_is_never_below_the_last_time_that_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1_000_000)
    assert Clock(2_000_000).now_ms() == 2_000_000
    assert Clock(999_999).now_ms() == 1_000_000
    ours = Clock(2_000_000)
    machine.passes(7)
    assert ours.now_ms() == 2_000_007
