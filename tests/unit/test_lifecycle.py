"""The crawl machine, and the whole lives that follow from its table."""

import itertools
import re

import pytest
from core_doubles.lives import SEEDS, created, fetch, fetch_all, fetching, in_state, launched

from frontier_server.core.machines.lifecycle import TABLE, CrawlState, ExitStatus, Input, Move, move
from frontier_server.core.rows.errors import CrawlFinished, IllegalState, NoSeeds
from frontier_server.core.state.model import Report

S, I, X = CrawlState, Input, ExitStatus  # noqa: E741
STAY = Move()


@pytest.mark.parametrize("heard", [given for given in Input if given is not Input.STOP])
def test_a_refused_input_names_the_states_that_allow_it(heard: Input) -> None:
    """S0.23, D3."""
    allowing = {state.value for state, given in TABLE if given is heard}
    refusing = next(state for state in CrawlState if state.value not in allowing)
    with pytest.raises(IllegalState) as caught:
        move(refusing, heard, "the-crawl")
    assert "the-crawl" in str(caught.value) and refusing.value in str(caught.value)
    assert allowing == set(re.findall(r"\b[A-Z]{5,}\b", str(caught.value).partition("; ")[2]))
    assert caught.value.metadata == {"crawl": "the-crawl", "state": refusing.value}


def test_there_are_exactly_eight_states() -> None:
    """S0.1: a crawl is in one of these."""
    names = "NASCENT RUNNING EMPTY PAUSED PAUSING STOPPING FINISHED PREPARING"
    assert {state.value for state in CrawlState} == set(names.split())


def test_only_a_crawl_that_is_reopened_leaves_the_end() -> None:
    """S0.32, S0.43, D3: no other request of Heritrix's does."""
    leaving = {heard for (state, heard), step in TABLE.items() if state is S.FINISHED and step != STAY}
    assert leaving == {I.REOPEN, I.REOPEN_TO_PAUSE}
    after_stop = {step.state for (state, _), step in TABLE.items() if state is S.STOPPING}
    assert after_stop == {None, S.FINISHED}


def test_every_way_to_the_end_says_how_it_ended_and_none_says_it_twice() -> None:
    """S0.20, S0.21, S0.24: nobody has to name an exit status, and the end leaves it as it was."""
    ends = {key: step for key, step in TABLE.items() if step.state in (S.STOPPING, S.FINISHED)}
    for (state, heard), step in ends.items():
        assert (step.exit_status is None) == (heard is I.REACHED_FINISH), (state, heard)
    statuses = {X.ABORTED, X.FINISHED, *(status for status in X if status.name.endswith("_LIMIT"))}
    assert {step.exit_status for step in ends.values()} == {None, *statuses}


@pytest.mark.parametrize("status", ExitStatus)
def test_an_exit_status_describes_and_decides_nothing(status: ExitStatus) -> None:
    """S0.3: whatever it is, a crawl resumes and stops as ever."""
    shell = in_state(S.PAUSED)
    shell.core.shard.registry.named("crawl").state_row.exit_status = status.value
    assert shell.request("crawl", I.RESUME) is S.RUNNING
    shell.core.shard.registry.named("crawl").state_row.exit_status = status.value
    assert shell.request("crawl", I.STOP) is S.FINISHED
    assert shell.core.views.crawl("crawl").exit_status is X.ABORTED


def test_no_request_leads_anywhere_before_the_launch_or_while_seeds_are_announced() -> None:
    """D3: Heritrix accepts a pause in NASCENT, PREPARING and STOPPING."""
    for state in (S.NASCENT, S.PREPARING, S.STOPPING, S.FINISHED):
        for heard in (I.PAUSE, I.HOLD, I.RESUME):
            assert (state, heard) not in TABLE


# Whole lives.

REQUESTS = (I.LAUNCH, I.RESUME, I.PAUSE, I.HOLD, I.STOP)


@pytest.mark.parametrize(("state", "asked"), list(itertools.product(CrawlState, REQUESTS)))
def test_a_request_that_the_state_does_not_allow_changes_nothing(state: CrawlState, asked: Input) -> None:
    """S0.23, D3: it is refused by name; what is allowed is in the table."""
    shell = in_state(state)
    before, events = shell.core.views.crawl("crawl"), shell.events("crawl")

    def ask() -> None:
        if asked is I.LAUNCH:
            shell.do(lambda core, now: core.control.launch("crawl", now))
        else:
            shell.request("crawl", asked)

    if (state, asked) in TABLE:
        ask()
        return
    with pytest.raises(IllegalState, match=state.value) as caught:
        ask()
    assert caught.value.metadata["state"] == state.value
    assert (shell.core.views.crawl("crawl"), shell.events("crawl")) == (before, events)
    assert shell.build().views.crawl("crawl") == before


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        (S.RUNNING, I.RESUME),
        (S.EMPTY, I.RESUME),
        (S.PAUSED, I.PAUSE),
        (S.PAUSING, I.PAUSE),
        (S.STOPPING, I.STOP),
        (S.FINISHED, I.STOP),
    ],
)
def test_asking_for_what_is_so_or_under_way_succeeds_and_is_no_event(state: CrawlState, asked: Input) -> None:
    """S0.4: what is so already is no event. S0.15: a pause of what pauses. S0.19: a stop of what stops."""
    shell = in_state(state)
    events = shell.events("crawl")
    assert shell.request("crawl", asked) is state
    assert shell.events("crawl") == events


def test_a_crawl_is_built_before_it_is_launched() -> None:
    """S0.2: it begins as NASCENT, and nothing is launched. S0.3: its exit status says what it is doing."""
    view = created().core.views.crawl("crawl")
    assert (view.state, view.exit_status) == (S.NASCENT, X.CREATED)
    assert view.launch_ms == view.finish_ms == 0


def test_a_launch_prepares_announces_the_seeds_and_runs() -> None:
    """S0.10, S0.12: NASCENT, PREPARING, RUNNING."""
    shell = in_state(S.PREPARING)
    assert shell.core.views.crawl("crawl").announced_seeds == 0
    shell.work()
    assert shell.states("crawl") == ["NASCENT", "PREPARING", "RUNNING"]
    assert shell.core.views.crawl("crawl").announced_seeds == 4


def test_a_launch_without_seeds_is_refused() -> None:
    shell = created()
    with pytest.raises(NoSeeds, match="crawl"):
        shell.do(lambda core, now: core.control.launch("crawl", now))
    assert shell.state("crawl") is S.NASCENT and not shell.core.upkeep.has_work


def test_the_natural_end_is_empty_then_stopping_then_finished() -> None:
    """D1, S0.46: EMPTY is told first, then STOPPING. S0.45: RUNNING when it is reached; S0.48: FINISHED, too.

    Each with its exit status.
    """
    shell = launched()
    fetch_all(shell)
    assert shell.states("crawl") == ["NASCENT", "PREPARING", "RUNNING", "EMPTY", "STOPPING", "FINISHED"]
    exits = [row.fields["exit_status"] for row in shell.events("crawl") if row.kind == "status_changed"]
    assert exits == ["CREATED", "RUNNING", "RUNNING", "RUNNING", "FINISHED", "FINISHED"]


def test_a_natural_end_is_not_overwritten_by_a_later_stop() -> None:
    """S0.24: whoever stops it then, it keeps its exit status."""
    shell = launched()
    fetch_all(shell)
    shell.request("crawl", I.STOP)
    assert shell.core.views.crawl("crawl").exit_status is X.FINISHED


def test_a_stop_while_leases_are_out_waits_for_them() -> None:
    """S0.22: STOPPING is told first; S0.40, S0.48: FINISHED when nothing is in process."""
    shell, (grant,) = fetching(most=1)
    assert shell.request("crawl", I.STOP) is S.STOPPING
    fetch(shell, grant)
    assert shell.states("crawl")[-2:] == ["STOPPING", "FINISHED"]
    assert shell.core.views.crawl("crawl").exit_status is X.ABORTED


def test_a_stop_with_no_lease_out_is_over_at_once_and_still_told_in_two_steps() -> None:
    """S0.22"""
    assert in_state(S.FINISHED).states("crawl")[-2:] == ["STOPPING", "FINISHED"]


def test_a_crawl_stopped_before_its_launch_tells_so() -> None:
    """S0.18, D14: Heritrix sets FINISHED without an event."""
    shell = in_state(S.NASCENT)
    shell.request("crawl", I.STOP)
    assert shell.states("crawl") == ["NASCENT", "FINISHED"]
    assert shell.core.views.crawl("crawl").exit_status is X.ABORTED


def test_a_crawl_stopped_before_its_launch_was_never_launched() -> None:
    shell = in_state(S.NASCENT)
    shell.request("crawl", I.STOP)
    view = shell.core.views.crawl("crawl")
    assert view.launch_ms == 0 and view.finish_ms == shell.now_ms


def test_a_pause_waits_for_what_is_in_flight_and_says_so() -> None:
    """S0.16: PAUSING, and WAITING_FOR_PAUSE as its exit status. S0.47: then PAUSED, when it is reached."""
    shell, (grant,) = fetching(most=1)
    assert shell.request("crawl", I.PAUSE) is S.PAUSING
    assert shell.core.views.crawl("crawl").exit_status is X.WAITING_FOR_PAUSE
    shell.finish(Report(grant.token, released=True))
    view = shell.core.views.crawl("crawl")
    assert (view.state, view.exit_status) == (S.PAUSED, X.PAUSED)


def test_running_is_told_when_it_is_so_and_not_before() -> None:
    """S0.14 and D13: in Heritrix a resumed crawl says RUNNING while its frontier still pauses."""
    shell = in_state(S.PAUSED)
    assert shell.request("crawl", I.RESUME) is S.RUNNING
    assert shell.grants("crawl")


def test_a_paused_crawl_outlives_a_restart() -> None:
    shell = in_state(S.PAUSED)
    shell.restart()
    assert shell.state("crawl") is S.PAUSED
    assert shell.request("crawl", I.RESUME) is S.RUNNING


def test_a_finished_crawl_takes_in_nothing() -> None:
    shell = in_state(S.FINISHED)
    with pytest.raises(CrawlFinished, match="ABORTED"):
        shell.schedule("crawl", "http://alpha.example/new")
    with pytest.raises(CrawlFinished):
        shell.do(lambda core, now: core.control.add_seeds("crawl", ["http://alpha.example/"], now))


# A pause at the start.


def test_a_crawl_that_is_to_pause_at_its_start_is_paused_once_its_seeds_are_announced() -> None:
    """S0.11: NASCENT, PREPARING, PAUSED; nothing is given out."""
    shell = launched(pause_at_start=True)
    assert shell.states("crawl") == ["NASCENT", "PREPARING", "PAUSED"]
    view = shell.core.views.crawl("crawl")
    assert (view.exit_status, view.announced_seeds, view.reason) == (X.PAUSED, 4, "")
    assert not shell.grants()
    assert shell.count("crawl", "queued_count") == 4


def test_it_runs_when_it_is_resumed_and_not_before() -> None:
    """S0.13, after S0.11."""
    shell = launched(pause_at_start=True)
    shell.restart()
    shell.now_ms += 86_400_000
    shell.tick()
    assert shell.state("crawl") is S.PAUSED
    assert shell.request("crawl", I.RESUME) is S.RUNNING
    assert len(shell.grants()) == 4


def test_its_clock_stands_until_then() -> None:
    shell = launched(pause_at_start=True)
    shell.now_ms += 5_000
    assert shell.core.views.statistics("crawl", shell.now_ms).elapsed_ms == 0


def test_a_stop_while_it_waits_to_be_resumed_ends_it() -> None:
    shell = launched(pause_at_start=True)
    assert shell.request("crawl", I.STOP) is S.FINISHED


def test_a_restart_while_the_seeds_are_announced_still_ends_in_the_pause() -> None:
    """S0.11"""
    shell = created(*SEEDS, pause_at_start=True)
    shell.do(lambda core, now: core.control.launch("crawl", now))
    shell.restart()
    shell.work()
    assert shell.states("crawl") == ["NASCENT", "PREPARING", "PAUSED"]
