"""Where a host may be reached: the rule of the addresses that a crawl allows, and the resolver of names.

The rule is applied to the very address of a connection, so a name gains nothing by resolving differently the
next time.
"""

import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from cachetools import TTLCache

from .failure import FetchFailure, has_no_answer_of_dns

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


class AddressRefused(FetchFailure):
    """Every address of a host lies outside what the crawl allows."""


class Unresolvable(FetchFailure):
    """A host name has no address, or none was found."""


class AddressSet(Enum):
    """The named sets of addresses."""

    LOOPBACK = "loopback"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True)
class AddressRule:
    """The addresses that a crawl may connect to: a named set, or networks."""

    allowed: AddressSet | tuple[Network, ...]

    @classmethod
    def parse(cls, values: Sequence[str]) -> "AddressRule":
        """`loopback`, `public`, or networks such as `10.1.0.0/16`; the names stand alone.

        Raises ValueError, naming the bad value.
        """
        if not values:
            raise ValueError("no allowed addresses. Give loopback, public, or networks such as 10.1.0.0/16")
        names = {each.value for each in AddressSet}
        if len(values) == 1 and values[0] in names:
            return cls(AddressSet(values[0]))
        for value in values:
            if value in names:
                raise ValueError(f"{value!r} must be the only allowed address, got {len(values)} of them")
        return cls(tuple(_network(value) for value in values))

    def allows(self, address: Address) -> bool:
        """Whether a connection to this address may be opened.

        An IPv6 address that carries an IPv4 one (mapped, translated, NAT64, 6to4, Teredo, ISATAP) is allowed
        only if both are: a router or kernel on the way may take the one for the other.
        """
        if isinstance(address, IPv6Address):
            if address.ipv4_mapped is not None:
                return self._holds(address.ipv4_mapped)
            return self._holds(address) and all(self._holds(inner) for inner in _embedded(address))
        return self._holds(address)

    def allows_name(self, host: str) -> bool:
        """Whether the addresses of a name may be allowed, as far as the name itself tells.

        A name of this machine or of a private network (RFC 6761, 6762, 8375, and names without a dot) is
        allowed only if the rule has addresses of that kind.
        """
        labels = _key(host).split(".")
        if _NUMBER.fullmatch(labels[-1]):  # a resolver takes `127.1` or `0x7f.1` for an address
            return False
        theirs = _LOCAL_NAMES.get(labels[-1]) or _LOCAL_NAMES.get(".".join(labels[-2:]))
        if theirs is None:
            if len(labels) > 1:
                return True
            theirs = _PRIVATE
        if self.allowed is AddressSet.PUBLIC:
            return False
        ours = _LOOPBACK if isinstance(self.allowed, AddressSet) else self.allowed
        return any(
            each.version == other.version and each.overlaps(other) for each in ours for other in theirs
        )

    def refusal(self, host: object) -> str:
        """Why an address or a name is not allowed: `127.0.0.1 is not public`."""
        allowed = "public" if self.allowed is AddressSet.PUBLIC else "among allowed_addresses"
        return f"{host} is not {allowed}"

    def _holds(self, address: Address) -> bool:
        if self.allowed is AddressSet.LOOPBACK:
            return address.is_loopback
        if self.allowed is AddressSet.PUBLIC:
            return _is_public(address)
        return any(address in network for network in self.allowed)


_PORT = re.compile(r"[0-9]{1,5}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


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


_LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_PRIVATE: tuple[Network, ...] = tuple(
    ip_network(network)
    for network in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
        *("fc00::/7", "fe80::/10"),
    )
)
_HABITUAL = ("intranet", "internal", "private", "corp", "home", "lan")  # RFC 6762, appendix G
_LOCAL_NAMES = {
    **dict.fromkeys(("localhost", "localdomain"), _LOOPBACK),
    **dict.fromkeys(("local", *_HABITUAL, "home.arpa"), _PRIVATE),
}
"""The addresses of names that nobody may register, by the names' last labels."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata service answers at .192
        "192.88.99.0/24",  # the former anycast relays of 6to4
        "168.63.129.16",  # a cloud's metadata service, at a public address
        "2001::/23",  # protocol assignments, Teredo among them
        "3ffe::/16",  # the former 6bone
        "3fff::/20",  # documentation (RFC 9637)
    )
)
"""Networks that are not public although Python's `is_global` says so, or did in earlier versions. It knows
the ranges of other clouds' metadata services (169.254.169.254, 100.100.100.200, fd00:ec2::254)."""


def _is_public(address: Address) -> bool:
    if address in _NAT64:  # the IPv4 address in it is checked as well
        return True
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False  # all public IPv6 addresses are in there
    if not address.is_global or address.is_multicast:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")  # RFC 7915
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")  # RFC 8215
_ISATAP = 0x0000_5EFE  # the upper half of the interface identifier (RFC 5214 6.1)
_UNIVERSAL_BIT = 0x0200_0000


def _embedded(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that a router or kernel on the way may take out of an IPv6 one."""
    bits = int(address)
    last = IPv4Address(bits & 0xFFFF_FFFF)
    inner = list(address.teredo or ())
    if address.sixtofour is not None:
        inner.append(address.sixtofour)
    if address in _LOCAL_NAT64:
        # RFC 6052 2.2: at the end, or astride the zero byte after the 48 bits of this prefix.
        split = IPv4Address((bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF)
        inner.append(last if int(last) else split)
    elif (
        address in _NAT64
        or address in _TRANSLATED
        or (address in _COMPATIBLE and bits > 1)
        or bits >> 32 & 0xFFFF_FFFF & ~_UNIVERSAL_BIT == _ISATAP
    ):
        inner.append(last)
    return inner


def _network(value: str) -> Network:
    try:
        return ip_network(value)
    except ValueError as problem:
        raise ValueError(
            f"an allowed address must be loopback, public or a network such as 10.1.0.0/16, got {value!r}: "
            f"{problem}"
        ) from None


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
