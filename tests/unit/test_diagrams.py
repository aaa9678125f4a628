"""The diagrams of docs/states.md: drawn from the tables, all of them, and known to be stale when they are."""

import re
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from frontier_server.core.machines import lifecycle, target
from frontier_server.core.state import queue

ROOT = Path(__file__).parents[2]


@pytest.fixture
def diagrams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command, and a page of its own."""
    spec = spec_from_file_location("diagrams", ROOT / "tools" / "diagrams.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    page = tmp_path / "states.md"
    page.write_text((ROOT / "docs" / "states.md").read_text())
    monkeypatch.setattr(module, "PAGE", page)
    return module


def run(diagrams: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Run the command."""
    monkeypatch.setattr(sys, "argv", ["diagrams.py", *arguments])
    main: Callable[[], None] = diagrams.main
    main()


def arrows(page: str, name: str) -> dict[tuple[str, str], str]:
    """The arrows of a diagram: their ends, and what stands on them."""
    picture = re.search(rf"<!-- generated: {name} -->\n(.*?)<!-- /generated -->", page, re.DOTALL)
    assert picture is not None, name
    found = re.findall(r"^    (\w+) --> (\w+) : (.+)$", picture[1], re.MULTILINE)
    ends = {(start, end): label for start, end, label in found}
    assert len(ends) == len(found), "arrows with the same ends are one"
    return ends


def test_every_move_of_the_crawl_machine_is_drawn_and_none_that_changes_nothing(diagrams: ModuleType) -> None:
    drawn = arrows(diagrams.PAGE.read_text(), "crawl machine")
    counted = 0
    for (state, heard), step in lifecycle.TABLE.items():
        if step == lifecycle.Move():
            continue
        label = drawn[state.value, (step.state or state).value]
        assert heard.value in label
        assert step.target is None or f"/ {step.target.value}" in label
        counted += 1
    assert sum(len(re.split(r",<br/>|<br/>", label)) for label in drawn.values()) == counted
    assert ("RUNNING", "RUNNING") not in drawn, "resume changes nothing there"


def test_every_case_of_the_frontier_machine_is_drawn(diagrams: ModuleType) -> None:
    drawn = arrows(diagrams.PAGE.read_text(), "frontier machine")
    ends = {
        (f"asked_to_{asked.value}", reached.value)
        for (asked, _, _), reached in target.TABLE.items()
        if reached is not None
    }
    assert drawn.keys() == ends
    assert drawn["asked_to_FINISH", "FINISH"] == "nothing is in flight"


def test_a_case_that_there_are_no_words_for_is_not_drawn_wrongly(diagrams: ModuleType) -> None:
    with pytest.raises(KeyError):
        diagrams.when(frozenset(((True, False),)))


def test_every_transition_of_a_work_queue_is_drawn(diagrams: ModuleType) -> None:
    drawn = arrows(diagrams.PAGE.read_text(), "work queue")
    moves = {(state, event): after for (state, event), after in queue.TABLE.items() if after is not state}
    assert drawn.keys() == {(state.value, after.value) for (state, _), after in moves.items()}
    for (state, event), after in moves.items():
        assert event.name.lower() in drawn[state.value, after.value].split(",<br/>")


def test_a_page_that_is_current_is_left_alone(diagrams: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = diagrams.PAGE.read_text()
    run(diagrams, monkeypatch, "--check")
    run(diagrams, monkeypatch)
    assert diagrams.PAGE.read_text() == before


def test_a_page_that_is_stale_is_refused_by_the_check_and_drawn_anew(
    diagrams: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = diagrams.PAGE.read_text()
    stale = current.replace("NASCENT --> PREPARING : launch\n", "")
    assert stale != current
    diagrams.PAGE.write_text(stale)
    with pytest.raises(SystemExit, match="make generate"):
        run(diagrams, monkeypatch, "--check")
    assert diagrams.PAGE.read_text() == stale, "the check writes nothing"
    run(diagrams, monkeypatch)
    assert diagrams.PAGE.read_text() == current


def test_a_table_that_has_changed_makes_the_page_stale(
    diagrams: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(lifecycle.TABLE, (lifecycle.CrawlState.NASCENT, lifecycle.Input.LAUNCH))
    with pytest.raises(SystemExit, match=r"states\.md"):
        run(diagrams, monkeypatch, "--check")
