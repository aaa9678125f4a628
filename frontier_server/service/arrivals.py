"""gRPC's handlers of all methods: they limit the memory of requests before these are decoded.

A decoded message takes several times its bytes. So a message is received only if its caller may call, and it
waits undecoded until there is room for it (`room`, `incoming`).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager, aclosing
from typing import Any, NoReturn, Protocol

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from toehold_base.access.denials import AccessDenied
from toehold_base.access.roles import ROLES, Role, is_question

from ..core.rows.errors import BatchTooLarge, FrontierError, InvalidRequest, ReadOnly
from ..shell.runner import TryLater
from ..wire import status
from . import calls
from .answers import MAX_MESSAGE_BYTES, Context, abort, operator_of, request_id
from .gate import Gate, OpenCall
from .incoming import Incoming, Stream, received
from .room import MIB, Room

# gRPC refuses larger messages unread; those between the two limits are refused here, with a reason.
MAX_RECEIVED_BYTES = MAX_MESSAGE_BYTES + MIB

_log = structlog.get_logger()

refused_early: Counter[str] = Counter()  # reason → calls refused before their request was decoded

LOOK_S = 0.5  # between two looks whether a question can still be answered
_BATCHES = ("Schedule", "Finished")
_WAITING = ("Next",)  # beside streams


class Server(Protocol):
    """A server of gRPC's, or what stands before it."""

    def add_generic_rpc_handlers(self, handlers: Iterable[Any], /) -> None:
        """Let it find methods by their names."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any], /) -> None:
        """Let it find the methods of a service at once."""


class Arrivals:
    """The requests of a server that are not answered yet."""

    def __init__(self, gate: Gate, check_room: Callable[[], None] | None = None) -> None:
        """`check_room` raises TryLater if no call can be answered just now; None: they always can."""
        self.room = Room()
        self.incoming = Incoming()
        self._gate = gate
        self._check_room = check_room

    def register(
        self, server: Server, servicer: object, service: ServiceDescriptor, read_only: bool = False
    ) -> None:
        """Let a server serve a service. With `read_only` it refuses all calls except questions."""
        handlers = {
            method.name: self._handler(getattr(servicer, method.name), method, read_only)
            for method in service.methods
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
        server.add_registered_method_handlers(service.full_name, handlers)

    @staticmethod
    async def _while_possible(answering: Coroutine[Any, Any, Any], check_room: Callable[[], None]) -> Any:
        """The answer to a question. Raises TryLater as soon as none can be given: a question may be left, and
        who asks hears at once what the frontier waits for."""
        task = asyncio.ensure_future(answering)
        try:
            while not (await asyncio.wait((task,), timeout=LOOK_S))[0]:
                check_room()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))

    def _handler(self, answer: Callable[..., Any], method: MethodDescriptor, read_only: bool) -> Any:
        """gRPC's handler of a method; it gets bytes."""
        request = GetMessageClass(method.input_type)
        name = f"{method.containing_service.full_name}/{method.name}"
        waits = method.name in _WAITING
        asks = is_question(name)
        acts = not (asks or Role.FETCH in ROLES[name])
        lasts = waits or method.client_streaming or method.server_streaming

        def entered(context: Context) -> AbstractContextManager[OpenCall]:
            if self._check_room is not None:
                self._check_room()
            return self._gate.entered(name, context, lasts)

        async def one(_: AsyncIterator[bytes], context: Context) -> Any:
            room = self.room.kept if waits else self.room.worked_on
            with self.room.call(), entered(context) as call:
                data = await received(context)
                with room(len(data)):
                    message = _checked(call, request, data)
                    answering = answer(message, context)
                    if asks and self._check_room is not None:
                        answering = self._while_possible(answering, self._check_room)
                    shown = call.shown(await answering)
                    if acts:
                        _log_act(getattr(message, "crawl", ""), context)
                    return shown

        async def batch(_: AsyncIterator[bytes], context: Context) -> Any:
            with self.room.call(), entered(context) as call:
                data = [await self.incoming.batch(context)]
                try:
                    with self.room.worked_on(len(data[0])):
                        # Popped: otherwise the bytes would stay as long as the message.
                        return await answer(_checked(call, request, data.pop()), context)
                finally:
                    data.clear()  # a refusal's traceback keeps this frame for long

        async def many(_: AsyncIterator[bytes], context: Context) -> Any:
            crawl = ""

            async def decoded(stream: Stream, call: OpenCall) -> AsyncIterator[Message]:
                nonlocal crawl
                while data := await stream.received(context):
                    message = _decoded(request, data.pop())
                    await stream.waited_for(call.check_part(message))
                    crawl = crawl or getattr(message, "crawl", "")
                    yield message

            with self.room.call(), entered(context) as call, self.incoming.stream() as stream:
                shown = call.shown(await answer(decoded(stream, call), context))
                _log_act(crawl, context)
                return shown

        async def streamed(_: AsyncIterator[bytes], context: Context) -> None:
            # No generator: gRPC would leave one that is cancelled while a slow caller takes a message.
            with self.room.call(), entered(context) as call:
                data = await received(context)
                with self.room.kept(len(data)):
                    async with aclosing(answer(_checked(call, request, data), context)) as messages:
                        async for message in messages:
                            await context.write(call.shown(message))

        async def refused(_: AsyncIterator[bytes], context: Context) -> NoReturn:
            with self.room.call(), entered(context):
                raise ReadOnly(
                    "the frontier was opened read-only; start it without --read-only to change crawls"
                )

        # All receive streams; on the wire a call with one message looks the same. Otherwise gRPC would
        # receive the message before the gate knows its caller.
        serializer = _serialized
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


def _telling(method: MethodDescriptor, behaviour: Callable[..., Any]) -> Callable[..., Any]:
    """A handler whose failures become statuses."""

    async def telling(request: Any, context: Context) -> Any:
        with calls.logged(method.name, context):
            try:
                return await behaviour(request, context)
            except (FrontierError, TryLater, AccessDenied) as problem:
                refused_early[problem.reason] += 1
                await abort(context, problem)
            except (grpc.aio.AbortError, grpc.aio.InternalError):  # the latter: the caller has left
                raise
            except Exception:  # gRPC would send it
                _log.exception("call_failed")
                await context.abort(*status.failed(request_id()))

    return telling


def _serialized(answer: Message | bytes) -> bytes:
    """An answer in bytes, which it may be already."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def _log_act(crawl: str, context: Context) -> None:
    """Log who asked for a change, and was not refused."""
    _log.info("operator_acted", operator=operator_of(context), crawl=crawl)


def _checked(call: OpenCall, kind: type[Message], data: bytes) -> Message:
    """The decoded message, if its caller may send it."""
    message = _decoded(kind, data)
    call.check(message)
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
