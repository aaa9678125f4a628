"""The gateway's gRPC: calls of every kind, flow in both directions, and clients that break the rules."""

import asyncio
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from frontier_harness.raw_calls import (
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    PADDED,
    PREFACE,
    Answer,
    Kind,
    RawClient,
    frame,
    framed,
    raw_client,
    setting,
)
from frontier_harness.waiting import PATIENCE_S, soon
from grpc import StatusCode, aio
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from urlfrontier_gateway.transport import Aborted, Call, Server, connection, only_message
from urlfrontier_gateway.transport import call as call_module
from urlfrontier_gateway.transport.call import MAX_MESSAGE_BYTES, MAX_UNREAD_BYTES
from urlfrontier_gateway.transport.connection import MAX_CALLS, WINDOW_BYTES, Connection

ECHO, COUNT, IDLE, BROKEN, MANY = (f"/test.T/{name}" for name in ("Echo", "Count", "Idle", "Broken", "Many"))
MAX_WINDOW = 2**31 - 1


@dataclass
class Site:
    """A server, and what its calls have seen."""

    server: Server
    port: int
    cancelled: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    sent: int = 0
    begun: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A server with a call of each kind."""
    made = Site(Server(), 0)

    async def echo(call: Call) -> None:
        while messages := await call.read():
            made.sizes.append(len(messages))
            await call.write(*messages)

    async def count(call: Call) -> None:
        total = 0
        while messages := await call.read():
            total += sum(map(len, messages))
        await call.write(str(total).encode())

    async def idle(call: Call) -> None:
        name = (await only_message(call)).decode()
        made.begun += 1
        try:
            await made.go_on.wait()
        except asyncio.CancelledError:
            made.cancelled.append(name)
            raise
        await call.write(b"at last")

    async def broken(call: Call) -> None:
        if message := await only_message(call):
            raise Aborted(f"100% not: {message.decode()}", StatusCode.NOT_FOUND)
        raise ValueError("a bug")

    async def many(call: Call) -> None:
        for _ in range(int(await only_message(call))):
            await call.write(b"x" * 1000)
            made.sent += 1

    calls = {"Echo": echo, "Count": count, "Idle": idle, "Broken": broken, "Many": many}
    made.server.add("test.T", calls)
    made.port = await made.server.listen("127.0.0.1", 0)
    yield made
    await made.server.stop(0)


async def test_grpcs_own_client_makes_calls_of_all_kinds(site: Site) -> None:
    async with aio.insecure_channel(f"127.0.0.1:{site.port}") as channel:
        stub: Any = channel
        messages = [bytes([number % 256]) * (number * 37 % 5_000) for number in range(500)]
        echoes = [stub.stream_stream(ECHO)(iter(messages), timeout=PATIENCE_S) for _ in range(5)]
        for call in echoes:
            assert [message async for message in call] == messages
        big = [b"x" * (3 * 1024 * 1024)] * 2
        assert await stub.stream_unary(COUNT)(iter(big), timeout=PATIENCE_S) == b"6291456"
        found = [message async for message in stub.unary_stream(MANY)(b"3000", timeout=PATIENCE_S)]
        assert (len(found), set(found)) == (3000, {b"x" * 1000})
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.unary_unary(BROKEN)("ä".encode(), timeout=PATIENCE_S)
        assert (refused.value.code(), refused.value.details()) == (StatusCode.NOT_FOUND, "100% not: ä")
        with pytest.raises(aio.AioRpcError) as late:
            await stub.unary_unary(IDLE)(b"late", timeout=0.2)
        assert late.value.code() == StatusCode.DEADLINE_EXCEEDED
        await soon(lambda: site.cancelled == ["late"])
        with pytest.raises(aio.AioRpcError) as packed:
            await stub.unary_unary(COUNT)(b"x" * 1000, timeout=PATIENCE_S, compression=grpc.Compression.Gzip)
        assert packed.value.code() == StatusCode.UNIMPLEMENTED


async def test_a_thousand_calls_go_at_once_and_more_wait_for_them(site: Site) -> None:
    async with aio.insecure_channel(f"127.0.0.1:{site.port}") as channel:
        stub: Any = channel
        calls = [stub.unary_unary(IDLE)(b"", timeout=PATIENCE_S) for _ in range(MAX_CALLS + 50)]
        await soon(lambda: site.begun == MAX_CALLS)
        site.go_on.set()
        assert set(await asyncio.gather(*calls)) == {b"at last"}


async def test_messages_that_arrive_together_are_read_together(site: Site) -> None:
    async with raw_client(site.port) as client:
        client.call(1, ECHO, *[b"x" * 20] * 1000)
        assert len((await client.until_end(1)).messages) == 1000
    assert len(site.sizes) < 10


async def test_a_call_that_fails_is_logged_and_harms_no_other(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    async with raw_client(site.port) as client:
        client.call(1, BROKEN, b"")
        assert (await client.until_end(1)).status == StatusCode.UNKNOWN.value[0]
        client.call(3, COUNT, b"still here")
        assert (await client.until_end(3)).messages == [b"10"]
    assert "a bug" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "more", "message", "status"),
    [
        ("/test.T/None", {}, framed(b""), StatusCode.UNIMPLEMENTED),
        (IDLE, {"grpc-timeout": "50m"}, framed(b""), StatusCode.DEADLINE_EXCEEDED),
        (COUNT, {}, b"\1\0\0\0\1x", StatusCode.UNIMPLEMENTED),
        (COUNT, {}, b"\0\xff\xff\xff\xffx", StatusCode.RESOURCE_EXHAUSTED),
        (COUNT, {}, b"\0\0\0\0\5x", StatusCode.INTERNAL),
        (MANY, {}, b"", StatusCode.INVALID_ARGUMENT),
        (MANY, {}, framed(b"1") * 2, StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_a_call_that_makes_no_sense_has_a_status(
    site: Site, path: str, more: dict[str, str], message: bytes, status: StatusCode
) -> None:
    async with raw_client(site.port) as client:
        client.send(frame(Kind.HEADERS, END_HEADERS, 1, client.block(path, more)))
        client.send(frame(Kind.DATA, END_STREAM, 1, message))
        answer = await client.until_end(1)
        assert answer.status == status.value[0]
        assert answer.headers["grpc-accept-encoding"] == "identity"


async def test_headers_in_pieces_padding_and_single_bytes(site: Site) -> None:
    async with raw_client(site.port) as client:
        block = client.block(ECHO)
        first = b"\3" + b"\0" * 5 + block[:4] + b"\0" * 3
        client.send(frame(Kind.HEADERS, PADDED | HAS_PRIORITY, 1, first))
        client.send(frame(Kind.CONTINUATION, 0, 1, block[4:9]), frame(Kind.CONTINUATION, 0, 1, b""))
        client.send(frame(Kind.CONTINUATION, END_HEADERS, 1, block[9:]))
        for byte in framed(b"in single bytes"):
            client.send(frame(Kind.DATA, PADDED, 1, b"\2" + bytes([byte]) + b"\0\0"))
        client.send(frame(Kind.PRIORITY, 0, 1, b"\0\0\0\0\1"), frame(Kind.PING, 0, 0, b"8 bytes."))
        client.send(frame(Kind.DATA, END_STREAM, 1, b""))
        assert (await client.until_end(1)).messages == [b"in single bytes"]


async def test_the_server_keeps_within_a_window_of_one_byte(site: Site) -> None:
    small = setting(SettingCodes.INITIAL_WINDOW_SIZE, 1)
    async with raw_client(site.port, settings=small) as client:
        client.call(1, MANY, b"1")
        for count in range(1, 100):
            while len(client.answers.setdefault(1, Answer()).data) < count:
                await client.take()
            await client.settled()
            assert len(client.answers[1].data) == count
            client.send(frame(Kind.WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)))
        client.send(frame(Kind.SETTINGS, 0, 0, setting(SettingCodes.INITIAL_WINDOW_SIZE, 5_000)))
        assert (await client.until_end(1)).messages == [b"x" * 1000]


async def test_the_server_uses_the_largest_windows(site: Site) -> None:
    large = setting(SettingCodes.INITIAL_WINDOW_SIZE, MAX_WINDOW)
    async with raw_client(site.port, settings=large) as client:
        client.send(frame(Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", MAX_WINDOW - 65_535)))
        client.call(1, MANY, b"5000")
        assert len((await client.until_end(1)).messages) == 5000


async def test_a_client_that_takes_nothing_holds_up_only_its_own_call(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, pause = asyncio.Event(), Connection.pause_writing

    def note_pause(self: Connection) -> None:
        pause(self)
        paused.set()

    monkeypatch.setattr(Connection, "pause_writing", note_pause)
    async with raw_client(site.port) as client, raw_client(site.port) as other:
        large = setting(SettingCodes.INITIAL_WINDOW_SIZE, MAX_WINDOW)
        client.send(frame(Kind.SETTINGS, 0, 0, large))
        client.send(frame(Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", MAX_WINDOW - 65_535)))
        await client.settled()
        client.pause()
        client.call(1, MANY, b"40000")
        await asyncio.wait_for(paused.wait(), PATIENCE_S)
        client.call(3, IDLE, b"")
        for number in range(200):  # turns enough to send the rest
            other.call(2 * number + 1, COUNT, b"fine")
            assert (await other.until_end(2 * number + 1)).messages == [b"4"]
        assert site.sent < 20_000, "the rest waits for the client"
        assert not site.begun, "what the client sends waits, too"
        client.resume()
        site.go_on.set()
        assert len((await client.until_end(1)).messages) == 40_000
        assert (await client.until_end(3)).messages == [b"at last"]


async def test_a_client_may_send_only_so_much_ahead_of_what_is_read(site: Site) -> None:
    async with raw_client(site.port) as client:
        client.send(frame(Kind.HEADERS, END_HEADERS, 1, client.block(IDLE)))
        client.send(frame(Kind.DATA, 0, 1, framed(b"")))
        await client.settled()
        sent, piece = 5, framed(b"x" * 10_000)
        while sent + len(piece) <= WINDOW_BYTES + client.credit.get(1, 0):
            client.send(frame(Kind.DATA, 0, 1, piece))
            sent += len(piece)
            await client.settled()
        assert MAX_UNREAD_BYTES <= sent <= MAX_UNREAD_BYTES + 2 * WINDOW_BYTES
        client.call(3, COUNT, b"not held up")
        assert (await client.until_end(3)).messages == [b"11"]
        client.send(frame(Kind.DATA, 0, 1, b"x" * 11_000))
        assert await client.until_closed() == ErrorCodes.FLOW_CONTROL_ERROR
        await soon(lambda: site.cancelled)


async def test_a_message_may_be_larger_than_the_window(site: Site) -> None:
    async with raw_client(site.port) as client:
        client.send(frame(Kind.HEADERS, END_HEADERS, 1, client.block(COUNT)))
        text, at = framed(b"x" * MAX_MESSAGE_BYTES), 0
        while at < len(text):
            while at + 16_384 > WINDOW_BYTES + client.credit.get(1, 0):
                await client.take()
            client.send(frame(Kind.DATA, 0, 1, text[at : at + 16_384]))
            at += 16_384
        client.send(frame(Kind.DATA, END_STREAM, 1, b""))
        assert (await client.until_end(1)).messages == [str(MAX_MESSAGE_BYTES).encode()]


async def test_a_call_that_ends_unread_gives_its_window_back_to_the_connection(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "MAX_UNREAD_BYTES", 0)
    async with raw_client(site.port) as client:
        await client.settled()
        before = client.credit[0]
        for number in range(1, 200, 2):
            client.send(frame(Kind.HEADERS, END_HEADERS, number, client.block(IDLE)))
            for _ in range(16):
                client.send(frame(Kind.DATA, 0, number, framed(bytes(16_000))))
            client.send(frame(Kind.RST_STREAM, 0, number, struct.pack(">I", ErrorCodes.CANCEL)))
            await client.settled()
        assert client.credit[0] > before


async def test_a_client_need_not_send_the_rest_of_a_call_that_has_ended(site: Site) -> None:
    async with raw_client(site.port) as client:
        client.send(frame(Kind.HEADERS, END_HEADERS, 1, client.block(BROKEN)))
        client.send(frame(Kind.DATA, 0, 1, framed(b"it")))
        answer = await client.until_end(1)
        assert answer.status == StatusCode.NOT_FOUND.value[0]
        while answer.reset is None:
            await client.take()
        assert answer.reset == ErrorCodes.NO_ERROR


async def test_a_call_that_is_reset_is_cancelled(site: Site) -> None:
    async with raw_client(site.port) as client:
        client.call(1, IDLE, b"reset")
        await client.settled()
        client.send(frame(Kind.RST_STREAM, 0, 1, struct.pack(">I", ErrorCodes.CANCEL)))
        await soon(lambda: site.cancelled == ["reset"])
        client.send(frame(Kind.HEADERS, END_HEADERS, 3, client.block(ECHO)))
        client.send(frame(Kind.DATA, 0, 3, framed(b"whole") + framed(b"in part")[:7]))
        client.send(frame(Kind.RST_STREAM, 0, 3, struct.pack(">I", ErrorCodes.CANCEL)))
        client.call(5, IDLE, b"gone")
        await client.settled()
    await soon(lambda: site.cancelled == ["reset", "gone"])


def reset_calls(client: RawClient, numbers: Iterable[int]) -> None:
    """Make calls, and reset each at once."""
    for number in numbers:
        client.call(2 * number + 1, IDLE, b"")
        client.send(frame(Kind.RST_STREAM, 0, 2 * number + 1, struct.pack(">I", ErrorCodes.CANCEL)))


async def test_a_client_that_resets_calls_without_end_is_sent_away(site: Site) -> None:
    async with raw_client(site.port) as client:
        reset_calls(client, range(MAX_CALLS))  # it may give up all of its calls
        client.call(2 * MAX_CALLS + 1, COUNT, b"fine")
        assert (await client.until_end(2 * MAX_CALLS + 1)).messages == [b"4"]
        reset_calls(client, [MAX_CALLS + 1])
        assert await client.until_closed() == ErrorCodes.ENHANCE_YOUR_CALM


async def test_a_client_may_reset_many_calls_in_a_longer_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RESETS_WITHIN_S", 0.0)
    async with raw_client(site.port) as client:
        reset_calls(client, range(3 * MAX_CALLS))
        await client.settled()
        assert client.gone_away is None


async def test_too_many_calls_end_the_connection(site: Site) -> None:
    async with raw_client(site.port) as client:
        for number in range(MAX_CALLS + 1):
            client.call(2 * number + 1, IDLE, b"")
        assert await client.until_closed() == ErrorCodes.PROTOCOL_ERROR
    async with raw_client(site.port) as client:
        client.call(1, COUNT, b"fine")
        assert (await client.until_end(1)).messages == [b"4"]


async def test_calls_go_on_after_the_clients_goaway(site: Site) -> None:
    async with raw_client(site.port) as client:
        client.call(1, IDLE, b"")
        client.send(frame(Kind.GOAWAY, 0, 0, bytes(8)))
        await client.settled()
        site.go_on.set()
        assert (await client.until_end(1)).messages == [b"at last"]


async def test_a_stop_lets_calls_end_and_cancels_the_rest(site: Site) -> None:
    async with raw_client(site.port) as client:
        client.call(1, IDLE, b"slow")
        client.send(frame(Kind.HEADERS, END_HEADERS, 3, client.block(ECHO)))
        await client.settled()
        stopping = asyncio.create_task(site.server.stop(0.2))
        while client.gone_away is None:
            await client.take()
        client.call(5, COUNT, b"")
        assert (await client.until_end(5)).reset == ErrorCodes.REFUSED_STREAM
        client.send(frame(Kind.DATA, END_STREAM, 3, framed(b"under way")))
        assert (await client.until_end(3)).messages == [b"under way"]
        assert (await client.until_end(1)).status == StatusCode.UNAVAILABLE.value[0]
        await stopping
        assert await client.until_closed() == ErrorCodes.NO_ERROR


async def test_a_connection_without_calls_is_closed_after_a_while(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    async with raw_client(site.port) as client:
        client.call(1, IDLE, b"")
        assert await asyncio.wait_for(reader.read(), PATIENCE_S), "the end, after some frames"
        writer.close()
        site.go_on.set()
        assert (await client.until_end(1)).messages == [b"at last"]
        assert await client.until_closed() == ErrorCodes.NO_ERROR


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([frame(Kind.DATA, 0, 1, bytes(16_385))], ErrorCodes.FRAME_SIZE_ERROR),
        ([frame(Kind.DATA, 0, 1, b"x")], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.HEADERS, END_HEADERS, 2, b"\x82")], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.HEADERS, END_HEADERS, 1, b"\x82")], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff")], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.HEADERS, END_HEADERS | PADDED, 1, b"\xffx")], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.HEADERS, 0, 1, b"x"), frame(Kind.PING, 0, 0, b"8 bytes.")], ErrorCodes.PROTOCOL_ERROR),
        (
            [frame(Kind.HEADERS, 0, 1, b"x"), *[frame(Kind.CONTINUATION, 0, 1, b"")] * 100],
            ErrorCodes.PROTOCOL_ERROR,
        ),
        (
            [frame(Kind.HEADERS, END_HEADERS, 1, b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4_000 + b"\xbe" * 20)],
            ErrorCodes.ENHANCE_YOUR_CALM,
        ),
        ([frame(Kind.CONTINUATION, 0, 1, b"x")], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.SETTINGS, 0, 0, b"x")], ErrorCodes.FRAME_SIZE_ERROR),
        (
            [frame(Kind.SETTINGS, 0, 0, setting(SettingCodes.INITIAL_WINDOW_SIZE, 2**31))],
            ErrorCodes.FLOW_CONTROL_ERROR,
        ),
        ([frame(Kind.WINDOW_UPDATE, 0, 0, b"x")], ErrorCodes.FRAME_SIZE_ERROR),
        ([frame(Kind.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff")], ErrorCodes.FLOW_CONTROL_ERROR),
        ([frame(Kind.PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2")], ErrorCodes.PROTOCOL_ERROR),
    ],
)
async def test_a_client_that_breaks_the_rules_is_sent_away(
    site: Site, frames: list[bytes], code: ErrorCodes
) -> None:
    async with raw_client(site.port) as client:
        client.send(*frames)
        assert await client.until_closed() == code


async def test_a_client_that_speaks_something_else_is_sent_away(site: Site) -> None:
    async with raw_client(site.port, preface=b"GET / HTTP/1.1\r\n\r\n") as client:
        assert await client.until_closed() is None
    async with raw_client(site.port, preface=PREFACE[:10]):
        pass  # and goes


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
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with raw_client(site.port) as client:
        client.send(*frames, rest)
        await client.take()
    async with raw_client(site.port) as client:
        client.call(1, COUNT, b"fine")
        assert (await client.until_end(1)).messages == [b"4"]
    assert not faults
