"""Limits the memory of requests: it is counted before they are decoded.

A decoded message takes several times its bytes, and a message that is being received takes
its bytes already. So a message is received only if its caller may call, and batches a few at
a time; it waits undecoded until it is admitted, and requests beyond the limit are refused,
with a hint when to try again. The limit never refuses small messages, such as heartbeats.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Any, NoReturn, TypeVar

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from toehold_base.access.denials import AccessDenied
from toehold_base.access.roles import ROLES, Role, is_question
from toehold_base.serving.receiving import Places

from ..core.rows.errors import BatchTooLarge, FrontierError, InvalidRequest, ReadOnly
from ..shell.runner import Refused
from ..wire import status
from . import calls
from .answering import MAX_MESSAGE_BYTES, Context, abort, operator_of, request_id
from .gate import Gate, Visit

MIB = 1024 * 1024
# gRPC refuses larger messages unread; those between the two limits are refused here, with a reason.
MAX_RECEIVED_BYTES = MAX_MESSAGE_BYTES + MIB
SMALL_BYTES = 64 * 1024
MAX_BYTES = 64 * MIB  # of larger requests that are worked on; as many again of calls that wait
SHORT_BYTES = 1024  # of a waiting call's request; such a request is not counted
MAX_RECEIVING, RECEIVE_S = 8, 20.0  # batches received at once, and the time that each message may take
HURRIED_S = 2.0  # the time that a batch may take while others wait for its place
MAX_STREAMS = 8  # of URIs and seeds, at once
MAX_CALLS = 40_000  # open at once: each waits, or is a stream

_T = TypeVar("_T")

_log = structlog.get_logger()

refused_early: Counter[str] = Counter()  # reason → calls refused before their request was decoded

_BATCHES = ("Schedule", "Finished")
_WAITING = ("Next",)  # beside streams


class Arrivals:
    """The requests of a server that are not answered yet."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._receiving = Places(MAX_RECEIVING, HURRIED_S)
        self._bytes = self._kept_bytes = self._calls = 0
        self._streams: set[_Stream] = set()

    def register(
        self, server: grpc.aio.Server, servicer: object, service: ServiceDescriptor, read_only: bool = False
    ) -> None:
        """Let a server serve a service. With `read_only` it refuses all calls except questions."""
        handlers = {
            method.name: self._handler(getattr(servicer, method.name), method, read_only)
            for method in service.methods
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
        server.add_registered_method_handlers(service.full_name, handlers)

    def _handler(self, answer: Callable[..., Any], method: MethodDescriptor, read_only: bool) -> Any:
        """gRPC's handler of a method; it gets bytes."""
        request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        name = f"{method.containing_service.full_name}/{method.name}"
        waits = method.name in _WAITING
        asks = is_question(name)
        acts = not (asks or Role.FETCH in ROLES[name])
        lasts = waits or method.client_streaming or method.server_streaming

        def entered(context: Context) -> AbstractContextManager[Visit]:
            return self._gate.entered(name, context, lasts)

        async def one(_: AsyncIterator[bytes], context: Context) -> Any:
            room = self._kept if waits else self._room
            with self._open(), entered(context) as visit:
                data = await _received(context)
                with room(len(data)):
                    message = _checked(visit, request, data)
                    shown = visit.shown(await answer(message, context))
                    if acts:
                        _note_act(getattr(message, "crawl", ""), context)
                    return shown

        async def batch(_: AsyncIterator[bytes], context: Context) -> Any:
            with self._open(), entered(context) as visit:
                data = [await self._received_in_turn(context)]
                try:
                    with self._room(len(data[0])):
                        # Popped: otherwise the bytes would stay as long as the message.
                        return await answer(_checked(visit, request, data.pop()), context)
                finally:
                    data.clear()  # a refusal's traceback keeps this frame for long

        async def many(_: AsyncIterator[bytes], context: Context) -> Any:
            crawl = ""

            async def decoded(stream: _Stream, visit: Visit) -> AsyncIterator[Message]:
                nonlocal crawl
                while data := await stream.received(context):
                    message = _decoded(request, data.pop())
                    await stream.waited_for(visit.check_part(message))
                    crawl = crawl or getattr(message, "crawl", "")
                    yield message

            with self._open(), entered(context) as visit, self._stream() as stream:
                shown = visit.shown(await answer(decoded(stream, visit), context))
                _note_act(crawl, context)
                return shown

        async def streamed(_: AsyncIterator[bytes], context: Context) -> None:
            # No generator: gRPC would leave one that is cancelled while a slow caller takes a message.
            with self._open(), entered(context) as visit:
                data = await _received(context)
                with self._kept(len(data)):
                    async with aclosing(answer(_checked(visit, request, data), context)) as messages:
                        async for message in messages:
                            await context.write(visit.shown(message))

        async def refused(_: AsyncIterator[bytes], context: Context) -> NoReturn:
            with self._open(), entered(context):
                raise ReadOnly(
                    "the frontier was opened read-only; start it without --read-only to change crawls"
                )

        # All receive streams; on the wire a call with one message looks the same. Otherwise gRPC would
        # receive the message before the gate knows its caller.
        serializer = response.SerializeToString
        if method.server_streaming:
            return grpc.stream_stream_rpc_method_handler(_telling(method, streamed), None, serializer)
        behaviour: Callable[..., Any] = one
        if read_only and not asks:
            behaviour = refused
        elif method.client_streaming:
            behaviour = many
        elif method.name in _BATCHES:
            behaviour = batch
        return grpc.stream_unary_rpc_method_handler(_telling(method, behaviour), None, serializer)

    @contextmanager
    def _open(self) -> Iterator[None]:
        if self._calls >= MAX_CALLS:
            raise Refused(
                "OVERLOADED",
                f"{self._calls} calls are open, the most that can be ({MAX_CALLS}); try later",
                2_000,
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
                message = f"{MAX_STREAMS} streams of URIs are open, the most that can be; try later"
                raise Refused("OVERLOADED", message, 2_000)
            self._streams.discard(silent)
        stream = _Stream()
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)

    @contextmanager
    def _room(self, size: int) -> Iterator[None]:
        """Room for a message; decode it within."""
        if size <= SMALL_BYTES:
            size = 0
        elif self._bytes + size > MAX_BYTES:
            message = (
                f"no room for a request of {size} bytes while requests of {self._bytes} bytes are processed"
            )
            raise Refused("OVERLOADED", message, 1_000)
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    @contextmanager
    def _kept(self, size: int) -> Iterator[None]:
        """Room for a request that is kept as long as its caller waits."""
        if size <= SHORT_BYTES:
            size = 0
        elif self._kept_bytes + size > MAX_BYTES:
            message = f"no room for a request of {size} bytes while calls with {self._kept_bytes} bytes wait"
            raise Refused("OVERLOADED", message, 1_000)
        self._kept_bytes += size
        try:
            yield
        finally:
            self._kept_bytes -= size

    async def _received_in_turn(self, context: Context) -> bytes:
        """The message of a batch, received when its turn comes."""
        with _late():
            async with self._receiving.one(context.peer, RECEIVE_S):
                return await _message(context)


class _Stream:
    """A stream that comes in. If another stream needs its place, and its caller has sent nothing for long, or
    more than it may, it gives way: it might never end."""

    def __init__(self) -> None:
        self._patience: asyncio.Timeout | None = None
        self.silent_since_s = math.inf
        """When its caller's turn began, on the event loop's clock; infinite while it is the server's turn."""

    async def received(self, context: Context) -> list[bytes]:
        """Its next message, alone in a list; an empty list at its end. Raises Refused if it gives way."""
        data = await self.waited_for(context.read())
        return [data] if isinstance(data, bytes) else []

    async def waited_for(self, due: Awaitable[_T]) -> _T:
        """The result of something that is its caller's turn. Raises Refused if it gives way meanwhile."""
        try:
            async with asyncio.timeout(None) as self._patience:
                self.silent_since_s = asyncio.get_running_loop().time()
                return await due
        except TimeoutError:
            message = f"the stream has not gone on for {RECEIVE_S:g} s, and another stream needs its place"
            raise Refused("OVERLOADED", message, 2_000) from None
        finally:
            self._patience, self.silent_since_s = None, math.inf

    def gives_way(self) -> bool:
        """Give way if it has been silent for long enough; whether it does."""
        now_s = asyncio.get_running_loop().time()
        if self._patience is None or now_s - self.silent_since_s < RECEIVE_S:
            return False
        self._patience.reschedule(now_s)
        return True


async def _received(context: Context) -> bytes:
    """The one message of a call."""
    with _late():
        async with asyncio.timeout(RECEIVE_S):
            return await _message(context)


async def _message(context: Context) -> bytes:
    data = await context.read()  # an iterator would keep it
    if not isinstance(data, bytes):
        raise InvalidRequest("the call ended without a message; it must send one", field="")
    return data


@contextmanager
def _late() -> Iterator[None]:
    """Raises Refused for a message that does not come in time."""
    try:
        yield
    except TimeoutError:
        message = f"the request did not arrive within {RECEIVE_S:g} s; it is slow, or too many arrive"
        raise Refused("OVERLOADED", message, 1_000) from None


def _telling(method: MethodDescriptor, behaviour: Callable[..., Any]) -> Callable[..., Any]:
    """A handler whose failures become statuses."""

    async def telling(request: Any, context: Context) -> Any:
        with calls.logged(method.name, context):
            try:
                return await behaviour(request, context)
            except (FrontierError, Refused, AccessDenied) as problem:
                refused_early[problem.reason] += 1
                await abort(context, problem)
            except (grpc.aio.AbortError, grpc.aio.InternalError):  # the latter: the caller has left
                raise
            except Exception:  # gRPC would send it
                _log.exception("call_failed")
                await context.abort(*status.failed(request_id()))

    return telling


def _note_act(crawl: str, context: Context) -> None:
    """Log who asked for a change, and was not refused."""
    _log.info("operator_acted", operator=operator_of(context), crawl=crawl)


def _checked(visit: Visit, kind: type[Message], data: bytes) -> Message:
    """The decoded message, if its caller may send it."""
    message = _decoded(kind, data)
    visit.check(message)
    return message


def _decoded(kind: type[Message], data: bytes) -> Message:
    """The decoded message. Raises BatchTooLarge or InvalidRequest."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise BatchTooLarge(
            f"a message must have at most {MAX_MESSAGE_BYTES} bytes, got {len(data)}",
            limit=str(MAX_MESSAGE_BYTES),
        )
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise InvalidRequest(f"the request is not a {kind.DESCRIPTOR.full_name}", field="") from None
    calls.note(message)
    return message
