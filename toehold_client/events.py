"""A crawl's events. `print(event)` prints a sentence: `node fetcher-1 joined`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import crawl_pb2

from .shown import shown_status
from .spec.plain import seconds_of
from .text import bytes_text, count_text, counted, duration_text, harmless, status_and_reason

EventKind: TypeAlias = Literal[
    "status_changed",
    "seeds_concluded",
    "limit_reached",
    "round_begun",
    "uris_left",
    "job_ended",
    "statistics",
    "node_joined",
    "node_left",
    "operator_acted",
    "problem",
    "held",
    "released",
    "checkpointed",
    "flights_cancelled",
    "torn_down",
]
"""The field of an event that says what has happened."""


class Event:
    """An event of a crawl: the contract's `message`, with a sentence for people as its `str()`.

    It has the fields of the message. Its `kind` names the one that is set, from `status_changed` on.
    """

    __slots__ = ("message",)

    message: crawl_pb2.Event

    sequence: int
    cursor: str
    event_time: Timestamp
    status_changed: crawl_pb2.CrawlStatus
    seeds_concluded: crawl_pb2.SeedsConcluded
    limit_reached: crawl_pb2.LimitReached
    round_begun: crawl_pb2.RoundBegun
    uris_left: crawl_pb2.UrisLeft
    job_ended: crawl_pb2.JobEnded
    statistics: crawl_pb2.IntervalStatistics
    node_joined: crawl_pb2.NodeJoined
    node_left: crawl_pb2.NodeLeft
    operator_acted: crawl_pb2.OperatorActed
    problem: crawl_pb2.Problem
    held: crawl_pb2.Held
    released: crawl_pb2.Released
    checkpointed: crawl_pb2.Checkpointed
    flights_cancelled: crawl_pb2.FlightsCancelled
    torn_down: crawl_pb2.TornDown

    def __init__(self, message: crawl_pb2.Event) -> None:
        self.message = message

    if not TYPE_CHECKING:  # which knows the fields from above

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or name == "message":  # `copy` and `pickle` ask for such
                raise AttributeError(name)
            value = getattr(self.message, name)
            return shown_status(value) if name == "status_changed" else value

    @property
    def kind(self) -> EventKind | None:
        """What has happened; None for an event that this version does not know."""
        return self.message.WhichOneof("kind")

    def HasField(self, name: EventKind | Literal["event_time"]) -> bool:
        """Whether a field of the message is set."""
        return self.message.HasField(name)

    def WhichOneof(self, group: Literal["kind"]) -> EventKind | None:
        """The same as `kind`, as messages have it."""
        return self.message.WhichOneof(group)

    def __str__(self) -> str:
        return harmless(_sentence(self))

    def __repr__(self) -> str:
        return f"<Event {self.sequence}: {self}>"

    def __eq__(self, other: object) -> bool:
        return self.message == other.message if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.sequence, self.cursor))


_WHY_LEFT = {
    "left": "left",
    "silent": "is lost: it does not call any more",
    "replaced": "is replaced by another process of its name",
}


def _sentence(event: Event) -> str:
    """An event in one line, without its time."""
    match event.kind:
        case "status_changed":
            return status_and_reason(event.status_changed)
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
            return f"problem: {event.problem.detail} ({event.problem.kind})"
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


def _limit(limit: crawl_pb2.LimitReached) -> str:
    value, reached = count_text(limit.value), count_text(limit.reached)
    if limit.limit == "max_elapsed":
        value, reached = duration_text(limit.value / 1000), f"run for {duration_text(limit.reached / 1000)}"
    out = f", and {counted(limit.leased_count, 'URI')} being fetched" if limit.leased_count else ""
    return f"limit reached: {limit.limit} = {value}; the crawl has {reached}{out}"


def _statistics(statistics: crawl_pb2.IntervalStatistics) -> Iterator[str]:
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
