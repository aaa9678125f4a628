"""The end of a URI's way: its final disposition in counts, seen-set and crawl log, once."""

from dataclasses import dataclass

from . import keys
from .crawl import Crawl, Operation
from .disposition import Disposition
from .model import Candidate, Report
from .queue import WorkQueue
from .records import OutcomeRow, PendingUri, SeenRow, encode
from .store import Family

MAX_INTEGER = (1 << 63) - 1  # of a row
LAST_MS = 253_402_300_799_999  # the year 9999: later is no date
_NO_REPORT = Report(b"")


@dataclass(frozen=True, slots=True)
class Final:
    """A final disposition, and what the crawl log says of it."""

    fetch_status: int
    disposition: Disposition
    uri: str
    candidate: Candidate
    report: Report = _NO_REPORT
    node: str = ""
    token_serial: int = 0
    annotations: tuple[str, ...] = ()


def conclude(
    op: Operation, crawl: Crawl, queue: WorkQueue, suffix: bytes, pending: PendingUri, final: Final
) -> None:
    """Take a URI out of its queue for good."""
    row = op.touch(queue)
    row.count -= 1
    if suffix in (row.head, queue.first) or row.count == 0:
        row.head = keys.suffix_after(suffix)
        queue.first = None
    if final.disposition is Disposition.FAILED:
        row.failed += 1
    op.tx.delete(Family.PENDING, keys.pending_key(crawl.number, queue.queue, suffix))
    op.counters(crawl).queued -= 1
    record(op, crawl, keys.seen_key(crawl.number, queue.partition, pending.subject), final)


def record(op: Operation, crawl: Crawl, seen_key: bytes, final: Final) -> None:
    """Count a final disposition, note it in the seen-set, and let the crawl log have it."""
    seen = SeenRow(b"", final.fetch_status, final.disposition.value, final.token_serial, op.now_ms)
    op.tx.put(Family.SEEN, seen_key, encode(seen))
    counters = op.counters(crawl)
    counters.fetch_statuses[final.fetch_status] = counters.fetch_statuses.get(final.fetch_status, 0) + 1
    match final.disposition:
        case Disposition.SUCCEEDED:
            counters.succeeded += 1
            counters.bytes = min(counters.bytes + final.report.body_bytes, MAX_INTEGER)
        case Disposition.DISREGARDED:
            counters.disregarded += 1
        case _:
            counters.failed += 1
    log(op, crawl, final)


def log(op: Operation, crawl: Crawl, final: Final) -> None:
    """Let the crawl log have a line that is counted nowhere (robots.txt)."""
    report, candidate = final.report, final.candidate
    truncated = (report.truncated,) if report.truncated else ()
    row = OutcomeRow(
        op.now_ms,
        final.uri,
        final.fetch_status,
        final.disposition.value,
        report.body_bytes,
        candidate.path,
        candidate.via,
        report.media_type,
        final.node,
        report.toe_number,
        report.start_ms if 0 <= report.start_ms <= LAST_MS else 0,  # a node's clock decides nothing
        report.duration_ms,
        report.digest,
        (*final.annotations, *truncated, *report.annotations),
    )
    op.outcome(crawl, row)
