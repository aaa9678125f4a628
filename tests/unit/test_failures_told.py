"""A call that fails: its caller gets a status, and the log has defects only."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc
import pytest
from structlog.testing import capture_logs

from frontier_server.core.rows.errors import InvalidRequest
from frontier_server.service import answers, arrivals
from toehold.frontier.v1 import frontier_pb2

METHOD = frontier_pb2.DESCRIPTOR.services_by_name["FrontierService"].methods_by_name["Schedule"]


class Caller:
    """A call's context. `has_left` means that the connection is gone, so that no status can be sent."""

    def __init__(self, has_left: bool = False) -> None:
        self.codes: list[grpc.StatusCode] = []
        self._has_left = has_left

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, *_: Any) -> NoReturn:
        """As gRPC's: a second call is an error."""
        if self.codes:
            raise grpc.aio.UsageError("Abort already called!")
        self.codes.append(code)
        raise grpc.aio.InternalError("the connection is gone") if self._has_left else grpc.aio.AbortError


def outcome(caller: Caller, behaviour: Callable[[object, Any], Awaitable[NoReturn]]) -> type[BaseException]:
    """The exception with which a call ends that behaves so."""
    telling = arrivals._telling(METHOD, behaviour)
    with pytest.raises(Exception) as found:
        asyncio.run(telling(None, caller))
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

    async def fails(_: object, __: Any) -> NoReturn:
        raise problem

    with capture_logs() as log:
        assert outcome(caller, fails) is grpc.aio.AbortError
    assert caller.codes == [code]
    assert [line["event"] for line in log] == logged


def test_a_refusal_that_its_caller_no_longer_hears_is_no_defect() -> None:
    """Else the log of a frontier has an error for each import that is broken off."""
    caller = Caller(has_left=True)

    async def refused_within(_: object, context: Any) -> NoReturn:
        await answers.abort(context, InvalidRequest("the stream ended early"))

    with capture_logs() as log:
        assert outcome(caller, refused_within) is grpc.aio.InternalError
    assert len(caller.codes) == 1
    assert log == []
