"""HttpFetcher connects to allowed addresses only, whatever a name resolves to."""

from ipaddress import IPv4Address, ip_address

from node_doubles.loopback import (
    Fetching,
    Site,
    ok,
    policy,
)

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.outcome import Status
from toehold_client.worker.addresses import Address, AddressRule


def test_no_connection_is_opened_to_an_address_that_is_not_allowed(site: Site, fetcher: Fetching) -> None:
    for host in ("www.alpha.example", "127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
        fetch = fetcher.fetch(site.url("/", host), policy(addresses=AddressRule.parse(["public"])))
        assert fetch.status == Status.UNFETCHABLE_URI, host
        assert fetch.annotations[0].startswith("AddressRefused:")
    assert site.connections == 0


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
