"""The frontier machine: from the state asked for to the state reached."""

import itertools

import pytest
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.machines.target import Reached, Target, reached
from frontier_server.core.model import EmptyReason, Report
from frontier_server.core.spec.settings import CrawlSettings

S = CrawlState


@pytest.mark.parametrize(
    ("target", "out", "left"), list(itertools.product(Target, (False, True), (False, True)))
)
def test_what_is_reached_follows_from_the_counts(target: Target, out: bool, left: bool) -> None:
    """S0.32, S0.37 to S0.40: RUN or EMPTY while running; the others only with nothing in process."""
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
    """D2: Heritrix suppressed the second PAUSE as a repetition and hung in PAUSING."""
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
    (lease,) = shell.frontier._leases
    token = lease.token(shell.frontier.server.secret)
    assert shell.request("crawl", Input.PAUSE) is S.PAUSING
    assert shell.request("crawl", Input.RESUME) is S.RUNNING
    assert shell.request("crawl", Input.PAUSE) is S.PAUSING
    shell.finish(Report(token, fetch_status=200))
    assert shell.state("crawl") is S.PAUSED


def test_no_lease_is_given_on_the_way_to_a_pause_or_an_end() -> None:
    """S0.39, S0.40: give-outs stop at the request, not when it is reached. D21: without a lock."""
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
