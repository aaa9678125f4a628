"""Streams from a frontier for asyncio; see `rpc.streams`."""

import asyncio
from collections.abc import Callable
from typing import Generic, Self, TypeAlias, cast

from grpc import aio

from toehold.frontier.v1 import admin_pb2, frontier_pb2
from toehold_client.rpc.streams import Following, Q, R


class AsyncStream(Generic[Q, R]):
    """An async iterator over the messages of a stream.

    `close` ends it; so does the end of its context.
    """

    def __init__(
        self, following: Following[Q, R], connect: Callable[[Q, float], aio.UnaryStreamCall[Q, R]]
    ) -> None:
        self._following: Following[Q, R] = following
        self._connect: Callable[[Q, float], aio.UnaryStreamCall[Q, R]] = connect
        self._closed = asyncio.Event()
        self._connection: aio.UnaryStreamCall[Q, R] | None = None
        self._connection_s = 0.0

    @property
    def cursor(self) -> str:
        """The place after the last message that was read."""
        return self._following.request.cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        while not self._closed.is_set():
            if self._connection is None:
                self._connection_s = self._following.connection_s()
                self._connection = self._connect(self._following.request, self._connection_s)
            try:
                read = await self._connection.read()
            except asyncio.CancelledError:
                if self._closed.is_set() and not this_task_is_cancelled():
                    break
                raise
            except aio.AioRpcError as failure:
                self._connection = None
                rest = asyncio.to_thread(self._following.rest_s, failure, self._connection_s)  # may connect
                await self._rest(await rest)
                continue
            if read is aio.EOF:
                break
            message = cast(R, read)
            if self._following.accept(message):
                return message
        raise StopAsyncIteration

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):  # wait_for may swallow a cancellation (Python 3.11)
                await self._closed.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Ends the stream: a reader in `anext` gets StopAsyncIteration. Closing again has no effect."""
        self._closed.set()
        if self._connection is not None:
            self._connection.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


AsyncEventStream: TypeAlias = AsyncStream[frontier_pb2.StateEventsRequest, frontier_pb2.StateEventsResponse]
AsyncOutcomeStream: TypeAlias = AsyncStream[admin_pb2.StreamOutcomesRequest, admin_pb2.StreamOutcomesResponse]
AsyncExportStream: TypeAlias = AsyncStream[admin_pb2.ExportUrisRequest, admin_pb2.ExportUrisResponse]


def this_task_is_cancelled() -> bool:
    """Whether a CancelledError is for the present task, and not for a call that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
