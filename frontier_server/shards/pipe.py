"""Calls to a shard in frames over a socket of this machine, for all that has one request and one answer.

gRPC's server for Python takes 0.3 ms for a call wherever it arrives, and its client half of that: with
shards, each call of a fetcher arrives twice. A frame takes a tenth. The methods, their requests and answers,
their statuses and what a call says of its caller are those of gRPC. Streams still take the other way.

A frame is its length in four bytes and a message in MessagePack: a `Call`, or the `Answer` with its number.

Between machines it goes over TCP, with mutual TLS. There the first frame is the token of the cluster.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import grpc
import msgspec
import structlog

from .locations import Location
from .trust import ALONE, Trust

Metadata = tuple[tuple[str, str], ...]
Trailer = tuple[tuple[str, str | bytes], ...]

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_FRAME_BYTES = MAX_MESSAGE_BYTES + 1024 * 1024
PING = "ping"
"""The method of a call that is answered at once."""
MAX_TOKEN_BYTES, GREETING_S = 1024, 5.0  # of a connection whose caller is not known yet
READ_BYTES = 64 * 1024
HEAD_BYTES = 4
FLUSH_S = 1.0  # for a caller to take the last answers
_CODES = {code.value[0]: code for code in grpc.StatusCode}

_log = structlog.get_logger()


def pipe_beside(socket: Path) -> Path:
    """Where the pipe of a shard is whose gRPC server listens on a socket."""
    return socket.with_suffix(".pipe")


class Call(msgspec.Struct, array_like=True, gc=False):
    """A request; without a method, the end of a call whose caller waits no more."""

    number: int
    method: str = ""
    request: bytes = b""
    timeout_s: float = 0.0
    metadata: Metadata = ()


class Answer(msgspec.Struct, array_like=True, gc=False):
    """The answer to a call, or the status that refuses it."""

    number: int
    answer: bytes = b""
    code: int = 0
    message: str = ""
    trailer: tuple[tuple[str, bytes], ...] = ()


def _too_large(message: bytes) -> str:
    return f"a message to or from a shard must have at most {MAX_MESSAGE_BYTES} bytes, got {len(message)}"


class Refused(Exception):
    """A call has another status than OK."""

    def __init__(self, code: grpc.StatusCode, message: str, trailer: Trailer) -> None:
        super().__init__(message)
        self.code, self.message, self.trailer = code, message, trailer


class Broken(Exception):
    """Nobody answers at the other end, or it has gone before it answered."""


_encoded = msgspec.msgpack.Encoder().encode
_call_of = msgspec.msgpack.Decoder(Call).decode
_answer_of = msgspec.msgpack.Decoder(Answer).decode


def cancellations() -> int:
    """How many have cancelled this task, a time-out included."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


class _Frames(asyncio.BufferedProtocol, ABC):
    """An end of a connection. What is not a frame ends it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = memoryview(bytearray(READ_BYTES))
        self._buffer = bytearray()
        self.most_frame_bytes = MAX_FRAME_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, problem: Exception | None) -> None:
        self._transport = None

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._received

    def buffer_updated(self, count: int) -> None:
        buffer = self._buffer
        buffer += self._received[:count]
        start, end = 0, len(buffer)
        while end - start >= HEAD_BYTES:
            after = start + HEAD_BYTES + int.from_bytes(buffer[start : start + HEAD_BYTES])
            if after - start > self.most_frame_bytes:
                _log.error("pipe_broken", problem=f"a frame has {after - start} bytes")
                self.close()
                return
            if after > end:
                break
            if not self.is_open:
                return
            with memoryview(buffer)[start + HEAD_BYTES : after] as frame:
                self.received(frame)
            start = after
        del buffer[:start]

    @abstractmethod
    def received(self, frame: memoryview) -> None:
        """Take a frame."""

    def send(self, message: Call | Answer) -> bool:
        """Send a message; whether there is still a connection."""
        if self._transport is None:
            return False
        data = _encoded(message)
        self._transport.write(len(data).to_bytes(HEAD_BYTES) + data)
        return True

    @property
    def is_open(self) -> bool:
        """Whether there is still a connection."""
        return self._transport is not None

    def finish(self) -> None:
        """End the connection when all that was sent has left."""
        if self._transport is not None:
            self._transport.close()

    def close(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None


# The front's end.


def _has_come(answer: asyncio.Future[bytes]) -> bool:
    """Whether a call has its answer."""
    return answer.done() and not answer.cancelled() and answer.exception() is None


class _Calls(_Frames):
    """Calls that wait for their answers."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[int, asyncio.Future[bytes]] = {}
        self._retires = False

    def received(self, frame: memoryview) -> None:
        answer = _answer_of(frame)
        waits = self.waiting.get(answer.number)
        if waits is None or waits.done():
            return
        if answer.code:
            trailer = tuple(
                (key, value if key.endswith("-bin") else value.decode()) for key, value in answer.trailer
            )
            waits.set_exception(Refused(_CODES[answer.code], answer.message, trailer))
        else:
            waits.set_result(answer.answer)

    def retire(self, grace_s: float) -> None:
        """End the connection when all calls have their answers, or after so long."""
        self._retires = True
        self.close_if_idle()
        if self.is_open:
            asyncio.get_running_loop().call_later(grace_s, self.close)

    def close_if_idle(self) -> None:
        """End it if it retires, and no call waits."""
        if self._retires and not self.waiting:
            self.close()

    def greet(self, token: str) -> None:
        """Show that this is a process of the cluster."""
        if self._transport is not None:
            data = token.encode()
            self._transport.write(len(data).to_bytes(HEAD_BYTES) + data)

    def connection_lost(self, problem: Exception | None) -> None:
        super().connection_lost(problem)
        for waits in self.waiting.values():
            if not waits.done():
                waits.set_exception(Broken())


class Pipe:
    """The way to a shard. It is opened by the first call, and again when it has broken."""

    def __init__(self, location: Location, trust: Trust = ALONE) -> None:
        """Raises OSError if its certificates cannot be read."""
        self._location, self._trust = location, trust
        self._tls = trust.client() if location.host else None
        self._calls: _Calls | None = None
        self._opening = asyncio.Lock()
        self._last = 0

    async def call(self, method: str, request: bytes, timeout_s: float, metadata: Metadata = ()) -> bytes:
        """The answer of a method. Raises Refused, Broken, or TimeoutError if it takes longer."""
        if len(request) > MAX_MESSAGE_BYTES:
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, _too_large(request), ())
        async with asyncio.timeout(timeout_s) as time:
            calls = self._calls
            if calls is None or not calls.is_open:
                calls = await self._opened()
            self._last = number = self._last + 1
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            calls.waiting[number] = answer
            try:
                if not calls.send(Call(number, method, request, timeout_s, metadata)):
                    raise Broken
                return await answer
            except asyncio.CancelledError:  # by the time-out, too
                if time.expired() and _has_come(answer) and cancellations() == 1:
                    return answer.result()  # it has come while this process stood still, and may have leases
                calls.send(Call(number))
                raise
            finally:
                del calls.waiting[number]
                calls.close_if_idle()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._calls is not None and self._calls.is_open

    async def _opened(self) -> _Calls:
        async with self._opening:
            if self._calls is None or not self._calls.is_open:
                try:
                    self._calls = await self._connected()
                except OSError as problem:
                    raise Broken from problem
            return self._calls

    async def _connected(self) -> _Calls:
        loop, location = asyncio.get_running_loop(), self._location
        if not location.host:
            _, calls = await loop.create_unix_connection(_Calls, str(pipe_beside(Path(location.socket))))
            return calls
        name = None if self._tls is None else self._trust.name_of(location.host)
        _, calls = await loop.create_connection(
            _Calls, location.host, location.pipe_port, ssl=self._tls, server_hostname=name
        )
        calls.greet(self._trust.token)
        return calls

    def close(self) -> None:
        """Break it off: calls that wait are broken."""
        if self._calls is not None:
            self._calls.close()

    def retire(self, grace_s: float) -> None:
        """Let the calls that wait have their answers, for so long at most. The next call opens it again."""
        if self._calls is not None:
            self._calls.retire(grace_s)
            self._calls = None


# The shard's end.


class _Context:
    """What the handler of a call is told of it: the part of gRPC's context that handlers use."""

    def __init__(self, call: Call, connection: "_Answers") -> None:
        self._call = call
        self._connection = connection
        self._end_s = asyncio.get_running_loop().time() + call.timeout_s
        self._code: grpc.StatusCode | None = None
        self._is_read = self.left = False
        self.message = ""
        self.trailer: tuple[tuple[str, bytes], ...] = ()

    async def read(self) -> Any:
        """The request; then there is nothing more."""
        if self._is_read:
            return grpc.aio.EOF
        self._is_read = True
        return self._call.request

    async def abort(self, code: grpc.StatusCode, details: str = "", trailer: Trailer = ()) -> NoReturn:
        """End the call with a status."""
        self._code, self.message = code, details
        self.trailer = tuple(
            (key, value if isinstance(value, bytes) else value.encode()) for key, value in trailer
        )
        raise grpc.aio.AbortError

    def invocation_metadata(self) -> Metadata:
        """What the call says of its caller."""
        return self._call.metadata

    def auth_context(self) -> Mapping[str, Any]:
        """Nothing: the folder of the socket is private."""
        return {}

    def peer(self) -> str:
        """Where the call comes from."""
        return "unix:"

    def time_remaining(self) -> float:
        """How long its caller waits."""
        return max(self._end_s - asyncio.get_running_loop().time(), 0.0)

    def code(self) -> grpc.StatusCode | None:
        """The status that it ended with."""
        return self._code

    def done(self) -> bool:
        """Whether its caller waits no more."""
        return self.left or not self._connection.is_open


class _Answers(_Frames):
    """Calls that are being answered."""

    def __init__(self, server: "PipeServer", trust: Trust | None = None) -> None:
        """With `trust`, whoever connects must show first that it is of the cluster."""
        super().__init__()
        self._server = server
        self._awaits_token = trust
        if trust is not None:
            self.most_frame_bytes = MAX_TOKEN_BYTES
        self._tasks: dict[int, tuple[asyncio.Task[None], _Context]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.join(self)
        if self._awaits_token is not None:
            asyncio.get_running_loop().call_later(GREETING_S, self._refuse)

    def _refuse(self) -> None:
        """End a connection whose caller has not shown the token."""
        if self._awaits_token is not None and self.is_open:
            _log.warning("pipe_refused", problem="a caller must show the token of the cluster first")
            self.close()

    def connection_lost(self, problem: Exception | None) -> None:
        super().connection_lost(problem)
        self._server.leave(self)
        for number in list(self._tasks):
            self._leave(number)

    def received(self, frame: memoryview) -> None:
        if self._awaits_token is not None:
            if self._awaits_token.knows(bytes(frame)):
                self._awaits_token, self.most_frame_bytes = None, MAX_FRAME_BYTES
            else:  # what follows in the same packet is refused, too
                self._refuse()
            return
        call = _call_of(frame)
        if not call.method:
            self._leave(call.number)
            return
        context = _Context(call, self)
        task = asyncio.get_running_loop().create_task(self._answer(call, context))
        self._tasks[call.number] = task, context
        task.add_done_callback(lambda _: self._tasks.pop(call.number))  # it may end before it has begun

    def _leave(self, number: int) -> None:
        """Note that the caller of a call waits no more."""
        if number in self._tasks:
            task, context = self._tasks[number]
            context.left = True
            task.cancel()

    async def _answer(self, call: Call, context: _Context) -> None:
        try:
            answer = Answer(call.number, await self._server.answer(call, context))
        except grpc.aio.AbortError:
            code: grpc.StatusCode = context.code() or grpc.StatusCode.UNKNOWN
            answer = Answer(call.number, b"", code.value[0], context.message, context.trailer)
        except Exception:
            _log.exception("call_failed")
            answer = Answer(call.number, b"", grpc.StatusCode.UNKNOWN.value[0], "the shard has failed")
        self.send(answer)

    @property
    def running(self) -> list[asyncio.Task[None]]:
        """The tasks that answer."""
        return [task for task, _ in self._tasks.values()]


class PipeServer:
    """Serves the methods of a gRPC server whose calls have one request and one answer."""

    def __init__(self) -> None:
        self.connections: set[_Answers] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()
        self._handlers: dict[str, Any] = {}
        self._servers: list[asyncio.Server] = []
        self._socket: Path | None = None
        self._ends = False
        self._heard_s = asyncio.get_running_loop().time()

    def add_generic_rpc_handlers(self, handlers: Iterable[Any], /) -> None:
        """Does nothing: the same handlers also come as registered ones."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any], /) -> None:
        """Serve the methods of a service."""
        for name, handler in handlers.items():
            if not handler.response_streaming:
                self._handlers[f"{service}/{name}"] = handler

    def join(self, connection: _Answers) -> None:
        """Note a connection."""
        self.connections.add(connection)
        self._none_left.clear()

    def leave(self, connection: _Answers) -> None:
        """Note that a connection has ended."""
        self.connections.discard(connection)
        if not self.connections:
            self._none_left.set()

    async def start(self, socket: Path) -> None:
        """Listen. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_unix_server(lambda: _Answers(self), str(socket)))
        self._socket = socket

    async def start_for(self, host: str, trust: Trust) -> int:
        """Listen for other machines of the cluster, too; the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Answers(self, trust), host, 0, ssl=trust.server())
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    @property
    def silent_s(self) -> float:
        """For how long nobody has called."""
        return asyncio.get_running_loop().time() - self._heard_s

    async def answer(self, call: Call, context: _Context) -> bytes:
        """The answer to a call. Raises AbortError if it is refused."""
        self._heard_s = asyncio.get_running_loop().time()
        if call.method == PING:
            return b""
        handler = self._handlers.get(call.method)
        if handler is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"there is no method {call.method}")
        if self._ends:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the shard ends")
        if handler.request_streaming:
            answer = await handler.stream_unary(None, context)
        else:
            answer = await handler.unary_unary(handler.request_deserializer(call.request), context)
        data: bytes = handler.response_serializer(answer)
        if len(data) > MAX_MESSAGE_BYTES:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _too_large(data))
        return data

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls, wait so long for those that have begun, then break all off."""
        self._ends = True
        for server in self._servers:
            server.close()
        running = [task for connection in self.connections for task in connection.running]
        if running:
            await asyncio.wait(running, timeout=grace_s)
        for connection in list(self.connections):
            connection.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await self._none_left.wait()
        for connection in list(self.connections):
            connection.close()
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)


class Both:
    """A server to which services are added that two servers serve."""

    def __init__(self, *servers: Any) -> None:
        self._servers = servers

    def add_generic_rpc_handlers(self, handlers: Iterable[Any], /) -> None:
        """Let all find methods by their names."""
        for server in self._servers:
            server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any], /) -> None:
        """Let all serve a service."""
        for server in self._servers:
            server.add_registered_method_handlers(service, handlers)
