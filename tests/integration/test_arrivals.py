"""Requests that come all at once, or are too large: memory has its bounds, and refusals have hints."""

import asyncio
import math
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness.calls import TIMEOUT_S, Refusal, next_request, schedule_request, seed_of, spec
from frontier_harness.held_store import HeldStore
from frontier_harness.in_process import Served, config, serving
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, callers, soon, turns

from frontier_server.service import incoming, room
from toehold.frontier.v1 import admin_pb2, frontier_pb2

MIB = 1024 * 1024
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
SCHEDULE = "/toehold.frontier.v1.FrontierService/Schedule"


def large(crawl: str, number: int, size: int = 6 * MIB) -> frontier_pb2.ScheduleRequest:
    """A request to schedule one URI, whose extras are large."""
    made = schedule_request(crawl, f"{seed_of(crawl)}{number}")
    made.candidates[0].via = "x" * size
    return made


async def launched(served: Served) -> None:
    await served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="t", spec=spec()))
    seeds = admin_pb2.AddSeedsRequest(crawl="t", uris=[seed_of("t")])
    await served.admin.AddSeeds(iter((seeds,)))
    await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="t"))


async def refused(call: Any) -> Refusal:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(asyncio.ensure_future(_answer(call)), TIMEOUT_S)
    return Refusal.of(caught.value)


async def _answer(call: Any) -> Any:
    return await call


def test_a_message_far_beyond_the_limit_is_refused_before_it_is_received(tmp_path: Path) -> None:
    """By gRPC itself: it takes no memory, however many come."""
    told: list[Refusal] = []
    with ServerProcess(tmp_path / "data") as server:
        data = large("t", 1, 27 * MIB).SerializeToString()

        def send() -> None:
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", 64 * MIB)]
            with grpc.insecure_channel(server.address, options) as channel:
                try:
                    call: Any = channel.unary_unary(SCHEDULE)
                    call(data, timeout=60)
                except grpc.RpcError as problem:
                    told.append(Refusal.of(problem))

        senders = [threading.Thread(target=send) for _ in range(40)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        status = Path(f"/proc/{server.child.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        assert int(peak.split()[1]) * 1024 < 600 * MIB, peak
    assert {problem.code for problem in told} == {EXHAUSTED} and len(told) == 40
    assert all(str(9 * MIB) in problem.message for problem in told), told[0]


async def test_large_requests_beyond_the_room_for_all_have_to_come_again_and_small_ones_pass(
    tmp_path: Path,
) -> None:
    store = HeldStore()
    async with serving(store, config(tmp_path)) as served, callers() as calls:
        await launched(served)
        store.hold()
        try:
            fit = room.MAX_BYTES // large("t", 0).ByteSize()
            held = [calls.start(served.frontier.Schedule(large("t", number))) for number in range(fit)]
            await soon(lambda: served.exchange._schedules == fit, "the requests to arrive")
            problem = await refused(served.frontier.Schedule(large("t", fit)))
            assert (problem.code, problem.reason) == (EXHAUSTED, "OVERLOADED") and problem.retry_s
            small = calls.start(served.frontier.Schedule(schedule_request("t", f"{seed_of('t')}small")))
            await soon(lambda: served.exchange._schedules == fit + 1, "the small one to arrive")
        finally:
            store.release()
        await asyncio.wait_for(asyncio.gather(small, *held), TIMEOUT_S)
        await served.frontier.Schedule(large("t", fit))


@pytest.mark.parametrize("rpc", ["ImportUris", "AddSeeds"])
async def test_so_many_streams_of_uris_are_taken_in_at_once(tmp_path: Path, rpc: str) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await launched(served)
        go_on = asyncio.Event()

        async def messages() -> Any:
            if rpc == "AddSeeds":
                yield admin_pb2.AddSeedsRequest(crawl="t", uris=[seed_of("t")])
                await go_on.wait()
            else:
                await go_on.wait()
                yield admin_pb2.ImportUrisRequest(crawl="t", complete=True)

        method = getattr(served.admin, rpc)
        streams = [calls.start(method(messages())) for _ in range(incoming.MAX_STREAMS)]
        open_ones = served.arrivals.incoming.streams
        await soon(lambda: len(open_ones) == incoming.MAX_STREAMS, "the streams to arrive")
        problem = await refused(method(messages()))
        assert (problem.code, problem.reason) == (EXHAUSTED, "OVERLOADED") and problem.retry_s
        go_on.set()
        await asyncio.wait_for(asyncio.gather(*streams), TIMEOUT_S)
        await asyncio.wait_for(_answer(method(messages())), TIMEOUT_S)


@pytest.mark.parametrize("rpc", ["ImportUris", "AddSeeds"])
async def test_streams_without_end_give_way_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rpc: str
) -> None:
    """Or a few callers who never go on would keep everybody from adding seeds, for ever."""
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await launched(served)
        method = getattr(served.admin, rpc)

        async def endless() -> Any:
            if rpc == "AddSeeds":
                yield admin_pb2.AddSeedsRequest(crawl="t", uris=[seed_of("t")])
            else:
                yield admin_pb2.ImportUrisRequest(crawl="t")
            await asyncio.Event().wait()

        streams = [calls.start(method(endless())) for _ in range(incoming.MAX_STREAMS)]
        open_ones = served.arrivals.incoming.streams
        await soon(
            lambda: sum(stream.silent_since_s < math.inf for stream in open_ones) == len(streams),
            "all streams to be silent",
        )
        monkeypatch.setattr(incoming, "RECEIVE_S", 0)
        seeds = admin_pb2.AddSeedsRequest(crawl="t", uris=[f"{seed_of('t')}more"])
        assert (await served.admin.AddSeeds(iter((seeds,)))).added_count == 1
        done, _ = await asyncio.wait(streams, timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        (problem,) = [await refused(call) for call in done]
        assert (problem.code, problem.reason) == (EXHAUSTED, "OVERLOADED") and problem.retry_s


async def test_a_batch_that_does_not_arrive_makes_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "RECEIVE_S", 0.5)
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await launched(served)
        never = asyncio.Event()

        async def nothing() -> Any:
            await never.wait()
            yield b""

        slow: Any = served.channel.stream_unary(SCHEDULE)
        waiting = [calls.start(slow(nothing())) for _ in range(incoming.MAX_RECEIVING)]
        await soon(lambda: served.arrivals.incoming.places.all_taken, "them to come")
        for problem in [await refused(call) for call in waiting]:
            assert (problem.code, problem.reason) == (EXHAUSTED, "OVERLOADED") and problem.retry_s
        monkeypatch.setattr(incoming, "RECEIVE_S", PATIENCE_S)
        await served.frontier.Schedule(schedule_request("t", f"{seed_of('t')}new"))


async def test_a_call_without_its_message_is_refused(tmp_path: Path) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served:

        async def nothing() -> Any:
            for message in list[bytes]():
                yield message

        empty: Any = served.channel.stream_unary(SCHEDULE)
        problem = await refused(empty(nothing()))
        assert problem.code == grpc.StatusCode.INVALID_ARGUMENT


async def test_calls_beyond_those_that_may_be_open_are_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_CALLS", 3)
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launched(served)
        streams = [served.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="t")) for _ in range(3)]
        for stream in streams:
            await asyncio.wait_for(stream.read(), TIMEOUT_S)
        event = served.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="t"))
        beyond: list[Any] = [event.read(), served.frontier.Next(next_request("t", wait_s=0))]
        for each in beyond:
            problem = await refused(each)
            assert (problem.code, problem.reason) == (EXHAUSTED, "OVERLOADED") and problem.retry_s
        streams[0].cancel()
        await soon(lambda: served.arrivals.room.calls < 3, "the end of the call")
        await turns()
        await served.frontier.Next(next_request("t", wait_s=0))


def test_thousands_of_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    """gRPC would cancel those beyond a thousand that wait to be taken up, and all beyond three thousand."""
    count, channels = 6000, 10

    async def ask(address: str) -> set[object]:
        options = [("grpc.use_local_subchannel_pool", 1)]
        opened = [grpc.aio.insecure_channel(address, options) for _ in range(channels)]

        async def one(number: int) -> object:
            call: Any = opened[number % channels].unary_unary(
                "/toehold.frontier.v1.FrontierService/Next",
                request_serializer=frontier_pb2.NextRequest.SerializeToString,
            )
            try:
                await call(next_request("t", wait_s=0, node=f"n{number}"), timeout=120)
            except grpc.aio.AioRpcError as problem:
                return problem.code()
            return None

        try:
            return set(await asyncio.gather(*[one(number) for number in range(count)]))
        finally:
            for channel in opened:
                await channel.close()

    with ServerProcess(tmp_path / "data") as server:
        server.stubs.create("t")
        assert asyncio.run(ask(server.address)) == {None}


@pytest.mark.parametrize("rpc", ["StateEvents", "Next"])
async def test_requests_that_are_kept_while_their_callers_wait_have_so_much_room_and_no_more(
    tmp_path: Path, rpc: str
) -> None:
    """Each open call keeps its request, whatever is in it that nobody knows; honest ones are short."""
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await launched(served)
        await served.frontier.Next(next_request("t", wait_s=TIMEOUT_S))
        events = frontier_pb2.StateEventsRequest(crawl="t")
        request = next_request("t", wait_s=TIMEOUT_S) if rpc == "Next" else events
        short = request.SerializeToString()
        long = short + b"\xfa\x7f\x80\x80\x80\x03" + b"x" * 6 * MIB  # field 2047

        async def wait(data: bytes) -> None:
            call: Any = served.channel.unary_stream(f"/toehold.frontier.v1.FrontierService/{rpc}")
            async for _ in call(data):
                pass

        def are_open(count: int) -> bool:
            return served.arrivals.room.calls == count

        fit = room.MAX_BYTES // len(long)
        for number in range(fit):
            calls.start(wait(long))
            await soon(partial(are_open, number + 1), "a call to arrive")
        problem = await refused(wait(long))
        assert (problem.code, problem.reason) == (EXHAUSTED, "OVERLOADED") and problem.retry_s
        calls.start(wait(short))
        await soon(lambda: served.arrivals.room.calls == fit + 1, "a short one to be taken in")


@pytest.mark.parametrize("rpc", ["Next", "Schedule", "StateEvents"])
async def test_a_defect_shows_its_exception_to_the_log_alone(
    rpc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A call with one message, one of a batch, and one with a stream of answers."""

    def broken(*_: object) -> Any:
        raise KeyError("a line of Python")

    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launched(served)
        monkeypatch.setattr(served.exchange, "next", broken)
        monkeypatch.setattr(served.exchange, "schedule", broken)
        monkeypatch.setattr(served.exchange.following, "events", broken)
        calls: dict[str, Callable[[], Any]] = {
            "Next": lambda: served.frontier.Next(next_request("t")),
            "Schedule": lambda: served.frontier.Schedule(schedule_request("t", seed_of("t"))),
            "StateEvents": lambda: _last(
                served.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="t"))
            ),
        }
        problem = await refused(calls[rpc]())
    assert problem.code is grpc.StatusCode.INTERNAL
    assert problem.message == "the frontier failed at this call; the frontier's log has the reason"
    assert "KeyError: 'a line of Python'" in "".join(capfd.readouterr())


async def _last(stream: Any) -> Any:
    return [message async for message in stream][-1]
