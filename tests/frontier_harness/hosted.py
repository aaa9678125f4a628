"""A frontier in a thread of the test's process: asked by blocking calls, and its parts in the test's hands.

For what a test must patch, look into, or keep from happening.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import grpc

from frontier_server.core.core import Core
from frontier_server.core.rows.store import WritableStore

from .calls import TIMEOUT_S, Stubs
from .in_process import Served, config, serving
from .waiting import PATIENCE_S

A = TypeVar("A")


class Hosted:
    """A frontier that serves: blocking stubs of both its services, and what is behind them."""

    def __init__(self, served: Served, stubs: Stubs, loop: asyncio.AbstractEventLoop, data: Path) -> None:
        self.data = data
        self.served = served
        self.stubs = stubs
        self._loop = loop
        self._logging: asyncio.Task[None] | None = None

    def wait(self, coroutine: Coroutine[Any, Any, A]) -> A:
        """What a coroutine answers that runs where the frontier does."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    def look(self, question: Callable[[Core], A]) -> A:
        """Ask the frontier itself, between two operations."""

        async def asked() -> A:
            return question(self.served.runner.core)

        return self.wait(asked())

    def write_logs(self) -> None:
        """Let crawl logs be written from now on."""

        async def begin() -> None:
            self._logging = self.served.runner.tasks.keep("crawl log", self.served.logs.run())

        self.wait(begin())

    async def end_logs(self) -> None:
        """Write what there is to write, if logs are written at all, and no more."""
        if self._logging is not None:
            await self.served.runner.tasks.end(self._logging)
            await self.served.logs.drain()


@contextlib.contextmanager
def hosted(store: WritableStore, data: Path, logs: bool = True, **settings: Any) -> Iterator[Hosted]:
    """A frontier over a store until the block ends; `settings` are those of `in_process.config`."""
    begun: Future[tuple[Served, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    ended: Future[None] = Future()
    made: list[Hosted] = []

    async def host() -> None:
        over = asyncio.Event()
        async with serving(store, config(data, **settings)) as served:
            begun.set_result((served, asyncio.get_running_loop(), over))
            await over.wait()
            for each in made:
                await each.end_logs()

    def body() -> None:
        try:
            asyncio.run(host())
        except BaseException as problem:
            (ended if begun.done() else begun).set_exception(problem)
        else:
            ended.set_result(None)

    threading.Thread(target=body, name="frontier", daemon=True).start()
    served, loop, over = begun.result(PATIENCE_S)
    try:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(served.address, options) as channel:
            made.append(Hosted(served, Stubs(channel), loop, data))
            if logs:
                made[0].write_logs()
            yield made[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        ended.result(PATIENCE_S)
