"""docs/reference.md lists every event that the programs log, and no other."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {  # the folder of its code: the heading on the page
    "toehold_base": "All programs",
    "frontier_server": "toehold-frontier",
    "crawler_node": "toehold-node",
    "toehold_console": "toehold console",
    "urlfrontier_gateway": "toehold-urlfrontier",
}
LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}
OTHERS = {"critical", "fatal", "log", "msg", "warn"}
LOGGERS = {"log", "_log"}


@dataclass
class Event:
    """What is known of one event, in the code or on the page."""

    levels: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    open: bool = False
    """It also has fields that the code does not name where it logs them."""


def logged(folder: str) -> dict[str, Event]:
    """The events that a program's code logs."""
    events: dict[str, Event] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        for call in calls(ast.parse(path.read_text())):
            assert isinstance(call.func, ast.Attribute)
            place = f"{path.relative_to(ROOT)}:{call.lineno}"
            assert call.func.attr in LEVELS, f"{place}: levels are debug, info, warning and error"
            (name,) = call.args
            assert isinstance(name, ast.Constant) and isinstance(name.value, str), f"{place}: not literal"
            event = events.setdefault(name.value, Event())
            event.levels.add(LEVELS[call.func.attr])
            if call.func.attr == "exception":
                event.fields.add("exception")
            for keyword in call.keywords:
                if keyword.arg is None:
                    event.open = True
                else:
                    event.fields.add("exception" if keyword.arg == "exc_info" else keyword.arg)
    return events


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls of a logger's methods."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id in LOGGERS and node.func.attr in {*LEVELS, *OTHERS}:
                yield node


def documented(heading: str) -> dict[str, Event]:
    """The events in a program's table."""
    page = (ROOT / "docs" / "reference.md").read_text()
    (section,) = re.findall(rf"^### {re.escape(heading)}$(.*?)(?=^##|\Z)", page, re.M | re.S)
    events = {}
    for row in re.findall(r"^\| `.*\|$", section, re.M):
        name, levels, fields, meaning = (cell.strip() for cell in row.strip("|").split("|"))
        name = name.strip("`")
        assert name not in events, f"{name} is listed twice"
        assert meaning.endswith("."), name
        events[name] = Event(set(levels.split(", ")), set(re.findall(r"`([^`]+)`", fields)))
    return events


@pytest.mark.parametrize("folder", PROGRAMS)
def test_the_page_has_every_event_of_a_program_with_its_levels_and_fields(folder: str) -> None:
    code, page = logged(folder), documented(PROGRAMS[folder])
    assert code, f"{folder} logs nothing, so this test no longer finds its calls"
    assert list(page) == sorted(page)
    assert sorted(code) == list(page)
    for name, event in code.items():
        told = page[name]
        assert event.levels == told.levels, name
        assert event.fields == told.fields or (event.open and event.fields <= told.fields), name


@pytest.mark.parametrize("folder", PROGRAMS)
def test_names_of_events_are_words_in_snake_case(folder: str) -> None:
    for name in logged(folder):
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name), name


def test_no_other_logger_escapes_this_test() -> None:
    """Every module that logs calls its logger `log` or `_log`."""
    for folder in PROGRAMS:
        for path in (ROOT / folder).rglob("*.py"):
            for name in re.findall(r"^(\w+) = structlog\.get_logger\(", path.read_text(), re.M):
                assert name in LOGGERS, f"{path.relative_to(ROOT)}: {name}"
