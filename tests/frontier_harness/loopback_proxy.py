"""A proxy on loopback for tests, which can let what comes in wait, and break connections off."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")


class LoopbackProxy(ABC):
    """A proxy within a `with` block, in a thread of its own. That thread alone touches connections."""

    port: int
    """Where it listens."""

    def __init__(self) -> None:
        self._goes_on = asyncio.Event()  # what comes in waits while it is not set
        self._goes_on.set()
        self._connections: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @abstractmethod
    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, which is among `_connections` meanwhile."""

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work in the proxy's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _break_off(self) -> None:
        for writer in self._connections:
            writer.transport.abort()

    async def _end(self) -> None:
        for listener in self._server.sockets:
            self._loop.remove_reader(listener)
        await asyncio.sleep(0)  # what was let in is served, or a closed server of Python 3.11 leaves it open
        self._server.close()
        self._goes_on.set()  # what waits is waited for by nobody
        while running := asyncio.all_tasks() - {asyncio.current_task()}:
            self._break_off()
            await asyncio.wait(running, timeout=0.01)  # one that was just let in has no writer yet
