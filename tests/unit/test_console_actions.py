"""The acts that the console offers on a crawl: those that its state allows, and that change something."""

import pytest

from frontier_server.core.machines.lifecycle import TABLE, CrawlState, Input, Move
from frontier_server.core.machines.target import Target
from toehold.frontier.v1 import crawl_pb2
from toehold_console import shown

INPUTS = {
    "launch": Input.LAUNCH,
    "resume": Input.RESUME,
    "pause": Input.PAUSE,
    "stop": Input.STOP,
    "interrupt": Input.STOP,
    "reopen": Input.REOPEN,
}
REACHED = {CrawlState.PAUSING: Target.PAUSE, CrawlState.PAUSED: Target.PAUSE}
"""The target of a crawl in a state in which a request may ask for that target again."""


def offered(
    state: CrawlState, *, held: bool = False, torn_down: bool = False, tearing_down: bool = False
) -> set[str]:
    """The acts on a crawl in a state."""
    number = crawl_pb2.CrawlState.Value(f"CRAWL_STATE_{state.value}")
    crawl = crawl_pb2.CrawlStatus(state=number, held=held, torn_down=torn_down, tearing_down=tearing_down)
    return set(shown.actions(crawl))


@pytest.mark.parametrize("act", INPUTS)
def test_an_act_is_offered_where_it_changes_the_crawl(act: str) -> None:
    for state in CrawlState:
        step = TABLE.get((state, INPUTS[act]), Move())
        new_target = step.target not in (None, REACHED.get(state))
        changes = step.interrupts if act == "interrupt" else bool(step.state or new_target)
        assert (act in offered(state)) == changes, state


@pytest.mark.parametrize("state", CrawlState)
def test_a_crawl_in_any_state_can_be_torn_down(state: CrawlState) -> None:
    assert "teardown" in offered(state)


def test_a_held_crawl_can_be_resumed_paused_stopped_and_torn_down() -> None:
    assert offered(CrawlState.PAUSED, held=True) == {"resume", "pause", "stop", "teardown"}


def test_a_crawl_that_is_torn_down_has_no_acts() -> None:
    assert offered(CrawlState.FINISHED, torn_down=True) == set()


def test_a_crawl_that_is_being_torn_down_can_only_be_interrupted() -> None:
    assert offered(CrawlState.STOPPING, tearing_down=True) == {"interrupt"}
    assert offered(CrawlState.FINISHED, tearing_down=True) == set()
