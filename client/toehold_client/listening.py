"""Listeners: called for each event of a crawl as it happens, in a thread or a task of their own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from toehold.frontier.v1.crawl_pb2 import Event
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse

from .rpc.streams import AsyncEventStream, EventStream


class _Hearing:
    """Where a listener is, and what it has ended with."""

    def __init__(self, first: StateEventsResponse) -> None:
        self._cursor = first.cursor
        self._error: BaseException | None = None

    @property
    def cursor(self) -> str:
        """Where to go on after the last event that the listener has returned from: `listen(…, cursor)`."""
        return self._cursor

    def _heard(self, message: StateEventsResponse) -> None:
        self._cursor = message.cursor or self._cursor

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


class Listener(_Hearing):
    """A listener on a crawl's events, called in a thread of its own; `CrawlController.listen` starts it.

    It ends when the stream of events does (`CrawlController.follow`), when the listener raises, when it is
    closed, and when the client is. A program that ends does not wait for it.
    """

    def __init__(self, stream: EventStream, listener: Callable[[Event], object]) -> None:
        # Once the first message is there, nothing that happens will be missed.
        super().__init__(next(stream, StateEventsResponse()))
        self._stream = stream
        self._listener = listener
        self._thread = threading.Thread(target=self._hear, name="toehold-listener", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """It has ended, and there is no error to be raised."""
        return not self._thread.is_alive() and self._error is None

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits until it has ended, at most `timeout_s`; whether it has.

        Raises what it ended with, once: what the listener raised, FrontierUnavailable, CursorTooOld.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self._raise_error()
        return True

    def close(self) -> None:
        """Calls the listener no more. Waits until it has returned, unless it is the listener that closes.

        Raises as `join` does. Closing again does nothing.
        """
        self._stream.close()
        if threading.current_thread() is not self._thread:
            self.join()

    def _hear(self) -> None:
        try:
            for message in self._stream:
                if message.HasField("event"):
                    self._listener(message.event)
                self._heard(message)
        except BaseException as error:  # whatever it is, `join` raises it
            self._error = error
        finally:
            self._stream.close()


class AsyncListener(_Hearing):
    """A listener on a crawl's events, called in a task of its own; `AsyncCrawlController.listen` starts it.

    Everything else is as Listener says.
    """

    def __init__(
        self,
        stream: AsyncEventStream,
        listener: Callable[[Event], Awaitable[object] | object],
        first: StateEventsResponse,
    ) -> None:
        super().__init__(first)
        self._stream = stream
        self._listener = listener
        self._task = asyncio.create_task(self._hear(), name="toehold-listener")

    @property
    def over(self) -> bool:
        """See Listener.over."""
        return self._task.done() and self._error is None

    async def join(self, timeout_s: float | None = None) -> bool:
        """See Listener.join."""
        if asyncio.current_task() is self._task:
            raise RuntimeError("a listener cannot wait for its own end")
        done, _ = await asyncio.wait({self._task}, timeout=timeout_s)
        if not done:
            return False
        self._raise_error()
        return True

    async def close(self) -> None:
        """See Listener.close."""
        await self._stream.close()
        if asyncio.current_task() is not self._task:
            await self.join()

    async def _hear(self) -> None:
        try:
            async for message in self._stream:
                if message.HasField("event"):
                    answer = self._listener(message.event)
                    if inspect.isawaitable(answer):
                        await answer
                self._heard(message)
        except Exception as error:  # whatever it is, `join` raises it
            self._error = error
        finally:
            await self._stream.close()


class _Ending(Protocol):
    @property
    def over(self) -> bool: ...


_L = TypeVar("_L", bound=_Ending)


class Listeners(Generic[_L]):
    """The listeners that a controller has started and that are not over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[_L] = []

    def add(self, listener: _L) -> _L:
        """Notes one; itself."""
        with self._lock:
            self._all = [each for each in self._all if not each.over] + [listener]
        return listener

    def take(self) -> list[_L]:
        """All of them; they are noted no more."""
        with self._lock:
            taken, self._all = self._all, []
        return taken
