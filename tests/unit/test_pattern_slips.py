"""Patterns of a scope that match no canonical URI, and what is said of them."""

import pytest
import re2

from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from frontier_server.core.state.spec_problems import problems
from frontier_server.core.uri.canonical import canonical
from frontier_server.core.uri.pattern_slips import slip

IN_PUNYCODE = (
    "must match canonical URIs, which have {} in a path, and a host in punycode, got {!r} at character {}"
)
ESCAPED = "must match canonical URIs, which have {} in a path, got {!r} at character {}"
NO_FRAGMENT = "must match canonical URIs, which have no fragment, got '#' at character {}"
NO_PORT = "must not have the default port {}, which canonical URIs leave out"
LOWER_CASE = "must have the host in lower case, as canonical URIs have it, got {!r}"
WHOLE = "must match a URI as a whole, which begins with http, got a path; begin with https?://[^/]*"
GLOB = "must be a pattern, got a glob at character {}; any text is .*"


@pytest.mark.sampled(
    ("pattern", "told"),
    [
        (r"https?://bücher\.example/.*", IN_PUNYCODE.format("%C3%BC", "ü", 11)),
        (r".*/caf(é|e)/.*", IN_PUNYCODE.format("%C3%A9", "é", 8)),
        (".*a b.*", ESCAPED.format("%20", " ", 4)),
        (r".*a\ b.*", ESCAPED.format("%20", " ", 5)),
        (r".*\Qa b\E.*", ESCAPED.format("%20", " ", 6)),
        ('.*"a".*', ESCAPED.format("%22", '"', 3)),
        (".*#part", NO_FRAGMENT.format(3)),
        (r"http://a\.example:80/.*", NO_PORT.format(":80")),
        (r"^https:\/\/a\.example:443\/.*", NO_PORT.format(":443")),
        (r"https?://A\.example/.*", LOWER_CASE.format(r"A\.example")),
        ("/docs/.*", WHOLE),
        (r"^\/docs", WHOLE),
        ("https://a.example/docs/*", GLOB.format(24)),
        (".*[?]page=*", GLOB.format(11)),
    ],
)
@pytest.mark.sampled("field", ["accept_patterns", "reject_patterns", "required_patterns"])
def test_a_pattern_that_matches_no_canonical_uri_is_named(pattern: str, told: str, field: str) -> None:
    scope = ScopeSettings(**{field: (".*", pattern)})  # type: ignore[arg-type]
    settings = CrawlSettings(allowed_addresses=("loopback",), scope=scope)
    assert problems(settings) == {f"scope.{field}[1]": told}


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        (r"https?://[^/ ü]*/docs/.*", "http://a.example/docs/"),
        (r"https?://a\.example:8080/.*", "http://a.example:8080/"),
        (r"https?://a\.example(:443)?/.*", "http://a.example:443/"),
        (r"(?i)https?://A\.Example/.*", "http://a.example/"),
        (r"(?P<scheme>https?)://.*", "http://a.example/"),
        (r".*/[[:alpha:] ]+/[]ü]?\w+", "http://a.example/b/c"),
        (r".*\x2f\d{2}", "http://a.example/12"),
        (r".*\p{Greek}?", "http://a.example/"),
        (r".*\Q.pdf\E", "http://a.example/a.pdf"),
        (".*/%7Ejoe/.*", "http://a.example/%7Ejoe/"),
        (".*{id}`", "http://a.example/?{id}`"),
        (r".*/\*", "http://a.example/*"),
        (r".*/+a*", "http://a.example//a"),
    ],
)
def test_a_pattern_that_matches_a_canonical_uri_is_accepted(pattern: str, url: str) -> None:
    assert slip(pattern) == ""
    assert re2.fullmatch(pattern, canonical(url).uri)
