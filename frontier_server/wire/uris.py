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
    UriStory,
    UriView,
)
from ..core.uri.canonical import MAX_URI_BYTES
from .by_name import message_of
from .exchange import DISPOSITIONS, candidate
from .times import due_ms, timestamp

_FINAL = {
    DISPOSITIONS[disposition]: disposition.value
    for disposition in (Disposition.SUCCEEDED, Disposition.FAILED, Disposition.DISREGARDED)
}


def waiting_uri(view: UriView) -> admin_pb2.WaitingUri:
    """A URI that waits, with its candidate as it was offered."""
    offered = frontier_pb2.Candidate.FromString(view.candidate.record)
    return message_of(admin_pb2.WaitingUri, view, candidate=offered, attempt_count=view.attempts)


def story(view: UriStory) -> admin_pb2.UriStory:
    """All that a crawl knows of a URI."""
    return message_of(
        admin_pb2.UriStory,
        view,
        disposition=disposition(view.disposition),
        visit_count=view.visits,
        waiting=None if view.waiting is None else waiting_uri(view.waiting),
        lease=message_of(admin_pb2.UriLease, view) if view.node else None,
    )


def seen_filter(message: admin_pb2.SeenFilter) -> SeenFilter:
    """The conditions for seen URIs."""
    before = message.HasField("discovered_before_time")
    before_ms = due_ms(message.discovered_before_time) if before else 0
    return SeenFilter(message.host, message.queue_key, message.uri_pattern, before_ms)


def seen_filter_message(wanted: SeenFilter) -> admin_pb2.SeenFilter:
    """The conditions for seen URIs, as a message."""
    return admin_pb2.SeenFilter(
        host=wanted.host,
        queue_key=wanted.queue_key,
        uri_pattern=wanted.uri_pattern,
        discovered_before_time=timestamp(wanted.before_ms),
    )


def seen_counts(counts: SeenCounts) -> admin_pb2.CountSeenUrisResponse:
    """How many seen URIs are where."""
    return message_of(admin_pb2.CountSeenUrisResponse, counts)


def disposition(name: str) -> crawl_pb2.Disposition.ValueType:
    """A stored disposition; UNSPECIFIED if its name is empty."""
    return DISPOSITIONS[Disposition(name)] if name else crawl_pb2.DISPOSITION_UNSPECIFIED


def seed(view: SeedView) -> admin_pb2.Seed:
    """A seed and its story."""
    return message_of(admin_pb2.Seed, view, story=None if view.story is None else story(view.story))


def refusal_rule(view: RuleView) -> admin_pb2.RefusalRule:
    """A rule that refused URIs, with examples."""
    examples = [message_of(admin_pb2.Refusal, each) for each in view.examples]
    return message_of(admin_pb2.RefusalRule, view, examples=examples)


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
