"""Which URIs belong to a crawl."""

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import Shell

from frontier_server.core.canonical import Malformed
from frontier_server.core.model import Verdict
from frontier_server.core.scope import (
    add_authority,
    authority_in_scope,
    hops_exceeded,
    parse_authority,
    seed_redirect,
)
from frontier_server.core.settings import CrawlSettings, ScopeSettings
from frontier_server.core.store import Transaction
from frontier_server.stores.memory import MemoryStore

SMALL = ScopeSettings(max_link_hops=2, max_embed_hops=1, max_redirect_hops=3)


@pytest.mark.parametrize(
    ("path", "exceeded"),
    [
        ("", False),
        ("LL", False),
        ("LLL", True),
        ("LML", True),
        ("LMX", False),
        ("E", False),
        ("EX", True),
        ("LEL", False),
        ("LELI", False),
        ("LELIE", True),
        ("RRR", False),
        ("RRRR", True),
        ("RRRLRRR", False),
        ("LPS", False),
        ("S" * 50, False),
    ],
)
def test_hops_are_counted_by_their_letters(path: str, exceeded: bool) -> None:
    """Heritrix 2.10: L and M are navigation; E, X and I embed; R redirects; P and S count for nothing."""
    assert hops_exceeded(path, SMALL) is exceeded


def test_no_link_hops_leave_the_seeds_and_what_they_embed() -> None:
    scope = ScopeSettings(max_link_hops=0)
    assert not hops_exceeded("", scope) and not hops_exceeded("E", scope) and not hops_exceeded("R", scope)
    assert hops_exceeded("L", scope)


@pytest.mark.parametrize(
    ("path", "redirect"),
    [
        ("R", True),
        ("RRRRR", True),
        ("RRRRRR", False),
        ("", False),
        ("LR", False),
        ("RL", False),
        ("RE", False),
    ],
)
def test_a_seed_redirect_is_up_to_five_redirects_and_nothing_else(path: str, redirect: bool) -> None:
    """Heritrix 2.2: seedsRedirectNewSeeds, at most 5 hops."""
    assert seed_redirect(path) is redirect


@pytest.mark.parametrize(
    ("text", "host", "authority"),
    [
        ("www.Example.com", "www.example.com", "www.example.com"),
        ("ex.com:8080", "ex.com", "ex.com:8080"),
        ("ex.com:80", "ex.com", "ex.com"),
        ("ex.com:443", "ex.com", "ex.com"),
        ("ex.com.", "ex.com", "ex.com"),
        ("[::1]:443", "[::1]", "[::1]"),
        ("[::1]", "[::1]", "[::1]"),
        ("faß.de", "xn--fa-hia.de", "xn--fa-hia.de"),
        ("127.1", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_host_of_a_spec_may_have_a_port(text: str, host: str, authority: str) -> None:
    """Of http and https alike, unless the port is another than theirs."""
    assert parse_authority(text) == (host, authority)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://ex.com",
        "ex.com/",
        "ex.com/a",
        "ex.com?a",
        "ex.com#a",
        "a@ex.com",
        "ex com",
        "ex.com:x",
        "ex\t.com",
        "ex.com:65536",
        "a..b",
        ".",
        "\\ex.com",
        "1.2.3.256",
    ],
)
def test_anything_but_a_host_is_refused_by_name(text: str) -> None:
    with pytest.raises(Malformed, match="HOST or HOST:PORT"):
        parse_authority(text)


def test_a_host_that_is_too_long_is_refused_too() -> None:
    with pytest.raises(Malformed):
        parse_authority("a" * 9_000)


def test_hosts_are_rows_of_their_crawl() -> None:
    store = MemoryStore()
    tx = Transaction(store)
    add_authority(tx, 1, "ex.com", "ex.com:8080")
    store.write(tx.changes)
    tx = Transaction(store)
    assert authority_in_scope(tx, 1, "ex.com", "ex.com:8080")
    assert not authority_in_scope(tx, 1, "ex.com", "ex.com")
    assert not authority_in_scope(tx, 2, "ex.com", "ex.com:8080")


# In a crawl.


def crawl(**scope: int) -> Shell:
    """A crawl with a seed on alpha.example, and beta.example:8080 in its spec."""
    shell = Shell()
    hosts = ("beta.example:8080",)
    settings = CrawlSettings(allowed_addresses=("loopback",), scope=ScopeSettings(hosts, **scope))
    shell.create("crawl", settings)
    shell.launch("crawl", "http://alpha.example/")
    return shell


def test_the_hosts_of_seeds_are_added_when_the_seeds_are_announced() -> None:
    """Heritrix 2.12: addSeed extends both scope and frontier."""
    shell = crawl()
    assert shell.schedule("crawl", "http://gamma.example/a") == [Verdict.OUT_OF_SCOPE]
    shell.do(lambda frontier, now: frontier.add_seeds("crawl", ["http://gamma.example/"], now))
    assert shell.schedule("crawl", "http://gamma.example/a") == [Verdict.OUT_OF_SCOPE]
    shell.work()
    assert shell.schedule("crawl", "http://gamma.example/a") == [Verdict.QUEUED]


def test_a_host_is_in_scope_for_http_and_https_alike_but_with_its_port_alone() -> None:
    shell = crawl()
    offered = [
        "https://alpha.example/",
        "http://alpha.example:8080/",
        "http://beta.example:8080/",
        "http://beta.example/",
    ]
    verdicts = shell.schedule("crawl", *offered)
    assert verdicts == [Verdict.QUEUED, Verdict.OUT_OF_SCOPE, Verdict.QUEUED, Verdict.OUT_OF_SCOPE]


def test_a_subdomain_is_another_host() -> None:
    assert crawl().schedule("crawl", "http://www.alpha.example/") == [Verdict.OUT_OF_SCOPE]


def test_the_host_that_a_seed_redirects_to_becomes_part_of_the_scope() -> None:
    """Heritrix 2.2: seedsRedirectNewSeeds."""
    shell = crawl()
    assert shell.schedule("crawl", candidate("http://gamma.example/", path="LR")) == [Verdict.OUT_OF_SCOPE]
    assert shell.schedule("crawl", candidate("http://gamma.example/", path="RR")) == [Verdict.QUEUED]
    assert shell.schedule("crawl", candidate("http://gamma.example/x", path="RRL")) == [Verdict.QUEUED]


def test_hops_are_refused_at_the_door() -> None:
    shell = crawl(max_link_hops=1)
    verdicts = shell.schedule(
        "crawl", *(candidate(f"http://alpha.example/{path}", path=path) for path in ("L", "LE", "LL"))
    )
    assert verdicts == [Verdict.QUEUED, Verdict.QUEUED, Verdict.TOO_MANY_HOPS]
    assert shell.count("crawl", "discovered_count") == 3  # with the seed: what is refused costs nothing
