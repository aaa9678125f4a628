"""Candidates and seeds that are split among two shards, one of which is under pressure."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import grpc
import pytest

from frontier_server.coordinator.coordinator import Announcement
from frontier_server.program.offers import Offers
from frontier_server.router.candidates import Candidates
from frontier_server.router.coordination import Guidance
from frontier_server.router.places import Placing
from frontier_server.shards.links import Link, Links, Relayed
from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2
from toehold_base.serving import statuses

QUEUED, AWAY = crawl_pb2.VERDICT_QUEUED, crawl_pb2.VERDICT_AWAY
PARKED = crawl_pb2.VERDICT_PARKED
BUSY = statuses.refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", "try later", retry_ms=500)


class Present:
    """The way to a shard that answers."""

    away = False

    def __init__(self, number: int) -> None:
        self.number = number


class ByNumber:
    """Places pages in two shards by their numbers."""

    crawl = 1

    def by_shard(self, candidates: Sequence[bytes]) -> dict[int, list[int]]:
        places: dict[int, list[int]] = {}
        for index, data in enumerate(candidates):
            number = int(frontier_pb2.Candidate.FromString(data).uri.rpartition("/")[2])
            places.setdefault(number % 2, []).append(index)
        return places


async def by_number(crawl: str) -> Placing:
    return cast(Placing, ByNumber())


class Lot:
    """Parks whatever comes."""

    async def park(self, crawl: str, shard: int, candidates: Sequence[Any]) -> bool:
        return shard == 1


async def offered(**more: bool) -> list[int]:
    """The verdicts on four candidates, of which shard 1 refuses its two."""
    links = Links([cast(Link, Present(number)) for number in (0, 1)], lambda _: 0)
    candidates = Candidates(links, by_number, cast(Guidance, Lot()))

    async def ask(link: Link, part: bytes, crawl: int) -> frontier_pb2.ScheduleResponse:
        if link.number:
            raise Relayed(*BUSY)
        return frontier_pb2.ScheduleResponse(verdicts=[QUEUED] * 2)

    uris = [frontier_pb2.Candidate(uri=f"http://a.example/{page}") for page in range(4)]
    request = frontier_pb2.ScheduleRequest(crawl="c", candidates=uris, **more)
    return list((await candidates.split(request, ask)).verdicts)


def test_a_busy_shard_holds_up_no_candidates_of_others_for_callers_who_take_a_part() -> None:
    assert asyncio.run(offered(partial=True)) == [QUEUED, AWAY, QUEUED, AWAY]
    assert asyncio.run(offered(park=True)) == [QUEUED, PARKED, QUEUED, PARKED]


def test_a_request_that_needs_all_shards_is_refused_as_the_busy_one_does() -> None:
    with pytest.raises(Relayed) as caught:
        asyncio.run(offered())
    assert caught.value.reason == "OVERLOADED"


class Announced(Present):
    """The way to a shard that takes seeds in, but for some tries."""

    def __init__(self, number: int, refusals: int) -> None:
        super().__init__(number)
        self.refusals = refusals
        self.asked = 0

    async def call(self, method: str, request: shard_pb2.AnnounceRequest, *_: object) -> Any:
        self.asked += 1
        if self.asked <= self.refusals:
            raise Relayed(*BUSY)
        verdicts = [QUEUED] * len(request.request.candidates)
        return shard_pb2.AnnounceResponse(response=frontier_pb2.ScheduleResponse(verdicts=verdicts))


async def test_seeds_that_one_shard_refuses_are_offered_again_to_that_shard_alone() -> None:
    """Otherwise the others would call theirs known, and they would not count as queued."""
    ways = [Announced(0, refusals=0), Announced(1, refusals=2)]
    links = Links([cast(Link, way) for way in ways], lambda _: 0)
    candidates = Candidates(links, by_number, cast(Guidance, Lot()))
    offers = Offers(links, candidates, lambda _: True)
    announcement = Announcement("c", 1, 1, 0, [f"http://a.example/{seed}" for seed in range(2)])
    with pytest.raises(Relayed):
        await offers.announce(announcement)
    ways[1].refusals = 1
    assert [verdict.name for verdict in await offers.announce(announcement)] == ["QUEUED", "QUEUED"]
    assert [way.asked for way in ways] == [1, 2]
