"""HttpFetcher through a proxy."""

import base64
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import trustme
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import PATIENCE_S
from node_doubles.loopback import (
    LONG_MS,
    SHORT_MS,
    Fetching,
    Site,
    body_of,
    header_lines,
    ok,
    policy,
    redirect,
    relay_to,
    wait_for_hang_up,
)

from crawler_node.fetching.addresses import Resolver, Unresolvable
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.fetch import FetchPolicy
from crawler_node.fetching.outcome import Status
from crawler_node.fetching.proxy import Proxy
from toehold_client.worker.addresses import Address, AddressRule

Answer = bytes | Callable[[socket.socket], None]


def no_names(host: str) -> list[Address]:
    raise Unresolvable(f"{host}: names are the proxy's business")


@pytest.fixture
def proxy() -> Iterator[Site]:
    """A proxy. It is asked for whole URIs, or for an authority to connect to."""
    proxy = Site()
    yield proxy
    proxy.close()


@pytest.fixture
def fetcher() -> Iterator[Fetching]:
    fetcher = Fetching(Resolver(lookup=no_names))
    yield fetcher
    fetcher.close()


def through(proxy: Site, credentials: str = "", **more: Any) -> FetchPolicy:
    return policy(proxy=f"http://{credentials}127.0.0.1:{proxy.port}", **more)


def test_a_page_is_fetched_through_the_proxy_which_looks_up_its_host(proxy: Site, fetcher: Fetching) -> None:
    proxy.answers["http://www.alpha.example/a?b=[c]"] = ok(b"hello", b"Set-Cookie: a=b; Path=/")
    for _ in range(2):
        fetch = fetcher.fetch("http://www.alpha.example/a?b=[c]", through(proxy, cookies=True))
    assert (fetch.status, body_of(fetch)) == (200, b"hello")
    assert fetch.peer_address is None, "nobody knows the host's; the proxy's would be everybody's"
    assert header_lines(proxy.requests[1], b"Host") == [b"www.alpha.example"]
    assert header_lines(proxy.requests[1], b"Cookie") == [b"a=b"]


def test_the_record_is_of_what_the_host_was_asked(proxy: Site, fetcher: Fetching) -> None:
    proxy.answers["http://www.alpha.example/a"] = ok(b"hello")
    fetch = fetcher.fetch("http://www.alpha.example/a", through(proxy, "somebody:s3%20cret@"))
    said = b"Basic " + base64.b64encode(b"somebody:s3 cret")
    assert header_lines(proxy.requests[0], b"Proxy-Authorization") == [said]
    assert fetch.request_head.startswith(b"GET /a HTTP/1.1\r\nHost: www.alpha.example\r\n")
    assert b"Proxy" not in fetch.request_head and said not in fetch.request_head


def test_https_goes_through_a_tunnel(proxy: Site, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("secure.example").configure_cert(context)
    secure = Site(context)
    secure.answers["/a"] = ok(b"secret")
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    fetcher = Fetching(Resolver(lookup=no_names), ca_file=ca_file)
    for name in ("secure.example", "other.example"):
        proxy.answers[f"{name}:443"] = relay_to(secure.port)
    fetch = fetcher.fetch("https://secure.example/a", through(proxy, "u:p@"))
    assert (fetch.status, body_of(fetch), fetch.peer_address) == (200, b"secret", None)
    assert proxy.requests[0].startswith(
        b"CONNECT secure.example:443 HTTP/1.1\r\nHost: secure.example:443\r\n"
    )
    assert header_lines(proxy.requests[0], b"Proxy-Authorization") == [b"Basic dTpw"]
    assert b"Proxy" not in secure.requests[0]
    assert secure.requests[0] == fetch.request_head
    secure.answers["/407"] = b"HTTP/1.1 407 Who?\r\n\r\n"
    assert fetcher.fetch("https://secure.example/407", through(proxy)).status == 407, "the host says so"
    fetch = fetcher.fetch("https://other.example/a", through(proxy))
    assert fetch.status == Status.CONNECT_FAILED, "the certificate is the host's, and of another name"
    fetcher.close()
    secure.close()


@pytest.mark.parametrize(
    ("answer", "noted"),
    [
        (b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic\r\n\r\n", "CONNECT_answered_407"),
        (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "CONNECT_answered_403"),
        (b"HTTP/1.1 502 No such host\r\n\r\n", "CONNECT_answered_502"),
        (b"nonsense\r\n\r\n", "proxy"),
        (b"", "proxy"),
        (b"HTTP/1.1 200 OK\r\n\r\nno TLS", "TLS"),
        (wait_for_hang_up, "nothing_received"),
    ],
    ids=["407", "403", "502", "nonsense", "nothing", "no TLS", "silent"],
)
def test_a_proxy_that_does_not_connect_us_is_a_failed_connection(
    proxy: Site, fetcher: Fetching, answer: Answer, noted: str
) -> None:
    proxy.answers["www.alpha.example:443"] = answer
    fetch = fetcher.fetch("https://www.alpha.example/", through(proxy, read_timeout_ms=SHORT_MS))
    assert fetch.status == Status.CONNECT_FAILED
    assert noted in fetch.annotations[0]


def test_a_proxy_that_wants_to_know_who_we_are_is_a_failed_connection(proxy: Site, fetcher: Fetching) -> None:
    proxy.answers["http://www.alpha.example/"] = (
        b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\nwho"
    )
    fetch = fetcher.fetch("http://www.alpha.example/", through(proxy))
    assert (fetch.status, fetch.response_head) == (Status.CONNECT_FAILED, b"")
    assert "407" in fetch.annotations[0]


def test_a_407_of_a_host_is_its_answer(proxy: Site) -> None:
    proxy.answers["/"] = b"HTTP/1.1 407 Who?\r\n\r\n"
    fetcher = Fetching(Resolver())
    assert fetcher.fetch(proxy.url("/"), policy()).status == 407
    fetcher.close()


def test_a_proxy_that_is_not_there_is_a_failed_connection(fetcher: Fetching) -> None:
    with KeptPort() as nobodys:
        for name in (nobodys.address, "proxy.example:3128"):
            for uri in ("http://www.alpha.example/", "https://www.alpha.example/"):
                fetch = fetcher.fetch(uri, policy(proxy=f"http://{name}"))
                assert fetch.status == Status.CONNECT_FAILED
                assert "proxy" in fetch.annotations[0]


def test_the_proxy_itself_may_have_any_address(proxy: Site, fetcher: Fetching) -> None:
    proxy.answers["http://www.alpha.example/"] = ok(b"hello")
    public = through(proxy, addresses=AddressRule.parse(["public"]))
    assert fetcher.fetch("http://www.alpha.example/", public).status == 200
    fetch = fetcher.fetch(f"http://127.0.0.1:{proxy.port}/", public)
    assert (fetch.status, proxy.connections) == (Status.UNFETCHABLE_URI, 1), "as a host it is like any other"


@pytest.mark.sampled(
    "host", ["10.0.0.1", "169.254.169.254", "[fd00:ec2::254]", "[::ffff:10.0.0.1]", "0x0a.1", "167772161"]
)
@pytest.mark.sampled("scheme", ["http", "https"])
def test_a_host_that_is_an_address_must_be_allowed(
    proxy: Site, fetcher: Fetching, scheme: str, host: str
) -> None:
    fetch = fetcher.fetch(f"{scheme}://{host}/", through(proxy))
    assert (fetch.status, proxy.connections) == (Status.UNFETCHABLE_URI, 0), "no connection was attempted"


@pytest.mark.sampled(
    "host",
    [
        *("localhost", "LocalHost.", "www.localhost", "localhost.localdomain", "metadata.google.internal"),
        *("internal", "printer.local", "router.home.arpa", "metadata", "www.alpha.example@localhost"),
    ],
)
@pytest.mark.sampled("scheme", ["http", "https"])
def test_a_name_that_nobody_can_have_on_the_public_network_is_not_shown_to_the_proxy(
    proxy: Site, fetcher: Fetching, scheme: str, host: str
) -> None:
    public = through(proxy, addresses=AddressRule.parse(["public"]))
    fetch = fetcher.fetch(f"{scheme}://{host}/", public)
    assert (fetch.status, proxy.connections) == (Status.UNFETCHABLE_URI, 0)
    assert "not_among_the_allowed" in fetch.annotations[0]


def test_robots_txt_does_not_lead_to_such_a_name_either(proxy: Site, fetcher: Fetching) -> None:
    proxy.answers["http://a.example/robots.txt"] = redirect("http://localhost/robots.txt")
    public = through(proxy, addresses=AddressRule.parse(["public"]))
    fetch = fetcher.fetch_robots("http://a.example/robots.txt", public)
    assert (fetch.status, len(proxy.requests)) == (Status.UNFETCHABLE_URI, 1)


def test_a_host_that_is_an_allowed_address_is_fetched(proxy: Site, fetcher: Fetching) -> None:
    proxy.answers["http://127.0.0.1:81/"] = ok(b"hello")
    assert fetcher.fetch("http://127.0.0.1:81/", through(proxy)).status == 200
    proxy.answers["[::1]:443"] = b"HTTP/1.1 403 No\r\n\r\n"
    assert fetcher.fetch("https://[::1]/", through(proxy)).status == Status.CONNECT_FAILED
    assert proxy.requests[1].startswith(b"CONNECT [::1]:443 HTTP/1.1\r\n")


def test_redirects_of_robots_txt_go_through_the_proxy_too(proxy: Site, fetcher: Fetching) -> None:
    proxy.answers["http://a.example/robots.txt"] = redirect("http://b.example/robots.txt")
    proxy.answers["http://b.example/robots.txt"] = redirect("http://10.0.0.1/robots.txt")
    fetch = fetcher.fetch_robots("http://a.example/robots.txt", through(proxy))
    assert (fetch.status, len(fetch.hops), len(proxy.requests)) == (Status.UNFETCHABLE_URI, 2, 2)


def test_a_page_behind_a_password_is_reached_through_the_proxy(proxy: Site, fetcher: Fetching) -> None:
    def answer(client: socket.socket) -> None:
        said = header_lines(proxy.requests[-1], b"Authorization")
        client.sendall(ok(b"hello") if said else b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\n\r\n")

    proxy.answers["http://a.example/"] = answer
    fetch = fetcher.fetch("http://a.example/", through(proxy, "u:p@", user="v", password="q"))
    assert fetch.status == 200
    assert header_lines(proxy.requests[-1], b"Authorization") == [b"Basic " + base64.b64encode(b"v:q")]
    assert header_lines(proxy.requests[-1], b"Proxy-Authorization") == [b"Basic dTpw"]


def test_a_fetch_that_waits_for_the_proxy_can_be_cut(proxy: Site, fetcher: Fetching) -> None:
    started, cancellation = threading.Event(), Cancellation()

    def answer(client: socket.socket) -> None:
        started.set()
        wait_for_hang_up(client)

    def cut() -> None:
        started.wait(PATIENCE_S)
        cancellation.cancel()

    proxy.answers["www.alpha.example:443"] = answer
    thread = threading.Thread(target=cut)
    thread.start()
    fetch = fetcher.fetch("https://www.alpha.example/", through(proxy), cancellation)
    thread.join()
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS


def test_a_proxy_may_be_named(proxy: Site) -> None:
    fetcher = Fetching(Resolver({("proxy.example", proxy.port): [IPv4Address("127.0.0.1")]}, lookup=no_names))
    proxy.answers["http://a.example/"] = ok(b"hello")
    assert (
        fetcher.fetch("http://a.example/", policy(proxy=f"http://proxy.example:{proxy.port}")).status == 200
    )
    fetcher.close()


@pytest.mark.parametrize(
    "text",
    [
        *("", "proxy.example:3128", "https://p.example:1", "http://p.example"),
        *("http://:1", "http://u:s3cret@p.example:x"),
    ],
)
def test_a_proxy_that_makes_no_sense_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ValueError, match="must be http://HOST:PORT") as refusal:
        Proxy.parse(text)
    assert "s3cret" not in str(refusal.value)
