"""Which URIs belong to a crawl."""

import re
from typing import Any

import pytest
from core_doubles.codec import candidate
from core_doubles.memory_store import MemoryStore
from core_doubles.placing import PLACES
from core_doubles.shell import Shell
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows.store import Transaction
from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from frontier_server.core.state.model import Verdict
from frontier_server.core.uri.canonical import Malformed, canonical
from frontier_server.core.uri.scope import (
    HOP_RULES,
    ScopeRules,
    add_authority,
    authority_in_scope,
    hop_rule,
    parse_authority,
    parse_prefix,
    seed_redirect,
)
from frontier_server.core.uri.surt import surt_of
from frontier_server.core.uri.traps import path_repeats, too_many_segments

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
    assert bool(hop_rule(path, SMALL)) is exceeded


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("LLR", ""),
        ("LLL", "max_link_hops"),
        ("RRRR", "max_redirect_hops"),
        ("EE", "max_embed_hops"),
        ("LLLEERRRR", "max_link_hops"),
    ],
)
def test_the_rule_of_too_many_hops_is_told(path: str, rule: str) -> None:
    assert hop_rule(path, SMALL) == rule
    assert not rule or rule in HOP_RULES


def test_no_link_hops_leave_the_seeds_and_what_they_embed() -> None:
    scope = ScopeSettings(max_link_hops=0)
    assert not hop_rule("", scope) and not hop_rule("E", scope) and not hop_rule("R", scope)
    assert hop_rule("L", scope)


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
        *("", "http://ex.com", "ex.com/", "ex.com/a", "ex.com?a", "ex.com#a", "a@ex.com", "ex com"),
        *("ex.com:x", "ex\t.com", "ex.com:65536", "a..b", ".", "\\ex.com", "1.2.3.256"),
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
    add_authority(tx, PLACES, 1, "ex.com", "ex.com:8080")
    store.write(tx.changes)
    tx = Transaction(store)
    assert authority_in_scope(tx, PLACES, 1, "ex.com", "ex.com:8080")
    assert not authority_in_scope(tx, PLACES, 1, "ex.com", "ex.com")
    assert not authority_in_scope(tx, PLACES, 2, "ex.com", "ex.com:8080")


# The rules that need no store.

EX = "http://ex.com/"
PREFIXES = ("example.com", "-http://example.com/private/", "+http://example.com/private/press/", "-net")


def refusal(
    uri: str,
    path: str = "L",
    seed: bool = False,
    host_in_scope: bool = False,
    scope: ScopeSettings | None = None,
    **settings: Any,
) -> str:
    """The rule that refuses a URI, "" if none does."""
    rules = ScopeRules(scope or ScopeSettings(**settings))
    return rules.judge(canonical(uri), path, seed, host_in_scope)


def test_by_default_hosts_in_scope_and_seeds_are_in_and_nothing_else_is() -> None:
    assert refusal(EX, host_in_scope=True) == ""
    assert refusal(EX, seed=True) == ""
    assert refusal(EX) == "hosts"


@pytest.mark.parametrize(
    ("uri", "host_in_scope", "rule"),
    [
        ("http://example.com/", False, ""),
        ("https://www.example.com:8080/a", False, ""),
        ("http://example.community/", False, "hosts"),
        ("http://example.com/private/a", False, "surt_prefixes"),
        ("http://example.com/private/a", True, "surt_prefixes"),
        ("http://www.example.com/private/a", False, ""),
        ("https://example.com/private/press/a", False, ""),
        ("http://other.net/", True, "surt_prefixes"),
        ("http://other.net/", False, "surt_prefixes"),
        ("http://other.org/", True, ""),
    ],
)
def test_the_longest_prefix_decides(uri: str, host_in_scope: bool, rule: str) -> None:
    """Heritrix's SURT prefix files, with `+` and `-`; https is http."""
    assert refusal(uri, host_in_scope=host_in_scope, surt_prefixes=PREFIXES) == rule


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("ex.com", (True, "http://(com,ex,")),
        ("+ex.com", (True, "http://(com,ex,")),
        ("-http://ex.com/a", (False, "http://(com,ex,)/")),
        ("-http://(com,", (False, "http://(com,")),
    ],
)
def test_a_prefix_has_a_sign_or_is_meant_to_let_in(text: str, parsed: tuple[bool, str]) -> None:
    assert parse_prefix(text) == parsed


@pytest.mark.parametrize("text", ["", "+", "-", "+ ", "-a b"])
def test_a_prefix_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        parse_prefix(text)


def test_what_an_accepting_pattern_matches_as_a_whole_is_in() -> None:
    patterns = (r"https?://[^/]+/nothing", r"https?://[^/]+/keep/.*")
    assert refusal("https://any.example:81/keep/a", accept_patterns=patterns) == ""
    assert refusal("https://any.example/a/keep/a", accept_patterns=patterns) == "hosts"
    assert refusal("http://any.example/nothing?x", accept_patterns=patterns) == "hosts"
    both = ScopeSettings(accept_patterns=patterns, surt_prefixes=("-example",))
    assert refusal("https://any.example/keep/a", scope=both) == "surt_prefixes"


def test_what_a_rejecting_pattern_matches_is_out_and_which_it_was_is_told() -> None:
    patterns = (r".*\.gif", r"http://[^/]+/bad/.*", ".*/worse/.*")
    scope = ScopeSettings(accept_patterns=(".*",), reject_patterns=patterns)
    assert refusal("http://ex.com/a", scope=scope) == ""
    assert refusal("http://ex.com/bad/worse/", scope=scope) == "reject_patterns[1]"
    assert refusal("https://ex.com/bad/worse/", scope=scope) == "reject_patterns[2]"
    assert refusal("http://ex.com/a.gif?b", scope=scope) == ""
    assert refusal("http://other.example/bad/", reject_patterns=patterns) == "hosts"  # nobody asked for it


def test_required_patterns_restrict_the_scope_but_for_seeds_and_what_belongs_to_pages() -> None:
    scope = ScopeSettings(required_patterns=("https?://[^/]*/docs/.*", ".*/manual/.*"), page_requisites=True)
    assert refusal("http://ex.com/docs/a", scope=scope, host_in_scope=True) == ""
    assert refusal("http://ex.com/a/manual/b", scope=scope, host_in_scope=True) == ""
    assert refusal("http://ex.com/", scope=scope, host_in_scope=True) == "required_patterns"
    assert refusal("http://ex.com/", scope=scope, seed=True) == ""
    assert refusal("http://ex.com/moved", "RR", scope=scope, host_in_scope=True) == "", "from a seed"
    assert refusal("http://ex.com/moved", "LR", scope=scope, host_in_scope=True) == "required_patterns"
    assert refusal("http://cdn.example/style.css", "LE", scope=scope) == "", "a page's requisite"
    assert refusal("http://other.example/docs/a", scope=scope) == "hosts", "they accept nothing"
    alone = ScopeSettings(required_patterns=(".*/docs/.*",), reject_patterns=(".*[.]pdf",))
    assert refusal("http://ex.com/a.css", "LE", scope=alone, host_in_scope=True) == "required_patterns"
    assert refusal("http://ex.com/docs/a.pdf", scope=alone, host_in_scope=True) == "reject_patterns[0]"


def test_a_scheme_may_be_left_out() -> None:
    assert refusal("https://ex.com/", host_in_scope=True, schemes=("https",)) == ""
    assert refusal("http://ex.com/", host_in_scope=True, schemes=("https",)) == "schemes"
    assert refusal("http://ex.com/", seed=True, accept_patterns=(".*",), schemes=("https",)) == "schemes"


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("a/a/b", ""),
        ("a/a/a/b", "max_path_repetitions"),
        ("b?a/a/a/a/", ""),
        ("".join(f"{number}/" for number in range(19)), ""),
        ("".join(f"{number}/" for number in range(20)), "max_path_segments"),
        ("b?" + "".join(f"{number}/" for number in range(20)), ""),
        ("a/" * 20, "max_path_repetitions"),
    ],
)
def test_a_path_that_is_a_trap_is_out(path: str, rule: str) -> None:
    """Heritrix's PathologicalPath (2) and TooManyPathSegments (20); the query is no path."""
    assert refusal(EX + path, host_in_scope=True) == rule
    assert refusal(EX + path, accept_patterns=(".*",)) == rule


def test_each_trap_can_be_set_and_left_out() -> None:
    deep, again = "http://ex.com/" + "".join(f"{n}/" for n in range(30)), "http://ex.com/a/a/a/"
    assert refusal(deep, host_in_scope=True, max_path_segments=0) == ""
    assert refusal(deep, host_in_scope=True, max_path_segments=31) == ""
    assert refusal(deep, host_in_scope=True, max_path_segments=30) == "max_path_segments"
    assert refusal(again, host_in_scope=True, max_path_repetitions=0) == ""
    assert refusal(again, host_in_scope=True, max_path_repetitions=3) == ""
    assert refusal(again, host_in_scope=True, max_path_repetitions=0, max_path_segments=3) != ""
    off = ScopeSettings(max_path_repetitions=0, max_path_segments=0)
    assert refusal("http://ex.com/" + "a/" * 4_000, host_in_scope=True, scope=off) == ""


@pytest.mark.parametrize("path", ["", "L" * 20, "E" * 5, "R" * 10, "LLLEEEEE", "P" * 50])
def test_few_hops_are_well(path: str) -> None:
    assert refusal(EX, path, host_in_scope=True) == ""


@pytest.mark.parametrize(
    ("path", "rule"),
    [("L" * 21, "max_link_hops"), ("E" * 6, "max_embed_hops"), ("R" * 11, "max_redirect_hops")],
)
def test_too_many_hops_are_out_by_their_rule(path: str, rule: str) -> None:
    assert refusal(EX, path, host_in_scope=True) == rule
    assert refusal(EX, path, accept_patterns=(".*",)) == rule


def test_seeds_are_in_but_for_schemes_prefixes_and_rejecting_patterns() -> None:
    trap = "http://ex.com/" + "a/" * 30
    assert refusal(trap, "L" * 50, seed=True) == ""
    assert refusal(trap, seed=True, schemes=("https",)) == "schemes"
    assert refusal(trap, seed=True, surt_prefixes=("-ex.com",)) == "surt_prefixes"
    assert refusal(trap, seed=True, reject_patterns=(".*a/",)) == "reject_patterns[0]"


ORDER = ScopeSettings(
    schemes=("http",),
    surt_prefixes=("-http://in.example/minus/",),
    reject_patterns=(".*reject.*",),
    max_path_segments=4,
    max_link_hops=1,
)


@pytest.mark.parametrize(
    ("uri", "rule"),
    [
        ("https://out.example/minus/reject/a/a/a/a/", "schemes"),
        ("http://in.example/minus/reject/a/a/a/a/", "surt_prefixes"),
        ("http://out.example/reject/a/a/a/a/", "hosts"),
        ("http://in.example/reject/a/a/a/a/", "reject_patterns[0]"),
        ("http://in.example/a/a/a/a/", "max_path_repetitions"),
        ("http://in.example/a/b/c/d/", "max_path_segments"),
        ("http://in.example/a", "max_link_hops"),
    ],
)
def test_the_first_rule_that_refuses_is_told(uri: str, rule: str) -> None:
    assert refusal(uri, "LL", host_in_scope="in.example" in uri, scope=ORDER) == rule


uris = st.builds(
    lambda scheme, host, path: f"{scheme}://{host}/{path}",
    st.sampled_from(["http", "https"]),
    st.sampled_from(["in.example", "www.in.example", "out.example:81"]),
    st.text("ab/?", max_size=20),
)
paths = st.text("LERXMIPS", max_size=30)
scopes = st.builds(
    ScopeSettings,
    surt_prefixes=st.sampled_from([(), ("-in.example",), ("out.example:81", "-http://in.example/a/")]),
    accept_patterns=st.sampled_from([(), (".*a",)]),
    reject_patterns=st.sampled_from([(), (".*b", ".*/a/.*")]),
    required_patterns=st.sampled_from([(), (".*a", ".*/b/.*")]),
    schemes=st.sampled_from([("http", "https"), ("https",)]),
    max_path_repetitions=st.integers(0, 3),
    max_path_segments=st.integers(0, 5),
    max_link_hops=st.integers(0, 3),
    max_embed_hops=st.integers(0, 3),
    max_redirect_hops=st.integers(0, 3),
)


@given(scopes, uris, paths, st.booleans(), st.booleans())
def test_a_uri_that_is_in_breaks_no_rule_and_one_that_is_out_breaks_the_one_told(
    scope: ScopeSettings, uri: str, path: str, seed: bool, host_in_scope: bool
) -> None:
    """Each rule asked for itself, without the short cuts of most URIs."""
    rule = refusal(uri, path, seed, host_in_scope, scope)
    parsed = canonical(uri)
    only_path = parsed.target.partition("?")[0]
    broken = set()
    if parsed.scheme not in scope.schemes:
        broken.add("schemes")
    surt = surt_of(parsed)
    longest = max(
        (
            (prefix, lets_in)
            for lets_in, prefix in map(parse_prefix, scope.surt_prefixes)
            if surt.startswith(prefix)
        ),
        key=lambda found: len(found[0]),
        default=None,
    )
    if longest and not longest[1]:
        broken.add("surt_prefixes")
    accepted = any(re.fullmatch(pattern, parsed.uri) for pattern in scope.accept_patterns)
    if not (seed or host_in_scope or (longest and longest[1]) or accepted):
        broken.add("hosts")
    required = scope.required_patterns
    satisfied = seed or seed_redirect(path) or any(re.fullmatch(each, parsed.uri) for each in required)
    if required and not satisfied:
        broken.add("required_patterns")
    for place, pattern in enumerate(scope.reject_patterns):
        if re.fullmatch(pattern, parsed.uri):
            broken.add(f"reject_patterns[{place}]")
    if not seed:
        if path_repeats(only_path, scope.max_path_repetitions):
            broken.add("max_path_repetitions")
        if too_many_segments(only_path, scope.max_path_segments):
            broken.add("max_path_segments")
        if hop_rule(path, scope):
            broken.add(hop_rule(path, scope))
    assert rule in broken if broken else rule == ""


@given(scopes, uris, paths, st.booleans())
def test_a_host_in_scope_matters_only_where_the_standing_leaves_it_to_hosts(
    scope: ScopeSettings, uri: str, path: str, seed: bool
) -> None:
    """Where it does not matter, nobody looks it up."""
    if not ScopeRules(scope).standing(canonical(uri)).leaves_it_to_hosts:
        assert refusal(uri, path, seed, True, scope) == refusal(uri, path, seed, False, scope)


# In a crawl.


def crawl(**scope: Any) -> Shell:
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
    shell.do(lambda core, now: core.control.add_seeds("crawl", ["http://gamma.example/"], now))
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
