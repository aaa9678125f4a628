"""Waiting for what happens elsewhere: a condition and a deadline, never a fixed time."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

DEADLINE_S = 20.0


def eventually(holds: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return as soon as it holds; fail when it does not within the deadline."""
    until_s = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < until_s, what
        time.sleep(0.005)


async def soon(holds: Callable[[], object], what: str) -> None:
    """The same on an event loop."""
    until_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < until_s, what
        await asyncio.sleep(0.002)


async def turns(count: int = 50) -> None:
    """Let the event loop do all that it can do without waiting for anybody."""
    for _ in range(count):
        await asyncio.sleep(0)


class Callers:
    """Those who wait for answers."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Any]] = []

    def start(self, call: Awaitable[Any]) -> asyncio.Task[Any]:
        """Let one make a call."""

        async def caller() -> Any:
            return await call

        self.tasks.append(asyncio.create_task(caller()))
        return self.tasks[-1]


@contextlib.asynccontextmanager
async def callers() -> AsyncIterator[Callers]:
    """Callers who go when the test does, however it ends."""
    made = Callers()
    try:
        yield made
    finally:
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
