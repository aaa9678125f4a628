"""Measures calls: how many, how long, how they ended. It stands between the services and gRPC's server, so
that everything is measured that a caller waits for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import cached_property
from time import perf_counter
from typing import Any

import grpc
from prometheus_client.registry import CollectorRegistry

from toehold.metrics_page import Buckets, Count, Counter, Families, Family, Histogram

from ..service.answering import Context
from .definitions import MESSAGES, RPC_SECONDS, RPCS, RPCS_OPEN


class Rpcs:
    """The counts and times of calls, and a collector of those that are open."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.ended = Counter(RPCS, registry)
        self.seconds = Histogram(RPC_SECONDS, registry)
        self.messages = Counter(MESSAGES, registry)
        self._methods: list[_Method] = []
        registry.register(self)

    def method(self, name: str) -> "_Method":
        """The calls of a method, to be kept."""
        method = _Method(name, self)
        self._methods.append(method)
        return method

    def collect(self) -> list[Family]:
        """The open calls."""
        found = Families((RPCS_OPEN,))
        for method in self._methods:
            found.add(RPCS_OPEN, method.open, method.name)
        return list(found)


class _Method:
    """The calls of a method. A method that nobody calls takes no histogram."""

    def __init__(self, name: str, rpcs: Rpcs) -> None:
        self.name = name
        self.open = 0
        self._rpcs = rpcs
        self._ended = {"OK": rpcs.ended.labels(name, "OK")}

    @cached_property
    def seconds(self) -> Buckets:
        """How long they took."""
        return self._rpcs.seconds.labels(self.name)

    @cached_property
    def messages(self) -> Count:
        """The messages that they sent."""
        return self._rpcs.messages.labels(self.name)

    def count(self, code: str) -> None:
        """Count a call that has ended."""
        child = self._ended.get(code)
        if child is None:
            child = self._ended[code] = self._rpcs.ended.labels(self.name, code)
        child.inc()


class Measured:
    """A server to which services are added. Their calls are measured."""

    def __init__(self, server: grpc.aio.Server, rpcs: Rpcs) -> None:
        self._server = server
        self._rpcs = rpcs

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Does nothing: the same handlers also come as registered ones."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Let the server serve a service."""
        measured = {name: _measured(self._rpcs.method(name), handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, measured),))
        self._server.add_registered_method_handlers(service, measured)


def _measured(method: _Method, handler: Any) -> Any:
    """A handler whose calls are measured."""
    decode, encode = handler.request_deserializer, handler.response_serializer

    def one(behaviour: Callable[..., Any]) -> Callable[..., Any]:
        async def measured(request: Any, context: Context) -> Any:
            start_s = perf_counter()
            method.open += 1
            try:
                answer = await behaviour(request, context)
            except BaseException as problem:
                method.count(_code(problem, context))
                raise
            else:
                method.count("OK")
                return answer
            finally:
                method.open -= 1
                method.seconds.observe(perf_counter() - start_s)

        return measured

    async def streamed(request: Any, context: Context) -> AsyncIterator[Any]:
        method.open += 1
        try:
            async with aclosing(handler.unary_stream(request, context)) as answers:
                async for answer in answers:
                    method.messages.inc()
                    yield answer
        except BaseException as problem:
            method.count(_code(problem, context))
            raise
        else:
            method.count("OK")
        finally:
            method.open -= 1

    if handler.unary_stream is not None:
        return grpc.unary_stream_rpc_method_handler(streamed, decode, encode)
    if handler.stream_unary is not None:
        return grpc.stream_unary_rpc_method_handler(one(handler.stream_unary), decode, encode)
    return grpc.unary_unary_rpc_method_handler(one(handler.unary_unary), decode, encode)


def _code(problem: BaseException, context: Context) -> str:
    """How a call ended that did not return."""
    if isinstance(problem, (asyncio.CancelledError, GeneratorExit, grpc.aio.InternalError)):
        return grpc.StatusCode.CANCELLED.name  # the caller has left
    code: Any = context.code()
    return code.name if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN.name
