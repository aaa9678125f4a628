"""URLFrontier's calls on a server of `grpc.aio`: their messages, their limits, and statuses for their errors.

A call reads and writes bytes. It reads all messages that have arrived at once, because `grpc.aio` wakes the
event loop for each message.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc import StatusCode

from toehold_base.serving.connections import MOST_CONNECTIONS, connection_options, descriptor_limit
from toehold_base.serving.places import Places

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""The longest message that is received; URLFrontier's own service has the same limit."""

MAX_UNREAD_BYTES = 1024 * 1024
"""The client of a stream has to wait while so many bytes have arrived that were not yet put."""

MAX_PUTS, MAX_CALLS, MAX_CALLS_OF_CONNECTION = 64, 1_000, 1_000
"""The most streams of URLs that are open at a time, the most other calls, the most calls of a connection."""

FEW, GAP_S, GATHER_S = 100, 0.001, 0.02
"""A stream with fewer than FEW messages waits for others, until none comes for GAP_S; GATHER_S at most. So
the messages of a client that sends many go to the frontier in few requests."""

PATIENCE_S = 20.0
"""Where there is no room, a call whose client has done nothing for so long gives way to a new one."""

RECEIVE_S, HURRIED_S, MAX_RECEIVING = 20.0, 2.0, 8
"""The time that a request may take; that time while others wait; how many are received at once, apart from
streams."""

_DESCRIPTORS_KEPT = 64  # for everything but connections

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

_T = TypeVar("_T")
_log = structlog.get_logger()


class Aborted(Exception):
    """The call ends with a status other than OK."""

    def __init__(self, message: str, code: StatusCode) -> None:
        super().__init__(message)
        self.code = code


class ServedCall:
    """A call that is being served."""

    def __init__(self, context: Context) -> None:
        self.idle_since_s = math.inf
        """When its client's turn began, on the event loop's clock; infinite while it is the gateway's."""
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._gives_way = False
        self._arrived: list[bytes] = []
        self._unread_bytes = 0
        self._has_all = False
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._receiver: asyncio.Task[None] | None = None

    async def only_message(self, places: Places) -> bytes:
        """The request of a call that has one. Raises Aborted."""
        try:
            async with places.one(self._context.peer, RECEIVE_S):
                message: Any = await self._context.read()
        except TimeoutError:
            raise Aborted(
                f"the request did not arrive within {RECEIVE_S:g} s; it is slow, or too many arrive",
                StatusCode.RESOURCE_EXHAUSTED,
            ) from None
        if not isinstance(message, bytes):
            raise Aborted("the call must have a request, got none", StatusCode.INVALID_ARGUMENT)
        return message

    async def read(self) -> list[bytes]:
        """All messages of a stream that have arrived, once there are any; none at the end."""
        if self._receiver is None:
            self._receiver = self._loop.create_task(self._receive())
        if not (self._arrived or self._has_all):
            self.idle_since_s = self._loop.time()
            self._news.clear()
            await self._news.wait()
            self.idle_since_s = math.inf
        await self._gather()
        if not self._arrived:
            await self._receiver  # raises what ended it, if anything did
        messages, self._arrived, self._unread_bytes = self._arrived, [], 0
        self._room.set()
        return messages

    async def _gather(self) -> None:
        """Waits for messages that follow closely."""
        until_s, seen = self._loop.time() + GATHER_S, 0
        while seen < len(self._arrived) < FEW and not self._has_all and self._loop.time() < until_s:
            seen = len(self._arrived)
            await asyncio.sleep(GAP_S)

    async def _receive(self) -> None:
        try:
            while isinstance(message := await self._context.read(), bytes):
                self._arrived.append(message)
                self._unread_bytes += len(message)
                self._news.set()
                if self._unread_bytes >= MAX_UNREAD_BYTES:
                    self._room.clear()
                    await self._room.wait()
        finally:
            self._has_all = True
            self._news.set()

    async def write(self, *messages: bytes) -> None:
        """Sends messages. Waits while the client takes none."""
        for message in messages:
            self.idle_since_s = self._loop.time()
            await self._context.write(message)
        self.idle_since_s = math.inf

    def give_way(self) -> None:
        """Ends the call, as another one needs its place."""
        assert self._task is not None
        self._gives_way = True
        self._task.cancel()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Within it the call is served."""
        try:
            yield
        except asyncio.CancelledError:
            if not self._gives_way or self._task is None:
                raise
            self._task.uncancel()
            raise Aborted(
                f"the client has done nothing for {PATIENCE_S:g} s, and another call needs the place",
                StatusCode.RESOURCE_EXHAUSTED,
            ) from None
        finally:
            if self._receiver is not None:
                self._receiver.cancel()


Serve: TypeAlias = Callable[[ServedCall], Awaitable[None]]
"""Serves a stream of requests."""

ServeOne: TypeAlias = Callable[[ServedCall, bytes], Awaitable[None]]
"""Serves a call with one request."""


class ServedCalls:
    """The calls of a server."""

    def __init__(self) -> None:
        self._receiving = Places(MAX_RECEIVING, HURRIED_S)
        self._puts: set[ServedCall] = set()
        self._others: set[ServedCall] = set()

    def register(
        self,
        server: grpc.aio.Server,
        service: str,
        streams: Mapping[str, Serve],
        others: Mapping[str, ServeOne],
    ) -> None:
        """Lets a server serve a service: calls with a stream of requests, and those with one."""

        def one(serve: ServeOne) -> Serve:
            async def served(call: ServedCall) -> None:
                await serve(call, await call.only_message(self._receiving))

            return served

        handlers: dict[str, Any] = {
            name: _handler(f"/{service}/{name}", serve, self._puts, MAX_PUTS)
            for name, serve in streams.items()
        }
        for name, serve in others.items():
            handlers[name] = _handler(f"/{service}/{name}", one(serve), self._others, MAX_CALLS)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_registered_method_handlers(service, handlers)


def _handler(path: str, serve: Serve, room: set[ServedCall], most: int) -> Any:
    """gRPC's handler of a call. Each call gets a stream of requests, which looks the same on the wire as one
    request. So gRPC does not receive the request before the call asks for it."""

    async def served(_: AsyncIterator[bytes], context: Context) -> None:
        call = ServedCall(context)
        try:
            with call.ending(), _place(call, room, most):
                await serve(call)
        except Aborted as aborted:
            await context.abort(aborted.code, str(aborted))
        except (grpc.aio.AbortError, grpc.aio.InternalError, grpc.aio.UsageError):  # the client has left
            raise
        except Exception:
            _log.exception("call_failed", path=path)
            await context.abort(StatusCode.UNKNOWN, "the gateway failed; its log has the reason")

    return grpc.stream_stream_rpc_method_handler(served)


@contextmanager
def _place(call: ServedCall, room: set[ServedCall], most: int) -> Iterator[None]:
    if len(room) >= most:
        idle = min(room, key=lambda each: each.idle_since_s)
        if asyncio.get_running_loop().time() - idle.idle_since_s < PATIENCE_S:
            raise Aborted(
                f"{most} calls of this kind are open, the most that can be; try later",
                StatusCode.RESOURCE_EXHAUSTED,
            )
        room.discard(idle)
        idle.give_way()
    room.add(call)
    try:
        yield
    finally:
        room.discard(call)


def new_server(addresses: int = 1) -> grpc.aio.Server:
    """A server with the bounds of a gateway, which listens on so many addresses."""
    connections = min(descriptor_limit() - _DESCRIPTORS_KEPT, MOST_CONNECTIONS) // addresses
    return grpc.aio.server(
        options=[
            ("grpc.so_reuseport", 0),  # so that a taken port is an error
            *connection_options(connections, MAX_CALLS_OF_CONNECTION),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ]
    )


def decoded(decode: Callable[[bytes], _T], message: bytes) -> _T:
    """What a message says. A message of another kind aborts the call."""
    try:
        return decode(message)
    except DecodeError:
        raise Aborted("the request is not a message of this call", StatusCode.INVALID_ARGUMENT) from None
