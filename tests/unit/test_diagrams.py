"""The diagrams of docs/architecture.md: drawn from the tables, all of them, and known when they are stale."""

import re

import pytest

from frontier_server.core.machines import lifecycle, target
from frontier_server.core.state import queue
from tools.parts import diagrams


def arrows(page: str, name: str) -> dict[tuple[str, str], str]:
    """The arrows of a diagram: their ends, and what stands on them."""
    picture = re.search(rf"<!-- generated: {name} -->\n(.*?)<!-- /generated -->", page, re.DOTALL)
    assert picture is not None, name
    found = re.findall(r"^    (\w+) --> (\w+) : (.+)$", picture[1], re.MULTILINE)
    ends = {(start, end): label for start, end, label in found}
    assert len(ends) == len(found), "arrows with the same ends are one"
    return ends


def test_every_move_of_the_crawl_machine_is_drawn_and_none_that_changes_nothing() -> None:
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


def test_every_case_of_the_frontier_machine_is_drawn() -> None:
    drawn = arrows(diagrams.PAGE.read_text(), "frontier machine")
    ends = {
        (f"asked_to_{asked.value}", reached.value)
        for (asked, _, _), reached in target.TABLE.items()
        if reached is not None
    }
    assert drawn.keys() == ends
    assert drawn["asked_to_FINISH", "FINISH"] == "nothing is in flight"


def test_a_case_that_there_are_no_words_for_is_not_drawn_wrongly() -> None:
    with pytest.raises(KeyError):
        diagrams.when(frozenset(((True, False),)))


def test_every_transition_of_a_work_queue_is_drawn() -> None:
    drawn = arrows(diagrams.PAGE.read_text(), "work queue")
    moves = {(state, event): after for (state, event), after in queue.TABLE.items() if after is not state}
    assert drawn.keys() == {(state.value, after.value) for (state, _), after in moves.items()}
    for (state, event), after in moves.items():
        assert event.name.lower() in drawn[state.value, after.value].split(",<br/>")


def test_a_table_that_has_changed_makes_the_page_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagrams.files() == {diagrams.PAGE: diagrams.PAGE.read_text()}
    monkeypatch.delitem(lifecycle.TABLE, (lifecycle.CrawlState.NASCENT, lifecycle.Input.LAUNCH))
    assert diagrams.files() != {diagrams.PAGE: diagrams.PAGE.read_text()}
