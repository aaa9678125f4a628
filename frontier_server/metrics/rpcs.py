"""Measures calls: how many, how long, how they ended. It stands between the services and gRPC's server, so
that everything is measured that a caller waits for."""

from collections.abc import Mapping
from functools import cached_property
from time import monotonic, perf_counter
from typing import Any

import grpc
from prometheus_client.registry import CollectorRegistry

from toehold.shard.v1 import shard_pb2
from toehold_base.observability.metrics_page import Buckets, Count, Counter, Families, Family, Histogram

from ..service.answers import Context, code_of
from ..service.arrivals import Server
from .definitions import MESSAGES, RPC_SECONDS, RPCS, RPCS_OPEN

OPEN_S, FORGET_S = 10.0, 3600.0
"""A door that has reported nothing for so long has no open calls, and is forgotten."""


class Rpcs:
    """The counts and times of calls, and a collector of those that are open. Doors of a cluster answer some
    of them, and report these."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.ended = Counter(RPCS, registry)
        self.seconds = Histogram(RPC_SECONDS, registry)
        self.messages = Counter(MESSAGES, registry)
        self._methods: list[_Method] = []
        self._doors: dict[str, tuple[float, shard_pb2.CountCallsRequest]] = {}  # when and what each has told
        registry.register(self)

    def method(self, name: str) -> "_Method":
        """The calls of a method, to be kept."""
        method = _Method(name, self)
        self._methods.append(method)
        return method

    def open_calls(self, name: str) -> int:
        """How many calls of a method are open."""
        own = sum([method.open for method in self._methods if method.name == name])
        since_s = monotonic() - OPEN_S
        doors = [told for at_s, told in list(self._doors.values()) if at_s > since_s]
        return own + sum([calls.open for told in doors for calls in told.methods if calls.method == name])

    def hear(self, told: shard_pb2.CountCallsRequest) -> None:
        """Add the calls of a door since its last report. The first one tells where its counts are."""
        now_s = monotonic()
        self._doors = {door: each for door, each in self._doors.items() if now_s - each[0] < FORGET_S}
        former = self._doors.get(told.door)
        if former is not None and _ended(told) < _ended(former[1]):
            return  # it was on its way for longer than the next one
        self._doors[told.door] = now_s, told
        if former is None:
            return
        known = {calls.method: calls for calls in former[1].methods}
        for calls in told.methods:
            last = known.get(calls.method, shard_pb2.CallCounts())
            for code, count in calls.ended.items():
                self.ended.labels(calls.method, code).inc(count - last.ended[code])
            buckets = last.buckets or [0] * len(calls.buckets)
            more = [count - before for count, before in zip(calls.buckets, buckets, strict=True)]
            self.seconds.labels(calls.method).add(more, calls.seconds - last.seconds)

    def collect(self) -> list[Family]:
        """The open calls."""
        found = Families((RPCS_OPEN,))
        for name in dict.fromkeys(method.name for method in self._methods):
            found.add(RPCS_OPEN, self.open_calls(name), name)
        return list(found)


def _ended(told: shard_pb2.CountCallsRequest) -> int:
    return sum([sum(calls.ended.values()) for calls in told.methods])


class _Method:
    """The calls of a method. A method that nobody calls takes no histogram."""

    def __init__(self, name: str, rpcs: Rpcs) -> None:
        self.name = name
        self.open = 0
        self.succeeded = rpcs.ended.labels(name, "OK")
        self._rpcs = rpcs

    @cached_property
    def seconds(self) -> Buckets:
        """How long they took."""
        return self._rpcs.seconds.labels(self.name)

    @cached_property
    def messages(self) -> Count:
        """The messages that they sent."""
        return self._rpcs.messages.labels(self.name)

    def count_failed(self, problem: BaseException, context: Context) -> None:
        """Count a call that has ended by an exception."""
        self._rpcs.ended.labels(self.name, code_of(problem, context)).inc()


class Measured:
    """A server to which services are added. Their calls are measured."""

    def __init__(self, server: Server, rpcs: Rpcs) -> None:
        self._server = server
        self._rpcs = rpcs

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Does nothing: the same handlers also come as registered ones."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Let the server serve a service."""
        measured = {name: _measured(self._rpcs.method(name), handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, measured),))
        self._server.add_registered_method_handlers(service, measured)


class _CountingContext:
    """A call's context, which counts the messages that are sent."""

    def __init__(self, context: Context, messages: Count) -> None:
        self._context = context
        self._messages = messages

    async def write(self, message: Any) -> None:
        await self._context.write(message)
        self._messages.inc()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _measured(method: _Method, handler: Any) -> Any:
    """A handler whose calls are measured. All receive streams (`service.arrivals`).

    Short calls are most of a frontier's work, so what is done for each is written out.
    """
    decode, encode = handler.request_deserializer, handler.response_serializer
    answer, answer_many = handler.stream_unary, handler.stream_stream

    async def one(requests: Any, context: Context) -> Any:
        start_s = perf_counter()
        method.open += 1
        try:
            answered = await answer(requests, context)
        except BaseException as problem:
            method.count_failed(problem, context)
            raise
        else:
            method.succeeded.inc()
            return answered
        finally:
            method.open -= 1
            method.seconds.observe(perf_counter() - start_s)

    async def many(requests: Any, context: Context) -> None:
        method.open += 1
        try:
            await answer_many(requests, _CountingContext(context, method.messages))
        except BaseException as problem:
            method.count_failed(problem, context)
            raise
        else:
            method.succeeded.inc()
        finally:
            method.open -= 1

    if answer_many is not None:
        return grpc.stream_stream_rpc_method_handler(many, decode, encode)
    return grpc.stream_unary_rpc_method_handler(one, decode, encode)
