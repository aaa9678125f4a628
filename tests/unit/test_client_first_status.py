"""A server's refusal of a stream is told, also where gRPC for asyncio replaces it by an error of its own."""

import asyncio
from collections.abc import Callable, Generator

import grpc
import pytest
from client_doubles.fake_frontier import Refusal
from grpc.aio import AioRpcError, Metadata

from toehold_client import AsyncFrontierClient
from toehold_client.aio.first_status import FirstStatus
from toehold_client.errors import CrawlExists, from_rpc_error
from toehold_client.rpc.uploads import SeedBatches

REFUSED = Refusal(grpc.StatusCode.ALREADY_EXISTS, "there is a crawl 'c'", "CRAWL_EXISTS")
LOST = Refusal(grpc.StatusCode.INTERNAL, "Internal error from Core")
BROKEN = Refusal(grpc.StatusCode.INTERNAL, "the store is gone")
OK = Refusal(grpc.StatusCode.OK, "")


class Call:
    """A call that has ended."""

    def __init__(self, end: Refusal) -> None:
        self._end = end

    async def code(self) -> grpc.StatusCode:
        return self._end.code

    async def details(self) -> str:
        return self._end.message

    async def initial_metadata(self) -> Metadata:
        return Metadata()

    async def trailing_metadata(self) -> Metadata:
        return Metadata(*self._end.trailer())


class CallThatGoesOn(Call):
    """A call whose code has to be waited for."""

    async def code(self) -> grpc.StatusCode:
        await asyncio.sleep(0)
        return self._end.code


def _raised(end: Refusal) -> AioRpcError:
    return AioRpcError(end.code, Metadata(), Metadata(*end.trailer()), end.message)


def _noted(*ends: Refusal) -> FirstStatus:
    status = FirstStatus()
    for end in ends:
        status.note(Call(end))
    return status


def test_a_refusal_that_grpc_replaced_by_its_own_error_is_told() -> None:
    error = _noted(REFUSED, LOST).behind(_raised(LOST))
    told = from_rpc_error(error, address="here:7707", timeout_s=1)
    assert isinstance(told, CrawlExists)
    assert str(told) == "there is a crawl 'c'"


@pytest.mark.parametrize(
    ("noted", "raised"),
    [
        ((), LOST),
        ((OK, LOST), LOST),
        ((LOST, REFUSED), REFUSED),
        ((REFUSED,), BROKEN),
        ((REFUSED,), REFUSED),
    ],
    ids=["nothing came", "an answer came", "the refusal came last", "an error with a reason", "the refusal"],
)
def test_any_other_error_is_told_as_it_was_raised(noted: tuple[Refusal, ...], raised: Refusal) -> None:
    error = _raised(raised)
    assert _noted(*noted).behind(error) is error


def test_a_call_that_has_not_ended_is_no_status() -> None:
    with pytest.raises(RuntimeError, match="the end of a call too early"):
        FirstStatus().note(CallThatGoesOn(REFUSED))


class ReplacedCall(Call):
    """A stream that was refused, and whose refusal gRPC replaces before anybody has read it."""

    def add_done_callback(self, callback: Callable[[Call], None]) -> None:
        callback(self)
        self._end = LOST
        callback(self)

    def __await__(self) -> Generator[None, None, None]:
        yield
        raise _raised(LOST)


def test_a_client_tells_the_refusal_of_a_stream_whatever_grpc_puts_in_its_place() -> None:
    async def add_seeds() -> None:
        async with AsyncFrontierClient("127.0.0.1:1") as client:
            stream = SeedBatches("c", ["http://www.example.com/"])
            await client._upload(lambda stubs: lambda *_, **__: ReplacedCall(REFUSED), stream, 1.0)  # type: ignore[arg-type, return-value]

    with pytest.raises(CrawlExists, match="there is a crawl 'c'"):
        asyncio.run(add_seeds())
