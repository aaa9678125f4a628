"""Which nodes fetch for a crawl in parts: each part knows of its own, and the crawl's events tell of all."""

from random import Random

import pytest
from core_doubles.parted import CRAWL, Parted, begin
from core_doubles.shell import PERIOD_MS, SECRET

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Grant, Report

JOINED = "joined node 1"


@pytest.fixture
def parted() -> Parted:
    """A crawl in two parts, each with hosts enough for all leases of a test."""
    found = Parted(2, Random(0), lambda uri: [], CrawlSettings(contact="https://example.org/"))
    found.lossy = False
    begin(found, *(f"http://{number}.example/" for number in range(40)))
    found.talk()
    for part in range(2):
        lease(found, part)
    found.talk()
    return found


def lease(parted: Parted, part: int, session: str = "1") -> list[Grant]:
    """A node takes a lease."""
    shard = parted.shards[part]
    grants = shard.do(lambda core, now: core.frontier.next("node", session, Want(1), CRAWL, now)).grants
    assert len(grants) == 1
    return grants


def leave(parted: Parted, part: int) -> None:
    """A node hands back what it has of a part, and says that it leaves."""
    shard = parted.shards[part]
    leases = shard.core.shard.leases.of_crawl(parted.head.crawl.number)
    shard.finish(*(Report(each.token(SECRET), released=True) for each in leases))
    shard.do(lambda core, now: core.frontier.heartbeat("node", "1", [], [], now, leaving=True))


def attended(parted: Parted) -> list[str]:
    """What the crawl's events tell of nodes."""
    return [
        " ".join((row.kind.removeprefix("node_"), *map(str, row.fields.values())))
        for row in parted.head.events(CRAWL)
        if row.kind.startswith("node_")
    ]


def test_a_node_of_both_parts_joins_the_crawl_once(parted: Parted) -> None:
    assert attended(parted) == [JOINED]


def test_a_node_that_leaves_both_parts_has_left(parted: Parted) -> None:
    leave(parted, 0)
    parted.talk()
    assert attended(parted) == [JOINED], "it fetches for the other part"
    leave(parted, 1)
    parted.talk()
    assert attended(parted) == [JOINED, "left node 1 left"]


def test_a_node_that_both_parts_miss_is_silent(parted: Parted) -> None:
    for shard in parted.shards:
        shard.let_nodes_be_silent()
        parted.talk()
    assert attended(parted) == [JOINED, "left node 1 silent"]


def test_a_node_whose_goodbye_one_part_has_missed_has_left(parted: Parted) -> None:
    leave(parted, 0)
    parted.shards[1].let_nodes_be_silent()
    parted.talk()
    assert attended(parted) == [JOINED, "left node 1 left"]


def test_a_coordinator_that_starts_anew_knows_why_a_node_left_a_part(parted: Parted) -> None:
    leave(parted, 0)
    parted.talk()
    parted.restart_head()
    parted.shards[1].let_nodes_be_silent()
    parted.talk()
    assert attended(parted) == [JOINED, "left node 1 left"]


def test_a_node_that_comes_back_to_a_part_may_fall_silent_later(parted: Parted) -> None:
    leave(parted, 0)
    parted.talk()
    lease(parted, 0)
    parted.talk()
    for shard in parted.shards:
        shard.let_nodes_be_silent()
    parted.talk()
    assert attended(parted) == [JOINED, "left node 1 silent"]


def test_a_node_is_replaced_when_all_parts_know_its_next_session(parted: Parted) -> None:
    for part in range(2):
        lease(parted, part, session="2")
    parted.talk()
    assert attended(parted) == [JOINED, "left node 1 replaced", "joined node 2"]


def test_a_node_that_left_and_began_again_has_left_before_it_joins(parted: Parted) -> None:
    for part in range(2):
        leave(parted, part)
        lease(parted, part, session="2")
    parted.talk()
    assert attended(parted) == [JOINED, "left node 1 left", "joined node 2"]


@pytest.mark.parametrize("held", [False, True])
def test_a_node_stays_in_a_crawl_though_its_coordinator_hears_nothing_of_it_after_a_start(
    parted: Parted, held: bool
) -> None:
    """It calls shards, not the coordinator."""
    if held:
        parted.request(Input.HOLD)
        parted.talk()
    parted.restart_head()
    parted.talk()
    parted.head.now_ms += 10 * PERIOD_MS
    parted.head.tick()
    if held:
        parted.request(Input.RESUME)
    parted.talk()
    assert attended(parted) == [JOINED]
