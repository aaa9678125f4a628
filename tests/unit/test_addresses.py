"""The rule of allowed addresses, and the reading of --resolve."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching.addresses import parse_resolve
from toehold_client.worker.addresses import Address, AddressRule

PUBLIC = AddressRule.parse(["public"])
LOOPBACK = AddressRule.parse(["loopback"])


@pytest.mark.parametrize(
    "address",
    [
        *("8.8.8.8", "1.1.1.1", "2606:4700::1111", "2606:4700::5efe:8.8.8.8", "64:ff9b::8.8.8.8"),
        *("2002:808:808::1", "::ffff:8.8.8.8"),
    ],
)
def test_public_addresses_are_public(address: str) -> None:
    assert PUBLIC.allows(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.0.9",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd12::1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "100::1",
        "5f00::1",
        # metadata services of clouds
        "100.100.100.200",
        "fd00:ec2::254",
        "192.0.0.192",
        "168.63.129.16",
        "::ffff:168.63.129.16",
        # what Python takes for global
        "192.88.99.1",
        "3ffe::1",
        "3fff::1",
        "2001:20::1",
        "2001:2::1",
        # documentation and broadcast
        "198.51.100.1",
        "203.0.113.1",
        "::ffff:255.255.255.255",
        # IPv4 within IPv6
        "::ffff:224.0.0.1",
        "64:ff9b::224.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b::192.0.0.192",
        "64:ff9b:1::10.0.0.1",
        "64:ff9b:1:a00:0:100::",
        "::ffff:0:10.0.0.1",
        "::ffff:0:8.8.8.8",
        "2002:a9fe:a9fe::1",
        "2002:e000:1::1",
        "2606:4700::5efe:10.0.0.1",
        "2606:4700::200:5efe:127.0.0.1",
        "2606:4700::5efe:169.254.169.254",
    ],
)
def test_other_addresses_are_not_public_however_they_are_wrapped(address: str) -> None:
    assert not PUBLIC.allows(ip_address(address))


def test_loopback_is_loopback() -> None:
    for address in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
        assert LOOPBACK.allows(ip_address(address)), address
    for address in ("128.0.0.1", "10.0.0.1", "8.8.8.8", "::2", "::", "64:ff9b::127.0.0.1", "2002:7f00:1::"):
        assert not LOOPBACK.allows(ip_address(address)), address


def test_networks_allow_what_is_in_them() -> None:
    rule = AddressRule.parse(["10.0.0.0/8", "192.0.2.7", "fd00::/8"])
    for address in ("10.1.2.3", "192.0.2.7", "fd00::1", "::ffff:10.0.0.1"):
        assert rule.allows(ip_address(address)), address
    for address in ("11.0.0.1", "192.0.2.8", "8.8.8.8", "fe80::1", "::ffff:11.0.0.1", "127.0.0.1"):
        assert not rule.allows(ip_address(address)), address


def test_an_address_that_carries_another_needs_both_allowed() -> None:
    tunnel = AddressRule.parse(["2002::/16"])
    assert not tunnel.allows(ip_address("2002:a00:1::1"))
    assert AddressRule.parse(["2002::/16", "10.0.0.0/8"]).allows(ip_address("2002:a00:1::1"))


@pytest.mark.parametrize(
    ("network", "address"),
    [
        ("64:ff9b:1::/48", "64:ff9b:1::10.0.0.1"),
        ("64:ff9b:1::/48", "64:ff9b:1:a00:0:100::"),
        ("::ffff:0:0:0/96", "::ffff:0:10.0.0.1"),
        ("fd00::/8", "fd00::5efe:10.0.0.1"),
        ("fd00::/8", "fd00::200:5efe:10.0.0.1"),
    ],
)
def test_networks_of_a_site_that_carry_ipv4_need_both_allowed(network: str, address: str) -> None:
    assert not AddressRule.parse([network]).allows(ip_address(address))
    assert not AddressRule.parse([network, "10.0.0.2"]).allows(ip_address(address))
    assert AddressRule.parse([network, "10.0.0.1"]).allows(ip_address(address))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], "no allowed addresses"),
        (["private"], "'private'"),
        (["10.0.0.0/8", "nonsense"], "'nonsense'"),
        (["10.0.0.1/8"], "'10.0.0.1/8'"),
        (["10.0.0.0/33"], "'10.0.0.0/33'"),
        (["loopback", "10.0.0.0/8"], "'loopback'"),
        (["public", "loopback"], "'public'"),
        ([""], "''"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_name(values: list[str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        AddressRule.parse(values)


@given(st.ip_addresses(v=4))
def test_what_is_public_is_never_loopback_nor_private(address: IPv4Address) -> None:
    wrapped: list[Address] = [
        address,
        IPv6Address(f"::ffff:{address}"),
        IPv6Address(int(IPv6Address("64:ff9b::")) + int(address)),
    ]
    if address.is_private or address.is_loopback or address.is_multicast:
        assert not any(PUBLIC.allows(each) for each in wrapped)
    assert PUBLIC.allows(wrapped[0]) == PUBLIC.allows(wrapped[1]) == PUBLIC.allows(wrapped[2])


@pytest.mark.parametrize(
    ("option", "key", "addresses"),
    [
        ("www.alpha.example:80:127.0.0.1", ("www.alpha.example", 80), ["127.0.0.1"]),
        (
            "WWW.Alpha.Example.:443:127.0.0.1,127.0.0.2",
            ("www.alpha.example", 443),
            ["127.0.0.1", "127.0.0.2"],
        ),
        ("a.example:8080:[::1]", ("a.example", 8080), ["::1"]),
        ("a.example:8080:::1", ("a.example", 8080), ["::1"]),
        ("a.example:8080:[2001:db8::1],192.0.2.1", ("a.example", 8080), ["2001:db8::1", "192.0.2.1"]),
    ],
)
def test_resolve_options_are_read(option: str, key: tuple[str, int], addresses: list[str]) -> None:
    assert parse_resolve(option) == (key, tuple(ip_address(each) for each in addresses))


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("", "HOST:PORT:ADDR"),
        ("a.example", "HOST:PORT:ADDR"),
        ("a.example:80", "HOST:PORT:ADDR"),
        (":80:127.0.0.1", "HOST:PORT:ADDR"),
        ("*:80:127.0.0.1", "HOST:PORT:ADDR"),
        ("a.example:http:127.0.0.1", "'http'"),
        ("a.example:0:127.0.0.1", "'0'"),
        ("a.example:65536:127.0.0.1", "'65536'"),
        ("a.example:\u0663:127.0.0.1", "port"),
        ("a.example:80:", "''"),
        ("a.example:80:b.example", "'b.example'"),
        ("a.example:80:127.0.0.1,", "''"),
        ("a.example:80:[::1", r"'\[::1'"),
    ],
)
def test_resolve_options_that_make_no_sense_are_refused_by_name(option: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        parse_resolve(option)


@pytest.mark.parametrize(
    ("rule", "allowed", "refused"),
    [
        (["public"], "www.a.example localhost.a.example internal.a.example", "localhost a.localhost a.local"),
        (["public"], "home.arpa.example", "metadata.google.internal Router.Home.Arpa. intranet localdomain"),
        (["loopback"], "localhost a.localhost www.a.example", "a.internal a.local intranet"),
        (["10.1.0.0/16"], "a.internal a.local intranet www.a.example", "localhost"),
        (["127.0.0.0/8", "fd00::/8"], "localhost a.internal", ""),
        (
            ["public"],
            "lan.example 1.a.example 0xyz.example",
            "wiki.corp nas.home. printer.lan a.intranet x.private",
        ),
        (["public"], "", "127.1 2130706433 0x7f.1 a.0x7f000001 127.0.0.1. 0177.0.0.01 1.2.3.256 0x"),
        (["192.168.0.0/16"], "nas.home printer.lan", "127.1 2130706433"),
        (["192.0.2.0/24"], "www.a.example", "localhost a.internal intranet"),
    ],
)
def test_a_local_name_is_allowed_where_addresses_of_its_kind_are(
    rule: list[str], allowed: str, refused: str
) -> None:
    judged = AddressRule.parse(rule)
    assert all(judged.allows_name(name) for name in allowed.split())
    assert not any(judged.allows_name(name) for name in refused.split())
