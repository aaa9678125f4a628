"""A relay between the fetcher and the frontier. It records every call, and can refuse calls or lose answers
as a busy frontier or a bad network does.

The fetcher takes it for the frontier. It has one address for its whole life, also while the frontier behind
it is down: then it does not listen.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from toehold.frontier.v1 import frontier_pb2
from toehold_client.errors import ERROR_DOMAIN

_SERVICE = "/toehold.frontier.v1.FrontierService/"
_UNARY = ("Schedule", "Next", "Finished", "Heartbeat", "RequestState")
_STREAM = "StateEvents"
_COUNTING = ("Schedule", "Finished")
"""They go on when the fetcher hangs up: what the frontier makes of them counts all the same."""
_THREADS = 128
_AGES_S = 10 * 365 * 86_400
"""gRPC gives a call without a deadline one after the end of time, and can't send such a deadline on."""
_MOST_BYTES = 10 * 1024 * 1024
_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", _MOST_BYTES),
]
# As the frontier's own.
_SERVER_OPTIONS = [
    *_OPTIONS,
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
]


@dataclass(frozen=True, slots=True)
class Fault:
    """How a call fails, whatever the frontier would answer."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    """The ErrorInfo's; without one the error has no ErrorInfo, as one of the transport."""
    retry_s: float = 0.0
    """The RetryInfo's; 0 for none."""
    answer_is_lost: bool = False
    """The frontier gets the request, and only its answer is lost."""


@dataclass(slots=True, eq=False)
class Call:
    """A call of the fetcher. Times are seconds on the monotonic clock."""

    method: str
    request: Any
    began_s: float
    deadline_s: float
    """How long the fetcher waits for the answer; infinite without a deadline."""
    ended_s: float = math.inf
    response: Any = None
    """None until an answer has come, and if the call failed."""
    fault: Fault | None = None
    """The fault that the tap caused."""

    @property
    def is_under_way(self) -> bool:
        """Whether the fetcher waits for the answer, if it has not hung up."""
        return math.isinf(self.ended_s)

    @property
    def answered(self) -> bool:
        """Whether the fetcher got an answer."""
        return self.response is not None and self.fault is None


class Tap:
    """The relay. `open` connects it with a frontier, and `close` lets it vanish as the frontier does."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        """Those of the fetchers so far, in the order in which they began."""
        self.fault: Callable[[Call], Fault | None] = lambda call: None
        """Decides which calls fail."""
        # Bound and not listening: nobody else gets the port while no server is there.
        self._keeper = socket.socket()
        self._keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._keeper.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._keeper.getsockname()[1]}"
        """Where fetchers find the frontier."""
        self._server: grpc.Server | None = None
        self._channel: grpc.Channel | None = None

    def open(self, frontier: str) -> None:
        """Relays calls to the frontier at this address, from now on."""
        self._channel = grpc.insecure_channel(frontier, [*_OPTIONS, ("grpc.enable_http_proxy", 0)])
        server = grpc.server(ThreadPoolExecutor(_THREADS, "tap"), [_Handlers(self)], options=_SERVER_OPTIONS)
        server.add_insecure_port(self.address)
        server.start()
        self._server = server

    def close(self) -> None:
        """Breaks off all calls and listens no more."""
        if self._server is not None:
            self._server.stop(None).wait(5)
        if self._channel is not None:
            self._channel.close()
        self._server = self._channel = None

    def end(self) -> None:
        """Gives up the address."""
        self.close()
        self._keeper.close()

    def relay(self, method: str, data: bytes, context: grpc.ServicerContext) -> bytes:
        """Hands a call on to the frontier."""
        call = self._noted(method, data, context)
        fault = call.fault = self.fault(call)
        if fault is not None and not fault.answer_is_lost:
            _fail(context, call, fault)
        answer = self._forwarded(call, data, context)
        if fault is not None:
            _fail(context, call, fault)
        return answer

    def follow(self, data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Hands a stream of events on."""
        call = self._noted(_STREAM, data, context)
        assert self._channel is not None
        method: Any = self._channel.unary_stream(_SERVICE + _STREAM)
        stream = method(data, metadata=_metadata(context))
        context.add_callback(stream.cancel)
        try:
            yield from stream
        except grpc.RpcError as error:
            _pass_on(error, call, context)
        finally:
            call.ended_s = time.monotonic()

    def _noted(self, method: str, data: bytes, context: grpc.ServicerContext) -> Call:
        message: Message = getattr(frontier_pb2, f"{method}Request")()
        try:
            message.ParseFromString(data)
        except DecodeError:  # the frontier says what is wrong
            message.Clear()
        remaining_s: float = context.time_remaining()
        deadline_s = remaining_s if remaining_s < _AGES_S else math.inf
        call = Call(method, message, time.monotonic(), deadline_s)
        self.calls.append(call)
        return call

    def _forwarded(self, call: Call, data: bytes, context: grpc.ServicerContext) -> bytes:
        channel = self._channel
        if channel is None:  # it is being closed
            _fail(context, call, Fault(grpc.StatusCode.UNAVAILABLE, "the frontier is down"))
        timeout_s = None if math.isinf(call.deadline_s) else call.deadline_s
        try:
            method: Any = channel.unary_unary(_SERVICE + call.method)
            future = method.future(data, timeout=timeout_s, metadata=_metadata(context))
            if call.method not in _COUNTING and not context.add_callback(future.cancel):
                future.cancel()
            answer: bytes = future.result()
        except (grpc.RpcError, grpc.FutureCancelledError, ValueError) as error:
            _pass_on(error, call, context)
        response = getattr(frontier_pb2, f"{call.method}Response")()
        response.ParseFromString(answer)
        call.response = response
        call.ended_s = time.monotonic()
        return answer


class _Handlers(grpc.GenericRpcHandler):
    """Takes every method of FrontierService as it comes, in bytes."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        path: str = handler_call_details.method
        method = path.removeprefix(_SERVICE)
        if method == _STREAM:
            return grpc.unary_stream_rpc_method_handler(self._tap.follow)
        if method not in _UNARY:
            return None
        return grpc.unary_unary_rpc_method_handler(
            lambda data, context: self._tap.relay(method, data, context)
        )


def _metadata(context: grpc.ServicerContext) -> tuple[tuple[str, str | bytes], ...]:
    """The caller's metadata, without gRPC's own."""
    return tuple(
        (key, value)
        for key, value in context.invocation_metadata()
        if not key.startswith(("grpc-", ":")) and key not in ("user-agent", "te", "content-type")
    )


def _pass_on(error: Exception, call: Call, context: grpc.ServicerContext) -> NoReturn:
    """Fails as the frontier did."""
    call.ended_s = time.monotonic()
    if isinstance(error, grpc.Call):
        context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
        context.abort(error.code(), error.details() or "")
    context.abort(grpc.StatusCode.UNAVAILABLE, "the connection to the frontier broke off")


def _fail(context: grpc.ServicerContext, call: Call, fault: Fault) -> NoReturn:
    call.ended_s = time.monotonic()
    details = []
    if fault.reason:
        details.append(_packed(ErrorInfo(reason=fault.reason, domain=ERROR_DOMAIN)))
    if fault.retry_s:
        delay = Duration()
        delay.FromNanoseconds(round(fault.retry_s * 1e9))
        details.append(_packed(RetryInfo(retry_delay=delay)))
    if details:
        rich = Status(code=fault.code.value[0], message=fault.message, details=details)
        context.set_trailing_metadata((("grpc-status-details-bin", rich.SerializeToString()),))
    context.abort(fault.code, fault.message)


def _packed(message: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed
