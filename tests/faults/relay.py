"""A gRPC relay between a node and its frontier that loses answers of chosen calls once they are given."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import grpc

MOST_CALLS = 32
"""At the same time; those of a node are few."""


class Relay(grpc.GenericRpcHandler):
    """A relay on loopback within a `with` block, for calls with one request and one answer.

    `lose` says, by the name of a call, which answers are lost: of every so many the last.
    """

    address: str
    """Where it listens, HOST:PORT."""

    def __init__(self, target: str, lose: Mapping[str, int]) -> None:
        self._channel = grpc.insecure_channel(target)
        self._lose = lose
        self._lock = threading.Lock()
        self._answered: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """How many answers were lost, by the call's name."""
        self.refused: Counter[str] = Counter()
        """How many calls the frontier refused, likewise."""
        self._server = grpc.server(ThreadPoolExecutor(MOST_CALLS), handlers=[self])

    def __enter__(self) -> Self:
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(grace=None).wait()
        self._channel.close()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._relay(method, request, context)
        )

    def _relay(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        try:
            answer = call(request, timeout=context.time_remaining())
        except grpc.RpcError as error:
            self.refused[method.rpartition("/")[2]] += 1
            context.set_trailing_metadata(tuple((each.key, each.value) for each in error.trailing_metadata()))
            context.abort(error.code(), error.details() or "")
        if self._is_to_be_lost(method.rpartition("/")[2]):
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer got lost")
        return answer

    def _is_to_be_lost(self, name: str) -> bool:
        with self._lock:
            self._answered[name] += 1
            lost = name in self._lose and self._answered[name] % self._lose[name] == 0
            self.lost[name] += lost
        return lost
