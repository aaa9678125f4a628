"""HttpFetcher reports the redirects of pages, and follows those of robots.txt."""

from ipaddress import ip_address

import pytest
from node_doubles.loopback import (
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

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.outcome import Status


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("b?x=y#z", "http://127.0.0.1:{port}/b?x=y"),
        ("//other.example", "http://other.example/"),
        ("/\u00e9", "http://127.0.0.1:{port}/%C3%A9"),
        ("/caf\udce9?\udce9", "http://127.0.0.1:{port}/caf%E9?%E9"),
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


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_every_status_that_redirects_tells_its_target(site: Site, fetcher: Fetching, status: int) -> None:
    """RFC 9110 15.4.1: with 300, Location is the choice that the server prefers."""
    site.answers["/"] = redirect("/b").replace(b"301", b"%d" % status)
    fetch = fetcher.fetch(site.url("/"), policy())
    assert (fetch.status, body_of(fetch), fetch.redirect_target) == (status, b"here", site.url("/b"))


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
