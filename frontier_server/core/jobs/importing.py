"""Imports URIs by the million, to note as seen or to schedule; and changes the seen-set for operators.

It takes two passes, as a Heritrix journal needs: the first notes seen URIs, the second
schedules the others, so that a URI that was done is not fetched again.
"""

from collections.abc import Sequence
from itertools import islice

from ..journey import future, kept
from ..journey.admission import Withdraw
from ..journey.enqueue import queue_at
from ..journey.intake import schedule
from ..robotstxt.robots_table import RobotsTable
from ..rows import keys
from ..rows.errors import IllegalState
from ..rows.records import ImportRow, JobRow, SeenRow, decode, encode
from ..rows.store import Family
from ..state import job
from ..state.crawl import Crawl
from ..state.job import JobState
from ..state.leases import LeaseTable
from ..state.model import CandidateCodec, Verdict
from ..state.operation import Operation
from ..uri.canonical import CanonicalUri, Malformed, TooLong, UnsupportedScheme, canonical

ROWS_PER_SLICE = 100
_NOTING, _SCHEDULING = b"\0", b"\1"


def receiving(op: Operation, crawl: Crawl, number: int) -> JobRow:
    """An import that receives its rows. Raises IllegalState if it does so no more."""
    row = job.get(op.tx, crawl, number)
    if row.state != JobState.RECEIVING.value:
        raise IllegalState(
            f"import {number} of crawl {crawl.name!r} is {row.state}; it must be RECEIVING to take in URIs"
        )
    return row


def store_rows(op: Operation, crawl: Crawl, number: int, rows: Sequence[ImportRow]) -> JobRow:
    """Store rows for an import."""
    row = receiving(op, crawl, number)
    for place, entry in enumerate(rows, row.total + 1):
        op.tx.put(Family.IMPORTS, keys.import_key(crawl.number, number, place), encode(entry))
    row.total += len(rows)
    job.put(op, crawl, number, row)
    return row


def import_slice(
    op: Operation,
    crawl: Crawl,
    number: int,
    row: JobRow,
    codec: CandidateCodec,
    robots: RobotsTable,
    leases: LeaseTable,
) -> None:
    """Take in the next rows of the present pass."""
    cancelled = row.state == JobState.CANCELLING.value
    if cancelled and row.cursor[:1] != _SCHEDULING:
        row.cursor = _SCHEDULING  # from the first row: the first pass leaves rows to schedule
    noting = row.cursor[:1] != _SCHEDULING
    prefix = keys.import_prefix(crawl.number, number)
    start = prefix + row.cursor[1:]
    read = list(islice(op.tx.scan(Family.IMPORTS, start, prefix), ROWS_PER_SLICE))
    entries = [(key, decode(ImportRow, value)) for key, value in read]
    taken = [(key, entry) for key, entry in entries if entry.seen or not noting]
    for key, _ in taken:
        op.tx.delete(Family.IMPORTS, key)
    if noting:
        for _, entry in taken:
            _note(op, crawl, row, codec, entry)
    elif not cancelled:
        _schedule(op, crawl, row, [entry for _, entry in taken], codec, robots, leases)
    if len(read) == ROWS_PER_SLICE:
        row.cursor = (_NOTING if noting else _SCHEDULING) + read[-1][0][len(prefix) :] + b"\0"
        job.put(op, crawl, number, row)
    elif noting:
        row.cursor = _SCHEDULING
        job.put(op, crawl, number, row)
    else:
        job.end(op, crawl, number, row)


def _note(op: Operation, crawl: Crawl, row: JobRow, codec: CandidateCodec, entry: ImportRow) -> None:
    candidate = codec.decode(entry.record)
    row.done += 1
    uri = parsed(candidate.uri)
    if uri is None:
        job.find(row, f"MALFORMED {candidate.uri[:200]}")
    elif record_seen(op, crawl, uri, entry.fetch_status, entry.disposition):
        row.changed += 1


def _schedule(
    op: Operation,
    crawl: Crawl,
    row: JobRow,
    entries: list[ImportRow],
    codec: CandidateCodec,
    robots: RobotsTable,
    leases: LeaseTable,
) -> None:
    candidates = [codec.decode(entry.record) for entry in entries]
    if not candidates:
        return
    force = row.parameters.get("force") == "true"
    if force:
        candidates = [
            codec.refetched(candidate, max(row.create_ms + 1, candidate.refetch_before_ms or 0))
            for candidate in candidates
        ]
    verdicts = schedule(op, crawl, candidates, robots, leases, anew=force)
    row.done += len(verdicts)
    row.changed += verdicts.count(Verdict.QUEUED)
    for candidate, verdict in zip(candidates, verdicts, strict=True):
        row.counts[verdict.value] = row.counts.get(verdict.value, 0) + 1
        if verdict not in (Verdict.QUEUED, Verdict.ALREADY_SEEN):
            job.find(row, f"{verdict.value} {candidate.uri[:200]}")


def parsed(text: str) -> CanonicalUri | None:
    """A canonical URI, or None if the text is not a valid URI."""
    try:
        return canonical(text)
    except (Malformed, UnsupportedScheme, TooLong):
        return None


def record_seen(
    op: Operation,
    crawl: Crawl,
    uri: CanonicalUri,
    fetch_status: int = 0,
    disposition: str = "",
    queue_key: str = "",
    withdraw: Withdraw | None = None,
) -> bool:
    """Note a URI as seen without queueing it; whether it was new.

    With `withdraw` a URI that waits or is out is noted, too, and counts as new.
    """
    site, fingerprint = crawl.origins.located(uri, crawl.settings_for(uri), queue_key)
    key = keys.seen_key(crawl.number, site.place.partition, fingerprint)
    value = op.tx.get(Family.SEEN, key)
    if queue_key:  # its caller expects the queue to be there
        queue_at(op, crawl, site.place, uri.host)
    if value is None:
        seen = SeenRow(b"", fetch_status, disposition, 0, op.now_ms)
        op.sums(crawl).discovered += 1
    else:
        seen = decode(SeenRow, value)
        if withdraw is None or not (seen.position or seen.future_ms):
            return False
        withdraw(op, crawl, key, seen)
        seen.finish_ms = op.now_ms
    op.tx.put(Family.SEEN, key, encode(seen))
    kept.note(op, crawl, key, uri.uri, queue_key, anew=value is not None)
    op.counters(crawl).noted += 1
    return True


def forget_seen(op: Operation, crawl: Crawl, uri: CanonicalUri) -> bool:
    """Forget that a URI was seen, unless it waits in a queue; whether it was forgotten."""
    site, fingerprint = crawl.origins.located(uri, crawl.settings_for(uri))
    key = keys.seen_key(crawl.number, site.place.partition, fingerprint)
    value = op.tx.get(Family.SEEN, key)
    seen = decode(SeenRow, value) if value is not None else None
    if seen is None or seen.position:
        return False
    if seen.future_ms:
        future.drop(op, crawl, seen.future_ms, site.place.partition, fingerprint)
    op.tx.delete(Family.SEEN, key)
    kept.drop(op, crawl, key)
    op.sums(crawl).discovered -= 1
    crawl.note_forgotten()
    return True
