"""What is remembered of an origin is what its URIs' own text says, whatever came before."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.robotstxt.robots_table import key_of
from frontier_server.core.site import Site, Sites
from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, QueueSettings, ScopeSettings
from frontier_server.core.uri import assign
from frontier_server.core.uri.canonical import CanonicalUri, canonical
from frontier_server.core.uri.identity import RULES, identity_of
from frontier_server.core.uri.scope import ScopeRules

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


@given(crawl_settings, crawl_settings, groups, st.lists(st.tuples(uris, st.booleans()), max_size=12))
def test_a_uri_lives_where_its_own_text_says(
    settings: CrawlSettings,
    overridden: CrawlSettings,
    of_host: dict[str, str],
    asked: list[tuple[CanonicalUri, bool]],
) -> None:
    """Also where overrides give it other settings than the crawl's."""
    sites = Sites(settings, of_host)
    for uri, by_crawl in asked:
        its = settings if by_crawl else overridden
        identity = identity_of(uri, its.identity)
        expected = Site(
            assign.place_of(uri, identity, its, of_host),
            key_of(uri.scheme, uri.host, uri.authority, its),
        )
        assert sites.of(uri, its) == expected
        assert sites.located(uri, its) == (expected, assign.fingerprint(identity))


PREFIXES = (
    "+http://(example,a,",
    "-http://(example,a,)/p/",
    "+http://(example,a,)/p/y/",
    "-http://(example,a,www,",
    "+http://(example,a,:81)",
    "-http://(example,a,:81)/a",
    "+http://(org,",
    "-http://(org,b,)/",
)


@given(
    st.lists(st.sampled_from(PREFIXES), max_size=5, unique=True),
    st.lists(st.tuples(uris, st.booleans()), max_size=12),
)
def test_the_scope_judges_each_uri_by_itself(
    prefixes: list[str], asked: list[tuple[CanonicalUri, bool]]
) -> None:
    """Though it remembers what its prefixes say of an origin."""
    settings = ScopeSettings(surt_prefixes=tuple(prefixes))
    rules = ScopeRules(settings)
    for uri, inside in asked:
        assert rules.judge(uri, "L", False, inside) == ScopeRules(settings).judge(uri, "L", False, inside)
        found = rules.longest_prefix(uri)
        signs = {prefix[1:]: prefix[0] for prefix in prefixes}
        refused = signs.get(found) == "-" or not (found or inside)
        assert bool(rules.judge(uri, "L", False, inside)) == refused
