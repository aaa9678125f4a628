"""HttpFetcher with servers that stall, break off, or send broken HTTP."""

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node_doubles.loopback import (
    LONG_MS,
    Fetching,
    Site,
    body_of,
    ok,
    policy,
    wait_for_hang_up,
)

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.outcome import Status, Truncation


def test_a_dripped_head_ends_at_the_deadline(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = lambda client: site.drip(client, b"HTTP/1.1 200 OK\r\nX: ", b"x")
    fetch = fetcher.fetch(site.url("/"), policy(timeout_ms=200))
    assert (fetch.status, fetch.response_head) == (Status.TIMEOUT, b"")
    assert 200 <= fetcher.took_ms < LONG_MS


def test_what_is_no_http_is_told_at_its_first_bytes(site: Site, fetcher: Fetching) -> None:
    """A server of another protocol waits for its client to speak."""

    def greet(client: socket.socket) -> None:
        client.sendall(b"220 ready")
        wait_for_hang_up(client)

    site.answers["/"] = greet
    assert fetcher.fetch(site.url("/"), policy()).status == Status.PROTOCOL_ERROR


def test_a_length_that_is_ambiguous_is_noted_and_the_connection_is_closed(
    site: Site, fetcher: Fetching
) -> None:
    lengths = b"Content-Length: 5\r\nContent-Length: 3"
    site.answers["/"] = b"HTTP/1.1 200 OK\r\n%s\r\nConnection: keep-alive\r\n\r\nhello!" % lengths
    for _ in range(2):
        fetch = fetcher.fetch(site.url("/"), policy())
        assert (fetch.status, body_of(fetch), fetch.truncation) == (200, b"hello", Truncation.NONE)
        assert fetch.annotations == ("ambiguousLength",)
    assert site.connections == 2, "no second answer is read off a connection whose first one has no sure end"


def test_an_answer_behind_an_answer_is_nobody_s(site: Site, fetcher: Fetching) -> None:
    """RFC 9112 11.2: a server behind a shared connection must not answer what was never asked."""
    site.answers["/"] = ok(b"hello", b"Connection: keep-alive") + ok(b"smuggled")
    site.answers["/next"] = ok(b"mine")
    assert body_of(fetcher.fetch(site.url("/"), policy())) == b"hello"
    assert body_of(fetcher.fetch(site.url("/next"), policy())) == b"mine"


def test_a_sloppy_head_is_kept_byte_for_byte(site: Site, fetcher: Fetching) -> None:
    head = (
        b"HTTP/1.1  200\tAll  well \nX : y\r\n: nameless\r\nnothing to see\r\nX:\ta\rb\r\n  folded\n"
        b"\xc3\x9cber: sch\xc3\xb6n  \r\nTransfer-Encoding: identity\r\nContent-Length : 5\n\r\n"
    )
    site.answers["/"] = head + b"hello"
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.response_head, body_of(fetch)) == (head, b"hello")
    assert fetch.headers == [
        (b"X", b"y"),
        (b"X", b"a b folded"),
        (b"\xc3\x9cber", b"sch\xc3\xb6n"),
        (b"Transfer-Encoding", b"identity"),
        (b"Content-Length", b"5"),
    ]


def test_a_head_is_kept_but_for_the_chunks_that_the_body_has_lost(site: Site, fetcher: Fetching) -> None:
    chunks = b"5\r\nhello\r\n0\r\n\r\n"
    site.answers["/"] = (
        b"HTTP/1.1 200 OK\r\nA:  b\r\ntransfer-encoding :\r\n chunked\r\nC : d\r\n\r\n" + chunks
    )
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.response_head, body_of(fetch)) == (
        b"HTTP/1.1 200 OK\r\nA:  b\r\nC : d\r\n\r\n",
        b"hello",
    )


@pytest.fixture(scope="module")
def lasting() -> Iterator[tuple[Site, Fetching]]:
    site, fetcher = Site(), Fetching(Resolver())
    yield site, fetcher
    site.close()
    fetcher.close()


@given(sent=st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: b"HTTP/1.1 200 OK\r\n" + tail))
@settings(max_examples=200, deadline=None)
def test_whatever_a_server_sends_is_an_outcome(lasting: tuple[Site, Fetching], sent: bytes) -> None:
    site, fetcher = lasting
    site.answers["/"] = sent
    fetch = fetcher.fetch(site.url("/"), policy())
    assert fetch.status in (Status.CONNECT_LOST, Status.PROTOCOL_ERROR) or 200 <= fetch.status < 600
