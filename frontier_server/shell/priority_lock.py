"""A lock that lets one operation at a time run on the core, and operators first.

An operator's request must not wait behind thousands of streams and bulk requests.
"""

import asyncio
from collections import deque
from contextvars import ContextVar

_first: ContextVar[bool] = ContextVar("first", default=False)


def go_first() -> None:
    """Let this task's operations go first from now on."""
    _first.set(True)


class PriorityLock:
    """An async context manager. It is fair among tasks that go first, and among the others."""

    def __init__(self) -> None:
        self._taken = False
        self._first: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if not self._taken:
            self._taken = True
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._first if _first.get() else self._others).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # its turn had come
                self._pass_on()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        """Let the next waiter in, skipping those that have left."""
        for waiting in (self._first, self._others):
            while waiting:
                waiter = waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    return
        self._taken = False
