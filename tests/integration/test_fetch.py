"""HttpFetcher: what servers, names and deadlines do, and what becomes of it."""

import hashlib
import socket
import ssl
import struct
import sys
import termios
import threading
import zlib
from base64 import b32encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from fcntl import ioctl
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest
import trustme
from frontier_harness.ports import KeptPort, listeners_at_one_port
from frontier_harness.waiting import PATIENCE_S, eventually
from hypothesis import given, settings
from hypothesis import strategies as st
from node_doubles.loopback import (
    AGENT,
    LONG_MS,
    SHORT_MS,
    Fetching,
    Site,
    body_of,
    ok,
    policy,
    redirect,
    wait_for_hang_up,
)

from crawler_node.fetching.addresses import Address, AddressRule, Resolver, Unresolvable
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.decode import decoded
from crawler_node.fetching.fetch import Validators
from crawler_node.fetching.http_fetch import HttpFetcher
from crawler_node.fetching.outcome import Status, Truncation


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def resolver() -> Resolver:
    return Resolver(lookup=lambda host: [IPv4Address("127.0.0.1")])


@pytest.fixture
def fetcher(resolver: Resolver) -> Iterator[Fetching]:
    fetcher = Fetching(resolver)
    yield fetcher
    fetcher.close()


# What is exchanged


def test_a_page_comes_back_with_the_bytes_of_the_exchange(site: Site, fetcher: Fetching) -> None:
    head = (
        b"HTTP/1.1 200 All is well\r\ncontent-TYPE: Text/HTML; Charset=KOI8-R\r\n"
        b"X-Odd:  spaced\r\nX-Odd: caf\xe9\r\nContent-Length: 5\r\n\r\n"
    )
    site.answers["/a%20b?c=[1]|2"] = head + b"hello"
    fetch = fetcher.fetch(site.url("/a b?c=[1]|2#fragment", "www.alpha.example"), policy())
    assert fetch.status == 200
    assert body_of(fetch) == b"hello"
    assert fetch.body_bytes == 5
    assert fetch.response_head == head
    assert (fetch.media_type, fetch.charset) == ("text/html", "KOI8-R")
    assert fetch.header("x-odd") == "spaced, café"
    assert fetch.digest == "sha1:" + b32encode(hashlib.sha1(b"hello").digest()).decode()
    assert fetch.peer_address == "127.0.0.1"
    assert fetch.truncation is Truncation.NONE
    assert fetch.annotations == ()
    assert site.requests == [fetch.request_head]


def test_the_request_says_who_asks_and_for_what_and_nothing_else(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = ok(b"", b"Set-Cookie: a=b")
    for _ in range(2):
        fetcher.fetch(f"http://user:secret@www.alpha.example:{site.port}/", policy())
    expected = (
        f"GET / HTTP/1.1\r\nHost: www.alpha.example:{site.port}\r\nUser-Agent: {AGENT}\r\nAccept: */*\r\n"
        "Accept-Encoding: gzip, deflate\r\nConnection: close\r\n\r\n"
    )
    assert site.requests == [expected.encode()] * 2


def conditions_of(site: Site) -> list[bytes]:
    """The headers of the last request that begin with If-."""
    return [line for line in site.requests[-1].split(b"\r\n") if line.startswith(b"If-")]


def test_a_page_is_asked_for_only_if_it_has_changed(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b'HTTP/1.1 304 Not Modified\r\nETag: "caf\xe9"\r\nContent-Length: 7\r\n\r\n'
    validators = Validators('"café"', "Tue, 14 Nov 2023 22:13:50 GMT")
    fetch = fetcher.fetch(site.url("/"), policy(), validators=validators)
    assert conditions_of(site) == [
        b'If-None-Match: "caf\xe9"',
        b"If-Modified-Since: Tue, 14 Nov 2023 22:13:50 GMT",
    ]
    assert (fetch.status, fetch.unchanged, fetch.body_bytes) == (304, True, 0)
    assert fetch.header("etag") == '"café"', "and it can be asked with again"
    assert site.requests == [fetch.request_head]


def test_a_page_that_has_changed_comes_whole(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = ok(b"hello")
    fetch = fetcher.fetch(site.url("/"), policy(), validators=Validators(etag='"7"'))
    assert conditions_of(site) == [b'If-None-Match: "7"']
    assert (fetch.status, fetch.unchanged, body_of(fetch)) == (200, False, b"hello")


def test_a_304_that_nobody_asked_for_says_nothing_of_the_page(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, fetch.unchanged, conditions_of(site)) == (304, False, [])


@pytest.mark.parametrize("value", ['"7"\r\nHost: evil.example', '"\0"', " 7", '"\u20ac"', "\n"])
def test_a_validator_that_no_header_can_carry_is_not_asked_with(
    site: Site, fetcher: Fetching, value: str
) -> None:
    site.answers["/"] = ok(b"hello")
    fetch = fetcher.fetch(site.url("/"), policy(), validators=Validators(value, value))
    assert (fetch.status, conditions_of(site)) == (200, [])
    assert b"evil" not in site.requests[-1]


def test_each_fetch_has_a_connection_of_its_own(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = ok(b"hello", b"Connection: keep-alive")
    for _ in range(3):
        assert fetcher.fetch(site.url("/"), policy()).status == 200
    assert site.connections == 3


def test_a_chunked_body_is_kept_without_its_chunks(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
        b"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nT: t\r\n\r\n"
    )
    fetch = fetcher.fetch(site.url("/"), policy())
    assert body_of(fetch) == b"hello world"
    assert fetch.response_head == b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n"


def test_a_body_that_ends_with_the_connection_is_whole(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.0 200 OK\r\n\r\nhello"
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, body_of(fetch), fetch.truncation) == (200, b"hello", Truncation.NONE)
    assert fetch.response_head == b"HTTP/1.0 200 OK\r\n\r\n"


def test_an_encoded_body_is_kept_as_sent(site: Site, fetcher: Fetching) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"a" * 10_000_000) + packer.flush()
    site.answers["/"] = ok(packed, b"Content-Encoding: gzip")
    fetch = fetcher.fetch(site.url("/"), policy(max_bytes=len(packed)))
    assert body_of(fetch) == packed
    assert fetch.truncation is Truncation.NONE
    assert decoded(fetch.body, fetch.content_encoding, 1000) == b"a" * 1000


def test_a_large_body_goes_to_disk_whole(site: Site, fetcher: Fetching) -> None:
    body = bytes(range(256)) * 20_000
    site.answers["/"] = ok(body)
    fetch = fetcher.fetch(site.url("/"), policy(max_bytes=len(body)))
    assert body_of(fetch) == body
    assert fetch.body.fileno() >= 0
    fetch.close()


def test_a_body_that_cannot_be_spooled_fails_the_fetch(
    site: Site, resolver: Resolver, tmp_path: Path
) -> None:
    fetcher = Fetching(resolver, spool_directory=tmp_path / "nowhere")
    site.answers["/"] = ok(bytes(3_000_000))
    fetch = fetcher.fetch(site.url("/"), policy(max_bytes=10_000_000))
    assert fetch.status == Status.RUNTIME_EXCEPTION
    assert fetch.annotations[0].startswith("FileNotFoundError:")
    assert isinstance(fetch.error, FileNotFoundError)
    fetcher.close()


# Limits


def test_a_body_is_cut_at_its_limit(site: Site, fetcher: Fetching) -> None:
    site.answers["/exact"] = ok(b"x" * 1000)
    assert fetcher.fetch(site.url("/exact"), policy(max_bytes=1000)).truncation is Truncation.NONE
    site.answers["/"] = lambda client: site.drip(client, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000)
    fetch = fetcher.fetch(site.url("/"), policy(max_bytes=250_000))
    assert (fetch.status, fetch.body_bytes, fetch.truncation) == (200, 250_000, Truncation.LENGTH)
    assert body_of(fetch) == b"x" * 250_000
    assert site.hung_up.wait(PATIENCE_S)


def test_framing_without_a_body_counts_against_the_limit(site: Site, fetcher: Fetching) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"1;" + b"e" * 1000 + b"\r\nx\r\n"
    site.answers["/"] = lambda client: site.drip(client, head, chunks * 100)
    fetch = fetcher.fetch(site.url("/"), policy(max_bytes=10_000))
    assert (fetch.status, fetch.truncation) == (200, Truncation.LENGTH)
    assert 0 < fetch.body_bytes < 10_000


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


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"])
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


# What goes wrong


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
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 400_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000,
        b"<html>HTTP/0.9 has no head",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 99 OK\r\n\r\n",
        b"HTTP/1.1 -200 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"HTTP/1.1 200 O\0K\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX\0: b\r\n\r\n",
        b"\0" * 1000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<p>no chunk",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 20_000,
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n!",
        b"\x15\x03\x01\x00\x02\x02\x0a",
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
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!!\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + b"f" * 30 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nhello",
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


def _unacknowledged_bytes(connection: socket.socket) -> int:
    return int.from_bytes(ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def test_a_body_of_which_nothing_came_keeps_its_status_too(site: Site, fetcher: Fetching) -> None:
    for length, expected in ((b"5", Truncation.DISCONNECT), (b"0", Truncation.NONE)):
        site.answers["/"] = b"HTTP/1.1 404 Gone\r\nContent-Length: %s\r\n\r\n" % length
        fetch = fetcher.fetch(site.url("/"), policy())
        assert (fetch.status, fetch.truncation, body_of(fetch)) == (404, expected, b"")


def test_a_redirect_whose_body_breaks_off_is_one(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.1 301 Moved\r\nLocation: /there\r\nContent-Length: 100\r\n\r\n<p>"
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, fetch.truncation) == (301, Truncation.DISCONNECT)
    assert fetch.redirect_target == site.url("/there")


def test_a_robots_txt_that_breaks_off_keeps_its_status(site: Site, fetcher: Fetching) -> None:
    site.answers["/robots.txt"] = b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nUser-agent: *"
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy())
    assert (fetch.status, fetch.truncation, body_of(fetch)) == (200, Truncation.DISCONNECT, b"User-agent: *")


def reset_after(sent: bytes) -> Callable[[socket.socket], None]:
    def answer(client: socket.socket) -> None:
        client.sendall(sent)
        # With this, closing throws away what is not sent and resets the connection.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        eventually(lambda: not _unacknowledged_bytes(client))

    return answer


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_connection_that_is_reset_before_the_head_is_complete_is_lost(
    site: Site, fetcher: Fetching, sent: bytes
) -> None:
    site.answers["/"] = reset_after(sent)
    fetch = fetcher.fetch(site.url("/"), policy())
    assert fetch.status == Status.CONNECT_LOST
    assert "reset" in fetch.annotations[0]


@pytest.mark.parametrize("length", [b"", b"Content-Length: 99\r\n"])
def test_a_connection_that_is_reset_within_the_body_breaks_it_off(
    site: Site, fetcher: Fetching, length: bytes
) -> None:
    site.answers["/"] = reset_after(b"HTTP/1.1 200 OK\r\n%s\r\nhello" % length)
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, fetch.truncation) == (200, Truncation.DISCONNECT)
    assert "reset" in fetch.annotations[0]
    assert body_of(fetch) == b"hello"


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/0.9 200 OK\r\n\r\nhello",
        b"HTTP/2.0 200 OK\r\n\r\nhello",
        b"HTTP/2 200 \r\n\r\nhello",
        b"http/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1  200  All  is  well\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1\t200\tOK\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more than was said",
        b"HTTP/1.1 200 OK\r\nX: caf\xe9 \x01\r\n folded\r\n\r\nhello",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n000\r\nT: \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: nameless\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nno colon here\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\n folded at once\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\n\xc3\x9cber: sch\xc3\xb6n\r\nX [1]@: y\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\nContent-Length:\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 5 \r\nhello\r\n0 \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nno trailer\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:80]),
)
def test_nonsense_that_does_no_harm_is_overlooked(site: Site, fetcher: Fetching, sent: bytes) -> None:
    """What curl or http.client take is taken."""
    site.answers["/"] = sent
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, body_of(fetch), fetch.truncation) == (200, b"hello", Truncation.NONE)
    assert fetch.annotations == ()


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        (b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"Content-Length: many\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"Content-Length: 5\r\nContent-Length: 3", b"hello!"),
        (b"Content-Length: 5\r\nContent-Length: 9", b"hello"),
        (b"Content-Length: 3, 5", b"hello!"),
        (b"Content-Length: +5", b"hello"),
        (b"Content-Length: 5;", b"hello"),
        (b"Content-Length: 0x10", b"hello"),
        (b"Transfer-Encoding: binary\r\nContent-Length: 5", b"hello!"),
        (b"Transfer-Encoding: UTF-8", b"hello"),
    ],
)
def test_a_length_that_is_ambiguous_is_noted_and_the_connection_is_closed(
    site: Site, fetcher: Fetching, headers: bytes, sent: bytes
) -> None:
    site.answers["/"] = b"HTTP/1.1 200 OK\r\n%s\r\nConnection: keep-alive\r\n\r\n%s" % (headers, sent)
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


def test_a_status_that_http_does_not_know_is_a_server_error(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.1 999 Go away\r\n\r\n"
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, fetch.annotations) == (500, ("status:999",))
    assert fetch.response_head.startswith(b"HTTP/1.1 999 Go away\r\n")


def test_a_closed_port_is_a_failed_connection(fetcher: Fetching) -> None:
    with KeptPort() as nobodys:
        fetch = fetcher.fetch(f"http://{nobodys.address}/", policy())
    assert fetch.status == Status.CONNECT_FAILED
    assert "refused" in fetch.annotations[0]


@pytest.mark.parametrize(
    "uri", ["ftp://127.0.0.1/", "http://", "nonsense", "http://a b/", "/path", "http://\ud800/"]
)
def test_a_uri_that_cannot_be_sent_is_unfetchable(fetcher: Fetching, uri: str) -> None:
    assert fetcher.fetch(uri, policy()).status == Status.UNFETCHABLE_URI


@pytest.mark.parametrize("agent", ["a\r\nX: y", "a\n", "a\0b", "a\r"])
def test_a_request_that_would_say_more_than_it_should_is_not_sent(
    site: Site, fetcher: Fetching, agent: str
) -> None:
    fetch = fetcher.fetch(site.url("/"), replace(policy(), user_agent=agent))
    assert (fetch.status, site.requests) == (Status.UNFETCHABLE_URI, [])


# Addresses


def test_no_connection_is_opened_to_an_address_that_is_not_allowed(site: Site, fetcher: Fetching) -> None:
    for host in ("www.alpha.example", "127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
        fetch = fetcher.fetch(site.url("/", host), policy(addresses=AddressRule.parse(["public"])))
        assert fetch.status == Status.UNFETCHABLE_URI, host
        assert fetch.annotations[0].startswith("AddressRefused:")
    assert site.connections == 0


def test_only_the_allowed_ones_of_several_addresses_are_connected_to(site: Site) -> None:
    found = [ip_address("127.0.0.1"), ip_address("127.0.0.2")]
    fetcher = Fetching(Resolver(lookup=lambda host: found))
    site.answers["/"] = ok(b"")
    rule = AddressRule.parse(["127.0.0.2/32"])
    assert fetcher.fetch(site.url("/", "two.example"), policy(addresses=rule)).status == Status.CONNECT_FAILED
    assert site.connections == 0
    fetch = fetcher.fetch(site.url("/", "two.example"), policy())
    assert (fetch.status, fetch.peer_address) == (200, "127.0.0.1")
    fetcher.close()


def test_the_next_address_is_tried_when_one_does_not_answer(site: Site) -> None:
    found = [ip_address("::1"), ip_address("127.0.0.2"), ip_address("127.0.0.1")]
    fetcher = Fetching(Resolver(lookup=lambda host: found))
    site.answers["/"] = ok(b"")
    fetch = fetcher.fetch(site.url("/", "many.example"), policy())
    assert (fetch.status, fetch.peer_address) == (200, "127.0.0.1")
    fetcher.close()


def test_a_name_that_changes_its_address_is_judged_again(site: Site) -> None:
    answers: list[Address] = [ip_address("127.0.0.1"), ip_address("10.0.0.1")]
    fetcher = Fetching(Resolver(lookup=lambda host: [answers.pop(0)], ttl_s=0))
    site.answers["/"] = ok(b"")
    statuses = [fetcher.fetch(site.url("/", "rebinding.example"), policy()).status for _ in range(2)]
    assert statuses == [200, Status.UNFETCHABLE_URI]
    fetcher.close()


def test_a_name_that_is_bound_to_another_address_later_gets_no_connection_there() -> None:
    """What the look-up says that the connection is made by is what counts, at each connection."""
    allowed, inner = (Site(listener=each) for each in listeners_at_one_port("127.0.0.1", "127.0.0.2"))
    answers = {"127.0.0.1": allowed, "127.0.0.2": inner}
    for each in answers.values():
        each.answers["/"] = ok(b"hello")
        each.answers["/robots.txt"] = redirect("/robots.txt")
    turn = iter(["127.0.0.1", *["127.0.0.2"] * 10])
    fetcher = Fetching(Resolver(lookup=lambda host: [ip_address(next(turn))], ttl_s=0))
    rule = policy(addresses=AddressRule.parse(["127.0.0.1"]))
    statuses = [fetcher.fetch(allowed.url("/", "rebinding.example"), rule).status for _ in range(3)]
    assert statuses == [200, Status.UNFETCHABLE_URI, Status.UNFETCHABLE_URI]
    turn = iter(["127.0.0.1", *["127.0.0.2"] * 10])
    fetch = fetcher.fetch_robots(allowed.url("/robots.txt", "rebinding.example"), rule)
    assert (fetch.status, len(fetch.hops)) == (Status.UNFETCHABLE_URI, 1)
    turn = iter(["127.0.0.1", *["127.0.0.2"] * 10])
    allowed.answers["/"] = b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\n\r\n"
    asked = policy(addresses=rule.addresses, user="u", password="p")
    fetch = fetcher.fetch(allowed.url("/", "rebinding.example"), asked)
    assert (fetch.status, fetch.annotations[0]) == (Status.UNFETCHABLE_URI, "credentialsSent")
    assert (allowed.connections, inner.connections) == (3, 0), "no connection was attempted"
    fetcher.close()
    for each in answers.values():
        each.close()


def test_the_address_that_was_judged_is_the_one_that_is_connected_to(site: Site) -> None:
    asked: list[str] = []

    def lookup(host: str) -> list[Address]:
        asked.append(host)
        return [ip_address("127.0.0.1")]

    fetcher = Fetching(Resolver(lookup=lookup, ttl_s=0))
    site.answers["/"] = ok(b"")
    assert fetcher.fetch(site.url("/", "www.alpha.example"), policy()).status == 200
    assert asked == ["www.alpha.example"], "there is no second look-up that could say something else"
    fetcher.close()


def test_names_of_the_table_are_judged_like_any_other(site: Site) -> None:
    fetcher = Fetching(Resolver({("www.alpha.example", site.port): [IPv4Address("127.0.0.1")]}))
    site.answers["/"] = ok(b"")
    assert fetcher.fetch(site.url("/", "WWW.Alpha.example."), policy()).status == 200
    public = policy(addresses=AddressRule.parse(["public"]))
    assert fetcher.fetch(site.url("/", "www.alpha.example"), public).status == Status.UNFETCHABLE_URI
    fetcher.close()


def test_a_name_without_address_is_unresolvable() -> None:
    def lookup(host: str) -> list[Address]:
        raise Unresolvable(host)

    fetcher = Fetching(Resolver(lookup=lookup))
    assert fetcher.fetch("http://nowhere.example/", policy()).status == Status.DOMAIN_UNRESOLVABLE
    fetcher.close()


def test_a_look_up_that_hangs_ends_at_the_deadline() -> None:
    over = threading.Event()

    def lookup(host: str) -> list[Address]:
        over.wait()
        return []

    fetcher = Fetching(Resolver(lookup=lookup))
    fetch = fetcher.fetch("http://slow.example/", policy(timeout_ms=SHORT_MS))
    assert fetch.status == Status.DOMAIN_UNRESOLVABLE
    assert SHORT_MS <= fetcher.took_ms < LONG_MS
    over.set()
    fetcher.close()


# Redirects


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("b?x=y#z", "http://127.0.0.1:{port}/b?x=y"),
        ("//other.example", "http://other.example/"),
        ("/\u00e9", "http://127.0.0.1:{port}/%C3%A9"),
        ("http://[broken", None),
        ("mailto:somebody@other.example", None),
        ("", "http://127.0.0.1:{port}/"),
    ],
)
def test_a_redirect_of_a_page_is_told_and_not_followed(
    site: Site, fetcher: Fetching, location: str, target: str | None
) -> None:
    site.answers["/"] = redirect(location)
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, body_of(fetch)) == (301, b"here")
    assert fetch.redirect_target == (target and target.format(port=site.port))
    assert len(site.requests) == 1


def test_redirects_of_robots_txt_are_followed_and_kept(site: Site, fetcher: Fetching) -> None:
    site.answers["/robots.txt"] = redirect("/1")
    for n in range(1, 5):
        site.answers[f"/{n}"] = redirect(f"/{n + 1}")
    site.answers["/5"] = ok(b"User-agent: *", b"Content-Type: text/plain")
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy())
    assert (fetch.status, body_of(fetch), fetch.redirect_target) == (200, b"User-agent: *", None)
    assert [hop.uri for hop in fetch.hops] == [
        site.url(path) for path in ("/robots.txt", "/1", "/2", "/3", "/4")
    ]
    assert [hop.status for hop in fetch.hops] == [301] * 5
    assert body_of(fetch.hops[0]) == b"here"


def test_a_robots_txt_that_redirects_for_ever_is_given_up(site: Site, fetcher: Fetching) -> None:
    site.answers["/robots.txt"] = redirect("/robots.txt")
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy())
    assert (fetch.status, len(fetch.hops)) == (301, 5) and fetch.redirect_target is not None
    assert len(site.requests) == 6


def test_each_redirect_of_robots_txt_is_held_to_the_allowed_addresses(site: Site) -> None:
    fetcher = Fetching(Resolver(lookup=lambda host: [ip_address("10.0.0.1")]))
    site.answers["/robots.txt"] = redirect("http://inner.example/robots.txt")
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy())
    assert (fetch.status, len(fetch.hops)) == (Status.UNFETCHABLE_URI, 1)
    fetcher.close()


def test_the_redirects_of_robots_txt_share_one_deadline(site: Site, fetcher: Fetching) -> None:
    site.answers["/robots.txt"] = redirect("/slow")
    site.answers["/slow"] = wait_for_hang_up
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy(timeout_ms=SHORT_MS))
    assert fetch.status == Status.TIMEOUT
    assert SHORT_MS <= fetcher.took_ms < LONG_MS


# TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure_site(authority: trustme.CA) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("secure.example").configure_cert(context)
    names: list[str | None] = []
    context.sni_callback = lambda sock, name, _: names.append(name)
    site = Site(context)
    site.names = names  # type: ignore[attr-defined]
    yield site
    site.close()


def test_https_is_checked_against_the_name_and_the_extra_certificates(
    secure_site: Site, authority: trustme.CA, resolver: Resolver, tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    secure_site.answers["/"] = ok(b"secret")
    trusting = Fetching(resolver, ca_file=ca_file)
    fetch = trusting.fetch(secure_site.url("/", "secure.example"), policy())
    assert (fetch.status, body_of(fetch), fetch.peer_address) == (200, b"secret", "127.0.0.1")
    assert secure_site.names == ["secure.example"]  # type: ignore[attr-defined]
    assert b"Host: secure.example:%d\r\n" % secure_site.port in secure_site.requests[0]
    other_name = trusting.fetch(secure_site.url("/", "other.example"), policy())
    assert other_name.status == Status.CONNECT_FAILED
    assert "TLS" in other_name.annotations[0]
    trusting.close()
    strict = Fetching(resolver)
    assert strict.fetch(secure_site.url("/", "secure.example"), policy()).status == Status.CONNECT_FAILED
    strict.close()


@pytest.mark.parametrize("problem", ["expired", "self-signed", "other name"])
def test_a_certificate_that_proves_nothing_is_a_failed_connection(
    problem: str, authority: trustme.CA, resolver: Resolver, tmp_path: Path
) -> None:
    issuer = trustme.CA() if problem == "self-signed" else authority
    name = "other.example" if problem == "other name" else "secure.example"
    ended = datetime(2020, 1, 1, tzinfo=UTC) if problem == "expired" else None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert(name, not_before=datetime(2019, 1, 1, tzinfo=UTC), not_after=ended).configure_cert(
        context
    )
    site = Site(context)
    site.answers["/"] = ok(b"secret")
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    fetcher = Fetching(resolver, ca_file=ca_file)
    fetch = fetcher.fetch(site.url("/", "secure.example"), policy())
    assert (fetch.status, site.requests) == (Status.CONNECT_FAILED, [])
    assert "TLS_with_secure.example" in fetch.annotations[0]
    fetcher.close()
    site.close()


def test_https_to_a_server_without_tls_is_a_failed_connection(fetcher: Fetching) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def serve() -> None:
            client, _ = plain.accept()
            with client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                wait_for_hang_up(client)

        thread = threading.Thread(target=serve)
        thread.start()
        fetch = fetcher.fetch(f"https://127.0.0.1:{plain.getsockname()[1]}/", policy())
        thread.join()
    assert fetch.status == Status.CONNECT_FAILED
    assert fetch.duration_ms < LONG_MS


def test_a_tls_handshake_that_hangs_ends_at_the_deadline(fetcher: Fetching) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        fetch = fetcher.fetch(f"https://127.0.0.1:{port}/", policy(timeout_ms=SHORT_MS))
    assert fetch.status == Status.CONNECT_FAILED
    assert SHORT_MS <= fetcher.took_ms < LONG_MS


def test_unreadable_certificates_are_named(resolver: Resolver, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    for path in (bad, tmp_path / "missing.pem"):
        with pytest.raises(ValueError, match=path.name):
            HttpFetcher(resolver, ca_file=path)


# Being cut short


def cancel_when(started: threading.Event, cancellation: Cancellation) -> threading.Thread:
    def run() -> None:
        started.wait(PATIENCE_S)
        cancellation.cancel()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_fetch_that_waits_for_its_answer_can_be_cut(site: Site, fetcher: Fetching) -> None:
    started, cancellation = threading.Event(), Cancellation()

    def answer(client: socket.socket) -> None:
        started.set()
        wait_for_hang_up(client)

    site.answers["/"] = answer
    cancel_when(started, cancellation)
    fetch = fetcher.fetch(site.url("/"), policy(), cancellation)
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS


def test_a_fetch_can_be_cut_within_its_body(site: Site, fetcher: Fetching) -> None:
    started, cancellation = threading.Event(), Cancellation()

    def answer(client: socket.socket) -> None:
        started.set()
        site.drip(client, b"HTTP/1.1 200 OK\r\n\r\n", b"x")

    site.answers["/"] = answer
    cancel_when(started, cancellation)
    assert fetcher.fetch(site.url("/"), policy(), cancellation).status == Status.PROCESSING_THREAD_KILLED


def test_a_fetch_that_waits_for_a_name_can_be_cut() -> None:
    started, over, cancellation = threading.Event(), threading.Event(), Cancellation()

    def lookup(host: str) -> list[Address]:
        started.set()
        over.wait()
        return []

    fetcher = Fetching(Resolver(lookup=lookup))
    cancel_when(started, cancellation)
    fetch = fetcher.fetch("http://slow.example/", policy(), cancellation)
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS
    over.set()
    fetcher.close()


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port where connections are neither accepted nor refused: its listener's queue is full."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        yield full.getsockname()[1]


def test_a_connection_that_hangs_ends_at_the_deadline(fetcher: Fetching, deaf_port: int) -> None:
    fetch = fetcher.fetch(f"http://127.0.0.1:{deaf_port}/", policy(timeout_ms=SHORT_MS))
    assert fetch.status == Status.CONNECT_FAILED
    assert SHORT_MS <= fetcher.took_ms < LONG_MS


def test_a_fetch_that_connects_can_be_cut(
    fetcher: Fetching, deaf_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting, cancellation = threading.Event(), Cancellation()
    watch = Cancellation.watch

    def watched(self: Cancellation, cut: Callable[[], None] | None) -> None:
        watch(self, cut)
        connecting.set()

    monkeypatch.setattr(Cancellation, "watch", watched)
    cancel_when(connecting, cancellation)
    fetch = fetcher.fetch(f"http://127.0.0.1:{deaf_port}/", policy(), cancellation)
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS


def test_a_fetch_that_shakes_hands_can_be_cut(fetcher: Fetching) -> None:
    cancellation = Cancellation()
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def cut() -> None:
            client, _ = silent.accept()
            client.recv(1)  # the handshake has begun
            cancellation.cancel()
            client.close()

        thread = threading.Thread(target=cut)
        thread.start()
        fetch = fetcher.fetch(f"https://127.0.0.1:{silent.getsockname()[1]}/", policy(), cancellation)
        thread.join()
    assert fetch.status == Status.PROCESSING_THREAD_KILLED


def test_a_fetch_cut_before_it_starts_does_not_start(site: Site, fetcher: Fetching) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    for uri in (site.url("/"), site.url("/", "www.alpha.example")):
        assert fetcher.fetch(uri, policy(), cancellation).status == Status.PROCESSING_THREAD_KILLED
    assert site.connections == 0


def test_a_robots_txt_can_be_cut_at_any_of_its_redirects(site: Site, fetcher: Fetching) -> None:
    started = threading.Event()

    def answer(client: socket.socket) -> None:
        started.set()
        wait_for_hang_up(client)

    cancellation = Cancellation()

    def cut() -> None:
        started.wait(PATIENCE_S)
        cancellation.cancel()

    site.answers["/robots.txt"] = redirect("/slow")
    site.answers["/slow"] = answer
    thread = threading.Thread(target=cut)
    thread.start()
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy(), cancellation)
    thread.join()
    assert (fetch.status, len(fetch.hops)) == (Status.PROCESSING_THREAD_KILLED, 1)


@pytest.mark.parametrize(("timeout_ms", "max_bytes"), [(0, 1), (1, 0), (-1, 1)])
def test_a_policy_without_limits_is_refused(timeout_ms: int, max_bytes: int) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        policy(timeout_ms=timeout_ms, max_bytes=max_bytes)
