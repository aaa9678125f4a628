"""Keeps the replica of a store that has a log new enough for a quick start elsewhere."""

import asyncio
from pathlib import Path
from typing import Never

import structlog

from ..replicated.buckets import BucketFailed, requests_made
from ..shell.clock import Clock
from ..stores.logged import LoggedStore
from .member import REQUESTS

LOOK_S = 0.5
TAIL_ROWS, TAIL_RECORDS = 200_000, 500
"""A start elsewhere replays so many rows and reads so many records at most: about a second for each, if the
bucket gives 500 records a second. A replica costs some fourteen requests, and has up to 24 MiB anew."""
EVERY_S = 600.0  # if there are any
TELL_EVERY_S = 15.0
AGAIN_S = 10.0  # after a failure

_log = structlog.get_logger()


async def keep_replicas(store: LoggedStore, data: Path, clock: Clock) -> Never:
    """Make a replica whenever the log's tail has become long. Raises StoreFailed if the log is not ours."""
    loop = asyncio.get_running_loop()
    last_s = loop.time()
    told_s = 0.0
    while True:
        await asyncio.sleep(LOOK_S)
        if loop.time() - told_s >= TELL_EVERY_S:
            told_s = loop.time()
            print(f"{REQUESTS}{requests_made.total()}", flush=True)
        is_old = loop.time() - last_s >= EVERY_S and store.tail_rows
        is_long = store.tail_rows >= TAIL_ROWS or store.tail_records >= TAIL_RECORDS
        if not (is_long or is_old):
            continue
        began_s = loop.time()
        try:
            manifest = await asyncio.to_thread(store.replicate, data, clock.now_ms())
            await asyncio.to_thread(store.tidy)
        except (BucketFailed, OSError) as problem:
            _log.warning("replica_failed", problem=str(problem), again_s=AGAIN_S)
            await asyncio.sleep(AGAIN_S)
            continue
        last_s = loop.time()
        _log.info(
            "replica_made",
            file_bytes=manifest.size,
            files=len(manifest.files),
            took_s=round(last_s - began_s, 2),
        )
