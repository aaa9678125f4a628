"""HttpFetcher connects to allowed addresses only, whatever a name resolves to."""

import threading
from ipaddress import IPv4Address, ip_address

from frontier_harness.ports import listeners_at_one_port
from node_doubles.loopback import (
    LONG_MS,
    SHORT_MS,
    Fetching,
    Site,
    ok,
    policy,
    redirect,
)

from crawler_node.fetching.addresses import Address, AddressRule, Resolver, Unresolvable
from crawler_node.fetching.outcome import Status


def test_no_connection_is_opened_to_an_address_that_is_not_allowed(site: Site, fetcher: Fetching) -> None:
    for host in ("www.alpha.example", "127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
        fetch = fetcher.fetch(site.url("/", host), policy(addresses=AddressRule.parse(["public"])))
        assert fetch.status == Status.UNFETCHABLE_URI, host
        assert fetch.annotations[0].startswith("AddressRefused:")
    assert site.connections == 0


def test_only_the_allowed_ones_of_several_addresses_are_connected_to(site: Site) -> None:
    found = [ip_address("127.0.0.1"), ip_address("127.0.0.2")]
    fetcher = Fetching(Resolver(lookup=lambda host: found))
    site.answers["/"] = ok(b"")
    rule = AddressRule.parse(["127.0.0.2/32"])
    assert fetcher.fetch(site.url("/", "two.example"), policy(addresses=rule)).status == Status.CONNECT_FAILED
    assert site.connections == 0
    fetch = fetcher.fetch(site.url("/", "two.example"), policy())
    assert (fetch.status, fetch.peer_address) == (200, "127.0.0.1")
    fetcher.close()


def test_the_next_address_is_tried_when_one_does_not_answer(site: Site) -> None:
    found = [ip_address("::1"), ip_address("127.0.0.2"), ip_address("127.0.0.1")]
    fetcher = Fetching(Resolver(lookup=lambda host: found))
    site.answers["/"] = ok(b"")
    fetch = fetcher.fetch(site.url("/", "many.example"), policy())
    assert (fetch.status, fetch.peer_address) == (200, "127.0.0.1")
    fetcher.close()


def test_a_name_that_changes_its_address_is_judged_again(site: Site) -> None:
    answers: list[Address] = [ip_address("127.0.0.1"), ip_address("10.0.0.1")]
    fetcher = Fetching(Resolver(lookup=lambda host: [answers.pop(0)], ttl_s=0))
    site.answers["/"] = ok(b"")
    statuses = [fetcher.fetch(site.url("/", "rebinding.example"), policy()).status for _ in range(2)]
    assert statuses == [200, Status.UNFETCHABLE_URI]
    fetcher.close()


def test_a_name_that_is_bound_to_another_address_later_gets_no_connection_there() -> None:
    """What the look-up says that the connection is made by is what counts, at each connection."""
    allowed, inner = (Site(listener=each) for each in listeners_at_one_port("127.0.0.1", "127.0.0.2"))
    answers = {"127.0.0.1": allowed, "127.0.0.2": inner}
    for each in answers.values():
        each.answers["/"] = ok(b"hello")
        each.answers["/robots.txt"] = redirect("/robots.txt")
    turn = iter(["127.0.0.1", *["127.0.0.2"] * 10])
    fetcher = Fetching(Resolver(lookup=lambda host: [ip_address(next(turn))], ttl_s=0))
    rule = policy(addresses=AddressRule.parse(["127.0.0.1"]))
    statuses = [fetcher.fetch(allowed.url("/", "rebinding.example"), rule).status for _ in range(3)]
    assert statuses == [200, Status.UNFETCHABLE_URI, Status.UNFETCHABLE_URI]
    turn = iter(["127.0.0.1", *["127.0.0.2"] * 10])
    fetch = fetcher.fetch_robots(allowed.url("/robots.txt", "rebinding.example"), rule)
    assert (fetch.status, len(fetch.hops)) == (Status.UNFETCHABLE_URI, 1)
    turn = iter(["127.0.0.1", *["127.0.0.2"] * 10])
    allowed.answers["/"] = b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\n\r\n"
    asked = policy(addresses=rule.addresses, user="u", password="p")
    fetch = fetcher.fetch(allowed.url("/", "rebinding.example"), asked)
    assert (fetch.status, fetch.annotations[0]) == (Status.UNFETCHABLE_URI, "credentialsSent")
    assert (allowed.connections, inner.connections) == (3, 0), "no connection was attempted"
    fetcher.close()
    for each in answers.values():
        each.close()


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


def test_a_name_without_address_is_unresolvable() -> None:
    def lookup(host: str) -> list[Address]:
        raise Unresolvable(host)

    fetcher = Fetching(Resolver(lookup=lookup))
    assert fetcher.fetch("http://nowhere.example/", policy()).status == Status.DOMAIN_UNRESOLVABLE
    fetcher.close()


def test_a_look_up_that_hangs_ends_at_the_deadline() -> None:
    over = threading.Event()

    def lookup(host: str) -> list[Address]:
        over.wait()
        return []

    fetcher = Fetching(Resolver(lookup=lookup))
    fetch = fetcher.fetch("http://slow.example/", policy(timeout_ms=SHORT_MS))
    assert fetch.status == Status.DOMAIN_UNRESOLVABLE
    assert SHORT_MS <= fetcher.took_ms < LONG_MS
    over.set()
    fetcher.close()
