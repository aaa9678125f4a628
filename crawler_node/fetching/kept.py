"""Connections between two requests: an answer that was read whole leaves its connection to the next request
to the same server, which saves both sides a handshake.

A connection serves one crawl and one fetch policy, thus one user agent, one rule of addresses and one set of
credentials. One waits for each of them and each server, and not for long, as a server may hang up at any
moment. Whoever takes it looks first whether the server has done so, or has sent what nobody asked for.
"""

import select
import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from cachetools import TTLCache

from toehold_client.worker.addresses import Address

MAX_KEPT = 256
"""The most connections that wait, for all servers together."""

IDLE_S = 15.0
"""The longest time that a connection waits."""

MAX_DISTRUSTED = 1_000
"""The most servers that are not trusted."""

DISTRUST_S = 600.0
"""How long nothing is kept of a server that has hung up at a request."""

MARGIN_S = 1.0
"""How much earlier than the server a connection is given up, so that it does not hang up at a request."""

SWEEP_S = 1.0


class ConnectionKey(NamedTuple):
    """What requests over one connection have in common."""

    crawl: str
    policy_id: str
    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class KeptConnection:
    """A connection that waits for a request."""

    sock: socket.socket
    address: Address
    until_s: float

    def is_silent(self) -> bool:
        """Whether the server has neither hung up nor sent anything that nobody has read."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return False
        waiting = select.poll()
        waiting.register(self.sock, select.POLLIN)
        if not waiting.poll(0):
            return True
        if not isinstance(self.sock, ssl.SSLSocket):
            return False
        try:
            self.sock.settimeout(0)
            self.sock.recv(1)
        except ssl.SSLWantReadError:
            return True  # a message of TLS itself, such as a ticket
        except OSError:
            return False
        return False


class KeptConnections:
    """The connections that wait. Thread-safe. Close it."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        # The one that waits longest is first.
        self._kept: OrderedDict[ConnectionKey, KeptConnection] = OrderedDict()
        self._distrusted: TTLCache[ConnectionKey, None] = TTLCache(MAX_DISTRUSTED, DISTRUST_S, timer=clock_s)
        self._over = threading.Event()
        self._sweeper: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, key: ConnectionKey) -> KeptConnection | None:
        """A connection that can be used, and that nobody else gets; None if there is none."""
        with self._lock:
            kept = self._kept.pop(key, None)
        if kept is None:
            return None
        if self._clock_s() < kept.until_s and kept.is_silent():
            return kept
        kept.sock.close()
        return None

    def put(self, key: ConnectionKey, sock: socket.socket, address: Address, idle_s: float) -> None:
        """Let a connection wait as long as the server waits, `idle_s`, and at most IDLE_S."""
        kept = KeptConnection(sock, address, self._clock_s() + min(idle_s - MARGIN_S, IDLE_S))
        with self._lock:
            gone = [self._kept.pop(key, None)]
            if self._over.is_set() or key in self._distrusted:
                gone.append(kept)
            else:
                self._kept[key] = kept
            while len(self._kept) > MAX_KEPT:
                gone.append(self._kept.popitem(last=False)[1])
            if self._sweeper is None and self._kept:
                self._sweeper = threading.Thread(target=self._sweep, name="kept connections", daemon=True)
                self._sweeper.start()
        _close(gone)

    def distrust(self, key: ConnectionKey) -> None:
        """Keep nothing of a server for a while: it has hung up at a request."""
        with self._lock:
            self._distrusted[key] = None

    def close(self) -> None:
        """Close all connections that wait, and those that are put later."""
        self._over.set()
        with self._lock:
            gone = list(self._kept.values())
            self._kept.clear()
        _close(gone)

    def sweep(self) -> None:
        """Close the connections that have waited for too long."""
        now_s = self._clock_s()
        with self._lock:
            late = [key for key, kept in self._kept.items() if kept.until_s <= now_s]
            gone = [self._kept.pop(key) for key in late]
        _close(gone)

    def _sweep(self) -> None:
        while not self._over.wait(SWEEP_S):
            self.sweep()


def _close(gone: Iterable[KeptConnection | None]) -> None:
    for kept in gone:
        if kept is not None:
            kept.sock.close()
