"""Waiting for what happens elsewhere: a condition and a deadline, never a fixed time.

The deadlines are the same everywhere, and long: one that is met costs nothing however long it is, while one
that fits a quiet machine fails on a busy one. pytest's own, in pyproject.toml, is longer than each of them.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

PATIENCE_S = 60.0
"""How long a test waits for one thing: an answer, a thread, a program that starts or ends."""

WHOLE_CRAWL_S = 240.0
"""How long a test waits for what takes seconds on a quiet machine: a crawl of many pages, with all that may
happen to it.
"""

_T = TypeVar("_T")


class Late(AssertionError):
    """Something did not come in time."""


def eventually(
    holds: Callable[[], _T | None], what: str = "", deadline_s: float = PATIENCE_S, poll_s: float = 0.005
) -> _T:
    """What the condition gives, as soon as that is truthy. Raises Late, naming `what` was awaited."""
    until_s = time.monotonic() + deadline_s
    while not (found := holds()):
        if time.monotonic() > until_s:
            raise Late(f"not within {deadline_s:.0f} s: {what or 'what was waited for'}")
        time.sleep(poll_s)
    return found


async def soon(holds: Callable[[], object], what: str) -> None:
    """The same on an event loop."""
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until_s:
            raise Late(f"not within {PATIENCE_S:.0f} s: {what}")
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
