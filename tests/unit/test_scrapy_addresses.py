"""The addresses that a spider may connect to. The rule itself is that of nodes (test_addresses)."""

from typing import Any

from twisted.internet.address import IPv4Address

from toehold_scrapy.addresses import MAX_HOSTS, VettingResolver


def test_a_text_that_is_no_address_is_not_allowed() -> None:
    assert not VettingResolver(Names(), ["public"]).allows("example.com")


class Names:
    """A resolver with one name, and whoever asks it."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.told: list[str] = []
        self.complete = 0

    def resolveHostName(self, receiver: Any, host: str, port: int = 0, *more: Any) -> object:
        receiver.resolutionBegan(self)
        for address in self.addresses:
            receiver.addressResolved(IPv4Address("TCP", address, port))
        receiver.resolutionComplete()
        return self

    def resolutionBegan(self, resolution: object) -> None:
        assert resolution is self

    def addressResolved(self, address: IPv4Address) -> None:
        self.told.append(address.host)

    def resolutionComplete(self) -> None:
        self.complete += 1


def test_a_resolver_leaves_out_the_addresses_that_are_not_allowed() -> None:
    names = Names("10.0.0.1", "127.0.0.1")
    resolver = VettingResolver(names, ["loopback"])
    resolver.vet("a.test")
    resolver.resolveHostName(names, "A.test", 80)
    assert names.told == ["127.0.0.1"]
    assert names.complete == 1
    assert not resolver.refusal("a.test")


TOLD = "xn--bcher-kva.test is at 10.0.0.1, which is not loopback (allowed_addresses)"


def test_a_host_without_an_allowed_address_is_refused_until_it_has_one() -> None:
    names = Names("10.0.0.1")
    resolver = VettingResolver(names, ["loopback"])
    resolver.vet("xn--bcher-kva.test")
    resolver.resolveHostName(names, "b\u00fccher.test")
    assert resolver.refusal("xn--bcher-kva.test") == TOLD
    names.addresses = ("127.0.0.1",)
    resolver.resolveHostName(names, "b\u00fccher.test")
    assert not resolver.refusal("xn--bcher-kva.test")


def test_a_host_without_any_address_is_not_refused() -> None:
    names = Names()
    resolver = VettingResolver(names, ["loopback"])
    resolver.vet("a.test")
    resolver.resolveHostName(names, "a.test")
    assert not resolver.refusal("a.test")


def test_hosts_that_are_not_fetched_from_may_have_any_address() -> None:
    names = Names("10.0.0.1")
    VettingResolver(names, ["loopback"]).resolveHostName(names, "proxy.test")
    assert names.told == ["10.0.0.1"]


def test_a_resolver_forgets_the_hosts_that_were_fetched_from_longest_ago() -> None:
    names = Names("10.0.0.1")
    resolver = VettingResolver(names, ["loopback"])
    resolver.vet("kept.test")
    resolver.vet("forgotten.test")
    for number in range(MAX_HOSTS - 1):
        resolver.vet("kept.test")
        resolver.vet(f"{number}.test")
    resolver.resolveHostName(names, "kept.test")
    assert names.told == []
    resolver.resolveHostName(names, "forgotten.test")
    assert names.told == ["10.0.0.1"]
