"""A network between a node and its frontier that can be slow, late, silent or cut."""

import asyncio
import threading
from contextlib import suppress
from enum import Enum, auto
from typing import Self
from weakref import WeakSet


class Network(Enum):
    """What becomes of bytes."""

    WELL = auto()
    """They arrive."""
    CUT = auto()
    """Connections are broken, and new ones too."""
    SILENT = auto()
    """They vanish, and nobody is told."""
    LATE = auto()
    """They wait, and arrive when all is well again."""


class Proxy:
    """A TCP proxy on loopback within a `with` block, in a thread of its own.

    `delay_s` is how long every piece of data is under way.
    """

    address: str
    """Where it listens, HOST:PORT."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._state = Network.WELL
        self.delay_s = 0.0
        self._prompt = asyncio.Event()
        self._prompt.set()
        self._connections: set[asyncio.StreamWriter] = set()
        self._half_closed: WeakSet[asyncio.StreamWriter] = WeakSet()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, "127.0.0.1", 0), self._loop
        ).result()
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def become(self, state: Network) -> None:
        """Changes the network. Connections end when it is cut, and where bytes have vanished."""
        asyncio.run_coroutine_threadsafe(self._become(state), self._loop).result()

    async def _become(self, state: Network) -> None:
        before, self._state = self._state, state
        if state is Network.CUT or before is Network.SILENT:
            self._break_connections()
        if state is Network.LATE:
            self._prompt.clear()
        else:
            self._prompt.set()

    def half_close(self) -> None:
        """Ends one direction of each connection: a party may still hear, and what it says leads nowhere."""
        asyncio.run_coroutine_threadsafe(self._half_close(), self._loop).result()

    async def _half_close(self) -> None:
        for number, writer in enumerate(list(self._connections)):
            if number % 2 and writer.can_write_eof() and not writer.is_closing():
                writer.write_eof()
                self._half_closed.add(writer)

    def _break_connections(self) -> None:
        for writer in self._connections:
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        self._break_connections()
        self._prompt.set()  # what is late is waited for by nobody
        running = asyncio.all_tasks() - {asyncio.current_task()}
        if running:
            await asyncio.wait(running)

    async def _accept(self, from_node: asyncio.StreamReader, to_node: asyncio.StreamWriter) -> None:
        self._connections.add(to_node)
        try:
            if self._state is Network.CUT:
                return
            from_frontier, to_frontier = await asyncio.open_connection(self._host, self._port)
            self._connections.add(to_frontier)
            try:
                await asyncio.gather(self._pump(from_node, to_frontier), self._pump(from_frontier, to_node))
            finally:
                self._connections.discard(to_frontier)
                to_frontier.transport.abort()
        except OSError:
            pass  # there is no frontier at present
        finally:
            self._connections.discard(to_node)
            to_node.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hands on what comes in, until either side has enough."""
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._prompt.wait()
                if writer in self._half_closed:
                    break
                if self._state is not Network.SILENT:
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()
