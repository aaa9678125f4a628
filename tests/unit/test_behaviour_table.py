"""docs/behaviour.md: no row is missing, and each names a module and tests that exist."""

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
STATES = ("NASCENT", "PREPARING", "RUNNING", "EMPTY", "PAUSING", "PAUSED", "STOPPING", "FINISHED")
TRIGGERS = (
    "launch",
    "unpause",
    "pause",
    "stop",
    *(f"frontier-{told}" for told in ("RUN", "EMPTY", "PAUSE", "FINISH")),
)
EXPECTED = [
    *(f"S0.{number}" for number in range(1, 52)),
    *(f"S0/{state}/{trigger}" for state in STATES for trigger in TRIGGERS),
    *(f"T{number}" for number in range(1, 16)),
    *(f"S1.{number}" for number in range(1, 23)),
    *(f"S2.{number}" for number in range(1, 19)),
    *(f"S3.{number}" for number in range(1, 18)),
    "2.4/redirect",
    *(f"S4.{number}" for number in range(1, 15)),
    *(f"2.20/{what}" for what in ("recoverable", "kill", "reports")),
    *(f"D{number}" for number in range(1, 26)),
]


_NUMBER = r"(?:[A-Z]\d+(?:\.\d+|/[A-Z]+/[A-Za-z-]+)?|2\.(?:4|20)/[a-z]+)"


class Row(NamedTuple):
    """A line of the tables."""

    number: str
    meaning: str
    toehold: str
    module: str
    tests: str


CELLS = ("core/machines/lifecycle.py", "unit/test_transitions.py::test_each_cell_of_the_table")
"""The module and the test of each transition of a crawl, which the page names once."""


def rows() -> list[Row]:
    """All lines that begin with a row's number; a line of transitions is a row for each."""
    page = (ROOT / "docs" / "behaviour.md").read_text()
    assert all(f"`{each}`" in page for each in CELLS)
    found = []
    for line in page.splitlines():
        first, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
        if first.startswith("S0: "):
            meaning, toehold = cells
            found += [Row(f"S0/{cell}", meaning, toehold, *CELLS) for cell in first[4:].split(", ")]
        elif re.fullmatch(_NUMBER, first):
            found.append(Row(first, *cells))
    return found


@functools.cache
def parsed(path: str) -> ast.Module:
    """A module of tests."""
    return ast.parse((ROOT / "tests" / path).read_text())


def exists(test: str) -> bool:
    """Whether there is a test function, or a transcript."""
    path, _, name = test.partition("::")
    if path.endswith(".txt"):
        return not name and path.startswith("scenarios/") and (ROOT / "tests" / path).is_file()
    nodes = (
        each for each in ast.walk(parsed(path)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return name.startswith("test_") and name in {node.name for node in nodes}


def test_every_row_is_there_once() -> None:
    assert sorted(row.number for row in rows()) == sorted(EXPECTED)


def test_each_row_says_what_holds_and_names_its_module() -> None:
    for row in rows():
        assert len(row.meaning) > 20, row
        assert re.match(r"(same|different|does not apply)\b", row.toehold), row
        assert row.toehold.startswith("same") or ": " in row.toehold, f"{row.number} must say what differs"
        folder = "crawler_node" if row.number.startswith(("S4", "2.20")) else "frontier_server"
        assert (ROOT / folder / row.module).is_file() or (ROOT / row.module).is_file(), row


def test_each_row_names_tests_that_exist() -> None:
    """D22: none is a stub."""
    for row in rows():
        for test in row.tests.split(", "):
            assert exists(test), f"{row.number} names {test}, which does not exist"
