"""Common to all RPCs: refusals become statuses, listings have pages."""

import asyncio
import contextlib
import functools
import importlib.metadata
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

import grpc
import structlog
from google.protobuf.message import Message

from toehold.frontier.v1 import admin_pb2_grpc, frontier_pb2
from toehold_base.access.denials import AccessDenied
from toehold_base.serving import statuses
from toehold_base.serving.open_services import MAX_REQUEST_BYTES, NotServed, NotThisCall, TooLarge, TooMany

from .. import wire
from ..config import Config
from ..core.core import Core
from ..core.rows.errors import BatchTooLarge, FrontierError, InvalidRequest
from ..core.state.model import MAX_BATCH
from ..core.uri.canonical import MAX_URI_BYTES
from ..logs.crawl_log import CrawlLogs
from ..shell.priority_lock import go_first
from ..shell.runner import Closing, Runner, TryLater
from ..stores.checkpoints import Checkpoints
from ..wire import status
from .gate import present_call

MAX_MESSAGE_BYTES = 8 * 1024 * 1024  # of a request
PAGE_BYTES = 3 * 1024 * 1024  # of a listing: by default a client takes 4 MiB
FRAME_BYTES = 6  # of a message within another, beside its own bytes
DEFAULT_PAGE, MAX_PAGE = 100, 1000

Context = grpc.aio.ServicerContext[Any, Any]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])
Stream = TypeVar("Stream", bound=Callable[..., AsyncIterator[Any]])
V = TypeVar("V")
M = TypeVar("M", bound=Message)
P = TypeVar("P")


class AdminRpcs(admin_pb2_grpc.FrontierAdminServiceServicer):
    """The base of FrontierAdminService's parts."""

    def __init__(
        self, runner: Runner, config: Config, logs: CrawlLogs, checkpoints: Checkpoints, start_ms: int
    ) -> None:
        self._runner = runner
        self._checkpoints = checkpoints
        self._config = config
        self._logs = logs
        self._start_ms = start_ms
        self._unheard: set[asyncio.Task[Any]] = set()  # these go on even if their caller is gone
        self._names: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of crawls

    async def _whoever_waits(self, work: Coroutine[Any, Any, V]) -> V:
        """The answer of work that is completed even if its caller leaves."""
        task = asyncio.create_task(work)
        self._unheard.add(task)
        task.add_done_callback(self._heard)
        return await asyncio.shield(task)

    def _heard(self, task: asyncio.Task[Any]) -> None:
        self._unheard.discard(task)
        if not task.cancelled():
            task.exception()  # read, so that asyncio does not log it: a caller who still waits has it


def version() -> str:
    """The installed version."""
    return importlib.metadata.version("toehold-crawler")


def core_kind() -> str:
    """`compiled` if the core comes from a wheel that has it compiled, else `interpreted`."""
    return "interpreted" if inspect.isfunction(Core.__init__) else "compiled"


def limits() -> frontier_pb2.Limits:
    return frontier_pb2.Limits(
        max_candidates=MAX_BATCH,
        max_reports=MAX_BATCH,
        max_message_bytes=MAX_MESSAGE_BYTES,
        max_uri_bytes=MAX_URI_BYTES,
    )


MAX_OPERATOR_CHARACTERS = 128
OPERATOR_KEY = "toehold-operator"
CRAWL_NUMBER_KEY = "toehold-crawl-number"
"""By it a router tells a shard which crawl it means, of those that have had its name."""


def operator_of(context: Context) -> str:
    """The caller's name. If callers have none, the operator that this one names, or else its address."""
    if (caller := present_call().caller) is not None:
        return caller.name
    metadata = context.invocation_metadata() or ()
    given = next((str(value) for key, value in metadata if key == OPERATOR_KEY), "")
    shown = "".join(letter for letter in given if letter.isprintable()).strip()
    return (shown or context.peer())[:MAX_OPERATOR_CHARACTERS]


# Refusals.


def code_of(problem: BaseException, context: Context) -> str:
    """The name of the status of a call that has ended by an exception."""
    if isinstance(problem, (asyncio.CancelledError, GeneratorExit, grpc.aio.InternalError)):
        return grpc.StatusCode.CANCELLED.name  # the caller has left
    code: Any = context.code()
    return code.name if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN.name


def answered(handler: Handler) -> Handler:
    """A handler with one answer, whose refusals become statuses."""

    @functools.wraps(handler)
    async def wrapper(self: object, request: Any, context: Context) -> Any:
        try:
            if isinstance(self, AdminRpcs) and isinstance(request, Message):  # not a stream of them
                go_first()
            return await handler(self, request, context)
        except (FrontierError, TryLater, Closing) as problem:
            await abort(context, problem)

    return wrapper  # type: ignore[return-value]  # same signature


def streamed(handler: Stream) -> Stream:
    """A handler with a stream of answers, whose refusals become statuses."""

    @functools.wraps(handler)
    async def wrapper(self: object, request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            answers: Any = handler(self, request, context)
            async with contextlib.aclosing(answers):
                async for answer in answers:
                    yield answer
        except (FrontierError, TryLater, Closing) as problem:
            await abort(context, problem)

    return wrapper  # type: ignore[return-value]  # same signature


async def abort(context: Context, problem: FrontierError | TryLater | Closing | AccessDenied) -> NoReturn:
    """End an RPC with the status of a refusal."""
    if isinstance(problem, AccessDenied):
        refused = statuses.of_denial(problem, request_id())
    elif isinstance(problem, FrontierError):
        refused = status.of_error(problem, request_id())
    elif isinstance(problem, TryLater):
        code, retry_ms = grpc.StatusCode.RESOURCE_EXHAUSTED, problem.retry_ms
        refused = statuses.refusal(
            code, problem.reason, str(problem), retry_ms=retry_ms, request_id=request_id()
        )
    else:
        code = grpc.StatusCode.UNAVAILABLE
        refused = statuses.refusal(code, problem.reason, str(problem), request_id=request_id())
    await context.abort(*refused)


async def refuse_openly(context: Context, problem: NotServed) -> NoReturn:
    """End a call of health or reflection with the status of a refusal."""
    if isinstance(problem, TooLarge):
        await abort(context, BatchTooLarge(str(problem), limit=str(MAX_REQUEST_BYTES)))
    if isinstance(problem, NotThisCall):
        await abort(context, InvalidRequest(str(problem), field=""))
    if isinstance(problem, TooMany):
        await abort(context, TryLater("OVERLOADED", str(problem), 1_000))
    await context.abort(problem.code, str(problem))
    raise AssertionError("gRPC's abort raises")


def request_id() -> str:
    """The id of the call that is answered now; empty if none is."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


# Pages.


def page_size(wanted: int) -> int:
    """How many items a page has at most. Raises InvalidRequest."""
    if not 0 <= wanted <= MAX_PAGE:
        raise InvalidRequest(f"page_size must be between 1 and {MAX_PAGE}, got {wanted}", field="page_size")
    return wanted or DEFAULT_PAGE


def place_of(listing: str, token: str) -> bytes:
    """Where a page of a listing begins. Raises InvalidRequest for a token that is not this listing's."""
    place = wire.place_of(listing, token)
    if place is None:
        raise InvalidRequest(
            f"page_token {token[:40]!r} does not belong to this listing; leave it out to begin again",
            field="page_token",
        )
    return place


def fitting(
    read: Callable[[int], tuple[Sequence[V], P]], size: int, encode: Callable[[V], M]
) -> tuple[list[M], P]:
    """A page of at most `size` messages that stays below PAGE_BYTES, and where the next page begins.

    `read` returns so many items, and the place after them. A page that is too large is read
    again, shorter, for the place after it. One item alone may be larger.
    """
    items, following = read(size)
    messages: list[M] = []
    room = PAGE_BYTES
    for item in items:
        message = encode(item)
        room -= message.ByteSize() + FRAME_BYTES
        if room < 0 and messages:
            _, following = read(len(messages))
            break
        messages.append(message)
    return messages, following


def fitting_count(messages: Sequence[Message]) -> int:
    """How many messages, from the first, stay below PAGE_BYTES; at least one, if there is one."""
    size = 0
    for count, message in enumerate(messages):
        size += message.ByteSize() + FRAME_BYTES
        if size > PAGE_BYTES and count:
            return count
    return len(messages)
