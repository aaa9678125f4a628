"""Whose a node's name is: the session's that was accepted last, also after a restart, for a bounded time."""

from unittest.mock import patch

import pytest
from core_doubles.lives import NAME, fetching, launched
from core_doubles.rows import rows
from core_doubles.shell import START_MS, Shell

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.rows.errors import SessionSuperseded
from frontier_server.core.rows.store import Family
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.state import sessions
from frontier_server.core.state.model import Report

DAY_MS = 24 * 3_600_000


def beat(shell: Shell, session: str, node: str = "node") -> None:
    """A heartbeat without leases."""
    shell.do(lambda core, now: core.frontier.heartbeat(node, session, [], [], now))


def refused(shell: Shell, session: str, node: str = "node") -> None:
    """A session is told that another has its name; and that changes nothing."""
    with pytest.raises(SessionSuperseded, match=repr(node)):
        shell.next(node=node, session=session)
    with pytest.raises(SessionSuperseded):
        beat(shell, session, node)
    with pytest.raises(SessionSuperseded):
        shell.finish(Report(b"", fetch_status=200), node=node, session=session)


def test_a_session_that_was_replaced_is_refused_by_its_nodes_name_alone() -> None:
    shell = Shell()
    beat(shell, "1")
    beat(shell, "2")
    refused(shell, "1")
    beat(shell, "1", node="other")
    beat(shell, "2")


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_one_that_comes_back_after_a_restart_does_not_oust_the_one_that_took_its_name(restarts: int) -> None:
    """A process that hung, or a machine that was paused, does not know what has happened since."""
    shell, _ = fetching(most=1)
    (grant,) = shell.next(session="2").grants[:1]
    for _ in range(restarts):
        shell.restart()
    refused(shell, "1")
    (result,) = shell.finish(Report(grant.token, fetch_status=200), session="2")
    assert result.disposition is Disposition.SUCCEEDED


def test_it_need_not_have_had_a_lease_for_that() -> None:
    shell = Shell()
    beat(shell, "1")
    beat(shell, "2")
    shell.restart()
    refused(shell, "1")
    beat(shell, "2")


def test_nor_is_it_forgotten_in_a_crawl_that_is_held() -> None:
    """Whose rows know the old one still."""
    shell, (grant,) = fetching(most=1)
    shell.finish(Report(grant.token, released=True))
    shell.request(NAME, Input.HOLD)
    shell.log()
    assert shell.core.views.crawl(NAME).held
    beat(shell, "2")
    shell.restart()
    refused(shell, "1")
    shell.request(NAME, Input.RESUME)
    (left,) = [row.fields for row in shell.events(NAME) if row.kind == "node_left"]
    assert left == {"node": "node", "session": "1", "reason": "replaced"}


def test_a_session_whose_acceptance_was_lost_in_a_crash_is_accepted_again() -> None:
    shell = launched()
    beat(shell, "1")
    shell.lose(lambda core, now: core.frontier.heartbeat("node", "2", [], [], now))
    beat(shell, "1")
    beat(shell, "2")
    refused(shell, "1")


def test_each_of_those_before_is_refused() -> None:
    shell = Shell()
    for number in range(20):
        beat(shell, str(number))
    shell.restart()
    for number in range(19):
        refused(shell, str(number))
    beat(shell, "19")


def test_a_session_is_written_when_it_is_accepted_and_once_a_minute_and_not_with_each_call() -> None:
    shell = Shell()
    _, changes = shell.core.frontier.heartbeat("node", "1", [], [], shell.now_ms)
    assert len(stored(changes)) == 1
    for second in range(60):
        _, changes = shell.core.frontier.heartbeat("node", "1", [], [], START_MS + second * 1_000)
        assert not stored(changes)
    _, changes = shell.core.frontier.heartbeat("node", "1", [], [], START_MS + 60_000)
    assert len(stored(changes)) == 1


def stored(changes: dict[tuple[Family, bytes], bytes | None]) -> list[bytes]:
    """The keys of what is stored of nodes."""
    return [key for _, key in changes if key.startswith(sessions.PREFIX)]


def known(shell: Shell) -> list[str]:
    """The names that are stored."""
    return sorted(key.decode() for key, _ in rows(shell.store, Family.CRAWLS, sessions.PREFIX))


def test_names_that_were_not_heard_for_a_month_are_forgotten() -> None:
    shell = Shell()
    beat(shell, "1", "gone")
    for _ in range(31):
        beat(shell, "1", "here")
        shell.now_ms += DAY_MS
    beat(shell, "1", "new")
    assert known(shell) == ["here", "new"]
    shell.restart()
    beat(shell, "2", "gone")
    assert known(shell) == ["gone", "here", "new"]


def test_what_is_kept_has_an_end() -> None:
    shell = Shell()
    with patch.object(sessions, "MAX_NAMES", 3), patch.object(sessions, "SUPERSEDED_KEPT", 2):
        for number in range(5):
            shell.now_ms += 1
            beat(shell, "1", f"node{number}")
        assert known(shell) == ["node2", "node3", "node4"]
        shell.restart()
        beat(shell, "1", "node2")
        beat(shell, "1", "node5")
        assert known(shell) == ["node2", "node4", "node5"]
        for session in ("2", "3", "4"):
            beat(shell, session, "node5")
        refused(shell, "2", "node5")
        refused(shell, "3", "node5")
        beat(shell, "1", "node5")  # that is too long ago
