"""A network between a node and its frontier that can be slow, late, silent or cut."""

import asyncio
from contextlib import suppress
from enum import Enum, auto
from weakref import WeakSet

from frontier_harness.loopback_proxy import LoopbackProxy


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


class Proxy(LoopbackProxy):
    """A TCP proxy on loopback within a `with` block, in a thread of its own.

    `delay_s` is how long every piece of data is under way.
    """

    def __init__(self, target: str) -> None:
        super().__init__()
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._state = Network.WELL
        self.delay_s = 0.0
        self._half_closed: WeakSet[asyncio.StreamWriter] = WeakSet()

    @property
    def address(self) -> str:
        """Where it listens, HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    def become(self, state: Network) -> None:
        """Changes the network. Connections end when it is cut, and where bytes have vanished."""
        self._run(self._become(state))

    async def _become(self, state: Network) -> None:
        before, self._state = self._state, state
        if state is Network.CUT or before is Network.SILENT:
            self._break_off()
        if state is Network.LATE:
            self._goes_on.clear()
        else:
            self._goes_on.set()

    def half_close(self) -> None:
        """Ends one direction of each connection: a party may still hear, and what it says leads nowhere."""
        self._run(self._half_close())

    async def _half_close(self) -> None:
        for number, writer in enumerate(list(self._connections)):
            if number % 2 and writer.can_write_eof() and not writer.is_closing():
                writer.write_eof()
                self._half_closed.add(writer)

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
        with suppress(ConnectionError):  # one of both has gone
            while data := await reader.read(65536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._goes_on.wait()
                if writer in self._half_closed:
                    break
                if self._state is not Network.SILENT:
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()
