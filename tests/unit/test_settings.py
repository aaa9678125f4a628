"""A crawl's spec: every field's bounds, told by its path."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from core_doubles.shell import Shell
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching.fetch import header_of
from frontier_server.core.rows.errors import InvalidSpec
from frontier_server.core.rules import cost, precedence, revisit
from frontier_server.core.spec.settings import (
    DAY_MS,
    MAX_HOSTS,
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
from frontier_server.core.spec.table import (
    Bound,
    Items,
    OneOf,
    Setting,
    Within,
    blank,
    rows_of,
    shown,
)
from frontier_server.core.state.fetch_policy import FetchPolicies, Provenance, fetch_policy, provenance
from frontier_server.core.state.spec_problems import override_problems, problems
from frontier_server.core.uri.assign import ASSIGNMENTS, PARTITIONS
from frontier_server.core.uri.canonical import SCHEMES, canonical
from frontier_server.core.uri.identity import RULES

GOOD = CrawlSettings(contact="https://operator.example/")
WHOSE = provenance(GOOD, 1, "1")
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


# The table of settings. Whatever has a row there is tried at its bounds and beyond them.


def paths(part: type, path: str = "") -> Iterator[tuple[str, Setting]]:
    """The settings of a part with their paths, down to lists."""
    for row in rows_of(part):
        if row.is_part:
            yield from paths(row.kind, f"{path}{row.contract_name}.")
        else:
            yield f"{path}{row.contract_name}", row


ROWS = dict(paths(CrawlSettings))
NUMBERS = [path for path, row in ROWS.items() if row.kind in (int, float)]
CHOICES = [path for path, row in ROWS.items() if isinstance(row.bound, OneOf)]
LISTS = [path for path, row in ROWS.items() if row.kind is tuple]
ELEMENTS = [row.element for row in ROWS.values() if row.element_is_part]
OVERRIDABLE = ("politeness.", "retry.", "fetch.", "extract.", "queues.", "revisit.")


def numbers(bound: Bound | None, kind: type) -> tuple[list[float], list[float]]:
    """Numbers at the ends of a bound, and just beyond them."""
    assert isinstance(bound, Within)
    step = 1e-9 if kind is float else 1
    good: list[float] = [bound.least + step if bound.above else bound.least, bound.most]
    bad = [
        bound.least if bound.above else bound.least - step,
        bound.most * (1 + 1e-9) if kind is float else bound.most + 1,
    ]
    return good, [*bad, NAN, INFINITE] if kind is float else [*bad, 1 << 63, -(1 << 63)]


def changed(path: str, value: Any, settings: Any = GOOD) -> Any:
    """Good settings but for one field."""
    first, _, rest = path.partition(".")
    name = first if hasattr(settings, first) else f"{first}_ms"
    return replace(settings, **{name: changed(rest, value, getattr(settings, name)) if rest else value})


def least_beside(path: str) -> CrawlSettings:
    """Good settings in which the field that another one may not be below is as small as it may be."""
    if not ROWS[path].not_below:
        return GOOD
    beside = f"{path.rpartition('.')[0]}.{ROWS[path].not_below.removesuffix('_ms')}"
    bound = ROWS[beside].bound
    assert isinstance(bound, Within)
    made: CrawlSettings = changed(beside, bound.least)
    return made


def test_a_number_is_good_from_its_least_to_its_most_and_told_beyond() -> None:
    for path in NUMBERS:
        good, bad = numbers(ROWS[path].bound, ROWS[path].kind)
        for value in good:
            assert path not in problems(changed(path, value, least_beside(path))), value
        for value in bad:
            told = problems(changed(path, value, least_beside(path)))[path]
            assert told.startswith("must be ") and told.endswith(f", got {shown(value, ROWS[path].ms)}")


@pytest.mark.parametrize("part", ELEMENTS)
def test_the_numbers_of_an_element_have_their_bounds_too(part: type) -> None:
    for row in rows_of(part):
        if row.kind in (int, float) and row.name != "fetch_status":  # which has a rule instead
            bound = row.bound
            assert isinstance(bound, Within)
            good, bad = numbers(bound, row.kind)
            assert not any(bound.problem(value, row.ms) for value in good)
            assert all(bound.problem(value, row.ms) for value in bad)


@pytest.mark.parametrize("path", CHOICES)
def test_a_choice_is_one_of_those_that_there_are(path: str) -> None:
    bound = ROWS[path].bound
    assert isinstance(bound, OneOf)
    for choice in bound.choices:
        assert path not in problems(changed(path, choice))
    for value in ("", "nonsense", bound.choices[0].upper(), "x" * 10_000):
        told = problems(changed(path, value))
        assert set(told) == {path}
        assert all(choice in told[path] for choice in bound.choices) and len(told[path]) < 300


def test_the_choices_are_those_that_the_rules_know() -> None:
    def choices(path: str) -> set[str]:
        bound = ROWS[path].bound if ROWS[path].kind is str else ROWS[path].element_bound
        assert isinstance(bound, OneOf)
        return set(bound.choices)

    assert choices("queues.partition") == set(PARTITIONS)
    assert choices("queues.assignment") == set(ASSIGNMENTS)
    assert choices("queues.cost") == set(cost.POLICIES)
    assert choices("queues.uri_precedence") == set(precedence.URI_POLICIES)
    assert choices("queues.queue_precedence") == set(precedence.QUEUE_POLICIES)
    assert choices("revisit.policy") == {revisit.NONE, revisit.FIXED, revisit.ADAPTIVE}
    assert choices("identity.rules") == set(RULES)
    assert {f"{scheme}:" for scheme in choices("scope.schemes")} == set(SCHEMES)
    assert ROWS["queues.base_precedence"].bound == Within(0, precedence.MAX_QUEUE_PRECEDENCE)
    assert ROWS["queues.precedence_floor"].bound == Within(0, precedence.MAX_QUEUE_PRECEDENCE + 1)


@pytest.mark.parametrize("path", LISTS)
def test_a_list_that_is_too_long_is_told_and_not_looked_at(path: str) -> None:
    bound, element = ROWS[path].bound, ROWS[path].element
    assert isinstance(bound, Items) and element is not None
    item = blank(element) if ROWS[path].element_is_part else element()
    assert path not in problems(changed(path, (item,) * bound.most))
    told = problems(changed(path, (item,) * (bound.most + 1)))
    assert set(told) == {path}
    assert str(bound.most) in told[path] and str(bound.most + 1) in told[path]


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        (
            "fetch.product_token",
            ["a", "Toe_hold-x", "a" * 64],
            ["", "a b", "a/1", "tö", "a1", "a\n", "a" * 65],
        ),
        ("queues.queue_key", ["", "com,example,", "!" * 256], [" ", "ö", "a" * 257, "a\n"]),
    ],
)
def test_a_text_has_its_form(path: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        assert problems(changed(path, value)) == {}, value
    for value in bad:
        assert set(problems(changed(path, value))) == {path}, value


def test_each_threshold_of_successes_has_its_bounds() -> None:
    for good in ((), (1,), (5, 2**31 - 1)):
        assert problems(changed("queues.success_thresholds", good)) == {}
    for bad in ((1, 0), (1, -1, 1), (1, 2**31)):
        assert set(problems(changed("queues.success_thresholds", bad))) == {"queues.success_thresholds[1]"}


def test_a_problem_says_what_would_be_right_and_what_was_got() -> None:
    assert problems(changed("scope.max_link_hops", 10_001)) == {
        "scope.max_link_hops": "must be between 0 and 10000, got 10001"
    }
    assert problems(changed("politeness.max_crawl_delay", 86_400_001)) == {
        "politeness.max_crawl_delay": "must be between 0 s and 86400 s, got 86400.001 s"
    }
    assert problems(changed("revisit.shrink", 1.5)) == {
        "revisit.shrink": "must be above 0 and at most 1, got 1.5"
    }
    assert problems(changed("politeness.max_delay", 2_999)) == {
        "politeness.max_delay": "must be at least politeness.min_delay (3 s), got 2.999 s"
    }


@pytest.mark.parametrize(
    ("shortest", "value", "path"),
    [
        ("politeness.min_delay", 40_000, "politeness.max_delay"),
        ("politeness.overload_delay", 4_000_000, "politeness.max_overload_delay"),
        ("retry.delay", 15_000_000, "retry.max_delay"),
        ("revisit.min_interval", 31 * DAY_MS, "revisit.max_interval"),
    ],
)
def test_a_longest_that_is_shorter_than_the_shortest_is_told(shortest: str, value: int, path: str) -> None:
    assert set(problems(changed(shortest, value))) == {path}


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
        *("me", "ftp://a.b", "https://", "https://host", "a@b", "@b.c", "a b@c.d", "a@b.c\r\nX: y"),
        *("https://a.b/)", "ö@b.c"),
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
    assert set(problems(changed("fetch.product_token", "a" * 10_000))) == {"fetch.product_token"}


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
    found = problems(changed("queues.cost", "wagg"))
    assert found["queues.cost"] == "must be one of unit, zero, wag, anti-calendar, got 'wagg'"
    found = problems(changed("identity.rules", ("strip-www", "strip-wwww")))
    assert set(found) == {"identity.rules[1]"}
    assert found["identity.rules[1]"].startswith("must be one of lower-case, strip-www, ")


def test_schemes_are_http_and_https_one_of_them_at_least() -> None:
    for good in (("http",), ("https",), ("https", "http")):
        assert problems(changed("scope.schemes", good)) == {}
    assert set(problems(changed("scope.schemes", ()))) == {"scope.schemes"}
    assert set(problems(changed("scope.schemes", ("http", "HTTPS")))) == {"scope.schemes[1]"}
    assert set(problems(changed("scope.schemes", ("http",) * 3))) == {"scope.schemes"}


@pytest.mark.parametrize("field", ["accept_patterns", "reject_patterns", "required_patterns"])
def test_a_bad_pattern_is_told_by_its_place_with_re2_s_reason(field: str) -> None:
    found = problems(changed(f"scope.{field}", (r".*\.gif", "a(?=b)", "x" * 5_000, "")))
    assert set(found) == {f"scope.{field}[1]", f"scope.{field}[2]", f"scope.{field}[3]"}
    assert found[f"scope.{field}[1]"] == (
        "must be a valid RE2 pattern: invalid perl operator at character 2: (?="
    )


def test_a_bad_rewrite_is_told_by_what_is_bad_of_it() -> None:
    rewrites = (Rewrite("(a)", r"\1"), Rewrite("(a)", r"\2"), Rewrite("(", ""), Rewrite("", ""))
    found = problems(changed("identity.rewrites", rewrites))
    assert set(found) == {
        "identity.rewrites[1].replacement",
        "identity.rewrites[2].pattern",
        "identity.rewrites[3].pattern",
    }


def test_a_prefix_that_is_none_or_is_there_twice_is_told_by_its_place() -> None:
    prefixes = ("ex.com", "-http://ex.com/a/", "a b", "https://ex.com", "+http://(com,ex,)/a/")
    found = problems(changed("scope.surt_prefixes", prefixes))
    assert set(found) == {f"scope.surt_prefixes[{place}]" for place in (2, 3, 4)}
    assert "scope.surt_prefixes[0]" in found["scope.surt_prefixes[3]"]


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
        *("groups[1].name", "groups[1].hosts[1]", "groups[1].hosts[2]", "groups[1].max_parallel"),
        *("groups[1].min_gap", "groups[2].name", "groups[2].max_parallel"),
        *("groups[2].min_gap", "groups[3].hosts"),
    }
    assert "groups[0]" in found["groups[2].name"]


def test_a_host_is_in_one_group_at_most() -> None:
    one = GroupSettings("one", ("a.example", "www.b.example"))
    found = grouped(one, GroupSettings("other", ("c.example", "A.example")))
    assert found == {"groups[1].hosts[1]": "must be in one group only, but a.example is also in groups[0]"}
    other = GroupSettings("other", ("b.example",))
    assert grouped(one, other) == {}
    found = grouped(one, other, rules=("strip-www",))
    assert found == {
        "groups[1].hosts[0]": "must be in one group only, but b.example is also in groups[0]"
    }  # it is the same host then
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
        weight=-1,
    )
    expected = {
        *("contact", "allowed_addresses[0]", "scope.hosts[0]", "scope.max_link_hops"),
        *("scope.reject_patterns[0]", "retry.max_attempts", "identity.rules[0]", "queues.cost"),
        *("queues.queue_precedence", "reseed.min_interval", "groups[0].name", "groups[0].hosts", "weight"),
    }
    assert set(problems(bad)) == expected | {"limits.max_documents"}
    shell = Shell()
    with pytest.raises(InvalidSpec) as refused:
        shell.create("crawl", bad)
    assert dict(refused.value.metadata) == problems(bad)
    assert shell.core.views.crawls_after("", 10) == []


# What an override makes of a crawl's settings.


def test_an_override_of_the_defaults_is_good_and_needs_no_contact() -> None:
    assert override_problems(CrawlSettings()) == {}


def test_an_override_has_the_bounds_of_the_spec() -> None:
    for path in NUMBERS:
        if path.startswith(OVERRIDABLE):
            good, bad = numbers(ROWS[path].bound, ROWS[path].kind)
            for value in (*good, *bad):
                settings = changed(path, value, least_beside(path))
                assert override_problems(settings) == problems(settings), (path, value)


@pytest.mark.parametrize("field", [row.name for row in rows_of(QuotaSettings)])
def test_the_quota_of_an_override_is_told_by_its_path_there(field: str) -> None:
    assert set(override_problems(changed(f"limits.host_quota.{field}", -1))) == {f"host_quota.{field}"}


def test_an_override_is_told_nothing_that_it_cannot_say() -> None:
    bad = CrawlSettings(
        contact="nobody",
        scope=ScopeSettings(hosts=("a b",)),
        limits=LimitSettings(max_documents=-1, source_quota=QuotaSettings(-1)),
        robots=RobotsSettings(max_attempts=0),
        weight=-1,
    )
    assert override_problems(bad) == {}


# What nodes are told.


def test_the_user_agent_names_program_version_and_contact() -> None:
    policy = fetch_policy(replace(GOOD, fetch=FetchSettings(product_token="mybot")), None, "1.2", WHOSE)
    assert policy.user_agent == "mybot/1.2 (+https://operator.example/)"
    assert fetch_policy(CrawlSettings(), None, "1.2", WHOSE).user_agent == "toehold/1.2"


@pytest.mark.parametrize(
    ("template", "agent"),
    [
        (
            "Mozilla/5.0 (compatible; {product}/{version}; +{contact})",
            "Mozilla/5.0 (compatible; mybot/1.2; +https://operator.example/)",
        ),
        ("{contact} {product} {product}", "https://operator.example/ mybot mybot"),
    ],
)
def test_a_user_agent_follows_its_template(template: str, agent: str) -> None:
    fetch = FetchSettings(product_token="mybot", user_agent=template)
    settings = CrawlSettings(contact="https://operator.example/", fetch=fetch)
    assert problems(settings) == {}
    assert fetch_policy(settings, None, "1.2", WHOSE).user_agent == agent


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("mybot/1.0", "must have {product} and {contact}, and may have {version}, got 'mybot/1.0'"),
        ("{product}/{version}", "{contact}"),
        ("+{contact}", "{product}"),
        ("{product} {contact} {name}", "got {name}"),
        ("{product} {contact} {", "a single bracket"),
        ("{product} {contact} }", "a single bracket"),
        ("{product} {{contact}}", "a single bracket"),
        ("{product} {contact}\r\nX: y", "printable ASCII"),
        ("{product} {contact} é", "printable ASCII"),
        ("{product} {contact}" + "x" * 500, "at most 500"),
    ],
)
def test_a_user_agent_must_tell_whose_it_is(template: str, told: str) -> None:
    found = problems(replace(GOOD, fetch=FetchSettings(user_agent=template)))
    assert list(found) == ["fetch.user_agent"]
    assert told in found["fetch.user_agent"]


@pytest.mark.parametrize(
    ("headers", "at"),
    [
        (("Accept-Language: de", "From: me@example.org", "X-Mine:y", "Accept: text/html, */*;q=0.1"), None),
        (("Accept-Language: " + "d" * 900,), None),
        (("Accept-Language: " + "d" * 1000,), "[0]"),
        (("Accept-Language:  de",), None),
        (("Accept-Language:\tde",), "[0]"),
        (("Accept-Language: d\te",), "[0]"),
        (("Accept-Language",), "[0]"),
        (("Accept-Language:",), "[0]"),
        (("Accept Language: de",), "[0]"),
        ((": de",), "[0]"),
        (("Accept-Language: de\r\nHost: x",), "[0]"),
        (("Accept-Language: d\N{LATIN SMALL LETTER E WITH ACUTE}",), "[0]"),
        (("From: a@b.example", "from: c@d.example"), "[1]"),
        (("From: a@b.example", "HOST: x"), "[1]"),
        (("Cookie: a=b",), "[0]"),
        (("Authorization: Basic eDp5",), "[0]"),
        (("User-Agent: other",), "[0]"),
        (("Referer: http://a.example/",), "[0]"),
        (("If-None-Match: x",), "[0]"),
        (("Proxy-Authorization: x",), "[0]"),
        (("Content-Length: 5",), "[0]"),
        (tuple(f"X-{n}: y" for n in range(21)), ""),
    ],
)
def test_headers_that_nodes_send_themselves_and_impossible_ones_are_refused(
    headers: tuple[str, ...], at: str | None
) -> None:
    found = problems(replace(GOOD, fetch=FetchSettings(headers=headers)))
    assert list(found) == ([] if at is None else [f"fetch.headers{at}"])
    if at is None:
        assert all(map(header_of, headers)), "nodes take them, too"


@given(
    st.text(max_size=5), st.integers(1, 3), st.integers(1, 3), st.sampled_from([("public",), ("loopback",)])
)
def test_the_same_id_is_the_same_policy_and_another_is_another(
    contact: str, timeout_ms: int, max_bytes: int, addresses: tuple[str, ...]
) -> None:
    fetch = FetchSettings(timeout_ms, max_bytes)
    one = fetch_policy(CrawlSettings(contact, addresses, fetch=fetch), None, "1", WHOSE)
    base = fetch_policy(CrawlSettings(fetch=FetchSettings(1, 1)), None, "1", WHOSE)
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
        credential = policies.of(settings, canonical(uri), settings, 1).credential
        return credential.user if credential else ""

    assert user("https://www.example.com/members/page") == "reader"
    assert user("http://www.example.com/members/page") == "anyone"
    assert user("https://www.example.com/other") == "anyone"
    assert user("https://example.org/members/") == ""
    policy = policies.of(settings, canonical("https://www.example.com/members/"), settings, 1)
    assert policy.fetch.credentials == () and policies.named(policy.policy_id) is policy


def test_all_policies_of_a_crawl_tell_whose_fetches_they_are_whatever_its_overrides() -> None:
    crawl = replace(
        GOOD,
        contact="crawls@library.example",
        operator="Library",
        description="All of it",
        robots=RobotsSettings(policy="ignore"),
    )
    overridden = replace(crawl, fetch=FetchSettings(product_token="other"), robots=RobotsSettings())
    policies = FetchPolicies("1.2")
    whole, part = (
        policies.of(settings, canonical("http://example.com/"), crawl, 5) for settings in (crawl, overridden)
    )
    assert (whole.user_agent, part.user_agent) == (
        "toehold/1.2 (+crawls@library.example)",
        "other/1.2 (+crawls@library.example)",
    )
    assert whole.provenance == part.provenance
    assert whole.provenance == Provenance(
        5, "Library", "crawls@library.example", "All of it", whole.user_agent, "ignore"
    )


def test_each_of_a_host_s_fetches_has_an_equal_share_of_its_bandwidth() -> None:
    """D15."""
    politeness = PolitenessSettings(max_parallel=4, max_bytes_per_second=1000)
    policy = fetch_policy(replace(GOOD, politeness=politeness), None, "1", WHOSE)
    assert policy.max_bytes_per_second == 250
    assert fetch_policy(GOOD, None, "1", WHOSE).max_bytes_per_second == 0


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
        *("fetch.connect_timeout", "fetch.accept_media_types[2]", "fetch.max_content_length"),
        *("fetch.proxy", "fetch.credentials[0].surt_prefix", "fetch.credentials[0].user"),
        *("fetch.credentials[0].password", "extract.max_links"),
    }
    assert "pass" not in found["fetch.proxy"]
    for more in ("/a", "?a@b", "#a@b"):
        assert (
            "pass"
            not in problems(replace(GOOD, fetch=FetchSettings(proxy=f"http://u:pass@a:1{more}")))[
                "fetch.proxy"
            ]
        )
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
        *("retry.statuses[1].fetch_status", "retry.statuses[2].fetch_status"),
        *("retry.statuses[3].max_attempts", "retry.statuses[3].delay"),
        *("retry.statuses[3].growth", "retry.statuses[4].max_delay"),
    }
