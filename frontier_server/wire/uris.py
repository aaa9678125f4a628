"""URIs for operators: those that wait, their stories, seeds, imports."""

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

from ..core.journey.kept import SeenFilter
from ..core.rows.records import ImportRow
from ..core.rules.disposition import Disposition
from ..core.state.model import (
    MAX_ANNOTATIONS_BYTES,
    MAX_PATH_CHARACTERS,
    MAX_RECORD_BYTES,
    RuleView,
    SeedView,
    SeenCounts,
    UriState,
    UriStory,
    UriView,
)
from ..core.uri.canonical import MAX_URI_BYTES
from .exchange import DISPOSITIONS, candidate
from .times import due_ms, timestamp

URI_STATES = {state: admin_pb2.UriState.Value(f"URI_STATE_{state.value}") for state in UriState}
_FINAL = {
    DISPOSITIONS[disposition]: disposition.value
    for disposition in (Disposition.SUCCEEDED, Disposition.FAILED, Disposition.DISREGARDED)
}


def waiting_uri(view: UriView) -> admin_pb2.WaitingUri:
    """A URI that waits, with its candidate as it was offered."""
    return admin_pb2.WaitingUri(
        candidate=frontier_pb2.Candidate.FromString(view.candidate.record),
        queue_key=view.queue_key,
        cost=view.cost,
        precedence=view.precedence,
        attempt_count=view.attempts,
        due_time=timestamp(view.due_ms),
    )


def story(view: UriStory) -> admin_pb2.UriStory:
    """All that a crawl knows of a URI."""
    message = admin_pb2.UriStory(
        uri=view.uri,
        identity=view.identity,
        state=URI_STATES[view.state],
        queue_key=view.queue_key,
        refused_by=view.refused_by,
        fetch_status=view.fetch_status,
        disposition=disposition(view.disposition),
        finish_time=timestamp(view.finish_ms),
        visit_count=view.visits,
        etag=view.etag,
        last_modified=view.last_modified,
        digest=view.digest,
        due_time=timestamp(view.due_ms),
        discover_time=timestamp(view.discover_ms),
        reason=view.reason,
    )
    if view.waiting is not None:
        message.waiting.CopyFrom(waiting_uri(view.waiting))
    if view.node:
        lease = admin_pb2.UriLease(
            node=view.node, lease_time=timestamp(view.lease_ms), expire_time=timestamp(view.expire_ms)
        )
        message.lease.CopyFrom(lease)
    return message


def seen_filter(message: admin_pb2.SeenFilter) -> SeenFilter:
    """The conditions for seen URIs."""
    before = message.HasField("discovered_before_time")
    before_ms = due_ms(message.discovered_before_time) if before else 0
    return SeenFilter(message.host, message.queue_key, message.uri_pattern, before_ms)


def seen_counts(counts: SeenCounts) -> admin_pb2.CountSeenUrisResponse:
    """How many seen URIs are where."""
    return admin_pb2.CountSeenUrisResponse(
        queued_count=counts.queued,
        leased_count=counts.leased,
        future_count=counts.future,
        done_count=counts.done,
    )


def disposition(name: str) -> crawl_pb2.Disposition.ValueType:
    """A stored disposition; UNSPECIFIED if its name is empty."""
    return DISPOSITIONS[Disposition(name)] if name else crawl_pb2.DISPOSITION_UNSPECIFIED


def seed(view: SeedView) -> admin_pb2.Seed:
    """A seed and its story."""
    result = admin_pb2.SeedResult.Value(f"SEED_RESULT_{view.result.value}")
    message = admin_pb2.Seed(
        uri=view.uri,
        outcome=view.outcome,
        result=result,
        tried_in_vain=view.tried_in_vain,
        led_to=view.led_to,
    )
    if view.story is not None:
        message.story.CopyFrom(story(view.story))
    return message


def refusal_rule(view: RuleView) -> admin_pb2.RefusalRule:
    """A rule that refused URIs, with examples."""
    return admin_pb2.RefusalRule(
        rule=view.rule,
        refused_count=view.refused,
        message=view.message,
        examples=[
            admin_pb2.Refusal(
                uri=each.uri, via=each.via, path=each.path, refuse_time=timestamp(each.refuse_ms)
            )
            for each in view.examples
        ],
    )


def import_row(entry: admin_pb2.ImportEntry) -> ImportRow | str:
    """The row of an import's entry, or its fault."""
    match entry.WhichOneof("entry"):
        case "candidate":
            return ImportRow(_short(entry.candidate).SerializeToString())
        case "seen":
            seen = entry.seen
            name = _FINAL.get(seen.disposition, "")
            if not name and seen.disposition != crawl_pb2.DISPOSITION_UNSPECIFIED:
                return f"disposition must be SUCCEEDED, FAILED or DISREGARDED, got {seen.disposition}"
            record = candidate(_short(frontier_pb2.Candidate(uri=seen.uri))).record
            return ImportRow(record, True, seen.fetch_status, name)
        case _:
            return "either candidate or seen must be set"


def _short(offered: frontier_pb2.Candidate) -> frontier_pb2.Candidate:
    """A candidate. One that is too long is cut just beyond the limits, so that it still gets TOO_LONG."""
    if offered.ByteSize() <= MAX_RECORD_BYTES:
        return offered
    offered.DiscardUnknownFields()
    offered.uri, offered.via = offered.uri[: MAX_URI_BYTES + 1], offered.via[: MAX_URI_BYTES + 1]
    offered.source, offered.base = offered.source[: MAX_URI_BYTES + 1], offered.base[: MAX_URI_BYTES + 1]
    offered.path = offered.path[: MAX_PATH_CHARACTERS + 1]
    offered.annotations = offered.annotations[: MAX_ANNOTATIONS_BYTES + 1]
    return offered
