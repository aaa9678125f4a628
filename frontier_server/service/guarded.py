"""gRPC's own services, health and reflection: by themselves they take bytes that are no message for an error
of the server, and tell of each in its log."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from ..core.errors import BatchTooLarge, FrontierError, InvalidRequest
from .answering import Context, abort
from .arrivals import SMALL_BYTES


class Guarded:
    """A server, as such services are added to it. Their requests are decoded here, or refused; a name has few
    bytes, and a watcher's request is kept as long as it watches."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Nothing: the same ones come as registered ones, too."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Let the server serve a service."""
        guarded = {name: _guarded(handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, guarded),))
        self._server.add_registered_method_handlers(service, guarded)


def _guarded(handler: Any) -> Any:
    """A handler that is given bytes."""
    decode, encode = handler.request_deserializer, handler.response_serializer

    async def one(data: bytes, context: Context) -> Any:
        return await handler.unary_unary(await _decoded(decode, data, context), context)

    async def streamed(data: bytes, context: Context) -> None:
        """`Watch` writes its answers by itself."""
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
    """A request; ends the call where there is none."""
    problem: FrontierError
    if len(data) > SMALL_BYTES:
        problem = BatchTooLarge(
            f"a message of {len(data)} bytes; at most {SMALL_BYTES} are taken", limit=str(SMALL_BYTES)
        )
    else:
        try:
            return decode(data)
        except DecodeError:
            problem = InvalidRequest("the request is no message of this call", field="")
    return await abort(context, problem)
