"""The names that a certificate proves, with real servers: those that OpenSSL compares with a wildcard, and
the others, which browsers compare too."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address

import pytest
from node_doubles.certificates import Authority
from node_doubles.loopback import Fetching, Site, body_of, header_lines, ok, policy, relay_to

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.outcome import Status

LONG_LABEL = "a" * 62

PROVED = [
    ("my_site.blog.example", ["*.blog.example"]),
    ("my_site.blog.example", ["www.blog.example", "*.other.example", "*.BLOG.example"]),
    ("MY_Site.blog.example", ["*.blog.example"]),
    ("my_site.blog.example.", ["*.blog.example"]),
    ("my_site.example", ["*.example"]),  # a domain that no registry has
    ("my_site.blog.example", ["my_site.blog.example"]),
    ("my_site.blog.example", ["My_Site.Blog.Example"]),
    ("my_site.example", ["blog.example", "my_site.example"]),
    ("_dmarc.blog.example", ["*.blog.example"]),
    ("_.blog.example", ["*.blog.example"]),
    ("site_.blog.example", ["*.blog.example"]),
    ("www.my_blog.example", ["*.my_blog.example"]),
    ("a_b.my_blog.example", ["*.my_blog.example"]),
    ("www.my_blog.example", ["www.my_blog.example"]),
    ("my_site.xn--bcher-kva.example", ["*.xn--bcher-kva.example"]),
    ("my_site.bücher.example", ["*.xn--bcher-kva.example"]),
    ("xn--bcher-kva.my_blog.example", ["*.my_blog.example"]),
    ("my_site.github.io", ["*.github.io"]),
    ("my_site.example.co.uk", ["*.example.co.uk"]),
    (f"{LONG_LABEL}_.blog.example", ["*.blog.example"]),
    ("-site.blog.example", ["*.blog.example"]),
    ("site-.blog.example", ["*.blog.example"]),
    ("www.-blog.example", ["*.-blog.example"]),
    ("www.blog-.example", ["*.blog-.example"]),
    ("a~b!$&'()+,;=`{}.blog.example", ["*.blog.example"]),
    ("mysite.blog.example", ["*.blog.example"]),
    ("MYSITE.blog.example.", ["*.blog.example"]),
    ("123.blog.example", ["*.blog.example"]),
    (f"{LONG_LABEL}a.blog.example", ["*.blog.example"]),
    ("bücher.blog.example", ["*.blog.example"]),
    ("127.0.0.1", ["127.0.0.1"]),
    ("0x7f.1", ["127.0.0.1"]),
]

NOT_PROVED = [
    ("my_site.www.blog.example", ["*.blog.example"]),
    ("www.my_site.blog.example", ["*.blog.example"]),
    ("my_site.blog.example", ["*.*.example"]),
    ("my_site.blog.example", ["my_*.blog.example"]),
    ("my_site.blog.example", ["*_site.blog.example"]),
    ("my_site.blog.example", ["m*e.blog.example"]),
    ("my_site.blog.example", ["my_site.*.example"]),
    ("my_site.blog.example", ["*"]),
    ("my_site.blog.example", ["**.blog.example"]),
    ("my_site.blog.example", ["**"]),
    ("my_site.blog.example", ["*."]),
    ("my_site.blog.example", ["*.example"]),
    ("my_site.co.uk", ["*.co.uk"]),
    ("my_site.com", ["*.com"]),
    ("my_site", ["*"]),
    ("blog_.example", ["*.blog_.example"]),
    ("my_site.blog.example", ["blog.example"]),
    ("my_site.blog.example", [".blog.example"]),
    ("my_site.blog.example", ["mysite.blog.example"]),
    ("my_site.blog.example", ["my-site.blog.example"]),
    ("my_site.blog.example", ["my_site.blog.example\0.other.example"]),
    ("my_site.blog.example", ["*.blog.example\0.other.example"]),
    ("my_site.blog.example", ["my_site.blog.example "]),
    ("my_site.blog.example", ["my_site.blog.example.other.example"]),
    ("my_site.blog.example", ["other.my_site.blog.example"]),
    ("my_k.blog.example", ["my_\N{KELVIN SIGN}.blog.example"]),
    ("my_site.xn--bcher-kva.example", ["*.bücher.example"]),
    ("my_site.blog.example", []),
    ("my_site.blog.example", ["127.0.0.1"]),
    ("my_site.blog.example", ["*.0.0.1"]),
    ("127.0.0.1", ["*.0.0.1"]),
    ("127.0.0.1", ["a_b.example", "*.example.com"]),
    ("mysite.www.blog.example", ["*.blog.example"]),
    ("mysite.example", ["*.example"]),
    ("mysite.blog.example", ["my*.blog.example"]),
]

TOO_LONG = "a name must have at most 253 characters, and its labels 1 to 63"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def trusting(authority: Authority) -> Iterator[Fetching]:
    """A fetcher that trusts the authority. Every name leads to loopback."""
    fetching = Fetching(Resolver(lookup=lambda host: [IPv4Address("127.0.0.1")]), ca_file=authority.ca_file)
    yield fetching
    fetching.close()


@pytest.mark.parametrize(("host", "names"), PROVED)
def test_a_host_whose_certificate_has_its_name_is_fetched(
    host: str, names: Sequence[str], authority: Authority, trusting: Fetching
) -> None:
    site = Site(authority.server(names))
    site.answers["/"] = ok(b"here")
    fetch = trusting.fetch(site.url("/", host), policy())
    assert (fetch.status, body_of(fetch), fetch.reason) == (200, b"here", "")
    site.close()


@pytest.mark.parametrize(("host", "names"), NOT_PROVED)
def test_a_host_whose_certificate_has_other_names_is_asked_nothing(
    host: str, names: Sequence[str], authority: Authority, trusting: Fetching
) -> None:
    site = Site(authority.server(names))
    fetch = trusting.fetch(site.url("/", host), policy())
    assert (fetch.status, site.connections, site.requests) == (Status.CONNECT_FAILED, 1, [])
    assert f"certificate is not valid for '{host}'" in fetch.reason
    site.close()


@pytest.mark.parametrize("host", ["my_site.blog.example", "-site-.blog.example"])
@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("expired", "TLS: certificate has expired"),
        ("another authority", "TLS: the issuer of the certificate is unknown"),
        ("only a common name", "TLS: certificate is not valid for 'HOST'"),
    ],
)
def test_a_name_that_openssl_does_not_compare_needs_a_good_chain_all_the_same(
    host: str,
    problem: str,
    words: str,
    authority: Authority,
    trusting: Fetching,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    issuer = Authority(tmp_path_factory.mktemp("another")) if problem == "another authority" else authority
    if problem == "only a common name":
        server = issuer.server(common_name=host)
    else:
        server = issuer.server(["*.blog.example"], expired=problem == "expired")
    site = Site(server)
    fetch = trusting.fetch(site.url("/", host), policy())
    assert (fetch.status, fetch.reason, site.requests) == (-2, words.replace("HOST", host), [])
    site.close()


def test_a_name_with_an_underscore_is_told_to_the_server(authority: Authority, trusting: Fetching) -> None:
    server = authority.server(["*.blog.example"])
    told: list[str | None] = []
    server.sni_callback = lambda sock, name, _: told.append(name)
    site = Site(server)
    site.answers["/"] = ok(b"here")
    for host in ("my_site.blog.example", "my_site.blog.example."):
        assert trusting.fetch(site.url("/", host), policy()).status == 200
        assert header_lines(site.requests[-1], b"Host") == [f"{host}:{site.port}".encode()]
    assert told == ["my_site.blog.example"] * 2
    site.close()


@pytest.mark.parametrize(
    ("host", "names", "status"),
    [
        ("my_site.blog.example", ["*.blog.example"], 200),
        ("my_site.www.blog.example", ["*.blog.example"], Status.CONNECT_FAILED),
        ("my_site.co.uk", ["*.co.uk"], Status.CONNECT_FAILED),
    ],
)
def test_names_are_compared_in_the_same_way_through_a_proxy(
    host: str, names: Sequence[str], status: int, authority: Authority, trusting: Fetching
) -> None:
    secure, proxy = Site(authority.server(names)), Site()
    secure.answers["/"] = ok(b"here")
    proxy.answers[f"{host}:443"] = relay_to(secure.port)
    fetch = trusting.fetch(f"https://{host}/", policy(proxy=f"http://127.0.0.1:{proxy.port}"))
    assert (fetch.status, len(secure.requests)) == (status, status == 200)
    secure.close()
    proxy.close()


@pytest.mark.parametrize(
    "host",
    [
        *(".blog.example", "my_site..example", "blog.example..", "."),
        *(f"{LONG_LABEL}aa.blog.example", f"{LONG_LABEL}_a.blog.example", "a.b" * 100 + ".example"),
    ],
)
def test_a_name_that_tls_cannot_carry_is_told(host: str, authority: Authority, trusting: Fetching) -> None:
    site = Site(authority.server(["*.blog.example", "blog.example", "blog.example."]))
    fetch = trusting.fetch(site.url("/", host), policy())
    assert (fetch.status, site.requests) == (Status.CONNECT_FAILED, [])
    assert fetch.reason == f"TLS: {TOO_LONG}"
    site.close()


def test_a_file_of_certificates_that_is_gone_is_told(
    resolver: Resolver, tmp_path_factory: pytest.TempPathFactory
) -> None:
    authority = Authority(tmp_path_factory.mktemp("gone"))
    site, fetching = Site(authority.server(["*.blog.example"])), Fetching(resolver, ca_file=authority.ca_file)
    authority.ca_file.unlink()
    fetch = fetching.fetch(site.url("/", "my_site.blog.example"), policy())
    assert (fetch.status, site.requests) == (Status.CONNECT_FAILED, [])
    assert f"cannot read certificates in '{authority.ca_file}'" in fetch.reason
    fetching.close()
    site.close()
