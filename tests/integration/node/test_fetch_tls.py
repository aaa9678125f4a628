"""HttpFetcher over TLS."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from node_doubles.loopback import (
    Fetching,
    Site,
    body_of,
    ok,
    policy,
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


def test_unreadable_certificates_are_named(resolver: Resolver, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    for path in (bad, tmp_path / "missing.pem"):
        with pytest.raises(ValueError, match=path.name):
            HttpFetcher(resolver, ca_file=path)
