"""StreamOutcomes over all shards: as they come, with a cursor that has the place in each.

There is no order between shards. A reader that comes back with the cursor of an outcome gets from each shard
what it has not had of it.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.rows.errors import InvalidRequest
from ..service.answers import Context, fitting_count
from ..shell.runner import Closing
from .answers import routed_stream
from .over_shards import OverShards

HEARTBEAT_S = 9.0  # a shard sends a sign of life every 10 s
_LISTING = "outcomes of all shards"
_SEPARATOR = " "
_CURSOR = re.compile(r"[0-9a-f]+")

Told = admin_pb2.StreamOutcomesResponse


def vector_cursor(cursors: Sequence[str]) -> str:
    """The cursor with these places of the shards."""
    return wire.page_token(_LISTING, _SEPARATOR.join(cursors).encode())


def cursors_of(text: str, shards: int) -> list[str] | None:
    """The places of the shards in a cursor; None if it is no cursor of so many shards."""
    if text in ("", wire.START_CURSOR):
        return [text] * shards
    place = wire.place_of(_LISTING, text) if _CURSOR.fullmatch(text) else None
    cursors = place.decode().split(_SEPARATOR) if place else []
    return cursors if len(cursors) == shards else None


class RoutedOutcomes(OverShards):
    """The RPC on final dispositions."""

    @routed_stream
    async def StreamOutcomes(
        self, request: admin_pb2.StreamOutcomesRequest, context: Context
    ) -> AsyncIterator[Told]:
        cursors = cursors_of(request.cursor, len(self._links))
        if cursors is None:
            raise InvalidRequest(
                f"{request.cursor[:40]!r} is not a cursor of StreamOutcomes; 'start' begins at the oldest "
                "outcome",
                field="cursor",
            )
        await self._check_known(request.crawl)
        async with AsyncExitStack() as stack:
            streams: list[AsyncGenerator[Told, None]] = []
            for link, cursor in zip(self._links.all, cursors, strict=True):
                asked = admin_pb2.StreamOutcomesRequest(
                    crawl=request.crawl, cursor=cursor, follow=request.follow
                )
                answers = self._stream(link, "StreamOutcomes", asked, Told, context)
                streams.append(await stack.enter_async_context(aclosing(answers)))
            firsts = await self._links.of_all(lambda link: anext(streams[link.number]))
            places = [first.cursor for first in firsts]
            yield Told(kept=merged_kept([first.kept for first in firsts]), cursor=vector_cursor(places))
            async with aclosing(self._together(request.crawl, streams)) as messages:
                async for shard, message in messages:
                    for part in _placed(message, shard, places):
                        yield part

    async def _together(
        self, crawl: str, streams: Sequence[AsyncGenerator[Told, None]]
    ) -> AsyncGenerator[tuple[int, Told], None]:
        """The messages of all streams with the streams' numbers, as they come, to the last one's end; of
        those without outcomes only as many as show that somebody lives. Raises Closing."""
        loop = asyncio.get_running_loop()
        silent_since_s = loop.time()
        coming = {asyncio.ensure_future(anext(stream)): number for number, stream in enumerate(streams)}
        try:
            while coming:
                awaited: list[asyncio.Future[Any]] = [*coming, self._runner.next_event(crawl)]
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)  # or when the front ends
                if not self._runner.serving:
                    raise Closing
                for task in sorted(filter(asyncio.Future.done, coming), key=lambda task: coming[task]):
                    number = coming.pop(task)
                    try:
                        message = task.result()
                    except StopAsyncIteration:
                        continue
                    if message.outcomes or loop.time() - silent_since_s >= HEARTBEAT_S:
                        silent_since_s = loop.time()
                        yield number, message
                    coming[asyncio.ensure_future(anext(streams[number]))] = number
        finally:
            for task in coming:
                task.cancel()
            await asyncio.gather(*coming, return_exceptions=True)


def _placed(message: Told, shard: int, places: list[str]) -> Iterator[Told]:
    """A shard's message with cursors of all shards, in as many parts as it needs; `places` follow it."""
    outcomes = list(message.outcomes)
    for outcome in outcomes:
        places[shard] = outcome.cursor
        outcome.cursor = vector_cursor(places)
    while True:
        count = fitting_count(outcomes)
        part, outcomes = outcomes[:count], outcomes[count:]
        yield Told(outcomes=part, cursor=part[-1].cursor if part else vector_cursor(places))
        if not outcomes:
            return


def merged_kept(ranges: Sequence[admin_pb2.KeptOutcomes]) -> admin_pb2.KeptOutcomes:
    """The range that all shards keep together."""
    return admin_pb2.KeptOutcomes(
        oldest_cursor=vector_cursor([each.oldest_cursor for each in ranges]),
        last_cursor=vector_cursor([each.last_cursor for each in ranges]),
        outcome_count=sum([each.outcome_count for each in ranges]),
    )
