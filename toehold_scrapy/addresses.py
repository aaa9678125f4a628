"""A resolver that leaves out the addresses that a crawl may not connect to."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer

from toehold_client.worker.addresses import AddressRule

MAX_HOSTS = 10_000
"""How many hosts a resolver vets: far more than are fetched from at once."""


@implementer(IHostnameResolver)
class VettingResolver:
    """A resolver that leaves out the addresses that the crawl may not connect to.

    Twisted connects to exactly the addresses that its resolver tells, so a name gains nothing by resolving
    differently the next time. Only hosts that Scrapy fetches from are vetted: a proxy or a database may have
    any address.
    """

    # Twisted's interfaces and the names of their arguments; mypy does not know zope's interfaces.

    def __init__(self, inner: Any, allowed: Sequence[str]) -> None:
        """Raises ValueError for texts that are no allowed addresses."""
        self.inner = inner
        self.allow(allowed)
        self._refused: dict[str, str] = {}  # the hosts to vet and their refused addresses, the last ones last

    def allow(self, allowed: Sequence[str]) -> None:
        """From now on lets these addresses through: `loopback`, `public`, or networks."""
        self._rule = AddressRule.parse(allowed)
        self._allowed = " or ".join(allowed)

    def allows(self, address: str) -> bool:
        """Whether an address may be connected to. A text that is none may not."""
        try:
            return self._rule.allows(ip_address(address.partition("%")[0]))
        except ValueError:
            return False

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
        return f"{where} is not {self._allowed} (allowed_addresses)"

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
        if self._resolver.allows(text):
            self._passed += 1
            self._outer.addressResolved(address)
        else:
            self._refused = self._refused or text

    def resolutionComplete(self) -> None:
        self._resolver.note(self._host, "" if self._passed else self._refused)
        self._outer.resolutionComplete()
