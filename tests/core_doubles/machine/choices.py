"""What the machine draws from: settings of every kind, small, so that limits are met."""

from collections.abc import Set
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, NamedTuple

from core_doubles.codec import override_of
from core_doubles.web import AREAS, SITES, every_spelling
from hypothesis import strategies as st

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.spec.settings import (
    DAY_MS,
    AddressGroupSettings,
    CrawlSettings,
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
    RobotsSettings,
    ScopeSettings,
)

HOUR_MS = int(timedelta(hours=1).total_seconds() * 1000)
KINDS = ("browser",)  # that nodes offer, unless they are told otherwise
NODES = ("north", "south", "west")
PAGE_STATUSES = (
    200,
    200,
    200,
    204,
    301,
    304,
    404,
    500,
    503,
    503,
    429,
    -1,
    -2,
    -3,
    -4,
    -7,
    -10,
    -10,
    -50,
    -61,
    -7000,
    -9998,
    -3000,
)
ROBOTS_STATUSES = (200, 200, 200, 200, 404, -404, 403, 500, 503, 429, -1, -2, -4, -7, -10, -50, -7000, -3000)
SENSELESS = (0, 42, 1000, -12_345)
URI_PATTERNS = (".*", "http://alpha.example.*", ".*x")
QUEUE_PATTERNS = (".*", "example,alpha,.*", "bucket.*", ".*+0")


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """The usual value most often: a run in which everything is odd meets little of anything."""
    return st.sampled_from([usual] * (2 * len(others)) + list(others))


quotas = st.builds(
    QuotaSettings,
    max_successes=mostly(0, 2, 1),
    max_success_bytes=mostly(0, 15),
    max_responses=mostly(0, 3),
    max_response_bytes=mostly(0, 25),
)
queue_settings = st.builds(
    QueueSettings,
    partition=mostly("host", "registered-domain"),
    assignment=mostly("surt-authority", "host", "registered-domain", "buckets"),
    buckets=st.just(2),
    parallel_queues=mostly(1, 2),
    cost=mostly("unit", "zero", "wag", "anti-calendar"),
    uri_precedence=mostly("cost", "base", "hops"),
    queue_precedence=st.sampled_from(["base", "highest-uri", "success-counts"]),
    base_precedence=st.just(3),
    success_thresholds=mostly((1, 2), (2,)),
    precedence_floor=mostly(255, 5),
    session_budget=mostly(3000, 1, 2, 0),
    total_budget=mostly(-1, 4, 1),
    error_penalty=mostly(1, 0, 100),
)
groups = mostly(
    (),
    (GroupSettings("pair", ("beta.example", "gamma.example"), 1, 0),),
    (
        GroupSettings("pair", ("beta.example", "gamma.example"), 2, 4_000),
        GroupSettings("one", ("delta.example",), 1, 500),
    ),
)
odd_settings = st.builds(
    CrawlSettings,
    contact=st.just("https://operator.example/"),
    scope=st.builds(
        ScopeSettings,
        hosts=st.sampled_from([(), ("alpha.example",), ("beta.example", "gamma.example:8080")]),
        max_link_hops=st.just(2),
        max_redirect_hops=st.just(3),
        surt_prefixes=mostly(
            (), ("-http://(example,beta,)/private/", "+http://(example,"), ("+http://(example,delta,)/",)
        ),
        reject_patterns=mostly((), (r".*/b\?q=.*",)),
        schemes=mostly(("http", "https"), ("http",)),
        recheck=mostly(True, False),
    ),
    politeness=st.builds(
        PolitenessSettings,
        delay_factor=mostly(0.0, 5.0, 1.5),
        min_delay_ms=st.sampled_from([1_000, 0]),
        max_delay_ms=st.sampled_from([30_000, 1_000]),
        max_crawl_delay_ms=mostly(300_000, 5_000, 0),
        overload_delay_ms=st.sampled_from([2_000, 0]),
        max_overload_delay_ms=st.just(10_000),
        max_parallel=mostly(1, 2),
        across_crawls=mostly(True, False),
    ),
    robots=st.builds(
        RobotsSettings,
        allow_unreachable=st.booleans(),
        max_attempts=st.sampled_from([4, 2, 1]),
        retry_delay_ms=st.sampled_from([3_000, 0]),
        validity_ms=mostly(DAY_MS, 10_000),
    ),
    retry=st.builds(
        RetrySettings,
        max_attempts=st.sampled_from([4, 2, 1]),
        delay_ms=st.sampled_from([5_000, 0, 900_000]),
        growth=st.sampled_from([2.0, 1.0]),
        max_delay_ms=st.just(1_000_000),
        statuses=mostly((), (RetryRule(404, 2, 3_000), RetryRule(503, 3, 2_000, 2.0, 10_000))),
    ),
    fetch=st.builds(
        FetchSettings,
        timeout_ms=mostly(1_200_000, 10_000, 45_000),
        product_token=mostly("toehold", "otherbot"),
    ),
    limits=st.builds(
        LimitSettings,
        max_documents=mostly(0, 3, 1),
        max_bytes=mostly(0, 25),
        max_elapsed_ms=mostly(0, 60_000),
        host_quota=quotas,
        source_quota=quotas,
        fail_over_quota=st.booleans(),
    ),
    identity=st.builds(IdentitySettings, rules=mostly((), ("strip-www",))),
    queues=queue_settings,
    revisit=st.builds(
        RevisitSettings,
        policy=mostly("none", "fixed", "adaptive"),
        interval_ms=st.just(20_000),
        min_interval_ms=st.just(8_000),
        max_interval_ms=st.just(60_000),
        growth=st.just(2.0),
        shrink=st.just(0.5),
    ),
    reseed=mostly(
        ReseedSettings(),
        ReseedSettings(1, 0),
        ReseedSettings(3, 30_000),
        ReseedSettings(-1, 30_000),
    ),
    groups=groups,
    address_group=mostly(AddressGroupSettings(), AddressGroupSettings(1, 0), AddressGroupSettings(2, 3_000)),
    run_while_empty=mostly(False, True),
    pause_with_uris_left=mostly(False, True),
    weight=mostly(1, 3),
    outcomes_kept=mostly(100_000, 2),
    pause_at_start=mostly(False, True),
    resume_after_trouble=mostly(False, True),
    max_toes=mostly(0, 1, 2),
    pause_timeout_ms=st.sampled_from([120_000, 5_000]),
    stop_timeout_ms=st.sampled_from([120_000, 5_000]),
    statistics_interval_ms=mostly(20_000, 1_000, DAY_MS),
    fetcher=mostly("", "browser"),
)
PLAIN = CrawlSettings(
    contact="https://operator.example/",
    scope=ScopeSettings(max_link_hops=2, max_redirect_hops=3),
    politeness=PolitenessSettings(delay_factor=0.0, min_delay_ms=1_000, overload_delay_ms=2_000),
    robots=RobotsSettings(max_attempts=4, retry_delay_ms=3_000),
    retry=RetrySettings(max_attempts=4, delay_ms=5_000, growth=2.0, max_delay_ms=1_000_000),
    fetch=FetchSettings(timeout_ms=1_200_000),
    queues=QueueSettings(base_precedence=3, buckets=2),
)
scope_changes = st.sampled_from(
    [
        PLAIN.scope,
        replace(PLAIN.scope, schemes=("http",)),
        replace(PLAIN.scope, reject_patterns=(r".*/b\?q=.*",)),
        replace(PLAIN.scope, surt_prefixes=("-http://(example,alpha,",)),
        replace(PLAIN.scope, surt_prefixes=("-http://(example,", "+http://(example,beta,)/private/")),
        replace(PLAIN.scope, max_link_hops=0, max_redirect_hops=0),
        replace(PLAIN.scope, schemes=("https",), recheck=False),
    ]
)
PARTS = [field.name for field in fields(CrawlSettings) if field.name not in ("contact", "allowed_addresses")]


def _odd_in(parts: Set[str], odd: CrawlSettings) -> CrawlSettings:
    return replace(PLAIN, **{part: getattr(odd, part) for part in parts})


# Every other crawl is odd in a few parts alone: where much is odd, a crawl ends before its queues meet.
few_parts = st.builds(
    lambda queues, others: others | queues,
    st.sampled_from([frozenset({"queues"}), frozenset()]),
    st.frozensets(st.sampled_from(PARTS), max_size=2),
)
crawl_settings = st.one_of(st.builds(_odd_in, few_parts, odd_settings), odd_settings)
overrides = st.sampled_from(
    [
        override_of(politeness={"min_delay_ms": 6_000, "max_delay_ms": 6_000}),
        override_of(politeness={"min_delay_ms": 0, "delay_factor": 0.0}),
        override_of(politeness={"max_parallel": 2}),
        override_of(queues={"session_budget": 1}),
        override_of(queues={"total_budget": 2}),
        override_of(queues={"queue_key": "forced"}),
        override_of(queues={"parallel_queues": 2}),
        override_of(queues={"retire": True}),
        override_of(queues={"base_precedence": 1}),
        override_of(queues={"base_precedence": 7, "precedence_floor": 8}),
        override_of(queues={"precedence_floor": 3}),
        override_of(queues={"queue_precedence": "highest-uri", "cost": "wag"}),
        override_of(queues={"uri_precedence": "hops", "error_penalty": 2}),
        override_of(retry={"max_attempts": 1}),
        override_of(limits={"host_quota": {"max_responses": 2}}),
        override_of(revisit={"policy": "fixed", "interval_ms": 10_000}),
        override_of(fetch={"timeout_ms": 50_000, "product_token": "otherbot"}),
    ]
)
areas = st.sampled_from(AREAS)
SPELLINGS = every_spelling()
spellings = st.integers(0, len(SPELLINGS) - 1).map(lambda number: SPELLINGS[number])
picks = st.integers(0, 30)
offers = mostly(KINDS, (), ("scrapy",), ("browser", "scrapy"))  # of kinds of fetchers
controllers = st.sampled_from(["", "ada", "bob"])  # who asks
paths = st.sampled_from(["L", "", "LL", "LE", "R", "RR", "LLL", "LRRRR", "RRRRR"])
queue_changes = st.one_of(
    st.builds(QueueChange, paused=st.booleans()),
    st.builds(QueueChange, retired=st.booleans()),
    st.builds(QueueChange, precedence=st.sampled_from([-1, 0, 2, 4, 255])),
    st.builds(
        QueueChange,
        session_budget=st.sampled_from([None, -2, 1, 0]),
        total_budget=st.sampled_from([-2, -1, 1, 5]),
    ),
    st.just(QueueChange(wake=True)),
    st.builds(QueueChange, retired=st.just(False), paused=st.just(False), wake=st.just(True)),
)
sources = mostly("", SITES[0].uri("/"), SITES[3].uri("/a"))


class Fetch(NamedTuple):
    """How a fetch went, whatever its status."""

    duration_ms: int = 100
    retry_after_ms: int = 0
    body_bytes: int = 1
    digest: str = ""
    etag: str = ""
    tells_address: bool = False
    retires: bool = False
    revisit_in_ms: int | None = None
    connections: tuple[int, int, int] = (0, 0, 0)  # new ones, TLS handshakes, kept ones


fetches = st.builds(
    Fetch,
    mostly(200, 0, 4_000, 90_000),
    mostly(0, 8_000, 50_000),
    st.sampled_from([10, 0]),
    mostly("", "sha1:A", "sha1:B"),
    mostly("", '"one"', '"two"'),
    st.booleans(),
    mostly(False, True),
    mostly(None, 15_000, 1, -5_000),
    mostly((0, 0, 0), (1, 1, 0), (2, 0, 1), (0, 0, 1), (0, 1, 0)),
)
