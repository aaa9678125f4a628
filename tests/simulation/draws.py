"""Settings of crawls, drawn: small, so that limits are met; each of them seldom other than usual."""

from dataclasses import replace
from random import Random
from typing import Any

from frontier_server.core.spec.settings import (
    DAY_MS,
    CrawlSettings,
    FetchSettings,
    GroupSettings,
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

_PAIR = GroupSettings("pair", ("beta.example", "gamma.example"), 1, 0)
_GAP = GroupSettings("pair", ("alpha.example", "delta.example"), 2, 4_000)


class Draw:
    """Draws what is usual most often: a history in which everything is odd meets little of anything."""

    def __init__(self, rng: Random, odd: float) -> None:
        self._rng = rng
        self._odd = odd

    def __call__(self, usual: Any, *others: Any) -> Any:
        """The usual value, or seldom another."""
        return self._rng.choice(others) if self._rng.random() < self._odd else usual


def drawn_settings(rng: Random) -> CrawlSettings:
    """Settings of a crawl."""
    draw = Draw(rng, rng.choice((0.05, 0.15, 0.3)))
    rare = Draw(rng, 0.03)
    return CrawlSettings(
        contact="https://operator.example/",
        allowed_addresses=("loopback",),
        scope=ScopeSettings(
            hosts=draw((), ("alpha.example", "beta.example", "gamma.example")),
            max_link_hops=draw(20, 1, 3),
            surt_prefixes=draw((), ("-http://(example,beta,)/private/", "+http://(example,")),
        ),
        politeness=PolitenessSettings(
            delay_factor=draw(0.0, 5.0, 1.5),
            min_delay_ms=draw(1_000, 0, 3_000, 10_000),
            max_delay_ms=draw(10_000, 30_000),
            max_crawl_delay_ms=draw(300_000, 5_000, 0),
            overload_delay_ms=draw(2_000, 0, 15_000),
            max_overload_delay_ms=30_000,
            max_parallel=draw(1, 2, 3),
            across_crawls=draw(True, False),
        ),
        robots=RobotsSettings(
            allow_unreachable=draw(False, True),
            max_attempts=draw(2, 1, 4),
            retry_delay_ms=draw(3_000, 0, 20_000),
            validity_ms=draw(DAY_MS, 30_000),
        ),
        retry=RetrySettings(
            max_attempts=draw(3, 1, 2, 5),
            delay_ms=draw(5_000, 0, 60_000),
            growth=draw(1.0, 2.0),
            max_delay_ms=120_000,
            statuses=draw((), (RetryRule(404, 2, 3_000), RetryRule(503, 3, 2_000, 2.0, 10_000))),
        ),
        fetch=FetchSettings(timeout_ms=draw(1_200_000, 45_000)),
        limits=LimitSettings(
            max_documents=rare(0, 3, 12),
            max_bytes=rare(0, 25, 200),
            max_elapsed_ms=rare(0, 90_000),
            host_quota=QuotaSettings(max_successes=rare(0, 2)),
            fail_over_quota=draw(False, True),
        ),
        queues=QueueSettings(
            partition=draw("host", "registered-domain"),
            assignment=draw("surt-authority", "host", "registered-domain", "buckets"),
            buckets=2,
            parallel_queues=draw(1, 2),
            cost=draw("unit", "zero", "wag", "anti-calendar"),
            uri_precedence=draw("cost", "base", "hops"),
            queue_precedence=draw("base", "highest-uri", "success-counts"),
            success_thresholds=(2, 5),
            precedence_floor=rare(255, 5),
            session_budget=draw(3000, 1, 3, 0),
            total_budget=rare(-1, 6),
            error_penalty=draw(1, 0, 100),
        ),
        revisit=RevisitSettings(
            policy=rare("none", "fixed", "adaptive"),
            interval_ms=20_000,
            min_interval_ms=8_000,
            max_interval_ms=60_000,
            growth=2.0,
        ),
        reseed=rare(ReseedSettings(), ReseedSettings(1, 0), ReseedSettings(2, 30_000)),
        groups=draw((), (_PAIR,), (_GAP,)),
        run_while_empty=rare(False, True),
        pause_with_uris_left=draw(False, True),
        weight=draw(1, 3),
        outcomes_kept=draw(100_000, 2),
        pause_at_start=rare(False, True),
        resume_after_trouble=draw(False, True),
        max_toes=rare(0, 1, 2),
        pause_timeout_ms=draw(120_000, 5_000, 30_000),
        stop_timeout_ms=draw(120_000, 5_000, 30_000),
        statistics_interval_ms=draw(20_000, 1_000, DAY_MS),
    )


def named_otherwise(rng: Random, settings: CrawlSettings) -> CrawlSettings:
    """The same for a crawl that seldom has another name before hosts, which their robots.txt may know."""
    token = Draw(rng, 0.15)("toehold", "finder", "Toehold")
    return replace(settings, fetch=replace(settings.fetch, product_token=token))


OVERRIDES: tuple[dict[str, dict[str, Any]], ...] = (
    {"politeness": {"min_delay_ms": 6_000, "max_delay_ms": 20_000}},
    {"politeness": {"min_delay_ms": 0, "delay_factor": 0.0}},
    {"politeness": {"max_parallel": 2}},
    {"queues": {"session_budget": 1}},
    {"queues": {"queue_key": "forced"}},
    {"queues": {"parallel_queues": 2}},
    {"queues": {"base_precedence": 1}},
    {"queues": {"queue_precedence": "highest-uri", "cost": "wag"}},
    {"queues": {"retire": True}},
    {"retry": {"max_attempts": 1}},
    {"robots": {"validity_ms": 20_000}},
)
QUEUE_CHANGES: tuple[dict[str, Any], ...] = (
    {"paused": True},
    {"paused": True},
    {"paused": False},
    {"retired": True},
    {"retired": False},
    {"precedence": 2},
    {"precedence": -1},
    {"session_budget": 1},
    {"wake": True},
)


def fitted(
    before: CrawlSettings, after: CrawlSettings, picks: tuple[int, ...]
) -> tuple[tuple[str, Any], ...]:
    """Some parts of other settings, as far as a crawl may change to them."""
    parts = ("politeness", "robots", "retry", "limits", "queues", "max_toes", "weight", "pause_timeout_ms")
    chosen = {parts[pick % len(parts)] for pick in picks[1:4]}
    said: list[tuple[str, Any]] = []
    for part in sorted(chosen):
        value = getattr(after, part)
        if part == "politeness":
            value = replace(value, across_crawls=before.politeness.across_crawls)
        if part == "queues":
            value = replace(value, partition=before.queues.partition)
        said.append((part, value))
    return tuple(said)
