"""A crawl's spec: every field's bounds, told by its path."""

from dataclasses import replace
from typing import Any

import pytest
from core_doubles.shell import Shell
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.errors import InvalidSpec
from frontier_server.core.spec.fetch_policy import FetchPolicies, fetch_policy
from frontier_server.core.spec.settings import (
    DAY_MS,
    CrawlSettings,
    Credential,
    ExtractSettings,
    FetchSettings,
    GroupSettings,
    IdentitySettings,
    LimitSettings,
    PolitenessSettings,
    QueueSettings,
    QuotaSettings,
    ReseedSettings,
    RetryRule,
    RetrySettings,
    RevisitSettings,
    Rewrite,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.spec.spec_problems import MAX_HOSTS, override_problems, problems
from frontier_server.core.uri.canonical import canonical

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
    "limits.max_bytes": ("limits", "max_bytes", [0, 1, 1 << 62], [-1, 1 << 63]),
    "limits.max_elapsed": ("limits", "max_elapsed_ms", [0, 1, 3_650 * DAY_MS], [-1, 3_651 * DAY_MS]),
    "scope.max_path_repetitions": ("scope", "max_path_repetitions", [0, 10_000], [-1, 10_001]),
    "scope.max_path_segments": ("scope", "max_path_segments", [0, 10_000], [-1, 10_001]),
    "politeness.max_parallel": ("politeness", "max_parallel", [1, 100], [0, -1, 101]),
    "queues.partition": ("queues", "partition", ["host", "registered-domain"], ["", "Host", "buckets"]),
    "queues.assignment": (
        "queues",
        "assignment",
        ["surt-authority", "host", "registered-domain", "buckets"],
        ["", "ip", "x" * 10_000],
    ),
    "queues.buckets": ("queues", "buckets", [1, 1_000_000], [0, -1, 1_000_001]),
    "queues.parallel_queues": ("queues", "parallel_queues", [1, 1_000], [0, -1, 1_001]),
    "queues.queue_key": (
        "queues",
        "queue_key",
        ["", "com,example,", "!" * 256],
        [" ", "ö", "a" * 257, "a\n"],
    ),
    "queues.cost": ("queues", "cost", ["zero", "unit", "wag", "anti-calendar"], ["", "wagg"]),
    "queues.uri_precedence": ("queues", "uri_precedence", ["cost", "base", "hops"], ["", "highest-uri"]),
    "queues.queue_precedence": (
        "queues",
        "queue_precedence",
        ["base", "highest-uri", "success-counts"],
        ["", "cost"],
    ),
    "queues.base_precedence": ("queues", "base_precedence", [0, 255], [-1, 256]),
    "queues.success_thresholds[1]": (
        "queues",
        "success_thresholds",
        [(), (1,), (5, 1 << 62), (1,) * 100],
        [(1, 0), (1, -1, 1), (1, 1 << 63)],
    ),
    "queues.success_thresholds": ("queues", "success_thresholds", [(1,) * 100], [(1,) * 101, (0,) * 101]),
    "queues.precedence_floor": ("queues", "precedence_floor", [0, 256], [-1, 257]),
    "queues.session_budget": ("queues", "session_budget", [-1, 0, 1 << 62], [-2, 1 << 63]),
    "queues.total_budget": ("queues", "total_budget", [-1, 0, 1 << 62], [-2, 1 << 63]),
    "queues.error_penalty": ("queues", "error_penalty", [0, 1_000_000], [-1, 1_000_001]),
    "revisit.policy": ("revisit", "policy", ["none", "fixed", "adaptive"], ["", "always"]),
    "revisit.interval": ("revisit", "interval_ms", [1_000, 3_650 * DAY_MS], [0, 999, 3_651 * DAY_MS]),
    "revisit.min_interval": ("revisit", "min_interval_ms", [1_000, 30 * DAY_MS], [0, 999]),
    "revisit.max_interval": (
        "revisit",
        "max_interval_ms",
        [DAY_MS, 3_650 * DAY_MS],
        [DAY_MS - 1, 3_651 * DAY_MS],
    ),
    "revisit.growth": ("revisit", "growth", [1, 100], [0.9, 100.1, NAN]),
    "revisit.shrink": ("revisit", "shrink", [0.001, 1], [0, -1, 1.1, NAN]),
    "reseed.max_rounds": ("reseed", "max_rounds", [0, 1, 1_000_000], [-2, 1_000_001]),
    "reseed.min_interval": ("reseed", "min_interval_ms", [0, 365 * DAY_MS], [-1, 366 * DAY_MS]),
    "address_group.max_parallel": ("address_group", "max_parallel", [0, 1_000], [-1, 1_001]),
    "address_group.min_gap": ("address_group", "min_gap_ms", [0, DAY_MS], [-1, DAY_MS + 1]),
    "weight": ("", "weight", [1, 1_000], [0, -1, 1_001]),
    "outcomes_kept": ("", "outcomes_kept", [0, 1_000_000_000], [-1, 1_000_000_001]),
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
        ("revisit", {"min_interval_ms": 31 * DAY_MS}, "revisit.max_interval"),
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


def test_an_unknown_name_is_told_with_those_that_are_known() -> None:
    found = problems(changed("queues", "cost", "wagg"))
    assert found["queues.cost"] == "'wagg' is none of zero, unit, wag, anti-calendar"
    found = problems(changed("identity", "rules", ("strip-www", "strip-wwww")))
    assert set(found) == {"identity.rules[1]"}
    assert "'strip-wwww' is none of lower-case, strip-www," in found["identity.rules[1]"]


def test_schemes_are_http_and_https_one_of_them_at_least() -> None:
    for good in (("http",), ("https",), ("https", "http")):
        assert problems(changed("scope", "schemes", good)) == {}
    assert set(problems(changed("scope", "schemes", ()))) == {"scope.schemes"}
    assert set(problems(changed("scope", "schemes", ("http", "HTTPS")))) == {"scope.schemes[1]"}
    assert set(problems(changed("scope", "schemes", ("http",) * 3))) == {"scope.schemes"}


@pytest.mark.parametrize("field", ["accept_patterns", "reject_patterns"])
def test_a_bad_pattern_is_told_by_its_place_with_re2_s_reason(field: str) -> None:
    found = problems(changed("scope", field, (r".*\.gif", "a(?=b)", "x" * 5_000, "")))
    assert set(found) == {f"scope.{field}[1]", f"scope.{field}[2]", f"scope.{field}[3]"}
    assert found[f"scope.{field}[1]"] == "invalid perl operator at character 2: (?="


def test_a_bad_rewrite_is_told_by_what_is_bad_of_it() -> None:
    rewrites = (Rewrite("(a)", r"\1"), Rewrite("(a)", r"\2"), Rewrite("(", ""), Rewrite("", ""))
    found = problems(changed("identity", "rewrites", rewrites))
    assert set(found) == {
        "identity.rewrites[1].replacement",
        "identity.rewrites[2].pattern",
        "identity.rewrites[3].pattern",
    }


def test_a_prefix_that_is_none_or_is_there_twice_is_told_by_its_place() -> None:
    prefixes = ("ex.com", "-http://ex.com/a/", "a b", "https://ex.com", "+http://(com,ex,)/a/")
    found = problems(changed("scope", "surt_prefixes", prefixes))
    assert set(found) == {f"scope.surt_prefixes[{place}]" for place in (2, 3, 4)}
    assert "scope.surt_prefixes[0]" in found["scope.surt_prefixes[3]"]


@pytest.mark.parametrize(
    ("part", "name", "item", "most"),
    [
        ("scope", "hosts", "a b", MAX_HOSTS),
        ("scope", "surt_prefixes", "a b", 10_000),
        ("scope", "accept_patterns", "(", 1_000),
        ("scope", "reject_patterns", "(", 1_000),
        ("identity", "rules", "none", 100),
        ("identity", "rewrites", Rewrite("(", ""), 100),
        ("", "groups", GroupSettings("", ()), 1_000),
        ("", "allowed_addresses", "nowhere", 1_000),
    ],
)
def test_a_list_that_is_too_long_is_told_and_not_looked_at(
    part: str, name: str, item: Any, most: int
) -> None:
    found = problems(changed(part, name, (item,) * (most + 1)))
    path = f"{part}.{name}" if part else name
    assert set(found) == {path}
    assert str(most) in found[path]


QUOTA_FIELDS = ("max_successes", "max_success_bytes", "max_responses", "max_response_bytes")


@pytest.mark.parametrize("quota", ["host_quota", "source_quota"])
@pytest.mark.parametrize("field", QUOTA_FIELDS)
def test_a_quota_is_told_by_its_path(quota: str, field: str) -> None:
    for value in (0, 1, 1 << 62):
        assert problems(changed("limits", quota, QuotaSettings(**{field: value}))) == {}
    for value in (-1, 1 << 63):
        found = problems(changed("limits", quota, QuotaSettings(**{field: value})))
        assert set(found) == {f"limits.{quota}.{field}"}


def test_success_counts_need_a_threshold() -> None:
    queues = QueueSettings(queue_precedence="success-counts", success_thresholds=())
    assert set(problems(replace(GOOD, queues=queues))) == {"queues.success_thresholds"}


def test_the_first_interval_of_adaptive_revisits_lies_between_the_shortest_and_the_longest() -> None:
    for policy, paths in (("adaptive", {"revisit.interval"}), ("fixed", set())):
        for interval_ms in (DAY_MS // 2, 31 * DAY_MS):
            assert set(problems(replace(GOOD, revisit=RevisitSettings(policy, interval_ms)))) == paths
    assert problems(replace(GOOD, revisit=RevisitSettings("adaptive", DAY_MS))) == {}


def test_rounds_without_end_need_an_interval() -> None:
    assert problems(replace(GOOD, reseed=ReseedSettings(-1, 1_000))) == {}
    for interval_ms in (0, 999):
        found = problems(replace(GOOD, reseed=ReseedSettings(-1, interval_ms)))
        assert set(found) == {"reseed.min_interval"}


def grouped(*groups: GroupSettings, rules: tuple[str, ...] = ()) -> dict[str, str]:
    return problems(replace(GOOD, groups=groups, identity=IdentitySettings(rules)))


def test_what_is_wrong_with_a_group_is_told_by_its_place() -> None:
    good = GroupSettings("good-1", ("a.example", "A.example.", "127.0.0.1", "[::1]"), 1_000, DAY_MS)
    assert grouped(good) == {}
    found = grouped(
        good,
        GroupSettings("Bad", ("b.example", "http://c.example", "d.example:8080"), 0, -1),
        GroupSettings("good-1", ("e.example",), 1_001, DAY_MS + 1),
        GroupSettings("none", ()),
    )
    assert set(found) == {
        "groups[1].name",
        "groups[1].hosts[1]",
        "groups[1].hosts[2]",
        "groups[1].max_parallel",
        "groups[1].min_gap",
        "groups[2].name",
        "groups[2].max_parallel",
        "groups[2].min_gap",
        "groups[3].hosts",
    }
    assert "groups[0]" in found["groups[2].name"]


@pytest.mark.parametrize(("many", "wrong"), [(200, set()), (201, {"retry.statuses"})])
def test_so_many_statuses_have_rules_of_their_own_as_the_contract_says(many: int, wrong: set[str]) -> None:
    rules = (*(RetryRule(400 + number) for number in range(200)), RetryRule(-1))
    assert set(problems(replace(GOOD, retry=RetrySettings(statuses=rules[:many])))) == wrong


def test_a_host_is_in_one_group_at_most() -> None:
    one = GroupSettings("one", ("a.example", "www.b.example"))
    found = grouped(one, GroupSettings("other", ("c.example", "A.example")))
    assert found == {"groups[1].hosts[1]": "a.example is in groups[0] already"}
    other = GroupSettings("other", ("b.example",))
    assert grouped(one, other) == {}
    found = grouped(one, other, rules=("strip-www",))
    assert found == {"groups[1].hosts[0]": "b.example is in groups[0] already"}  # it is the same host then
    assert set(grouped(one, other, rules=("strip-wwww",))) == {"identity.rules[0]"}


def test_all_groups_together_have_so_many_hosts() -> None:
    half = tuple(f"{number}.example" for number in range(MAX_HOSTS // 2))
    others = tuple(f"x{host}" for host in half)
    assert grouped(GroupSettings("one", half), GroupSettings("other", others)) == {}
    found = grouped(GroupSettings("one", half), GroupSettings("other", (*others, "one.more")))
    assert set(found) == {"groups"}


def test_all_that_is_wrong_is_told_at_once() -> None:
    bad = CrawlSettings(
        contact="nobody",
        allowed_addresses=("everywhere",),
        scope=ScopeSettings(hosts=("a b",), max_link_hops=-1, reject_patterns=("(",)),
        retry=RetrySettings(max_attempts=0),
        limits=LimitSettings(max_documents=-1),
        identity=IdentitySettings(("none",)),
        queues=QueueSettings(cost="free", queue_precedence="first"),
        reseed=ReseedSettings(-1),
        groups=(GroupSettings("", ()),),
        weight=0,
    )
    expected = {
        "contact",
        "allowed_addresses[0]",
        "scope.hosts[0]",
        "scope.max_link_hops",
        "scope.reject_patterns[0]",
        "retry.max_attempts",
        "identity.rules[0]",
        "queues.cost",
        "queues.queue_precedence",
        "reseed.min_interval",
        "groups[0].name",
        "groups[0].hosts",
        "weight",
    }
    assert set(problems(bad)) == expected | {"limits.max_documents"}
    shell = Shell()
    with pytest.raises(InvalidSpec) as refused:
        shell.create("crawl", bad)
    assert dict(refused.value.metadata) == problems(bad)
    assert shell.core.views.crawls_after("", 10) == []


# What an override makes of a crawl's settings.

OVERRIDABLE = ("politeness.", "retry.", "fetch.", "queues.", "revisit.")


def test_an_override_of_the_defaults_is_good_and_needs_no_contact() -> None:
    assert override_problems(CrawlSettings()) == {}


@pytest.mark.parametrize("path", [path for path in BOUNDS if path.startswith(OVERRIDABLE)])
def test_an_override_has_the_bounds_of_the_spec(path: str) -> None:
    part, name, good, bad = BOUNDS[path]
    for value in good:
        assert override_problems(changed(part, name, value)) == {}, value
    for value in bad:
        assert override_problems(changed(part, name, value)) == problems(changed(part, name, value)), value


@pytest.mark.parametrize("field", QUOTA_FIELDS)
def test_the_quota_of_an_override_is_told_by_its_path_there(field: str) -> None:
    found = override_problems(changed("limits", "host_quota", QuotaSettings(**{field: -1})))
    assert set(found) == {f"host_quota.{field}"}


def test_an_override_is_told_nothing_that_it_cannot_say() -> None:
    bad = CrawlSettings(
        contact="nobody",
        scope=ScopeSettings(hosts=("a b",)),
        limits=LimitSettings(max_documents=-1, source_quota=QuotaSettings(-1)),
        robots=RobotsSettings(max_attempts=0),
        weight=0,
    )
    assert override_problems(bad) == {}


# What nodes are told.


def test_the_user_agent_names_program_version_and_contact() -> None:
    policy = fetch_policy(replace(GOOD, fetch=FetchSettings(product_token="mybot")), None, "1.2")
    assert policy.user_agent == "mybot/1.2 (+https://operator.example/)"
    assert fetch_policy(CrawlSettings(), None, "1.2").user_agent == "toehold/1.2"


@given(
    st.text(max_size=5), st.integers(1, 3), st.integers(1, 3), st.sampled_from([("public",), ("loopback",)])
)
def test_the_same_id_is_the_same_policy_and_another_is_another(
    contact: str, timeout_ms: int, max_bytes: int, addresses: tuple[str, ...]
) -> None:
    fetch = FetchSettings(timeout_ms, max_bytes)
    one = fetch_policy(CrawlSettings(contact, addresses, fetch=fetch), None, "1")
    base = fetch_policy(CrawlSettings(fetch=FetchSettings(1, 1)), None, "1")
    assert (one.policy_id == base.policy_id) == (one == base)
    assert one.fetch == fetch


def test_a_credential_goes_to_the_uris_of_its_prefix_only_and_never_from_https_to_http() -> None:
    """S1.17."""
    credentials = (
        Credential("https://www.example.com/members/", "reader", "secret"),
        Credential("example.com", "anyone", ""),
    )
    settings = replace(GOOD, fetch=FetchSettings(credentials=credentials))
    policies = FetchPolicies("1")

    def user(uri: str) -> str:
        credential = policies.of(settings, canonical(uri)).credential
        return credential.user if credential else ""

    assert user("https://www.example.com/members/page") == "reader"
    assert user("http://www.example.com/members/page") == "anyone"
    assert user("https://www.example.com/other") == "anyone"
    assert user("https://example.org/members/") == ""
    policy = policies.of(settings, canonical("https://www.example.com/members/"))
    assert policy.fetch.credentials == () and policies.named(policy.policy_id) is policy


def test_each_of_a_host_s_fetches_has_an_equal_share_of_its_bandwidth() -> None:
    """D15."""
    politeness = PolitenessSettings(max_parallel=4, max_bytes_per_second=1000)
    policy = fetch_policy(replace(GOOD, politeness=politeness), None, "1")
    assert policy.max_bytes_per_second == 250
    assert fetch_policy(GOOD, None, "1").max_bytes_per_second == 0


def test_what_nodes_are_told_of_fetches_and_links_is_checked() -> None:
    fetch = FetchSettings(
        connect_timeout_ms=0,
        accept_media_types=("text/html", "text/*", "html"),
        max_content_length=-1,
        proxy="https://user:pass@proxy.example",
        credentials=(Credential("no host", "a:b", "x\n"), Credential("example.com", "a", "")),
    )
    found = problems(replace(GOOD, fetch=fetch, extract=ExtractSettings(max_links=-1)))
    assert set(found) == {
        "fetch.connect_timeout",
        "fetch.accept_media_types[2]",
        "fetch.max_content_length",
        "fetch.proxy",
        "fetch.credentials[0].surt_prefix",
        "fetch.credentials[0].user",
        "fetch.credentials[0].password",
        "extract.max_links",
    }
    assert "pass" not in found["fetch.proxy"]
    assert problems(replace(GOOD, fetch=FetchSettings(proxy="http://user:pass@127.0.0.1:3128"))) == {}


def test_rules_of_statuses_are_checked_each() -> None:
    rules = (
        RetryRule(-4),
        RetryRule(-4),
        RetryRule(200),
        RetryRule(500, max_attempts=0, delay_ms=-1, growth=0.5),
        RetryRule(404, delay_ms=20_000_000),
    )
    found = problems(replace(GOOD, retry=RetrySettings(statuses=rules)))
    assert set(found) == {
        "retry.statuses[1].fetch_status",
        "retry.statuses[2].fetch_status",
        "retry.statuses[3].max_attempts",
        "retry.statuses[3].delay",
        "retry.statuses[3].growth",
        "retry.statuses[4].max_delay",
    }
