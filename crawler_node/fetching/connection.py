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
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, zip_longest

from toehold_client.worker.addresses import Address, AddressRule

from ..meter import ConnectionUse, PageStage
from .addresses import AddressRefused, Resolver, Unresolvable, literal
from .cancellation import Cancellation, Cancelled, shut
from .failure import FetchFailure, of_system, of_tls
from .kept import ConnectionKey, KeptConnection, KeptConnections
from .race import AttemptFailed, first_to_answer
from .throttle import MAX_PIECE_BYTES, Throttle
from .trust import Trust

RESOLVE_S = 30.0
"""The longest wait for a name's addresses."""

MAX_ADDRESSES = 4
"""The most addresses of one host to try."""

MIN_WAIT_S = 0.001
"""Shorter waits for bandwidth cost more than they slow down."""

MIN_RECEIVE_BUFFER_BYTES = 4096


class ConnectFailed(FetchFailure):
    """No connection was made, or no TLS over it."""


class ConnectionLost(FetchFailure):
    """The connection broke."""


class WriteFailed(Exception):
    """The connection broke while we wrote. There may still be an answer to read."""


class DeadlinePassed(FetchFailure):
    """The fetch's deadline passed."""


class Stalled(FetchFailure):
    """The server was silent for too long."""


class WireLimitReached(FetchFailure):
    """The server sent more bytes than its answer can need."""


class HostLink:
    """The way of one fetch to its host. One thread uses it, for one connection at a time.

    `deadline_s` is on the monotonic clock, `timeout_s` behind the beginning of the fetch, and limits every
    wait. `connect_s` limits the wait for one TCP connection, and for one TLS handshake; `read_s` limits the
    silence of a server that owes us bytes (Heritrix's soTimeoutMs). `rest_s` is how long the host rests at
    least between two requests. `received` counts the bytes read off the connection (inside TLS). More than
    `wire_limit` of them raise WireLimitReached, so that framing (headers, chunk sizes) cannot go on for ever.
    `took_s` has the time of each stage so far. `peer` is the address of the connection, and `connecting_ns`
    when it was begun, with the look-up of the name, and when it was made, by the wall clock. `uses`
    tells of each connection so far whether it was new, and `handshakes` how often TLS began on one.
    """

    def __init__(
        self,
        resolver: Resolver,
        rule: AddressRule,
        cancellation: Cancellation,
        *,
        deadline_s: float,
        timeout_s: float,
        connect_s: float,
        read_s: float,
        wire_limit: int,
        throttles: Sequence[Throttle] = (),
        rest_s: float = 0.0,
    ) -> None:
        self._resolver = resolver
        self._rule = rule
        self._deadline_s = deadline_s
        self._timeout_s = timeout_s
        self._cut: Callable[[], None] | None = None
        self._throttles = throttles
        self.cancellation = cancellation
        self.connect_s = connect_s
        self.read_s = read_s
        self.rest_s = rest_s
        self.wire_limit = wire_limit
        self.piece_bytes = min((each.piece_bytes for each in throttles), default=MAX_PIECE_BYTES)
        self.received = 0
        self.took_s: dict[PageStage, float] = {}
        self.peer: str | None = None
        self.connecting_ns: tuple[int, int] | None = None
        self.uses: tuple[ConnectionUse, ...] = ()
        self.handshakes = 0

    def timed(self, stage: PageStage) -> "_Timed":
        """A context that adds the time within to that of a stage."""
        return _Timed(self.took_s, stage)

    def connect(self, host: str, port: int, *, as_configured: bool = False) -> "SiteConnection":
        """Connects to the first allowed address of the host that answers, and tries it first the next time.
        `as_configured`: an operator named the host, so all of its addresses are allowed."""
        began_ns = time.time_ns()
        with self.timed(PageStage.RESOLVE):
            resolved = self._resolved(host, port)
        addresses = self._ordered(host, resolved, as_configured)
        try:
            with self.timed(PageStage.CONNECT):
                sock, address = first_to_answer(
                    addresses,
                    port,
                    attempt_s=self.connect_s,
                    patience_s=self.patience_s,
                    cancellation=self.cancellation,
                    prepare=self._prepare,
                )
        except DeadlinePassed as problem:
            raise ConnectFailed(f"{host}:{port}: {problem}", f"{host}: {problem.reason}") from problem
        except OSError as problem:
            place = _authority(problem.address, port) if isinstance(problem, AttemptFailed) else host
            raise ConnectFailed(
                f"{host}:{port}: {problem}", f"{place}: {of_system(problem, self.connect_s)}"
            ) from problem
        connection = SiteConnection(sock, address, self)
        try:
            self.watch(sock)
        except Cancelled:
            connection.close()
            raise
        if address != addresses[0]:
            self._resolver.prefer(host, address)
        self.peer = str(address)
        self.uses += (ConnectionUse.NEW,)
        self.connecting_ns = began_ns, time.time_ns()
        return connection

    def vet(self, host: str) -> None:
        """Raises AddressRefused for a host that no proxy, which looks up its name, may be asked for: an
        address that is not allowed, or a name of such addresses."""
        address = literal(host)
        if address is not None:
            self._allowed(host, (address,))
        elif not self._rule.allows_name(host):
            raise AddressRefused(
                f"{host}: its addresses are not among the allowed ones", self._rule.refusal(host)
            )

    def rest(self) -> bool:
        """Waits as long as the host rests between two requests; False, at once, if the deadline is sooner."""
        if self.rest_s >= self._deadline_s - time.monotonic():
            return False
        self._pause(self.rest_s)
        self.cancellation.check()
        return True

    def pay(self, byte_count: int) -> None:
        """Waits as long as the throttles ask for bytes that were read, at most until the deadline."""
        if not self._throttles:
            return
        now_s = time.monotonic()
        wait_s = max(each.charge(byte_count, now_s) for each in self._throttles)
        if wait_s < MIN_WAIT_S:  # the throttle adds it to the next wait
            return
        self._pause(min(wait_s, max(0.0, self._deadline_s - now_s)))

    def _pause(self, wait_s: float) -> None:
        """Waits, unless a cancellation ends that."""
        over = threading.Event()
        self.cancellation.watch(over.set)
        over.wait(wait_s)
        self.cancellation.watch(self._cut)

    def resume(self, kept: KeptConnection, host: str, port: int) -> "SiteConnection | None":
        """Goes on with a connection that was kept; None, closing it, if its address is no longer one of the
        host's."""
        connection = SiteConnection(kept.sock, kept.address, self)
        try:
            with self.timed(PageStage.RESOLVE):
                addresses = self._resolved(host, port)
            if kept.address in addresses:
                self.watch(kept.sock)
                self.peer = str(kept.address)
                self.uses += (ConnectionUse.KEPT,)
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def watch(self, sock: socket.socket | None) -> None:
        """Lets a cancellation cut waits at a socket, or at none any more."""
        self._cut = None if sock is None else partial(shut, sock)
        self.cancellation.watch(self._cut)

    def patience_s(self, most_s: float) -> float:
        """How long to wait now, at most `most_s`. Raises DeadlinePassed."""
        left_s = self._deadline_s - time.monotonic()  # once: a second look may find a negative time
        if left_s <= 0:
            raise self._late()
        return min(most_s, left_s)

    def silence(self) -> Exception:
        """The error that a read which timed out means."""
        late = self.lateness()
        if late is not None:
            return late
        missing = "nothing more" if self.received else "no answer"
        return Stalled(
            f"nothing received for {self.read_s:g} s",
            f"{missing} within read_timeout_seconds = {self.read_s:g}",
        )

    def lateness(self) -> DeadlinePassed | None:
        """The error that the deadline has passed, if it has."""
        return None if time.monotonic() < self._deadline_s else self._late()

    def _late(self) -> DeadlinePassed:
        return DeadlinePassed("deadline passed", f"not done within timeout_seconds = {self._timeout_s:g}")

    def _prepare(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._throttles:
            # Bytes that we do not read yet must hold back the server, and not pile up in the system.
            size = max(MIN_RECEIVE_BUFFER_BYTES, 2 * self.piece_bytes)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def _ordered(self, host: str, addresses: Sequence[Address], as_configured: bool) -> list[Address]:
        """The addresses to try: first the one that last worked, then both families in turn, in case one of
        them leads nowhere (RFC 8305 section 4)."""
        allowed = list(addresses) if as_configured else self._allowed(host, addresses)
        if len(allowed) == 1:
            return allowed
        preferred = self._resolver.preferred(host)
        allowed.sort(key=lambda address: address != preferred)
        first = [address for address in allowed if address.version == allowed[0].version]
        other = [address for address in allowed if address.version != allowed[0].version]
        mixed = chain.from_iterable(zip_longest(first, other))
        return [address for address in mixed if address is not None][:MAX_ADDRESSES]

    def _allowed(self, host: str, addresses: Sequence[Address]) -> list[Address]:
        allowed = [address for address in addresses if self._rule.allows(address)]
        if not allowed:
            refused = " ".join(str(address) for address in addresses[:MAX_ADDRESSES])
            raise AddressRefused(
                f"{host}: not among the allowed addresses: {refused}",
                self._rule.refusal(addresses[0]) if addresses else "",
            )
        return allowed

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
                raise Unresolvable(f"{host}: no answer in time", "DNS did not answer in time")
        return answer.result()


class _Timed:
    """A context whose time is added to that of a stage. (A generator would take three times as long.)"""

    __slots__ = ("_stage", "_start_s", "_took_s")

    def __init__(self, took_s: dict[PageStage, float], stage: PageStage) -> None:
        self._took_s, self._stage = took_s, stage

    def __enter__(self) -> None:
        self._start_s = time.perf_counter()

    def __exit__(self, *problem: object) -> None:
        took_s = time.perf_counter() - self._start_s
        self._took_s[self._stage] = self._took_s.get(self._stage, 0.0) + took_s


class SiteConnection:
    """A connection of a HostLink, whose deadline and patience hold for every wait."""

    def __init__(self, sock: socket.socket, address: Address, link: HostLink) -> None:
        self._sock = sock
        self._address = address
        self._link = link

    def read(self) -> bytes:
        """The next bytes received; empty at the end of the connection. Raises ConnectionLost, Stalled,
        DeadlinePassed, WireLimitReached, and Cancelled, as a cut looks like the end."""
        link = self._link
        try:
            data = self._received()
        except TimeoutError:
            raise link.silence() from None
        except OSError as error:
            raise ConnectionLost(str(error), of_system(error, link.connect_s)) from error
        if not data:
            link.cancellation.check()  # a cut looks like a proper end
        link.received += len(data)
        if link.received > link.wire_limit:
            raise WireLimitReached(
                f"more than {link.wire_limit} bytes received", f"a head of more than {link.wire_limit} bytes"
            )
        return data

    @property
    def received(self) -> int:
        """The bytes that its link has read so far."""
        return self._link.received

    def read_now(self, most: int) -> bytes:
        """What has come, at most so many bytes, without waiting; nothing at its end."""
        try:
            self._sock.settimeout(0)
            return self._sock.recv(most)
        except OSError:  # there is nothing yet, or the connection is broken
            return b""

    def _received(self) -> bytes:
        if isinstance(self._sock, ssl.SSLSocket):
            return self._received_over_tls(self._sock)
        self._sock.settimeout(self._link.patience_s(self._link.read_s))
        return self._sock.recv(self._link.piece_bytes)

    def _received_over_tls(self, sock: ssl.SSLSocket) -> bytes:
        """Waits by itself: the socket's own timeout would limit the wait for a whole record, but a server
        whose record trickles is not silent. And the socket takes a reset for an end."""
        sock.settimeout(0)
        events, wanted = 0, select.POLLIN
        while True:
            if not sock.pending():
                events = self._events(wanted)
            try:
                data = sock.recv(self._link.piece_bytes)
            except ssl.SSLWantReadError:
                wanted = select.POLLIN
            except ssl.SSLWantWriteError:
                wanted = select.POLLOUT
            else:
                if not data and events & select.POLLERR:
                    raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
                return data

    def _events(self, wanted: int) -> int:
        """Waits for the socket, and returns its events (poll's mask). Raises TimeoutError."""
        waiting = select.poll()
        waiting.register(self._sock, wanted)
        events = waiting.poll(self._link.patience_s(self._link.read_s) * 1000)
        if not events:
            raise TimeoutError
        return events[0][1]

    def write(self, data: bytes) -> None:
        """Sends all of `data`. Raises WriteFailed, Stalled, DeadlinePassed."""
        try:
            self._sock.settimeout(self._link.patience_s(self._link.read_s))
            self._sock.sendall(data)  # the timeout limits the whole call
        except TimeoutError:
            raise self._link.silence() from None
        except OSError as error:
            raise WriteFailed(str(error)) from error

    def start_tls(self, trust: Trust, host: str) -> None:
        """Goes on in TLS with a host that proves its name. Raises ConnectFailed, closing the connection."""
        link = self._link
        name = host.removesuffix(".")
        try:
            context = trust.context(name)
            # Wrapping comes before the handshake, so that a cut ends the handshake like any other wait.
            self._sock = sock = context.wrap_socket(
                self._sock, server_hostname=name, do_handshake_on_connect=False
            )
            link.watch(sock)
            sock.settimeout(link.patience_s(link.connect_s))
            sock.do_handshake()
            link.handshakes += 1
        except (OSError, ValueError, DeadlinePassed) as error:  # ValueError: TLS cannot carry the name
            self.close()
            # The socket's own timeout may have been what was left until the deadline.
            late = link.lateness() if isinstance(error, (DeadlinePassed, TimeoutError)) else None
            reason = late.reason if late is not None else of_tls(error, link.connect_s)
            raise ConnectFailed(f"TLS with {name}: {error}", f"TLS: {reason}") from error
        except BaseException:
            self.close()
            raise

    def keep(self, kept: KeptConnections, key: ConnectionKey, idle_s: float) -> None:
        """Lets it wait for another request with this key."""
        self._link.watch(None)
        kept.put(key, self._sock, self._address, idle_s)

    def close(self) -> None:
        self._link.watch(None)
        self._sock.close()


def _authority(address: Address, port: int) -> str:
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
