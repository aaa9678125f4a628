"""A host goes to the node that had it last, which may still be connected to it."""

import asyncio
from dataclasses import replace

import pytest
from core_doubles.several_leases import settings
from core_doubles.shell import Shell

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.spec.settings import FetchSettings, PolitenessSettings, ScopeSettings
from frontier_server.core.state.model import Report
from frontier_server.core.state.ready import CONNECTION_MS, FIRST_IN_LINE, MOST_OVERTAKEN
from frontier_server.shell.priority_lock import PriorityLock
from frontier_server.shell.tasks import Tasks
from frontier_server.shell.waiters import Waiters

ALPHA, BETA, GAMMA = (f"http://{name}.example" for name in ("alpha", "beta", "gamma"))
DEFAULT = FetchSettings()
NO_RESTS = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)


def crawl_of(*hosts: str, politeness: PolitenessSettings = NO_RESTS, fetch: FetchSettings = DEFAULT) -> Shell:
    """A crawl with many URIs of each host, whose queues are ready in this order."""
    shell = Shell()
    spec = replace(
        settings(max_leases_per_queue=1),
        scope=ScopeSettings(accept_patterns=(".*",)),
        politeness=politeness,
        fetch=fetch,
    )
    shell.create("crawl", spec)
    shell.launch("crawl", *(f"{host}/" for host in hosts))
    for host in hosts:
        shell.schedule("crawl", *(f"{host}/{number}" for number in range(20)))
    return shell


def leased(shell: Shell, node: str, most: int = 1, name: str | None = "crawl") -> dict[str, bytes]:
    """The hosts that a node gets URIs of, with the tokens of the leases."""
    answer = shell.do(lambda core, now_ms: core.frontier.next(node, "1", Want(most), name, now_ms))
    return {grant.uri.rpartition("/")[0]: grant.token for grant in answer.grants if not grant.robots}


def fetched(shell: Shell, **hosts_of: list[str]) -> None:
    """Let nodes fetch a page of each host at the same time; in line they are as they are here then."""
    given = {node: leased(shell, node, len(hosts)) for node, hosts in hosts_of.items()}
    assert {node: list(leases) for node, leases in given.items()} == hosts_of
    for node, leases in given.items():
        shell.finish(*(Report(token, fetch_status=200) for token in leases.values()), node=node)


@pytest.mark.parametrize("name", ["crawl", None])
def test_each_node_gets_the_hosts_that_it_had_before(name: str | None) -> None:
    shell = crawl_of(ALPHA, BETA, GAMMA)
    fetched(shell, a=[ALPHA], b=[BETA, GAMMA])
    for _ in range(3):
        given = {node: leased(shell, node, most, name) for node, most in (("b", 2), ("a", 1))}
        assert {node: sorted(hosts) for node, hosts in given.items()} == {"a": [ALPHA], "b": [BETA, GAMMA]}
        for node, leases in given.items():
            shell.finish(*(Report(token, fetch_status=200) for token in leases.values()), node=node)


def test_a_node_gets_the_host_of_another_one_rather_than_nothing() -> None:
    shell = crawl_of(ALPHA, BETA)
    fetched(shell, a=[ALPHA, BETA])
    assert list(leased(shell, "b", 100)) == [ALPHA, BETA]


def test_the_first_in_line_is_next_when_no_connection_can_be_open_any_more() -> None:
    shell = crawl_of(ALPHA, BETA)
    fetched(shell, a=[ALPHA], b=[BETA])
    shell.now_ms += CONNECTION_MS + 1
    assert list(leased(shell, "b")) == [ALPHA]


def test_a_host_lets_few_others_go_before_it_for_a_node_that_does_not_come() -> None:
    """Otherwise the one host of a node that is always there would have all turns."""
    shell = crawl_of(ALPHA, BETA, GAMMA)
    fetched(shell, a=[ALPHA], gone=[BETA, GAMMA])
    turns: list[str] = []
    for _ in range(MOST_OVERTAKEN + 4):
        ((host, token),) = leased(shell, "a").items()
        turns.append(host)
        shell.finish(Report(token, fetch_status=200), node="a")
    assert turns == [ALPHA, *[ALPHA] * MOST_OVERTAKEN, BETA, GAMMA, ALPHA]


@pytest.mark.parametrize(
    "fetch", [FetchSettings(keep_alive=False), FetchSettings(proxy="http://127.0.0.1:9")]
)
def test_hosts_that_no_connections_are_kept_to_have_their_turns_in_order(fetch: FetchSettings) -> None:
    shell = crawl_of(ALPHA, BETA, fetch=fetch)
    fetched(shell, a=[ALPHA], b=[BETA])
    assert list(leased(shell, "b")) == [ALPHA]


@pytest.mark.parametrize(
    ("near", "first"), [(FIRST_IN_LINE - 1, BETA), (FIRST_IN_LINE, "http://host-0.example")]
)
def test_a_long_line_of_hosts_that_others_had_is_not_searched_to_its_end(near: int, first: str) -> None:
    others = [f"http://host-{number}.example" for number in range(near)]
    shell = crawl_of(*others, BETA)
    fetched(shell, a=others, b=[BETA])
    assert list(leased(shell, "b")) == [first]


def test_the_node_of_the_host_whose_rest_ends_is_expected_and_no_other() -> None:
    rests = PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000)
    shell = crawl_of(ALPHA, BETA, politeness=rests)
    given = leased(shell, "a"), leased(shell, "b")
    assert [list(leases) for leases in given] == [[ALPHA], [BETA]]
    for node, leases in zip("ab", given, strict=True):
        shell.now_ms += 100
        shell.finish(Report(leases.popitem()[1], fetch_status=200), node=node)
    assert leased(shell, "c", 100) == {}
    shell.now_ms += 900
    shell.tick()
    for name in ("crawl", None):
        assert shell.core.frontier.expected(name, ()) == ["a"]
    assert shell.core.frontier.expected("another", ()) == []


async def test_the_nodes_that_are_expected_ask_before_others() -> None:
    waiting = Waiters(PriorityLock(), Tasks(lambda why, problem: None))
    asked: list[str] = []

    async def ask(node: str) -> None:
        with waiting.one(("crawl", ()), node) as waiter:
            await waiter
            asked.append(node)

    calls = [asyncio.create_task(ask(node)) for node in ("a", "b", "c", "b", "a")]
    await asyncio.sleep(0)
    waiting.wake(expected=lambda sought: ["c", "b", "c"])
    await asyncio.gather(*calls)
    assert asked == ["c", "b", "b", "a", "a"]
