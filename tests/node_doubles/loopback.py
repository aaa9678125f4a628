"""A server on loopback that answers as it is told, and a fetcher whose fetches are closed with it."""

import socket
import ssl
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from typing import Any

from frontier_harness.waiting import eventually

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.fetch import NO_VALIDATORS, FetchPolicy, FetchResult, Validators
from crawler_node.fetching.http_fetch import HttpFetcher
from toehold_client.worker.addresses import AddressRule

LOOPBACK = AddressRule.parse(["loopback"])
AGENT = "toehold-test/1 (+https://contact.example/)"

LONG_MS = 60_000
"""The deadline of a fetch that has another reason to end: one that takes less has ended for that reason."""

SHORT_MS = 1_000
"""The deadline of a fetch that is to end by it, after something that must come in time on a busy machine."""

Answer = bytes | Callable[[socket.socket], None]


def policy(
    *, timeout_ms: int = LONG_MS, max_bytes: int = 1_000_000, addresses: AddressRule = LOOPBACK, **more: Any
) -> FetchPolicy:
    return FetchPolicy("p1", AGENT, timeout_ms, max_bytes, addresses, **more)


class Site:
    """A server on loopback that answers each request with the bytes, or by the function, set for its path."""

    def __init__(self, tls: ssl.SSLContext | None = None, listener: socket.socket | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[bytes] = []
        self.connections = 0
        self.over = threading.Event()
        self.hung_up = threading.Event()  # a client went away before its answer was complete
        self._tls = tls
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def close(self) -> None:
        self.over.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self._tls is None:
                self._answer(client)
            else:
                with self._tls.wrap_socket(client, server_side=True) as secured:
                    self._answer(secured)

    def _answer(self, client: socket.socket) -> None:
        request = b""
        while not request.endswith(b"\r\n\r\n"):
            piece = client.recv(65536)
            if not piece:
                return
            request += piece
        self.requests.append(request)
        answer = self.answers[request.split(b" ")[1].decode()]
        try:
            if callable(answer):
                answer(client)
            else:
                client.sendall(answer)
        except OSError:
            self.hung_up.set()

    def drip(self, client: socket.socket, first: bytes, drop: bytes) -> None:
        """Sends `first` and then `drop` again and again, for as long as anybody listens."""
        client.sendall(first)
        while not self.over.wait(0.005):
            client.sendall(drop)


class Fetching:
    """An HttpFetcher whose fetches are closed with it."""

    def __init__(self, resolver: Resolver, **options: Any) -> None:
        self._fetcher = HttpFetcher(resolver, **options)
        self.fetches: list[FetchResult] = []
        self.took_ms = 0.0  # the last one; its own duration begins after its deadline was set

    def fetch(
        self,
        uri: str,
        policy: FetchPolicy,
        cancellation: Cancellation | None = None,
        validators: Validators = NO_VALIDATORS,
        crawl: str = "",
        via: str = "",
    ) -> FetchResult:
        started_s = time.monotonic()
        return self._ended(self._fetcher.fetch(uri, policy, cancellation, validators, crawl, via), started_s)

    def cookie_mark(self, uri: str, policy: FetchPolicy, crawl: str) -> bytes:
        return self._fetcher.cookie_mark(uri, policy, crawl)

    def fetch_robots(
        self, uri: str, policy: FetchPolicy, cancellation: Cancellation | None = None, crawl: str = ""
    ) -> FetchResult:
        started_s = time.monotonic()
        return self._ended(self._fetcher.fetch_robots(uri, policy, cancellation, crawl), started_s)

    def _ended(self, fetch: FetchResult, started_s: float) -> FetchResult:
        self.took_ms = 1000 * (time.monotonic() - started_s)
        self.fetches.append(fetch)
        return fetch

    def close(self) -> None:
        self._fetcher.close()
        for fetch in self.fetches:
            fetch.close()


def relay_to(port: int) -> Callable[[socket.socket], None]:
    """Connects a client of a proxy through to a port."""

    def relay(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port)) as server:
            upward = threading.Thread(target=pump, args=(client, server), daemon=True)
            upward.start()
            pump(server, client)

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    return relay


def wait_for_hang_up(client: socket.socket) -> None:
    client.recv(1)


def reset(client: socket.socket) -> None:
    """Lets the end of the connection be a reset, once everything that was sent has arrived."""
    # With this, closing throws away what is not sent and resets the connection.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: not int.from_bytes(ioctl(client, termios.TIOCOUTQ, bytes(4)), sys.byteorder))


def body_of(fetch: FetchResult) -> bytes:
    fetch.body.seek(0)
    return fetch.body.read()


def ok(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def redirect(target: str) -> bytes:
    location = target.encode("utf-8", "surrogateescape")
    return b"HTTP/1.1 301 Moved\r\nLocation: %s\r\nContent-Length: 4\r\n\r\nhere" % location


def header_lines(request: bytes, name: bytes) -> list[bytes]:
    """The values of a header of a request."""
    lines = [line.partition(b": ") for line in request.split(b"\r\n")[1:]]
    return [value for key, _, value in lines if key == name]
