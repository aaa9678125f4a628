"""The network under one fetch: connects to a vetted address only, keeps one deadline over every wait, and
can be cut from another thread. Knows nothing of HTTP.
"""

import errno
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain, zip_longest

import httpcore

from .addresses import Address, AddressRefused, AddressRule, Resolver, Unresolvable

CONNECT_S = 20.0
"""Longest wait for one TCP connection, and for one TLS handshake."""

READ_S = 20.0
"""Longest silence of a server that owes us bytes (Heritrix's soTimeoutMs)."""

RESOLVE_S = 30.0
"""Longest wait for a name's addresses."""

MAX_ADDRESSES = 4
"""Addresses of one host that are tried."""


class Cancelled(Exception):
    """The fetch was cut from another thread."""


class ConnectFailed(Exception):
    """No connection, or no TLS over it."""


class ConnectionLost(Exception):
    """The connection broke."""


class DeadlinePassed(Exception):
    """The fetch's deadline passed."""


class Stalled(Exception):
    """The server sent nothing for READ_S."""


class WireLimitReached(Exception):
    """The server sent more bytes than its answer can need."""


class Cancellation:
    """Cuts one fetch from another thread, wherever it waits: for a name, a connection, or bytes.

    Made by the caller, one for each fetch. Cancelling before the fetch starts ends it when it does; after
    its end, cancelling does nothing.
    """

    __slots__ = ("_cancelled", "_cut", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._cut: Callable[[], None] | None = None

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._cut is not None:
                self._cut()

    def check(self) -> None:
        """Raises Cancelled if it has been."""
        if self._cancelled:
            raise Cancelled

    def watch(self, cut: Callable[[], None] | None) -> None:
        """Sets what ends the present wait; it must not block. Raises Cancelled if it is too late to wait."""
        with self._lock:
            self._cut = cut
            if cut is not None:
                self.check()


class Link(httpcore.NetworkBackend):
    """The way of one fetch to its host. Used by one thread, for one connection at a time.

    `deadline_s` is on the monotonic clock and holds for everything. `received` counts the bytes read off
    the connection (inside TLS); more than `wire_limit` of them raises WireLimitReached, so that framing
    (headers, chunk sizes) cannot go on for ever. `peer` is the address connected to.
    """

    def __init__(
        self,
        resolver: Resolver,
        rule: AddressRule,
        deadline_s: float,
        cancellation: Cancellation,
        wire_limit: int,
    ) -> None:
        self._resolver = resolver
        self._rule = rule
        self._deadline_s = deadline_s
        self.cancellation = cancellation
        self.wire_limit = wire_limit
        self.received = 0
        self.peer: str | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connects to an allowed address of the host. The deadline stands in for `timeout`."""
        problem: Exception | None = None
        for address in self._vetted(host, port):
            self.cancellation.check()
            family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                self._connect(sock, (str(address), port))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except (OSError, DeadlinePassed) as error:
                self._drop(sock)
                problem = error
            except BaseException:
                self._drop(sock)
                raise
            else:
                self.peer = str(address)
                return _Stream(sock, self)
        raise ConnectFailed(f"{host}:{port}: {problem}") from problem

    def patience_s(self, most_s: float) -> float:
        """How long to wait now, at most `most_s`. Raises DeadlinePassed."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise DeadlinePassed("deadline passed")
        return min(most_s, left_s)

    def silence(self) -> Exception:
        """What a read that timed out means."""
        if time.monotonic() >= self._deadline_s:
            return DeadlinePassed("deadline passed")
        return Stalled(f"nothing received for {READ_S:g} s")

    def _connect(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        sock.setblocking(False)
        error = sock.connect_ex(peer)
        # Only now: shutting a socket that has not begun to connect does nothing, and would be forgotten.
        self.cancellation.watch(partial(shut, sock))
        if error == errno.EINPROGRESS:
            waiting = select.poll()
            waiting.register(sock, select.POLLOUT)
            if not waiting.poll(self.patience_s(CONNECT_S) * 1000):
                error = errno.ETIMEDOUT
            else:
                error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))

    def _vetted(self, host: str, port: int) -> list[Address]:
        found = self._resolved(host, port)
        allowed = [address for address in found if self._rule.allows(address)]
        if not allowed:
            refused = " ".join(str(address) for address in found[:MAX_ADDRESSES])
            raise AddressRefused(f"{host}: not among the allowed addresses: {refused}")
        # Both families among the few that are tried, in case one of them leads nowhere.
        first = [address for address in allowed if address.version == allowed[0].version]
        other = [address for address in allowed if address.version != allowed[0].version]
        mixed = chain.from_iterable(zip_longest(first, other))
        return [address for address in mixed if address is not None][:MAX_ADDRESSES]

    def _resolved(self, host: str, port: int) -> tuple[Address, ...]:
        answer = self._resolver.resolve(host, port)
        if not answer.done():
            over = threading.Event()
            self.cancellation.watch(over.set)
            answer.add_done_callback(lambda _: over.set())
            over.wait(self.patience_s(RESOLVE_S))
            self.cancellation.watch(None)
            self.cancellation.check()
            if not answer.done():
                raise Unresolvable(f"{host}: no answer in time")
        return answer.result()

    def _drop(self, sock: socket.socket) -> None:
        self.cancellation.watch(None)
        sock.close()


class _Stream(httpcore.NetworkStream):
    """A connection of a Link. Every wait ends with the fetch's deadline, whatever timeout is asked for."""

    def __init__(self, sock: socket.socket, link: Link) -> None:
        self._sock = sock
        self._link = link

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        link = self._link
        try:
            self._sock.settimeout(link.patience_s(READ_S))
            data = self._sock.recv(max_bytes)
        except TimeoutError:
            raise link.silence() from None
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        if not data:
            link.cancellation.check()  # being cut looks like a proper end
        link.received += len(data)
        if link.received > link.wire_limit:
            raise WireLimitReached(f"more than {link.wire_limit} bytes received")
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._sock.settimeout(self._link.patience_s(READ_S))
            self._sock.sendall(buffer)  # its timeout is for the whole of it
        except TimeoutError:
            raise self._link.silence() from None
        except OSError as error:
            # httpcore goes on to read at this one error: the server may have answered before it hung up.
            raise httpcore.WriteError(str(error)) from error

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        link = self._link
        name = (server_hostname or "").rstrip(".")
        try:
            # Wrapped before the handshake, which can then be cut like any other wait.
            self._sock = ssl_context.wrap_socket(
                self._sock, server_hostname=name, do_handshake_on_connect=False
            )
            link.cancellation.watch(partial(shut, self._sock))
            self._sock.settimeout(link.patience_s(CONNECT_S))
            self._sock.do_handshake()
        except (OSError, ValueError, DeadlinePassed) as error:  # ValueError: a name TLS cannot carry
            self.close()
            raise ConnectFailed(f"TLS with {name}: {error}") from error
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        self._link.cancellation.watch(None)
        self._sock.close()


def shut(sock: socket.socket) -> None:
    """Wakes whoever waits at a socket, from another thread. Harmless on a socket that is gone."""
    with suppress(OSError):
        # The plain socket's method: the TLS one's would tear the session from under the reader.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
