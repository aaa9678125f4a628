"""A crawl's spec: every field's bounds, told by its path."""

from dataclasses import replace
from typing import Any

import pytest
from core_doubles.shell import Shell
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.errors import InvalidSpec
from frontier_server.core.settings import (
    DAY_MS,
    CrawlSettings,
    FetchSettings,
    LimitSettings,
    PolitenessSettings,
    RetrySettings,
    RobotsSettings,
    ScopeSettings,
    fetch_policy,
)
from frontier_server.core.spec_problems import problems

GOOD = CrawlSettings(contact="https://operator.example/")
NAN, INFINITE = float("nan"), float("inf")


def test_the_defaults_are_heritrix_s() -> None:
    """Heritrix 2.2."""
    assert problems(GOOD) == {}
    retry, politeness = RetrySettings(), PolitenessSettings()
    assert (retry.delay_ms, retry.max_attempts, retry.growth) == (900_000, 30, 1.0)
    assert (politeness.delay_factor, politeness.min_delay_ms, politeness.max_delay_ms) == (5.0, 3_000, 30_000)
    assert politeness.max_crawl_delay_ms == 300_000
    assert RobotsSettings().validity_ms == DAY_MS
    assert FetchSettings().timeout_ms == 1_200_000


# Path of the field → part, name in it, what is within its bounds, what is not.
BOUNDS: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "scope.max_link_hops": ("scope", "max_link_hops", [0, 10_000], [-1, 10_001]),
    "scope.max_embed_hops": ("scope", "max_embed_hops", [0, 100], [-1, 101]),
    "scope.max_redirect_hops": ("scope", "max_redirect_hops", [0, 100], [-1, 101]),
    "politeness.delay_factor": (
        "politeness",
        "delay_factor",
        [0, 0.5, 1_000],
        [-0.1, 1_000.1, NAN, INFINITE],
    ),
    "politeness.min_delay": ("politeness", "min_delay_ms", [0, 30_000], [-1]),
    "politeness.max_delay": ("politeness", "max_delay_ms", [3_000, DAY_MS], [2_999, DAY_MS + 1, 10**30]),
    "politeness.max_crawl_delay": ("politeness", "max_crawl_delay_ms", [0, DAY_MS], [-1, DAY_MS + 1]),
    "politeness.overload_delay": ("politeness", "overload_delay_ms", [0, 3_600_000], [-1]),
    "politeness.max_overload_delay": (
        "politeness",
        "max_overload_delay_ms",
        [30_000, DAY_MS],
        [29_999, DAY_MS + 1],
    ),
    "robots.max_attempts": ("robots", "max_attempts", [1, 1_000], [0, -1, 1_001]),
    "robots.retry_delay": ("robots", "retry_delay_ms", [0, DAY_MS], [-1, DAY_MS + 1]),
    "robots.validity": ("robots", "validity_ms", [1_000, 365 * DAY_MS], [0, 999, 366 * DAY_MS]),
    "retry.max_attempts": ("retry", "max_attempts", [1, 10_000], [0, -5, 10_001]),
    "retry.delay": ("retry", "delay_ms", [0, 14_400_000], [-1]),
    "retry.growth": ("retry", "growth", [1, 1.5, 100], [0.99, 100.1, NAN, INFINITE]),
    "retry.max_delay": ("retry", "max_delay_ms", [900_000, 30 * DAY_MS], [899_999, 31 * DAY_MS]),
    "fetch.timeout": ("fetch", "timeout_ms", [1, DAY_MS], [0, -1, DAY_MS + 1]),
    "fetch.max_bytes": ("fetch", "max_bytes", [1, 1 << 40], [0, -1, (1 << 40) + 1]),
    "fetch.product_token": (
        "fetch",
        "product_token",
        ["a", "Toe_hold-x"],
        ["", "a b", "a/1", "tö", "a1", "a\n"],
    ),
    "limits.max_documents": ("limits", "max_documents", [0, 1, 1 << 62], [-1, 1 << 63]),
}


def changed(part: str, name: str, value: Any) -> CrawlSettings:
    """Good settings but for one field."""
    if not part:
        return replace(GOOD, **{name: value})
    return replace(GOOD, **{part: replace(getattr(GOOD, part), **{name: value})})


@pytest.mark.parametrize("path", BOUNDS)
def test_a_field_within_its_bounds_is_good(path: str) -> None:
    part, name, good, _ = BOUNDS[path]
    for value in good:
        assert problems(changed(part, name, value)) == {}, value


@pytest.mark.parametrize("path", BOUNDS)
def test_a_field_out_of_its_bounds_is_told_by_its_path_and_value(path: str) -> None:
    part, name, _, bad = BOUNDS[path]
    for value in bad:
        found = problems(changed(part, name, value))
        assert set(found) == {path}, value
        assert found[path], "what would be right is said"


@pytest.mark.parametrize(
    ("part", "least", "path"),
    [
        ("politeness", {"min_delay_ms": 40_000}, "politeness.max_delay"),
        ("politeness", {"overload_delay_ms": 4_000_000}, "politeness.max_overload_delay"),
        ("retry", {"delay_ms": 15_000_000}, "retry.max_delay"),
    ],
)
def test_a_longest_that_is_shorter_than_the_shortest_is_told(
    part: str, least: dict[str, int], path: str
) -> None:
    (name, value), *_ = least.items()
    assert set(problems(changed(part, name, value))) == {path}


@pytest.mark.parametrize(
    "contact",
    [
        "https://operator.example/",
        "http://a.b",
        "http://localhost:8000/x",
        "crawl@operator.example",
        "a+b@c.co.uk",
    ],
)
def test_a_contact_is_a_url_or_an_address(contact: str) -> None:
    assert problems(replace(GOOD, contact=contact)) == {}


@pytest.mark.parametrize(
    "contact",
    [
        "me",
        "ftp://a.b",
        "https://",
        "https://host",
        "a@b",
        "@b.c",
        "a b@c.d",
        "a@b.c\r\nX: y",
        "https://a.b/)",
        "ö@b.c",
    ],
)
def test_what_could_not_be_written_to_is_no_contact(contact: str) -> None:
    """Nor what could not stand in a header."""
    assert set(problems(replace(GOOD, contact=contact))) == {"contact"}


def test_a_contact_has_an_end() -> None:
    """It is part of every request, and it is matched by a pattern that looks at each dot anew."""
    assert set(problems(replace(GOOD, contact="https://a.b/" + "x" * 10_000))) == {"contact"}


def test_a_product_token_has_an_end() -> None:
    """It is part of every request and of the keys of robots.txt rows."""
    assert set(problems(changed("fetch", "product_token", "a" * 10_000))) == {"fetch.product_token"}


def test_only_a_crawl_of_loopback_addresses_needs_no_contact() -> None:
    assert problems(CrawlSettings(allowed_addresses=("loopback",))) == {}
    for addresses in (("public",), ("10.0.0.0/8",), ("127.0.0.0/8",), ()):
        assert set(problems(CrawlSettings(allowed_addresses=addresses))) == {"contact"}, addresses


@pytest.mark.parametrize(
    "addresses", [("loopback",), ("public",), ("10.1.0.0/16",), ("10.1.2.3", "fd00::/8", "192.168.0.0/24")]
)
def test_addresses_are_loopback_public_or_networks(addresses: tuple[str, ...]) -> None:
    assert problems(replace(GOOD, allowed_addresses=addresses)) == {}


@pytest.mark.parametrize(
    ("addresses", "paths"),
    [
        (("Loopback",), {"allowed_addresses[0]"}),
        (("10.1.0.1/16",), {"allowed_addresses[0]"}),
        (("10.0.0.0/8", "example.com", "10.0.0.0/99"), {"allowed_addresses[1]", "allowed_addresses[2]"}),
        (("public", "10.0.0.0/8"), {"allowed_addresses[0]"}),
        (("loopback", "public"), {"allowed_addresses[0]", "allowed_addresses[1]"}),
    ],
)
def test_other_addresses_are_told_by_their_place(addresses: tuple[str, ...], paths: set[str]) -> None:
    """`loopback` and `public` stand alone."""
    assert set(problems(replace(GOOD, allowed_addresses=addresses))) == paths


def test_hosts_that_are_none_are_told_by_their_place() -> None:
    hosts = ("good.example", "http://bad.example", "good.example:81", "")
    found = problems(replace(GOOD, scope=ScopeSettings(hosts=hosts)))
    assert set(found) == {"scope.hosts[1]", "scope.hosts[3]"}
    assert "http://bad.example" in found["scope.hosts[1]"]


def test_a_host_that_is_too_long_is_told_and_not_repeated_at_length() -> None:
    """What is told becomes part of an error's metadata, which has little room."""
    found = problems(replace(GOOD, scope=ScopeSettings(hosts=("a" * 100_000,))))
    assert set(found) == {"scope.hosts[0]"}
    assert len(found["scope.hosts[0]"]) < 1_000


def test_all_that_is_wrong_is_told_at_once() -> None:
    bad = CrawlSettings(
        contact="nobody",
        allowed_addresses=("everywhere",),
        scope=ScopeSettings(hosts=("a b",), max_link_hops=-1),
        retry=RetrySettings(max_attempts=0),
        limits=LimitSettings(max_documents=-1),
    )
    expected = {
        "contact",
        "allowed_addresses[0]",
        "scope.hosts[0]",
        "scope.max_link_hops",
        "retry.max_attempts",
    }
    assert set(problems(bad)) == expected | {"limits.max_documents"}
    shell = Shell()
    with pytest.raises(InvalidSpec) as refused:
        shell.create("crawl", bad)
    assert dict(refused.value.metadata) == problems(bad)
    assert shell.frontier.crawls_after("", 10) == []


# What nodes are told.


def test_the_user_agent_names_program_version_and_contact() -> None:
    policy = fetch_policy(replace(GOOD, fetch=FetchSettings(product_token="mybot")), "1.2")
    assert policy.user_agent == "mybot/1.2 (+https://operator.example/)"
    assert fetch_policy(CrawlSettings(), "1.2").user_agent == "toehold/1.2"


@given(
    st.text(max_size=5), st.integers(1, 3), st.integers(1, 3), st.sampled_from([("public",), ("loopback",)])
)
def test_the_same_id_is_the_same_policy_and_another_is_another(
    contact: str, timeout_ms: int, max_bytes: int, addresses: tuple[str, ...]
) -> None:
    one = fetch_policy(CrawlSettings(contact, addresses, fetch=FetchSettings(timeout_ms, max_bytes)), "1")
    base = fetch_policy(CrawlSettings(fetch=FetchSettings(1, 1)), "1")
    assert (one.policy_id == base.policy_id) == (one == base)
    assert one.timeout_ms == timeout_ms and one.max_bytes == max_bytes
