"""Links to shards: a pipe and a channel each, and whether it answers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, TypeVar

import grpc
import structlog
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from toehold_base.access.shown import CALLER_KEY
from toehold_base.serving.addresses import Address
from toehold_base.serving.request_ids import REQUEST_ID_KEY

from ..core.rows.errors import ShardAway
from ..service.answers import OPERATOR_KEY, Context, operator_of, request_id
from ..service.gate import present_call
from .locations import Location
from .pipe import PING, Broken, Metadata, Pipe, Refused, Trailer, cancellations
from .trust import ALONE, TOKEN_KEY, Trust

_log = structlog.get_logger()

M = TypeVar("M", bound=Message)
V = TypeVar("V")

CALL_S = 60.0
NO_DEADLINE_S = 24 * 60 * 60.0  # for a call whose caller sets none: a shard that stands still is away soon
LAST_ANSWERS_S = 3.0  # for calls that are open when a shard begins to end
MARGIN_S = 0.2  # of a caller's deadline, to answer in
MAX_BYTES = 64 * 1024 * 1024
MAX_BACKOFF_MS = 500  # between two tries to reach a shard: it is back within some seconds
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_BYTES),
    ("grpc.max_send_message_length", MAX_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", MAX_BACKOFF_MS),
    ("grpc.use_local_subchannel_pool", 1),
)
_ENDS = ("SHUTTING_DOWN", "STORE_FAILED")  # a shard that gives these reasons is away at once
_DETAILS = "grpc-status-details-bin"


class Relayed(Exception):
    """A shard has refused a call. The refusal is the caller's."""

    def __init__(self, code: grpc.StatusCode, message: str, trailer: Trailer) -> None:
        super().__init__(message)
        self.code, self.message, self.trailer = code, message, trailer

    @property
    def reason(self) -> str:
        """The reason of its ErrorInfo; empty if it has none."""
        return _reason_of(self.trailer)


class Link:
    """The way to one shard."""

    def __init__(
        self,
        number: int,
        location: Location | None,
        trust: Trust = ALONE,
        name: str = "",
        must_be_met: bool = False,
    ) -> None:
        """`location` is where it is; None if that is not known yet. `name` is for people. With `must_be_met`
        it is away once its pipe has broken: what answers at its location then may have begun anew."""
        self.number = number
        self.name = name or f"shard {number}"
        self.is_present = asyncio.Event()
        self._trust = trust
        self._must_be_met = must_be_met
        self._lost = asyncio.Event()  # set when it goes away, and then another one
        self._location: Location | None = None
        self._pipe: Pipe | None = None
        self._channel: grpc.aio.Channel | None = None
        self._left: set[asyncio.Task[None]] = set()
        self._methods: dict[str, Any] = {}  # of streams
        self.move(location)

    def move(self, location: Location | None) -> None:
        """Reach it at another location from now on. Calls to the former one are broken off."""
        if location == self._location:
            return
        self._location = location
        self.away = True
        self._leave()
        if location is None:
            return
        try:
            self._pipe = Pipe(location, self._trust)
            credentials = self._trust.channel_credentials() if location.host else None
        except OSError as problem:  # of certificates
            _log.error("member_unreachable", member=self.name, problem=str(problem))
            return
        target = str(Address(location.host, location.port)) if location.host else f"unix:{location.socket}"
        self._channel = (
            grpc.aio.insecure_channel(target, _OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, (*_OPTIONS, *self._naming()))
        )

    def _naming(self) -> Sequence[tuple[str, str]]:
        """The option that lets TLS look for another name than that of the host."""
        name = self._trust.tls_name
        return (("grpc.ssl_target_name_override", name),) if name else ()

    def _leave(self) -> None:
        if self._channel is not None:
            closing = asyncio.get_running_loop().create_task(self._channel.close())
            self._left.add(closing)
            closing.add_done_callback(self._left.discard)
        self._channel = self._pipe = None
        self._methods.clear()

    def _reached(self) -> grpc.aio.Channel:
        """The channel. Raises ShardAway if it is not known where the member is."""
        if self._channel is None:
            raise self.absence()
        return self._channel

    def _shown(self, metadata: Metadata) -> Metadata:
        """What a stream tells of its caller."""
        if not self._trust.token:
            return metadata
        return (*metadata, (TOKEN_KEY, self._trust.token))

    @property
    def away(self) -> bool:
        """Whether it has not answered lately. Whoever follows the shard keeps this up to date."""
        return not self.is_present.is_set()

    @away.setter
    def away(self, away: bool) -> None:
        if away:
            if self._pipe is not None:
                self._pipe.close()
            self._miss()
        else:
            self.is_present.set()

    def step_back(self) -> None:
        """Be away from now on, but let calls that are open have their answers, for a while: a shard that ends
        in order gives them, and what it has leased would be lost with them."""
        if self.away:
            self.away = True  # calls that tried to meet it, and those who wait for it to be lost, end
            return
        if self._pipe is not None:
            self._pipe.retire(LAST_ANSWERS_S)
        self._miss()

    def _miss(self) -> None:
        self.is_present.clear()
        self._lost.set()
        self._lost = asyncio.Event()

    async def until_away(self) -> None:
        """Wait until it is away."""
        if not self.away:
            await self._lost.wait()

    async def while_there(self, work: Coroutine[Any, Any, V]) -> V:
        """The result of a step of a stream that a shard which stands still would leave open. Raises ShardAway
        when it goes away. Calls break then by themselves: their pipe is closed."""
        call = asyncio.create_task(work)
        lost = asyncio.create_task(self._lost.wait())
        try:
            await asyncio.wait((call, lost), return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise self.absence()
            return call.result()
        finally:
            lost.cancel()
            if not call.done():
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)

    def absence(self) -> ShardAway:
        """The refusal of a call that needs this shard."""
        message = f"{self.name} is away: what belongs to it waits; if it has ended, it is started again"
        return ShardAway(message, shard=str(self.number))

    async def call(
        self,
        method: str,
        request: Message,
        kind: type[M],
        timeout_s: float = CALL_S,
        metadata: Metadata = (),
        is_deadline: bool = False,
    ) -> M:
        """The answer of the shard. Raises Relayed for its refusal, ShardAway if there is no answer: also one
        that takes longer, unless the time is the deadline of a caller (`is_deadline`), whose call ends then.
        """
        data = request.SerializeToString()
        try:
            return kind.FromString(await self._called(method, data, timeout_s, metadata))
        except TimeoutError:
            if is_deadline and not self.away:
                message = f"shard {self.number} has not answered by the deadline; allow more time"
                raise Relayed(grpc.StatusCode.DEADLINE_EXCEEDED, message, ()) from None
            raise self.absence() from None

    async def _called(self, method: str, request: bytes, timeout_s: float, metadata: Metadata) -> bytes:
        if self._pipe is None:
            raise self.absence()
        if self._must_be_met and not (self.away or self._pipe.is_open):
            self.away = True
            raise self.absence()
        call = self._pipe.call(method, request, timeout_s, metadata)
        try:
            # A pipe that is closed while it connects goes on to wait for a machine that may have vanished.
            return await (self.while_there(call) if self.away else call)
        except Refused as refusal:
            relayed = Relayed(refusal.code, refusal.message, refusal.trailer)
            ends = refusal.code is grpc.StatusCode.UNAVAILABLE and not relayed.reason
            raise (self.absence() if ends or relayed.reason in _ENDS else relayed) from None
        except Broken:
            raise self.absence() from None

    async def ping(self, timeout_s: float) -> None:
        """Return if it answers. Raises ShardAway."""
        try:
            await self._called(PING, b"", timeout_s, ())
        except TimeoutError:
            raise self.absence() from None

    def stream(
        self, method: str, request: Message, kind: type[M], metadata: Metadata = ()
    ) -> grpc.aio.UnaryStreamCall[Any, M]:
        """A stream of answers."""
        known = self._methods.get(method)
        if known is None:
            known = self._methods[method] = self._reached().unary_stream(
                f"/{method}",
                request_serializer=_serialized,
                response_deserializer=kind.FromString,
            )
        found: grpc.aio.UnaryStreamCall[Any, M] = known(request, metadata=self._shown(metadata))
        return found

    async def answers(
        self, method: str, request: Message, kind: type[M], metadata: Metadata = ()
    ) -> AsyncGenerator[M, None]:
        """The messages of a stream, to its end. Raises Relayed for a refusal, ShardAway if it breaks off."""
        call = self.stream(method, request, kind, metadata)

        async def read() -> Any:
            return await self._unless_left(call.read())

        try:
            while (message := await self.while_there(read())) is not grpc.aio.EOF:
                yield message
        except grpc.aio.AioRpcError as error:
            raise self._problem(error) from None
        finally:
            call.cancel()

    def upload(self, method: str, kind: type[M], metadata: Metadata = ()) -> "Upload[M]":
        """A stream of messages to the shard, which answers at its end."""
        known = self._methods.get(method)
        if known is None:
            known = self._methods[method] = self._reached().stream_unary(
                f"/{method}", request_serializer=_serialized, response_deserializer=kind.FromString
            )
        return Upload(known(metadata=self._shown(metadata)), self._problem, self._unless_left)

    async def messages(
        self, method: str, request: Message, kind: type[M], silent_s: float
    ) -> AsyncGenerator[M, None]:
        """The messages of a stream. Raises ShardAway when it ends, breaks off, or is silent for so long; a
        member that is silent is away, and calls to it are broken off."""
        call = self.stream(method, request, kind)
        try:
            while True:
                async with asyncio.timeout(silent_s):
                    message = await self._unless_left(call.read())
                if message is grpc.aio.EOF:
                    break
                yield message  # type: ignore[misc]  # it is no EOF
        except TimeoutError:
            self.away = True
        except grpc.aio.AioRpcError:
            pass  # whatever it says, the stream is over
        finally:
            call.cancel()
        raise self.absence()

    async def pass_on(
        self, method: str, request: bytes, timeout_s: float = CALL_S, metadata: Metadata = ()
    ) -> bytes:
        """The answer of the shard in bytes, likewise. A shard that is away is not waited for."""
        if self.away:
            raise self.absence()
        try:
            return await self._called(method, request, timeout_s, metadata)
        except TimeoutError:
            raise self.absence() from None

    async def close(self) -> None:
        """Leave the shard."""
        self.away = True
        self._leave()
        await asyncio.gather(*self._left, return_exceptions=True)

    async def _unless_left(self, step: Awaitable[V]) -> V:
        """The result of a step of a stream. When the channel is left, gRPC cancels whoever waits: that is
        ShardAway, unless somebody else has cancelled this task."""
        try:
            return await step
        except asyncio.CancelledError:
            if cancellations():
                raise
            raise self.absence() from None

    def _problem(self, error: grpc.aio.AioRpcError) -> Exception:
        """What the end of a stream means: a refusal of the shard, or its absence. gRPC has many codes for a
        connection that has broken, but only a refusal has Toehold's ErrorInfo."""
        trailer = tuple((key, value) for key, value in error.trailing_metadata() or ())
        relayed = Relayed(error.code(), error.details() or "", trailer)
        return relayed if relayed.reason and relayed.reason not in _ENDS else self.absence()


class Upload(Generic[M]):
    """A stream of messages to a shard."""

    def __init__(
        self,
        call: grpc.aio.StreamUnaryCall[Any, M],
        problem_of: Callable[[grpc.aio.AioRpcError], Exception],
        unless_left: Callable[[Awaitable[Any]], Awaitable[Any]],
    ) -> None:
        self._call = call
        self._problem_of = problem_of
        self._unless_left = unless_left

    async def send(self, message: Message) -> None:
        """Send a message. Raises Relayed or ShardAway if the shard has ended the stream."""
        try:
            await self._unless_left(self._call.write(message))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self.answer()

    async def answer(self) -> M:
        """End the stream; the shard's answer. Raises Relayed for its refusal, ShardAway if there is none."""
        try:
            if not self._call.done():
                await self._unless_left(self._call.done_writing())
            answer: M = await self._unless_left(self._call)
        except grpc.aio.AioRpcError as error:
            raise self._problem_of(error) from None
        return answer

    def cancel(self) -> None:
        """Break the stream off."""
        self._call.cancel()


class Links:
    """The ways to all shards."""

    def __init__(self, links: Sequence[Link], shard_of: Callable[[bytes], int]) -> None:
        """`shard_of` tells the shard that has a partition, by the partition's first two bytes."""
        self.all = list(links)
        self.shard_of = shard_of

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, number: int) -> Link:
        return self.all[number]

    @property
    def present(self) -> list[Link]:
        """The ways to the shards that answer."""
        return [link for link in self.all if not link.away]

    @property
    def missing(self) -> list[int]:
        """The numbers of the shards that are away."""
        return [link.number for link in self.all if link.away]

    async def of_all(
        self, ask: Callable[[Link], Coroutine[Any, Any, V]], of: Iterable[Link] | None = None
    ) -> list[V]:
        """The answers of all shards, or of some, asked at once. Raises the first failure when all have
        answered."""
        answers = await asyncio.gather(
            *(ask(link) for link in (self.all if of is None else of)), return_exceptions=True
        )
        found: list[V] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            found.append(answer)
        return found

    async def close(self) -> None:
        """Close all channels."""
        for link in self.all:
            await link.close()


def check_present(links: Iterable[Link]) -> None:
    """Raise ShardAway if one of these shards is away."""
    for link in links:
        if link.away:
            raise link.absence()


def passed_on(context: Context) -> Metadata:
    """What a shard must know of the caller of a call: its name, if it has one, and those in the logs."""
    return passed_on_of(operator_of(context))


def passed_on_of(operator: str) -> Metadata:
    """The same, given the name of the operator."""
    passed = [(OPERATOR_KEY, operator.encode("ascii", "replace").decode())]
    if (caller := present_call().caller) is not None:
        passed.append((CALLER_KEY, caller.name))
    if known := request_id():
        passed.append((REQUEST_ID_KEY, known))
    return tuple(passed)


def time_left_s(context: Context) -> float:
    """How long a shard may take to answer a call."""
    left_s: float | None = context.time_remaining()
    return NO_DEADLINE_S if left_s is None else max(left_s - MARGIN_S, MARGIN_S)


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _reason_of(trailer: Iterable[tuple[str, str | bytes]]) -> str:
    for key, value in trailer:
        if key == _DETAILS and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return info.reason
    return ""
