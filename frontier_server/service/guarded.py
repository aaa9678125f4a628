"""Guards gRPC's own services, health and reflection: they would treat an invalid request as an error of the
server, and log each one."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from ..core.errors import BatchTooLarge, InvalidRequest
from ..runner import Refused
from .answering import Context, abort
from .arrivals import MAX_RECEIVING, SMALL_BYTES

RECEIVE_S = 5.0  # the time that a request may take


class Guarded:
    """A server to which such services are added. Their requests are decoded here, or refused. Large ones are
    refused too: a service's name is short, and a watcher's request is kept as long as the watcher stays."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Does nothing: the same handlers also come as registered ones."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Let the server serve a service."""
        guarded = {name: _guarded(handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, guarded),))
        self._server.add_registered_method_handlers(service, guarded)


def _guarded(handler: Any) -> Any:
    """The handler, for bytes, which are received from a few callers at a time: everybody may call."""
    decode, encode = handler.request_deserializer, handler.response_serializer
    receiving = asyncio.Semaphore(MAX_RECEIVING)

    async def one(_: AsyncIterator[bytes], context: Context) -> Any:
        return await handler.unary_unary(await only(context), context)

    async def streamed(_: AsyncIterator[bytes], context: Context) -> None:
        """`Watch` writes its answers itself."""
        await handler.unary_stream(await only(context), context)

    async def talked(_: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
        async def decoded() -> AsyncIterator[Any]:
            while (data := await received(context)) is not None:
                yield await _decoded(decode, data, context)

        async for answer in handler.stream_stream(decoded(), context):
            yield answer

    async def only(context: Context) -> Any:
        return await _decoded(decode, await received(context), context)

    async def received(context: Context) -> bytes | None:
        """The next message; None at the end."""
        try:
            async with asyncio.timeout(RECEIVE_S), receiving:
                data = await context.read()
                size = len(data) if isinstance(data, bytes) else 0
                if size <= SMALL_BYTES:
                    return data if isinstance(data, bytes) else None
                del data  # the refusal's traceback keeps this frame for long
        except TimeoutError:
            message = f"the request did not arrive within {RECEIVE_S:g} s; it is slow, or too many arrive"
            return await abort(context, Refused("OVERLOADED", message, 1_000))
        problem = BatchTooLarge(
            f"a message must have at most {SMALL_BYTES} bytes, got {size}", limit=str(SMALL_BYTES)
        )
        return await abort(context, problem)

    # On the wire a call with one message looks the same as a stream of one.
    if handler.stream_stream is not None:
        return grpc.stream_stream_rpc_method_handler(talked, None, encode)
    if handler.unary_stream is not None:
        assert not inspect.isasyncgenfunction(handler.unary_stream), "its answers would be lost"
        return grpc.stream_stream_rpc_method_handler(streamed, None, encode)
    return grpc.stream_unary_rpc_method_handler(one, None, encode)


async def _decoded(decode: Callable[[bytes], Any], data: bytes | None, context: Context) -> Any:
    """The decoded request. An invalid one ends the call."""
    try:
        return decode(data or b"")
    except DecodeError:
        return await abort(context, InvalidRequest("the request is not a message of this call", field=""))
