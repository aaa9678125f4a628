"""NodeService over gRPC, with health and reflection: decodes, asks the control handler,
encodes. It decides nothing."""

import socket
import typing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, TypeVar

import grpc
import structlog
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from toehold.access.denials import AccessDenied, PermissionDenied
from toehold.addresses import Address, parsed_address
from toehold.connections import connection_options, descriptor_limit
from toehold.node.v1 import node_pb2, node_pb2_grpc
from toehold.reflection import SERVICES as REFLECTION_SERVICES
from toehold.reflection import add_reflection

from .access import Access, CallerLimit
from .guarded import MAX_REQUEST_BYTES, Guarded, keep_log_clean
from .handler import BadValue, ControlHandler, ControlRefusal, Draining, NoSuchToe, SilentWorker
from .watches import TooManyWatches, Watches

MAX_CALLS, MAX_OTHER_CALLS = 16, 4
"""The most calls of NodeService that are worked on at a time, and of health, and of reflection."""

MAX_CONNECTIONS, MAX_CALLS_OF_CONNECTION = 64, 32
"""A node's callers are operators and its supervisor; its descriptors are for the pages that it fetches."""

_SHARE = 8  # of the descriptors, connections take at most one in so many

SERVICE = node_pb2.DESCRIPTOR.services_by_name["NodeService"].full_name

_CODES: dict[type[ControlRefusal], grpc.StatusCode] = {
    BadValue: grpc.StatusCode.INVALID_ARGUMENT,
    NoSuchToe: grpc.StatusCode.NOT_FOUND,
    Draining: grpc.StatusCode.FAILED_PRECONDITION,
    SilentWorker: grpc.StatusCode.UNAVAILABLE,
}

log = structlog.get_logger()

_T = TypeVar("_T")


class CannotListen(Exception):
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
    """Serves a control handler. `start` it; `stop` ends it at once."""

    def __init__(self, access: Access | None = None) -> None:
        self._access = access or Access()
        self._calls = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="service")
        self._health_calls = ThreadPoolExecutor(MAX_OTHER_CALLS, thread_name_prefix="health")
        self._reflection_calls = ThreadPoolExecutor(MAX_OTHER_CALLS, thread_name_prefix="reflection")
        self._watches = Watches()
        connections = min(MAX_CONNECTIONS, descriptor_limit() // _SHARE)
        self._server = grpc.server(
            self._calls,
            options=[
                ("grpc.so_reuseport", 0),
                *connection_options(connections, MAX_CALLS_OF_CONNECTION),
                # Longer messages are refused unread; those between the two limits here, with a reason.
                ("grpc.max_receive_message_length", 2 * MAX_REQUEST_BYTES),
            ],
        )
        self._health = health.HealthServicer()
        self.address = ""
        """Where it listens, HOST:PORT; empty before `bind`."""
        self.told_address = ""
        """The address to tell others."""

    def bind(self, address: Address) -> None:
        """Takes an address; port 0 takes a free one. Raises CannotListen."""
        try:
            port = self._access.add_port(self._server, str(address))
        except RuntimeError as error:
            raise CannotListen(
                f"cannot listen on {address}: the port is taken, or the address is not this machine's"
            ) from error
        self.address = str(address._replace(port=port))
        everywhere = address.host in ("0.0.0.0", "::")
        self.told_address = f"{socket.gethostname()}:{port}" if everywhere else self.address

    def start(self, handler: ControlHandler) -> None:
        """Begins to answer. Health does not tell yet that the node serves."""
        keep_log_clean()
        guarded: typing.Any = Guarded(
            self._server,
            lambda wrong, context: _abort(BadValue(wrong), context),
            self._admit,
            {
                health.SERVICE_NAME: self._health_calls,
                **dict.fromkeys(REFLECTION_SERVICES, self._reflection_calls),
            },
            self._admit_watch,
        )
        node_pb2_grpc.add_NodeServiceServicer_to_server(_Service(handler), guarded)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, guarded)
        add_reflection(guarded, (SERVICE, health.SERVICE_NAME), asynchronous=False)
        self._tell(False)
        self._server.start()

    def serving(self) -> None:
        """Makes health tell that the node fetches."""
        self._tell(True)

    def not_serving(self) -> None:
        """Makes health tell that the node drains."""
        self._tell(False)

    def stop(self) -> None:
        """Ends the server and its running calls."""
        self._server.stop(None).wait()
        for pool in (self._calls, self._health_calls, self._reflection_calls):
            pool.shutdown(wait=False, cancel_futures=True)

    def _admit(self, method: str, context: grpc.ServicerContext) -> None:
        try:
            self._access.check(method, context)
        except AccessDenied as denial:
            known = isinstance(denial, PermissionDenied)
            code = grpc.StatusCode.PERMISSION_DENIED if known else grpc.StatusCode.UNAUTHENTICATED
            _refuse(code, denial.reason, str(denial), context)
        except CallerLimit as limit:
            _refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, limit.reason, str(limit), context, limit.retry_ms)

    def _admit_watch(self, context: grpc.ServicerContext) -> None:
        try:
            self._watches.admit(context)
        except TooManyWatches as full:
            _refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, full.reason, str(full), context, full.retry_ms)

    def _tell(self, serving: bool) -> None:
        answer = health_pb2.HealthCheckResponse
        for name in ("", SERVICE):
            self._health.set(name, answer.SERVING if serving else answer.NOT_SERVING)


class _Service(node_pb2_grpc.NodeServiceServicer):
    def __init__(self, handler: ControlHandler) -> None:
        self._handler = handler

    def GetPool(
        self, request: node_pb2.GetPoolRequest, context: grpc.ServicerContext
    ) -> node_pb2.GetPoolResponse:
        return self._handler.get_pool()

    def SetPoolSize(
        self, request: node_pb2.SetPoolSizeRequest, context: grpc.ServicerContext
    ) -> node_pb2.SetPoolSizeResponse:
        _answered(lambda: self._handler.set_pool_size(request.size), context)
        return node_pb2.SetPoolSizeResponse()

    def ListToes(
        self, request: node_pb2.ListToesRequest, context: grpc.ServicerContext
    ) -> node_pb2.ListToesResponse:
        return node_pb2.ListToesResponse(toes=self._handler.list_toes(request.stacks))

    def KillToe(
        self, request: node_pb2.KillToeRequest, context: grpc.ServicerContext
    ) -> node_pb2.KillToeResponse:
        _answered(lambda: self._handler.kill_toe(request.worker, request.serial, request.replace), context)
        return node_pb2.KillToeResponse()

    def Drain(self, request: node_pb2.DrainRequest, context: grpc.ServicerContext) -> node_pb2.DrainResponse:
        _answered(self._handler.drain, context)
        return node_pb2.DrainResponse()


def _answered(act: Callable[[], _T], context: grpc.ServicerContext) -> _T:
    try:
        return act()
    except ControlRefusal as refusal:
        _abort(refusal, context)


def _abort(refusal: ControlRefusal, context: grpc.ServicerContext) -> NoReturn:
    _refuse(_CODES[type(refusal)], refusal.reason, str(refusal), context)


def _refuse(
    code: grpc.StatusCode, reason: str, message: str, context: grpc.ServicerContext, retry_ms: int = 0
) -> NoReturn:
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=reason, domain="toehold"),
        error_details_pb2.RequestInfo(request_id=request_id),
    ]
    if retry_ms:
        hint = error_details_pb2.RetryInfo()
        hint.retry_delay.FromMilliseconds(retry_ms)
        details.append(hint)
    rich = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        rich.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", rich.SerializeToString()),))
    context.abort(code, message)
