"""The report of a lease, within the contract's limits, and what goes to the frontier with it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.frontier_pb2 import (
    OUTCOME_FETCHED,
    OUTCOME_RELEASED,
    TRUNCATION_DISCONNECT,
    TRUNCATION_FILTER,
    TRUNCATION_LENGTH,
    TRUNCATION_TIME,
    TRUNCATION_UNSPECIFIED,
    Lease,
    Report,
)

from ..extraction.links import Outlink
from ..fetching.fetch import FetchResult
from ..fetching.outcome import Status, Truncation, note, retry_after_ms
from ..meter import ConnectionUse
from .book import HeldLease

SERIOUS_ERROR = -3000
"""The node ran out of memory (Heritrix's S_SERIOUS_ERROR)."""

MAX_ANNOTATIONS = 16

MAX_REASON_CHARS = 200
"""The frontier would cut a longer reason."""

MAX_VALIDATOR_BYTES = 1024
"""Longer ETags and Last-Modifieds are left out: the frontier would not keep them."""

MAX_RETRY_AFTER_MS = 366 * 86_400_000
"""A longer Retry-After is cut to this; the frontier respects far less."""

_TRUNCATIONS = {
    Truncation.LENGTH: TRUNCATION_LENGTH,
    Truncation.TIME: TRUNCATION_TIME,
    Truncation.DISCONNECT: TRUNCATION_DISCONNECT,
    Truncation.FILTER: TRUNCATION_FILTER,
}

_LINK_OVERHEAD_BYTES = 150  # the objects that an Outlink is made of


@dataclass(frozen=True, slots=True, eq=False)
class FinishedPage:
    """A lease that a toe is done with, be it fetched, failed, or handed back, for the reporter.

    `stored_in` is the epoch that Archive.append answered; None when nothing was stored for it. `cookies_sent`
    is the mark of the cookies that the page was asked for with, and `cookies_now` has those that the targets
    of its redirects would be asked for with. `waits_since_s` is when its links began to wait for a shard.
    """

    held: HeldLease
    report: Report
    links: Sequence[Outlink] = ()
    stored_in: int | None = None
    cookies_sent: bytes = b""
    cookies_now: Mapping[str, bytes] = field(default_factory=dict)
    waits_since_s: float | None = None

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes while it waits."""
        return sum(len(link.uri) + _LINK_OVERHEAD_BYTES for link in self.links) + len(self.report.robots_body)


def fetched(
    lease: Lease, fetch: FetchResult, toe_number: int, *, notes: Iterable[str] = (), robots_body: bytes = b""
) -> Report:
    """The report of a fetch, however it ended."""
    report = Report(
        token=lease.token,
        outcome=OUTCOME_FETCHED,
        fetch_status=fetch.status,
        start_time=_timestamp(fetch.start_time_ms),
        fetch_duration=_duration(fetch.duration_ms),
        body_bytes=fetch.body_bytes,
        truncation=_TRUNCATIONS.get(fetch.truncation, TRUNCATION_UNSPECIFIED),
        media_type=fetch.media_type,
        digest=_digest(lease, fetch),
        toe_number=toe_number,
        robots_body=robots_body,
        etag=_validator(fetch, "etag"),
        last_modified=_validator(fetch, "last-modified"),
        # A robots.txt may lie elsewhere; the first exchange was with its own host.
        peer_address=(fetch.hops[0] if fetch.hops else fetch).peer_address or "",
        reason=_line(fetch.reason if fetch.status < 0 else _target(fetch)),
    )
    _tell_connections(report, (*fetch.hops, fetch))
    rest_ms = retry_after_ms(fetch.retry_after, fetch.start_time_ms + fetch.duration_ms)
    if rest_ms is not None:
        report.retry_after_duration.CopyFrom(_duration(min(rest_ms, MAX_RETRY_AFTER_MS)))
    annotate(report, *fetch.annotations, *notes)
    return report


def _tell_connections(report: Report, fetches: Iterable[FetchResult]) -> None:
    for each in fetches:
        report.connection_count += each.connections.count(ConnectionUse.NEW)
        report.kept_connection_count += each.connections.count(ConnectionUse.KEPT)
        report.tls_handshake_count += each.handshakes


def _target(fetch: FetchResult) -> str:
    """Where an answer redirects to, without the origin if it is the same; empty if it does not redirect."""
    if fetch.redirect_target is None:
        return ""
    parts, target = urlsplit(fetch.uri), fetch.redirect_target
    origin = f"{parts.scheme}://{parts.netloc}"
    return target.removeprefix(origin) if target.startswith(f"{origin}/") else target


def failed(lease: Lease, status: int, toe_number: int, *notes: str, reason: str) -> Report:
    """The report of a lease at which the node itself failed, with the reason for people."""
    report = Report(token=lease.token, outcome=OUTCOME_FETCHED, fetch_status=status, toe_number=toe_number)
    report.reason = _line(reason)
    annotate(report, *notes)
    return report


def put_off(report: Report, reason: str) -> Report:
    """The report of a fetch that counts as not tried, although its host was asked and must rest."""
    return _unanswered(report, Status.DEFERRED, reason)


def killed(report: Report, reason: str) -> Report:
    """The report of a fetch that was broken off for good."""
    return _unanswered(report, Status.PROCESSING_THREAD_KILLED, reason)


def released(lease: Lease) -> Report:
    """The report that hands an unstarted lease back."""
    return Report(token=lease.token, outcome=OUTCOME_RELEASED)


def annotate(report: Report, *texts: str) -> None:
    """Adds annotations for the crawl log, made printable and short. Leaves out those beyond the limit."""
    notes = [note(text) for text in texts if text]
    report.annotations.extend(notes[: MAX_ANNOTATIONS - len(report.annotations)])


def _unanswered(report: Report, status: int, reason: str) -> Report:
    """The report without the answer, as far as there is one."""
    return Report(
        token=report.token,
        outcome=OUTCOME_FETCHED,
        fetch_status=status,
        start_time=report.start_time,
        fetch_duration=report.fetch_duration,
        toe_number=report.toe_number,
        reason=_line(reason),
    )


def _line(text: str) -> str:
    """A text, of whatever program, as one printable line within the limit."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * MAX_REASON_CHARS])
    return " ".join(printable.split())[:MAX_REASON_CHARS]


def _digest(lease: Lease, fetch: FetchResult) -> str:
    if fetch.truncation is Truncation.FILTER:
        return ""  # the digest of no bytes would make all pages that are left unread the same
    return lease.last_digest if fetch.unchanged else fetch.digest


def _validator(fetch: FetchResult, header: str) -> str:
    """A validator of the page, for the next visit to ask with."""
    if fetch.truncation.is_partial:
        return ""  # with one, no visit would ever get the rest
    value = fetch.header(header) or ""
    return value if len(value.encode()) <= MAX_VALIDATOR_BYTES else ""


def _timestamp(time_ms: int) -> Timestamp:
    return Timestamp(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)


def _duration(duration_ms: int) -> Duration:
    return Duration(seconds=duration_ms // 1000, nanos=duration_ms % 1000 * 1_000_000)
