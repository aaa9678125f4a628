"""A nastiness: one host of the hostile web, what it does to a crawler, and how a crawl of it must end.

Handlers are small functions on the bytes of one connection. They are made by the functions here where they
do something ordinary, and written out where they do not.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

DOMAIN = "hostile.example"

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where things are, known only when sockets are bound: the host itself, and the listeners that nobody
    may connect to (`decoy`, the same port on all of their addresses).
    """

    own: int
    decoy: int

    def fill(self, text: str) -> str:
        """A text with `{own}` and `{decoy}` filled in."""
        return text.replace("{own}", str(self.own)).replace("{decoy}", str(self.decoy))


@dataclass(slots=True)
class Visit:
    """One connection of a crawler, and what can be done to it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ports: Ports
    contexts: Mapping[str, ssl.SSLContext]
    close_listener: Callable[[], None]
    """Closes the host's listening socket: connections are refused from then on."""
    head: bytes = b""
    """The request's head, once it was read."""

    @property
    def path(self) -> str:
        """The request's target."""
        return self.head.split(b" ", 2)[1].decode("latin-1") if self.head else ""

    async def send(self, *pieces: bytes) -> None:
        """Sends, as fast as the crawler reads."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def send_for_ever(self, piece: bytes, *, pause_s: float = 0.0) -> None:
        """Sends a piece again and again, until the crawler hangs up."""
        while True:
            await self.send(piece)
            if pause_s:
                await asyncio.sleep(pause_s)
                if self.reader.at_eof():
                    return

    async def until_gone(self) -> None:
        """Does nothing until the crawler hangs up."""
        while await self.reader.read(65536):
            pass

    async def secure(self, certificate: str) -> None:
        """Shakes hands as a TLS server with this certificate (a key of serve.CERTIFICATES)."""
        await self.writer.start_tls(self.contexts[certificate])

    def reset(self) -> None:
        """Ends the connection with a RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Handler: TypeAlias = Callable[[Visit], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Nastiness:
    """A host, `name`.hostile.example, whose seed is `scheme://host:port` and `start`.

    `pages` answers requests by path; a path that is not there is a 404, robots.txt included, unless
    `otherwise` answers. `greet` takes connections before a request is read: all but the first, which gets
    robots.txt, unless it is `rude` and takes that, too. `certificate` is that of the host, if it is https.

    `ends` has the fetch status that each URI of the host ends with, by its path; robots.txt is among them
    only where something is to be said of it. They end as often as `times` says: again before a cookie wall,
    since the crawl keeps cookies. Other URIs of the host must not have been fetched, unless there are up to
    `more` of them. A whole URI as a key is one on another host;
    `{decoy}` stands for the port of the listeners that must not be connected to, and `{own}` for the host's
    own. `notes`: the line of the first page has one of these annotations in crawl.log; several where it is
    a race which of two limits is met first.
    """

    name: str
    does: str
    ends: Mapping[str, int]
    pages: Mapping[str, Handler] = field(default_factory=dict)
    otherwise: Handler | None = None
    greet: Handler | None = None
    rude: bool = False
    certificate: str = ""
    start: str = "/"
    more: int = 0
    times: int = 1
    notes: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The host's name."""
        return f"{self.name}.{DOMAIN}"

    def url(self, path: str, ports: Ports) -> str:
        """The URI of a path of the host; of a key of `ends` that is a whole URI, that."""
        if not path.startswith("/"):
            return ports.fill(path)
        return f"{'https' if self.certificate else 'http'}://{self.host}:{ports.own}{ports.fill(path)}"


def head(*headers: str, status: str = "200 OK", length: int | None = None, media_type: str = HTML) -> bytes:
    """An answer's head; without `length` the body ends with the connection."""
    lines = [f"HTTP/1.1 {status}", *headers]
    if media_type:
        lines.append(f"Content-Type: {media_type}")
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


def says(*pieces: bytes) -> Handler:
    """Sends these bytes and hangs up."""

    async def handle(visit: Visit) -> None:
        await visit.send(*pieces)

    return handle


def says_for_ever(first: bytes, piece: bytes, *, pause_s: float = 0.0) -> Handler:
    """Sends something, and then something else without end."""

    async def handle(visit: Visit) -> None:
        await visit.send(first)
        await visit.send_for_ever(piece, pause_s=pause_s)

    return handle


def says_and_waits(*pieces: bytes) -> Handler:
    """Sends these bytes and falls silent."""

    async def handle(visit: Visit) -> None:
        await visit.send(*pieces)
        await visit.until_gone()

    return handle


def answers(body: bytes, *headers: str, status: str = "200 OK", media_type: str = HTML) -> Handler:
    """An answer with a body of the length that it says."""
    return says(head(*headers, status=status, length=len(body), media_type=media_type), body)


def sends_much(pieces: Callable[[], Iterable[bytes]], *headers: str, media_type: str = HTML) -> Handler:
    """An answer with a body that is made while it is sent, and ends with the connection."""

    async def handle(visit: Visit) -> None:
        await visit.send(head(*headers, media_type=media_type), *pieces())

    return handle


def page(html: str) -> Handler:
    """A page of HTML, with ports filled in."""

    async def handle(visit: Visit) -> None:
        body = visit.ports.fill(html).encode()
        await visit.send(head(length=len(body)), body)

    return handle


def redirect(location: str, status: str = "302 Found", *headers: str) -> Handler:
    """A redirect, with ports filled in."""

    async def handle(visit: Visit) -> None:
        target = visit.ports.fill(location)
        await visit.send(head(f"Location: {target}", *headers, status=status, length=0))

    return handle


def in_turn(*handlers: Handler) -> Handler:
    """One handler after the other, the last one for ever."""
    left = list(handlers)

    async def handle(visit: Visit) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(visit)

    return handle


LEAF = page("<p>Nothing beyond.")
"""A page that links nowhere."""


def link(path: str) -> str:
    """A link, in HTML."""
    return f'<a href="{path}">on</a>'
