"""A gRPC server: the calls by their names, deadlines, and its end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NoReturn, TypeAlias, TypeVar

from google.protobuf.message import DecodeError
from grpc import StatusCode

from .call import Aborted, Call
from .connection import Connection

_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS_S = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

_T = TypeVar("_T")

Serve: TypeAlias = Callable[[Call], Awaitable[None]]
"""Serves a call."""


class Server:
    """Serves calls by their names, once it listens."""

    def __init__(self) -> None:
        self._calls: dict[bytes, Serve] = {}
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None

    def add(self, service: str, calls: Mapping[str, Serve]) -> None:
        """Serves these calls of a service."""
        self._calls.update({f"/{service}/{name}".encode(): serve for name, serve in calls.items()})

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Serves a service that was written for `grpc.aio`; code that gRPC generates calls this."""
        self.add(service, {name: _Generated(handler).serve for name, handler in handlers.items()})

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Does nothing: generated code adds the same handlers as registered ones."""

    async def listen(self, host: str, port: int) -> int:
        """Begins to serve; the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self._serve, self._connections), host, port
        )
        found: int = self._listener.sockets[0].getsockname()[1]
        return found

    async def stop(self, grace_s: float) -> None:
        """Takes no more calls, lets the others end for a while, and cancels the rest."""
        if self._listener is not None:
            self._listener.close()
        for connection in self._connections:
            connection.drain()
        tasks = [task for connection in self._connections for task in connection.tasks]
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=grace_s)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        for connection in list(self._connections):
            connection.close()

    async def _serve(self, call: Call, headers: dict[bytes, bytes]) -> None:
        path = headers.get(b":path", b"")
        serve = self._calls.get(path)
        if serve is None:
            raise Aborted(
                f"there is no call {path.decode(errors='replace')!r:.200}", StatusCode.UNIMPLEMENTED
            )
        try:
            async with asyncio.timeout(_timeout_s(headers)):
                await serve(call)
        except TimeoutError:
            raise Aborted("the deadline has passed", StatusCode.DEADLINE_EXCEEDED) from None


def _timeout_s(headers: Mapping[bytes, bytes]) -> float | None:
    match = _TIMEOUT.fullmatch(headers.get(b"grpc-timeout", b""))
    return int(match[1]) * _UNITS_S[match[2]] if match else None


async def only_message(call: Call) -> bytes:
    """The request of a call that has one."""
    messages = await call.read()
    if len(messages) != 1:
        raise Aborted(f"the call must have one request, got {len(messages)}", StatusCode.INVALID_ARGUMENT)
    return messages[0]


def decoded(decode: Callable[[bytes], _T], message: bytes) -> _T:
    """What a message says. A message of another kind aborts the call."""
    try:
        return decode(message)
    except DecodeError:
        raise Aborted("the request is not a message of this call", StatusCode.INVALID_ARGUMENT) from None


class _Generated:
    """A handler that was written for `grpc.aio`, of a service that answers by a stream or by one message."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self._behave = handler.stream_stream or handler.unary_stream or handler.unary_unary

    async def serve(self, call: Call) -> None:
        """Serves a call."""
        context = _Context(call, self._handler.response_serializer)
        request = (
            self._requests(call)
            if self._handler.request_streaming
            else decoded(self._handler.request_deserializer, await only_message(call))
        )
        answer = self._behave(request, context)
        if hasattr(answer, "__aiter__"):
            async for message in answer:
                await context.write(message)
        elif (message := await answer) is not None:
            await context.write(message)

    async def _requests(self, call: Call) -> AsyncIterator[Any]:
        while messages := await call.read():
            for message in messages:
                yield decoded(self._handler.request_deserializer, message)


class _Context:
    """As much of `grpc.aio`'s context as such handlers use."""

    def __init__(self, call: Call, encode: Callable[[Any], bytes]) -> None:
        self._call, self._encode = call, encode

    async def write(self, message: Any) -> None:
        """Sends a message."""
        await self._call.write(self._encode(message))

    async def abort(self, code: StatusCode, details: str = "") -> NoReturn:
        """Ends the call with a status."""
        raise Aborted(details, code)
