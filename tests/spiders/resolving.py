"""A resolver for Scrapy that knows the practice web: names from the setting PRACTICE_HOSTS, and no others."""

from typing import Any, Self

from scrapy.crawler import Crawler
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHostnameResolver
from zope.interface import implementer


@implementer(IHostnameResolver)
class PracticeResolver:
    """Answers from a table of names, HOST:ADDRESS with commas between them."""

    def __init__(self, reactor: Any, table: dict[str, str]) -> None:
        self._reactor = reactor
        self._table = table

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: Any) -> Self:
        """The resolver that the settings ask for."""
        entries = crawler.settings.getlist("PRACTICE_HOSTS")
        return cls(reactor, dict(entry.split("=") for entry in entries))

    def install_on_reactor(self) -> None:
        """Makes Twisted use it."""
        self._reactor.installNameResolver(self)

    def resolveHostName(
        self, resolutionReceiver: Any, hostName: str, portNumber: int = 0, *more: Any, **named: Any
    ) -> Any:
        """Looks up a name for Twisted."""
        resolutionReceiver.resolutionBegan(self)
        address = self._table.get(hostName.encode("idna").decode())
        if address is not None:
            resolutionReceiver.addressResolved(IPv4Address("TCP", address, portNumber))
        resolutionReceiver.resolutionComplete()
        return self
