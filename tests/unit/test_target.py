"""The frontier machine: from the state asked for to the state reached."""

import ast
import itertools
from pathlib import Path

import pytest
from core_doubles.codec import PlainCodec
from core_doubles.lives import NAME, SEEDS, fetch, fetching, in_state
from core_doubles.shell import SECRET, Shell

from frontier_server.core.machines import target
from frontier_server.core.machines.lifecycle import TABLE, CrawlState, Input
from frontier_server.core.machines.target import Reached, Target, reached
from frontier_server.core.rows.errors import SessionSuperseded
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Candidate, EmptyReason, Report

S, I = CrawlState, Input  # noqa: E741


@pytest.mark.parametrize(
    ("target", "out", "left"), list(itertools.product(Target, (False, True), (False, True)))
)
def test_what_is_reached_follows_from_the_counts(target: Target, out: bool, left: bool) -> None:
    """S0.32, S0.37, S0.38, S0.39, S0.40: RUN or EMPTY while running; the others with nothing in process."""
    if target is Target.RUN:
        expected: Reached | None = Reached.RUN if out or left else Reached.EMPTY
    else:
        expected = None if out else Reached[target.name]
    assert reached(target, out, left, answered=True) is expected


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("in_flight", [False, True])
def test_a_request_to_run_is_first_answered_with_run(in_flight: bool, left: bool) -> None:
    """D2: the answer names the request, so RUN is told even if nothing is left."""
    assert reached(Target.RUN, in_flight, left, answered=False) is Reached.RUN


@pytest.mark.parametrize("target", [Target.HOLD, Target.PAUSE, Target.FINISH])
@pytest.mark.parametrize("answered", [False, True])
def test_leases_out_are_waited_for_however_many_requests_there_were(target: Target, answered: bool) -> None:
    assert reached(target, True, True, answered) is None


def paused_with_lease() -> Shell:
    """A crawl that runs, with a lease out."""
    shell = Shell()
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",)))
    shell.launch("crawl", "http://alpha.example/", "http://beta.example/")
    assert shell.grants(most=1)
    return shell


def test_pause_resume_and_pause_within_one_moment_end_paused() -> None:
    """D2, S0.44: Heritrix suppressed the second PAUSE as a repetition and hung in PAUSING."""
    shell = Shell()
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",)))
    shell.launch("crawl", "http://alpha.example/")
    assert shell.request("crawl", Input.PAUSE) is S.PAUSED
    assert shell.request("crawl", Input.RESUME) is S.RUNNING
    assert shell.request("crawl", Input.PAUSE) is S.PAUSED
    assert shell.states("crawl")[-5:] == ["PAUSING", "PAUSED", "RUNNING", "PAUSING", "PAUSED"]


def test_resume_while_a_pause_is_under_way_runs_on_and_the_next_pause_is_answered_too() -> None:
    """D2, with a lease out: each PAUSING ends in a PAUSED of its own."""
    shell = paused_with_lease()
    (lease,) = shell.core.shard.leases
    token = lease.token(shell.core.shard.server.secret)
    assert shell.request("crawl", Input.PAUSE) is S.PAUSING
    assert shell.request("crawl", Input.RESUME) is S.RUNNING
    assert shell.request("crawl", Input.PAUSE) is S.PAUSING
    shell.finish(Report(token, fetch_status=200))
    assert shell.state("crawl") is S.PAUSED


def test_no_lease_is_given_on_the_way_to_a_pause_or_an_end() -> None:
    """S0.36, S0.39, S0.40: give-outs stop at the request, not when it is reached. D21: without a lock."""
    shell = paused_with_lease()
    shell.request("crawl", Input.PAUSE)
    assert shell.next("crawl").empty_reason is EmptyReason.PAUSED
    shell.request("crawl", Input.STOP)
    assert shell.next("crawl").empty_reason is EmptyReason.FINISHED


def test_an_end_comes_although_a_node_never_reports() -> None:
    """D6: Heritrix's FINISH waits for URIs in process without limit; a lease lapses."""
    shell = paused_with_lease()
    assert shell.request("crawl", Input.STOP) is S.STOPPING
    shell.now_ms += shell.period_ms
    shell.tick()
    assert shell.state("crawl") is S.FINISHED


def test_a_crawl_that_was_never_launched_is_asked_for_nothing() -> None:
    """S0.33: its target is PAUSE, and nothing is reached yet, so that nobody is told of a pause (S0.47)."""
    shell = in_state(S.NASCENT)
    row = shell.core.shard.registry.named(NAME).state_row
    assert (row.target, row.reached, row.request) == ("PAUSE", "", 0)
    shell.schedule(NAME, SEEDS[0])
    shell.tick()
    assert shell.states(NAME) == ["NASCENT"]


def test_each_request_has_its_target_and_only_assigns_it() -> None:
    """S0.34: what follows is told when it is reached."""
    targets = {I.RESUME: Target.RUN, I.PAUSE: Target.PAUSE, I.HOLD: Target.HOLD, I.STOP: Target.FINISH}
    for (_, heard), step in TABLE.items():
        if heard in targets:
            assert step.target in (None, targets[heard])
    assert {
        heard: step.target for (_, heard), step in TABLE.items() if step.target and heard in targets
    } == targets


@pytest.mark.parametrize(("asked", "state"), [(I.PAUSE, S.PAUSED), (I.STOP, S.FINISHED)])
def test_what_is_reached_is_told_by_the_very_operation_that_brings_it_about(
    asked: Input, state: CrawlState
) -> None:
    """S0.35, S0.42: no thread looks round once a second, so none can be late, or die."""
    shell, (grant,) = fetching(most=1)
    shell.request(NAME, asked)
    fetch(shell, grant)
    assert shell.state(NAME) is state


def test_what_is_reached_never_changes_what_is_asked_for() -> None:
    """D4: in Heritrix the switch between EMPTY and RUN may overwrite a PAUSE that was just asked for."""
    told = [step for (_, heard), step in TABLE.items() if heard.name.startswith("REACHED_")]
    assert told and all(step.target is None for step in told)


@pytest.mark.parametrize("state", [S.RUNNING, S.EMPTY])
def test_a_pause_and_what_would_switch_between_empty_and_running_at_once_end_in_the_pause(
    state: CrawlState,
) -> None:
    """D4"""
    shell = in_state(state, run_while_empty=True)
    shell.request(NAME, I.PAUSE)
    if state is S.EMPTY:
        shell.schedule(NAME, f"{SEEDS[0]}more")
    else:
        shell.take_back([lease.token(SECRET) for lease in shell.core.shard.leases])
    shell.tick()
    assert (shell.state(NAME), shell.states(NAME)[-1]) == (S.PAUSED, "PAUSED")


def test_an_error_in_the_middle_of_giving_out_holds_up_no_later_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D5: in Heritrix it leaks a lock. S0.41: here it has written nothing, so that the next start goes on."""
    shell = in_state(S.PAUSED)
    shell.request(NAME, I.RESUME)
    with monkeypatch.context() as broken, pytest.raises(RuntimeError, match="in the middle"):
        broken.setattr(PlainCodec, "decode", fails)
        shell.next()
    shell.restart()
    assert shell.state(NAME) is S.RUNNING
    assert shell.request(NAME, I.PAUSE) is S.PAUSED


def fails(codec: PlainCodec, record: bytes) -> Candidate:
    """A defect."""
    raise RuntimeError("in the middle")


def test_a_request_that_is_refused_in_the_middle_of_giving_out_holds_up_nothing_either() -> None:
    """D5"""
    shell, (grant,) = fetching(most=1)
    shell.next(session="2")
    with pytest.raises(SessionSuperseded):
        shell.next(session="1")
    shell.finish(Report(grant.token, released=True), session="2")
    shell.request(NAME, I.PAUSE)
    shell.take_back([lease.token(SECRET) for lease in shell.core.shard.leases])
    assert shell.state(NAME) is S.PAUSED


@pytest.mark.interpreted
def test_the_frontier_machine_knows_nothing_of_the_crawl_machine() -> None:
    """S0.50: requests go one way, what was reached comes the other; `life` joins the two."""
    source = Path(target.__file__).read_text()
    imported = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imported] == ["from enum import Enum"]
    heard = {heard for _, heard in TABLE}
    assert {Input[f"REACHED_{reached.name}"] for reached in Reached} <= heard
