"""Heritrix's table of a crawl's transitions, cell by cell: each of the eight states with each trigger.

Four triggers are requests, four are what the frontier machine has reached. `CELLS` says what each leads
to; docs/behaviour.md says where that differs from Heritrix, and why.
"""

from collections.abc import Callable

import pytest
from core_doubles.lives import NAME, SEEDS, fetch_all, in_state
from core_doubles.shell import Shell
from core_doubles.stillness import still

from frontier_server.core.machines.lifecycle import CrawlState, Input, move
from frontier_server.core.machines.target import TABLE, Reached
from frontier_server.core.rows.errors import IllegalState

REFUSED = "refused: the state is named, and nothing is written"
NEVER = "cannot be: the frontier machine is asked for something else, and the crawl machine would refuse it"
NOTHING = "nothing is told"

# The states that are told, in their order, each with the exit status; or one of the above.
CELLS: dict[str, str] = {
    "S0/NASCENT/launch": "PREPARING RUNNING",
    "S0/NASCENT/unpause": REFUSED,
    "S0/NASCENT/pause": REFUSED,
    "S0/NASCENT/stop": "FINISHED ABORTED",
    "S0/NASCENT/frontier-RUN": NEVER,
    "S0/NASCENT/frontier-EMPTY": NEVER,
    "S0/NASCENT/frontier-PAUSE": NEVER,
    "S0/NASCENT/frontier-FINISH": NEVER,
    "S0/PREPARING/launch": REFUSED,
    "S0/PREPARING/unpause": REFUSED,
    "S0/PREPARING/pause": REFUSED,
    "S0/PREPARING/stop": "STOPPING ABORTED, FINISHED ABORTED",
    "S0/PREPARING/frontier-RUN": "RUNNING RUNNING",
    "S0/PREPARING/frontier-EMPTY": NEVER,
    "S0/PREPARING/frontier-PAUSE": "PAUSED PAUSED",
    "S0/PREPARING/frontier-FINISH": NEVER,
    "S0/RUNNING/launch": REFUSED,
    "S0/RUNNING/unpause": NOTHING,
    "S0/RUNNING/pause": "PAUSING WAITING_FOR_PAUSE",
    "S0/RUNNING/stop": "STOPPING ABORTED",
    "S0/RUNNING/frontier-RUN": NOTHING,
    "S0/RUNNING/frontier-EMPTY": "EMPTY RUNNING, STOPPING FINISHED, FINISHED FINISHED",
    "S0/RUNNING/frontier-PAUSE": NEVER,
    "S0/RUNNING/frontier-FINISH": NEVER,
    "S0/EMPTY/launch": REFUSED,
    "S0/EMPTY/unpause": NOTHING,
    "S0/EMPTY/pause": "PAUSING WAITING_FOR_PAUSE, PAUSED PAUSED",
    "S0/EMPTY/stop": "STOPPING ABORTED, FINISHED ABORTED",
    "S0/EMPTY/frontier-RUN": "RUNNING RUNNING",
    "S0/EMPTY/frontier-EMPTY": NOTHING,
    "S0/EMPTY/frontier-PAUSE": NEVER,
    "S0/EMPTY/frontier-FINISH": NEVER,
    "S0/PAUSING/launch": REFUSED,
    "S0/PAUSING/unpause": "RUNNING RUNNING",
    "S0/PAUSING/pause": NOTHING,
    "S0/PAUSING/stop": "STOPPING ABORTED",
    "S0/PAUSING/frontier-RUN": "RUNNING RUNNING",
    "S0/PAUSING/frontier-EMPTY": NEVER,
    "S0/PAUSING/frontier-PAUSE": "PAUSED PAUSED",
    "S0/PAUSING/frontier-FINISH": NEVER,
    "S0/PAUSED/launch": REFUSED,
    "S0/PAUSED/unpause": "RUNNING RUNNING",
    "S0/PAUSED/pause": NOTHING,
    "S0/PAUSED/stop": "STOPPING ABORTED, FINISHED ABORTED",
    "S0/PAUSED/frontier-RUN": "RUNNING RUNNING",
    "S0/PAUSED/frontier-EMPTY": NEVER,
    "S0/PAUSED/frontier-PAUSE": NOTHING,
    "S0/PAUSED/frontier-FINISH": NEVER,
    "S0/STOPPING/launch": REFUSED,
    "S0/STOPPING/unpause": REFUSED,
    "S0/STOPPING/pause": REFUSED,
    "S0/STOPPING/stop": NOTHING,
    "S0/STOPPING/frontier-RUN": NEVER,
    "S0/STOPPING/frontier-EMPTY": NEVER,
    "S0/STOPPING/frontier-PAUSE": NEVER,
    "S0/STOPPING/frontier-FINISH": "FINISHED ABORTED",
    "S0/FINISHED/launch": REFUSED,
    "S0/FINISHED/unpause": REFUSED,
    "S0/FINISHED/pause": REFUSED,
    "S0/FINISHED/stop": NOTHING,
    "S0/FINISHED/frontier-RUN": NEVER,
    "S0/FINISHED/frontier-EMPTY": NEVER,
    "S0/FINISHED/frontier-PAUSE": NEVER,
    "S0/FINISHED/frontier-FINISH": NOTHING,
}
REQUESTS: dict[str, Callable[[Shell], object]] = {
    "launch": lambda shell: shell.do(lambda core, now: core.control.launch(NAME, now)),
    "unpause": lambda shell: shell.request(NAME, Input.RESUME),
    "pause": lambda shell: shell.request(NAME, Input.PAUSE),
    "stop": lambda shell: shell.request(NAME, Input.STOP),
}


def take_back_all(shell: Shell) -> None:
    """No lease is out any more."""
    shell.take_back([lease.token(shell.core.shard.server.secret) for lease in shell.core.shard.leases])


def fetch_the_rest(shell: Shell) -> None:
    """Everything is fetched."""
    take_back_all(shell)
    fetch_all(shell)


def take_in(shell: Shell) -> None:
    """Something comes in."""
    shell.schedule(NAME, f"{SEEDS[0]}more")


# How the frontier comes to tell what it has reached, in a state where it can.
REACHES: dict[str, Callable[[Shell], object]] = {
    "S0/PREPARING/frontier-RUN": Shell.work,
    "S0/PREPARING/frontier-PAUSE": Shell.work,  # pause_at_start
    "S0/RUNNING/frontier-RUN": take_in,
    "S0/RUNNING/frontier-EMPTY": fetch_the_rest,
    "S0/EMPTY/frontier-RUN": take_in,
    "S0/EMPTY/frontier-EMPTY": Shell.tick,
    "S0/PAUSING/frontier-RUN": REQUESTS["unpause"],
    "S0/PAUSING/frontier-PAUSE": take_back_all,
    "S0/PAUSED/frontier-RUN": REQUESTS["unpause"],
    "S0/PAUSED/frontier-PAUSE": take_in,
    "S0/STOPPING/frontier-FINISH": take_back_all,
    "S0/FINISHED/frontier-FINISH": Shell.work,
}


def resting_for(cell: str) -> Shell:
    """A crawl that rests in the state of a cell."""
    return in_state(
        CrawlState(cell.split("/")[1]),
        pause_at_start=cell == "S0/PREPARING/frontier-PAUSE",
        run_while_empty=cell.startswith("S0/EMPTY/"),
    )


@pytest.mark.parametrize("cell", CELLS)
def test_each_cell_of_the_table(cell: str) -> None:
    """The ids of the cells are those of `CELLS`."""
    expected, trigger = CELLS[cell], cell.split("/")[2]
    shell = resting_for(cell)
    state = shell.state(NAME)
    before = len(shell.events(NAME))
    if expected == NEVER:
        assert trigger.startswith("frontier-") and cell not in REACHES
        cannot_be(shell, state, Reached(trigger.removeprefix("frontier-")))
        return
    act = REQUESTS.get(trigger) or REACHES[cell]
    if expected == REFUSED:
        with still(shell, NAME), pytest.raises(IllegalState, match=state.value):
            act(shell)
        return
    act(shell)
    told = [row.fields for row in shell.events(NAME)[before:] if row.kind == "status_changed"]
    states = ", ".join(f"{fields['state']} {fields['exit_status']}" for fields in told)
    assert (states or NOTHING) == expected
    assert shell.state(NAME).value == (told[-1]["state"] if told else state.value)
    assert shell.build().views.crawl(NAME) == shell.core.views.crawl(NAME)


def cannot_be(shell: Shell, state: CrawlState, reached: Reached) -> None:
    """The frontier machine does not tell this of a crawl that rests here; if it did, it would be refused."""
    crawl = shell.core.shard.registry.named(NAME)
    reachable = {
        TABLE[crawl.target, in_flight, left] for in_flight in (False, True) for left in (False, True)
    }
    assert not crawl.state_row.request or reached not in reachable
    with pytest.raises(IllegalState, match=state.value):
        move(state, Input[f"REACHED_{reached.name}"], NAME)


def test_the_table_has_a_cell_for_each_state_and_each_trigger() -> None:
    triggers = [*REQUESTS, *(f"frontier-{reached}" for reached in ("RUN", "EMPTY", "PAUSE", "FINISH"))]
    assert list(CELLS) == [
        f"S0/{state}/{trigger}"
        for state in ("NASCENT", "PREPARING", "RUNNING", "EMPTY", "PAUSING", "PAUSED", "STOPPING", "FINISHED")
        for trigger in triggers
    ]
    assert len(CELLS) == 64
