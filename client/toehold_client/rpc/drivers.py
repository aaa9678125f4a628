"""How the clients drive their calls: tries, rests, pages, streams, uploads and closing; blocking, and for
asyncio.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message
from grpc import aio

from toehold.frontier.v1.admin_pb2_grpc import FrontierAdminServiceStub
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub
from toehold.node.v1.node_pb2_grpc import NodeServiceStub
from toehold_client.errors import FRONTIER, ClientClosed, ToeholdError, from_rpc_error, unsendable

from .calls import Attempt, Page, Procedure, Rest, Stubs
from .channel import CHANNEL_OPTIONS, checked_address, operator_metadata
from .first_status import FirstStatus
from .retry import Patience
from .streams import AsyncStream, Following, Q, R, Stream, this_task_is_cancelled
from .uploads import Upload

SEEDS_TIMEOUT_S = 3600.0
"""The deadline of a whole stream of seeds, unless another is given."""

IMPORT_TIMEOUT_S = 86_400.0
"""The deadline of a whole import, unless another is given."""

RECONNECT_S = 60.0
"""How long a stream that was connected once tries to reconnect, unless another time is given."""

_T = TypeVar("_T")
_P = TypeVar("_P", bound=Page)
_Q = TypeVar("_Q", bound=Message)
_R = TypeVar("_R", bound=Message)


def _stubs(channel: grpc.Channel | aio.Channel) -> Stubs:
    return Stubs(FrontierServiceStub(channel), FrontierAdminServiceStub(channel), NodeServiceStub(channel))


class Driver:
    """The connection of a blocking client."""

    _server = FRONTIER

    def __init__(
        self, address: str, *, timeout_s: float = 30.0, patience_s: float = 0.0, operator: str = ""
    ) -> None:
        self.address = checked_address(address, self._server)
        self._metadata = operator_metadata(operator)
        self._timeout_s = timeout_s
        self._patience = Patience(patience_s)
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stubs = _stubs(self._channel)
        self._streams: weakref.WeakSet[Stream[Any, Any]] = weakref.WeakSet()
        self._closed = threading.Event()

    def close(self) -> None:
        """Ends all streams and the connection. Calls that other threads wait for fail: ClientClosed."""
        self._closed.set()
        for stream in list(self._streams):
            stream.close()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise self._closed_error()

    def _closed_error(self) -> ClientClosed:
        return ClientClosed(f"the client of the {self._server} at {self.address} has been closed")

    def _explained(self, error: grpc.RpcError, timeout_s: float) -> ToeholdError:
        return from_rpc_error(error, address=self.address, timeout_s=timeout_s, server=self._server)

    def _run(self, procedure: Procedure[_T]) -> _T:
        try:
            step = next(procedure)
            while True:
                if isinstance(step, Rest):
                    self._closed.wait(step.seconds)
                    step = next(procedure)
                else:
                    answer = self._attempt(step)
                    step = (
                        procedure.throw(answer)
                        if isinstance(answer, ToeholdError)
                        else procedure.send(answer)
                    )
        except StopIteration as end:
            return cast(_T, end.value)
        except UnicodeEncodeError as error:
            unsendable(error)

    def _attempt(self, attempt: Attempt[_Q, _R]) -> _R | ToeholdError:
        timeout_s = self._timeout_s + attempt.wait_s
        try:
            return attempt.pick(self._stubs)(attempt.request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            failure = self._explained(error, timeout_s)
            return self._closed_error() if self._closed.is_set() else failure
        except ValueError:  # what gRPC raises on a closed channel
            if not self._closed.is_set():
                raise
            return self._closed_error()

    def _pages(self, page: Callable[[str], Procedure[_P]]) -> Iterator[_P]:
        token = ""
        while True:
            answer = self._run(page(token))
            yield answer
            token = answer.next_page_token
            if not token:
                return

    def _upload(
        self,
        pick: Callable[[Stubs], grpc.StreamUnaryMultiCallable[_Q, _R]],
        upload: Upload[_Q],
        timeout_s: float,
    ) -> _R:
        try:
            answer = pick(self._stubs)(iter(upload), timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            upload.raise_failure()
            self._check_open()
            raise self._explained(error, timeout_s) from None
        except ValueError:  # what gRPC raises on a closed channel
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
    ) -> Stream[Q, R]:
        def connect(request: Q, timeout_s: float) -> grpc._CallIterator[R]:
            self._check_open()
            return pick(self._stubs)(request, timeout=timeout_s, metadata=self._metadata)

        following: Following[Q, R] = Following(
            request,
            what=what,
            head=head,
            address=self.address,
            timeout_s=timeout_s,
            first=self._patience,
            later=Patience(reconnect_s),
        )
        stream = Stream(following, connect)
        self._streams.add(stream)
        return stream


class AsyncDriver:
    """The connection of a client for asyncio."""

    _server = FRONTIER

    def __init__(
        self, address: str, *, timeout_s: float = 30.0, patience_s: float = 0.0, operator: str = ""
    ) -> None:
        self.address = checked_address(address, self._server)
        self._metadata = operator_metadata(operator)
        self._timeout_s = timeout_s
        self._patience = Patience(patience_s)
        self._channel = aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stubs = _stubs(self._channel)
        self._streams: weakref.WeakSet[AsyncStream[Any, Any]] = weakref.WeakSet()
        self._closed = False

    async def close(self) -> None:
        """See FrontierClient.close."""
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

    def _closed_error(self) -> ClientClosed:
        return ClientClosed(f"the client of the {self._server} at {self.address} has been closed")

    def _explained(self, error: grpc.RpcError, timeout_s: float) -> ToeholdError:
        return from_rpc_error(error, address=self.address, timeout_s=timeout_s, server=self._server)

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

        following: Following[Q, R] = Following(
            request,
            what=what,
            head=head,
            address=self.address,
            timeout_s=timeout_s,
            first=self._patience,
            later=Patience(reconnect_s),
        )
        stream = AsyncStream(following, connect)
        self._streams.add(stream)
        return stream
