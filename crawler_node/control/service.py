"""NodeService over gRPC, with health and reflection: decodes, asks the control handler,
encodes. It decides nothing."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NoReturn, TypeVar

import grpc
import structlog
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from structlog.contextvars import bound_contextvars

from toehold.node.v1 import node_pb2
from toehold_base.access.denials import AccessDenied
from toehold_base.observability.grpc_log import leave_out_callers_doings
from toehold_base.serving import statuses
from toehold_base.serving.addresses import Address, parsed_address, taken
from toehold_base.serving.connections import connection_options, descriptor_limit
from toehold_base.serving.open_services import (
    HURRIED_S,
    MAX_RECEIVING,
    MAX_REQUEST_BYTES,
    Health,
    NotServed,
    NotThisCall,
    TooLarge,
    TooMany,
    add_open_services,
    received,
)
from toehold_base.serving.places import Places
from toehold_base.serving.request_ids import given_request_id

from .access import Access, CallerLimit, Context
from .handler import BadValue, ControlHandler, ControlRefusal, Draining, NoSuchToe, SilentWorker

MAX_CALLS = 16
"""The most calls of NodeService that are worked on at a time."""

MAX_CONNECTIONS, MAX_CALLS_OF_CONNECTION = 64, 32
"""A node's callers are operators and its supervisor; its descriptors are for the pages that it fetches."""

_SHARE = 8  # of the descriptors, connections take at most one in so many

RETRY_MS = 1_000

_METHODS = node_pb2.DESCRIPTOR.services_by_name["NodeService"].methods
SERVICE = node_pb2.DESCRIPTOR.services_by_name["NodeService"].full_name

_CODES: dict[type[ControlRefusal], grpc.StatusCode] = {
    BadValue: grpc.StatusCode.INVALID_ARGUMENT,
    NoSuchToe: grpc.StatusCode.NOT_FOUND,
    Draining: grpc.StatusCode.FAILED_PRECONDITION,
    SilentWorker: grpc.StatusCode.UNAVAILABLE,
}

log = structlog.get_logger()

_T = TypeVar("_T")


class ServiceCannotListen(Exception):
    """The address cannot be listened on."""


CONTROL_NODE = (
    "control the node; add --tls-cert, --tls-key and --callers (docs/network.md), or --insecure on a network "
    "that you trust"
)
READ_METRICS = "read the metrics; add --insecure on a network that you trust"
"""What anybody could do at an address beyond loopback, and how to allow it."""


def listen_address(
    text: str, insecure: bool, *, is_safe: bool = False, danger: str = CONTROL_NODE
) -> Address:
    """Checks a HOST:PORT to listen on. Raises ValueError, also for one beyond loopback without `insecure`,
    unless TLS and known callers make it safe.
    """
    address = parsed_address(text, "127.0.0.1:7708")
    if not (insecure or is_safe or address.is_loopback):
        raise ValueError(f"{text!r} is beyond loopback, so that anybody could {danger}")
    return address


class NodeServer:
    """Serves a control handler, by an event loop in its own thread. `start` it; `stop` ends it at once."""

    def __init__(self, access: Access | None = None) -> None:
        self._access = access or Access()
        self._calls = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="service")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="service", daemon=True)
        self._thread.start()
        self._server = self._within(self._new_server())
        self._health: Health | None = None
        self.address = ""
        """Where it listens, HOST:PORT; empty before `bind`."""
        self.told_address = ""
        """The address to tell others."""

    def _within(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of work that the loop does."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _new_server(self) -> grpc.aio.Server:
        connections = min(MAX_CONNECTIONS, descriptor_limit() // _SHARE)
        return grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                *connection_options(connections, MAX_CALLS_OF_CONNECTION),
                # Longer messages are refused unread; those between the two limits here, with a reason.
                ("grpc.max_receive_message_length", 2 * MAX_REQUEST_BYTES),
            ]
        )

    def bind(self, address: Address) -> None:
        """Takes an address; port 0 takes a free one. Raises CannotListen."""

        async def bound() -> int:
            return self._access.add_port(self._server, str(address))

        try:
            port = self._within(bound())
        except RuntimeError as error:
            raise ServiceCannotListen(taken(address)) from error
        self.address = str(address._replace(port=port))
        everywhere = address.host in ("0.0.0.0", "::")
        self.told_address = f"{socket.gethostname()}:{port}" if everywhere else self.address

    def start(self, handler: ControlHandler) -> None:
        """Begins to answer. Health does not tell yet that the node serves."""
        leave_out_callers_doings()
        self._within(self._started(handler))

    async def _started(self, handler: ControlHandler) -> None:
        self._health = add_open_services(self._server, (SERVICE,), _refuse)
        self._health.tell(False)
        self._add(_Service(handler))
        await self._server.start()

    def serving(self) -> None:
        """Makes health tell that the node fetches."""
        self._tell(True)

    def not_serving(self) -> None:
        """Makes health tell that the node drains."""
        self._tell(False)

    def _tell(self, serves: bool) -> None:
        if self._health is not None:
            self._loop.call_soon_threadsafe(self._health.tell, serves)

    def stop(self) -> None:
        """Ends the server and its running calls."""
        self._within(self._server.stop(None))
        self._calls.shutdown(wait=False, cancel_futures=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _add(self, service: "_Service") -> None:
        """Lets the server serve NodeService."""
        places = Places(MAX_RECEIVING, HURRIED_S)
        handlers: dict[str, Any] = {
            method.name: self._handler(
                method.name, getattr(service, method.name), GetMessageClass(method.input_type), places
            )
            for method in _METHODS
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self._server.add_registered_method_handlers(SERVICE, handlers)

    def _handler(
        self, name: str, answer: Callable[[Any], Message], kind: type[Message], places: Places
    ) -> Any:
        """gRPC's handler of a call. It is given a stream, which on the wire looks the same as one message: so
        it refuses a caller without waiting for the message, which might never come."""

        async def served(_: AsyncIterator[bytes], context: Context) -> bytes:
            request_id = given_request_id(context.invocation_metadata())
            with bound_contextvars(method=name, request_id=request_id):
                try:
                    with self._access.entered(f"{SERVICE}/{name}", context):
                        request = await received(places, kind.FromString, context)
                        if request is None:
                            raise BadValue("the call ended without a message; it must send one")
                        answered = self._loop.run_in_executor(
                            self._calls, copy_context().run, answer, request
                        )
                        return (await answered).SerializeToString()
                except (AccessDenied, CallerLimit, ControlRefusal, NotServed) as problem:
                    await _refuse(context, problem)

        return grpc.stream_unary_rpc_method_handler(served)


class _Service:
    """NodeService's calls. Each may take some time."""

    def __init__(self, handler: ControlHandler) -> None:
        self._handler = handler

    def GetPool(self, _: node_pb2.GetPoolRequest) -> node_pb2.GetPoolResponse:
        return self._handler.get_pool()

    def SetPoolSize(self, request: node_pb2.SetPoolSizeRequest) -> node_pb2.SetPoolSizeResponse:
        self._handler.set_pool_size(request.size)
        return node_pb2.SetPoolSizeResponse()

    def ListToes(self, request: node_pb2.ListToesRequest) -> node_pb2.ListToesResponse:
        return node_pb2.ListToesResponse(toes=self._handler.list_toes(request.stacks))

    def KillToe(self, request: node_pb2.KillToeRequest) -> node_pb2.KillToeResponse:
        self._handler.kill_toe(request.worker, request.serial, request.replace)
        return node_pb2.KillToeResponse()

    def Drain(self, _: node_pb2.DrainRequest) -> node_pb2.DrainResponse:
        self._handler.drain()
        return node_pb2.DrainResponse()


async def _refuse(
    context: Context, problem: AccessDenied | CallerLimit | ControlRefusal | NotServed
) -> NoReturn:
    """Ends a call with the status of a refusal."""
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    if isinstance(problem, AccessDenied):
        refused = statuses.of_denial(problem, request_id)
    else:
        code, reason, retry_ms = _status_of(problem)
        refused = statuses.refusal(code, reason, str(problem), retry_ms=retry_ms, request_id=request_id)
    await context.abort(*refused)
    raise AssertionError("gRPC's abort raises")


def _status_of(problem: CallerLimit | ControlRefusal | NotServed) -> tuple[grpc.StatusCode, str, int]:
    """Code, reason, and after how long to try again."""
    match problem:
        case CallerLimit():
            return grpc.StatusCode.RESOURCE_EXHAUSTED, problem.reason, problem.retry_ms
        case ControlRefusal():
            return _CODES[type(problem)], problem.reason, 0
        case TooMany():
            return problem.code, "OVERLOADED", RETRY_MS
        case TooLarge() | NotThisCall():
            return grpc.StatusCode.INVALID_ARGUMENT, BadValue.reason, 0
        case _:
            return problem.code, "", 0
