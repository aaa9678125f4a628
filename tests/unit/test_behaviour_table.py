"""docs/behaviour.md: no row is missing; each names a module and tests that exist, and they say what it says.

A docstring or a remark says so in one of two ways: `S2.6: also over a restart.`, for several rows
`S0.39, S0.40: …`, or `The store is opened as it was left (S2.1).`
"""

import ast
import functools
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
    "2.4/redirect",
    *(f"S4.{number}" for number in range(1, 15)),
    *(f"2.20/{what}" for what in ("recoverable", "kill", "reports")),
    *(f"D{number}" for number in range(1, 26)),
]


_NUMBER = r"(?:[A-Z]\d+(?:\.\d+|/[A-Z]+/[A-Za-z-]+)?|2\.(?:4|20)/[a-z]+)"
_NUMBERS = rf"(?<![\w./]){_NUMBER}(?:,? and {_NUMBER}|, {_NUMBER})*"
_SAID = re.compile(rf"(?P<before>{_NUMBERS}): -?\w|\w[^\w\s]* \((?P<behind>{_NUMBERS})\)")


class Row(NamedTuple):
    """A line of the tables."""

    number: str
    meaning: str
    toehold: str
    module: str
    tests: str


def rows() -> list[Row]:
    """All lines that begin with a row's number."""
    page = (ROOT / "docs" / "behaviour.md").read_text()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines()]
    return [Row(*row) for row in cells if re.fullmatch(_NUMBER, row[0])]


def said(description: str) -> set[str]:
    """The rows that a test says something of; a number alone says nothing."""
    text = re.sub(r"\s*\n(?:# ?)?\s*", " ", description)
    found = [match["before"] or match["behind"] for match in _SAID.finditer(text)]
    return {number for numbers in found for number in re.findall(_NUMBER, numbers)}


def description(test: str) -> str:
    """The docstring of a test function, or the remarks of a transcript."""
    path, _, name = test.partition("::")
    if path.endswith(".txt"):
        assert not name and path.startswith("scenarios/")
        text = (ROOT / "tests" / path).read_text()
        return "\n".join(line for line in text.splitlines() if line.startswith("#"))
    return ast.get_docstring(function(parsed(path), test)) or ""


@functools.cache
def parsed(path: str) -> ast.Module:
    """A module of tests."""
    return ast.parse((ROOT / "tests" / path).read_text())


def function(module: ast.Module, test: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The function of a test."""
    path, _, name = test.partition("::")
    functions = {
        node.name: node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name.startswith("test_") and name in functions, f"{path} has no test {name}"
    return functions[name]


def rows_run_for(test: str) -> Iterator[str]:
    """The rows that a test is run for, each with what must come of it: the keys of a table of its module."""
    path, _, name = test.partition("::")
    if not name:
        return
    module = parsed(path)
    tables = {
        node.target.id: node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Dict)
    }
    for decorator in function(module, test).decorator_list:
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
def test_each_row_has_tests_that_say_what_it_says(row: Row) -> None:
    """D22: none is a stub."""
    for test in row.tests.split(", "):
        told = said(description(test)) | set(rows_run_for(test))
        assert row.number in told, f"{test} says nothing of {row.number}, but of {sorted(told)}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S2.1: the store is opened as it was left.", {"S2.1"}),
        ("The store is opened as it was left (S2.1).", {"S2.1"}),
        ("S0.2, S0.3 and D1: nothing is launched. T3: it is\nactivated.", {"S0.2", "S0.3", "D1", "T3"}),
        ("# Rounds begin (S3.2,\n# S3.5) in time.", {"S3.2", "S3.5"}),
        ("S0/NASCENT/stop: it has finished. 2.20/kill: it is replaced.", {"S0/NASCENT/stop", "2.20/kill"}),
        ("S2.13: it counts.", {"S2.13"}),
        ("S2.1.3: it counts. RFC 2.1: so it is. XS2.1: no.", set()),
        ("S2.1", set()),
        ("S2.1.", set()),
        ("S2.1, S2.2.", set()),
        ("As S2.1 is no concern here.", set()),
        ("(S2.1)", set()),
    ],
)
def test_a_row_is_named_with_what_it_says_and_a_number_alone_names_none(
    text: str, expected: set[str]
) -> None:
    assert said(text) == expected
