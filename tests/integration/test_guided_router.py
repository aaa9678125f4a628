"""A router on another machine than the coordinator: what it knows, and which shards it calls."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from inspect import unwrap
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from frontier_harness.waiting import soon

from frontier_server import wire
from frontier_server.core.rows.errors import CrawlHeld, SessionSuperseded, ShardAway, UnknownCrawl
from frontier_server.core.state.model import Candidate, EmptyReason
from frontier_server.core.state.order import Facts
from frontier_server.core.uri.assign import Places
from frontier_server.core.uri.suffixes import Suffixes
from frontier_server.router import guided as guided_module
from frontier_server.router.candidates import Candidates
from frontier_server.router.chances import Chances
from frontier_server.router.fetchers import SERVICE, RoutedFetchers
from frontier_server.router.guide import Board, FrontService
from frontier_server.router.guided import Guided
from frontier_server.router.introductions import Introductions
from frontier_server.service.answers import CRAWL_NUMBER_KEY, Context
from frontier_server.shards.links import Link, Links, Relayed
from frontier_server.shards.locations import Location
from frontier_server.shards.pipe import Both, PipeServer, pipe_beside
from frontier_server.shell.tasks import Closing, Tasks
from frontier_server.wire.status import of_error
from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2, shard_pb2_grpc

QUEUED, AWAY, PARKED = crawl_pb2.VERDICT_QUEUED, crawl_pb2.VERDICT_AWAY, crawl_pb2.VERDICT_PARKED
SPEC = crawl_pb2.CrawlSpec().SerializeToString()
SHARDS = 2
RUNNING = Facts(7, EmptyReason.NOTHING_DUE, True, ())


class Shard:
    """A shard of an incarnation, which takes in what belongs to its crawl, and hears of sessions."""

    def __init__(self, socket: Path, incarnation: int) -> None:
        self.incarnation = incarnation
        self.asked: list[str] = []
        self.crawl = 7
        self._socket = pipe_beside(socket)
        self._server = PipeServer()
        for method, kind in (
            (self.Look, shard_pb2.LookRequest),
            (self.Schedule, frontier_pb2.ScheduleRequest),
            (self.Finished, frontier_pb2.FinishedRequest),
        ):
            service = "toehold.shard.v1.ShardService" if method == self.Look else SERVICE
            handler: Any = grpc.unary_unary_rpc_method_handler(
                method, kind.FromString, lambda answer: answer.SerializeToString()
            )
            self._server.add_registered_method_handlers(service, {method.__name__: handler})

    async def start(self) -> None:
        await self._server.start(self._socket)

    async def stop(self) -> None:
        await self._server.stop(0)

    async def Look(self, request: shard_pb2.LookRequest, context: Any) -> shard_pb2.LookResponse:
        return shard_pb2.LookResponse(incarnation=self.incarnation)

    async def Schedule(
        self, request: frontier_pb2.ScheduleRequest, context: Any
    ) -> frontier_pb2.ScheduleResponse:
        self.asked.append("Schedule")
        (meant,) = [value for key, value in context.invocation_metadata() if key == CRAWL_NUMBER_KEY]
        if meant != str(self.crawl):
            await context.abort(*of_error(UnknownCrawl("another crawl has this name", crawl="c")))
        return frontier_pb2.ScheduleResponse(verdicts=[QUEUED] * len(request.candidates))

    async def Finished(
        self, request: frontier_pb2.FinishedRequest, context: Any
    ) -> frontier_pb2.FinishedResponse:
        self.asked.append(f"Finished {request.session}")
        return frontier_pb2.FinishedResponse(results=[frontier_pb2.ReportResult()] * len(request.reports))


class Coordination:
    """A coordinator of which tests say what it knows."""

    def __init__(self) -> None:
        self.crawls: dict[str, Facts] = {"c": RUNNING}
        self.incarnations = [1] * SHARDS
        self.sizes: dict[str, int] = {}
        self.sessions: list[str] = []  # that a node's name was given to, the last one last
        self.parked: list[tuple[int, str]] = []
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self._fresh: dict[str, Facts | None] = {}
        self._change = asyncio.get_running_loop().create_future()

    def set(self, name: str, facts: Facts | None) -> None:
        """Change a crawl, or delete it."""
        if facts is None:
            del self.crawls[name]
        else:
            self.crawls[name] = facts
        self._fresh[name] = facts
        self.ring()

    def ring(self) -> None:
        self._change.set_result(None)
        self._change = asyncio.get_running_loop().create_future()

    def next_change(self) -> asyncio.Future[None]:
        return self._change

    async def news(self, change: int) -> tuple[Mapping[str, Facts | None], int]:
        news, self._fresh = self._fresh, {}
        return news, change + 1

    async def described(self, crawl: str) -> tuple[Facts, bytes]:
        self.asked.append(f"described {crawl}")
        if crawl not in self.crawls:
            raise UnknownCrawl(f"there is no crawl {crawl!r}", crawl=crawl)
        found = self.crawls[crawl], SPEC
        await self.answers.wait()
        return found

    async def reason(self, crawl: str, exactly_s: float = 0.0) -> EmptyReason:
        return self.crawls[crawl].reason

    async def check_unfinished(self, crawl: str) -> None:
        self.asked.append(f"intake of {crawl}")
        if not self.crawls[crawl].takes_in:
            raise CrawlHeld(f"crawl {crawl!r} is held", crawl=crawl, state="PAUSED")

    async def park(self, crawl: str, shard: int, candidates: list[Candidate]) -> bool:
        self.parked += [(shard, candidate.uri) for candidate in candidates]
        return True

    def next_ranks(self, crawl: str) -> tuple[int, ...]:
        return ()

    def pool_sizes(self) -> Mapping[str, int]:
        return self.sizes

    def incarnation_of(self, shard: int) -> int:
        return self.incarnations[shard]

    async def check_session(self, node: str, session: str) -> None:
        if session in self.sessions[:-1]:
            raise SessionSuperseded("another process now has the node name", node=node)

    async def accept(self, node: str, session: str) -> None:
        if session not in self.sessions:
            self.sessions.append(session)


class Front:
    """The front of a cluster: what stands before a coordinator."""

    def __init__(self, folder: Path, shards: list[Location]) -> None:
        self.place = Location(socket=str(folder / "front.sock"))
        self.coordination = Coordination()
        self.links = _links(shards)
        for link in self.links.all:
            link.away = False
        coordination = cast(Any, self.coordination)
        self.board = Board(self.links, coordination)
        self.introductions = Introductions(self.links, coordination)
        self._server, self._pipe = grpc.aio.server(), PipeServer()
        service = FrontService(self.board, coordination, self.introductions, Places(Suffixes()), self._count)
        both = cast(grpc.aio.Server, Both(self._server, self._pipe))
        shard_pb2_grpc.add_FrontServiceServicer_to_server(service, both)
        self._server.add_insecure_port(f"unix:{self.place.socket}")
        self.counted: list[shard_pb2.CountCallsRequest] = []

    def _count(self, told: shard_pb2.CountCallsRequest) -> None:
        self.counted.append(told)

    async def start(self) -> None:
        await self._server.start()
        await self._pipe.start(pipe_beside(Path(self.place.socket)))
        self._task = asyncio.create_task(self.board.run())

    async def stop(self) -> None:
        self._task.cancel()
        self.board.end(Closing())
        await asyncio.gather(self._server.stop(1), self._pipe.stop(0), self._task, return_exceptions=True)
        await self.links.close()


class FakeContext:
    """A call without an end of its own."""

    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def peer(self) -> str:
        return "here"

    def done(self) -> bool:
        return False


class Door:
    """A router that has its front elsewhere."""

    def __init__(self, front: Front, shards: list[Location], tasks: Tasks) -> None:
        self.front = Link(0, front.place, name="the coordinator")
        self.links = _links(shards, must_be_met=True)
        self.guided = Guided(self.front, self.links)
        candidates = Candidates(self.links, self.guided.placing_for, self.guided)
        chances = Chances(self.links, tasks)
        self.fetchers = RoutedFetchers(self.links, chances, candidates, self.guided, self.guided)
        self.guided.begin(tasks)

    async def schedule(self, uri: str, **more: bool) -> int:
        """The verdict on a URI."""
        candidates = [frontier_pb2.Candidate(uri=uri)]
        request = frontier_pb2.ScheduleRequest(crawl="c", candidates=candidates, **more)
        answer = await unwrap(RoutedFetchers.Schedule)(self.fetchers, request, _context())
        return int(answer.verdicts[0])

    async def hello(self, session: str) -> None:
        """Introduce a session of node n."""
        await self.guided.introduce("n", session, ())

    async def close(self) -> None:
        await self.links.close()
        await self.front.close()


def _context() -> Context:
    return cast(Context, FakeContext())


def _links(shards: list[Location], must_be_met: bool = False) -> Links:
    links = [Link(number, place, must_be_met=must_be_met) for number, place in enumerate(shards)]
    return Links(links, lambda partition: partition[0] % SHARDS)


class Cluster:
    """Two shards, a front and a door."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.places = [Location(socket=str(folder / f"shard-{number}.sock")) for number in range(SHARDS)]
        self.shards = [Shard(Path(place.socket), 1) for place in self.places]
        self.front = Front(folder, self.places)
        self.tasks = Tasks(lambda why, problem: pytest.fail(why))
        self.door = Door(self.front, self.places, self.tasks)

    def uri_of(self, shard: int) -> str:
        """A URI that belongs to a shard."""
        places = Places(Suffixes())
        settings = wire.settings_with(SPEC, ())
        hosts = (f"h{number}.example" for number in range(100))
        return next(
            f"http://{host}/" for host in hosts if places.partition(host, settings, {})[0] % SHARDS == shard
        )

    async def start_anew(self, number: int, incarnation: int) -> Shard:
        """End a shard, and start it again."""
        await self.shards[number].stop()
        shard = self.shards[number] = Shard(Path(self.places[number].socket), incarnation)
        await shard.start()
        return shard


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Cluster]:
    """A cluster whose door sees all."""
    cluster = Cluster(folder)
    for shard in cluster.shards:
        await shard.start()
    await cluster.front.start()
    try:
        await soon(lambda: cluster.door.guided.sees_all, "the door to see all shards")
        yield cluster
    finally:
        await cluster.tasks.end()
        await cluster.door.close()
        await cluster.front.stop()
        for shard in cluster.shards:
            await shard.stop()


async def test_a_door_offers_candidates_to_their_shards_by_itself(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        assert await cluster.door.schedule(cluster.uri_of(1)) == QUEUED
        asked = cluster.front.coordination.asked[:]
        assert await cluster.door.schedule(cluster.uri_of(1)) == QUEUED
        assert [shard.asked for shard in cluster.shards] == [[], ["Schedule"] * 2]
        assert cluster.front.coordination.asked == asked, "the second call must not need the front"


async def test_a_shard_that_has_begun_anew_is_called_once_the_front_has_met_it(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        door, front = cluster.door, cluster.front
        shard = await cluster.start_anew(1, incarnation=2)
        assert await door.schedule(cluster.uri_of(1), partial=True) == AWAY
        assert not door.guided.sees_all, "calls go by the front now"
        for _ in range(3):
            await asyncio.sleep(guided_module.AGAIN_S)  # it tries again and again
            assert await door.schedule(cluster.uri_of(1), partial=True) == AWAY
        assert shard.asked == []
        front.coordination.incarnations[1] = 2
        front.board.note_presence()
        await soon(lambda: door.guided.sees_all, "the door to see all shards")
        assert await door.schedule(cluster.uri_of(1)) == QUEUED


async def test_a_connection_that_breaks_is_made_again_to_the_same_incarnation(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        await cluster.start_anew(1, incarnation=1)
        assert await cluster.door.schedule(cluster.uri_of(1), partial=True) == AWAY
        await soon(lambda: cluster.door.guided.sees_all, "the door to see all shards")
        assert await cluster.door.schedule(cluster.uri_of(1)) == QUEUED


async def test_links_for_a_shard_that_is_away_are_parked_at_the_front(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        front, door = cluster.front, cluster.door
        front.links[1].away = True
        front.board.note_presence()
        await soon(lambda: door.links[1].away, "the door to hear that the shard is away")
        assert door.guided.sees_all, "it sees all that the front sees"
        assert await door.schedule(cluster.uri_of(1), park=True) == PARKED
        assert front.coordination.parked == [(1, cluster.uri_of(1))]


async def test_a_crawl_made_anew_under_its_name_has_its_own_places(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        door, front = cluster.door, cluster.front
        assert await door.schedule(cluster.uri_of(0)) == QUEUED
        front.coordination.crawls["c"] = RUNNING._replace(number=8)  # the door is not told
        for shard in cluster.shards:
            shard.crawl = 8
        assert await door.schedule(cluster.uri_of(0)) == QUEUED
        assert (await door.guided.placing_for("c")).crawl == 8


async def test_a_crawl_that_takes_in_nothing_is_refused_with_the_fronts_words(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        door, coordination = cluster.door, cluster.front.coordination
        coordination.set("c", RUNNING._replace(takes_in=False))
        with pytest.raises(Relayed, match="crawl 'c' is held") as caught:
            await _until_refused(door, cluster.uri_of(0))
        assert caught.value.reason == "CRAWL_HELD"
        with pytest.raises(Relayed, match="there is no crawl 'other'"):
            await door.guided.reason("other")


async def _until_refused(door: Door, uri: str) -> None:
    for _ in range(200):
        await door.schedule(uri)
        await asyncio.sleep(0.01)


async def test_whoever_waits_hears_that_a_crawl_has_changed(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        guided, coordination = cluster.door.guided, cluster.front.coordination
        assert await guided.reason("c") is EmptyReason.NOTHING_DUE
        with guided.change("c") as of_crawl, guided.change("") as of_any:
            coordination.set("c", RUNNING._replace(reason=EmptyReason.PAUSED))
            async with asyncio.timeout(10):
                await asyncio.gather(of_crawl, of_any)
        assert await guided.reason("c") is EmptyReason.PAUSED
        coordination.crawls["c"] = RUNNING  # a moment ago: the door has not been told
        assert await guided.reason("c", exactly_s=1.0) is EmptyReason.NOTHING_DUE
        with guided.change("c") as gone:
            coordination.set("c", None)
            await asyncio.wait_for(gone, 10)
        with pytest.raises(Relayed, match="there is no crawl"):
            await guided.reason("c")


async def test_an_answer_about_a_crawl_that_is_gone_meanwhile_is_not_kept(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        guided, coordination = cluster.door.guided, cluster.front.coordination
        coordination.answers.clear()
        with guided.change("c") as gone:
            asking = asyncio.create_task(guided.reason("c"))
            await soon(lambda: coordination.asked == ["described c"], "the front to be asked")
            coordination.set("c", None)
            await asyncio.wait_for(gone, 10)
        coordination.answers.set()
        assert await asking is EmptyReason.NOTHING_DUE
        with pytest.raises(Relayed, match="there is no crawl"):
            await guided.reason("c")


async def test_an_answer_of_a_front_that_is_lost_meanwhile_is_not_kept(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        guided, coordination = cluster.door.guided, cluster.front.coordination
        coordination.answers.clear()
        asking = asyncio.create_task(guided.reason("c"))
        await soon(lambda: coordination.asked == ["described c"], "the front to be asked")
        cluster.front.board.end(Closing())
        await soon(lambda: not guided.sees_all, "the door to lose its front")
        coordination.answers.set()
        assert await asking is EmptyReason.NOTHING_DUE
        await soon(lambda: guided.sees_all, "the door to find it again")
        await guided.reason("c")
        assert coordination.asked == ["described c"] * 2


async def test_a_session_that_was_replaced_elsewhere_is_asked_of_the_front_again(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        door, front = cluster.door, cluster.front
        await door.hello("a")
        heard = [list(shard.asked) for shard in cluster.shards]
        await door.hello("a")
        assert [shard.asked for shard in cluster.shards] == heard == [["Finished a"]] * SHARDS
        await front.introductions.introduce("n", "b", ())  # by another door
        with pytest.raises(Relayed) as caught:
            await _until_superseded(door)
        assert caught.value.reason == "SESSION_SUPERSEDED"
        await door.hello("b")


async def _until_superseded(door: Door) -> None:
    for _ in range(200):
        await door.hello("a")
        await asyncio.sleep(0.01)


async def test_sizes_of_pools_are_known_at_the_door(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        guided, coordination = cluster.door.guided, cluster.front.coordination
        assert guided.pool_size_of("n") is None
        coordination.sizes = {"": 3, "n": 5}
        coordination.ring()
        await soon(lambda: guided.pool_size_of("n") == 5, "the size of the node's pool")
        assert guided.pool_size_of("other") == 3


async def test_a_door_without_its_front_calls_no_shard(tmp_path: Path) -> None:
    async with started(tmp_path) as cluster:
        door = cluster.door
        await door.hello("a")
        await cluster.front.stop()
        await soon(lambda: not door.guided.sees_all, "the door to lose its front")
        await soon(lambda: not door.links.present, "the door to leave the shards")
        with pytest.raises(ShardAway, match="the coordinator is away"):
            await door.guided.reason("c")
        with pytest.raises(ShardAway, match="the coordinator is away"):
            raise door.guided.absence() or AssertionError("it is there")
        with pytest.raises(ShardAway):
            await door.hello("a")


async def test_a_front_that_stands_still_is_lost_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guided_module, "SILENT_S", 0.2)  # below the pause between its signs of life
    async with started(tmp_path) as cluster:
        await soon(lambda: not cluster.door.guided.sees_all, "the door to lose its front")
        await soon(lambda: cluster.door.guided.sees_all, "the door to find it again")
