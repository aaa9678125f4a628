"""Guards gRPC's own services, health and reflection: they would treat an invalid request as an error of the
server, and log each one."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from ..core.errors import BatchTooLarge, FrontierError, InvalidRequest
from .answering import Context, abort
from .arrivals import SMALL_BYTES


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
    """The handler, for bytes."""
    decode, encode = handler.request_deserializer, handler.response_serializer

    async def one(data: bytes, context: Context) -> Any:
        return await handler.unary_unary(await _decoded(decode, data, context), context)

    async def streamed(data: bytes, context: Context) -> None:
        """`Watch` writes its answers itself."""
        await handler.unary_stream(await _decoded(decode, data, context), context)

    async def talked(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
        async def decoded() -> AsyncIterator[Any]:
            async for data in requests:
                yield await _decoded(decode, data, context)

        async for answer in handler.stream_stream(decoded(), context):
            yield answer

    if handler.stream_stream is not None:
        return grpc.stream_stream_rpc_method_handler(talked, None, encode)
    if handler.unary_stream is not None:
        assert not inspect.isasyncgenfunction(handler.unary_stream), "its answers would be lost"
        return grpc.unary_stream_rpc_method_handler(streamed, None, encode)
    return grpc.unary_unary_rpc_method_handler(one, None, encode)


async def _decoded(decode: Callable[[bytes], Any], data: bytes, context: Context) -> Any:
    """The decoded request. An invalid one ends the call."""
    problem: FrontierError
    if len(data) > SMALL_BYTES:
        problem = BatchTooLarge(
            f"a message must have at most {SMALL_BYTES} bytes, got {len(data)}", limit=str(SMALL_BYTES)
        )
    else:
        try:
            return decode(data)
        except DecodeError:
            problem = InvalidRequest("the request is not a message of this call", field="")
    return await abort(context, problem)
