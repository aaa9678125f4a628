"""The frontier's own time: the wall clock's once, then what passes by the boot clock."""

import pytest

from frontier_server.shell.clock import Clock, iso


class Machine:
    """The clocks of a machine, in nanoseconds, and its present run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wall_ms: int) -> None:
        self.wall_ns = wall_ms * 1_000_000
        self.passed_ns = 123_456_789
        self.boot = "one run"
        monkeypatch.setattr("time.time_ns", lambda: self.wall_ns)
        monkeypatch.setattr("time.clock_gettime_ns", lambda _: self.passed_ns)
        monkeypatch.setattr("frontier_server.shell.clock.boot_id", lambda: self.boot)

    def passes(self, length_ms: float) -> None:
        self.wall_ns += int(length_ms * 1_000_000)
        self.passed_ns += int(length_ms * 1_000_000)

    def boots(self, length_ms: int) -> None:
        """The machine is down so long, and comes up."""
        self.wall_ns += length_ms * 1_000_000
        self.passed_ns, self.boot = 0, "another run"


def later(clock: Clock, stored_ms: int = 0) -> Clock:
    """The clock of the next server over the same store."""
    return Clock(stored_ms, clock.boot, clock.boot_ms)


def test_it_starts_with_the_wall_clock_and_goes_on_with_what_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1_000_000)
    ours = Clock()
    assert ours.now_ms() == 1_000_000
    machine.passes(0.4)
    assert ours.now_ms() == 1_000_000
    machine.passes(1.6)
    assert ours.now_ms() == 1_000_002


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("jump_ms", [-500_000, 500_000])
def test_a_jump_of_the_wall_clock_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, jump_ms: int, restarts: bool
) -> None:
    """Over a restart, too: a Retry-After lasts as long as the host asked for."""
    machine = Machine(monkeypatch, 1_000_000)
    ours = Clock()
    machine.wall_ns += jump_ms * 1_000_000
    machine.passes(5)
    if restarts:
        ours = later(ours)
    assert (ours.now_ms(), ours.ahead_ms()) == (1_000_005, -jump_ms)


def test_it_goes_on_while_no_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1_000_000)
    ours = Clock()
    machine.passes(60_000)
    assert later(ours, 1_000_000).now_ms() == 1_060_000


def test_after_the_machine_was_booted_it_is_the_wall_clock_s(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1_000_000)
    ours = Clock()
    machine.boots(60_000)
    assert later(ours, 1_000_000).now_ms() == 1_060_000


@pytest.mark.parametrize("boots", [False, True])
def test_it_is_never_below_the_last_time_that_was_stored(
    monkeypatch: pytest.MonkeyPatch, boots: bool
) -> None:
    machine = Machine(monkeypatch, 1_000_000)
    ours = Clock()
    if boots:
        machine.boots(0)
    again = later(ours, 2_000_000)
    assert again.now_ms() == 2_000_000
    machine.passes(7)
    assert (again.now_ms(), again.ahead_ms()) == (2_000_007, 1_000_000)


def test_times_are_told_to_the_millisecond() -> None:
    assert iso(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
