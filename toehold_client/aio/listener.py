"""A listener: called for each event of a crawl as it happens, in a task of its own."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toehold.frontier.v1.frontier_pb2 import StateEventsResponse
from toehold_client.events import Event
from toehold_client.rpc.listeners import Hearing

from .streams import AsyncEventStream

Callback: TypeAlias = Callable[[Event], Awaitable[object] | object]
"""Called with each event. What it returns is awaited, if it can be."""


class AsyncListener(Hearing):
    """A listener on a crawl's events, called in a task of its own; `AsyncCrawlController.listen` starts it.

    Everything else is as Listener says.
    """

    def __init__(
        self,
        stream: AsyncEventStream,
        listener: Callback,
        first: StateEventsResponse,
    ) -> None:
        super().__init__(first)
        self._stream = stream
        self._listener = listener
        self._task = asyncio.create_task(self._listen(), name="toehold-listener")

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
        self.raise_error()
        return True

    async def close(self) -> None:
        """See Listener.close."""
        await self._stream.close()
        if asyncio.current_task() is not self._task:
            await self.join()

    async def _listen(self) -> None:
        try:
            async for message in self._stream:
                if message.HasField("event"):
                    answer = self._listener(Event(message.event))
                    if inspect.isawaitable(answer):
                        await answer
                self.note(message)
        except Exception as error:  # `join` raises it
            self._error = error
        finally:
            await self._stream.close()
