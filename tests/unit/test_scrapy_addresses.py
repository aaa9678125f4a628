"""The addresses that a spider may connect to."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from crawler_node.fetching.addresses import AddressRule as NodesRule
from toehold_scrapy.addresses import MAX_HOSTS, AddressRule, VettingResolver

ADDRESSES = (
    *("127.0.0.1", "127.8.9.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "100.100.100.200"),
    *("168.63.129.16", "192.0.0.192", "224.0.0.1", "0.0.0.0", "255.255.255.255", "8.8.8.8", "192.0.2.1"),
    *("::1", "::", "fe80::1", "fc00::1", "2606:4700::1111", "ff02::1", "3fff::1", "2001:db8::1"),
    *("::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::a00:1", "64:ff9b::808:808", "2002:a00:1::", "::8.8.8.8"),
    *("2002:808:808::1", "64:ff9b:1::808:808", "::ffff:0:808:808", "2001:0:808:808::1"),
    *("2606:4700::5efe:a00:1", "2606:4700::200:5efe:808:808", "64:ff9b:1:a00:0:100::"),
)


@pytest.mark.parametrize("allowed", [["loopback"], ["public"], ["10.0.0.0/8"], ["::/0", "0.0.0.0/0"]])
def test_spiders_and_nodes_connect_to_the_same_addresses(allowed: list[str]) -> None:
    spiders, nodes = AddressRule(allowed), NodesRule.parse(allowed)
    for address in ADDRESSES:
        assert spiders.allows(address) == nodes.allows(ip_address(address)), address


def test_a_text_that_is_no_address_is_not_allowed() -> None:
    assert not AddressRule(["public"]).allows("example.com")


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
    resolver = VettingResolver(names, AddressRule(["loopback"]))
    resolver.vet("a.test")
    resolver.resolveHostName(names, "A.test", 80)
    assert names.told == ["127.0.0.1"]
    assert names.complete == 1
    assert not resolver.refusal("a.test")


TOLD = "xn--bcher-kva.test is at 10.0.0.1, which is not loopback (allowed_addresses)"


def test_a_host_without_an_allowed_address_is_refused_until_it_has_one() -> None:
    names = Names("10.0.0.1")
    resolver = VettingResolver(names, AddressRule(["loopback"]))
    resolver.vet("xn--bcher-kva.test")
    resolver.resolveHostName(names, "b\u00fccher.test")
    assert resolver.refusal("xn--bcher-kva.test") == TOLD
    names.addresses = ("127.0.0.1",)
    resolver.resolveHostName(names, "b\u00fccher.test")
    assert not resolver.refusal("xn--bcher-kva.test")


def test_a_host_without_any_address_is_not_refused() -> None:
    names = Names()
    resolver = VettingResolver(names, AddressRule(["loopback"]))
    resolver.vet("a.test")
    resolver.resolveHostName(names, "a.test")
    assert not resolver.refusal("a.test")


def test_hosts_that_are_not_fetched_from_may_have_any_address() -> None:
    names = Names("10.0.0.1")
    VettingResolver(names, AddressRule(["loopback"])).resolveHostName(names, "proxy.test")
    assert names.told == ["10.0.0.1"]


def test_a_resolver_forgets_the_hosts_that_were_fetched_from_longest_ago() -> None:
    names = Names("10.0.0.1")
    resolver = VettingResolver(names, AddressRule(["loopback"]))
    resolver.vet("kept.test")
    resolver.vet("forgotten.test")
    for number in range(MAX_HOSTS - 1):
        resolver.vet("kept.test")
        resolver.vet(f"{number}.test")
    resolver.resolveHostName(names, "kept.test")
    assert names.told == []
    resolver.resolveHostName(names, "forgotten.test")
    assert names.told == ["10.0.0.1"]
