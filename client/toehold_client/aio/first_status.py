"""The status that a call of gRPC for asyncio ended with first.

Where a server refuses a stream while a message is being sent, gRPC may put its own INTERNAL in place of the
server's status, which it had received before (grpc/grpc issue 36066). So the first one is kept.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar, cast

import grpc
from grpc import aio

# What gRPC says where a message could not be sent and nothing is known of why.
_NOTHING_KNOWN: Final = "Internal error from Core"

_T = TypeVar("_T")


class EndedCall(Protocol):
    """What is read of a call that has ended."""

    async def code(self) -> grpc.StatusCode: ...
    async def details(self) -> str: ...
    async def initial_metadata(self) -> aio.Metadata: ...
    async def trailing_metadata(self) -> aio.Metadata: ...


class FirstStatus:
    """Notes how a call ends: give `note` to its `add_done_callback`."""

    def __init__(self) -> None:
        self._error: aio.AioRpcError | None = None

    def note(self, call: EndedCall) -> None:
        """Called by gRPC at the moment that a status comes; the first one counts."""
        if self._error is None:
            self._error = aio.AioRpcError(
                _now(call.code()),
                _now(call.initial_metadata()),
                _now(call.trailing_metadata()),
                _now(call.details()),
            )

    def behind(self, error: aio.AioRpcError) -> aio.AioRpcError:
        """The error to tell: the one that `error` took the place of, if it did so."""
        first = self._error
        if first is None or first.code() is grpc.StatusCode.OK or not _is_unexplained(error):
            return error
        return first


def _is_unexplained(error: aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.INTERNAL and error.details() == _NOTHING_KNOWN


def _now(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """The result of a coroutine that has nothing to wait for, as what is read of an ended call has not."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(_T, end.value)
    coroutine.close()
    raise RuntimeError("gRPC told that a call had ended before it had")
