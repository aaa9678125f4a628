"""Where a host may be reached: the resolver of names, and the table of --resolve.

The rule of allowed addresses is applied to the very address of a connection, so a name gains nothing by
resolving differently the next time.
"""

import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from ipaddress import ip_address

from cachetools import TTLCache

from toehold_client.worker.addresses import Address

from .failure import FetchFailure, has_no_answer_of_dns


class AddressRefused(FetchFailure):
    """Every address of a host lies outside what the crawl allows."""


class Unresolvable(FetchFailure):
    """A host name has no address, or none was found."""


_PORT = re.compile(r"[0-9]{1,5}")


def parse_resolve(option: str) -> tuple[tuple[str, int], tuple[Address, ...]]:
    """Reads HOST:PORT:ADDR[,ADDR]..., like curl's --resolve, into the key and value of a Resolver's table.

    IPv6 addresses may have brackets. Raises ValueError, naming the bad value.
    """
    host, colon, rest = option.partition(":")
    port, second_colon, addresses = rest.partition(":")
    if not (host and colon and second_colon) or host == "*":
        raise ValueError(f"must be HOST:PORT:ADDR, such as www.alpha.example:80:127.0.0.1, got {option!r}")
    if not (_PORT.fullmatch(port) and 1 <= int(port) <= 65535):
        raise ValueError(f"the port in {option!r} must be between 1 and 65535, got {port!r}")
    parsed = []
    for text in addresses.split(","):
        bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        try:
            parsed.append(ip_address(bare))
        except ValueError:
            raise ValueError(f"the address in {option!r} must be an IP address, got {text!r}") from None
    return (_key(host), int(port)), tuple(parsed)


class Resolver:
    """Host names to addresses: a fixed table first, then a cache, then the system's resolver.

    It does not vet answers. `lookup` asks the system, and may take any time: it runs in a thread of the
    resolver's own, once at a time for each host, so that callers choose how long they wait, and a slow name
    holds up no other one. System resolvers tell no lifetimes, so an answer is kept for `ttl_s`, and a failure
    for `failed_ttl_s` (as RFC 9520 asks for). Thread-safe.
    """

    MAX_CACHED = 10_000
    MAX_THREADS = 256  # usually more than toe threads, so that a name waits only if hundreds of others hang
    MAX_WAITING = 1000
    PREFERRED_TTL_S = 600.0

    def __init__(
        self,
        table: Mapping[tuple[str, int], Sequence[Address]] | None = None,
        *,
        lookup: Callable[[str], Sequence[Address]] | None = None,
        ttl_s: float = 300.0,
        failed_ttl_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = {(_key(host), port): tuple(found) for (host, port), found in (table or {}).items()}
        self._lookup = lookup or system_lookup
        self._lock = threading.Lock()
        self._cache: TTLCache[str, tuple[Address, ...]] = TTLCache(self.MAX_CACHED, ttl_s, timer=clock)
        # the messages and reasons of Unresolvable
        self._failures: TTLCache[str, tuple[str, str]] = TTLCache(self.MAX_CACHED, failed_ttl_s, timer=clock)
        self._preferred: TTLCache[str, Address] = TTLCache(self.MAX_CACHED, self.PREFERRED_TTL_S, timer=clock)
        self._flights: dict[str, Future[tuple[Address, ...]]] = {}
        self._waiting: deque[str] = deque()
        self._threads = 0

    def resolve(self, host: str, port: int) -> Future[tuple[Address, ...]]:
        """The addresses of a host, best first. The future may fail with Unresolvable.

        A host that is an address is its own answer. IPv6 addresses have no brackets.
        """
        host = _key(host)
        known = self._table.get((host, port))
        if not known and (address := literal(host)) is not None:
            known = (address,)
        with self._lock:
            known = known or self._cache.get(host)
            failure = None if known else self._failures.get(host)
            if known or failure:
                done: Future[tuple[Address, ...]] = Future()
                if failure:
                    done.set_exception(Unresolvable(*failure))
                else:
                    done.set_result(known or ())
                return done
            flight = self._flights.get(host)
            if flight is not None:
                return flight
            flight = Future()
            if len(self._waiting) >= self.MAX_WAITING:
                flight.set_exception(
                    Unresolvable(
                        f"too many names waiting for the resolver ({host})", "too many names wait for DNS"
                    )
                )
                return flight
            self._flights[host] = flight
            self._waiting.append(host)
            if self._threads < self.MAX_THREADS:
                self._threads += 1
                # A daemon: the system's resolver cannot be interrupted, and must not hold up an exit.
                thread = threading.Thread(target=self._work, name="resolver", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads; another one will take the host
                    self._threads -= 1
        return flight

    def prefer(self, host: str, address: Address) -> None:
        """Notes which address of a host answered where an earlier one did not. The note lapses after a while,
        as the earlier one may have come back."""
        with self._lock:
            self._preferred[_key(host)] = address

    def preferred(self, host: str) -> Address | None:
        """The address that was last noted for a host, which may no longer be one of the host's."""
        with self._lock:
            return self._preferred.get(_key(host))

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                host = self._waiting.popleft()
            addresses: tuple[Address, ...] = ()
            failure = (f"{host}: no address", "")
            try:
                addresses = tuple(self._lookup(host))
            except Exception as problem:  # all waiting callers must get the error, whatever it is
                if isinstance(problem, Unresolvable):
                    failure = (str(problem), problem.reason)
                else:
                    failure = (f"{host}: {problem}", f"the resolver failed: {problem}")
            with self._lock:
                flight = self._flights.pop(host)
                if addresses:
                    self._cache[host] = addresses
                else:
                    self._failures[host] = failure
            if addresses:
                flight.set_result(addresses)
            else:
                flight.set_exception(Unresolvable(*failure))


def system_lookup(host: str) -> Sequence[Address]:
    """Asks the system's resolver. Raises Unresolvable."""
    try:
        # Bytes: a str would go through Python's IDNA codec, which refuses names that DNS carries.
        rows = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        reason = "DNS gave no answer" if has_no_answer_of_dns(problem) else ""
        raise Unresolvable(f"{host}: {problem}", reason) from problem
    return list(dict.fromkeys(ip_address(row[4][0]) for row in rows))


def literal(host: str) -> Address | None:
    """The host as an address, or None if it is a name. IPv6 addresses have no brackets."""
    if ":" not in host and not host[-1:].isdigit():  # the usual case, and much cheaper than an error
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _key(host: str) -> str:
    return host.lower().rstrip(".")
