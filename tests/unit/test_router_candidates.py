"""Candidates that are split among shards, one of which takes nothing in for now."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import grpc
import pytest

from frontier_server.router.candidates import Candidates
from frontier_server.router.coordination import Coordination
from frontier_server.router.places import Placing
from frontier_server.shards.links import Link, Links, Relayed
from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_base.serving import statuses

QUEUED, AWAY = crawl_pb2.VERDICT_QUEUED, crawl_pb2.VERDICT_AWAY
PARKED = crawl_pb2.VERDICT_PARKED
BUSY = statuses.refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", "try later", retry_ms=500)


class Present:
    """The way to a shard that answers."""

    away = False

    def __init__(self, number: int) -> None:
        self.number = number


class InTurn:
    """Places candidates in two shards in turn."""

    def by_shard(self, candidates: Sequence[bytes]) -> dict[int, list[int]]:
        return {shard: list(range(shard, len(candidates), 2)) for shard in (0, 1)}


class Lot:
    """Parks whatever comes."""

    async def park(self, crawl: str, shard: int, candidates: Sequence[Any]) -> bool:
        return shard == 1


async def offered(**more: bool) -> list[int]:
    """The verdicts on four candidates, of which shard 1 refuses its two."""
    links = Links([cast(Link, Present(number)) for number in (0, 1)], lambda _: 0)
    candidates = Candidates(links, lambda _: cast(Placing, InTurn()), cast(Coordination, Lot()))

    async def ask(link: Link, part: bytes) -> frontier_pb2.ScheduleResponse:
        if link.number:
            raise Relayed(*BUSY)
        return frontier_pb2.ScheduleResponse(verdicts=[QUEUED] * 2)

    uris = [frontier_pb2.Candidate(uri=f"http://a.example/{page}") for page in range(4)]
    request = frontier_pb2.ScheduleRequest(crawl="c", candidates=uris, **more)
    return list((await candidates.split(request, ask)).verdicts)


def test_a_shard_that_is_busy_holds_up_no_candidates_of_others_for_those_who_take_a_part() -> None:
    assert asyncio.run(offered(partial=True)) == [QUEUED, AWAY, QUEUED, AWAY]
    assert asyncio.run(offered(park=True)) == [QUEUED, PARKED, QUEUED, PARKED]


def test_a_request_that_needs_all_shards_is_refused_as_by_the_one_that_is_busy() -> None:
    with pytest.raises(Relayed) as caught:
        asyncio.run(offered())
    assert caught.value.reason == "OVERLOADED"
