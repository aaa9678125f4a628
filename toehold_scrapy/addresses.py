"""The addresses that a crawl may connect to, and a resolver that leaves out all others."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, TypeAlias

from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer

MAX_HOSTS = 10_000
"""How many hosts a resolver vets: far more than are fetched from at once."""

Address: TypeAlias = IPv4Address | IPv6Address


class AddressRule:
    """The allowed addresses of a crawl: `loopback`, `public`, or networks."""

    def __init__(self, allowed: Sequence[str]) -> None:
        """Raises ValueError for any other text."""
        self.text = " or ".join(allowed)
        self._name = allowed[0] if len(allowed) == 1 and allowed[0] in ("loopback", "public") else ""
        self._networks = () if self._name else tuple(ip_network(each) for each in allowed)

    def allows(self, address: str) -> bool:
        """Whether a connection to this address may be opened.

        An IPv6 address that carries an IPv4 one is allowed only if both are: a router or kernel on the way
        may take the one for the other.
        """
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address):
            if parsed.ipv4_mapped is not None:
                return self._holds(parsed.ipv4_mapped)
            return self._holds(parsed) and all(self._holds(inner) for inner in _carried(parsed))
        return self._holds(parsed)

    def _holds(self, address: Address) -> bool:
        match self._name:
            case "loopback":
                return address.is_loopback
            case "public":
                return _is_public(address)
        return any(address in network for network in self._networks)


_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_NOT_PUBLIC = tuple(
    ip_network(network)
    for network in (
        *("192.0.0.0/24", "192.88.99.0/24"),  # protocol assignments, and the former relays of 6to4
        "168.63.129.16",  # a cloud's metadata service
        *("2001::/23", "3ffe::/16", "3fff::/20"),  # protocol assignments, the former 6bone, documentation
    )
)
"""Networks that are not public although `is_global` says so in some versions of Python."""


def _is_public(address: Address) -> bool:
    if address in _NAT64:  # the address that it carries is checked as well
        return True
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in _NOT_PUBLIC)
    )


_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_TAILED = (_NAT64, _LOCAL_NAT64, IPv6Network("::ffff:0:0:0/96"), IPv6Network("::/96"))
"""Networks whose addresses end with an IPv4 one: NAT64, its local form, translated, compatible."""

_ISATAP, _UNIVERSAL_BIT = 0x0000_5EFE, 0x0200_0000


def _carried(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses in an IPv6 one."""
    bits = int(address)
    last = bits & 0xFFFF_FFFF
    carried = list(address.teredo or ())
    if address.sixtofour is not None:
        carried.append(address.sixtofour)
    if address in _LOCAL_NAT64 and not last:  # astride the zero byte after the prefix (RFC 6052, 2.2)
        carried.append(IPv4Address((bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF))
    elif (
        bits > 1 and any(address in network for network in _TAILED)
    ) or bits >> 32 & 0xFFFF_FFFF & ~_UNIVERSAL_BIT == _ISATAP:
        carried.append(IPv4Address(last))
    return carried


@implementer(IHostnameResolver)
class VettingResolver:
    """A resolver that leaves out the addresses that the crawl may not connect to.

    Twisted connects to exactly the addresses that its resolver tells, so a name gains nothing by resolving
    differently the next time. Only hosts that Scrapy fetches from are vetted: a proxy or a database may have
    any address.
    """

    # Twisted's interfaces and the names of their arguments; mypy does not know zope's interfaces.

    def __init__(self, inner: Any, rule: AddressRule) -> None:
        self.inner = inner
        self.rule = rule
        self._refused: dict[str, str] = {}  # the hosts to vet and their refused addresses, the last ones last

    def vet(self, host: str) -> None:
        """From now on leaves out addresses of this host. Hosts that were not named for long are forgotten."""
        self._refused[host] = self._refused.pop(host, "")
        if len(self._refused) > MAX_HOSTS:
            del self._refused[next(iter(self._refused))]

    def refusal(self, host: str) -> str:
        """Why a host had no allowed address when it was last looked up: `a.example is at 10.0.0.1, which is
        not public (allowed_addresses)`; empty if it had one.
        """
        address = self._refused.get(host, "")
        if not address:
            return ""
        where = address if address == host else f"{host} is at {address}, which"
        return f"{where} is not {self.rule.text} (allowed_addresses)"

    def note(self, host: str, refused: str) -> None:
        """Notes the refused address of a host that has no allowed one, or "" if it has one."""
        if host in self._refused:
            self._refused[host] = refused

    def resolveHostName(self, resolutionReceiver: Any, hostName: str, *more: Any, **named: Any) -> Any:
        """Looks up a name for Twisted."""
        host = in_ascii(hostName)
        receiver = resolutionReceiver
        if host in self._refused:
            receiver = _Vetted(resolutionReceiver, self, host)
        return self.inner.resolveHostName(receiver, hostName, *more, **named)


def in_ascii(host: str) -> str:
    """A host's name as URLs have it: Twisted spells internationalised names out."""
    try:
        return host.encode("idna").decode() if not host.isascii() else host.lower()
    except UnicodeError:
        return host


@implementer(IResolutionReceiver)
class _Vetted:
    """Passes on the allowed addresses of one host."""

    def __init__(self, outer: Any, resolver: VettingResolver, host: str) -> None:
        self._outer = outer
        self._resolver = resolver
        self._host = host
        self._refused = ""  # the first such address
        self._passed = 0

    def resolutionBegan(self, resolutionInProgress: Any) -> None:
        self._outer.resolutionBegan(resolutionInProgress)

    def addressResolved(self, address: Any) -> None:
        text = str(address.host)
        if self._resolver.rule.allows(text):
            self._passed += 1
            self._outer.addressResolved(address)
        else:
            self._refused = self._refused or text

    def resolutionComplete(self) -> None:
        self._resolver.note(self._host, "" if self._passed else self._refused)
        self._outer.resolutionComplete()
