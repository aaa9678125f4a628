"""A web of small hosts on loopback that behave as they are told. It records every request.

Each host has an address of its own in 127.44.0.0/16, the only network that the kit's crawls allow. The
decoys are elsewhere: nobody may connect to them, and each connection is recorded.
"""

import contextlib
import errno
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from .answers import Pages, Request, Visit, text

ALLOWED = "127.44.0.0/16"
"""The addresses that fetchers may connect to."""

NOWHERE = f"{'x' * 64}.invalid"
"""A name without an address. Its first label is too long for DNS, so no resolver has to be asked."""

_DECOYS = {
    "linked": "127.45.0.1",
    "redirected": "127.45.0.2",
    "robots": "127.45.0.3",
    "local": "127.0.0.1",
    "local6": "::1",
}
_CLOSED = "127.44.255.1"
_MOST_HEAD_BYTES = 65_536
_PORT_TRIES = 1000
_PATIENCE_S = 120.0
_NOT_FOUND = text("<p>There is no such page.", status="404 Not Found")


@dataclass(slots=True)
class Site:
    """A host of the web."""

    key: str
    origin: str
    pages: Pages
    names: dict[str, str] = field(default_factory=dict)
    """The values of the placeholders on its pages, besides those of the whole web."""


class Web:
    """The hosts, each at its own socket. A context: at its end nobody listens any more."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.trespasses: list[str] = []
        """The decoys that somebody has connected to."""
        self._sites: dict[str, Site] = {}
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        self._over = threading.Event()
        self._closed = _bound(_CLOSED)  # bound and not listening: connections are refused
        self._sockets.append(self._closed)
        self.names = {
            "closed": _origin(self._closed),
            "nowhere": f"http://{NOWHERE}",
            **self._listen_at_decoys(),
        }
        """The values of placeholders on every host."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="web", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._sockets:
            each.close()

    def add(self, key: str, pages: Pages) -> Site:
        """Adds a host that answers like this."""
        number = len(self._sites) + 1
        listener = _bound(f"127.44.{number // 250}.{number % 250 + 1}")
        site = Site(key, _origin(listener), pages)
        self._sites[key] = site
        self._listen(listener, partial(self._serve, site))
        return site

    def _listen_at_decoys(self) -> Mapping[str, str]:
        names = {}
        for name, sock in zip(_DECOYS, _bound_at_one_port(_DECOYS), strict=True):
            if sock is None:  # this system lacks the address
                continue
            names[name] = _origin(sock)
            self._listen(sock, partial(self._trespass, name))
        port = names["local"].rpartition(":")[2]
        others = {"localhost": "localhost", "mapped": "[::ffff:127.0.0.1]", "local6": "[::1]"}
        return {**{name: f"http://{host}:{port}" for name, host in others.items()}, **names}

    def _listen(self, sock: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        sock.listen(64)
        sock.setblocking(False)
        self._sockets.append(sock)
        self._selector.register(sock, selectors.EVENT_READ, serve)

    def _accept(self) -> None:
        while not self._over.is_set():
            for key, _ in self._selector.select(0.2):
                assert isinstance(key.fileobj, socket.socket)
                with contextlib.suppress(OSError):  # closed meanwhile, or the fetcher has gone
                    connection, _ = key.fileobj.accept()
                    connection.setblocking(True)
                    threading.Thread(target=key.data, args=(connection,), name="visit", daemon=True).start()

    def _serve(self, site: Site, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_PATIENCE_S)
            request = _read(site.key, connection)
            if request is None:
                return
            self.requests.append(request)
            try:
                answer = site.pages.get(request.path, _NOT_FOUND)
                answer(Visit(connection, request, {**self.names, **site.names, "own": site.origin}))
                request.complete = True
            finally:
                request.over = True

    def _trespass(self, name: str, connection: socket.socket) -> None:
        self.trespasses.append(self.names[name])
        connection.close()


def _read(site: str, connection: socket.socket) -> Request | None:
    """The request that comes; None if the fetcher hangs up before, or does not speak HTTP."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(_MOST_HEAD_BYTES)
        received += part
        if not part or len(received) > _MOST_HEAD_BYTES:
            return None
    first, *lines = received.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3:
        return None
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    now_s = time.monotonic()
    return Request(site, parts[1], headers, now_s, now_s)


def _bound(address: str, port: int = 0) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        sock.bind((address, port))
    except OSError:
        sock.close()
        raise
    return sock


def _bound_at_one_port(addresses: Mapping[str, str]) -> list[socket.socket | None]:
    """Sockets that are bound to these addresses, at the same port; None for one that the system lacks."""
    for _ in range(_PORT_TRIES):
        with contextlib.ExitStack() as opened:
            found: list[socket.socket | None] = []
            port = 0
            try:
                for address in addresses.values():
                    try:
                        sock = opened.enter_context(_bound(address, port))
                    except OSError as problem:
                        if problem.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                            raise
                        found.append(None)
                        continue
                    port = sock.getsockname()[1]
                    found.append(sock)
            except OSError:  # the port is taken at one of them
                continue
            opened.pop_all()
            return found
    raise OSError(errno.EADDRINUSE, "no port is free at all of " + ", ".join(addresses.values()))


def _origin(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
