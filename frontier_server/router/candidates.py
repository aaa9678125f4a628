"""Candidates, given to the shards that they belong to."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2

from .. import wire
from ..shards.links import Link, Links, Relayed, check_present
from .answers import answer_of
from .coordination import Guidance
from .places import Placing

MAX_PROBLEMS = 100

_STANDS = ("CRAWL_HELD", "CRAWL_FINISHED")  # the reasons of a part that takes nothing in
_BUSY = "OVERLOADED"  # the reason of a shard under pressure, which counts as away for those who take a part
_AWAY = [crawl_pb2.VERDICT_AWAY]

Ask = Callable[[Link, bytes, int], Coroutine[Any, Any, frontier_pb2.ScheduleResponse]]
"""Asks a shard for the verdicts on its candidates, of the crawl with a number."""

PlacingFor = Callable[[str], Awaitable[Placing]]
"""The placing of a crawl's URIs, which may have to be asked for. Raises UnknownCrawl."""


class _Stands(NamedTuple):
    """A part takes nothing in."""

    refusal: Relayed


class Candidates:
    """Splits requests with candidates among the shards."""

    def __init__(self, links: Links, placing_for: PlacingFor, guidance: Guidance) -> None:
        self._links = links
        self._placing_for = placing_for
        self._guidance = guidance

    async def split(
        self, request: frontier_pb2.ScheduleRequest, ask: Ask, parks: bool = False
    ) -> frontier_pb2.ScheduleResponse:
        """Ask each shard for its candidates; the verdicts in the order of the candidates. Raises ShardAway,
        unless the request is for a part, or lets what waits for a shard be parked.

        While a crawl pauses or stops, a part that has nothing out stands still before the others do, and
        takes in nothing. Pages of the others may still lead to it: with `parks`, such links are parked.
        """
        data = request.SerializeToString()  # not as it came: the library has put each candidate in order
        offered = shard_pb2.Offered.FromString(data)
        candidates = offered.candidates[:]
        placing = await self._placing_for(request.crawl)
        places = placing.by_shard(candidates)
        links = [self._links[number] for number in places]
        takes_part = request.partial or request.park
        if not takes_part:
            check_present(links)  # before others take in their part

        async def ask_one(link: Link) -> frontier_pb2.ScheduleResponse | _Stands | None:
            part = data
            if len(links) > 1:
                offered.candidates[:] = [candidates[index] for index in places[link.number]]
                part = offered.SerializeToString()
            try:
                return await answer_of(link, lambda: ask(link, part, placing.crawl), takes_part)
            except Relayed as refusal:
                if takes_part and refusal.reason == _BUSY:
                    return None
                if not parks or refusal.reason not in _STANDS:
                    raise
                return _Stands(refusal)

        answers = await self._links.of_all(ask_one, links)
        verdicts = _AWAY * len(request.candidates)
        problems: list[frontier_pb2.CandidateProblem] = []
        for (number, indexes), answer in zip(places.items(), answers, strict=True):
            if not isinstance(answer, frontier_pb2.ScheduleResponse):
                waiting = [request.candidates[index] for index in indexes]
                verdict = await self._verdict_for_waiting(self._links[number], request, waiting, answer)
                for index in indexes:
                    verdicts[index] = verdict
                continue
            for index, verdict in zip(indexes, answer.verdicts, strict=True):
                verdicts[index] = verdict
            for problem in answer.problems:
                problem.index = indexes[problem.index]
                problems.append(problem)
        problems.sort(key=lambda problem: problem.index)
        return frontier_pb2.ScheduleResponse(verdicts=verdicts, problems=problems[:MAX_PROBLEMS])

    async def _verdict_for_waiting(
        self,
        link: Link,
        request: frontier_pb2.ScheduleRequest,
        waiting: Sequence[frontier_pb2.Candidate],
        stands: _Stands | None,
    ) -> crawl_pb2.Verdict.ValueType:
        """The verdict on candidates whose shard is away, or whose part `stands` still before the others: they
        are parked, if the request allows that, or they would be lost, and there is room. Raises ShardAway, or
        the part's refusal, if they are not, and the request is not for a part."""
        if (request.park or stands) and not request.replace:
            candidates = [wire.candidate(message) for message in waiting]
            if await self._guidance.park(request.crawl, link.number, candidates):
                return crawl_pb2.VERDICT_PARKED
        if stands:
            raise stands.refusal
        if not request.partial:
            raise link.absence()
        return crawl_pb2.VERDICT_AWAY
