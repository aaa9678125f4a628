"""Watches whether shards answer, for a front that only reads: it leads none."""

import asyncio
from contextlib import aclosing, suppress
from typing import Never

from toehold.shard.v1 import shard_pb2

from ..core.rows.errors import ShardAway
from ..shell.tasks import Tasks
from .links import Link, Links

FOLLOW = "toehold.shard.v1.ShardService/Follow"
SILENT_S = 5.0
AGAIN_S = 0.1
MEET_S = 10.0  # shards begin with their front
_LOOK_S = 0.02


async def watch_all(links: Links, tasks: Tasks) -> None:
    """Watch all shards from now on. Returns when all are there, or have been away for long."""
    for link in links.all:
        tasks.keep(f"watch of shard {link.number}", _watch(link))
    with suppress(TimeoutError):
        async with asyncio.timeout(MEET_S):
            while links.missing:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(_LOOK_S)


async def _watch(link: Link) -> Never:
    while True:
        request, kind = shard_pb2.FollowRequest(), shard_pb2.FollowResponse
        with suppress(ShardAway):
            async with aclosing(link.messages(FOLLOW, request, kind, SILENT_S)) as messages:
                async for _ in messages:
                    link.away = False
        link.away = True
        await asyncio.sleep(AGAIN_S)
