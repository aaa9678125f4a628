"""The contract's messages ↔ the core's values, both ways. Decides nothing.

A number that the contract's enums do not have reaches the core as it is; the core
says what is wrong with it.
"""

from collections.abc import Iterable

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

from .core.disposition import Disposition
from .core.lifecycle import Input
from .core.model import (
    DEFAULT_PRECEDENCE,
    Candidate,
    CrawlView,
    Directive,
    EmptyReason,
    Grant,
    NodeView,
    QueueView,
    Report,
    ReportResult,
    StatisticsView,
    Verdict,
)
from .core.queue import QueueState
from .core.records import EventRow
from .core.settings import (
    CrawlSettings,
    FetchPolicy,
    FetchSettings,
    LimitSettings,
    PolitenessSettings,
    RetrySettings,
    RobotsSettings,
    ScopeSettings,
)

VERDICTS = {verdict: crawl_pb2.Verdict.Value(f"VERDICT_{verdict.value}") for verdict in Verdict}
DISPOSITIONS = {d: crawl_pb2.Disposition.Value(f"DISPOSITION_{d.value}") for d in Disposition}
EMPTY_REASONS = {r: frontier_pb2.EmptyReason.Value(f"EMPTY_REASON_{r.value}") for r in EmptyReason}
QUEUE_STATES = {s: crawl_pb2.QueueState.Value(f"QUEUE_STATE_{s.value}") for s in QueueState}
QUEUE_STATES_BY_NUMBER = {number: state for state, number in QUEUE_STATES.items()}
TARGETS = {
    crawl_pb2.TARGET_STATE_RUN: Input.RESUME,
    crawl_pb2.TARGET_STATE_PAUSE: Input.PAUSE,
    crawl_pb2.TARGET_STATE_FINISH: Input.STOP,
}
_TRUNCATIONS = {frontier_pb2.TRUNCATION_LENGTH: "lenTrunc", frontier_pb2.TRUNCATION_TIME: "timeTrunc"}


def timestamp(moment_ms: int) -> Timestamp | None:
    """A moment, or None for 0."""
    if not moment_ms:
        return None
    message = Timestamp()
    message.FromMilliseconds(moment_ms)
    return message


def duration(length_ms: int) -> Duration:
    """A length of time."""
    message = Duration()
    message.FromMilliseconds(length_ms)
    return message


def milliseconds(message: Duration) -> int:
    """A length of time; whatever its fields hold, a number comes out."""
    return message.seconds * 1000 + message.nanos // 1_000_000


def moment_ms(message: Timestamp) -> int:
    """A moment; whatever its fields hold, a number comes out."""
    return message.seconds * 1000 + message.nanos // 1_000_000


class ContractCodec:
    """Candidates are stored as the contract's message, untouched."""

    def decode(self, record: bytes) -> Candidate:
        """A candidate that was stored."""
        return candidate(frontier_pb2.Candidate.FromString(record), record)

    def seed(self, uri: str) -> Candidate:
        """The candidate of a seed."""
        return candidate(frontier_pb2.Candidate(uri=uri, seed=True, directive=frontier_pb2.DIRECTIVE_MEDIUM))


def candidate(message: frontier_pb2.Candidate, record: bytes | None = None) -> Candidate:
    """A candidate as offered."""
    force = moment_ms(message.refetch_before_time) if message.HasField("refetch_before_time") else None
    return Candidate(
        message.uri,
        message.SerializeToString() if record is None else record,
        message.via,
        message.path,
        message.directive or (Directive.MEDIUM if message.seed else Directive.NORMAL),
        message.precedence if message.HasField("precedence") else DEFAULT_PRECEDENCE,
        message.seed,
        force,
        message.annotations,
    )


def report(message: frontier_pb2.Report) -> Report:
    """A report as sent."""
    problem = ""
    if message.outcome not in (frontier_pb2.OUTCOME_FETCHED, frontier_pb2.OUTCOME_RELEASED):
        problem = f"outcome {message.outcome} is neither OUTCOME_FETCHED nor OUTCOME_RELEASED"
    elif message.truncation not in (frontier_pb2.TRUNCATION_UNSPECIFIED, *_TRUNCATIONS):
        problem = f"truncation {message.truncation} is not one of the contract's"
    return Report(
        message.token,
        message.outcome == frontier_pb2.OUTCOME_RELEASED,
        message.fetch_status,
        moment_ms(message.start_time),
        milliseconds(message.fetch_duration),
        message.body_bytes,
        _TRUNCATIONS.get(message.truncation, ""),
        message.media_type,
        message.digest,
        milliseconds(message.retry_after_duration),
        message.robots_body,
        message.toe_number,
        tuple(message.annotations),
        problem,
    )


def report_result(result: ReportResult) -> frontier_pb2.ReportResult:
    """What a report means."""
    return frontier_pb2.ReportResult(
        disposition=DISPOSITIONS[result.disposition], repeated=result.repeated, problem=result.problem
    )


def lease(grant: Grant) -> frontier_pb2.Lease:
    """A lease as given out."""
    offered = grant.candidate
    message = frontier_pb2.Lease(
        token=grant.token,
        crawl=grant.crawl,
        uri=grant.uri,
        purpose=frontier_pb2.PURPOSE_ROBOTS if grant.robots else frontier_pb2.PURPOSE_PAGE,
        via=offered.uri if grant.robots else offered.via,
        path=offered.path + "P" if grant.robots else offered.path,
        attempt=grant.attempt,
        queue_key=grant.queue_key,
        expire_time=timestamp(grant.expire_ms),
        fetch_policy_id=grant.fetch_policy_id,
    )
    if not grant.robots:
        message.annotations = offered.annotations
        message.seed = offered.seed
    return message


def fetch_policy(policy: FetchPolicy) -> crawl_pb2.FetchPolicy:
    """How to fetch."""
    return crawl_pb2.FetchPolicy(
        fetch_policy_id=policy.policy_id,
        user_agent=policy.user_agent,
        timeout=duration(policy.timeout_ms),
        max_bytes=policy.max_bytes,
        allowed_addresses=policy.allowed_addresses,
    )


def crawl_status(view: CrawlView) -> crawl_pb2.CrawlStatus:
    """Where a crawl is in its life."""
    return _status(view.state.value, view.exit_status.value, view.reach_ms)


def _status(state: str, exit_status: str, reach_ms: int) -> crawl_pb2.CrawlStatus:
    return crawl_pb2.CrawlStatus(
        state=crawl_pb2.CrawlState.Value(f"CRAWL_STATE_{state}"),
        exit_status=crawl_pb2.ExitStatus.Value(f"EXIT_STATUS_{exit_status}"),
        reach_time=timestamp(reach_ms),
    )


def event(sequence: int, row: EventRow) -> crawl_pb2.Event:
    """An event."""
    message = crawl_pb2.Event(sequence=sequence, cursor=cursor(sequence), event_time=timestamp(row.time_ms))
    fields = row.fields
    match row.kind:
        case "status_changed":
            status = _status(str(fields["state"]), str(fields["exit_status"]), row.time_ms)
            message.status_changed.CopyFrom(status)
        case "seeds_concluded":
            message.seeds_concluded.seed_count = int(fields["seed_count"])
            message.seeds_concluded.queued_count = int(fields["queued_count"])
        case "limit_reached":
            message.limit_reached.limit = str(fields["limit"])
            message.limit_reached.value = int(fields["value"])
        case other:
            raise ValueError(f"event {sequence} is of kind {other!r}, which the contract does not have")
    return message


START_CURSOR = "start"


def cursor(sequence: int) -> str:
    """Where a reader of events goes on after an event."""
    return f"e{sequence}"


def sequence_of(text: str) -> int | None:
    """The sequence number of a cursor; None if it is none of ours."""
    if text == START_CURSOR:
        return 0
    digits = text.removeprefix("e")
    return (
        int(digits) if text != digits and digits.isascii() and digits.isdigit() and len(digits) < 19 else None
    )


def crawl(view: CrawlView) -> admin_pb2.Crawl:
    """A crawl's description."""
    return admin_pb2.Crawl(
        crawl=view.name,
        spec=spec(settings(view.spec)),
        status=crawl_status(view),
        create_time=timestamp(view.create_ms),
        launch_time=timestamp(view.launch_ms),
        finish_time=timestamp(view.finish_ms),
        seed_count=view.seeds,
        announced_seed_count=view.announced_seeds,
    )


def statistics(view: StatisticsView) -> crawl_pb2.Statistics:
    """A crawl's figures."""
    return crawl_pb2.Statistics(
        snapshot_time=timestamp(view.now_ms),
        fetch_status_counts=view.fetch_statuses,
        verdict_counts=view.verdicts,
        queue_state_counts={state.value: count for state, count in view.queue_states.items()},
        elapsed_duration=duration(view.elapsed_ms),
        next_due_time=timestamp(view.next_due_ms or 0),
        waiting_for=view.waiting_for,
        **view.counts,
    )


def queue(view: QueueView) -> admin_pb2.WorkQueue:
    """A work queue."""
    return admin_pb2.WorkQueue(
        queue_key=view.key,
        host=view.host,
        state=QUEUE_STATES[view.state],
        queued_count=view.queued,
        enqueued_count=view.enqueued,
        leased_count=view.leased,
        failed_count=view.failed,
        wake_time=timestamp(view.wake_ms),
        reason=view.reason,
        precedence=view.precedence,
    )


def node(view: NodeView) -> admin_pb2.Node:
    """A node."""
    return admin_pb2.Node(
        node=view.node,
        session=view.session,
        last_heard_time=timestamp(view.heard_ms),
        leased_count=view.leased,
        toe_steps=[frontier_pb2.ToeStepCount(step=step, count=count) for step, count in view.toe_steps],
    )


def toe_steps(messages: Iterable[frontier_pb2.ToeStepCount]) -> list[tuple[str, int]]:
    """What toe threads are doing."""
    return [(message.step[:64], message.count) for message in messages]


def settings(spec_bytes: bytes) -> CrawlSettings:
    """A stored spec as the core uses it."""
    return settings_of(crawl_pb2.CrawlSpec.FromString(spec_bytes))


def settings_of(spec: crawl_pb2.CrawlSpec) -> CrawlSettings:
    """A spec as the core uses it: what is not set takes its default."""

    scope, politeness, robots, retry, fetch = spec.scope, spec.politeness, spec.robots, spec.retry, spec.fetch
    default = CrawlSettings()
    hops, polite = default.scope, default.politeness
    min_delay_ms = _ms(politeness, "min_delay", polite.min_delay_ms)
    overload_delay_ms = _ms(politeness, "overload_delay", polite.overload_delay_ms)
    retry_delay_ms = _ms(retry, "delay", default.retry.delay_ms)
    # A bound that is not set gives way to a longer least value that is.
    return CrawlSettings(
        contact=spec.contact,
        allowed_addresses=tuple(spec.allowed_addresses) or default.allowed_addresses,
        scope=ScopeSettings(
            hosts=tuple(scope.hosts),
            max_link_hops=scope.max_link_hops if scope.HasField("max_link_hops") else hops.max_link_hops,
            max_embed_hops=scope.max_embed_hops if scope.HasField("max_embed_hops") else hops.max_embed_hops,
            max_redirect_hops=(
                scope.max_redirect_hops if scope.HasField("max_redirect_hops") else hops.max_redirect_hops
            ),
        ),
        politeness=PolitenessSettings(
            delay_factor=politeness.delay_factor
            if politeness.HasField("delay_factor")
            else polite.delay_factor,
            min_delay_ms=min_delay_ms,
            max_delay_ms=_ms(politeness, "max_delay", max(polite.max_delay_ms, min_delay_ms)),
            max_crawl_delay_ms=_ms(politeness, "max_crawl_delay", polite.max_crawl_delay_ms),
            overload_delay_ms=overload_delay_ms,
            max_overload_delay_ms=_ms(
                politeness, "max_overload_delay", max(polite.max_overload_delay_ms, overload_delay_ms)
            ),
        ),
        robots=RobotsSettings(
            allow_unreachable=robots.unreachable == crawl_pb2.ROBOTS_UNREACHABLE_ALLOW,
            max_attempts=robots.max_attempts
            if robots.HasField("max_attempts")
            else default.robots.max_attempts,
            retry_delay_ms=_ms(robots, "retry_delay", default.robots.retry_delay_ms),
            validity_ms=_ms(robots, "validity", default.robots.validity_ms),
        ),
        retry=RetrySettings(
            max_attempts=retry.max_attempts if retry.HasField("max_attempts") else default.retry.max_attempts,
            delay_ms=retry_delay_ms,
            growth=retry.growth if retry.HasField("growth") else default.retry.growth,
            max_delay_ms=_ms(retry, "max_delay", max(default.retry.max_delay_ms, retry_delay_ms)),
        ),
        fetch=FetchSettings(
            timeout_ms=_ms(fetch, "timeout", default.fetch.timeout_ms),
            max_bytes=fetch.max_bytes if fetch.HasField("max_bytes") else default.fetch.max_bytes,
            product_token=fetch.product_token or default.fetch.product_token,
        ),
        limits=LimitSettings(max_documents=spec.limits.max_documents),
    )


_Parts = crawl_pb2.PolitenessSpec | crawl_pb2.RobotsSpec | crawl_pb2.RetrySpec | crawl_pb2.FetchSpec


def _ms(part: _Parts, field: str, default: int) -> int:
    set_here = part.HasField(field)  # type: ignore[arg-type]  # a literal of the caller's
    return milliseconds(getattr(part, field)) if set_here else default


def spec_problems(spec: crawl_pb2.CrawlSpec) -> dict[str, str]:
    """What is wrong with a spec that only the wire can see: enum values that there are not."""
    if spec.robots.unreachable not in crawl_pb2.RobotsUnreachable.values():
        return {"robots.unreachable": f"{spec.robots.unreachable} is no RobotsUnreachable"}
    return {}


def spec(settings: CrawlSettings) -> crawl_pb2.CrawlSpec:
    """A spec with every default filled in."""
    scope, politeness, robots = settings.scope, settings.politeness, settings.robots
    retry, fetch = settings.retry, settings.fetch
    return crawl_pb2.CrawlSpec(
        contact=settings.contact,
        allowed_addresses=settings.allowed_addresses,
        scope=crawl_pb2.ScopeSpec(
            hosts=scope.hosts,
            max_link_hops=scope.max_link_hops,
            max_embed_hops=scope.max_embed_hops,
            max_redirect_hops=scope.max_redirect_hops,
        ),
        politeness=crawl_pb2.PolitenessSpec(
            delay_factor=politeness.delay_factor,
            min_delay=duration(politeness.min_delay_ms),
            max_delay=duration(politeness.max_delay_ms),
            max_crawl_delay=duration(politeness.max_crawl_delay_ms),
            overload_delay=duration(politeness.overload_delay_ms),
            max_overload_delay=duration(politeness.max_overload_delay_ms),
        ),
        robots=crawl_pb2.RobotsSpec(
            unreachable=(
                crawl_pb2.ROBOTS_UNREACHABLE_ALLOW
                if robots.allow_unreachable
                else crawl_pb2.ROBOTS_UNREACHABLE_FORBID
            ),
            max_attempts=robots.max_attempts,
            retry_delay=duration(robots.retry_delay_ms),
            validity=duration(robots.validity_ms),
        ),
        retry=crawl_pb2.RetrySpec(
            max_attempts=retry.max_attempts,
            delay=duration(retry.delay_ms),
            growth=retry.growth,
            max_delay=duration(retry.max_delay_ms),
        ),
        fetch=crawl_pb2.FetchSpec(
            timeout=duration(fetch.timeout_ms), max_bytes=fetch.max_bytes, product_token=fetch.product_token
        ),
        limits=crawl_pb2.LimitSpec(max_documents=settings.limits.max_documents),
    )
