"""The first status of a call that has ended, of gRPC for asyncio.

If a server refuses a stream while a message is being sent, gRPC may replace the server's status, which it has
received already, by its own INTERNAL (grpc/grpc issue 36066). So this keeps the first one.
"""

from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar, cast

import grpc
from grpc import aio

# gRPC's message if sending failed for an unknown reason.
_NOTHING_KNOWN: Final = "Internal error from Core"

_T = TypeVar("_T")


class EndedCall(Protocol):
    """The parts of an ended call that are read here."""

    async def code(self) -> grpc.StatusCode: ...
    async def details(self) -> str: ...
    async def initial_metadata(self) -> aio.Metadata: ...
    async def trailing_metadata(self) -> aio.Metadata: ...


class FirstStatus:
    """Notes how a call ends: give `note` to its `add_done_callback`."""

    def __init__(self) -> None:
        self._error: aio.AioRpcError | None = None

    def note(self, call: EndedCall) -> None:
        """gRPC calls this when a status comes; the first one counts."""
        if self._error is None:
            self._error = aio.AioRpcError(
                _now(call.code()),
                _now(call.initial_metadata()),
                _now(call.trailing_metadata()),
                _now(call.details()),
            )

    def behind(self, error: aio.AioRpcError) -> aio.AioRpcError:
        """The error to raise: the one that `error` replaced, if it did."""
        first = self._error
        if first is None or first.code() is grpc.StatusCode.OK or not _is_unexplained(error):
            return error
        return first


def _is_unexplained(error: aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.INTERNAL and error.details() == _NOTHING_KNOWN


def _now(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """The result of a coroutine of an ended call, which has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(_T, end.value)
    coroutine.close()
    raise RuntimeError("gRPC reported the end of a call too early")
