"""How requests arrive: sized before they are decoded, and no more at once than memory has room for.

A message that is decoded takes several times its bytes, and one that is being received takes
them already. So the RPCs that carry batches are received a few at a time; a message waits
undecoded until it is admitted; and what is beyond the room for all is refused, with a hint
when to come again. Small messages, such as heartbeats, are never refused.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ..core.errors import BatchTooLarge, FrontierError, InvalidRequest
from ..runner import Refused
from .answering import MAX_MESSAGE_BYTES, Context, abort

MIB = 1024 * 1024
# gRPC itself refuses what is larger, before it is received; what is between is refused here, with a reason.
MAX_RECEIVED_BYTES = MAX_MESSAGE_BYTES + MIB
SMALL_BYTES = 64 * 1024
MAX_BYTES = (
    64 * MIB
)  # of requests that are not small: of those being worked on, and of those of calls that wait
SHORT_BYTES = 1024  # of a request that is kept while its caller waits, and not counted
MAX_RECEIVING, RECEIVE_S = 8, 20.0  # batches that are being received, and how long a message may take
MAX_STREAMS = 8  # of URIs and of seeds that are being taken in
MAX_CALLS = 40_000  # that are open: each waits, or is a stream

_BATCHES = ("Schedule", "Finished")
_WAITING = ("Next",)  # beside streams


class Arrivals:
    """The requests of a server that have come and are not answered yet."""

    def __init__(self) -> None:
        self._receiving = asyncio.Semaphore(MAX_RECEIVING)
        self._bytes = self._kept_bytes = self._calls = 0
        self._streams: set[_Stream] = set()

    def register(self, server: grpc.aio.Server, servicer: object, service: ServiceDescriptor) -> None:
        """Let a server serve a service."""
        handlers = {
            method.name: self._handler(getattr(servicer, method.name), method) for method in service.methods
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
        server.add_registered_method_handlers(service.full_name, handlers)

    def _handler(self, answer: Callable[..., Any], method: MethodDescriptor) -> Any:
        """gRPC's handler of a method, which is given bytes."""
        request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        waits = method.name in _WAITING

        async def one(data: bytes, context: Context) -> Any:
            with self._open(), self._kept(len(data)) if waits else self._room(len(data)):
                return await answer(_decoded(request, data), context)

        async def batch(_: AsyncIterator[bytes], context: Context) -> Any:
            with self._open():
                data = [await self._received(context)]
                try:
                    with self._room(len(data[0])):
                        # Taken out, or the bytes would stay as long as the message.
                        return await answer(_decoded(request, data.pop()), context)
                finally:
                    data.clear()  # a refusal's traceback keeps for long what is here

        async def many(_: AsyncIterator[bytes], context: Context) -> Any:
            async def decoded(stream: _Stream) -> AsyncIterator[Message]:
                while data := await stream.received(context):
                    yield _decoded(request, data.pop())

            with self._open(), self._stream() as stream:
                return await answer(decoded(stream), context)

        async def streamed(data: bytes, context: Context) -> AsyncIterator[Any]:
            try:
                with self._open(), self._kept(len(data)):
                    async for message in answer(_decoded(request, data), context):
                        yield message
            except (FrontierError, Refused) as problem:
                await abort(context, problem)

        serializer = response.SerializeToString
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(streamed, None, serializer)
        if method.client_streaming:
            return grpc.stream_unary_rpc_method_handler(_refusing(many), None, serializer)
        if method.name in _BATCHES:  # on the wire there is no difference
            return grpc.stream_unary_rpc_method_handler(_refusing(batch), None, serializer)
        return grpc.unary_unary_rpc_method_handler(_refusing(one), None, serializer)

    @contextmanager
    def _open(self) -> Iterator[None]:
        if self._calls >= MAX_CALLS:
            raise Refused(
                "OVERLOADED", f"{self._calls} calls are open; the server has room for no more", 2_000
            )
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    @contextmanager
    def _stream(self) -> Iterator["_Stream"]:
        if len(self._streams) >= MAX_STREAMS:
            silent = min(self._streams, key=lambda stream: stream.silent_since_s)
            if not silent.gives_way():
                words = f"{len(self._streams)} streams of URIs are being taken in"
                raise Refused("OVERLOADED", words, 2_000)
            self._streams.discard(silent)
        stream = _Stream()
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)

    @contextmanager
    def _room(self, size: int) -> Iterator[None]:
        """Room for a message, which is decoded within."""
        if size <= SMALL_BYTES:
            size = 0
        elif self._bytes + size > MAX_BYTES:
            words = f"requests of {self._bytes} bytes are being worked on; this one of {size} has to wait"
            raise Refused("OVERLOADED", words, 1_000)
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    @contextmanager
    def _kept(self, size: int) -> Iterator[None]:
        """Room for a request that stays as long as its caller waits."""
        if size <= SHORT_BYTES:
            size = 0
        elif self._kept_bytes + size > MAX_BYTES:
            words = f"{self._kept_bytes} bytes of requests of calls that wait are kept; this one has {size}"
            raise Refused("OVERLOADED", words, 1_000)
        self._kept_bytes += size
        try:
            yield
        finally:
            self._kept_bytes -= size

    async def _received(self, context: Context) -> bytes:
        """The one message of a batch, when its turn to be received has come."""
        try:
            async with asyncio.timeout(RECEIVE_S), self._receiving:
                data = await context.read()  # an iterator would keep it
        except TimeoutError:
            words = f"the request did not arrive within {RECEIVE_S:g} s; too many come at once, or too slowly"
            raise Refused("OVERLOADED", words, 1_000) from None
        if not isinstance(data, bytes):
            raise InvalidRequest("the call ended before its message; one is needed", field="")
        return data


class _Stream:
    """A stream that is being taken in. One whose caller has been silent for long gives way where another one
    needs its place: nobody knows whether it ever ends."""

    def __init__(self) -> None:
        self._patience: asyncio.Timeout | None = None
        self.silent_since_s = math.inf
        """When its caller's turn began, on the event loop's clock; never, while the server works on it."""

    async def received(self, context: Context) -> list[bytes]:
        """Its next message, alone; none at its end. Raises Refused when it has to give way."""
        try:
            async with asyncio.timeout(None) as self._patience:
                self.silent_since_s = asyncio.get_running_loop().time()
                data = await context.read()
        except TimeoutError:
            words = f"nothing came for {RECEIVE_S:g} s, and another stream needs the place"
            raise Refused("OVERLOADED", words, 2_000) from None
        finally:
            self._patience, self.silent_since_s = None, math.inf
        return [data] if isinstance(data, bytes) else []

    def gives_way(self) -> bool:
        """Whether it does, as it has been silent for so long."""
        now_s = asyncio.get_running_loop().time()
        if self._patience is None or now_s - self.silent_since_s < RECEIVE_S:
            return False
        self._patience.reschedule(now_s)
        return True


def _refusing(behaviour: Callable[..., Any]) -> Callable[..., Any]:
    """A behaviour whose refusals become statuses."""

    async def refusing(request: Any, context: Context) -> Any:
        try:
            return await behaviour(request, context)
        except (FrontierError, Refused) as problem:
            await abort(context, problem)

    return refusing


def _decoded(kind: type[Message], data: bytes) -> Message:
    """A message. Raises BatchTooLarge or InvalidRequest."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise BatchTooLarge(
            f"a message of {len(data)} bytes; at most {MAX_MESSAGE_BYTES} are taken",
            limit=str(MAX_MESSAGE_BYTES),
        )
    try:
        return kind.FromString(data)
    except DecodeError:
        raise InvalidRequest(f"the request is no {kind.DESCRIPTOR.full_name}", field="") from None
