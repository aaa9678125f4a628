"""The rests before a process that has died is started again."""

from toehold_base.process.restarts import Rests


def test_rests_grow_while_processes_die_soon_and_begin_anew_after_a_good_life() -> None:
    rests = Rests(first_s=1, longest_s=5, good_life_s=10)
    assert [rests.after(0.5) for _ in range(5)] == [1, 2, 4, 5, 5]
    assert [rests.after(lived_s) for lived_s in (10, 9.9, 9.9, 11)] == [1, 2, 4, 1]
