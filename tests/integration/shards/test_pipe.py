"""Calls in frames: they say what the same calls by gRPC say, and each ends when either side is gone."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
from frontier_harness.waiting import PATIENCE_S, soon

from frontier_server.core.rows.errors import CrawlFinished
from frontier_server.service.arrivals import Server
from frontier_server.shards import pipe
from frontier_server.shards.locations import Location
from frontier_server.shards.pipe import (
    HEAD_BYTES,
    Answer,
    Both,
    Broken,
    Call,
    Pipe,
    PipeServer,
    Refused,
)
from frontier_server.shards.trust import Trust
from frontier_server.wire.status import of_error
from toehold.frontier.v1 import frontier_pb2

SERVICE = "toehold.frontier.v1.FrontierService"
CALL_S = 10.0
HUGE_BYTES = 16 * 1024 * 1024  # more than a socket takes at once


class Shard:
    """Answers Schedule by what its crawl is called."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []
        self.ended: list[str] = []
        self.let_go = asyncio.Event()

    async def Schedule(
        self, request: frontier_pb2.ScheduleRequest, context: Any
    ) -> frontier_pb2.ScheduleResponse:
        self.contexts.append(context)
        match request.crawl:
            case "refused":
                await context.abort(*of_error(CrawlFinished("crawl 'refused' has finished", crawl="refused")))
            case "large answer":
                problem = frontier_pb2.CandidateProblem(problem="x" * 20_000)
                return frontier_pb2.ScheduleResponse(problems=[problem])
            case "broken":
                raise RuntimeError("a defect")
            case "huge":
                await self.let_go.wait()
                problem = frontier_pb2.CandidateProblem(problem="x" * HUGE_BYTES)
                return frontier_pb2.ScheduleResponse(problems=[problem])
            case "slow":
                try:
                    await self.let_go.wait()
                except asyncio.CancelledError:
                    self.ended.append("cancelled")
                    raise
                self.ended.append("answered")
        return frontier_pb2.ScheduleResponse(verdicts=[len(each.uri) % 9 + 1 for each in request.candidates])  # type: ignore[misc]  # any of the numbers


def register(shard: Shard, server: Server) -> None:
    """Let a server serve what a shard has."""
    handler = grpc.unary_unary_rpc_method_handler(
        shard.Schedule,
        frontier_pb2.ScheduleRequest.FromString,
        frontier_pb2.ScheduleResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Schedule": handler}),))
    server.add_registered_method_handlers(SERVICE, {"Schedule": handler})


class Rig:
    """A shard that is served both ways, and a pipe to it."""

    def __init__(self, folder: Path) -> None:
        self.shard, self.server, self.path = Shard(), PipeServer(), folder / "shard.pipe"
        self.grpc = grpc.aio.server()
        both = Both(self.grpc, self.server)
        register(self.shard, both)
        self.port = self.grpc.add_insecure_port("127.0.0.1:0")
        self.pipe = Pipe(Location(socket=str(self.path)))

    async def start(self) -> None:
        await self.grpc.start()
        await self.server.start(self.path)

    async def stop(self) -> None:
        self.pipe.close()
        await self.server.stop(0)
        await self.grpc.stop(None)

    async def schedule(self, crawl: str, *uris: str, timeout_s: float = CALL_S) -> bytes:
        return await self.pipe.call(f"{SERVICE}/Schedule", request(crawl, *uris), timeout_s, (("a", "b"),))


def request(crawl: str, *uris: str) -> bytes:
    candidates = [frontier_pb2.Candidate(uri=uri) for uri in uris]
    return frontier_pb2.ScheduleRequest(crawl=crawl, candidates=candidates).SerializeToString()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def by_grpc(rig: Rig, method: str, data: bytes) -> object:
    """What a call by gRPC comes to: its answer, or its status."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{rig.port}") as channel:
        try:
            call: Any = channel.unary_unary(f"/{method}")
            answer: bytes = await call(data, timeout=CALL_S)
            return answer
        except grpc.aio.AioRpcError as error:
            trailer = sorted(tuple(pair) for pair in error.trailing_metadata() or ())
            return error.code(), error.details(), trailer


async def by_pipe(rig: Rig, method: str, data: bytes) -> object:
    try:
        return await rig.pipe.call(method, data, CALL_S)
    except Refused as refusal:
        return refusal.code, refusal.message, sorted(refusal.trailer)


@pytest.mark.parametrize("crawl", ["open", "refused", ""])
async def test_a_pipe_answers_and_refuses_as_grpc_does(rig: Rig, crawl: str) -> None:
    method, data = f"{SERVICE}/Schedule", request(crawl, "http://a.example/", "http://b.example/päge")
    assert await by_pipe(rig, method, data) == await by_grpc(rig, method, data)


async def test_an_unknown_method_and_a_defect_have_the_codes_of_grpc(rig: Rig) -> None:
    for method, crawl in (("Nothing", ""), ("Schedule", "broken")):
        told = [await ask(rig, f"{SERVICE}/{method}", request(crawl)) for ask in (by_pipe, by_grpc)]
        codes = [each[0] for each in told if isinstance(each, tuple)]
        assert len(codes) == 2 and codes[0] is codes[1], told


async def test_a_handler_is_told_who_calls_and_how_long_its_caller_waits(rig: Rig) -> None:
    await rig.schedule("open")
    (context,) = rig.shard.contexts
    assert context.invocation_metadata() == (("a", "b"),)
    assert 0 < context.time_remaining() <= CALL_S
    assert not context.done()


async def test_calls_at_once_get_their_own_answers(rig: Rig) -> None:
    asked = [[f"http://{number}.example/" + "x" * number] * (number % 7) for number in range(200)]
    answers = await asyncio.gather(*(rig.schedule("open", *uris) for uris in asked))
    for uris, answer in zip(asked, answers, strict=True):
        verdicts = frontier_pb2.ScheduleResponse.FromString(answer).verdicts
        assert list(verdicts) == [len(uri) % 9 + 1 for uri in uris]


async def test_messages_larger_than_what_is_read_at_once_arrive_whole(rig: Rig) -> None:
    uris = [f"http://a.example/{number}/" + "x" * 1_000 for number in range(1_000)]
    verdicts = frontier_pb2.ScheduleResponse.FromString(await rig.schedule("open", *uris)).verdicts
    assert list(verdicts) == [len(uri) % 9 + 1 for uri in uris]


async def test_a_call_whose_caller_waits_no_longer_is_cancelled(rig: Rig) -> None:
    with pytest.raises(TimeoutError):
        await rig.schedule("slow", timeout_s=0.05)
    await soon(lambda: rig.shard.ended == ["cancelled"], "the end of the late call")
    leaving = asyncio.create_task(rig.schedule("slow"))
    await soon(lambda: len(rig.shard.contexts) == 2, "the second call")
    leaving.cancel()
    await soon(lambda: rig.shard.ended == ["cancelled"] * 2, "the end of the call that was left")
    assert all(context.done() for context in rig.shard.contexts)
    await rig.schedule("open")


async def test_a_call_that_ends_before_the_shard_begins_with_it_leaves_nothing_behind(rig: Rig) -> None:
    await rig.schedule("open")
    (connection,) = rig.server.connections
    call = asyncio.create_task(rig.schedule("slow"))
    await asyncio.sleep(0)
    call.cancel()  # so both frames arrive together
    with suppress(asyncio.CancelledError):  # as it was asked for
        await call
    await rig.schedule("open")
    assert connection.running == []


@pytest.mark.parametrize("crawl", ["open", "large answer"])
async def test_a_message_beyond_the_limit_is_refused_and_the_other_calls_go_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, crawl: str
) -> None:
    other = asyncio.create_task(rig.schedule("slow"))
    await soon(lambda: rig.shard.contexts, "the other call")
    monkeypatch.setattr(pipe, "MAX_MESSAGE_BYTES", 10_000)
    uris = ["http://a.example/" + "x" * 10_000] if crawl == "open" else ["u"]
    with pytest.raises(Refused, match="must have at most 10000 bytes, got ") as refused:
        await rig.schedule(crawl, *uris)
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    rig.shard.let_go.set()
    await other


async def test_a_call_breaks_when_its_pipe_is_closed_and_the_next_one_opens_it(rig: Rig) -> None:
    call = asyncio.create_task(rig.schedule("slow"))
    await soon(lambda: rig.shard.contexts, "the call")
    rig.pipe.close()
    with pytest.raises(Broken):
        await call
    await soon(lambda: rig.shard.ended == ["cancelled"], "its end at the shard")
    await rig.schedule("open")


async def test_a_shard_that_ends_lets_calls_end_and_refuses_new_ones(rig: Rig) -> None:
    call = asyncio.create_task(rig.schedule("slow"))
    await soon(lambda: rig.shard.contexts, "the call")
    stopping = asyncio.create_task(rig.server.stop(PATIENCE_S))
    await asyncio.sleep(0)
    with pytest.raises(Refused) as refused:
        await rig.schedule("open")
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE
    rig.shard.let_go.set()
    await call
    await stopping
    with pytest.raises(Broken):
        await rig.schedule("open")
    assert not rig.path.exists()


async def test_a_shard_that_ends_sends_the_whole_of_an_answer_that_it_has_begun(rig: Rig) -> None:
    """Leases in an answer that is cut off are out until they lapse."""
    calls = [asyncio.create_task(rig.schedule("huge")) for _ in range(3)]
    await soon(lambda: len(rig.shard.contexts) == 3, "the calls")
    rig.shard.let_go.set()
    await rig.server.stop(PATIENCE_S)
    assert [len(await call) > HUGE_BYTES for call in calls] == [True] * 3


async def test_a_pipe_that_retires_gives_open_calls_their_answers(rig: Rig) -> None:
    call = asyncio.create_task(rig.schedule("slow"))
    await soon(lambda: rig.shard.contexts, "the call")
    rig.pipe.retire(CALL_S)
    await rig.schedule("open")
    assert len(rig.server.connections) == 2, "the next call has opened it again"
    rig.shard.let_go.set()
    await call
    await soon(lambda: len(rig.server.connections) == 1, "the former connection to end")


async def test_a_pipe_that_retires_breaks_calls_off_that_take_too_long(rig: Rig) -> None:
    call = asyncio.create_task(rig.schedule("slow"))
    await soon(lambda: rig.shard.contexts, "the call")
    rig.pipe.retire(0.1)
    with pytest.raises(Broken):
        await call
    await soon(lambda: rig.shard.ended == ["cancelled"], "its end at the shard")


async def test_a_shard_that_is_back_is_reached_again(rig: Rig) -> None:
    await rig.schedule("open")
    await rig.server.stop(0)
    with pytest.raises(Broken):
        await rig.schedule("open")
    rig.server = PipeServer()
    register(rig.shard, rig.server)
    await rig.server.start(rig.path)
    await rig.schedule("open")


async def test_a_pipe_to_nobody_is_broken(tmp_path: Path) -> None:
    with pytest.raises(Broken):
        await Pipe(Location(socket=str(tmp_path / "nobody.pipe"))).call(f"{SERVICE}/Schedule", b"", CALL_S)


@pytest.mark.parametrize(
    "nonsense",
    [(pipe.MAX_FRAME_BYTES + 1).to_bytes(4), (3).to_bytes(4) + b"abc", (1).to_bytes(4) + b"\x90"],
    ids=["too large a frame", "no message", "too few fields"],
)
async def test_bytes_that_are_no_frame_end_their_connection_alone(rig: Rig, nonsense: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stranger, str(rig.path))
        await loop.sock_sendall(stranger, nonsense)
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionResetError):  # another way to end it
                assert await loop.sock_recv(stranger, 1) == b""
    await rig.schedule("open")


async def test_an_answer_that_came_while_its_caller_stood_still_is_not_lost(tmp_path: Path) -> None:
    """It may have leases, which nobody would give back."""
    path, beside = tmp_path / "shard.pipe", threading.Event()

    async def serve() -> None:
        server = PipeServer()
        register(Shard(), server)
        await server.start(path)
        beside.set()
        await asyncio.to_thread(ended.wait)
        await server.stop(0)

    ended = threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        await asyncio.to_thread(beside.wait)
        caller = Pipe(Location(socket=str(path)))
        method, timeout_s = f"{SERVICE}/Schedule", 0.2
        await caller.call(method, request("first"), CALL_S)
        call = asyncio.create_task(caller.call(method, request("c", "http://a.example/"), timeout_s))
        await asyncio.sleep(0)  # it is sent
        time.sleep(2 * timeout_s)  # noqa: ASYNC251  # this process stands still
        assert await call
        caller.close()
    finally:
        ended.set()
        await asyncio.to_thread(thread.join)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(HEAD_BYTES) + data


def scheduling() -> bytes:
    """A call of Schedule in a frame."""
    request = frontier_pb2.ScheduleRequest(crawl="c").SerializeToString()
    return framed(msgspec.msgpack.encode(Call(7, f"{SERVICE}/Schedule", request, CALL_S)))


@pytest.mark.parametrize("greeting", [b"", b"wrong", b"right ", b"x" * 2000])
async def test_calls_behind_a_wrong_token_in_the_same_packet_are_not_done(greeting: bytes) -> None:
    shard, server = Shard(), PipeServer()
    register(shard, server)
    port = await server.start_for("127.0.0.1", Trust("right"))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(framed(greeting) + scheduling() + scheduling())
    with suppress(ConnectionError):  # it may be reset, as some bytes were not read
        assert await reader.read() == b""
    writer.close()
    await server.stop(CALL_S)
    assert not shard.contexts


async def test_a_call_after_the_right_token_is_answered() -> None:
    shard, server = Shard(), PipeServer()
    register(shard, server)
    port = await server.start_for("127.0.0.1", Trust("right"))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(framed(b"right") + scheduling())
    size = int.from_bytes(await reader.readexactly(HEAD_BYTES))
    assert msgspec.msgpack.decode(await reader.readexactly(size), type=Answer).number == 7
    writer.close()
    await server.stop(0.0)
