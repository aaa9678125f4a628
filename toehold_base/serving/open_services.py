"""Health and reflection of a server of `grpc.aio`: services that everybody may ask, without credentials. So
they take little, whatever is asked, and however slowly.

gRPC's own health service is replaced: each of its watchers takes 22 KiB, without a bound, and one that reads
nothing would hold up every change of the health, and with it the server's end.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2

from .places import Places
from .reflection import add_reflection

MAX_REQUEST_BYTES = 64 * 1024
"""A request names a service or a symbol. A watcher's is kept as long as the watcher stays."""

RECEIVE_S, HURRIED_S, MAX_RECEIVING = 5.0, 0.5, 8
"""The time that a request may take; while others wait; and how many arrive at once."""

MAX_WATCHES, MAX_WATCHES_OF_CONNECTION = 1_000, 8
"""Beyond the first bound the oldest watch gives way to a new one."""

HEALTH = health.SERVICE_NAME

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

_T = TypeVar("_T")
_SERVING, _NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class NotServed(Exception):
    """A call that ends with a status other than OK."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class TooMany(NotServed):
    """The request did not arrive in time, or there are as many watches as there may be."""


class TooLarge(NotServed):
    """The request has more bytes than it may."""


class NotThisCall(NotServed):
    """The request is not a message of this call."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class UnknownService(NotServed):
    """There is no service of this name."""

    code = grpc.StatusCode.NOT_FOUND


Refuse: TypeAlias = Callable[[Context, NotServed], Awaitable[NoReturn]]
"""Ends a call with a status."""


async def refuse(context: Context, problem: NotServed) -> NoReturn:
    """End a call with a code and a sentence."""
    await context.abort(problem.code, str(problem))


class Health:
    """Whether a server and its services serve, and each of its parts, if it has any. A server none of whose
    parts serves does not serve as a whole, but its services still answer."""

    def __init__(self, services: Iterable[str], parts: Iterable[str] = ()) -> None:
        """Begins with serving, but for the parts."""
        self._parts = dict.fromkeys(parts, False)
        self._services = frozenset(("", *services))
        self._says, self._has_ended = True, False
        self._changed = asyncio.Event()
        self._watches: dict[asyncio.Task[Any], str] = {}  # with their connections, the oldest first
        self._of_connection: Counter[str] = Counter()
        self._crowded_out: set[asyncio.Task[Any]] = set()

    def tell(self, serves: bool) -> None:
        """Let it say whether the server serves."""
        if serves != self._says and not self._has_ended:
            self._says = serves
            self._wake()

    def tell_of(self, part: str, serves: bool) -> None:
        """Let it say whether a part serves."""
        if serves != self._parts[part]:
            self._parts[part] = serves
            self._wake()

    def end(self) -> None:
        """Let it say from now on that the server does not serve."""
        self._says, self._has_ended = False, True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def check(self, request: health_pb2.HealthCheckRequest) -> health_pb2.HealthCheckResponse:
        """See grpc.health.v1.Health.Check. Raises UnknownService."""
        status = self._status(request.service)
        if status == _UNKNOWN:
            raise UnknownService(f"there is no service {request.service[:200]!r}")
        return health_pb2.HealthCheckResponse(status=status)

    async def watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> NoReturn:
        """See grpc.health.v1.Health.Watch. Raises TooMany."""
        task, connection = asyncio.current_task(), context.peer()
        assert task is not None
        if self._of_connection[connection] >= MAX_WATCHES_OF_CONNECTION:
            raise TooMany(
                f"a connection may have {MAX_WATCHES_OF_CONNECTION} watches, and this one has as many"
            )
        if len(self._watches) >= MAX_WATCHES:
            self._crowd_out(next(iter(self._watches)))
        self._watches[task] = connection
        self._of_connection[connection] += 1
        try:
            await self._told(request.service, context)
        except asyncio.CancelledError:
            if task not in self._crowded_out:
                raise
            task.uncancel()
            raise TooMany(f"another watch needs the place of this one, of {MAX_WATCHES}") from None
        finally:
            self._crowded_out.discard(task)
            self._forget(task)

    async def _told(self, service: str, context: Context) -> NoReturn:
        """Send the status, and each other one after it."""
        last: Any = None
        while True:
            status, changed = self._status(service), self._changed
            if status != last:
                await context.write(health_pb2.HealthCheckResponse(status=status).SerializeToString())
                last = status
            await changed.wait()

    def _status(self, service: str) -> Any:
        if service in self._parts:
            serves = self._parts[service] and not self._has_ended
        elif service in self._services:
            serves = self._says and (bool(service) or not self._parts or any(self._parts.values()))
        else:
            return _UNKNOWN
        return _SERVING if serves else _NOT_SERVING

    def _crowd_out(self, task: asyncio.Task[Any]) -> None:
        self._crowded_out.add(task)
        self._forget(task)
        task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        connection = self._watches.pop(task, None)
        if connection is not None:
            self._of_connection[connection] -= 1
            if not self._of_connection[connection]:
                del self._of_connection[connection]


def add_open_services(
    server: grpc.aio.Server, services: Iterable[str], refuse: Refuse = refuse, parts: Iterable[str] = ()
) -> Health:
    """Let a server tell its health, and that of its parts, and show these services by reflection."""
    names = (*services,)
    told = Health(names, parts)
    doors = _Doors(server, refuse)
    doors.add_health(told)
    add_reflection(doors, (*names, HEALTH), asynchronous=True)
    return told


class _Doors:
    """Adds the services to the server. Their requests are decoded here, or refused: gRPC would take an
    invalid one for an error of the server, and log it."""

    def __init__(self, server: grpc.aio.Server, refuse: Refuse) -> None:
        self._server, self._refuse = server, refuse
        self._receiving = Places(MAX_RECEIVING, HURRIED_S)

    # On the wire a call with one message looks the same as a stream of one. As a stream, it is received here,
    # within its time.

    def add_health(self, told: Health) -> None:
        async def check(_: AsyncIterator[bytes], context: Context) -> bytes:
            return await self._served(self._checked(told, context), context)

        async def watch(_: AsyncIterator[bytes], context: Context) -> None:
            """Writes its answers itself."""
            await self._served(self._watched(told, context), context)

        handlers: dict[str, Any] = {
            "Check": grpc.stream_unary_rpc_method_handler(check),
            "Watch": grpc.stream_stream_rpc_method_handler(watch),
        }
        self._add(HEALTH, handlers)

    async def _checked(self, health: Health, context: Context) -> bytes:
        return health.check(await self._asked(context)).SerializeToString()

    async def _watched(self, health: Health, context: Context) -> None:
        await health.watch(await self._asked(context), context)

    async def _asked(self, context: Context) -> health_pb2.HealthCheckRequest:
        request = await received(self._receiving, health_pb2.HealthCheckRequest.FromString, context)
        return health_pb2.HealthCheckRequest() if request is None else request

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Add a service whose calls are streams both ways."""
        self._add(service, {name: self._talking(handler) for name, handler in handlers.items()})

    def _talking(self, handler: Any) -> Any:
        receive = partial(received, self._receiving)

        async def talk(_: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            async def decoded() -> AsyncIterator[Any]:
                decode = handler.request_deserializer
                while (message := await self._served(receive(decode, context), context)) is not None:
                    yield message

            async for answer in handler.stream_stream(decoded(), context):
                yield answer

        return grpc.stream_stream_rpc_method_handler(talk, None, handler.response_serializer)

    def _add(self, service: str, handlers: dict[str, Any]) -> None:
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self._server.add_registered_method_handlers(service, handlers)

    async def _served(self, answer: Awaitable[_T], context: Context) -> _T:
        try:
            return await answer
        except NotServed as problem:
            return await self._refuse(context, problem)


async def received(places: Places, decode: Callable[[bytes], _T], context: Context) -> _T | None:
    """The next message of a call, which is a short one; None at the end. Raises NotServed."""
    try:
        async with places.one(context.peer, RECEIVE_S):
            data: Any = await context.read()
            size = len(data) if isinstance(data, bytes) else 0
            if size > MAX_REQUEST_BYTES:
                data = None  # a refusal's traceback keeps this frame for long
    except TimeoutError:
        raise TooMany(
            f"the request did not arrive within {RECEIVE_S:g} s; it is slow, or too many arrive"
        ) from None
    if size > MAX_REQUEST_BYTES:
        raise TooLarge(f"a message must have at most {MAX_REQUEST_BYTES} bytes, got {size}")
    try:
        return decode(data) if isinstance(data, bytes) else None
    except DecodeError:
        raise NotThisCall("the request is not a message of this call") from None
