"""The server's essential tasks: if one ends unasked, the server ends.

Without its flusher no answer would ever leave, without its timer no lease would lapse; and
nobody would see why. So the end of such a task is a failure, as that of the store is.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import structlog

from ..core.rows.store import StoreFailed

_log = structlog.get_logger()


class Closing(Exception):
    """The server shuts down, or has failed. A task may end by raising it."""

    def __init__(self, reason: str = "SHUTTING_DOWN") -> None:
        failed = reason == "STORE_FAILED"
        super().__init__("the server has failed" if failed else "the server shuts down")
        self.reason = reason


class Tasks:
    """Tasks of an event loop. If one ends unasked, `fail` gets a message, and the exception or None."""

    def __init__(self, fail: Callable[[str, BaseException | None], None]) -> None:
        self._fail = fail
        self._running: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Task[None]] = set()  # asked to end

    def keep(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that goes on until `end`."""
        task = self._started(name, work)
        task.add_done_callback(lambda task: self._over(task, lasting=True))
        return task

    def once(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that ends by itself."""
        self._started(name, work).add_done_callback(lambda task: self._over(task, lasting=False))

    async def end(self, *tasks: asyncio.Task[None]) -> None:
        """End these tasks, or all. They have ended when this returns."""
        ending = set(tasks) or set(self._running)
        self._asked |= ending
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._asked -= ending

    def _started(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # A context of its own: a call that happens to start it must not lend it its request id.
        task = asyncio.create_task(work, name=name, context=Context())
        self._running.add(task)
        return task

    def _over(self, task: asyncio.Task[None], lasting: bool) -> None:
        self._running.discard(task)
        problem = None if task.cancelled() else task.exception()
        if task in self._asked or isinstance(problem, Closing):
            return
        ended = f"the {task.get_name()} ended"
        if problem is not None:
            if isinstance(problem, StoreFailed):  # whoever fails says why; a trace says no more
                _log.error("task_failed", task=task.get_name(), problem=str(problem))
            else:
                _log.error("task_failed", task=task.get_name(), exc_info=problem)
            self._fail(message_of(problem, ended), problem)
        elif task.cancelled():
            self._fail(f"{ended}: it was cancelled", None)
        elif lasting:
            self._fail(f"{ended}: it returned", None)


def message_of(problem: BaseException, what: str) -> str:
    """Why the server cannot continue, for people: the store has failed; or else `what` and the exception."""
    if isinstance(problem, StoreFailed):
        return f"the store failed: {problem}"
    return f"{what}: {type(problem).__name__}: {problem}"
