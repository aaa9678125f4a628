"""A gRPC relay between a program and its frontier that kills the program when a message of a chosen number
comes by.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

import grpc
from frontier_harness.waiting import PATIENCE_S, eventually

MOST_CALLS = 16
"""At the same time."""


class Fallen(Exception):
    """The program is dead: nothing of what it has sent goes on."""


class Blade(grpc.GenericRpcHandler):
    """A relay on loopback within a `with` block, for calls of every shape, by one program at a time."""

    address: str
    """Where it listens, HOST:PORT."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.insecure_channel(target)
        self._server = grpc.server(ThreadPoolExecutor(MOST_CALLS), handlers=[self])
        self._lock = threading.Lock()
        self._armed = 0
        self.arm(0)

    def __enter__(self) -> Self:
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()
        self._channel.close()

    def arm(self, number: int) -> None:
        """Begins anew, for another program. It dies with its message of this number, from 1, request or
        answer: that comes by no more. Of 0 it does not.
        """
        with self._lock:
            self._armed += 1
            self._number = number
            self.passed: list[str] = []
            """What has come by: `LaunchCrawl request`, `LaunchCrawl answer`."""
            self.fallen = False
            self.victim: Future[int] = Future()
            """The program's process id, once it is known."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method
        metadata = handler_call_details.invocation_metadata

        def relay(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            name = method.rpartition("/")[2]
            connect: grpc.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(method)
            said = tuple(each for each in metadata if each[0] == "toehold-operator")
            armed = self._armed
            asked = self._passing(requests, f"{name} request", armed)
            call = connect(asked, context.time_remaining(), metadata=said)

            def hang_up() -> None:
                call.cancel()

            context.add_callback(hang_up)
            try:
                yield from self._passing(call, f"{name} answer", armed)
            except grpc.RpcError as error:
                context.set_trailing_metadata(
                    tuple((each.key, each.value) for each in error.trailing_metadata())
                )
                context.abort(error.code(), error.details() or "")

        return grpc.stream_stream_rpc_method_handler(relay)

    def _passing(self, messages: Iterator[bytes], what: str, armed: int) -> Iterator[bytes]:
        for message in messages:
            with self._lock:
                if self.fallen or armed != self._armed:
                    raise Fallen
                self.passed.append(what)
                self.fallen = len(self.passed) == self._number
                if self.fallen:
                    kill(self.victim.result(PATIENCE_S))
                    raise Fallen
            yield message


def kill(pid: int) -> None:
    """`kill -9`, and waits until it is gone."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the program to be gone")
