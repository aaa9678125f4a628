"""Messages for operators: queue changes, overrides, statistics of hosts and sources, reasons, outcomes."""

from toehold.frontier.v1 import admin_pb2, crawl_pb2

from ..core.jobs.steering import QueueChange
from ..core.rows.records import OutcomeRow
from ..core.state.model import FetchStatisticsView, Reason
from .by_name import message_of
from .cursors import outcome_cursor
from .times import duration, milliseconds, moment_ms, timestamp
from .uris import disposition


def queue_change(message: admin_pb2.QueueChange) -> QueueChange:
    return QueueChange(
        precedence=message.precedence if message.HasField("precedence") else None,
        session_budget=message.session_budget if message.HasField("session_budget") else None,
        total_budget=message.total_budget if message.HasField("total_budget") else None,
        paused=message.paused if message.HasField("paused") else None,
        retired=message.retired if message.HasField("retired") else None,
        wake=message.wake,
        rest_until_ms=moment_ms(message.rest_until_time) if message.HasField("rest_until_time") else None,
        min_gap_ms=milliseconds(message.min_gap) if message.HasField("min_gap") else None,
    )


def override(surt_prefix: str, settings: bytes) -> crawl_pb2.Override:
    """A stored override."""
    kept = crawl_pb2.OverrideSettings.FromString(settings)
    return crawl_pb2.Override(surt_prefix=surt_prefix, settings=kept)


def fetch_statistics(view: FetchStatisticsView) -> admin_pb2.FetchStatistics:
    """Counts of the URIs of a host, or of a source."""
    row = view.row
    return admin_pb2.FetchStatistics(
        name=view.name,
        succeeded_count=row.successes,
        failed_count=row.failures,
        disregarded_count=row.disregards,
        robots_denied_count=row.robots_denials,
        response_count=row.responses,
        non_response_count=row.non_responses,
        succeeded_bytes_count=row.success_bytes,
        response_bytes_count=row.response_bytes,
        novel_count=row.novel,
        novel_bytes_count=row.novel_bytes,
        last_success_time=timestamp(row.last_success_ms),
    )


def reason(view: Reason) -> admin_pb2.Reason:
    """Why something is not being fetched."""
    return message_of(admin_pb2.Reason, view)


def kept_outcomes(oldest: int, last: int, last_ms: int) -> admin_pb2.KeptOutcomes:
    """The range of outcomes that is kept, and the time of the last one."""
    return admin_pb2.KeptOutcomes(
        oldest_cursor=outcome_cursor(oldest - 1, 0),
        last_cursor=outcome_cursor(last, last_ms),
        outcome_count=last - oldest + 1,
    )


def outcome(number: int, row: OutcomeRow) -> admin_pb2.UriOutcome:
    """A final disposition."""
    message = admin_pb2.UriOutcome(
        cursor=outcome_cursor(number, row.time_ms),
        outcome_time=timestamp(row.time_ms),
        uri=row.uri,
        fetch_status=row.fetch_status,
        disposition=disposition(row.disposition),
        body_bytes=row.body_bytes,
        path=row.path,
        via=row.via,
        media_type=row.media_type,
        node=row.node,
        toe_number=row.toe_number,
        start_time=timestamp(row.start_ms),
        digest=row.digest,
        annotations=row.annotations,
        source=row.source,
        reason=row.reason,
    )
    if row.node:
        message.fetch_duration.CopyFrom(duration(row.duration_ms))
    return message
