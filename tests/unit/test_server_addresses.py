"""Addresses of servers: how people write them, and which ones only this machine reaches."""

import pytest

from toehold_base.serving.addresses import Address, is_loopback, parsed_address
from toehold_base.serving.connections import address_count

EXAMPLE = "127.0.0.1:7707"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7707", ("127.0.0.1", 7707)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("example.org:80", ("example.org", 80)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parsed_address(text, EXAMPLE) == address
    assert str(Address(*address)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7707",
        ":7707",
        "[]:7707",
        "host",
        "host:",
        "host:x",
        "host:-1",
        "host:65536",
        "host:٣",
        "host:1.5",
        "host:" + "9" * 150,
    ],
)
def test_what_is_no_address_is_told_with_one_that_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be HOST:PORT, such as 127\.0\.0\.1:7707") as caught:
        parsed_address(text, EXAMPLE)
    assert repr(text) in str(caught.value)


def test_a_long_text_is_told_by_its_beginning() -> None:
    with pytest.raises(ValueError, match="got '9999") as caught:
        parsed_address("9" * 5000, EXAMPLE)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1"])
def test_these_hosts_are_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.7", "localhost.example", "frontier", "", "2001:db8::1"]
)
def test_other_hosts_may_be_elsewhere(host: str) -> None:
    assert not is_loopback(host)
    assert not Address(host, 1).is_loopback


def test_a_socket_with_a_long_path_is_one_address() -> None:
    assert address_count(Address(f"unix:/{'folder' * 12}/shard-0.sock", 0)) == 1
