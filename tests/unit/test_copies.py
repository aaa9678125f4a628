"""A store that was put back, or copied: leases of the one are none of the other's."""

import pytest
from core_doubles.lives import NAME, SEEDS, fetch, fetching, launched, report
from core_doubles.memory_store import MemoryStore
from core_doubles.shell import Shell
from frontier_harness.held_store import copied

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.state.model import Grant, Report

OTHER_LIFE = 1_000  # of a server that was never this one


def as_it_was(shell: Shell) -> Shell:
    """A server that begins with a copy of what is stored now."""
    assert isinstance(shell.store, MemoryStore)
    return Shell(copied(shell.store), now_ms=shell.now_ms, incarnation=OTHER_LIFE)


def parted() -> tuple[Shell, Grant, Shell, Grant]:
    """A server with a lease given since a copy was made, and the copy with one that it gave."""
    shell, (first,) = fetching(SEEDS[0], run_while_empty=True)
    fetch(shell, first)
    copy = as_it_was(shell)
    grants = []
    for each, page in ((shell, "a"), (copy, "b")):
        each.schedule(NAME, f"{SEEDS[0]}{page}")
        grants += each.grants()
    return shell, grants[0], copy, grants[1]


def test_a_report_of_a_lease_that_the_copy_never_gave_counts_for_nothing_there() -> None:
    """Its number is that of another page's lease by now."""
    _, given, copy, its_own = parted()
    (result,) = copy.finish(report(given))
    assert result.disposition is Disposition.STALE
    (result,) = copy.finish(Report(given.token, released=True))
    assert result.disposition is Disposition.STALE
    (result,) = copy.finish(report(its_own))
    assert (result.disposition, result.repeated) == (Disposition.SUCCEEDED, False)


def test_a_heartbeat_is_told_that_it_has_ended() -> None:
    _, given, copy, its_own = parted()
    tokens = [given.token, its_own.token]
    answer = copy.do(lambda core, now: core.frontier.heartbeat("node", "1", tokens, [], now))
    assert answer.ended == [given.token]


def test_a_heartbeat_that_takes_leave_gives_back_what_it_does_not_name() -> None:
    _, given, copy, _ = parted()
    copy.do(lambda core, now: core.frontier.heartbeat("node", "1", [given.token], [], now, leaving=True))
    assert copy.core.nodes.leases_out == 0


@pytest.mark.parametrize("robots", [False, True])
def test_a_report_is_no_repetition_of_one_that_the_copy_got_for_the_same_uri(robots: bool) -> None:
    shell = launched(SEEDS[0])
    if not robots:
        fetch(shell, *shell.grants())
    copy = as_it_was(shell)
    (given,), (its_own,) = shell.grants(), copy.grants()
    assert (given.uri, given.robots) == (its_own.uri, its_own.robots) and given.robots is robots
    copy.finish(report(its_own))
    (result,) = copy.finish(report(given))
    assert result.disposition is Disposition.STALE


def test_a_lease_that_was_out_when_the_copy_was_made_counts_in_both() -> None:
    """It is the same URI's, wherever its node asks."""
    shell, (given,) = fetching(SEEDS[0], most=1)
    copy = as_it_was(shell)
    for each in (shell, copy):
        (result,) = each.finish(report(given))
        assert result.disposition is Disposition.SUCCEEDED


def test_a_lease_that_is_out_over_a_restart_counts_then() -> None:
    shell, (given,) = fetching(SEEDS[0], most=1)
    shell.restart()
    (result,) = shell.finish(report(given))
    assert result.disposition is Disposition.SUCCEEDED
    shell.restart()
    (result,) = shell.finish(report(given))
    assert (result.disposition, result.repeated) == (Disposition.SUCCEEDED, True)


def test_a_number_that_was_lost_with_the_machine_is_not_given_again() -> None:
    """A machine that loses its power may lose what was answered, where durability is `process`."""
    shell, (first,) = fetching(SEEDS[0], run_while_empty=True)
    fetch(shell, first)
    shell.schedule(NAME, f"{SEEDS[0]}a")
    lost = shell.lose(lambda core, now: core.frontier.next("node", "1", Want(1), None, now))
    (given,), (again,) = lost.grants, shell.grants()
    assert given.uri == again.uri and given.token != again.token
    (result,) = shell.finish(report(given))
    assert result.disposition is Disposition.STALE
