"""HttpFetcher with connections that are kept: when one serves the next fetch, and when it must not."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trustme
from frontier_harness.waiting import eventually
from node_doubles.loopback import LONG_MS, Fetching, Site, body_of, ok, policy, redirect, reset

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.fetch import FetchPolicy, FetchResult, Validators
from crawler_node.fetching.outcome import Status
from crawler_node.meter import ConnectionUse

NEW, KEPT = ConnectionUse.NEW, ConnectionUse.KEPT
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"


class KeepingSite(Site):
    """A site that waits for another request after each answer, until the client hangs up or an answer has
    closed the connection."""

    ends = 0
    """Connections that a client has ended."""

    def _answer(self, client: socket.socket) -> None:
        while client.fileno() >= 0:
            before = len(self.requests)
            super()._answer(client)
            if len(self.requests) == before:
                self.ends += 1
                return


@pytest.fixture
def site() -> Iterator[KeepingSite]:
    made = KeepingSite()
    yield made
    made.close()


@pytest.fixture
def fetcher() -> Iterator[Fetching]:
    made = Fetching(Resolver())
    yield made
    made.close()


def keeping(**more: Any) -> FetchPolicy:
    return policy(keep_alive=True, **more)


def uses(fetcher: Fetching) -> list[ConnectionUse]:
    """Where the connections of its fetches came from, in their order."""
    return [use for fetch in fetcher.fetches for use in fetch.connections]


def pages(fetcher: Fetching, site: Site, *paths: str, made: FetchPolicy | None = None) -> list[bytes]:
    """The bodies of pages that are fetched one after the other."""
    return [body_of(fetcher.fetch(site.url(path), made or keeping())) for path in paths]


def closing(answer: bytes) -> Callable[[socket.socket], None]:
    """Answers, and hangs up."""

    def act(client: socket.socket) -> None:
        client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)
        client.close()

    return act


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"hello"),
        ok(b"hello", b"Keep-Alive: timeout=5, max=99", b"Connection: Keep-Alive"),
        CHUNKED + b"\r\n",
        b"HTTP/1.1 204\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 404 Not found\r\nContent-Length: 0\r\n\r\n",
        redirect("/elsewhere"),
    ],
)
def test_an_answer_that_is_read_whole_leaves_its_connection(
    site: KeepingSite, fetcher: Fetching, answer: bytes
) -> None:
    site.answers["/"], site.answers["/next"] = answer, ok(b"next")
    fetcher.fetch(site.url("/"), keeping())
    assert pages(fetcher, site, "/next", "/next") == [b"next", b"next"]
    assert uses(fetcher) == [NEW, KEPT, KEPT]
    assert site.connections == 1
    assert fetcher.fetches[-1].peer_address == "127.0.0.1"
    assert fetcher.fetches[-1].connecting_ns is None
    assert b"Connection:" not in site.requests[-1]


@pytest.mark.parametrize(
    "answer",
    {
        "says close": ok(b"hello", b"Connection: close"),
        "says close among others": ok(b"hello", b"Connection: x, Close"),
        "takes no more": ok(b"hello", b"Keep-Alive: timeout=5, max=0"),
        "waits for no time": ok(b"hello", b"Keep-Alive: timeout=0"),
        "is of HTTP/1.0": b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        "is of HTTP/1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "has bytes behind its body": ok(b"hello") + b"x",
        "has a second answer behind it": ok(b"hello") + ok(b"bogus"),
        "has bytes behind no body": b"HTTP/1.1 204 None\r\n\r\nhello",
        "announces a body that it cannot have": b"HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n",
        "has two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 3\r\n\r\nhello",
        "has chunks and a length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + CHUNKED[17:] + b"\r\n",
        "has chunks twice": CHUNKED.replace(b"chunked", b"chunked, chunked") + b"\r\n",
        "has a trailer": CHUNKED + b"X: y\r\n\r\n",
        "has no end of its trailer": CHUNKED,
        "has a folded line": ok(b"hello", b"X: y", b" z"),
        "has a blank before a colon": ok(b"hello", b"X : y"),
        "has a line without a colon": ok(b"hello", b"X"),
        "has a lone CR": ok(b"hello", b"X: a\rb"),
        "has line feeds alone": ok(b"hello").replace(b"\r\n", b"\n"),
        "comes behind a blank line": b"\r\n" + ok(b"hello"),
        "comes behind an interim answer": b"HTTP/1.1 103 Early\r\n\r\n" + ok(b"hello"),
    }.items(),
    ids=lambda each: each[0],
)
def test_an_answer_with_anything_unusual_closes_its_connection(
    site: KeepingSite, fetcher: Fetching, answer: tuple[str, bytes]
) -> None:
    site.answers["/"], site.answers["/next"] = answer[1], ok(b"next")
    fetcher.fetch(site.url("/"), keeping())
    eventually(lambda: site.ends == 1, "the fetcher to hang up")
    assert pages(fetcher, site, "/next") == [b"next"]
    assert uses(fetcher) == [NEW, NEW]


def test_an_end_of_chunks_that_comes_in_a_packet_of_its_own_is_read(
    site: KeepingSite, fetcher: Fetching
) -> None:
    come = threading.Event()

    def answer(client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(CHUNKED[:-3])
        client.sendall(CHUNKED[-3:])
        client.sendall(b"\r\n")
        come.set()

    site.answers["/"], site.answers["/next"] = answer, ok(b"next")
    pages(fetcher, site, "/")
    assert come.wait(10)
    assert pages(fetcher, site, "/next") == [b"next"]


def test_a_body_that_is_cut_or_left_unread_closes_its_connection(
    site: KeepingSite, fetcher: Fetching
) -> None:
    site.answers["/"] = ok(b"x" * 300_000, b"Content-Type: text/plain")
    fetcher.fetch(site.url("/"), keeping(max_bytes=10))
    fetcher.fetch(site.url("/"), keeping(reject_media_types=("text/plain",)))
    fetcher.fetch(site.url("/"), keeping(reject_media_types=("text/plain",)))
    assert uses(fetcher) == [NEW, NEW, NEW]


@pytest.mark.parametrize(
    "other",
    [
        (keeping(), "another"),
        (replace(keeping(), policy_id="p2"), "crawl"),
    ],
)
def test_another_crawl_or_policy_gets_a_connection_of_its_own(
    site: KeepingSite, fetcher: Fetching, other: tuple[FetchPolicy, str]
) -> None:
    site.answers["/"] = ok(b"hello")
    fetcher.fetch(site.url("/"), keeping(), crawl="crawl")
    fetcher.fetch(site.url("/"), other[0], crawl=other[1])
    fetcher.fetch(site.url("/"), keeping(), crawl="crawl")
    assert uses(fetcher) == [NEW, NEW, KEPT]


@pytest.mark.parametrize("made", [policy(), keeping(min_delay_ms=15_001)])
def test_a_policy_that_keeps_nothing_or_rests_for_too_long_says_close(
    site: KeepingSite, fetcher: Fetching, made: FetchPolicy
) -> None:
    site.answers["/"] = ok(b"hello")
    assert pages(fetcher, site, "/", "/", made=made) == [b"hello", b"hello"]
    assert uses(fetcher) == [NEW, NEW]
    assert b"\r\nConnection: close\r\n" in site.requests[-1]


def test_a_server_that_hung_up_meanwhile_gets_a_new_connection(site: KeepingSite, fetcher: Fetching) -> None:
    site.answers["/"] = closing(ok(b"hello"))
    assert pages(fetcher, site, "/", "/", "/") == [b"hello"] * 3
    assert len(site.requests) == 3


def test_bytes_that_nobody_asked_for_get_into_no_answer(site: KeepingSite, fetcher: Fetching) -> None:
    sent = threading.Event()

    def answer(client: socket.socket) -> None:
        client.sendall(ok(b"hello"))
        eventually(lambda: fetcher.fetches, "the end of the fetch")
        client.sendall(ok(b"bogus"))
        sent.set()

    site.answers["/"], site.answers["/next"] = answer, ok(b"next")
    pages(fetcher, site, "/")
    assert sent.wait(10)
    assert pages(fetcher, site, "/next") == [b"next"]
    assert uses(fetcher) == [NEW, NEW]


@pytest.mark.parametrize("ending", [closing(b""), reset])
def test_a_connection_that_is_lost_at_the_second_request_is_replaced_once(
    site: KeepingSite, fetcher: Fetching, ending: Callable[[socket.socket], None]
) -> None:
    answers = iter((ending, ok(b"next"), ending))

    def answer(client: socket.socket) -> None:
        act = next(answers)
        if callable(act):
            act(client)
            client.close()
        else:
            client.sendall(act)

    site.answers["/"], site.answers["/next"] = ok(b"hello"), answer
    assert pages(fetcher, site, "/", "/next") == [b"hello", b"next"]
    assert len(site.requests) == 3
    assert fetcher.fetch(site.url("/next"), keeping()).status == Status.CONNECT_LOST
    assert len(site.requests) == 4  # nothing is kept of this site now


def test_a_request_is_repeated_after_the_hosts_rest(site: KeepingSite, fetcher: Fetching) -> None:
    answers = iter((closing(b""), ok(b"next")))
    asked_s: list[float] = []

    def answer(client: socket.socket) -> None:
        asked_s.append(time.monotonic())
        act = next(answers)
        if callable(act):
            act(client)
        else:
            client.sendall(act)

    site.answers["/"], site.answers["/next"] = ok(b"hello"), answer
    assert pages(fetcher, site, "/", "/next", made=keeping(min_delay_ms=300)) == [b"hello", b"next"]
    assert asked_s[1] - asked_s[0] >= 0.3


def test_a_request_is_not_repeated_if_the_host_rests_beyond_the_deadline(
    site: KeepingSite, fetcher: Fetching
) -> None:
    site.answers["/"], site.answers["/next"] = ok(b"hello"), closing(b"")
    made = keeping(min_delay_ms=LONG_MS)
    pages(fetcher, site, "/", made=made)
    assert fetcher.fetch(site.url("/next"), made).status == Status.CONNECT_LOST
    assert len(site.requests) == 2


def test_a_connection_that_is_lost_within_an_answer_is_not_replaced(
    site: KeepingSite, fetcher: Fetching
) -> None:
    site.answers["/"], site.answers["/next"] = ok(b"hello"), closing(b"HTTP/1.1 200")
    pages(fetcher, site, "/")
    assert fetcher.fetch(site.url("/next"), keeping()).status == Status.CONNECT_LOST
    assert len(site.requests) == 2


def test_a_connection_whose_address_is_no_longer_the_hosts_is_not_used(site: KeepingSite) -> None:
    found = ["127.0.0.1"]
    moved = KeepingSite(listener=socket.create_server(("127.0.0.2", site.port)))
    resolver = Resolver(lookup=lambda host: [ip_address(found[0])], ttl_s=0.0)
    fetcher = Fetching(resolver)
    site.answers["/"], moved.answers["/"] = ok(b"old"), ok(b"moved")
    url = site.url("/", host="www.moving.example")
    assert body_of(fetcher.fetch(url, keeping())) == b"old"
    found[0] = "127.0.0.2"
    fetch = fetcher.fetch(url, keeping())
    assert (body_of(fetch), fetch.peer_address, fetch.connections) == (b"moved", "127.0.0.2", (NEW,))
    eventually(lambda: site.ends == 1, "the fetcher to leave the old address")
    fetcher.close()
    moved.close()


def test_a_kept_connection_is_cut_like_any_other(site: KeepingSite, fetcher: Fetching) -> None:
    asked = threading.Event()

    def answer(client: socket.socket) -> None:
        asked.set()
        client.recv(1)

    site.answers["/"], site.answers["/next"] = ok(b"hello"), answer
    pages(fetcher, site, "/")
    cancellation, fetches = Cancellation(), list[FetchResult]()
    thread = threading.Thread(
        target=lambda: fetches.append(fetcher.fetch(site.url("/next"), keeping(), cancellation))
    )
    thread.start()
    assert asked.wait(10)
    cancellation.cancel()
    thread.join(10)
    assert [fetch.status for fetch in fetches] == [Status.PROCESSING_THREAD_KILLED]


def test_a_fetcher_that_is_closed_keeps_nothing(site: KeepingSite) -> None:
    fetcher = Fetching(Resolver())
    site.answers["/"] = ok(b"hello")
    pages(fetcher, site, "/")
    fetcher.close()
    eventually(lambda: site.ends == 1, "the connection to end")
    pages(fetcher, site, "/")
    eventually(lambda: site.ends == 2, "the next one to end, too")
    assert uses(fetcher) == [NEW, NEW]
    fetcher.close()


def test_a_robots_txt_leaves_its_connection_to_the_page(site: KeepingSite, fetcher: Fetching) -> None:
    site.answers["/robots.txt"], site.answers["/"] = ok(b"User-agent: *\n"), ok(b"hello")
    fetcher.fetch_robots(site.url("/robots.txt"), keeping())
    pages(fetcher, site, "/")
    assert uses(fetcher) == [NEW, KEPT]


def test_validators_go_over_a_kept_connection(site: KeepingSite, fetcher: Fetching) -> None:
    site.answers["/"] = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    for _ in range(2):
        fetch = fetcher.fetch(site.url("/"), keeping(), validators=Validators('"1"'))
        assert fetch.unchanged
    assert uses(fetcher) == [NEW, KEPT]


def test_a_challenge_is_answered_over_the_same_connection(site: KeepingSite, fetcher: Fetching) -> None:
    def answer(client: socket.socket) -> None:
        known = b"\r\nAuthorization: Basic " in site.requests[-1]
        client.sendall(
            ok(b"hello")
            if known
            else b"HTTP/1.1 401 Who?\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
        )

    site.answers["/"] = answer
    assert pages(fetcher, site, "/", made=keeping(user="u", password="p")) == [b"hello"]
    assert uses(fetcher) == [NEW, KEPT]
    assert site.connections == 1


# TLS.


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[KeepingSite, Fetching]]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "*.example.org").configure_cert(context)
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    made = KeepingSite(context)
    fetcher = Fetching(
        Resolver({("my_site.example.org", made.port): [ip_address("127.0.0.1")]}), ca_file=path
    )
    yield made, fetcher
    fetcher.close()
    made.close()


def test_a_kept_connection_needs_no_handshake(secure: tuple[KeepingSite, Fetching]) -> None:
    site, fetcher = secure
    site.answers["/"] = ok(b"hello")
    assert pages(fetcher, site, "/", "/") == [b"hello"] * 2
    assert uses(fetcher) == [NEW, KEPT]
    assert [fetch.handshakes for fetch in fetcher.fetches] == [1, 0]


def test_a_server_that_hung_up_over_tls_gets_a_new_connection(secure: tuple[KeepingSite, Fetching]) -> None:
    site, fetcher = secure
    site.answers["/"] = closing(ok(b"hello"))
    assert pages(fetcher, site, "/", "/", "/") == [b"hello"] * 3
    assert len(site.requests) == 3
