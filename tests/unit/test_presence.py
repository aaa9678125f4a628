"""Nodes that fall silent, are lost, leave, or share a name."""

import pytest
from core_doubles.lives import NAME, launched
from core_doubles.shell import PERIOD_MS, START_MS, Shell

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.rows.errors import NodePresent, SessionSuperseded, UnknownNode
from frontier_server.core.state.model import NodeView, Presence
from frontier_server.core.state.nodes import LISTED_MS

HEARTBEAT_MS = PERIOD_MS // 6


class BeatingShell(Shell):
    """A frontier that expects a heartbeat six times in a lease period."""

    heartbeat_ms = HEARTBEAT_MS


def beat(shell: Shell, node: str = "node", session: str = "1", leaving: bool = False) -> str:
    """A heartbeat; the rival that its answer names."""
    answer = shell.do(lambda core, now: core.frontier.heartbeat(node, session, [], [], now, leaving=leaving))
    return answer.rival


def listed(shell: Shell) -> dict[str, NodeView]:
    """The nodes, by name."""
    return {view.node: view for view in shell.core.nodes.listed(shell.now_ms)}


def forget(shell: Shell, node: str = "node") -> None:
    """Forget a node."""
    shell.do(lambda core, now: core.nodes.forget(node, now))


@pytest.mark.parametrize(
    ("silent_ms", "presence"),
    [
        (0, Presence.PRESENT),
        (3 * HEARTBEAT_MS, Presence.PRESENT),
        (3 * HEARTBEAT_MS + 1, Presence.SILENT),
        (PERIOD_MS, Presence.SILENT),
        (PERIOD_MS + 1, Presence.LOST),
    ],
)
def test_a_node_that_misses_three_heartbeats_is_silent_and_after_its_lease_period_lost(
    silent_ms: int, presence: Presence
) -> None:
    shell = BeatingShell()
    beat(shell)
    shell.now_ms += silent_ms
    assert listed(shell)["node"].presence is presence


def test_a_node_that_says_goodbye_has_left_also_after_a_restart() -> None:
    shell = BeatingShell()
    beat(shell)
    beat(shell, leaving=True)
    assert listed(shell)["node"].presence is Presence.LEFT
    shell.restart()
    assert listed(shell)["node"].presence is Presence.LEFT
    beat(shell)
    assert listed(shell)["node"].presence is Presence.PRESENT


def test_a_restart_keeps_when_a_node_was_last_seen() -> None:
    shell = BeatingShell()
    beat(shell)
    shell.now_ms += 3_600_000
    shell.restart()
    view = listed(shell)["node"]
    assert (view.last_seen_ms, view.presence) == (START_MS, Presence.LOST)


def test_a_node_at_work_has_time_to_call_after_a_restart() -> None:
    shell = BeatingShell(launched("http://alpha.example/").store)
    shell.grants(NAME)
    shell.now_ms += 3_600_000
    shell.restart()
    view = listed(shell)["node"]
    assert (view.last_seen_ms, view.presence) == (START_MS, Presence.PRESENT)
    shell.now_ms += 3 * HEARTBEAT_MS + 1
    assert listed(shell)["node"].presence is Presence.SILENT


def test_a_node_is_forgotten_after_a_day() -> None:
    shell = BeatingShell()
    beat(shell)
    shell.now_ms += LISTED_MS - 1
    assert listed(shell)
    shell.now_ms += 1
    assert not listed(shell)
    shell.restart()
    assert not listed(shell)


def test_a_lost_node_is_forgotten_on_request_and_is_back_when_it_calls() -> None:
    shell = BeatingShell()
    beat(shell)
    shell.now_ms += PERIOD_MS + 1
    forget(shell)
    assert not listed(shell)
    shell.restart()
    assert not listed(shell)
    beat(shell)
    assert listed(shell)["node"].presence is Presence.PRESENT
    shell.restart()
    assert listed(shell)


def test_a_node_that_is_there_is_not_forgotten() -> None:
    shell = BeatingShell()
    with pytest.raises(UnknownNode, match="knows no node 'node'"):
        forget(shell)
    beat(shell)
    with pytest.raises(NodePresent, match="node 'node' is PRESENT; it must be LOST or have LEFT"):
        forget(shell)
    shell.now_ms += 3 * HEARTBEAT_MS + 1
    with pytest.raises(NodePresent, match="is SILENT"):
        forget(shell)
    assert listed(shell)


def test_two_processes_with_one_name_are_both_told_and_the_later_one_stays() -> None:
    shell = BeatingShell(launched("http://alpha.example/").store)
    shell.grants(NAME, most=1)
    beat(shell, session="2")
    with pytest.raises(SessionSuperseded):
        beat(shell, session="1")
    assert beat(shell, session="2") == "1"
    assert listed(shell)["node"].rival == "1"
    shell.restart()
    with pytest.raises(SessionSuperseded):
        beat(shell, session="1")
    assert beat(shell, session="2") == "1", "also after a restart"
    shell.now_ms += PERIOD_MS + 1
    assert beat(shell, session="2") == "", "the other one has gone"


def test_the_crawls_of_a_name_with_two_processes_record_it_once() -> None:
    shell = launched("http://alpha.example/", "http://beta.example/")
    beat(shell, session="1")
    shell.do(lambda core, now: core.frontier.next("node", "2", Want(10), NAME, now))
    for _ in range(2):
        with pytest.raises(SessionSuperseded):
            beat(shell, session="1")
        beat(shell, session="2")
    told = [row.fields for row in shell.events(NAME) if row.kind == "problem"]
    assert [fields["kind"] for fields in told] == ["node-name"]
    assert "two processes use the node name 'node'" in str(told[0]["detail"])


def test_nobody_asks_if_the_node_that_asked_is_silent() -> None:
    shell = BeatingShell(launched("http://alpha.example/", "http://alpha.example/2").store)
    shell.grants(NAME, most=1)
    shell.now_ms += 3 * HEARTBEAT_MS
    assert _limited_by(shell).startswith("Limited by slow pages")
    shell.now_ms += 1
    assert _limited_by(shell).startswith("No node asks for leases")


def test_a_frontier_that_only_answers_questions_says_that_nothing_runs() -> None:
    shell = launched("http://alpha.example/")
    shell.grants(NAME)
    shell.read_only = True
    shell.restart()
    assert listed(shell)["node"].presence is Presence.LOST
    assert _limited_by(shell) == "The crawl does not run now: its frontier only answers questions"


def _limited_by(shell: Shell) -> str:
    return shell.core.views.statistics(NAME, shell.now_ms).limited_by
