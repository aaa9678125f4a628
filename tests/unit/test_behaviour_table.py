"""docs/behaviour.md: no row is missing; each names a module and a test that exist, and the test names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

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
    *(f"S4.{number}" for number in range(1, 15)),
    *(f"2.20/{what}" for what in ("recoverable", "kill", "reports")),
    *(f"D{number}" for number in range(1, 26)),
]


_NUMBER = re.compile(r"[A-Z]\d+(\.\d+|/[A-Z]+/[A-Za-z-]+)?|2\.20/[a-z]+")


class Row(NamedTuple):
    """A line of the tables."""

    number: str
    meaning: str
    toehold: str
    module: str
    test: str


def rows() -> list[Row]:
    """All lines that begin with a row's number."""
    page = (ROOT / "docs" / "behaviour.md").read_text()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines()]
    return [Row(*row) for row in cells if _NUMBER.fullmatch(row[0])]


def description(test: str) -> str:
    """The docstring of a test function with the ids that it is run for, or the remarks of a transcript."""
    path, _, name = test.partition("::")
    text = (ROOT / "tests" / path).read_text()
    if path.endswith(".txt"):
        assert not name and path.startswith("scenarios/")
        return "\n".join(line for line in text.splitlines() if line.startswith("#"))
    module = ast.parse(text)
    functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    assert name.startswith("test_") and name in functions, f"{path} has no test {name}"
    return "\n".join((ast.get_docstring(functions[name]) or "", *ids_run_for(functions[name], module)))


def ids_run_for(test: ast.FunctionDef, module: ast.Module) -> Iterator[str]:
    """The keys of a table of the module, a dictionary written out, whose keys are what a test is run for."""
    tables = {
        node.target.id: node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Dict)
    }
    for decorator in test.decorator_list:
        match decorator:
            case ast.Call(args=[ast.Constant(), ast.Name(id=table)]) if table in tables:
                for key in tables[table].keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value


def test_every_row_is_there_once() -> None:
    assert [row.number for row in rows()] == EXPECTED


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.number)
def test_each_row_says_what_is_meant_what_holds_and_where(row: Row) -> None:
    assert len(row.meaning) > 20
    assert re.match(r"(same|different|does not apply)\b", row.toehold), row.toehold
    if not row.toehold.startswith("same"):
        assert ": " in row.toehold, "what differs is said"
    folder = "crawler_node" if row.number.startswith(("S4", "2.20")) else "frontier_server"
    assert (ROOT / folder / row.module).is_file() or (ROOT / row.module).is_file(), row.module


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.number)
def test_each_row_has_a_test_that_names_it(row: Row) -> None:
    """D22: none is a stub."""
    assert re.search(rf"\b{re.escape(row.number)}\b(?!\.\d)", description(row.test)), row.test
