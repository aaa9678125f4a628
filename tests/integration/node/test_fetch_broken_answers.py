"""HttpFetcher with servers that stall, break off, or send broken HTTP."""

import hashlib
import socket
from base64 import b32encode
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node_doubles.loopback import (
    LONG_MS,
    SHORT_MS,
    Fetching,
    Site,
    body_of,
    ok,
    policy,
    reset,
    wait_for_hang_up,
)

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.outcome import Status, Truncation


def test_a_dripped_body_ends_at_the_deadline_and_is_kept(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = lambda client: site.drip(client, b"HTTP/1.1 200 OK\r\n\r\n", b"x")
    fetch = fetcher.fetch(site.url("/"), policy(timeout_ms=SHORT_MS))
    assert (fetch.status, fetch.truncation) == (200, Truncation.TIME)
    assert body_of(fetch) == b"x" * fetch.body_bytes != b""
    assert SHORT_MS <= fetcher.took_ms < LONG_MS


def test_a_dripped_head_ends_at_the_deadline(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = lambda client: site.drip(client, b"HTTP/1.1 200 OK\r\nX: ", b"x")
    fetch = fetcher.fetch(site.url("/"), policy(timeout_ms=200))
    assert (fetch.status, fetch.response_head) == (Status.TIMEOUT, b"")
    assert 200 <= fetcher.took_ms < LONG_MS


def test_a_silent_server_ends_at_the_deadline(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = wait_for_hang_up
    fetch = fetcher.fetch(site.url("/"), policy(timeout_ms=100))
    assert fetch.status == Status.TIMEOUT
    assert 100 <= fetcher.took_ms < LONG_MS


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n"])
def test_a_server_that_falls_silent_is_left_before_the_deadline(
    site: Site, fetcher: Fetching, sent: bytes
) -> None:

    def answer(client: socket.socket) -> None:
        client.sendall(sent)
        wait_for_hang_up(client)

    site.answers["/"] = answer
    fetch = fetcher.fetch(site.url("/"), policy(read_timeout_ms=100))
    assert fetch.status == Status.TIMEOUT
    assert 100 <= fetch.duration_ms < LONG_MS


@pytest.mark.parametrize("sent", [b"", b"HTT", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\n"])
def test_a_server_that_hangs_up_before_its_head_is_complete_is_a_lost_connection(
    site: Site, fetcher: Fetching, sent: bytes
) -> None:
    site.answers["/"] = sent
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, fetch.response_head) == (Status.CONNECT_LOST, b"")
    assert fetch.annotations


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 400_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 20_000,
    ],
    ids=lambda sent: repr(sent[:70]),
)
def test_what_is_no_http_is_a_status_of_its_own(site: Site, fetcher: Fetching, sent: bytes) -> None:
    site.answers["/"] = sent
    fetch = fetcher.fetch(site.url("/"), policy())
    assert fetch.status == Status.PROTOCOL_ERROR
    assert fetch.body_bytes == 0
    assert fetch.annotations


def test_what_is_no_http_is_told_at_its_first_bytes(site: Site, fetcher: Fetching) -> None:
    """A server of another protocol waits for its client to speak."""

    def greet(client: socket.socket) -> None:
        client.sendall(b"220 ready")
        wait_for_hang_up(client)

    site.answers["/"] = greet
    assert fetcher.fetch(site.url("/"), policy()).status == Status.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzzz\r\n",
    ],
    ids=lambda sent: repr(sent[17:70]),
)
def test_a_body_that_breaks_off_keeps_its_status_and_what_came(
    site: Site, fetcher: Fetching, sent: bytes
) -> None:
    site.answers["/"] = sent
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, fetch.truncation) == (200, Truncation.DISCONNECT)
    assert body_of(fetch) == b"hello"
    assert fetch.digest == "sha1:" + b32encode(hashlib.sha1(b"hello").digest()).decode()
    assert fetch.annotations and fetch.response_head.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_body_of_which_nothing_came_keeps_its_status_too(site: Site, fetcher: Fetching) -> None:
    for length, expected in ((b"5", Truncation.DISCONNECT), (b"0", Truncation.NONE)):
        site.answers["/"] = b"HTTP/1.1 404 Gone\r\nContent-Length: %s\r\n\r\n" % length
        fetch = fetcher.fetch(site.url("/"), policy())
        assert (fetch.status, fetch.truncation, body_of(fetch)) == (404, expected, b"")


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_connection_that_is_reset_before_the_head_is_complete_is_lost(
    site: Site, fetcher: Fetching, sent: bytes
) -> None:
    def answer(client: socket.socket) -> None:
        client.sendall(sent)
        reset(client)

    site.answers["/"] = answer
    fetch = fetcher.fetch(site.url("/"), policy())
    assert fetch.status == Status.CONNECT_LOST
    assert "reset" in fetch.annotations[0]


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
