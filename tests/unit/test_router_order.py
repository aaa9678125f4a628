"""The order in which shards are asked for leases: by the ranks of their queues, in turn if they are equal."""

from collections import Counter
from typing import NamedTuple, cast

import pytest
from core_doubles.parted import CRAWL, running
from core_doubles.shell import Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.spec.settings import CrawlSettings, RobotsSettings
from frontier_server.core.state.model import Report, Verdict
from frontier_server.router.fetchers import in_order
from frontier_server.shards.links import Link


class Numbered(NamedTuple):
    """A link of which only the number counts."""

    number: int


def asked(ranks: list[int], shards: int, turn: int) -> list[int]:
    links = [cast(Link, Numbered(number)) for number in range(shards)]
    return [link.number for link in in_order(links, ranks, turn)]


@pytest.mark.parametrize(
    ("ranks", "first"),
    [([3, 3, 5], {0: 4, 1: 4}), ([5, 3, 5, 3], {1: 4, 3: 4}), ([2, 1, 0], {2: 8}), ([], {0: 4, 1: 4})],
)
def test_shards_whose_queues_go_first_are_asked_first_and_equal_ones_equally_often(
    ranks: list[int], first: dict[int, int]
) -> None:
    orders = [asked(ranks, len(ranks) or 2, turn) for turn in range(8)]
    assert Counter(order[0] for order in orders) == first
    for order in orders:
        assert sorted(order) == list(range(len(ranks) or 2))
        told = [ranks[number] if ranks else 0 for number in order]
        assert told == sorted(told)


def rank_told(shell: Shell) -> int | None:
    return shell.core.orders.progress(["crawl"])[0].next_rank


def precede(shell: Shell, key: str, precedence: int) -> None:
    change = QueueChange(precedence=precedence)
    shell.do(lambda core, now: core.administration.change_queue("crawl", key, change, now))


def test_a_shard_tells_the_lowest_rank_of_the_queues_that_are_ready_and_of_those_that_wait() -> None:
    shell, told = Shell(), []
    shell.create(
        "crawl", CrawlSettings(contact="https://example.org/", robots=RobotsSettings(policy="ignore"))
    )
    shell.launch("crawl", *(f"http://{host}.example/" for host in ("urgent", "a", "b")))
    for host, precedence in (("urgent", 1), ("a", 3), ("b", 3)):
        precede(shell, f"example,{host},", precedence)
    told.append(rank_told(shell))
    (grant,) = shell.grants("crawl", most=1)
    told.append(rank_told(shell))
    shell.schedule("crawl", f"{grant.uri}next")
    shell.finish(Report(grant.token, fetch_status=200))
    shell.now_ms += 60_000
    shell.tick()
    told.append(rank_told(shell))
    assert (grant.uri, told) == ("http://urgent.example/", [1, 3, 1])


def test_a_caller_who_asks_for_any_crawl_follows_the_ranks_only_if_one_crawl_runs() -> None:
    settings = CrawlSettings(contact="https://example.org/")
    parted = running(settings)
    told = [parted.head.coordinator.next_ranks(name) for name in (CRAWL, "", "another")]
    assert told[0] == told[1] and len(told[0]) == 2 and told[2] == []
    parted.head.create("another", settings)
    parted.head.launch("another", "http://a.example/")
    coordinator = parted.head.coordinator
    announcement = parted.head.do(lambda core, now: coordinator.next_seeds("another", now))
    assert announcement is not None
    parted.head.do(lambda core, now: coordinator.announced(announcement, [Verdict.QUEUED], now))
    parted.head.do(lambda core, now: coordinator.next_seeds("another", now))
    assert parted.head.state("another") is CrawlState.RUNNING
    assert (coordinator.next_ranks(""), coordinator.next_ranks(CRAWL)) == ([], told[0])
