"""Which addresses a worker may connect to for a crawl (`allowed_addresses`)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


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
        labels = host.lower().rstrip(".").split(".")
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


_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
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
