"""What is remembered of an origin is what its URIs' own text says, whatever came before."""

from dataclasses import replace
from functools import partial

from core_doubles.placing import PLACES
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows.keys import crawl_prefix, seen_key
from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, QueueSettings, ScopeSettings
from frontier_server.core.state.origin import Origins, Site
from frontier_server.core.state.overrides import Overrides
from frontier_server.core.uri import assign
from frontier_server.core.uri.canonical import CanonicalUri, canonical
from frontier_server.core.uri.identity import RULES, identity_of
from frontier_server.core.uri.scope import ScopeRules
from frontier_server.core.uri.surt import surt_of

ORIGINS = (
    "http://a.example",
    "https://a.example",
    "https://a.example:81",
    "http://www.a.example",
    "http://b.org",
)
PATHS = ("/", "/a", "/A/b?c", "/p/x", "/p/y/z", "/page;jsessionid=0123456789abcdef0123456789abcdef")
uris = st.builds(
    lambda origin, path: canonical(origin + path), st.sampled_from(ORIGINS), st.sampled_from(PATHS)
)
queue_settings = st.builds(
    QueueSettings,
    partition=st.sampled_from(sorted(assign.PARTITIONS)),
    assignment=st.sampled_from(sorted(assign.ASSIGNMENTS)),
    parallel_queues=st.sampled_from([1, 1, 3]),
    queue_key=st.sampled_from(["", "", "forced"]),
)
crawl_settings = st.builds(
    lambda queues, rules: replace(CrawlSettings(), queues=queues, identity=IdentitySettings(rules=rules)),
    queue_settings,
    st.sampled_from([(), (), *((rule,) for rule in RULES)]),
)
groups = st.sampled_from([{}, {"a.example": "g"}, {"a.example": "g", "b.org": "g"}])


PREFIXES = (
    *("http://(example,a,", "http://(example,a,)/p/", "http://(example,a,)/p/y/", "http://(example,a,www,"),
    *("http://(example,a,:81)", "http://(example,a,:81)/a", "http://(org,", "http://(org,b,)/"),
)
CRAWL = 7
prefixes = st.lists(st.sampled_from(PREFIXES), max_size=5, unique=True)
signs = st.lists(st.sampled_from("+-"), min_size=len(PREFIXES), max_size=len(PREFIXES))


def scope_of(chosen: list[str], signed: list[str]) -> ScopeRules:
    """A scope with these prefixes."""
    texts = tuple(sign + prefix for sign, prefix in zip(signed, chosen, strict=False))
    return ScopeRules(ScopeSettings(surt_prefixes=texts))


def merged(settings: CrawlSettings, overriding: CrawlSettings) -> Overrides:
    """No overrides yet; each that comes gives a crawl of `settings` the others."""
    return Overrides(lambda parts: overriding if parts else settings)


@given(
    crawl_settings, crawl_settings, groups, prefixes, prefixes, signs, st.lists(uris, min_size=1, max_size=12)
)
def test_a_uri_has_what_its_own_text_says(
    settings: CrawlSettings,
    overriding: CrawlSettings,
    of_host: dict[str, str],
    overridden: list[str],
    scoped: list[str],
    signed: list[str],
    asked: list[CanonicalUri],
) -> None:
    """Settings, standing in the scope, place and fingerprint, whatever was asked for before."""
    overrides, rules = merged(settings, overriding), scope_of(scoped, signed)
    for prefix in overridden:
        overrides.put(prefix, b"")
    origins = Origins(CRAWL, settings, of_host, overrides, rules, PLACES)
    for uri in asked:
        its = overriding if any(surt_of(uri).startswith(prefix) for prefix in overridden) else settings
        assert origins.settings_for(uri) is its
        assert origins.standing(uri) == rules.standing(uri)
        identity = identity_of(uri, its.identity)
        expected = Site(
            PLACES.of_uri(uri, identity, its, of_host),
            PLACES.robots_key(uri.scheme, uri.host, uri.authority, its),
            crawl_prefix(CRAWL) + PLACES.of_uri(uri, identity, its, of_host).partition,
        )
        assert origins.site(uri, its) == expected
        fingerprint = assign.fingerprint(identity)
        assert origins.located(uri, its) == (expected, fingerprint)
        other = overriding if its is settings else settings
        assert origins.site(uri, other).robots_key == PLACES.robots_key(
            uri.scheme, uri.host, uri.authority, other
        )
        origin = origins.of(uri)
        assert origins.named(uri.origin) is origin
        assert origin.uri(uri.uri) == uri
        assert expected.seen_prefix + fingerprint == seen_key(CRAWL, expected.place.partition, fingerprint)
        if origin.decides:
            assert origin.settings is its and origin.standing == rules.standing(uri)
            assert (origins.site_of(origin, its), assign.fingerprint(uri)) == (expected, fingerprint)


@given(crawl_settings, crawl_settings, prefixes, st.lists(uris, min_size=1, max_size=12))
def test_an_origin_is_known_anew_when_overrides_change(
    settings: CrawlSettings, overriding: CrawlSettings, overridden: list[str], asked: list[CanonicalUri]
) -> None:
    overrides = merged(settings, overriding)
    origins = Origins(CRAWL, settings, {}, overrides, scope_of([], []), PLACES)
    changes = [partial(overrides.put, prefix, b"") for prefix in overridden]
    for change in (*changes, *(partial(overrides.discard, prefix) for prefix in overridden)):
        change()
        origins.forget()
        for uri in asked:
            assert origins.settings_for(uri) is (overrides.settings_for(surt_of(uri)) or settings)


@given(prefixes, signs, st.lists(st.tuples(uris, st.booleans()), max_size=12))
def test_the_longest_prefix_decides(
    chosen: list[str], signed: list[str], asked: list[tuple[CanonicalUri, bool]]
) -> None:
    rules = scope_of(chosen, signed)
    sign_of = dict(zip(chosen, signed, strict=False))
    for uri, inside in asked:
        found = rules.longest_prefix(uri)
        assert found == max((each for each in chosen if surt_of(uri).startswith(each)), key=len, default="")
        refused = sign_of.get(found) == "-" or not (found or inside)
        assert bool(rules.judge(uri, "L", False, inside)) == refused


def test_an_origin_that_is_not_canonical_has_no_name() -> None:
    origins = Origins(
        CRAWL, CrawlSettings(), {}, merged(CrawlSettings(), CrawlSettings()), scope_of([], []), PLACES
    )
    for name in (
        "http://A.example",
        "http://a.example:80",
        "http://a.example.",
        "ftp://a.example",
        "http://",
    ):
        assert origins.named(name) is None
    found = origins.named("http://a.example")
    assert found is not None and found is origins.of(canonical("http://a.example/page"))
