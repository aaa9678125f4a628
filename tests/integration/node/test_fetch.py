"""HttpFetcher: the exchange of a request and an answer, and its limits."""

import hashlib
import zlib
from base64 import b32encode
from dataclasses import replace
from pathlib import Path

import pytest
from frontier_harness.waiting import PATIENCE_S
from node_doubles.loopback import (
    AGENT,
    Fetching,
    Site,
    body_of,
    ok,
    policy,
)

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.decode import decoded
from crawler_node.fetching.fetch import Validators
from crawler_node.fetching.outcome import Status, Truncation


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


def test_a_status_that_http_does_not_define_is_reported_as_it_is(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.1 999 Go away\r\n\r\n"
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, fetch.annotations) == (999, ())
    assert fetch.response_head.startswith(b"HTTP/1.1 999 Go away\r\n")


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


@pytest.mark.parametrize(("timeout_ms", "max_bytes"), [(0, 1), (1, 0), (-1, 1)])
def test_a_policy_without_limits_is_refused(timeout_ms: int, max_bytes: int) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        policy(timeout_ms=timeout_ms, max_bytes=max_bytes)
