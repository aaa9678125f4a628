"""The observer of a crawl: how often it asks for seeds, and events that come twice."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from client_doubles.looks import RUNNING, node, problem, seed

from toehold.frontier.v1.admin_pb2 import Crawl, GetFrontierResponse, GetStatisticsResponse, Seed
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Statistics
from toehold_client.controller import CrawlController
from toehold_client.errors import FrontierUnavailable, Overloaded, ToeholdError
from toehold_client.watching.observer import FEW_SEEDS, SEEDS_S, Observer

FINISHED = CrawlStatus(state=CrawlState.CRAWL_STATE_FINISHED)
FETCHED = seed("https://a.example/", "FETCHED", "fetched (200)")
PENDING = seed("https://b.example/", "PENDING", "not fetched yet")


class Frontier:
    """A frontier with one crawl, and its controller."""

    address, crawl = "127.0.0.1:7707", "c"

    def __init__(self, seeds: Sequence[Seed]) -> None:
        self.seeds = seeds
        self.status = RUNNING
        self.listed = 0
        self.now_s = 0.0
        self.problem: ToeholdError | None = None

    @property
    def frontier(self) -> "Frontier":
        return self

    def describe(self) -> Crawl:
        return Crawl(crawl="c")

    def statistics(self) -> GetStatisticsResponse:
        if self.problem is not None:
            raise self.problem
        return GetStatisticsResponse(status=self.status, statistics=Statistics(limited_by="one host"))

    def get_frontier(self) -> GetFrontierResponse:
        return GetFrontierResponse(nodes=[node("north")])

    def list_seeds(self, crawl: str) -> Iterator[Seed]:
        self.listed += 1
        return iter(self.seeds)

    def list_jobs(self, crawl: str) -> list[Any]:
        return []

    slowest_queues = largest_queues = list_jobs

    def observer(self) -> Observer:
        return Observer(cast(CrawlController, self), clock=lambda: self.now_s)


def listed(frontier: Frontier, looks: int = 3) -> list[int]:
    """How often the seeds were listed, after each of some looks, a second apart."""
    observer, counts = frontier.observer(), []
    for _ in range(looks):
        observer.look()
        frontier.now_s += 1
        counts.append(frontier.listed)
    return counts


def test_few_seeds_are_listed_at_each_look_until_none_is_pending() -> None:
    assert listed(Frontier([FETCHED, PENDING])) == [1, 2, 3]
    assert listed(Frontier([FETCHED])) == [1, 1, 1]


def test_many_seeds_are_listed_now_and_then_and_once_more_at_the_end() -> None:
    frontier = Frontier([PENDING] * (FEW_SEEDS + 1))
    observer = frontier.observer()
    for at_s, status, count in [(0, RUNNING, 1), (1, RUNNING, 1), (2, FINISHED, 2), (3, FINISHED, 2)]:
        frontier.now_s, frontier.status = at_s, status
        observer.look()
        assert frontier.listed == count
    frontier.now_s = 2 * SEEDS_S
    observer.look()
    assert frontier.listed == 3


def test_an_event_that_comes_again_counts_once() -> None:
    observer = Frontier([]).observer()
    for event in (problem(1), problem(2), problem(1), problem(2), problem(3)):
        observer.hear(event)
    assert [event.sequence for event in observer.look().problems] == [1, 2, 3]


@pytest.mark.parametrize("kind", [FrontierUnavailable, Overloaded])
def test_a_frontier_that_does_not_answer_is_seen_as_it_was_and_says_why(kind: type[ToeholdError]) -> None:
    frontier = Frontier([])
    observer = frontier.observer()
    observer.look()
    frontier.problem = kind("the frontier waits for its log: it is away; try later")
    seen = []
    for frontier.now_s in (10.0, 13.0):
        seen.append(observer.look())
    assert [(look.away, look.away_s, look.why) for look in seen] == [
        (str(frontier.problem), 0.0, "one host"),
        (str(frontier.problem), 3.0, "one host"),
    ]
    frontier.problem = None
    assert observer.look().away == ""


def test_a_frontier_that_has_never_answered_is_not_seen() -> None:
    frontier = Frontier([])
    frontier.problem = Overloaded("the frontier waits for its log: it is away; try later")
    with pytest.raises(Overloaded):
        frontier.observer().look()
