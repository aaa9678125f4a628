"""Serves the practice web: one process, one event loop, one listening socket for every origin, and an
access log.

    serve.py --pages build/practice_pages --state DIR [--log FILE] [--by-address] [--until-stdin-ends]

It prints one line of JSON when it serves: `seeds`, `resolve` (HOST:PORT:ADDRESS, as curl has it),
`ca_file`, `log`, `hosts`. Ports and the certificate authority are made at the first start and kept in DIR,
so that a crawl can be resumed after a restart. It serves until SIGTERM, SIGINT or, if asked, the end of its
standard input. Exit codes: 0 ended as asked, 2 wrong usage or no pages, 3 a port is taken.
"""

import argparse
import asyncio
import contextlib
import errno
import gzip
import itertools
import json
import signal
import socket
import ssl
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import IO

import trustme

from practice_web import robots
from practice_web.log import Entry
from practice_web.reply import Reply, unchanged
from practice_web.web import ORIGINS, Origin, Web, by_address

IDLE_S = 60.0
"""How long a connection is kept open between requests."""

MOST_HEAD_BYTES = 256 * 1024
"""A longer request head is refused with 431."""

PATIENCE_WITH_PORTS_S = 3.0
"""How long to wait for ports of an earlier run: its process may still be ending."""

BACKLOG = 256


class Taken(Exception):
    """A port that an earlier run used is not free."""


class Server:
    """Answers requests of all origins, and logs each when it is done."""

    def __init__(self, web: Web, log: IO[str]) -> None:
        self._web = web
        self._log = log
        self._asked: Counter[tuple[str, str]] = Counter()
        self._numbers = itertools.count(1)

    async def connection(
        self, origin: Origin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serves one connection until either side has enough."""
        number = next(self._numbers)
        try:
            while await self._exchange(origin, number, reader, writer):
                pass
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # the client went away, or said nothing more; a request that this broke off has been logged
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError, TimeoutError):
                await writer.wait_closed()

    async def _exchange(
        self, origin: Origin, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """One request and its answer; says whether the connection stays open."""
        try:
            async with asyncio.timeout(IDLE_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            writer.write(b"HTTP/1.1 431 Too much\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return False
        start_time, start = time.time(), time.monotonic()
        method, target, headers = _parse(head)
        if method == "PRI":  # HTTP/2: somebody's gRPC, for a frontier that had this port before
            return False
        wanted = self._web.authority(origin).partition("://")[2]
        nth = self._asked[origin.key, target]
        self._asked[origin.key, target] += 1
        if headers.get("host", "").lower() != wanted:
            reply = Reply(421, body=f"This is {wanted}.\n".encode(), verbatim=True)
        elif method not in ("GET", "HEAD"):
            reply = Reply(405)
        else:
            reply = self._web.reply(origin, target, nth)
            if reply.etag is not None and headers.get("if-none-match") == reply.etag:
                reply = unchanged(reply)
        if origin.think_s:
            await asyncio.sleep(origin.think_s)
        outgoing = _Outgoing(
            reply, head_only=method == "HEAD", takes_gzip="gzip" in headers.get("accept-encoding", "")
        )
        finished = False
        try:
            await outgoing.send(reader, writer)
            finished = True
        finally:
            entry = Entry(
                start_time=start_time,
                start=start,
                duration_s=outgoing.last_write - start if finished else time.monotonic() - start,
                scheme=origin.scheme,
                host=origin.name,
                port=self._web.ports[origin.key],
                method=method,
                path=target,
                status=reply.status,
                bytes_sent=outgoing.sent,
                user_agent=headers.get("user-agent", ""),
                aborted=not finished,
                retry_until=outgoing.retry_until,
                connection=number,
            )
            self._log.write(json.dumps(asdict(entry)) + "\n")
            self._log.flush()
        return not outgoing.closes and headers.get("connection", "").lower() != "close"


class _Outgoing:
    """A reply on its way out.

    `last_write` is taken just before the last bytes are handed over: whatever the client does next comes
    after it, however long this process is kept waiting for the processor.
    """

    def __init__(self, reply: Reply, *, head_only: bool, takes_gzip: bool) -> None:
        self.sent = 0
        self.last_write = 0.0
        self.retry_until: float | None = None
        self.closes = reply.status == 0 or reply.short_by > 0
        self._reply = reply
        self._head_only = head_only
        self._takes_gzip = takes_gzip

    async def send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Sends head and body in the reply's manner. Raises ConnectionError if the client breaks off."""
        reply = self._reply
        self.last_write = time.monotonic()
        if reply.status == 0:
            return
        encoding = "gzip" if reply.gzip_if_accepted and self._takes_gzip else reply.encoding
        body = _encode(reply.body, encoding) if encoding else reply.body
        parts = (
            [b"%x\r\n%b\r\n" % (len(part), part) for part in _halves(body)] + [b"0\r\n\r\n"]
            if reply.chunked
            else [body]
        )
        head = self._head(encoding or reply.encoded_as, len(body))
        if self._head_only:
            parts = []
        if reply.pause_s:
            parts = [bytes([byte]) for byte in body]
        if len(parts) == 1 and reply.repeat == 1:
            parts = [head + parts[0]]
        else:
            writer.write(head)
            self.sent += len(head)
            parts *= reply.repeat
        for part in parts:
            if reply.pause_s:
                await asyncio.sleep(reply.pause_s)
                if reader.at_eof():
                    raise ConnectionResetError("the client left")
            self.last_write = time.monotonic()
            writer.write(part)
            self.sent += len(part)
            await writer.drain()

    def _head(self, encoding: str | None, length: int) -> bytes:
        reply = self._reply
        lines = [
            f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
            f"Date: {formatdate(usegmt=True)}",
        ]
        if reply.media_type is not None:
            lines.append(f"Content-Type: {reply.media_type}")
        if encoding is not None:
            lines.append(f"Content-Encoding: {encoding.removeprefix('raw-')}")
        if reply.etag is not None:
            lines.append(f"ETag: {reply.etag}")
        if reply.location is not None:
            lines.append(f"Location: {reply.location}")
        if reply.retry_after_s is not None:
            self.retry_until = time.time() + reply.retry_after_s
            if reply.retry_after_as_date:
                self.retry_until = float(int(self.retry_until))
                lines.append(f"Retry-After: {formatdate(self.retry_until, usegmt=True)}")
            else:
                lines.append(f"Retry-After: {reply.retry_after_s}")
        if reply.chunked:
            lines.append("Transfer-Encoding: chunked")
        elif reply.status not in (204, 304):
            lines.append(f"Content-Length: {length * reply.repeat + reply.short_by}")
        if self.closes:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, target and headers (names in lower case) of a request head."""
    first, *rest = head.decode("latin-1").split("\r\n")
    method, _, after = first.partition(" ")
    headers = {}
    for line in rest:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return method, after.rpartition(" ")[0], headers


def _halves(body: bytes) -> list[bytes]:
    half = len(body) // 2
    return [part for part in (body[:half], body[half:]) if part]


@lru_cache(maxsize=256)
def _encode(body: bytes, encoding: str) -> bytes:
    match encoding:
        case "gzip":
            return gzip.compress(body, compresslevel=6, mtime=0)
        case "deflate":
            return zlib.compress(body)
        case "raw-deflate":
            return zlib.compress(body, wbits=-zlib.MAX_WBITS)
        case _:
            raise ValueError(f"no such encoding: {encoding}")


# --- sockets, ports and certificates ------------------------------------------------------------


def bind(state: Path, origins: Sequence[Origin] = ORIGINS) -> dict[str, socket.socket]:
    """A listening socket for every origin, by its key, at the ports of an earlier run if there was one.
    Raises `Taken`.
    """
    kept = state / "ports.json"
    ports: dict[str, int] = json.loads(kept.read_text()) if kept.exists() else {}
    deadline = time.monotonic() + PATIENCE_WITH_PORTS_S
    sockets: dict[str, socket.socket] = {}
    for origin in origins:
        while origin.key not in sockets:
            port = ports.get(origin.key, 0)
            try:
                sockets[origin.key] = _listen(origin.address, port)
            except OSError as error:
                if time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                for listener in sockets.values():
                    listener.close()
                raise Taken(
                    f"port {port} of {origin.name} ({origin.address}), which {kept} keeps from an earlier"
                    f" run, is taken ({error.strerror}). End what listens there (another practice web on"
                    f" {state}?), or delete {kept} to take new ports; a crawl begun on the old ones cannot"
                    " resume then."
                ) from error
    ports = {key: listener.getsockname()[1] for key, listener in sockets.items()}
    kept.write_text(json.dumps(ports, indent=2) + "\n")
    return sockets


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL or address == "127.0.0.1":
                raise
            listener.bind(("127.0.0.1", port))  # this system has no other loopback addresses
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def certificates(state: Path, origins: Sequence[Origin] = ORIGINS) -> tuple[Path, ssl.SSLContext]:
    """The file of the CA's certificate, and a context for servers that it has signed."""
    ca_file, server_file = state / "ca.pem", state / "server.pem"
    if not (ca_file.exists() and server_file.exists()):
        authority = trustme.CA()
        issued = authority.issue_cert(
            *sorted({origin.name for origin in origins if origin.scheme == "https"})
        )
        server_file.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
        server_file.chmod(0o600)
        authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_file)
    return ca_file, context


# --- the program --------------------------------------------------------------------------------


async def serve(
    pages: Path, state: Path, log_file: Path, origins: Sequence[Origin], *, until_stdin_ends: bool
) -> None:
    """Serves until told to end; prints the ready line."""
    sockets = bind(state, origins)
    ca_file, context = certificates(state, origins)
    web = Web(pages, {key: listener.getsockname()[1] for key, listener in sockets.items()}, origins)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if until_stdin_ends:
        await _when_stdin_ends(ended)
    connections: set[asyncio.Task[None]] = set()
    with log_file.open("a", encoding="utf-8") as log:
        server = Server(web, log)

        async def accept(origin: Origin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            task.add_done_callback(connections.discard)
            with contextlib.suppress(asyncio.CancelledError):  # only the end of the program cancels
                await server.connection(origin, reader, writer)

        listeners = [
            await asyncio.start_server(
                partial(accept, origin),
                sock=sockets[origin.key],
                ssl=context if origin.scheme == "https" else None,
                limit=MOST_HEAD_BYTES,
            )
            for origin in origins
        ]
        print(json.dumps(_ready_line(web, sockets, ca_file, log_file)), flush=True)
        await ended.wait()
        for listener in listeners:
            listener.close()
        for task in connections:
            task.cancel()
        if connections:
            await asyncio.wait(connections, timeout=5)


async def _when_stdin_ends(ended: asyncio.Event) -> None:
    class Watch(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()

    await asyncio.get_running_loop().connect_read_pipe(Watch, sys.stdin)


def _ready_line(
    web: Web, sockets: dict[str, socket.socket], ca_file: Path, log_file: Path
) -> dict[str, object]:
    places = {key: listener.getsockname() for key, listener in sockets.items()}
    return {
        "seeds": web.seeds,
        "resolve": [
            f"{origin.name}:{places[origin.key][1]}:{places[origin.key][0]}"
            for origin in web.origins.values()
        ],
        "ca_file": str(ca_file),
        "log": str(log_file),
        "hosts": [
            {
                "key": origin.key,
                "name": origin.name,
                "scheme": origin.scheme,
                "address": places[origin.key][0],
                "port": places[origin.key][1],
                "asks_for_delay_s": robots.ROBOTS[origin.key].crawl_delay_s,
            }
            for origin in web.origins.values()
        ],
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="serve.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--pages", type=Path, required=True, metavar="DIR", help="pages that render.py has written"
    )
    parser.add_argument(
        "--state", type=Path, required=True, metavar="DIR", help="where ports and certificates are kept"
    )
    parser.add_argument(
        "--log",
        type=Path,
        metavar="FILE",
        help="access log, appended to (default: access.log in the state DIR)",
    )
    parser.add_argument(
        "--by-address", action="store_true", help="call hosts by their addresses instead of names"
    )
    parser.add_argument("--until-stdin-ends", action="store_true", help="end when standard input does")
    given = parser.parse_args()
    if not given.pages.is_dir():
        parser.error(f"--pages {given.pages}: no such folder. Render it first: render.py --out {given.pages}")
    state = given.state.absolute()
    try:
        state.mkdir(parents=True, exist_ok=True)
        asyncio.run(
            serve(
                given.pages,
                state,
                given.log or state / "access.log",
                by_address() if given.by_address else ORIGINS,
                until_stdin_ends=given.until_stdin_ends,
            )
        )
    except Taken as error:
        print(f"serve.py: {error}", file=sys.stderr)
        sys.exit(3)
    except OSError as error:
        print(f"serve.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
