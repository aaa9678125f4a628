"""HttpFetcher over TLS."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from node_doubles.loopback import (
    LONG_MS,
    SHORT_MS,
    Fetching,
    Site,
    body_of,
    ok,
    policy,
    wait_for_hang_up,
)

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.http_fetch import HttpFetcher
from crawler_node.fetching.outcome import Status


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
