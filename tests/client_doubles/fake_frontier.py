"""A frontier, or a crawler node, for tests of the client: a real gRPC server in this process with the answers
of the test.
"""

import asyncio
import itertools
import random
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import grpc
from frontier_harness.waiting import PATIENCE_S
from google.protobuf import message_factory
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from toehold.frontier.v1 import admin_pb2, frontier_pb2
from toehold.node.v1 import node_pb2

_MESSAGE_LIMIT = 16 * 1024 * 1024
FRONTIER = (
    frontier_pb2.DESCRIPTOR.services_by_name["FrontierService"],
    admin_pb2.DESCRIPTOR.services_by_name["FrontierAdminService"],
)
NODE = (node_pb2.DESCRIPTOR.services_by_name["NodeService"],)

_numbers = itertools.count(random.SystemRandom().randrange(100 * 62_500))


def _own_host() -> str:
    """An address of loopback that nobody else listens on: a caller of a server that is gone, in this process
    or another one, does not come to the next server at its port.
    """
    number = next(_numbers)
    return f"127.{100 + number // 62_500 % 100}.{1 + number // 250 % 250}.{1 + number % 250}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that fails. Without a reason it is gRPC's own failure, without details."""

    code: grpc.StatusCode
    message: str = "it is refused"
    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_s: float | None = None
    domain: str = "toehold"

    def trailer(self) -> tuple[tuple[str, bytes], ...]:
        """The trailing metadata that carries the details."""
        details: list[Message] = []
        if self.reason:
            details.append(ErrorInfo(reason=self.reason, domain=self.domain, metadata=self.metadata))
        if self.retry_s is not None:
            delay = Duration()
            delay.FromNanoseconds(round(self.retry_s * 1e9))
            details.append(RetryInfo(retry_delay=delay))
        if not details:
            return ()
        status = Status(code=self.code.value[0], message=self.message, details=map(_packed, details))
        return (("grpc-status-details-bin", status.SerializeToString()),)


class Silence:
    """A call that gets no answer."""


UNAVAILABLE = Refusal(grpc.StatusCode.UNAVAILABLE, "the frontier is shutting down", "SHUTTING_DOWN")
SILENCE = Silence()

Answer: TypeAlias = Message | Refusal | Silence
Line: TypeAlias = Answer | Sequence[Answer] | Callable[[Any], Answer]


class FakeFrontier:
    """A script of answers, and a record of requests. `serving` chooses its services.

    A stream's line is a sequence: its messages and, unless it ends with OK, how it ends.
    """

    def __init__(self) -> None:
        self.asked: dict[str, list[Any]] = defaultdict(list)
        self.operators: dict[str, list[str | None]] = defaultdict(list)
        self.request_ids: dict[str, list[str | None]] = defaultdict(list)
        self._lines: dict[str, deque[Line]] = defaultdict(deque)
        self._refused_streams: dict[str, Refusal] = {}

    def will(self, rpc: str, *lines: Line) -> None:
        """Puts answers in line for an RPC, one a call. A call for which there is none fails as INTERNAL."""
        self._lines[rpc].extend(lines)

    def will_refuse_stream(self, rpc: str, refusal: Refusal) -> None:
        """The next call of a client-streaming RPC is refused after its first message."""
        self._refused_streams[rpc] = refusal

    def refused_stream(self, rpc: str) -> Refusal | None:
        """The refusal of the next stream, if there is one."""
        return self._refused_streams.pop(rpc, None)

    def note_caller(self, rpc: str, context: Any) -> None:
        """Notes who says that they call, and the call's request id."""
        metadata = dict(context.invocation_metadata())
        self.operators[rpc].append(metadata.get("toehold-operator"))
        self.request_ids[rpc].append(metadata.get("toehold-request-id"))

    def next_line(self, rpc: str, request: Any) -> Line:
        """Notes a request and gives what is to be answered."""
        self.asked[rpc].append(request)
        if not self._lines[rpc]:
            return Refusal(grpc.StatusCode.INTERNAL, f"nothing is in line for {rpc}")
        line = self._lines[rpc].popleft()
        return line(request) if callable(line) else line


@contextmanager
def serving(
    frontier: FakeFrontier, address: str = "", services: Sequence[ServiceDescriptor] = FRONTIER
) -> Iterator[str]:
    """Serves it, in a thread with a loop of its own; the address, by default one that only it has."""
    address = address or f"{_own_host()}:0"
    bound: list[str] = []
    ends: list[Callable[[], object]] = []
    ready = threading.Event()

    async def serve() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        server = grpc.aio.server(
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _MESSAGE_LIMIT)]
        )
        server.add_generic_rpc_handlers([_handlers(service, frontier) for service in services])
        bound.append(f"{address.rpartition(':')[0]}:{server.add_insecure_port(address)}")
        await server.start()
        ends.append(lambda: loop.call_soon_threadsafe(end.set))
        ready.set()
        await end.wait()
        await server.stop(None)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="fake-frontier")
    thread.start()
    assert ready.wait(PATIENCE_S), f"nothing can listen on {address}"
    try:
        yield bound[0]
    finally:
        ends[0]()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _handlers(service: ServiceDescriptor, frontier: FakeFrontier) -> grpc.GenericRpcHandler:
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in service.methods:
        codecs = {
            "request_deserializer": message_factory.GetMessageClass(method.input_type).FromString,
            "response_serializer": lambda message: message.SerializeToString(),
        }
        if method.server_streaming:
            handlers[method.name] = grpc.unary_stream_rpc_method_handler(
                _streaming(method.name, frontier), **codecs
            )
        elif method.client_streaming:
            handlers[method.name] = grpc.stream_unary_rpc_method_handler(
                _collecting(method.name, frontier), **codecs
            )
        else:
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(
                _unary(method.name, frontier), **codecs
            )
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _unary(rpc: str, frontier: FakeFrontier) -> Any:
    async def handle(request: Message, context: Any) -> Message:
        frontier.note_caller(rpc, context)
        return await _answer(frontier.next_line(rpc, request), context)

    return handle


def _collecting(rpc: str, frontier: FakeFrontier) -> Any:
    async def handle(requests: AsyncIterator[Message], context: Any) -> Message:
        frontier.note_caller(rpc, context)
        refusal = frontier.refused_stream(rpc)
        if refusal is not None:
            await anext(requests)
            await _refuse(refusal, context)
        return await _answer(frontier.next_line(rpc, [request async for request in requests]), context)

    return handle


def _streaming(rpc: str, frontier: FakeFrontier) -> Any:
    async def handle(request: Message, context: Any) -> AsyncIterator[Message]:
        frontier.note_caller(rpc, context)
        line = frontier.next_line(rpc, request)
        for answer in line if isinstance(line, Sequence) else [line]:
            yield await _answer(answer, context)

    return handle


async def _answer(line: Line, context: Any) -> Message:
    if isinstance(line, Message):
        return line
    if isinstance(line, Refusal):
        return await _refuse(line, context)
    assert isinstance(line, Silence)
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def _refuse(refusal: Refusal, context: Any) -> NoReturn:
    await context.abort(refusal.code, refusal.message, refusal.trailer())
    raise AssertionError("abort raises")


def _packed(detail: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(detail)
    return packed
