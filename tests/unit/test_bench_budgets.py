"""Budgets of `make bench-quick`: which statistics they are for, and when one is exceeded."""

from dataclasses import replace

import pytest
from benchmarks import bench, budgets, growth, node
from benchmarks.calibration import REFERENCE_MS
from benchmarks.measuring import Figure

FIGURE = Figure("work", 100, 1_000.0, {"server": 40.0, "client": 10.0}, 2 * REFERENCE_MS)
BUDGETS = {"work": {"server": 10.0}, "other work": {"server": 1.0}}


@pytest.mark.parametrize(("spent_us", "met"), [(40.0, False), (30.1, False), (29.9, True), (1.0, True)])
def test_a_budget_is_exceeded_from_half_as_much_again_on(spent_us: float, met: bool) -> None:
    """The loop takes twice as long, so half of what was spent counts."""
    figure = replace(FIGURE, cpu_us={"server": spent_us, "client": 1_000.0})
    (limit,) = budgets.limits(figure, BUDGETS)
    assert limit.met is met
    assert limit.value == pytest.approx(spent_us / 2 / 10)


def test_work_without_a_budget_has_no_limit_by_one() -> None:
    assert not list(budgets.limits(replace(FIGURE, name="free"), BUDGETS))


def test_each_budget_is_for_a_figure_that_the_quick_benchmark_makes() -> None:
    """Else it would be kept whatever happens."""
    (size,), (queues,) = bench.QUICK_SIZES, bench.QUICK_QUEUES
    made = {f"New URIs; {size}", f"Known URIs; {size}", f"the same, CPU; {queues} queues"}
    made |= {f"Next+Finished by {growth.LEASES_A_CALL}, {n}; {size}" for n in ("1 client", "4 clients")}
    made |= {f"Pages fetched and searched, stored and reported, {node.THREADS} toes"}
    assert set(budgets.budgets()) == made
    assert all(us > 0 for each in budgets.budgets().values() for us in each.values())
