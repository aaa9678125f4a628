"""Budgets of items: `budgets.toml`, in µs of a process where the calibration loop takes REFERENCE_MS.

A budget is what an item costs. A figure is told to be over it from MOST_TIMES of it on, because machines
differ from one minute to the next by more than most changes of code do.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.calibration import REFERENCE_MS
from benchmarks.measuring import Figure, Limit

FILE = Path(__file__).with_name("budgets.toml")
MOST_TIMES = 1.5


def budgets(path: Path = FILE) -> Mapping[str, Mapping[str, float]]:
    """By the name of a figure and of a process."""
    with path.open("rb") as file:
        return tomllib.load(file)


def limits(figure: Figure, known: Mapping[str, Mapping[str, float]]) -> Iterator[Limit]:
    """Those of a figure that has budgets."""
    for process, budget_us in known.get(figure.name, {}).items():
        words = (
            f"times its budget of {budget_us:g} µs is what an item costs the {process} ({figure.name}) "
            f"where the loop takes {REFERENCE_MS:.0f} ms"
        )
        yield Limit(words, figure.scaled_us(process) / budget_us, MOST_TIMES)
