"""Common to the router's RPCs: refusals of shards are relayed, and some callers need no answer of all."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from ..core.rows.errors import FrontierError, ShardAway
from ..service.answers import Context, Handler, Stream, abort
from ..shards.links import Link, Relayed
from ..shell.runner import Closing, TryLater

V = TypeVar("V")


def routed(handler: Handler) -> Handler:
    """A handler with one answer. What shards, or the router itself, refuse becomes a status."""

    @functools.wraps(handler)
    async def wrapper(self: object, request: Any, context: Context) -> Any:
        try:
            return await handler(self, request, context)
        except Relayed as refusal:
            await context.abort(refusal.code, refusal.message, refusal.trailer)
        except (FrontierError, TryLater, Closing) as problem:
            await abort(context, problem)

    return wrapper  # type: ignore[return-value]  # same signature


def routed_stream(handler: Stream) -> Stream:
    """A handler with a stream of answers, likewise."""

    @functools.wraps(handler)
    async def wrapper(self: object, request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            answers: Any = handler(self, request, context)
            async with contextlib.aclosing(answers):
                async for answer in answers:
                    yield answer
        except Relayed as refusal:
            await context.abort(refusal.code, refusal.message, refusal.trailer)
        except (FrontierError, TryLater, Closing) as problem:
            await abort(context, problem)

    return wrapper  # type: ignore[return-value]  # same signature


async def answer_of(link: Link, ask: Callable[[], Coroutine[Any, Any, V]], partial: bool) -> V | None:
    """The answer of a shard; None if it is away, and the caller takes those of the others alone (`partial`).
    Nobody waits for a shard that is known to be away. Raises ShardAway."""
    try:
        if link.away:
            raise link.absence()
        return await ask()
    except ShardAway:
        if partial:
            return None
        raise
