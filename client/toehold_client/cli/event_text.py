"""A crawl's events as text, one line each."""

from __future__ import annotations

from collections.abc import Iterator

from toehold.frontier.v1.crawl_pb2 import Event, IntervalStatistics, LimitReached
from toehold_client.spec.plain import seconds_of

from . import output
from .text import bytes_text, count_text, counted, duration_text

_WHY_LEFT = {
    "left": "left",
    "silent": "is lost: it does not call any more",
    "replaced": "is replaced by another process of its name",
}


def event_text(event: Event) -> str:
    """An event in one line, without its time."""
    match event.WhichOneof("kind"):
        case "status_changed":
            return output.status_and_reason(event.status_changed)
        case "seeds_concluded":
            seeds = event.seeds_concluded
            return f"{counted(seeds.seed_count, 'seed')} announced, {count_text(seeds.queued_count)} queued"
        case "limit_reached":
            return _limit(event.limit_reached)
        case "round_begun":
            return f"round {event.round_begun.round} begins with the seeds"
        case "uris_left":
            left = event.uris_left
            retired = f"{count_text(left.retired_count)} in retired queues"
            return f"URIs left: {retired}, {count_text(left.ineligible_count)} in ineligible queues"
        case "job_ended":
            job = event.job_ended
            return f"job {job.job} ({job.kind}): {job.outcome}"
        case "statistics":
            interval = duration_text(seconds_of(event.statistics.interval_duration))
            return f"in {interval}: {', '.join(_statistics(event.statistics))}"
        case "node_joined":
            return f"node {event.node_joined.node} joined"
        case "node_left":
            left_because = _WHY_LEFT.get(event.node_left.reason, f"left: {event.node_left.reason}")
            return f"node {event.node_left.node} {left_because}"
        case "operator_acted":
            acted = event.operator_acted
            return f"{acted.operator} requested: {acted.action}" + (
                f", {acted.detail}" if acted.detail else ""
            )
        case "problem":
            return f"problem: {event.problem.kind}, {event.problem.detail}"
        case "held":
            return "held: the frontier writes nothing about the crawl until its release"
        case "released":
            return "released"
        case "checkpointed":
            return f"saved in checkpoint {event.checkpointed.checkpoint}"
        case "flights_cancelled":
            cancelled = event.flights_cancelled
            after = "interrupted" if cancelled.bound == "interrupt" else f"{cancelled.bound} is over"
            return f"{after}: {counted(cancelled.leased_count, 'lease')} cancelled"
        case "torn_down":
            return "torn down"
        case None:
            return "an event that this version does not know"


def _limit(limit: LimitReached) -> str:
    value, reached = count_text(limit.value), count_text(limit.reached)
    if limit.limit == "max_elapsed":
        value, reached = duration_text(limit.value / 1000), duration_text(limit.reached / 1000)
    out = f", and {counted(limit.leased_count, 'URI')} at nodes" if limit.leased_count else ""
    return f"limit reached: {limit.limit} = {value}; the crawl has {reached}{out}"


def _statistics(statistics: IntervalStatistics) -> Iterator[str]:
    yield f"{count_text(statistics.succeeded_count)} succeeded"
    yield bytes_text(statistics.bytes_count)
    for count, word in (
        (statistics.failed_count, "failed"),
        (statistics.disregarded_count, "disregarded"),
        (statistics.deferred_count, "deferred"),
        (statistics.lapsed_count, "lapsed"),
        (statistics.discovered_count, "discovered"),
    ):
        if count:
            yield f"{count_text(count)} {word}"
    yield f"{count_text(statistics.queued_count)} queued"
