"""A call that fails: its caller gets a status, and the log has defects only."""

import asyncio
from typing import Any, NoReturn

import grpc
import pytest
from structlog.testing import capture_logs

from frontier_server.core.errors import InvalidRequest
from frontier_server.service import answering, arrivals


class Caller:
    """A call's context. `has_left` means that the connection is gone, so that no status can be sent."""

    def __init__(self, has_left: bool = False) -> None:
        self.codes: list[grpc.StatusCode] = []
        self._has_left = has_left

    async def abort(self, code: grpc.StatusCode, *_: Any) -> NoReturn:
        """As gRPC's: a second call is an error."""
        if self.codes:
            raise grpc.aio.UsageError("Abort already called!")
        self.codes.append(code)
        raise grpc.aio.InternalError("the connection is gone") if self._has_left else grpc.aio.AbortError


def outcome(caller: Caller, problem: Exception) -> type[BaseException]:
    """The exception with which a call ends that fails with `problem`."""

    async def call() -> None:
        async with arrivals._failures_told(caller):  # type: ignore[arg-type]
            raise problem

    with pytest.raises(Exception) as found:
        asyncio.run(call())
    return found.type


@pytest.mark.parametrize(
    ("problem", "code", "logged"),
    [
        (InvalidRequest("no"), grpc.StatusCode.INVALID_ARGUMENT, []),
        (ZeroDivisionError(), grpc.StatusCode.INTERNAL, ["call_failed"]),
    ],
)
def test_refusals_and_defects_become_statuses(
    problem: Exception, code: grpc.StatusCode, logged: list[str]
) -> None:
    caller = Caller()
    with capture_logs() as log:
        assert outcome(caller, problem) is grpc.aio.AbortError
    assert caller.codes == [code]
    assert [line["event"] for line in log] == logged


def test_a_refusal_that_its_caller_no_longer_hears_is_no_defect() -> None:
    """Else the log of a frontier has an error for each import that is broken off."""
    caller = Caller(has_left=True)

    async def refused_within() -> None:
        async with arrivals._failures_told(caller):  # type: ignore[arg-type]
            await answering.abort(caller, InvalidRequest("the stream ended early"))  # type: ignore[arg-type]

    with capture_logs() as log, pytest.raises(grpc.aio.InternalError):
        asyncio.run(refused_within())
    assert len(caller.codes) == 1
    assert log == []
