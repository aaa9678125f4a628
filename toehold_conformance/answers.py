"""Answers of the kit's web: functions on a visit, made here where they do something ordinary.

Texts may have placeholders: `{own}` is the origin of the host itself (`http://127.44.0.1:8080`), and each
other host of the case has its name. `{closed}`, `{nowhere}` and the decoys are those of `web`.
"""

import gzip
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

_PATIENCE_S = 120.0
_RECEIVE_BYTES = 65_536


@dataclass(slots=True, eq=False)
class Request:
    """A request that reached the web. Times are seconds on the monotonic clock."""

    site: str
    path: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    began_s: float
    ended_s: float
    """When the last piece of the answer was sent, or when the fetcher hung up."""
    sent_bytes: int = 0
    complete: bool = False
    """The answer was sent as intended: the fetcher did not hang up before."""
    over: bool = False


@dataclass(slots=True)
class Visit:
    """One connection of a fetcher, and what can be done to it."""

    connection: socket.socket
    request: Request
    names: Mapping[str, str] = field(default_factory=dict)
    """The values of placeholders."""

    def fill(self, text: str) -> str:
        """A text with its placeholders filled in."""
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def send(self, *pieces: bytes) -> None:
        """Sends, as fast as the fetcher reads."""
        for piece in pieces:
            self.request.ended_s = time.monotonic()  # before the fetcher can have it
            self.connection.sendall(piece)
            self.request.sent_bytes += len(piece)

    def wait(self, seconds: float) -> None:
        """Does nothing for a while. Raises ConnectionError if the fetcher hangs up meanwhile."""
        self.connection.settimeout(seconds)
        try:
            if self.connection.recv(_RECEIVE_BYTES) == b"":
                raise ConnectionAbortedError
        except TimeoutError:
            return
        finally:
            self.request.ended_s = time.monotonic()
            self.connection.settimeout(_PATIENCE_S)

    def reset(self) -> None:
        """Ends the connection with a RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


Answer: TypeAlias = Callable[[Visit], None]

Pages: TypeAlias = Mapping[str, Answer]
"""The answers of a host, by path. A path that is missing, robots.txt included, is a 404."""

HTML = "text/html; charset=utf-8"


def head(*headers: str, status: str = "200 OK", length: int | None = None, media_type: str = HTML) -> bytes:
    """An answer's head. Without `length` the body ends with the connection."""
    lines = [f"HTTP/1.1 {status}", *headers]
    if media_type:
        lines.append(f"Content-Type: {media_type}")
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


def text(body: str, *headers: str, status: str = "200 OK", media_type: str = HTML) -> Answer:
    def answer(visit: Visit) -> None:
        content = visit.fill(body).encode()
        filled = [visit.fill(header) for header in headers]
        visit.send(head(*filled, status=status, length=len(content), media_type=media_type) + content)

    return answer


def page(*links: str, html: str = "") -> Answer:
    """A page of HTML that links to these."""
    return text(
        "<!DOCTYPE html><title>A page</title>" + html + "".join(f'<a href="{link}">on</a>' for link in links)
    )


LEAF = page()
"""A page without links."""


def robots(*lines: str, headers: tuple[str, ...] = ()) -> Answer:
    """A robots.txt with these lines."""
    return text("".join(f"{line}\n" for line in lines), *headers, media_type="text/plain")


def redirect(location: str, status: str = "302 Found") -> Answer:
    return text("", f"Location: {location}", status=status)


def says(*pieces: bytes) -> Answer:
    """Sends these bytes and hangs up."""
    return lambda visit: visit.send(*pieces)


def nothing(visit: Visit) -> None:
    """Hangs up without an answer."""


def silence(visit: Visit) -> None:
    """Says nothing until the fetcher hangs up."""
    visit.wait(_PATIENCE_S)


def stalls(*pieces: bytes) -> Answer:
    """Sends these bytes, and then says nothing until the fetcher hangs up."""

    def answer(visit: Visit) -> None:
        visit.send(*pieces)
        silence(visit)

    return answer


def later(seconds: float, answer: Answer = LEAF) -> Answer:
    """The same answer, after a while."""

    def answer_later(visit: Visit) -> None:
        visit.wait(seconds)
        answer(visit)

    return answer_later


def drip(first: bytes, *, seconds: float, pause_s: float = 0.2) -> Answer:
    """Sends a head and then a byte of a body again and again, for so long."""

    def answer(visit: Visit) -> None:
        visit.send(first)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            visit.wait(pause_s)
            visit.send(b"x")

    return answer


def flood(first: bytes, most_bytes: int) -> Answer:
    """Sends a head and then a body of so many bytes, until the fetcher hangs up."""

    def answer(visit: Visit) -> None:
        visit.send(first)
        for _ in range(most_bytes // _RECEIVE_BYTES):
            visit.send(b"x" * _RECEIVE_BYTES)

    return answer


def chunked(*pieces: str, last: bool = True) -> Answer:
    """A page in chunks; without the last one it is cut."""

    def answer(visit: Visit) -> None:
        visit.send(head("Transfer-Encoding: chunked"))
        for piece in pieces:
            content = visit.fill(piece).encode()
            visit.send(b"%x\r\n%s\r\n" % (len(content), content))
        if last:
            visit.send(b"0\r\n\r\n")

    return answer


def zipped(body: str, *, media_type: str = HTML) -> Answer:
    """An answer in gzip, if the fetcher accepts that."""

    def answer(visit: Visit) -> None:
        content = visit.fill(body).encode()
        accepts = "gzip" in visit.request.headers.get("accept-encoding", "")
        coded = gzip.compress(content) if accepts else content
        headers = ("Content-Encoding: gzip",) if accepts else ()
        visit.send(head(*headers, length=len(coded), media_type=media_type) + coded)

    return answer
