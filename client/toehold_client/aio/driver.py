"""How the client for asyncio makes its calls: tries, rests, pages, streams, uploads and closing."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message
from grpc import aio

from toehold_client.errors import ToeholdError, unsendable
from toehold_client.rpc.calls import Attempt, Page, Procedure, Rest, Stubs
from toehold_client.rpc.channel import CHANNEL_OPTIONS
from toehold_client.rpc.connection import Connection, stubs_of
from toehold_client.rpc.streams import Following, Q, R
from toehold_client.rpc.uploads import Upload

from .first_status import FirstStatus
from .streams import AsyncStream, this_task_is_cancelled

_T = TypeVar("_T")
_P = TypeVar("_P", bound=Page)
_Q = TypeVar("_Q", bound=Message)
_R = TypeVar("_R", bound=Message)


class AsyncDriver(Connection):
    """The connection of a client for asyncio."""

    def __init__(
        self, address: str, *, timeout_s: float = 30.0, patience_s: float = 0.0, operator: str = ""
    ) -> None:
        super().__init__(address, timeout_s=timeout_s, patience_s=patience_s, operator=operator)
        self._channel = aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stubs = stubs_of(self._channel)
        self._streams: weakref.WeakSet[AsyncStream[Any, Any]] = weakref.WeakSet()
        self._closed = False

    async def close(self) -> None:
        """Ends all streams and the connection. Calls that are under way fail: ClientClosed."""
        self._closed = True
        for stream in list(self._streams):
            await stream.close()
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    async def _run(self, procedure: Procedure[_T]) -> _T:
        try:
            step = next(procedure)
            while True:
                if isinstance(step, Rest):
                    await asyncio.sleep(step.seconds)
                    step = next(procedure)
                else:
                    answer = await self._attempt(step)
                    step = (
                        procedure.throw(answer)
                        if isinstance(answer, ToeholdError)
                        else procedure.send(answer)
                    )
        except StopIteration as end:
            return cast(_T, end.value)
        except UnicodeEncodeError as error:
            unsendable(error)

    async def _attempt(self, attempt: Attempt[_Q, _R]) -> _R | ToeholdError:
        timeout_s = self._timeout_s + attempt.wait_s
        call = cast(aio.UnaryUnaryMultiCallable[_Q, _R], attempt.pick(self._stubs))
        try:
            return await call(attempt.request, timeout=timeout_s, metadata=self._metadata)
        except aio.AioRpcError as error:
            failure = self._explained(error, timeout_s)
            return self._closed_error() if self._closed else failure
        except (aio.UsageError, asyncio.CancelledError):  # what gRPC raises on a closed channel
            if not self._closed or this_task_is_cancelled():
                raise
            return self._closed_error()

    async def _pages(self, page: Callable[[str], Procedure[_P]]) -> AsyncIterator[_P]:
        token = ""
        while True:
            answer = await self._run(page(token))
            yield answer
            token = answer.next_page_token
            if not token:
                return

    async def _upload(
        self,
        pick: Callable[[Stubs], grpc.StreamUnaryMultiCallable[_Q, _R]],
        upload: Upload[_Q],
        timeout_s: float,
    ) -> _R:
        start = cast(aio.StreamUnaryMultiCallable[_Q, _R], pick(self._stubs))
        status = FirstStatus()
        try:
            call = start(iter(upload), timeout=timeout_s, metadata=self._metadata)
            call.add_done_callback(status.note)
            answer = await call
        except aio.AioRpcError as error:
            upload.raise_failure()
            self._check_open()
            raise self._explained(status.behind(error), timeout_s) from None
        except (aio.UsageError, asyncio.CancelledError):  # what gRPC raises on a closed channel
            if not this_task_is_cancelled():
                self._check_open()
            raise
        upload.raise_failure()
        return answer

    def _stream(
        self,
        pick: Callable[[Stubs], grpc.UnaryStreamMultiCallable[Q, R]],
        request: Q,
        *,
        what: str,
        head: str = "",
        timeout_s: float | None,
        reconnect_s: float,
    ) -> AsyncStream[Q, R]:
        def connect(request: Q, timeout_s: float) -> aio.UnaryStreamCall[Q, R]:
            self._check_open()
            call = cast(aio.UnaryStreamMultiCallable[Q, R], pick(self._stubs))
            return call(request, timeout=timeout_s, metadata=self._metadata)

        following: Following[Q, R] = self._following(
            request, what=what, head=head, timeout_s=timeout_s, reconnect_s=reconnect_s
        )
        stream = AsyncStream(following, connect)
        self._streams.add(stream)
        return stream
