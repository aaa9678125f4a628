"""Waiting for what happens elsewhere: a condition and a deadline, never a fixed time.

The deadlines are the same everywhere, and long: one that is met costs nothing however long it is, while one
that fits a quiet machine fails on a busy one. pytest's own, in pyproject.toml, is longer than each of them.
"""

import asyncio
import contextlib
import inspect
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


def eventually(holds: Callable[[], _T | None], awaited: str = "", within_s: float = PATIENCE_S) -> _T:
    """Wait until a condition is truthy, and return its value. Raises Late, which names what was `awaited`;
    without a name it quotes the condition.
    """
    begun_s = time.monotonic()
    while not (found := holds()):
        time.sleep(_pause_s(begun_s, within_s, holds, awaited))
    return found


async def soon(holds: Callable[[], object], awaited: str = "") -> None:
    """The same on an event loop."""
    begun_s = time.monotonic()
    while not holds():
        pause_s = _pause_s(begun_s, PATIENCE_S, holds, awaited)
        await asyncio.sleep(pause_s)


def _pause_s(begun_s: float, within_s: float, holds: Callable[[], object], awaited: str) -> float:
    """The time to the next look, which grows with the wait: a look may be a call or a process of its own."""
    waited_s = time.monotonic() - begun_s
    if waited_s > within_s:
        raise Late(f"not within {within_s:.0f} s: {awaited or _source_of(holds)}")
    return min(max(0.002, waited_s / 10), 0.05)


def _source_of(condition: Callable[[], object]) -> str:
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):  # a partial, or a method of a type in C
        return repr(condition)


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
