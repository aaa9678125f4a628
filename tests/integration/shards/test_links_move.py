"""A link to a member that comes to be elsewhere: what is open breaks off as ShardAway, and callers go on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpc
import pytest
from frontier_harness.waiting import PATIENCE_S, soon
from google.protobuf.wrappers_pb2 import StringValue

from frontier_server.core.rows.errors import ShardAway
from frontier_server.shards.links import Link
from frontier_server.shards.locations import Location
from frontier_server.shards.pipe import Both, PipeServer
from frontier_server.shards.trust import Trust

SERVICE = "test.Service"
TRUST = Trust("a token")


class Shard:
    """Answers with its name, at once or never."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open = 0
        self._never = asyncio.Event()
        self._pipe, self._grpc = PipeServer(), grpc.aio.server()
        kinds: Any = {"request_deserializer": StringValue.FromString, "response_serializer": _serialized}
        handlers = {
            "Call": grpc.unary_unary_rpc_method_handler(self._call, **kinds),
            "Stream": grpc.unary_stream_rpc_method_handler(self._stream, **kinds),
            "Upload": grpc.stream_unary_rpc_method_handler(self._upload, **kinds),
        }
        both = Both(self._grpc, self._pipe)
        both.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        both.add_registered_method_handlers(SERVICE, handlers)

    async def start(self) -> None:
        port = self._grpc.add_insecure_port("127.0.0.1:0")
        pipe_port = await self._pipe.start_for("127.0.0.1", TRUST)
        await self._grpc.start()
        self.place = Location(host="127.0.0.1", port=port, pipe_port=pipe_port)

    async def stop(self) -> None:
        await self._pipe.stop(0)
        await self._grpc.stop(None)

    def answer_all(self) -> None:
        """Answer what is open."""
        self._never.set()

    async def _wait(self) -> None:
        self.open += 1
        try:
            await self._never.wait()
        finally:
            self.open -= 1

    async def _call(self, request: StringValue, context: Any) -> StringValue:
        if request.value != "at once":
            await self._wait()
        return StringValue(value=self.name)

    async def _stream(self, request: StringValue, context: Any) -> AsyncIterator[StringValue]:
        yield StringValue(value=self.name)
        if request.value != "at once":
            await self._wait()

    async def _upload(self, messages: AsyncIterator[StringValue], context: Any) -> StringValue:
        async for message in messages:
            if message.value != "at once":
                await self._wait()
        return StringValue(value=self.name)


def _serialized(message: StringValue) -> bytes:
    return message.SerializeToString()


@pytest.fixture
async def shards() -> AsyncIterator[list[Shard]]:
    made = [Shard("former"), Shard("latter")]
    for shard in made:
        await shard.start()
    yield made
    for shard in made:
        await shard.stop()


@pytest.fixture
async def link(shards: list[Shard]) -> AsyncIterator[Link]:
    made = Link(3, shards[0].place, TRUST)
    made.away = False
    yield made
    await made.close()


async def call(link: Link, word: str) -> list[str]:
    return [(await link.call(f"{SERVICE}/Call", StringValue(value=word), StringValue)).value]


async def pass_on(link: Link, word: str) -> list[str]:
    data = await link.pass_on(f"{SERVICE}/Call", StringValue(value=word).SerializeToString())
    return [StringValue.FromString(data).value]


async def answers(link: Link, word: str) -> list[str]:
    stream = link.answers(f"{SERVICE}/Stream", StringValue(value=word), StringValue)
    return [message.value async for message in stream]


async def messages(link: Link, word: str) -> list[str]:
    """These have no end but the absence."""
    found = []
    stream = link.messages(f"{SERVICE}/Stream", StringValue(value=word), StringValue, PATIENCE_S)
    try:
        async for message in stream:
            found.append(message.value)
    except ShardAway:
        if word != "at once":
            raise
    return found


async def upload(link: Link, word: str) -> list[str]:
    stream = link.upload(f"{SERVICE}/Upload", StringValue)
    await stream.send(StringValue(value=word))
    return [(await stream.answer()).value]


async def long_upload(link: Link, word: str) -> list[str]:
    """One that sends until the other side takes no more."""
    stream = link.upload(f"{SERVICE}/Upload", StringValue)
    for _ in range(1 if word == "at once" else 1000):
        await stream.send(StringValue(value=word + " " * (0 if word == "at once" else 1024 * 1024)))
    return [(await stream.answer()).value]


Work = Callable[[Link, str], Coroutine[Any, Any, list[str]]]
WAYS: list[Work] = [call, pass_on, answers, messages, upload, long_upload]


async def outcome(work: Work, link: Link) -> list[object]:
    """How a call ends that is never answered, and whether its task is as it was."""
    task = asyncio.current_task()
    assert task is not None
    ended: object = None
    try:
        ended = await work(link, "never")
    except ShardAway as problem:
        ended = problem.metadata
    await asyncio.sleep(0)
    return [ended, task.cancelling()]


@pytest.mark.parametrize("work", WAYS)
@pytest.mark.parametrize("how", ["elsewhere", "nowhere", "closed"])
async def test_open_calls_of_a_link_that_moves_or_closes_end_as_an_absence_and_their_tasks_go_on(
    shards: list[Shard], link: Link, work: Work, how: str
) -> None:
    assert await work(link, "at once") == ["former"]
    open_calls = [asyncio.create_task(outcome(work, link)) for _ in range(5)]
    await soon(lambda: shards[0].open == 5, "the calls to be open")
    if how == "closed":
        await link.close()
    else:
        link.move(shards[1].place if how == "elsewhere" else None)
    done, _ = await asyncio.wait(open_calls, timeout=5.0)
    assert len(done) == 5
    assert [task.result() for task in open_calls] == [[{"shard": "3"}, 0]] * 5
    await soon(lambda: shards[0].open == 0, "the former shard to know that nobody waits")
    assert link.away
    if how == "elsewhere":
        link.away = False
        assert await work(link, "at once") == ["latter"]
        assert shards[1].open == 0
    else:
        with pytest.raises(ShardAway):
            await work(link, "never")


async def test_a_link_that_steps_back_gives_open_calls_their_answers_and_takes_no_other(
    shards: list[Shard], link: Link
) -> None:
    open_call = asyncio.create_task(call(link, "late"))
    await soon(lambda: shards[0].open == 1, "the call to be open")
    link.step_back()
    assert link.away
    with pytest.raises(ShardAway):
        await pass_on(link, "at once")
    shards[0].answer_all()
    assert await open_call == ["former"]


async def test_a_member_whose_stream_is_silent_is_away_and_loses_its_open_calls(
    shards: list[Shard], link: Link
) -> None:
    open_call = asyncio.create_task(outcome(call, link))
    await soon(lambda: shards[0].open == 1, "the call to be open")
    stream = link.messages(f"{SERVICE}/Stream", StringValue(value="never"), StringValue, 0.1)
    with pytest.raises(ShardAway):
        [message async for message in stream]
    assert link.away
    assert await open_call == [{"shard": "3"}, 0]


@pytest.mark.parametrize("work", WAYS)
async def test_a_task_that_is_cancelled_while_its_link_moves_is_cancelled(
    shards: list[Shard], link: Link, work: Work
) -> None:
    open_call = asyncio.create_task(work(link, "never"))
    await soon(lambda: shards[0].open == 1, "the call to be open")
    open_call.cancel()
    link.move(shards[1].place)
    with pytest.raises(asyncio.CancelledError):
        await open_call


async def test_a_move_to_the_same_place_ends_no_call(shards: list[Shard], link: Link) -> None:
    open_call = asyncio.create_task(outcome(answers, link))
    await soon(lambda: shards[0].open == 1, "the call to be open")
    link.move(shards[0].place)
    assert not link.away
    assert await call(link, "at once") == ["former"]
    assert not open_call.done()
    link.move(None)
    await open_call


@pytest.mark.parametrize("work", WAYS)
async def test_a_link_that_moves_again_and_again_ends_its_call_each_time(
    shards: list[Shard], link: Link, work: Work
) -> None:
    for turn in range(10):
        shard = shards[turn % 2]
        link.move(shard.place)
        link.away = False
        open_call = asyncio.create_task(outcome(work, link))
        await soon(lambda: shard.open == 1, "the call to be open")  # noqa: B023  it is called here
        link.move(None)
        assert await asyncio.wait_for(open_call, 5.0) == [{"shard": "3"}, 0]


async def test_a_call_that_waits_for_its_connection_ends_when_its_link_moves(
    shards: list[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a machine that was cut off the network: nobody answers, nobody refuses."""
    tried: list[Any] = []

    async def never(*_: Any, **__: Any) -> Any:
        tried.append(None)
        await asyncio.Event().wait()

    link = Link(3, shards[0].place, TRUST)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "create_connection", never)
        open_call = asyncio.create_task(outcome(call, link))
        await soon(lambda: tried, "it to connect")
    link.move(shards[1].place)
    assert await asyncio.wait_for(open_call, 5.0) == [{"shard": "3"}, 0]
    assert await call(link, "at once") == ["latter"]
    await link.close()
