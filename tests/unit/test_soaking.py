"""The parts of `make soak`, and the table that it prints."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from frontier_harness import soaking
from frontier_harness.soaking import PARTS, PROPERTY, Row, Soak, Table
from property.mutations import ROOT

CONFIG: Any = SimpleNamespace(workerinput={})


def test_a_part_that_is_not_there_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PART", "kill")
    with pytest.raises(pytest.UsageError, match=r"PART must be one of kills, .*, got 'kill'"):
        soaking.begin(CONFIG)


@pytest.mark.sampled("name", ["CYCLES", "SEED"])
@pytest.mark.sampled("value", ["0", "-1", "many", "1.5"])
def test_what_is_no_positive_whole_number_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(pytest.UsageError, match=rf"{name} must be a positive whole number, got '{value}'"):
        soaking.begin(CONFIG)


def test_a_soak_does_as_much_as_is_asked_or_what_its_test_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CYCLES", raising=False)
    assert Soak.cycles(1000) == 1000
    monkeypatch.setenv("CYCLES", "7")
    assert Soak.cycles(1000) == 7


def told(part: str, row: dict[str, int], when: str = "call", passed: bool = True) -> Any:
    return SimpleNamespace(
        when=when, passed=passed, failed=not passed, duration=60.0, user_properties=[(PROPERTY + part, row)]
    )


def counted(**counts: int) -> dict[str, int]:
    row = {"faults": 0, "checked": 0, "lost": 0, "doubled": 0, "violated": 0}
    soak = Soak(row)
    soak.count(**counts)
    soak.count(faults=1)
    return row


def test_the_table_adds_up_what_the_tests_of_a_part_have_counted() -> None:
    table = Table()
    table.pytest_runtest_logreport(told("cuts", counted(faults=2, checked=12_345)))
    table.pytest_runtest_logreport(told("cuts", counted(lost=1), passed=False))
    table.pytest_runtest_logreport(told("cuts", counted(), when="teardown"))
    table.pytest_runtest_logreport(told("kills", counted(doubled=3, violated=4)))
    assert list(table.lines())[2:] == [
        "| kills | 1 | 0 | 0 | 3 | 4 | 1 | 0 | 1.0 |",
        "| cuts | 4 | 12 345 | 1 | 0 | 0 | 2 | 1 | 2.0 |",
        "| all | 5 | 12 345 | 1 | 3 | 4 | 3 | 1 | 3.0 |",
    ]
    assert Row(1, 2, 3, 4, 5) == Row(faults=1, checked=2, lost=3, doubled=4, violated=5)


def test_the_documentation_lists_the_parts() -> None:
    text = (ROOT / "docs/reliability.md").read_text().partition("## Soaks")[2].partition("\n## ")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", text, re.M)) == PARTS
