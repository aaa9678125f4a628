"""Server-sent events: how one is written, and answers that consist of them."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.responses import StreamingResponse

from .contract import Refusal

QUIET_S = 10.0
"""A stream without news for so long sends a comment, which tells both sides that the other is there."""
EVENT_STREAM = "text/event-stream"


def event(data: str, *, kind: str = "", identity: str = "") -> str:
    """One event; its data has one line. A browser repeats the identity of the last one when it reconnects."""
    lines = [f"event: {kind}"] if kind else []
    if identity and identity.isprintable():
        lines.append(f"id: {identity}")
    return "\n".join([*lines, f"data: {data}", "", ""])


class EventStream(StreamingResponse):
    """Events until their end. A refusal in between is the event `error`, and ends them."""

    media_type = EVENT_STREAM

    def __init__(self, events: AsyncIterator[str]) -> None:
        super().__init__(_ended_well(events), headers={"X-Accel-Buffering": "no"})


async def _ended_well(events: AsyncIterator[str]) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    try:
        async for each in events:
            yield each
    except Refusal as refusal:
        yield event(json.dumps(refusal.body()), kind="error")
    else:
        yield event("{}", kind="end")


async def resumed(
    first: asyncio.Future[str], rest: AsyncGenerator[str, None], ending: asyncio.Event
) -> AsyncIterator[str]:
    """The events of an iterator whose first one is asked for already, with comments in long silences, until
    its end or that of the console."""
    following, ended = first, asyncio.ensure_future(ending.wait())
    try:
        while not ending.is_set():
            await asyncio.wait((following, ended), timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                yield ": still here\n\n"
                continue
            try:
                each = following.result()
            except StopAsyncIteration:
                return
            yield each
            following = asyncio.ensure_future(anext(rest))
    finally:
        for each_task in (following, ended):
            each_task.cancel()
        await asyncio.gather(following, ended, return_exceptions=True)
        await rest.aclose()
