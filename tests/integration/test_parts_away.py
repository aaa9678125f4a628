"""The router, when one of its shards is away: the parts of the others count, if the caller takes a part."""

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from inspect import unwrap
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from frontier_harness.waiting import PATIENCE_S, soon

from frontier_server.core.rows.errors import (
    BatchTooLarge,
    CrawlFinished,
    CrawlHeld,
    CrawlTornDown,
    FrontierError,
    SessionSuperseded,
    ShardAway,
)
from frontier_server.core.state.model import Candidate
from frontier_server.router import fetchers, introductions
from frontier_server.router.candidates import Candidates
from frontier_server.router.fetchers import PARTITION_AT, PARTITION_BYTES, RoutedFetchers
from frontier_server.router.introductions import Introductions
from frontier_server.service.answers import Context
from frontier_server.shards.links import Link, Links, Relayed
from frontier_server.shards.locations import Location
from frontier_server.shards.pipe import PipeServer, pipe_beside
from frontier_server.wire.status import failed, of_error
from toehold.frontier.v1 import crawl_pb2, frontier_pb2, frontier_pb2_grpc

AWAY, QUEUED = crawl_pb2.VERDICT_AWAY, crawl_pb2.VERDICT_QUEUED
PARKED = crawl_pb2.VERDICT_PARKED
MALFORMED = crawl_pb2.VERDICT_MALFORMED
UNREPORTED, SUCCEEDED = crawl_pb2.DISPOSITION_AWAY, crawl_pb2.DISPOSITION_SUCCEEDED


class Shard(frontier_pb2_grpc.FrontierServiceServicer):
    """A shard that takes what it is given; or it stands still, or refuses."""

    def __init__(self, socket: Path) -> None:
        self.asked: list[str] = []
        self.stands_still = self.fails = False
        self.refusal: FrontierError | None = None
        self._socket = pipe_beside(socket)
        self._server = PipeServer()
        frontier_pb2_grpc.add_FrontierServiceServicer_to_server(self, cast(grpc.aio.Server, self._server))

    async def start(self) -> None:
        await self._server.start(self._socket)

    async def stop(self) -> None:
        await self._server.stop(0)

    async def Schedule(
        self, request: frontier_pb2.ScheduleRequest, context: Any
    ) -> frontier_pb2.ScheduleResponse:
        await self._answer("Schedule", context)
        bad = [index for index, each in enumerate(request.candidates) if "bad" in each.uri]
        return frontier_pb2.ScheduleResponse(
            verdicts=[MALFORMED if "bad" in each.uri else QUEUED for each in request.candidates],
            problems=[frontier_pb2.CandidateProblem(index=index, problem="bad") for index in bad],
        )

    async def Finished(
        self, request: frontier_pb2.FinishedRequest, context: Any
    ) -> frontier_pb2.FinishedResponse:
        await self._answer("Finished", context)
        result = frontier_pb2.ReportResult(disposition=SUCCEEDED)
        return frontier_pb2.FinishedResponse(results=[result] * len(request.reports))

    async def Heartbeat(
        self, request: frontier_pb2.HeartbeatRequest, context: Any
    ) -> frontier_pb2.HeartbeatResponse:
        await self._answer("Heartbeat", context)
        return frontier_pb2.HeartbeatResponse(ended_tokens=request.tokens, ended_crawls=request.idle_crawls)

    async def Next(self, request: frontier_pb2.NextRequest, context: Any) -> frontier_pb2.NextResponse:
        raise AssertionError("nobody asks for leases here")

    async def RequestState(
        self, request: frontier_pb2.RequestStateRequest, context: Any
    ) -> frontier_pb2.RequestStateResponse:
        raise AssertionError("nobody asks for states here")

    def StateEvents(
        self, request: frontier_pb2.StateEventsRequest, context: Any
    ) -> AsyncIterator[frontier_pb2.StateEventsResponse]:
        raise AssertionError("nobody follows events here")

    async def _answer(self, method: str, context: Any) -> None:
        self.asked.append(method)
        if self.stands_still:
            await asyncio.sleep(3600)
        if self.fails:
            await context.abort(*failed("request 7"))
        if self.refusal is not None:
            await context.abort(*of_error(self.refusal))


class FakeContext:
    """A call without an end of its own."""

    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def peer(self) -> str:
        return "here"


class Coordination:
    """A coordinator that keeps links, if it has room."""

    def __init__(self) -> None:
        self.has_room = True
        self.parked: list[tuple[int, str]] = []
        self.sessions: list[str] = []  # that a node's name was given to, the last one last

    async def check_session(self, node: str, session: str) -> None:
        if session in self.sessions[:-1]:
            raise SessionSuperseded("another process now has the node name", node=node)

    async def accept(self, node: str, session: str) -> None:
        if session not in self.sessions:
            self.sessions.append(session)

    async def check_unfinished(self, crawl: str) -> None:
        pass

    def absence(self) -> None:
        return None

    def pool_size_of(self, node: str) -> None:
        return None

    async def park(self, crawl: str, shard: int, candidates: Sequence[Candidate]) -> bool:
        if self.has_room:
            self.parked += [(shard, candidate.uri) for candidate in candidates]
        return self.has_room


class Placing:
    """Locations each candidate by the number that its URI begins with."""

    crawl = 1

    def by_shard(self, candidates: Sequence[bytes]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for index, data in enumerate(candidates):
            found.setdefault(int(frontier_pb2.Candidate.FromString(data).uri[0]), []).append(index)
        return found


class Rig:
    """A router over two shards. The URI of a candidate begins with the number of its shard."""

    def __init__(self, folder: Path) -> None:
        sockets = [folder / f"shard-{number}.sock" for number in range(2)]
        self.shards = [Shard(socket) for socket in sockets]
        places = [Location(socket=str(socket)) for socket in sockets]
        self.links = Links([Link(number, place) for number, place in enumerate(places)], lambda at: at[0])
        for link in self.links.all:
            link.away = False
        unused: Any = None
        placing: Any = Placing()
        self.coordination = Coordination()
        coordination = cast(Any, self.coordination)

        async def placing_for(crawl: str) -> Any:
            return placing

        candidates = Candidates(self.links, placing_for, coordination)
        introductions = Introductions(self.links, coordination)
        self.router = RoutedFetchers(self.links, unused, candidates, coordination, introductions)
        self._context = cast(Context, FakeContext())

    async def schedule(
        self, *uris: str, partial: bool = True, park: bool = False, replace: bool = False
    ) -> frontier_pb2.ScheduleResponse:
        candidates = [frontier_pb2.Candidate(uri=uri) for uri in uris]
        request = frontier_pb2.ScheduleRequest(
            crawl="c", candidates=candidates, partial=partial, park=park, replace=replace
        )
        split = unwrap(RoutedFetchers.Schedule)
        answer: frontier_pb2.ScheduleResponse = await split(self.router, request, self._context)
        return answer

    async def finished(
        self, *shards: int, partial: bool = True, session: str = "a"
    ) -> list[crawl_pb2.Disposition.ValueType]:
        reports = [frontier_pb2.Report(token=token(shard)) for shard in shards]
        request = frontier_pb2.FinishedRequest(node="n", session=session, reports=reports, partial=partial)
        split = unwrap(RoutedFetchers.Finished)
        answer = await split(self.router, request, self._context)
        return [each.disposition for each in frontier_pb2.FinishedResponse.FromString(answer).results]

    async def heartbeat(self, *shards: int, session: str = "a") -> frontier_pb2.HeartbeatResponse:
        tokens = [token(each) for each in shards]
        request = frontier_pb2.HeartbeatRequest(
            node="n", session=session, tokens=tokens, idle_crawls=["idle"]
        )
        heartbeat = unwrap(RoutedFetchers.Heartbeat)
        answer: frontier_pb2.HeartbeatResponse = await heartbeat(self.router, request, self._context)
        return answer


def token(shard: int) -> bytes:
    return bytes(PARTITION_AT) + bytes([shard]) * PARTITION_BYTES


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setattr(fetchers, "SHARD_S", 0.2)
    monkeypatch.setattr(introductions, "HEAR_S", 0.2)
    made = Rig(tmp_path)
    for shard in made.shards:
        await shard.start()
    yield made
    await made.links.close()
    for shard in made.shards:
        await shard.stop()


async def test_links_of_a_shard_that_is_away_are_not_judged_and_the_others_are(rig: Rig) -> None:
    await rig.shards[1].stop()
    answer = await rig.schedule("0 a", "1 b", "0 bad", "1 c", "0 d")
    assert list(answer.verdicts) == [QUEUED, AWAY, MALFORMED, AWAY, QUEUED]
    assert [problem.index for problem in answer.problems] == [2]
    assert list((await rig.schedule("1 b", "1 c")).verdicts) == [AWAY, AWAY]


async def test_links_of_a_shard_that_is_away_are_parked_if_the_request_allows_it(rig: Rig) -> None:
    await rig.shards[1].stop()
    for partial in (True, False):
        answer = await rig.schedule("0 a", "1 b", "0 bad", "1 c", partial=partial, park=True)
        assert list(answer.verdicts) == [QUEUED, PARKED, MALFORMED, PARKED]
    assert list((await rig.schedule("1 d", park=True)).verdicts) == [PARKED]
    assert rig.coordination.parked == [(1, "1 b"), (1, "1 c")] * 2 + [(1, "1 d")]


async def test_links_that_cannot_be_parked_are_away(rig: Rig) -> None:
    rig.coordination.has_room = False
    rig.links[1].away = True
    assert list((await rig.schedule("0 a", "1 b", park=True)).verdicts) == [QUEUED, AWAY]
    with pytest.raises(ShardAway, match="shard 1 is away"):
        await rig.schedule("0 a", "1 b", partial=False, park=True)


async def test_candidates_that_replace_others_are_not_parked(rig: Rig) -> None:
    rig.links[1].away = True
    assert list((await rig.schedule("1 b", park=True, replace=True)).verdicts) == [AWAY]
    assert rig.coordination.parked == []


async def test_reports_of_a_shard_that_is_away_are_not_applied_and_the_others_are(rig: Rig) -> None:
    await rig.shards[1].stop()
    assert await rig.finished(1, 0, 1) == [UNREPORTED, SUCCEEDED, UNREPORTED]
    assert await rig.finished(1, 1) == [UNREPORTED, UNREPORTED]


async def test_a_request_that_takes_no_partial_answer_is_refused_while_a_shard_is_away(rig: Rig) -> None:
    await rig.shards[1].stop()
    for uris in ("0 a", "1 b"), ("1 b",):
        with pytest.raises(ShardAway, match="shard 1 is away"):
            await rig.schedule(*uris, partial=False)
    for shards in (0, 1), (1,):
        with pytest.raises(ShardAway, match="shard 1 is away"):
            await rig.finished(*shards, partial=False)
    assert list((await rig.schedule("0 a", partial=False)).verdicts) == [QUEUED]


async def test_a_shard_that_stands_still_holds_up_the_others_for_a_short_time(rig: Rig) -> None:
    rig.shards[1].stands_still = True
    async with asyncio.timeout(PATIENCE_S):
        assert list((await rig.schedule("1 a", "0 b")).verdicts) == [AWAY, QUEUED]
        assert await rig.finished(1, 0) == [UNREPORTED, SUCCEEDED]
        assert list((await rig.heartbeat(0, 1)).ended_tokens) == [token(0)]


async def test_a_shard_that_is_known_to_be_away_is_not_asked(rig: Rig) -> None:
    rig.links[1].away = True
    assert list((await rig.schedule("1 a", "0 b")).verdicts) == [AWAY, QUEUED]
    assert await rig.finished(1, 0) == [UNREPORTED, SUCCEEDED]
    assert list((await rig.heartbeat(0, 1)).ended_tokens) == [token(0)]
    assert rig.shards[1].asked == []


async def test_a_request_for_all_shards_is_refused_before_one_takes_its_part(rig: Rig) -> None:
    await rig.finished(0)
    rig.links[1].away = True
    asked = list(rig.shards[0].asked)
    with pytest.raises(ShardAway):
        await rig.schedule("0 a", "1 b", partial=False)
    with pytest.raises(ShardAway):
        await rig.finished(0, 1, partial=False)
    assert rig.shards[0].asked == asked


async def test_a_session_that_was_replaced_is_told_to_one_shard_that_knows_better(rig: Rig) -> None:
    """It refuses the session, and tells its rival. The other one might take it."""
    rig.links[0].away = True
    await rig.heartbeat(session="a")
    await rig.heartbeat(session="b")
    rig.links[0].away = False
    for call in (rig.heartbeat(session="a"), rig.finished(0, session="a")):
        before = len(rig.shards[1].asked)
        with pytest.raises(SessionSuperseded):
            await call
        assert len(rig.shards[1].asked) == before + 1
    assert rig.shards[0].asked == []


async def test_calls_of_a_new_session_introduce_it_once(rig: Rig) -> None:
    await asyncio.gather(*(rig.heartbeat(session="a") for _ in range(10)))
    for shard in rig.shards:
        assert shard.asked.count("Finished") == 1
        assert shard.asked.count("Heartbeat") == 10


async def test_a_session_that_a_shard_refuses_does_not_replace_the_one_that_it_knows(rig: Rig) -> None:
    """The coordinator does not know either of them, as after a salvage."""
    rig.shards[0].refusal = SessionSuperseded("another process now has the node name", node="n")
    with pytest.raises(Relayed, match="another process now has the node name"):
        await rig.heartbeat(session="old")
    assert rig.coordination.sessions == []


async def test_a_shard_that_is_overloaded_keeps_no_session_from_the_others(rig: Rig) -> None:
    rig.shards[1].refusal = CrawlHeld("not now")
    assert await rig.finished(0, session="a") == [SUCCEEDED]
    rig.shards[1].refusal = None
    await rig.heartbeat(session="a")
    assert rig.shards[1].asked == ["Finished", "Finished", "Heartbeat"]


async def test_a_heartbeat_with_too_many_tokens_is_refused_although_each_shard_has_few(rig: Rig) -> None:
    with pytest.raises(BatchTooLarge, match="at most 10000 tokens, got 10001"):
        await rig.heartbeat(*(number % 2 for number in range(10_001)))
    assert len((await rig.heartbeat(*(number % 2 for number in range(10_000)))).ended_tokens) == 10_000


async def test_a_shard_that_takes_longer_than_a_callers_deadline_is_not_away(rig: Rig) -> None:
    rig.shards[0].stands_still = True
    method, request = f"{fetchers.SERVICE}/Heartbeat", frontier_pb2.HeartbeatRequest()
    ask = functools.partial(rig.links[0].call, method, request, frontier_pb2.HeartbeatResponse, 0.1)
    with pytest.raises(Relayed, match="shard 0 has not answered by the deadline") as late:
        await ask(is_deadline=True)
    assert late.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    with pytest.raises(ShardAway):
        await ask()


async def test_a_request_that_takes_no_partial_answer_ends_when_its_shard_goes_away(rig: Rig) -> None:
    rig.shards[1].stands_still = True
    call = asyncio.create_task(rig.schedule("1 a", "0 b", partial=False))
    await soon(lambda: rig.shards[1].asked)
    rig.links[1].away = True
    with pytest.raises(ShardAway):
        await call


async def test_a_crawl_has_ended_for_a_heartbeat_only_if_all_shards_say_so(rig: Rig) -> None:
    assert list((await rig.heartbeat(0, 1)).ended_crawls) == ["idle"]
    rig.links[1].away = True
    assert list((await rig.heartbeat(0, 1)).ended_crawls) == []


async def test_a_refusal_of_one_shard_refuses_the_whole_request(rig: Rig) -> None:
    rig.shards[0].refusal = CrawlTornDown("it is gone")
    rig.links[1].away = True
    with pytest.raises(Relayed, match="it is gone"):
        await rig.schedule("0 a", "1 b")


@pytest.mark.parametrize("refusal", [CrawlFinished("it has finished"), CrawlHeld("it is held")])
async def test_links_to_a_part_that_stands_still_before_the_others_are_parked(
    rig: Rig, refusal: FrontierError
) -> None:
    rig.shards[1].refusal = refusal
    for uris, expected in ((("0 a", "1 b"), [QUEUED, PARKED]), (("1 c",), [PARKED])):
        assert list((await rig.schedule(*uris, partial=False)).verdicts) == expected
    assert rig.coordination.parked == [(1, "1 b"), (1, "1 c")]
    rig.coordination.has_room = False
    for replace in (True, False):
        with pytest.raises(Relayed, match=str(refusal)):
            await rig.schedule("0 a", "1 b", replace=replace)


async def test_a_defect_of_a_shard_is_told_and_not_taken_for_its_absence(rig: Rig) -> None:
    rig.shards[1].fails = True
    for partial in (True, False):
        with pytest.raises(Relayed, match="the frontier failed at this call") as told:
            await rig.schedule("0 a", "1 b", partial=partial, park=partial)
        assert told.value.code is grpc.StatusCode.INTERNAL
