"""When two URIs are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.spec.settings import IdentitySettings, Rewrite
from frontier_server.core.uri.canonical import canonical
from frontier_server.core.uri.identity import RULES, identity_of

ID32, ID24 = "0123456789abcdefABCDEF0123456789", "EOHBLBDDPFCLHKPGGKLILNAM"


def identity(uri: str, *rules: str, rewrites: tuple[Rewrite, ...] = ()) -> str:
    return identity_of(canonical(uri), IdentitySettings(rules, rewrites)).uri


@pytest.mark.parametrize(
    ("rule", "uri", "same"),
    [
        ("lower-case", "http://ex.com/A?B=C%C3", "http://ex.com/a?b=c%c3"),
        ("strip-www", "http://www.ex.com/a", "http://ex.com/a"),
        ("strip-www", "https://www2.ex.com:8080/a", "https://ex.com:8080/a"),
        ("strip-www", "http://www.ex.com/?a", "http://ex.com/?a"),
        ("strip-www", "http://www.ex.com/", "http://www.ex.com/"),
        ("strip-www", "http://wwwa.ex.com/a", "http://wwwa.ex.com/a"),
        ("strip-www", "http://a.www.ex.com/a", "http://a.www.ex.com/a"),
        ("strip-www", "http://www/a.b/c", "http://www/a.b/c"),
        ("strip-session-ids", f"http://ex.com/a?jsessionid={ID32}", "http://ex.com/a"),
        ("strip-session-ids", f"http://ex.com/a;jsessionid={ID32}", "http://ex.com/a"),
        ("strip-session-ids", f"http://ex.com/a;JSESSIONID={ID32}?b=c", "http://ex.com/a?b=c"),
        ("strip-session-ids", f"http://ex.com/a;jsessionid={ID32}0?b=c", None),
        ("strip-session-ids", f"http://ex.com/a?b=c&PHPSESSID={ID32}&d=e", "http://ex.com/a?b=c&d=e"),
        ("strip-session-ids", f"http://ex.com/a?sid={ID32}&b", "http://ex.com/a?b"),
        ("strip-session-ids", f"http://ex.com/a?ASPSESSIONIDAQBSDSRT={ID24}&b", "http://ex.com/a?b"),
        ("strip-session-ids", "http://ex.com/a?sid=42", None),
        ("strip-session-ids", f"http://ex.com/a?aside={ID32}", None),
        ("strip-session-ids", f"http://ex.com/a?sid={ID32}0", None),
        ("strip-cf-ids", "http://ex.com/a?CFID=1&CFTOKEN=2&b=c", "http://ex.com/a?b=c"),
        ("strip-cf-ids", "http://ex.com/a?b&cfid=1&cftoken=2-3&jsessionid=a$B0", "http://ex.com/a?b"),
        ("strip-cf-ids", "http://ex.com/a?cfid=1&cftoken=2", "http://ex.com/a"),
        ("strip-cf-ids", "http://ex.com/a?cfid=1&b=c", None),
        ("strip-cf-ids", "http://ex.com/a?jsessionid=1&b=c", None),
        ("strip-extra-slashes", "http://ex.com//a///b/?c=//d", "http://ex.com/a/b/?c=//d"),
        ("strip-extra-slashes", "http://ex.com/save/http://a/", "http://ex.com/save/http:/a/"),
        ("fix-query", "http://ex.com/a?&b=c&", "http://ex.com/a?b=c"),
        ("fix-query", "http://ex.com/a?&", "http://ex.com/a"),
        ("fix-query", "http://ex.com/a?b&&c", None),
        ("percent-encoding", "http://ex.com/%7Ejoe/%e3%83%84", "http://ex.com/~joe/%E3%83%84"),
        ("percent-encoding", "http://ex.com/~joe/ツ", "http://ex.com/~joe/%E3%83%84"),
        ("percent-encoding", "http://ex.com/%61%2d%5f%2e?%41=%30", "http://ex.com/a-_.?A=0"),
        (
            "percent-encoding",
            "http://ex.com/a%2fb%3fc?d%26e%3df%2bg",
            "http://ex.com/a%2Fb%3Fc?d%26e%3Df%2Bg",
        ),
        ("percent-encoding", "http://ex.com/a|b?{c}|^`", "http://ex.com/a%7Cb?%7Bc%7D%7C%5E%60"),
        ("percent-encoding", "http://ex.com/100%?a=%zz&b=%%37E", "http://ex.com/100%25?a=%25zz&b=%257E"),
        ("percent-encoding", "http://ex.com/a[0]'(b)*!$", None),
        ("percent-encoding", "http://[::1]/~A", None),
        ("heritrix", f"http://me:pw@WWW1.ex.com/A?&B=c&SID={ID32}&cfid=1&cftoken=2", "http://ex.com/a?b=c"),
        ("heritrix", "http://www.ex.com/", "http://www.ex.com/"),
        ("heritrix", "http://ex.com//a//", None),
    ],
)
def test_a_rule_takes_for_one_what_it_says(rule: str, uri: str, same: str | None) -> None:
    """Heritrix 2.4."""
    assert identity(uri, rule) == RULES[rule](canonical(uri).uri) == (same or uri)


def test_without_rules_a_uri_is_itself() -> None:
    """And the very same object: this is asked for each candidate."""
    uri = canonical("http://www.ex.com/A//b?sid=1&")
    assert identity_of(uri, IdentitySettings()) is uri
    assert identity_of(uri, IdentitySettings(("strip-cf-ids",))) is uri  # one that has nothing to do


def test_rules_are_applied_in_the_order_given() -> None:
    uri = f"http://ex.com/a?b&sid={ID32}&&"
    assert identity(uri, "strip-session-ids", "fix-query") == "http://ex.com/a?b"
    assert identity(uri, "fix-query", "strip-session-ids") == "http://ex.com/a?b"
    parameter = Rewrite("X=1", "sid=" + ID32)  # comes after all rules
    assert identity("http://ex.com/a?X=1", "strip-session-ids", rewrites=(parameter,)) != "http://ex.com/a"


def test_heritrix_s_chain_is_its_rules_in_its_order() -> None:
    chain = ("lower-case", "strip-www", "strip-session-ids", "strip-cf-ids", "fix-query")
    for uri in (f"http://WWW.ex.com/A?&sid={ID32}", "http://www.ex.com/a?CFID=1&cftoken=2&", "http://ex.com"):
        assert identity(uri, "heritrix") == identity(uri, *chain)


def test_rewrites_come_after_the_rules_one_after_the_other() -> None:
    rewrites = (Rewrite(r"^https?://m\.", "http://"), Rewrite("[?&]utm_[a-z]+=[^&]*", ""))
    uri = "https://m.EX.com/A?utm_source=x&utm_medium=y"
    assert identity(uri, rewrites=rewrites) == "http://ex.com/A"
    assert (
        identity("http://ex.com/a", "strip-www", rewrites=(Rewrite("ex", "www.ex"),)) == "http://www.ex.com/a"
    )


@pytest.mark.parametrize("rule", ["fix-query", "heritrix"])
@pytest.mark.parametrize("field", ["utm=1&b=c", "b=c&utm=1", "utm=1&b=c&utm=2"])
def test_fix_query_removes_the_separators_that_rewrites_leave(rule: str, field: str) -> None:
    without_utm = (Rewrite("utm=[0-9]", ""),)
    assert identity(f"http://ex.com/a?{field}", rule, rewrites=without_utm) == "http://ex.com/a?b=c"
    assert identity("http://ex.com/a?utm=1", rule, rewrites=without_utm) == "http://ex.com/a"
    assert identity("http://ex.com/a?utm=1&b", "lower-case", rewrites=without_utm) == "http://ex.com/a?&b"


def test_percent_encoding_normalizes_escapes_that_rewrites_insert() -> None:
    rewrites = (Rewrite("^(.*)/joe/", r"\1/%7ejoe/"),)
    assert identity("http://ex.com/joe/", "percent-encoding", rewrites=rewrites) == "http://ex.com/~joe/"


@pytest.mark.parametrize(
    "rewrite",
    [
        Rewrite("^http", "ftp"),
        Rewrite("//ex.com", "//a b"),
        Rewrite("^.*$", "no uri"),
        Rewrite("^.*$", r"\\"),
        Rewrite("a$", "a" * 1_000),
        Rewrite("/", "/" * 1_000),
    ],
)
def test_a_uri_that_is_none_any_more_stands_for_itself(rewrite: Rewrite) -> None:
    uri = canonical("http://ex.com/" + "a" * 7_500)
    assert identity_of(uri, IdentitySettings(rewrites=(rewrite,))) is uri


parts = st.text("aA./;=&?%-_w1", max_size=12)
fields = st.sampled_from(
    ["", "b=C", f"sid={ID32}", "CFID=1", "cftoken=2", f"PHPSESSID={ID32}", "jsessionid=x"]
)
uris = st.builds(
    lambda host, path, query: f"http://{host}/{path}?{'&'.join(query)}",
    st.sampled_from(["ex.com", "www.ex.com", "www3.www.ex.com:81", "[::1]", "127.0.0.1", "www.com", "www"]),
    parts | st.just(f"a;jsessionid={ID32}"),
    st.lists(fields | parts, max_size=5),
)
rewrites = st.builds(
    Rewrite, st.sampled_from(["a", "^", ".", "(.*)", "/"]), st.sampled_from(["", "/", "x", ":"])
)


@given(uris, st.lists(st.sampled_from(sorted(RULES)), max_size=4), st.lists(rewrites, max_size=2))
def test_an_identity_is_a_canonical_uri(uri: str, rules: list[str], rewritten: list[Rewrite]) -> None:
    settings = IdentitySettings(tuple(rules), tuple(rewritten))
    found = identity_of(canonical(uri), settings)
    assert canonical(found.uri) == found


@given(uris, st.sampled_from(sorted(set(RULES) - {"strip-www", "heritrix"})))
def test_a_rule_leaves_nothing_for_itself_to_do(uri: str, rule: str) -> None:
    """But strip-www, which takes one label off."""
    once = identity(uri, rule)
    assert identity(once, rule) == once


@pytest.mark.sampled(
    "rest", ["/" * 8_000, "a?" + "&" * 8_000, "a?" + "sid=0" * 1_600, ";jsessionid=" * 660, "?cfid=&" * 1_000]
)
@pytest.mark.sampled("host", ["www." * 10 + "ex.com", "ex.com"])
def test_a_hostile_uri_is_soon_done_with(host: str, rest: str) -> None:
    uri = canonical(f"http://{host}/{rest}")
    for rule in RULES:
        found = identity_of(uri, IdentitySettings((rule,)))
        assert len(found.uri) <= len(uri.uri)
