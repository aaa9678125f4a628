"""The connection for asyncio: one call, one stream, one upload, a rest, and the end of all of them."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message
from grpc import aio

from toehold_client.credentials import Credentials
from toehold_client.errors import ToeholdError
from toehold_client.rpc.channel import CHANNEL_OPTIONS
from toehold_client.rpc.channels import Channels, UsedChannel
from toehold_client.rpc.connection import Connection
from toehold_client.rpc.contract import Stubs
from toehold_client.rpc.request_ids import Metadata, request_id_in
from toehold_client.rpc.streams import Following, Q, R
from toehold_client.rpc.uploads import Upload

from .first_status import FirstStatus
from .streams import AsyncStream, this_task_is_cancelled

_Q = TypeVar("_Q")
_M = TypeVar("_M", bound=Message)
_R = TypeVar("_R")


class AsyncDriver(Connection):
    """The connection of a client for asyncio."""

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = 30.0,
        patience_s: float = 0.0,
        operator: str = "",
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(
            address,
            timeout_s=timeout_s,
            patience_s=patience_s,
            operator=operator,
            credentials=credentials,
        )
        self._channels = Channels(self._opened(self._security.channel_credentials()))
        self._closing: set[asyncio.Task[None]] = set()
        self._streams: weakref.WeakSet[AsyncStream[Any, Any]] = weakref.WeakSet()
        self._closed = False

    async def close(self) -> None:
        """Ends all streams and the connection. Calls that are under way fail: ClientClosed."""
        self._closed = True
        for stream in list(self._streams):
            await stream.close()
        for channel in self._channels.all():
            await channel.close()
        await asyncio.gather(*self._closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    def _opened(self, credentials: grpc.ChannelCredentials | None) -> aio.Channel:
        if credentials is None:
            return aio.insecure_channel(self.address, options=CHANNEL_OPTIONS)
        return aio.secure_channel(self.address, credentials, options=CHANNEL_OPTIONS)

    @contextmanager
    def _used_channel(self) -> Iterator[UsedChannel[aio.Channel]]:
        """A context for a call: the channel with the present credentials."""
        self._check_open()
        if (renewed := self._security.renewed()) is not None:
            self._channels.renew(self._opened(renewed))
        for channel in self._channels.idle():
            closing = asyncio.create_task(channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        used = self._channels.present
        used.begin()
        try:
            yield used
        finally:
            used.end()

    async def _reason(self, error: aio.AioRpcError, timeout_s: float, metadata: Metadata) -> ToeholdError:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return self._explained(error, timeout_s, metadata)
        # It may connect to find out.
        return await asyncio.to_thread(self._explained, error, timeout_s, metadata)

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _attempt(
        self,
        pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]],
        request: _Q,
        wait_s: float = 0.0,
    ) -> _R:
        """Makes one call; its deadline is the client's own and `wait_s` more."""
        timeout_s, metadata = self._timeout_s + wait_s, self._call_metadata()
        try:
            with self._used_channel() as used:
                call = cast(aio.UnaryUnaryMultiCallable[_Q, _R], pick(used.stubs))
                return await call(request, timeout=timeout_s, metadata=metadata)
        except aio.AioRpcError as error:
            self._check_open()
            raise await self._reason(error, timeout_s, metadata) from None
        except (aio.UsageError, asyncio.CancelledError):  # what gRPC raises on a closed channel
            if not this_task_is_cancelled():
                self._check_open()
            raise

    async def _upload(
        self,
        pick: Callable[[Stubs], grpc.StreamUnaryMultiCallable[_M, _R]],
        upload: Upload[_M],
        timeout_s: float,
    ) -> _R:
        status, metadata = FirstStatus(), self._call_metadata()
        try:
            with self._used_channel() as used:
                start = cast(aio.StreamUnaryMultiCallable[_M, _R], pick(used.stubs))
                call = start(iter(upload), timeout=timeout_s, metadata=metadata)
                call.add_done_callback(status.note)
                answer = await call
        except aio.AioRpcError as error:
            upload.raise_failure()
            self._check_open()
            raise await self._reason(status.behind(error), timeout_s, metadata) from None
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
        metadata = self._call_metadata()
        identity = request_id_in(metadata)

        def connect(request: Q, timeout_s: float) -> aio.UnaryStreamCall[Q, R]:
            with self._used_channel() as used:
                start = cast(aio.UnaryStreamMultiCallable[Q, R], pick(used.stubs))
                call = start(request, timeout=timeout_s, metadata=self._call_metadata(identity))
                used.keep(call)
                return call

        following: Following[Q, R] = self._following(
            request, metadata, what=what, head=head, timeout_s=timeout_s, reconnect_s=reconnect_s
        )
        stream = AsyncStream(following, connect)
        self._streams.add(stream)
        return stream
