"""Worker: one process of a node, as its supervisor sees it."""

import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc
import structlog
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.node.v1 import node_pb2, node_pb2_grpc
from toehold_base.access.tokens import AUTHORIZATION, bearer, new_token
from toehold_base.process.environment import for_child

from ..fetching.cookies import CookieJars
from ..fetching.shared_cookies import channel_ends, serve_cookies
from ..process import WORKER_COOKIES, WORKER_TOKEN, metrics_of, service_of
from .handler import SilentWorker

PULSE_S = 1.0
"""How often the supervisor asks a worker whether it lives."""

START_S = 30.0
"""How long a worker may take to start, besides the time for which it may be silent."""

CALL_S = 5.0
"""How long a worker may take to answer."""

log = structlog.get_logger()

_T = TypeVar("_T")


class Worker:
    """A process that can be started, asked, told to end, and started again.

    `command` makes its command line. A process that is silent for `hang_s` hangs, and is killed: a loop in C
    can hold up everything else in a process for ever. Its cookies are in `jars`, which outlive it.
    """

    def __init__(
        self, number: int, command: Callable[[], Sequence[str]], hang_s: float, jars: CookieJars
    ) -> None:
        self.number = number
        self.restarts = 0
        self.start_time = Timestamp()
        self.metrics_address = ""
        """Where its metrics are, if it serves them."""
        self._command = command
        self._hang_s = hang_s
        self._jars = jars
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._channel: grpc.Channel | None = None
        self._stub: node_pb2_grpc.NodeServiceStub | None = None

    @property
    def process_id(self) -> int:
        """The process id; 0 while there is no process."""
        process = self._process
        return process.pid if process is not None else 0

    def live(self, ready: Callable[[], None]) -> int:
        """Starts the process, calls `ready` when it works, and waits until it has ended. Returns its exit
        code, or the negative number of the signal that killed it."""
        with self._lock:
            token = new_token().text
            cookies, its_end = channel_ends()
            with its_end:
                threading.Thread(target=serve_cookies, args=(cookies, self._jars), daemon=True).start()
                process = self._process = self._started(token, its_end)
        self.start_time.GetCurrentTime()
        try:
            return self._attend(process, token, ready)
        finally:
            self.metrics_address = ""
            with self._lock:
                self._process = None
                if self._channel is not None:
                    self._channel.close()
                self._channel = self._stub = None
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def call(self, ask: Callable[[node_pb2_grpc.NodeServiceStub], _T]) -> _T:
        """Asks its NodeService. Raises SilentWorker, or grpc.RpcError when it refuses."""
        stub = self._stub
        if stub is None:
            raise SilentWorker(f"process {self.number} does not run at present")
        try:
            return ask(stub)
        except grpc.RpcError as error:
            if error.code() in _SILENCE:
                raise SilentWorker(f"process {self.number} does not answer") from error
            raise
        except ValueError as error:  # the channel is closed, as the process has just ended
            raise SilentWorker(f"process {self.number} does not run at present") from error

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the process, if it runs."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)

    def tell_to_end(self) -> None:
        """Sends SIGTERM."""
        self.send(signal.SIGTERM)

    def orphan(self) -> None:
        """Closes its standard input, as the death of its parent would."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()

    def _started(self, token: str, cookies: socket.socket) -> "subprocess.Popen[str]":
        own = {WORKER_TOKEN: token, WORKER_COOKIES: str(cookies.fileno())}
        # A session of its own: Ctrl-C goes to the supervisor only, which tells the process to end.
        return subprocess.Popen(
            self._command(),
            env=for_child(os.environ) | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=(cookies.fileno(),),
        )

    def _attend(self, process: "subprocess.Popen[str]", token: str, ready: Callable[[], None]) -> int:
        line = self._ready_line(process)
        self.metrics_address = metrics_of(line)
        if address := service_of(line):
            with self._lock:
                self._channel = grpc.insecure_channel(address, options=_CHANNEL)
                self._stub = node_pb2_grpc.NodeServiceStub(
                    grpc.intercept_channel(self._channel, _Bearer(token))
                )
            ready()
        last_seen_s = time.monotonic()
        while True:
            try:
                return process.wait(PULSE_S)
            except subprocess.TimeoutExpired:
                pass
            if self._has_pulse():
                last_seen_s = time.monotonic()
            elif time.monotonic() - last_seen_s >= self._hang_s:
                log.error("worker_hung", worker=self.number, pid=process.pid)
                self.send(signal.SIGKILL)

    def _ready_line(self, process: "subprocess.Popen[str]") -> str:
        """The line that says that it works; empty if it ends instead. A page can make it hang before."""
        assert process.stdout is not None
        said, _, _ = select.select([process.stdout], [], [], START_S + self._hang_s)
        if not said:
            log.error("worker_hung", worker=self.number, pid=process.pid)
            self.send(signal.SIGKILL)
        return process.stdout.readline()

    def _has_pulse(self) -> bool:
        try:
            self.call(lambda stub: stub.GetPool(node_pb2.GetPoolRequest(), timeout=min(CALL_S, self._hang_s)))
        except (SilentWorker, grpc.RpcError):
            return False
        return True


class _Call(NamedTuple):
    method: str
    timeout: float | None
    metadata: tuple[tuple[str, str], ...]
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _Bearer(grpc.UnaryUnaryClientInterceptor):
    """Sends a token with each call."""

    def __init__(self, token: str) -> None:
        self._metadata = ((AUTHORIZATION, bearer(token)),)

    def intercept_unary_unary(self, continuation: Any, call: Any, request: Any) -> Any:
        sent = _Call(
            call.method, call.timeout, self._metadata, call.credentials, call.wait_for_ready, call.compression
        )
        return continuation(sent, request)


_SILENCE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
_CHANNEL = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),  # the stacks of many threads are long
)
