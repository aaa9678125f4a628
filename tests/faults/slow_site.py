"""A web site of many hosts on loopback whose pages take as long as a test wants, and its access log."""

import asyncio
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

ROBOTS = "/robots.txt"
LINKS_OF_A_PAGE = 2


@dataclass(slots=True, eq=False)
class Visit:
    """One request. Times are this process's monotonic clock: `start_s` when the request had come, `end_s`
    just before its answer was sent, or when the client broke it off (`cut`); None until then.
    """

    host: str
    path: str
    start_s: float
    end_s: float | None = None
    cut: bool = False


class SlowSite:
    """A site that serves within a `with` block, in a thread of its own.

    `robots.txt` is missing. Every other path, `/7`, is a page that links to two more, so that no host runs
    out of pages. A page of a host that is held is not answered until the host is let go.
    """

    port: int

    def __init__(self, host_count: int) -> None:
        self.hosts = [f"h{number}.site.test" for number in range(host_count)]
        self._visits: list[Visit] = []
        self._go: dict[str, asyncio.Event] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def seeds(self) -> list[str]:
        """The first page of every host."""
        return [self.page(host) for host in self.hosts]

    def page(self, host: str, path: str = "/") -> str:
        """The URL of a page."""
        return f"http://{host}:{self.port}{path}"

    @property
    def resolve(self) -> list[str]:
        """What a node must be told to find the hosts."""
        return [word for host in self.hosts for word in ("--resolve", f"{host}:{self.port}:127.0.0.1")]

    def hold(self) -> None:
        """From now on no page is answered until its host is let go."""
        asyncio.run_coroutine_threadsafe(self._hold(), self._loop).result()

    def let_go(self, hosts: Sequence[str] = ()) -> None:
        """Answers the pages of these hosts, or of all, at once."""
        asyncio.run_coroutine_threadsafe(self._let_go(hosts or self.hosts), self._loop).result()

    def log(self) -> list[Visit]:
        """All requests so far, in the order in which they came."""
        return list(self._visits)

    def in_flight(self) -> list[str]:
        """The hosts that have been asked for a page and have not answered."""
        return [visit.host for visit in self.log() if visit.end_s is None and visit.path != ROBOTS]

    async def _serve(self) -> asyncio.Server:
        self._go = {host: asyncio.Event() for host in self.hosts}
        await self._let_go(self.hosts)
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _end(self) -> None:
        self._server.close()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _hold(self) -> None:
        for go in self._go.values():
            go.clear()

    async def _let_go(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            self._go[host].set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request and its answer."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ", 2)[1]
            host = head.lower().partition("\r\nhost: ")[2].partition(":")[0]
            visit = Visit(host, path, time.monotonic())
            self._visits.append(visit)
            if path != ROBOTS:
                visit.cut = not await self._let_go_or_left(self._go[host], reader)
            visit.end_s = time.monotonic()
            writer.write(_answer(path))
            await writer.drain()
        writer.close()

    @staticmethod
    async def _let_go_or_left(go: asyncio.Event, reader: asyncio.StreamReader) -> bool:
        """Waits until a page may be answered, or its client has left; whether it may."""
        waits = asyncio.create_task(go.wait()), asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return not waits[1].done()
        finally:
            for wait in waits:
                wait.cancel()


def _answer(path: str) -> bytes:
    if path == ROBOTS:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    number = int(path.removeprefix("/") or "0")
    first = LINKS_OF_A_PAGE * number + 1
    body = "".join(f'<a href="/{link}">{link}</a>' for link in range(first, first + LINKS_OF_A_PAGE))
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n\r\n{body}"
    ).encode()
