"""Nodes that come and go, and toe pools that grow and shrink, with real nodes."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.programs import Programs
from faults.load import Load, told
from faults.slow_site import SlowSite
from frontier_harness.waiting import eventually

HOSTS = 24
LEASE_S = 3.0
"""Short, so that a node that is silent is soon taken to be gone; and yet a busy one is heard in time."""

SUPERSEDED = 3
"""How a node ends whose name another process has taken."""


@pytest.fixture
def load(programs: Programs, tmp_path: Path) -> Iterator[Load]:
    with SlowSite(HOSTS) as site:
        flags = ("--lease-seconds", str(LEASE_S), "--heartbeat-seconds", "0.2")
        load = Load(programs, tmp_path, site, *flags)
        yield load
        load.close()


def test_who_fetches_for_a_crawl_is_told_when_it_comes_and_how_it_goes(load: Load) -> None:
    crawl = load.launch("c")

    def attendance() -> list[str]:
        return [word for word in told(crawl.events()).words if word.startswith("node_")]

    def until_told(*words: str) -> None:
        expected.extend(words)
        eventually(lambda: len(attendance()) >= len(expected), f"events {expected}")
        assert attendance() == expected

    expected: list[str] = []
    polite = load.node("polite", 4)
    until_told("node_joined polite")
    killed = load.node("killed", 4)
    until_told("node_joined killed")
    polite.signal(signal.SIGTERM)
    assert polite.wait() == 0, polite.complaints
    until_told("node_left polite left")
    load.frontier.kill()
    killed.kill()
    load.start_frontier()  # and it knows who was there
    until_told("node_left killed silent")
    first = load.node("twice", 4)
    until_told("node_joined twice")
    load.node("twice", 4)
    until_told("node_left twice replaced", "node_joined twice")
    assert first.wait() == SUPERSEDED, first.complaints


def test_the_toes_of_nodes_that_run_are_as_many_as_is_asked(load: Load) -> None:
    load.site.hold()
    crawl = load.launch("c")
    load.node("one", 4)
    load.node("two", 6)

    def toes() -> dict[str, int]:
        nodes = load.client.get_frontier().nodes
        return {node.node: sum(step.count for step in node.toe_steps) for node in nodes}

    def until_toes(one: int, two: int) -> None:
        eventually(lambda: toes() == {"one": one, "two": two}, f"{one} and {two} toes; there are {toes()}")

    until_toes(4, 6)
    eventually(lambda: len(load.site.in_flight()) == 10, "a page for every toe")
    crawl.set_pool_size(7)
    until_toes(7, 7)
    eventually(lambda: len(load.site.in_flight()) == 14, "a page for every toe")
    load.client.set_pool_size(9, node="one")
    until_toes(9, 7)
    load.frontier.kill()
    load.start_frontier()
    until_toes(9, 7)  # it is as durable as anything
    eventually(lambda: len(load.site.in_flight()) == 16, "a page for every toe")

    load.site.let_go()
    crawl.set_pool_size(0)
    until_toes(9, 0)
    load.client.set_pool_size(None, node="one")
    until_toes(0, 0)
    eventually(lambda: crawl.statistics().statistics.leased_count == 0, "nothing to be fetched any more")
    asked = len(load.site.log())
    crawl.set_pool_size(None)
    until_toes(4, 6)
    eventually(lambda: len(load.site.log()) > asked + HOSTS, "pages again")


def test_a_node_that_outlives_the_frontier_is_listed_once(load: Load) -> None:
    load.launch("c")
    load.node("one", 4)

    def listed() -> list[str]:
        return [node.node for node in load.client.get_frontier().nodes]

    eventually(lambda: listed() == ["one"], "the node")
    load.frontier.kill()
    load.start_frontier()
    eventually(listed, "the node again")
    assert listed() == ["one"]
