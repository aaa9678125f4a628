"""Attendance: which nodes fetch for a crawl, and the events that tell when they come and go."""

import pytest
from core_doubles.lives import NAME, SEEDS, advance, fetch, launched, quick
from core_doubles.shell import Shell
from core_doubles.stillness import still

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.errors import SessionSuperseded
from frontier_server.core.state import attendance
from frontier_server.core.state.model import Grant, Report
from frontier_server.core.state.nodes import SILENT_PERIODS

S = CrawlState
OTHER = "other"


def attended(shell: Shell, crawl: str = NAME) -> list[tuple[str, ...]]:
    """What events tell of nodes: who joined, who left and why."""
    told = []
    for row in shell.events(crawl):
        if row.kind in ("node_joined", "node_left"):
            told.append((row.kind.removeprefix("node_"), *map(str, row.fields.values())))
    return told


def beat(shell: Shell, *grants: Grant, node: str = "node", session: str = "1", leaving: bool = False) -> None:
    """A heartbeat."""
    tokens = [grant.token for grant in grants]
    shell.do(lambda core, now: core.frontier.heartbeat(node, session, tokens, [], now, leaving))


def give_back(shell: Shell, grants: list[Grant], node: str = "node", session: str = "1") -> None:
    """Hand leases back that were not begun."""
    shell.finish(*(Report(grant.token, released=True) for grant in grants), node=node, session=session)


# Who joins.


def test_a_node_joins_a_crawl_with_its_first_lease_of_it() -> None:
    shell = launched()
    beat(shell)
    assert attended(shell) == [], "to be there is not to fetch"
    fetch(shell, *shell.grants(most=1))
    shell.grants(most=1)
    assert attended(shell) == [("joined", "node", "1")]


def test_each_crawl_is_told_of_its_own_nodes() -> None:
    shell = launched()
    shell.create(OTHER, quick())
    shell.launch(OTHER, "http://elsewhere.example/")
    shell.grants(NAME, node="one")
    shell.grants(OTHER, node="two")
    assert attended(shell) == [("joined", "one", "1")]
    assert attended(shell, OTHER) == [("joined", "two", "1")]


def test_a_node_that_asks_in_vain_does_not_join() -> None:
    shell = launched()
    shell.request(NAME, Input.PAUSE)
    assert not shell.grants()
    assert attended(shell) == []


def test_a_join_and_its_lease_are_one_write() -> None:
    shell = launched()
    shell.lose(lambda core, now: core.frontier.next("node", "1", Want(1), None, now))
    assert (attended(shell), shell.core.nodes.leases_out) == ([], 0)


# Who leaves.


def test_a_node_that_says_goodbye_has_left() -> None:
    shell = launched()
    give_back(shell, shell.grants())
    beat(shell, leaving=True)
    assert attended(shell) == [("joined", "node", "1"), ("left", "node", "1", "left")]


def test_a_node_that_is_not_heard_for_a_while_has_left() -> None:
    """Two lease periods: after one its leases lapse, which may be a hiccup."""
    shell = launched()
    shell.grants(most=1)
    start_ms = shell.now_ms
    while len(attended(shell)) == 1:
        advance(shell)
    assert shell.now_ms == start_ms + SILENT_PERIODS * shell.period_ms
    assert attended(shell)[-1] == ("left", "node", "1", "silent")
    assert SILENT_PERIODS == 2


def test_any_call_is_a_sign_of_life() -> None:
    shell = launched()
    (grant,) = shell.grants(most=1)
    for call in range(6):
        shell.now_ms += shell.period_ms
        if call % 3 == 0:
            shell.next()
        elif call % 3 == 1:
            shell.finish(Report(grant.token, released=True))
        else:
            beat(shell)
        shell.tick()
    assert attended(shell) == [("joined", "node", "1")]


def test_a_node_whose_name_another_process_takes_has_left_and_joins_anew() -> None:
    shell = launched()
    shell.grants(most=1)
    beat(shell, session="2")
    assert attended(shell)[1:] == [("left", "node", "1", "replaced")]
    shell.next(session="2")
    assert attended(shell)[2:] == [("joined", "node", "2")]
    with pytest.raises(SessionSuperseded, match="node"):
        shell.next(session="1")


def test_the_same_in_one_call_is_told_in_its_order() -> None:
    shell = launched()
    shell.grants(most=1)
    shell.next(session="2")
    assert attended(shell) == [
        ("joined", "node", "1"),
        ("left", "node", "1", "replaced"),
        ("joined", "node", "2"),
    ]


def test_whoever_left_and_comes_back_joins_again() -> None:
    shell = launched()
    give_back(shell, shell.grants())
    beat(shell, leaving=True)
    give_back(shell, shell.grants())
    shell.let_nodes_be_silent()
    shell.grants()
    assert [told[0] for told in attended(shell)] == ["joined", "left", "joined", "left", "joined"]


def test_it_is_told_once() -> None:
    shell = launched()
    give_back(shell, shell.grants())
    beat(shell, leaving=True)
    shell.let_nodes_be_silent()
    shell.let_nodes_be_silent()
    assert len(attended(shell)) == 2


def test_who_never_fetched_for_a_crawl_does_not_leave_it() -> None:
    shell = launched()
    shell.grants(most=1, node="one")
    beat(shell, node="two")
    beat(shell, node="two", leaving=True)
    beat(shell, node="three")
    beat(shell, node="three", session="2")
    assert attended(shell) == [("joined", "one", "1")]


def test_a_goodbye_is_told_to_every_crawl_that_the_node_fetched_for() -> None:
    shell = launched()
    shell.create(OTHER, quick())
    shell.launch(OTHER, "http://elsewhere.example/")
    give_back(shell, shell.grants())
    beat(shell, leaving=True)
    assert (
        attended(shell) == attended(shell, OTHER) == [("joined", "node", "1"), ("left", "node", "1", "left")]
    )


@pytest.mark.parametrize("state", [S.PAUSED, S.PAUSING, S.STOPPING])
def test_they_leave_also_while_nothing_is_given_out(state: CrawlState) -> None:
    shell = launched()
    (grant, *rest) = shell.grants()
    shell.request(NAME, Input.STOP if state is S.STOPPING else Input.PAUSE)
    give_back(shell, rest)
    if state is S.PAUSED:
        give_back(shell, [grant])
    assert shell.state(NAME) is state
    beat(shell, session="2")
    assert attended(shell)[1:] == [("left", "node", "1", "replaced")]


def test_a_crawl_that_has_finished_has_no_nodes_and_hears_of_none() -> None:
    """Its end says so for all of them."""
    shell = launched()
    give_back(shell, shell.grants())
    shell.request(NAME, Input.STOP)
    beat(shell, leaving=True)
    shell.let_nodes_be_silent()
    assert attended(shell) == [("joined", "node", "1")]
    assert shell.core.shard.registry.named(NAME).state_row.nodes == {}


def test_no_more_nodes_are_kept_than_the_frontier_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored of a crawl does not grow with names that are made up."""
    monkeypatch.setattr(attendance, "MAX_NODES", 3)
    shell = launched()
    for number in range(5):
        give_back(shell, shell.grants(most=1, node=f"node{number}"), node=f"node{number}")
    assert len(shell.core.shard.registry.named(NAME).state_row.nodes) == 3
    beat(shell, node="node0", leaving=True)
    give_back(shell, shell.grants(most=1, node="node9"), node="node9")
    assert [told[:2] for told in attended(shell)] == [
        ("joined", "node0"),
        ("joined", "node1"),
        ("joined", "node2"),
        ("left", "node0"),
        ("joined", "node9"),
    ]


# A crawl that is held.


def held() -> Shell:
    """A crawl with a node that is there, and held."""
    shell = launched()
    give_back(shell, shell.grants())
    shell.request(NAME, Input.HOLD)
    assert shell.core.views.crawl(NAME).held
    return shell


@pytest.mark.parametrize("how", ["left", "silent", "replaced"])
@pytest.mark.sampled("released_by", [Input.RESUME, Input.PAUSE, Input.STOP])
@pytest.mark.sampled("restarted", [False, True])
def test_who_leaves_a_held_crawl_is_told_when_it_is_released(
    how: str, released_by: Input, restarted: bool
) -> None:
    shell = held()
    with still(shell, NAME):
        if restarted:
            shell.restart()
        if how == "silent":
            shell.let_nodes_be_silent()
        else:
            beat(shell, session="2" if how == "replaced" else "1", leaving=how == "left")
        shell.let_nodes_be_silent()
    told = "silent" if how == "silent" else how
    if how == "replaced":
        beat(shell, session="2")
    shell.request(NAME, released_by)
    kinds = [row.kind for row in shell.events(NAME)]
    assert attended(shell)[1:] == [("left", "node", "1", told)]
    assert kinds.index("released") < kinds.index("node_left")


def test_who_left_a_held_crawl_before_a_restart_is_told_too() -> None:
    """The goodbye belongs to the server, which stores it."""
    shell = held()
    beat(shell, leaving=True)
    shell.restart()
    shell.request(NAME, Input.PAUSE)
    assert attended(shell)[1:] == [("left", "node", "1", "left")]


def test_who_leaves_a_held_crawl_and_is_back_in_time_has_not_left() -> None:
    shell = held()
    shell.let_nodes_be_silent()
    beat(shell)
    shell.request(NAME, Input.RESUME)
    shell.grants()
    assert attended(shell) == [("joined", "node", "1")]


# Restarts.


def test_a_restart_forgets_no_node_and_gives_each_its_time_anew() -> None:
    shell = launched()
    give_back(shell, shell.grants())
    shell.now_ms += SILENT_PERIODS * shell.period_ms - 1
    shell.restart()
    shell.now_ms += SILENT_PERIODS * shell.period_ms - 1
    shell.tick()
    shell.grants(most=1)
    assert attended(shell) == [("joined", "node", "1")]


def test_a_node_that_was_gone_before_the_restart_is_not_told_of_again() -> None:
    shell = launched()
    give_back(shell, shell.grants())
    beat(shell, leaving=True)
    shell.restart()
    shell.let_nodes_be_silent()
    assert len(attended(shell)) == 2


def test_a_node_that_does_not_come_back_after_a_restart_has_left_in_its_time() -> None:
    shell = launched()
    give_back(shell, shell.grants())
    shell.restart()
    shell.let_nodes_be_silent()
    assert attended(shell)[-1] == ("left", "node", "1", "silent")


@pytest.mark.parametrize("held_first", [True, False])
def test_what_a_held_crawl_knows_of_a_session_does_not_end_the_leases_of_the_one_after_it(
    held_first: bool,
) -> None:
    """A crawl that is held still has the session before; a restart must believe the crawls that go on."""
    shell = Shell()
    names = ["held", "goes-on"] if held_first else ["goes-on", "held"]
    for name in names:
        shell.create(name, quick())
        shell.launch(name, *(seed.replace("example", f"{name}.example") for seed in SEEDS))
    give_back(shell, shell.grants("held"))
    shell.request("held", Input.HOLD)
    (grant,) = shell.do(lambda core, now: core.frontier.next("node", "2", Want(1), "goes-on", now)).grants
    shell.restart()
    beat(shell, grant, session="2")
    assert shell.core.nodes.leases_out == 1
    shell.request("held", Input.RESUME)
    assert attended(shell, "held")[1:] == [("left", "node", "1", "replaced")]
    assert attended(shell, "goes-on") == [("joined", "node", "2")]


@pytest.mark.parametrize("held_first", [True, False])
def test_nor_does_it_let_who_took_the_name_since_leave_a_crawl_that_goes_on(held_first: bool) -> None:
    """After a restart, before the node is heard again, another's goodbye makes the frontier look round."""
    shell = Shell()
    for name in ("held", "goes-on") if held_first else ("goes-on", "held"):
        shell.create(name, quick())
        shell.launch(name, *(seed.replace("example", f"{name}.example") for seed in SEEDS))
    give_back(shell, shell.grants("held"))
    shell.request("held", Input.HOLD)
    give_back(shell, shell.next("goes-on", session="2").grants, session="2")
    shell.restart()
    beat(shell, node="another", leaving=True)
    assert attended(shell, "goes-on") == [("joined", "node", "2")]


# Troubles of nodes.


def told_trouble(shell: Shell, trouble: str, node: str = "node") -> None:
    """A heartbeat that tells why the node cannot go on, or nothing."""
    shell.do(lambda core, now: core.frontier.heartbeat(node, "1", [], [], now, trouble=trouble))


def test_a_node_that_cannot_go_on_pauses_the_crawls_that_it_fetches_for_and_no_others() -> None:
    """2.19: DiskSpaceMonitor."""
    shell = launched()
    shell.create(OTHER, quick())
    shell.launch(OTHER, *SEEDS)
    give_back(shell, shell.grants(NAME, most=1))
    told_trouble(shell, "disk low: 3 MiB are free", node="stranger")
    assert shell.state(NAME) is S.RUNNING
    told_trouble(shell, "disk low: 3 MiB are free")
    assert (shell.state(NAME), shell.state(OTHER)) == (S.PAUSED, S.RUNNING)
    (problem,) = [row for row in shell.events(NAME) if row.kind == "problem"]
    assert problem.fields == {"kind": "node-trouble", "detail": "node node: disk low: 3 MiB are free"}


def test_it_goes_on_by_itself_only_if_it_wants_to() -> None:
    for wants in (False, True):
        shell = launched(resume_after_trouble=wants)
        give_back(shell, shell.grants(most=1))
        told_trouble(shell, "disk low")
        told_trouble(shell, "", node="other")
        assert shell.state(NAME) is S.PAUSED
        told_trouble(shell, "")
        assert shell.state(NAME) is (S.RUNNING if wants else S.PAUSED)


def test_whoever_resumes_it_in_spite_of_the_trouble_is_not_overruled() -> None:
    shell = launched()
    give_back(shell, shell.grants(most=1))
    told_trouble(shell, "disk low")
    shell.request(NAME, Input.RESUME)
    told_trouble(shell, "disk lower")
    assert shell.state(NAME) is S.RUNNING


def test_what_an_operator_has_paused_does_not_go_on_by_itself() -> None:
    shell = launched(resume_after_trouble=True)
    give_back(shell, shell.grants(most=1))
    shell.request(NAME, Input.PAUSE)
    told_trouble(shell, "disk low")
    told_trouble(shell, "")
    shell.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now))
    shell.do(lambda core, now: core.upkeep.record_trouble(None, now))
    assert shell.state(NAME) is S.PAUSED


def test_room_on_the_frontiers_disk_lets_those_go_on_that_want_to_also_after_a_restart() -> None:
    for restarts in (False, True):
        shell = launched(resume_after_trouble=True)
        shell.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now))
        assert shell.state(NAME) is S.PAUSED
        if restarts:
            shell.restart()
        shell.do(lambda core, now: core.upkeep.record_trouble(None, now))
        assert shell.state(NAME) is S.RUNNING
