"""Records a URI's final disposition once: in counts, budgets, the seen-set and the crawl log.

If the URI is to be visited again, it then waits for its next visit.
"""

import msgspec

from ..rows import keys
from ..rows.records import OutcomeRow, PendingUri, SeenRow, decode, encode
from ..rows.store import Family
from ..rows.sums import added
from ..rules.disposition import Disposition
from ..rules.outcome_words import is_redirect
from ..rules.revisit import interval_ms
from ..spec.settings import CrawlSettings
from ..state import landings, statistics
from ..state.crawl import Crawl
from ..state.model import Candidate, Report
from ..state.operation import Operation
from ..state.queue import WorkQueue
from ..uri.canonical import CanonicalUri
from . import future
from .enqueue import UNCHANGING, take_out

LAST_MS = 253_402_300_799_999  # the year 9999: later is no date
NOT_MODIFIED = 304
MAX_MEDIA_TYPES = 200  # counted separately
OTHER_MEDIA_TYPES = "other"
MAX_REMARKS = 100  # counted separately
OTHER_REMARKS = "other"
_NO_REPORT = Report(b"")


class Final(msgspec.Struct, frozen=True, gc=False):
    """A final disposition, with its data for the crawl log."""

    fetch_status: int
    disposition: Disposition
    uri: CanonicalUri
    candidate: Candidate
    report: Report = _NO_REPORT
    node: str = ""
    token_serial: int = 0
    annotations: tuple[str, ...] = ()
    reason: str = ""  # why it failed, for people; otherwise the report's

    @property
    def why(self) -> str:
        """Why it failed, or where it redirects to, for people; empty otherwise, or if nobody said."""
        if self.disposition is Disposition.SUCCEEDED and not is_redirect(self.fetch_status):
            return ""
        return self.reason or self.report.reason

    @property
    def source(self) -> str:
        """The seed that the URI descends from."""
        return self.candidate.seed_of(self.uri.uri)


def conclude(
    op: Operation,
    crawl: Crawl,
    queue: WorkQueue,
    position: bytes,
    pending: PendingUri,
    final: Final,
    settings: CrawlSettings,
) -> None:
    """Take a URI out of its queue for good, or until its next visit."""
    take_out(op, crawl, queue, position, pending)
    row = op.touch(queue)
    match final.disposition:
        case Disposition.FAILED:
            row.failed += 1
            row.expenditure = added(row.expenditure, pending.cost + settings.queues.error_penalty)
        case Disposition.SUCCEEDED:
            row.successes += 1
            row.expenditure = added(row.expenditure, pending.cost)
        case _:
            pass  # disregarded URIs are free
    if settings.queues.queue_precedence != UNCHANGING:
        op.reprioritise(crawl, queue, settings.queues)
    record(op, crawl, queue.partition, pending, final, settings)


def record(
    op: Operation,
    crawl: Crawl,
    partition: bytes,
    pending: PendingUri,
    final: Final,
    settings: CrawlSettings,
) -> None:
    """Record the final disposition of a URI that is in no queue."""
    key = keys.seen_key(crawl.number, partition, pending.fingerprint)
    before = _before(op, key) if pending.visited else SeenRow(b"")
    changed = _changed(final, before)
    seen = _seen_after(final, before, op.now_ms, bool(crawl.settings.identity.rules))
    due_ms = _revisit_ms(op, final, before, seen, changed, settings)
    if due_ms:
        seen.future_ms = due_ms
        again = PendingUri(
            0, 0, pending.cost, pending.precedence, bool(seen.visits), pending.fingerprint, pending.candidate
        )
        future.keep(op, crawl, due_ms, partition, again)
    op.tx.put(Family.SEEN, key, encode(seen))
    if not is_redirect(final.fetch_status):
        landings.forget(op, crawl, final.candidate, final.uri)
    _count(op, crawl, final, changed)
    log(op, crawl, final)


def _before(op: Operation, key: bytes) -> SeenRow:
    value = op.tx.get(Family.SEEN, key)
    return SeenRow(b"") if value is None else decode(SeenRow, value)


def _changed(final: Final, before: SeenRow) -> bool:
    """Whether a success brought content that the last visit did not."""
    if final.disposition is not Disposition.SUCCEEDED or final.fetch_status == NOT_MODIFIED:
        return False
    return not (before.digest and before.digest == final.report.digest)


def _seen_after(final: Final, before: SeenRow, now_ms: int, spelled: bool) -> SeenRow:
    """The new seen-set row, with the validators, digest and capture of the last success."""
    seen = SeenRow(b"", final.fetch_status, final.disposition.value, final.token_serial, now_ms)
    seen.interval_ms = before.interval_ms
    seen.etag, seen.last_modified, seen.digest = before.etag, before.last_modified, before.digest
    seen.visits, seen.redirect = before.visits, before.redirect
    seen.capture_ms, seen.capture_uri = before.capture_ms, before.capture_uri
    seen.reason = final.why
    if final.disposition is Disposition.SUCCEEDED:
        seen.visits += 1
        if final.fetch_status != NOT_MODIFIED:
            report = final.report
            if report.capture_ms or not before.digest or before.digest != report.digest:
                seen.capture_ms = report.capture_ms
                seen.capture_uri = final.uri.uri if spelled and report.capture_ms else ""
            seen.etag, seen.last_modified = report.etag, report.last_modified
            seen.digest = report.digest
    return seen


def _revisit_ms(
    op: Operation,
    final: Final,
    before: SeenRow,
    seen: SeenRow,
    changed: bool,
    settings: CrawlSettings,
) -> int:
    """The time of the next visit; 0 for none. A time in the report goes first."""
    if final.disposition is Disposition.DISREGARDED:
        return 0
    if final.report.revisit_ms > 0:
        return min(final.report.revisit_ms, LAST_MS)
    interval = interval_ms(before, changed, settings.revisit)
    if not interval:
        return 0
    if final.disposition is Disposition.SUCCEEDED:
        seen.interval_ms = interval
    return op.now_ms + interval


def _count(op: Operation, crawl: Crawl, final: Final, changed: bool) -> None:
    counters, report = op.counters(crawl), final.report
    counters.fetch_statuses[final.fetch_status] = counters.fetch_statuses.get(final.fetch_status, 0) + 1
    match final.disposition:
        case Disposition.SUCCEEDED:
            counters.succeeded += 1
            counters.bytes = added(counters.bytes, report.body_bytes)
            if changed:
                counters.novel += 1
                counters.novel_bytes = added(counters.novel_bytes, report.body_bytes)
            _count_media_type(counters.media_types, report.media_type)
        case Disposition.DISREGARDED:
            counters.disregarded += 1
        case _:
            counters.failed += 1
    if crawl.revisits(final.candidate) and counters.revisited < counters.to_revisit:
        counters.revisited += 1
        counters.kept_room = max(counters.kept_room - 1, 0)
    if final.candidate.seed:
        seeds = counters.seed_statuses
        seeds[final.fetch_status] = seeds.get(final.fetch_status, 0) + 1
    for name in {remark.partition(":")[0] for remark in report.annotations}:
        _count_remark(counters.annotations, name)
    happened = statistics.Happened(final.fetch_status, final.disposition, report.body_bytes, changed)
    statistics.note(op, crawl, final.uri.host, final.source, happened)


def _count_media_type(counts: dict[str, int], media_type: str) -> None:
    name = media_type.lower() or "unknown"
    if name not in counts and len(counts) >= MAX_MEDIA_TYPES:
        name = OTHER_MEDIA_TYPES
    counts[name] = counts.get(name, 0) + 1


def _count_remark(counts: dict[str, int], name: str) -> None:
    if name not in counts and len(counts) >= MAX_REMARKS:
        name = OTHER_REMARKS
    counts[name] = counts.get(name, 0) + 1


def log(op: Operation, crawl: Crawl, final: Final) -> None:
    """Add a line to the crawl log. Counts don't change."""
    report, candidate = final.report, final.candidate
    truncated = (report.truncated,) if report.truncated else ()
    row = OutcomeRow(
        op.now_ms,
        final.uri.uri,
        fetch_status=final.fetch_status,
        disposition=final.disposition.value,
        body_bytes=report.body_bytes,
        path=candidate.path,
        via=candidate.via,
        media_type=report.media_type,
        node=final.node,
        toe_number=report.toe_number,
        start_ms=report.start_ms if 0 <= report.start_ms <= LAST_MS else 0,  # a node's clock decides nothing
        duration_ms=report.duration_ms,
        digest=report.digest,
        annotations=(*final.annotations, *truncated, *report.annotations),
        source=final.source,
        reason=final.why,
    )
    op.outcome(crawl, row)
