"""Why a fetch has no answer, in words for people, from real servers. The words follow those of the status
(`connection failed: …`) and don't repeat them."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trustme
from frontier_harness.ports import KeptPort
from node_doubles.loopback import Fetching, Site, policy, wait_for_hang_up

from crawler_node.fetching.addresses import Resolver, Unresolvable
from toehold_client.worker.addresses import Address, AddressRule

BRIEF_MS = 300


@pytest.fixture
def hanging() -> Iterator[Resolver]:
    """A resolver that never answers."""
    over = threading.Event()

    def lookup(host: str) -> list[Address]:
        over.wait()
        return []

    yield Resolver(lookup=lookup)
    over.set()


def told(fetching: Fetching, uri: str, **settings: Any) -> tuple[int, str]:
    fetch = fetching.fetch(uri, policy(**settings))
    return fetch.status, fetch.reason


def test_a_name_without_address_needs_no_reason() -> None:
    def lookup(host: str) -> list[Address]:
        raise Unresolvable(f"{host}: unknown", "")

    fetching = Fetching(Resolver(lookup=lookup))
    for _ in range(2):  # the second answer is remembered
        assert told(fetching, "http://nowhere.example/") == (-1, "")
    fetching.close()


def test_a_name_that_dns_did_not_answer_for_in_time_says_so(hanging: Resolver) -> None:
    fetching = Fetching(hanging)
    assert told(fetching, "http://slow.example/", timeout_ms=BRIEF_MS) == (-1, "DNS did not answer in time")
    fetching.close()


def test_a_refused_connection_is_told_with_its_address(fetcher: Fetching) -> None:
    with KeptPort() as nobodys:
        reason = f"{nobodys.address}: connection refused"
        assert told(fetcher, f"http://{nobodys.address}/") == (-2, reason)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("expired", "TLS: certificate has expired"),
        ("self-signed", "TLS: the issuer of the certificate is unknown"),
        ("other name", "TLS: certificate is not valid for 'secure.example'"),
    ],
)
def test_a_certificate_that_proves_nothing_is_told_with_its_fault(
    problem: str, words: str, resolver: Resolver, tmp_path: Path
) -> None:
    authority = trustme.CA()
    issuer = trustme.CA() if problem == "self-signed" else authority
    ended = datetime(2020, 1, 1, tzinfo=UTC) if problem == "expired" else None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert(
        "other.example" if problem == "other name" else "secure.example",
        not_before=datetime(2019, 1, 1, tzinfo=UTC),
        not_after=ended,
    ).configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    site, fetching = Site(context), Fetching(resolver, ca_file=ca_file)
    assert told(fetching, site.url("/", "secure.example")) == (-2, words)
    fetching.close()
    site.close()


def test_a_server_that_does_not_speak_tls_is_told(fetcher: Fetching) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def serve() -> None:
            client, _ = plain.accept()
            with client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                wait_for_hang_up(client)

        thread = threading.Thread(target=serve)
        thread.start()
        uri = f"https://127.0.0.1:{plain.getsockname()[1]}/"
        assert told(fetcher, uri) == (-2, "TLS: the server does not speak TLS on this port")
        thread.join()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"timeout_ms": BRIEF_MS}, "TLS: not done within timeout_seconds = 0.3"),
        ({"connect_timeout_ms": BRIEF_MS}, "TLS: no answer within connect_timeout_seconds = 0.3"),
    ],
)
def test_a_tls_handshake_that_hangs_is_told_with_the_limit_that_ended_it(
    fetcher: Fetching, limits: dict[str, int], words: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        assert told(fetcher, uri, **limits) == (-2, words)


def test_a_connection_that_ends_without_an_answer_is_told(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b""
    assert told(fetcher, site.url("/")) == (-3, "closed without an answer")
    site.answers["/"] = b"HTTP/1.1 200 OK\r\nContent-"
    assert told(fetcher, site.url("/")) == (-3, "closed within the head of the answer")


def test_silence_is_told_with_the_limit_that_ended_it(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = wait_for_hang_up
    limit = {"read_timeout_ms": BRIEF_MS}
    assert told(fetcher, site.url("/"), **limit) == (-4, "no answer within read_timeout_seconds = 0.3")
    limit = {"timeout_ms": BRIEF_MS}
    assert told(fetcher, site.url("/"), **limit) == (-4, "not done within timeout_seconds = 0.3")

    def begin(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Len")
        wait_for_hang_up(client)

    site.answers["/"] = begin
    limit = {"read_timeout_ms": BRIEF_MS}
    assert told(fetcher, site.url("/"), **limit) == (-4, "nothing more within read_timeout_seconds = 0.3")


def test_an_address_that_is_not_allowed_is_named_with_the_rule(site: Site) -> None:
    found = [ip_address("127.0.0.1"), ip_address("127.0.0.2")]
    fetching = Fetching(Resolver(lookup=lambda host: found))
    public, network = (AddressRule.parse([rule]) for rule in ("public", "10.0.0.0/8"))
    uri = site.url("/", "inner.example")
    assert told(fetching, uri, addresses=public) == (-7, "127.0.0.1 is not public")
    assert told(fetching, uri, addresses=network) == (-7, "127.0.0.1 is not among allowed_addresses")
    assert told(fetching, "ftp://h/") == (-7, "the scheme must be http or https, got ftp")
    fetching.close()


def test_an_answer_that_is_not_http_is_told_with_the_rule_that_it_breaks(
    site: Site, fetcher: Fetching
) -> None:
    site.answers["/"] = b"SSH-2.0-OpenSSH_9.6\r\n"
    assert told(fetcher, site.url("/")) == (-10, 'it begins with "SSH-2.0-OpenSSH_9.6"')
    site.answers["/"] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
    assert told(fetcher, site.url("/")) == (-10, "status 101, which nobody asked for")
    site.answers["/"] = b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 50_000
    assert told(fetcher, site.url("/")) == (-10, "a head of more than 307200 bytes")


def test_a_proxy_that_does_not_answer_is_told_as_such(fetcher: Fetching) -> None:
    with KeptPort() as nobodys:
        proxy = f"http://{nobodys.address}"
        reason = f"proxy {nobodys.address}: connection refused"
        assert told(fetcher, "http://www.alpha.example/", proxy=proxy) == (-2, reason)


def test_a_proxy_that_refuses_is_told_with_its_answer(site: Site, fetcher: Fetching) -> None:
    proxy, uri = f"http://127.0.0.1:{site.port}", "https://www.alpha.example/"
    site.answers["www.alpha.example:443"] = b"HTTP/1.1 502 No such host\r\n\r\n"
    assert told(fetcher, uri, proxy=proxy) == (-2, "the proxy answered CONNECT with 502")
    site.answers["www.alpha.example:443"] = b""
    assert told(fetcher, uri, proxy=proxy) == (-2, "proxy: closed without an answer")


def test_a_fetch_with_an_answer_has_no_reason_to_tell(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    assert told(fetcher, site.url("/")) == (503, "")
