"""A gRPC relay before a frontier that loses answers that were given, and says things twice or later again."""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Self

import grpc

MOST_CALLS = 128
"""At the same time, streams included."""
STREAMS = ("StateEvents", "StreamOutcomes", "ExportUris", "Watch")
"""Calls whose answers are handed on as they come. They are neither lost nor said again."""
REMEMBERED = 200
"""Calls that can be said again."""
UNBOUNDED_S = 1e6

Messages = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """A call as it was made."""

    method: str
    requests: Messages
    metadata: tuple[tuple[str, str | bytes], ...]


class Relay(grpc.GenericRpcHandler):
    """A relay on loopback within a `with` block, for calls of every kind.

    `lose` says, by the name of a call, which answers are lost: of every so many the last, and of each call
    `lose_at_most`. `double` are the names of calls that are made twice, at the same time; `remember` those of
    calls that can be said again later. All of them may be changed at any time.
    """

    address: str
    """Where it listens, HOST:PORT."""

    def __init__(
        self, target: str, lose: Mapping[str, int] | None = None, options: list[tuple[str, Any]] | None = None
    ) -> None:
        self._channel = grpc.insecure_channel(target, options)
        self.lose: Mapping[str, int] = lose or {}
        self.double: Collection[str] = ()
        self.remember: Collection[str] = ()
        self._said: deque[Said] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()
        self.lose_at_most = sys.maxsize
        self.answered: Counter[str] = Counter()
        """How many calls the frontier answered, by the call's name, lost or not."""
        self.lost: Counter[str] = Counter()
        """How many answers were lost, by the call's name."""
        self.refused: Counter[str] = Counter()
        """How many calls the frontier refused, likewise."""
        self.doubled: Counter[str] = Counter()
        """How many calls were made twice, likewise."""
        self._server = grpc.server(ThreadPoolExecutor(MOST_CALLS), handlers=[self])
        self._others = ThreadPoolExecutor(MOST_CALLS)

    def __enter__(self) -> Self:
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()
        self._channel.close()
        self._others.shutdown()

    def say_again(self, count: int, chance: Random) -> int:
        """Say some of what was said before, in another order, to nobody's profit; how many calls that are."""
        with self._lock:
            said = list(self._said)
        chosen = chance.sample(said, min(count, len(said)))
        for one in chosen:
            with suppress(grpc.RpcError):
                list(self._call(one, 5.0))
        return len(chosen)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method
        return grpc.stream_stream_rpc_method_handler(
            lambda requests, context: self._relay(method, requests, context)
        )

    def _relay(
        self, method: str, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        name = method.rpartition("/")[2]
        ours = tuple(
            (key, value) for key, value in context.invocation_metadata() if key.startswith("toehold")
        )
        said = Said(method, tuple(requests), ours)
        left_s = context.time_remaining()
        try:
            call = self._call(said, left_s if left_s < UNBOUNDED_S else None)
            context.add_callback(call.cancel)
            if name in STREAMS:
                yield from call
                return
            twin = self._twin(name, said)
            answers = list(call)
            if twin is not None:
                twin.result()
        except grpc.RpcError as error:
            self.refused[name] += 1
            context.set_trailing_metadata(
                tuple((each.key, each.value) for each in error.trailing_metadata() or ())
            )
            context.abort(error.code(), error.details() or "")
        if self._is_to_be_lost(name):
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer got lost")
        yield from answers

    def _call(self, said: Said, timeout_s: float | None) -> Any:
        call: Any = self._channel.stream_stream(said.method)
        return call(iter(said.requests), timeout=timeout_s, metadata=said.metadata)

    def _twin(self, name: str, said: Said) -> Any:
        """The same call beside this one, if it is to be doubled."""
        with self._lock:
            if name in self.remember:
                self._said.append(said)
            if name not in self.double:
                return None
            self.doubled[name] += 1

        def make() -> None:
            with suppress(grpc.RpcError):
                list(self._call(said, 30.0))

        return self._others.submit(make)

    def _is_to_be_lost(self, name: str) -> bool:
        with self._lock:
            self.answered[name] += 1
            few = self.lost[name] < self.lose_at_most
            lost = few and name in self.lose and self.answered[name] % self.lose[name] == 0
            self.lost[name] += lost
        return lost
