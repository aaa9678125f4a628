"""HttpFetcher with answers whose bodies do not come to their end: once the head has come, the answer counts,
with what came of its body, however the rest was lost.
"""

import gzip
import hashlib
import socket
import ssl
import threading
from base64 import b32encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from node_doubles.loopback import LONG_MS, Fetching, Site, body_of, ok, policy, reset, wait_for_hang_up

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.outcome import Status, Truncation
from crawler_node.fetching.robots_file import robots_file

BRIEF_MS = 500

HELLO = b"hello"

FRAMINGS = {
    "no length": b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n%s",
    "no length, HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n%s",
    "too large a length": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n%s",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Length: 77\r\n\r\n%s",
    "no last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n",
    "within a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n63\r\n%s",
    "within a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n1",
    "chunks of HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n",
}
"""Answers whose ends are missing, by how their bodies are framed."""


def _close(_: socket.socket) -> None:
    """Hangs up; over TLS without a word (close_notify), as many servers do."""


ENDS: dict[str, tuple[Callable[[socket.socket], None], dict[str, Any], Truncation, str]] = {
    "silence": (wait_for_hang_up, {"read_timeout_ms": BRIEF_MS}, Truncation.TIME, "Stalled"),
    "deadline": (wait_for_hang_up, {"timeout_ms": BRIEF_MS}, Truncation.TIME, "DeadlinePassed"),
    "cut": (_close, {}, Truncation.DISCONNECT, "ConnectionLost"),
    "reset": (reset, {}, Truncation.DISCONNECT, "ConnectionLost"),
}
"""How the rest of a body is lost: what the server does, the limit that ends the fetch, what the body then
counts as, and its annotation."""


def says_then(sent: bytes, end: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    def answer(client: socket.socket) -> None:
        client.sendall(sent)
        end(client)

    return answer


def digest_of(body: bytes) -> str:
    return "sha1:" + b32encode(hashlib.sha1(body).digest()).decode()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("secure.example").configure_cert(context)
    ca_file = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    site = Site(context)
    yield site, ca_file
    site.close()


@pytest.fixture
def trusting(secure: tuple[Site, Path], resolver: Resolver) -> Iterator[Fetching]:
    fetching = Fetching(resolver, ca_file=secure[1])
    yield fetching
    fetching.close()


@pytest.mark.sampled("end", ENDS)
@pytest.mark.sampled("framing", FRAMINGS)
def test_the_part_of_a_body_that_came_is_kept(site: Site, fetcher: Fetching, framing: str, end: str) -> None:
    does, limits, truncation, note = ENDS[end]
    site.answers["/"] = says_then(FRAMINGS[framing] % HELLO, does)
    fetch = fetcher.fetch(site.url("/"), policy(**limits))
    if end == "cut" and framing.startswith("no length"):
        truncation, note = Truncation.NONE, ""  # this is how such a body ends
    assert (fetch.status, body_of(fetch), fetch.truncation) == (200, HELLO, truncation)
    assert (fetch.body_bytes, fetch.digest) == (len(HELLO), digest_of(HELLO))
    said = [each for each in fetch.annotations if each != "ambiguousLength"]
    assert [each.partition(":")[0] for each in said] == ([note] if note else [])
    assert fetch.response_head.startswith(b"HTTP/1.")
    assert fetch.duration_ms < LONG_MS


@pytest.mark.sampled("end", ENDS)
@pytest.mark.sampled("status", [200, 301, 404, 503])
def test_an_answer_of_whose_body_nothing_came_keeps_its_status_and_its_target(
    site: Site, fetcher: Fetching, status: int, end: str
) -> None:
    does, limits, truncation, _ = ENDS[end]
    sent = b"HTTP/1.1 %d Said\r\nLocation: /there\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\n" % status
    site.answers["/"] = says_then(sent, does)
    fetch = fetcher.fetch(site.url("/"), policy(**limits))
    assert (fetch.status, body_of(fetch), fetch.truncation) == (status, b"", truncation)
    assert (fetch.digest, fetch.retry_after) == (digest_of(b""), "7")
    assert fetch.redirect_target == (site.url("/there") if status == 301 else None)


@pytest.mark.sampled("end", ENDS)
@pytest.mark.sampled("framing", ["no length", "too large a length", "no last chunk"])
def test_the_part_that_came_over_tls_is_kept_too(
    secure: tuple[Site, Path], trusting: Fetching, framing: str, end: str
) -> None:
    does, limits, truncation, _ = ENDS[end]
    secure[0].answers["/"] = says_then(FRAMINGS[framing] % HELLO, does)
    fetch = trusting.fetch(secure[0].url("/", "secure.example"), policy(**limits))
    if end == "cut" and framing == "no length":
        truncation = Truncation.NONE
    assert (fetch.status, body_of(fetch), fetch.truncation) == (200, HELLO, truncation)


@pytest.mark.parametrize("end", ["silence", "deadline", "reset"])
@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX: "])
def test_an_answer_whose_head_has_not_come_is_none(
    site: Site, fetcher: Fetching, sent: bytes, end: str
) -> None:
    does, limits, truncation, _ = ENDS[end]
    site.answers["/"] = says_then(sent, does)
    fetch = fetcher.fetch(site.url("/"), policy(**limits))
    status = Status.TIMEOUT if truncation is Truncation.TIME else Status.CONNECT_LOST
    assert (fetch.status, fetch.truncation, fetch.digest) == (status, Truncation.NONE, "")
    assert (fetch.response_head, body_of(fetch)) == (b"", b"")


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello and more",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_a_body_that_has_come_to_its_end_needs_no_end_of_its_connection(
    site: Site, fetcher: Fetching, sent: bytes
) -> None:
    site.answers["/"] = says_then(sent, wait_for_hang_up)
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, body_of(fetch), fetch.truncation) == (200, HELLO, Truncation.NONE)
    assert fetch.annotations == ()
    assert fetch.duration_ms < LONG_MS


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_body_waits_for_none(site: Site, fetcher: Fetching, status: int) -> None:
    site.answers["/"] = says_then(b"HTTP/1.1 %d X\r\nContent-Length: 9\r\n\r\n" % status, wait_for_hang_up)
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, fetch.truncation, fetch.annotations) == (status, Truncation.NONE, ())


def test_the_beginning_of_a_plain_body_that_looks_like_a_chunk_s_size_is_kept(
    site: Site, fetcher: Fetching
) -> None:
    sent = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ncafe"
    for end in ENDS:
        does, limits, _, _ = ENDS[end]
        site.answers["/"] = says_then(sent, does)
        assert body_of(fetcher.fetch(site.url("/"), policy(**limits))) == b"cafe"


def test_a_server_that_never_falls_silent_is_read_to_the_deadline(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = lambda client: site.drip(client, b"HTTP/1.1 200 OK\r\n\r\n", b"x")
    fetch = fetcher.fetch(site.url("/"), policy(read_timeout_ms=BRIEF_MS, timeout_ms=3 * BRIEF_MS))
    assert (fetch.status, fetch.truncation) == (200, Truncation.TIME)
    assert fetch.annotations == ("DeadlinePassed:deadline_passed",)
    assert body_of(fetch) == b"x" * fetch.body_bytes != b""


def relay(listener: socket.socket, port: int, slow: threading.Event) -> None:
    """Passes one connection on; what the server sends in small pieces with rests, once it is `slow`."""
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", port))
    there = threading.Thread(target=copy, args=(client, server, lambda data: server.sendall(data)))
    there.start()

    def trickle(data: bytes) -> None:
        size = 1000 if slow.is_set() else len(data)
        for at in range(0, len(data), size):
            client.sendall(data[at : at + size])
            if slow.is_set():
                threading.Event().wait(BRIEF_MS / 2500)

    copy(server, client, trickle)
    there.join()
    client.close()
    server.close()


def copy(source: socket.socket, sink: socket.socket, send: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            send(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    ("limits", "truncation"),
    [({}, Truncation.NONE), ({"timeout_ms": 2 * BRIEF_MS}, Truncation.TIME)],
    ids=["whole", "deadline"],
)
def test_a_record_of_tls_that_trickles_is_no_silence(
    secure: tuple[Site, Path], trusting: Fetching, limits: dict[str, Any], truncation: Truncation
) -> None:
    """The server is slow and never silent, though nothing can be read before a record is whole."""
    site, _ = secure
    slow = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"

    def answer(client: socket.socket) -> None:
        client.sendall(head)
        slow.set()
        client.sendall(b"x" * 10_000)
        wait_for_hang_up(client)

    site.answers["/"] = answer
    with socket.create_server(("127.0.0.1", 0)) as listener:
        passing = threading.Thread(target=relay, args=(listener, site.port, slow))
        passing.start()
        uri = f"https://secure.example:{listener.getsockname()[1]}/"
        fetch = trusting.fetch(uri, policy(read_timeout_ms=BRIEF_MS, **limits))
        passing.join()
    assert (fetch.status, fetch.truncation) == (200, truncation), fetch.annotations
    assert fetch.body_bytes == (10_000 if truncation is Truncation.NONE else 0)
    assert fetch.duration_ms > 1.5 * BRIEF_MS


def test_a_gzip_page_that_stalls_keeps_the_bytes_that_came(site: Site, fetcher: Fetching) -> None:
    packed = gzip.compress(b"<p>" * 1000, mtime=0)[:-12]
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n"
    site.answers["/"] = says_then(head + packed, wait_for_hang_up)
    fetch = fetcher.fetch(site.url("/"), policy(read_timeout_ms=BRIEF_MS))
    assert (fetch.status, body_of(fetch), fetch.truncation) == (200, packed, Truncation.TIME)


def test_a_connection_that_was_kept_open_is_closed_and_not_used_again(site: Site, fetcher: Fetching) -> None:
    gone = threading.Event()

    def answer(client: socket.socket) -> None:
        client.sendall(FRAMINGS["no length"] % HELLO)
        if client.recv(1) == b"":
            gone.set()

    site.answers["/"], site.answers["/next"] = answer, ok(b"next")
    fetcher.fetch(site.url("/"), policy(read_timeout_ms=BRIEF_MS))
    assert gone.wait(LONG_MS / 1000)
    assert body_of(fetcher.fetch(site.url("/next"), policy())) == b"next"
    assert site.connections == 2


def test_a_challenge_whose_page_falls_silent_is_answered(site: Site, fetcher: Fetching) -> None:
    challenge = b"HTTP/1.1 401 Who?\r\nWWW-Authenticate: Basic realm=x\r\nConnection: keep-alive\r\n\r\nWho"

    def answer(client: socket.socket) -> None:
        if b"\r\nAuthorization: Basic " in site.requests[-1]:
            client.sendall(ok(HELLO))
        else:
            client.sendall(challenge)
            wait_for_hang_up(client)

    site.answers["/"] = answer
    fetch = fetcher.fetch(site.url("/"), policy(read_timeout_ms=BRIEF_MS, user="a", password="b"))
    assert (fetch.status, body_of(fetch), fetch.annotations) == (200, HELLO, ("credentialsSent",))


@pytest.mark.sampled("end", ENDS)
@pytest.mark.sampled(
    ("framing", "rules"),
    [
        ("no length", b"User-agent: *\nDisallow: /no\n"),
        ("too large a length", b"User-agent: *\nDisallow: /no\nAll"),
        ("too large a length", b""),
    ],
)
def test_a_robots_txt_that_falls_silent_is_not_read_as_the_rules(
    site: Site, fetcher: Fetching, framing: str, rules: bytes, end: str
) -> None:
    """RFC 9309, 2.3.1.4: what may be missing must not be taken for allowed."""
    does, limits, truncation, _ = ENDS[end]
    site.answers["/robots.txt"] = says_then(FRAMINGS[framing] % rules, does)
    file = robots_file(fetcher.fetch_robots(site.url("/robots.txt"), policy(**limits)))
    if truncation is Truncation.TIME:
        assert (file.status, file.body) == (Status.TIMEOUT, b"")
    elif rules:
        assert (file.status, file.body) == (200, rules)
    else:
        assert (file.status, file.body) == (Status.CONNECT_LOST, b"")


def test_a_missing_robots_txt_is_missing_though_its_page_falls_silent(site: Site, fetcher: Fetching) -> None:
    sent = b"HTTP/1.1 404 Gone\r\nConnection: keep-alive\r\n\r\nNothing here"
    site.answers["/robots.txt"] = says_then(sent, wait_for_hang_up)
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy(read_timeout_ms=BRIEF_MS))
    assert robots_file(fetch).status == 404
