"""Serves the hostile web: one process, one event loop, one listening socket for every nastiness, and for
each of the addresses that nobody may connect to.

    serve.py --state DIR

It prints one line of JSON when it serves: `ports` (by name), `decoy` (a port), `decoys` (the addresses that
listen there), `ca_file`, `log`. It serves until its standard input ends. The log has one line of JSON for
every connection, written when it is over: `name` (empty for a decoy's), `path`, `opened` and `closed`
(seconds on this machine's monotonic clock), `head_bytes` of the request.
"""

import argparse
import asyncio
import contextlib
import datetime
import json
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO

import trustme
from frontier_harness.ports import is_there, listeners_at_one_port

from practice_web.hostile.nastiness import DOMAIN, Nastiness, Ports, Visit, answers
from practice_web.hostile.table import NASTINESSES

ADDRESS = "127.66.0.1"
"""Where the hostile web is. A crawl of it allows no other address."""

DECOYS = ("127.0.0.1", "::1")
"""Where it leads crawlers to, and somebody listens."""

CERTIFICATES = ("good", "expired", "of-another-host", "of-nobody", "self-signed")

_NOT_FOUND = answers(b"<!DOCTYPE html><p>There is no such page here.", status="404 Not Found")


class Server:
    """Hands each connection to its nastiness, and logs it when it is over."""

    def __init__(self, contexts: Mapping[str, ssl.SSLContext], decoy: int, log: IO[str]) -> None:
        self._contexts = contexts
        self._decoy = decoy
        self._log = log
        self._connections: Counter[str] = Counter()

    async def visited(
        self,
        row: Nastiness,
        listener: socket.socket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Serves one connection."""
        opened = time.monotonic()
        ports = Ports(own=writer.get_extra_info("sockname")[1], decoy=self._decoy)
        visit = Visit(reader, writer, ports, self._contexts, partial(_close, listener))
        first = self._connections[row.name] == 0
        self._connections[row.name] += 1
        try:
            await self._serve(row, visit, first=first)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the crawler went away, as it should: many answers here have no end
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._note(row.name, visit.path, opened, len(visit.head))

    async def _serve(self, row: Nastiness, visit: Visit, *, first: bool) -> None:
        if row.greet is not None and (row.rude or not first):
            await row.greet(visit)
            return
        if row.certificate:
            await visit.secure("good" if first else row.certificate)
        visit.head = await visit.reader.readuntil(b"\r\n\r\n")
        if visit.path == "/robots.txt":
            handler = row.pages.get(visit.path, _NOT_FOUND)
        else:
            handler = row.pages.get(visit.path, row.otherwise or _NOT_FOUND)
        await handler(visit)

    async def decoyed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Notes that somebody has connected to where nobody may."""
        self._note("", writer.get_extra_info("sockname")[0], time.monotonic(), 0)
        writer.close()

    def _note(self, name: str, path: str, opened: float, head_bytes: int) -> None:
        closed = time.monotonic()
        entry = {"name": name, "path": path, "opened": opened, "closed": closed, "head_bytes": head_bytes}
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()


def certificates(state: Path) -> tuple[Path, dict[str, ssl.SSLContext]]:
    """The file of the authority that a crawler is told to trust, and a server's context for each of
    CERTIFICATES.
    """
    authority, stranger = trustme.CA(), trustme.CA()
    ca_file = state / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    hosts = sorted(row.host for row in NASTINESSES if row.certificate)
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    issued = {
        "good": authority.issue_cert(*hosts),
        "expired": authority.issue_cert(*hosts, not_after=yesterday),
        "of-another-host": authority.issue_cert(f"somewhere-else.{DOMAIN}"),
        "of-nobody": stranger.issue_cert(*hosts),
    }
    contexts = {}
    for name, certificate in issued.items():
        contexts[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(contexts[name])
    contexts["self-signed"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with stranger.cert_pem.tempfile() as certificate_file, stranger.private_key_pem.tempfile() as key_file:
        contexts["self-signed"].load_cert_chain(certificate_file, key_file)
    return ca_file, contexts


def _close(listener: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(listener)
    listener.close()


async def serve(state: Path) -> None:
    """Serves until standard input ends; prints the ready line."""
    ca_file, contexts = certificates(state)
    # All at the same port; on an address that this system lacks, none.
    decoys = listeners_at_one_port(*filter(is_there, DECOYS))
    decoy = decoys[0].getsockname()[1]
    ended = asyncio.Event()
    log_file = state / "visits.jsonl"
    ports: dict[str, int] = {}
    tasks: set[asyncio.Task[None]] = set()
    with log_file.open("w", encoding="utf-8") as log:
        server = Server(contexts, decoy, log)

        async def accept(
            row: Nastiness,
            listener: socket.socket,
            reader: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
        ) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            with contextlib.suppress(asyncio.CancelledError):  # only the end of the program cancels
                await server.visited(row, listener, reader, writer)

        for row in NASTINESSES:
            listener = socket.create_server((ADDRESS, 0), backlog=64)
            ports[row.name] = listener.getsockname()[1]
            await asyncio.start_server(partial(accept, row, listener), sock=listener)
        for listener in decoys:
            await asyncio.start_server(server.decoyed, sock=listener)
        ready = {
            "ports": ports,
            "decoy": decoy,
            "decoys": [listener.getsockname()[0] for listener in decoys],
            "ca_file": str(ca_file),
            "log": str(log_file),
        }
        await _when_stdin_ends(ended)
        print(json.dumps(ready), flush=True)
        await ended.wait()
        for task in tasks:
            task.cancel()


async def _when_stdin_ends(ended: asyncio.Event) -> None:
    class Watch(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()

    await asyncio.get_running_loop().connect_read_pipe(Watch, sys.stdin)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="serve.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="where files are kept")
    state = parser.parse_args().state.absolute()
    state.mkdir(parents=True, exist_ok=True)
    asyncio.run(serve(state))


if __name__ == "__main__":
    main()
