"""The gateway's calls on a server of gRPC's: what arrives together, flow, limits, and clients that leave."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from frontier_harness.raw_calls import (
    END_HEADERS,
    ErrorCodes,
    Kind,
    frame,
    framed,
    raw_client,
)
from frontier_harness.waiting import PATIENCE_S, soon
from grpc import StatusCode, aio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from urlfrontier_gateway import calls
from urlfrontier_gateway.calls import (
    MAX_UNREAD_BYTES,
    Aborted,
    ServedCall,
    ServedCalls,
    new_server,
)

ECHO, COUNT, HELD, IDLE, BROKEN, MANY = (
    f"/test.T/{name}" for name in ("Echo", "Count", "Held", "Idle", "Broken", "Many")
)
CANCEL = ErrorCodes.CANCEL.to_bytes(4, "big")


@dataclass
class Site:
    """A server, and what its calls have seen."""

    port: int
    cancelled: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    begun: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A server with a call of each kind."""
    made = Site(0)

    async def echo(call: ServedCall) -> None:
        while messages := await call.read():
            made.sizes.append(len(messages))
            await call.write(*messages)

    async def count(call: ServedCall) -> None:
        total = 0
        while messages := await call.read():
            total += sum(map(len, messages))
        await call.write(str(total).encode())

    async def held(call: ServedCall) -> None:
        made.begun += 1
        made.sizes.append(sum(map(len, await call.read())))
        await made.go_on.wait()
        while messages := await call.read():
            made.sizes.append(sum(map(len, messages)))

    async def idle(call: ServedCall, request: bytes) -> None:
        made.begun += 1
        try:
            await made.go_on.wait()
        except asyncio.CancelledError:
            made.cancelled.append(request.decode())
            raise
        await call.write(b"at last")

    async def broken(call: ServedCall, request: bytes) -> None:
        if request:
            raise Aborted(f"100% not: {request.decode()}", StatusCode.NOT_FOUND)
        raise ValueError("a bug")

    async def many(call: ServedCall, request: bytes) -> None:
        for _ in range(int(request)):
            await call.write(b"x" * 1000)
            made.begun += 1

    server = new_server()
    streams = {"Echo": echo, "Count": count, "Held": held}
    ServedCalls().register(server, "test.T", streams, {"Idle": idle, "Broken": broken, "Many": many})
    made.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield made
    await server.stop(0)


@pytest.fixture
async def stub(site: Site) -> AsyncIterator[Any]:
    """gRPC's own client."""
    async with aio.insecure_channel(f"127.0.0.1:{site.port}") as channel:
        yield channel


async def refused(call: Any) -> aio.AioRpcError:
    with pytest.raises(aio.AioRpcError) as caught:
        async with asyncio.timeout(PATIENCE_S):
            await call
    return caught.value


async def test_grpcs_own_client_makes_calls_of_all_kinds(site: Site, stub: Any) -> None:
    messages = [bytes([number % 256]) * (number * 37 % 5_000) for number in range(500)]
    for call in [stub.stream_stream(ECHO)(iter(messages), timeout=PATIENCE_S) for _ in range(5)]:
        assert [message async for message in call] == messages
    big = [b"x" * (3 * 1024 * 1024)] * 2
    assert await stub.stream_unary(COUNT)(iter(big), timeout=PATIENCE_S) == b"6291456"
    packed = stub.stream_unary(COUNT)(iter(big), timeout=PATIENCE_S, compression=grpc.Compression.Gzip)
    assert await packed == b"6291456"
    found = [message async for message in stub.unary_stream(MANY)(b"3000", timeout=PATIENCE_S)]
    assert (len(found), set(found)) == (3000, {b"x" * 1000})


@pytest.mark.parametrize(
    ("path", "request_", "code", "message"),
    [
        (BROKEN, "ä".encode(), StatusCode.NOT_FOUND, "100% not: ä"),
        (BROKEN, b"", StatusCode.UNKNOWN, "the gateway failed; its log has the reason"),
        (COUNT, b"x" * (calls.MAX_MESSAGE_BYTES + 1), StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
        ("/test.T/None", b"", StatusCode.UNIMPLEMENTED, "Method not found!"),
    ],
)
async def test_a_call_that_fails_has_a_status_and_harms_no_other(
    site: Site, stub: Any, path: str, request_: bytes, code: StatusCode, message: str
) -> None:
    problem = await refused(stub.unary_unary(path)(request_, timeout=PATIENCE_S))
    assert problem.code() == code and message in str(problem.details())
    assert await stub.stream_unary(COUNT)(iter([b"fine"]), timeout=PATIENCE_S) == b"4"


async def test_a_call_beyond_its_deadline_is_cancelled(site: Site, stub: Any) -> None:
    assert (await refused(stub.unary_unary(IDLE)(b"late", timeout=0.2))).code() == (
        StatusCode.DEADLINE_EXCEEDED
    )
    await soon(lambda: site.cancelled == ["late"])


async def test_hundreds_of_calls_of_a_connection_go_at_once(site: Site, stub: Any) -> None:
    waiting = [
        asyncio.ensure_future(_answer(stub.unary_unary(IDLE)(b"", timeout=PATIENCE_S))) for _ in range(500)
    ]
    await soon(lambda: site.begun == 500)
    site.go_on.set()
    assert set(await asyncio.gather(*waiting)) == {b"at last"}


async def test_calls_beyond_those_that_may_be_open_are_refused(
    site: Site, stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [
        asyncio.ensure_future(_answer(stub.unary_unary(IDLE)(b"", timeout=PATIENCE_S)))
        for _ in range(calls.MAX_CALLS)
    ]
    await soon(lambda: site.begun == calls.MAX_CALLS)
    async with aio.insecure_channel(
        f"127.0.0.1:{site.port}", options=[("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        other: Any = channel
        problem = await refused(other.unary_unary(IDLE)(b"", timeout=PATIENCE_S))
        assert problem.code() == StatusCode.RESOURCE_EXHAUSTED and "try later" in str(problem.details())
    site.go_on.set()
    assert set(await asyncio.gather(*waiting)) == {b"at last"}


async def _answer(call: Any) -> Any:
    return await call


async def test_messages_that_arrive_together_are_read_together(site: Site) -> None:
    async with raw_client(site.port) as client:
        client.call(1, ECHO, *[b"x" * 20] * 1000)
        assert len((await client.until_end(1)).messages) == 1000
    assert len(site.sizes) < 100


async def test_a_client_may_send_only_so_much_ahead_of_what_is_read(site: Site, stub: Any) -> None:
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(40):
            yield b"x" * 100_000
            sent += 1

    counting = asyncio.ensure_future(_answer(stub.stream_unary(HELD)(pieces(), timeout=PATIENCE_S)))
    await soon(lambda: len(site.sizes) == 1 and sent >= 10)
    assert await stub.stream_unary(COUNT)(iter([b"not held up"]), timeout=PATIENCE_S) == b"11"
    assert sent < 40, "the rest waits until the call reads on"
    site.go_on.set()
    await soon(lambda: sum(site.sizes) == 4_000_000)
    assert max(site.sizes) < MAX_UNREAD_BYTES + 200_000
    counting.cancel()


async def test_a_client_that_takes_nothing_holds_up_only_its_own_call(site: Site, stub: Any) -> None:
    async with raw_client(site.port) as client:
        client.call(1, MANY, b"40000")
        for _ in range(50):
            assert await stub.stream_unary(COUNT)(iter([b"fine"]), timeout=PATIENCE_S) == b"4"
        assert site.begun < 1_000, "the rest waits for the client"


@pytest.mark.parametrize("reset", [True, False])
async def test_a_call_whose_client_leaves_is_cancelled(site: Site, reset: bool) -> None:
    async with raw_client(site.port) as client:
        client.call(1, IDLE, b"gone")
        await soon(lambda: site.begun == 1)
        if reset:
            client.send(frame(Kind.RST_STREAM, 0, 1, CANCEL))
            await soon(lambda: site.cancelled == ["gone"])
    await soon(lambda: site.cancelled == ["gone"])


async def test_a_stream_without_a_place_is_refused_until_another_ends_or_is_idle(
    site: Site, stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_PUTS", 2)
    server = new_server()
    ended = asyncio.Event()

    async def hold(call: ServedCall) -> None:
        while messages := await call.read():
            await call.write(*messages)

    ServedCalls().register(server, "test.T", {"Echo": hold}, {})
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    async def one() -> AsyncIterator[bytes]:
        yield b"here"
        await ended.wait()

    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        other: Any = channel
        streams = [other.stream_stream(ECHO)(one()) for _ in range(2)]
        for stream in streams:
            assert await stream.read() == b"here"
        problem = await refused(other.stream_stream(ECHO)(one()).read())
        assert problem.code() == StatusCode.RESOURCE_EXHAUSTED
        monkeypatch.setattr(calls, "PATIENCE_S", 0.0)
        assert await other.stream_stream(ECHO)(one()).read() == b"here"
        done, _ = await asyncio.wait(
            [asyncio.ensure_future(_answer(stream.read())) for stream in streams],
            timeout=PATIENCE_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        (gone,) = done
        assert isinstance(gone.exception(), aio.AioRpcError)
        ended.set()
    await server.stop(0)


async def test_a_request_that_never_comes_holds_up_no_other_client(site: Site, stub: Any) -> None:
    async with raw_client(site.port) as client:
        for number in range(50):
            client.send(frame(Kind.HEADERS, END_HEADERS, 2 * number + 1, client.block(MANY)))
            client.send(frame(Kind.DATA, 0, 2 * number + 1, framed(b"x" * 9_000)[:200]))
        await client.settled()
        found = [message async for message in stub.unary_stream(MANY)(b"3", timeout=PATIENCE_S)]
        assert len(found) == 3


FRAMES = st.builds(
    frame,
    st.sampled_from(Kind),
    st.integers(0, 255),
    st.sampled_from([0, 1, 1, 3, 5, 2**31 - 1]),
    st.binary(max_size=64) | st.just(b"\x83\x86\x44\x0c" + ECHO.encode()),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FRAMES, max_size=12), st.binary(max_size=32))
async def test_no_client_harms_others(site: Site, frames: list[bytes], rest: bytes) -> None:
    faults: list[dict[str, Any]] = []

    def note(_: asyncio.AbstractEventLoop, fault: dict[str, Any]) -> None:
        # gRPC has one poller in a process: it wakes the closed loops of earlier tests, too.
        if "PollerCompletionQueue" not in str(fault.get("handle")):
            faults.append(fault)

    asyncio.get_running_loop().set_exception_handler(note)
    async with raw_client(site.port) as client:
        client.send(*frames, rest)
        await client.take()
    async with raw_client(site.port) as client:
        client.call(1, COUNT, b"fine")
        assert (await client.until_end(1)).messages == [b"4"]
    assert not faults
