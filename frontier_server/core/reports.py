"""Finished: what a report means for its URI, its queue and its host; and lapses.

A lease ends in one of four ways: its report counts (a final disposition, or a
deferral), it is released unstarted, it lapses, or it concerned robots.txt.
"""

from copy import copy

from . import keys
from .assign import hash64_bytes
from .authority import Outcome, RobotsReport, after_fetch
from .canonical import CanonicalUri, canonical
from .conclusion import Final, conclude, log
from .crawl import Crawl, Operation
from .disposition import (
    DEFERRED,
    OVERLOADED,
    PROCESSING_THREAD_KILLED,
    UNFETCHABLE_URI,
    Disposition,
    decide,
    known_status,
)
from .errors import StoreCorrupt
from .host import Host, Hosts, rest_until
from .leases import Lease, LeaseTable
from .model import Candidate, CandidateCodec, Report, ReportResult
from .politeness import overload_rest_ms, overloads_after, rest_ms
from .queue import QueueEvent, QueueState, WorkQueue
from .records import (
    PendingUri,
    RobotsRow,
    SeenRow,
    decode,
    decode_pending,
    encode,
    encode_pending,
)
from .robots import MAX_BODY_BYTES
from .robots_table import RobotsTable, key_of
from .settings import DAY_MS
from .store import Family

MAX_LAPSES = 3
MAX_ANNOTATIONS = 16
MAX_ANNOTATION_CHARACTERS = 128
STALE = ReportResult(Disposition.STALE)


class Reports:
    """What ending leases needs, beside the crawls."""

    def __init__(
        self,
        crawls: dict[int, Crawl],
        hosts: Hosts,
        robots: RobotsTable,
        leases: LeaseTable,
        codec: CandidateCodec,
    ) -> None:
        self.crawls = crawls
        self.hosts = hosts
        self.robots = robots
        self.leases = leases
        self.codec = codec

    def finished(self, op: Operation, report: Report) -> ReportResult:
        """What one report means. Idempotent by token."""
        token = self.leases.genuine(report.token)
        if token is None:
            return ReportResult(Disposition.UNKNOWN_TOKEN)
        crawl = self.crawls.get(token.crawl)
        if crawl is None:
            return STALE
        lease = self.leases.get(token)
        if lease is None:
            return self._repeated(op, token)
        problem = "" if report.released else report.problem or problem_of(report, lease.robots)
        if problem:
            return ReportResult(Disposition.INVALID_REPORT, problem=problem)
        if report.released:
            self.release(op, lease)
            return ReportResult(Disposition.RELEASED)
        if lease.robots:
            return self._robots(op, crawl, lease, report)
        return self._page(op, crawl, lease, report)

    def _repeated(self, op: Operation, token: keys.Token) -> ReportResult:
        if token.robots:
            return self._robots_repeated(op, token)
        value = op.tx.get(Family.SEEN, keys.seen_key(token.crawl, token.partition, token.subject))
        seen = decode(SeenRow, value) if value is not None else None
        if seen is None or not token.serial or seen.token_serial != token.serial:
            return STALE
        return ReportResult(Disposition(seen.disposition), repeated=True)

    def _robots_repeated(self, op: Operation, token: keys.Token) -> ReportResult:
        for key, value in op.tx.scan(Family.ROBOTS, token.partition, token.partition):
            if hash64_bytes(key) == token.subject:
                row = decode(RobotsRow, value)
                if (row.token_crawl, row.token_serial) == (token.crawl, token.serial):
                    return ReportResult(Disposition(row.token_disposition), repeated=True)
        return STALE

    def _page(self, op: Operation, crawl: Crawl, lease: Lease, report: Report) -> ReportResult:
        queue, host = self._end(op, crawl, lease)
        row = lease.row
        pending = self._pending(op, crawl, lease)
        status = report.fetch_status
        decision = decide(status, row.attempt, crawl.settings.retry)
        candidate = self.codec.decode(pending.candidate)
        uri = canonical(candidate.uri)
        self._rest_host(op, crawl, host, report, self._crawl_delay_ms(op, crawl, uri))
        if decision.disposition is Disposition.DEFERRED:
            op.counters(crawl).deferred += 1
            if decision.counts:
                pending = pending._replace(attempts=pending.attempts + 1)
            self._keep(op, crawl, lease, pending, lease.serial)
            if decision.rest_ms:
                self._rest_queue(
                    op, queue, op.now_ms + decision.rest_ms, f"retry after fetch status {status}"
                )
        else:
            annotations = (f"{row.attempt}t",) if row.attempt > 1 else ()
            final = Final(
                status, decision.disposition, uri.uri, candidate, report, row.node, lease.serial, annotations
            )
            conclude(op, crawl, queue, row.suffix, pending, final)
        self._settle(op, crawl, queue, host)
        return ReportResult(decision.disposition)

    def _robots(self, op: Operation, crawl: Crawl, lease: Lease, report: Report) -> ReportResult:
        queue, host = self._end(op, crawl, lease)
        row, status = lease.row, report.fetch_status
        if status == DEFERRED:
            return self._robots_put_off(op, crawl, lease, report, queue, host)
        op.counters(crawl).robots_fetches += 1
        disposition = Disposition.SUCCEEDED if status > 0 else Disposition.FAILED
        address = f"{row.scheme}://{row.authority}/robots.txt"
        pending = self._pending(op, crawl, lease)
        candidate = self.codec.decode(pending.candidate)
        if status == UNFETCHABLE_URI:
            # Not fetchable from here says nothing about the host's wishes, which are
            # shared by all crawls: only the URI that waited has its answer.
            uri = canonical(candidate.uri).uri
            final = Final(
                status, Disposition.FAILED, uri, candidate, node=row.node, annotations=("robots:-7",)
            )
            conclude(op, crawl, queue, row.suffix, pending, final)
        crawl_delay_ms = self._learn(
            op, crawl, lease, host, RobotsReport(status, report.robots_body), disposition
        )
        of_robots = Candidate(address, b"", via=candidate.uri, path=candidate.path + "P")
        log(op, crawl, Final(status, disposition, address, of_robots, report, row.node))
        self._rest_host(op, crawl, host, report, crawl_delay_ms)
        self._settle(op, crawl, queue, host)
        return ReportResult(disposition)

    def _robots_put_off(
        self, op: Operation, crawl: Crawl, lease: Lease, report: Report, queue: WorkQueue, host: Host
    ) -> ReportResult:
        """Nothing is learned and nothing counts, but the host was asked."""
        op.counters(crawl).deferred += 1
        robots = RobotsReport(DEFERRED, b"")
        crawl_delay_ms = self._learn(op, crawl, lease, host, robots, Disposition.DEFERRED)
        self._rest_host(op, crawl, host, report, crawl_delay_ms)
        self._settle(op, crawl, queue, host)
        return ReportResult(Disposition.DEFERRED)

    def _learn(
        self,
        op: Operation,
        crawl: Crawl,
        lease: Lease,
        host: Host,
        report: RobotsReport,
        disposition: Disposition | None = None,
    ) -> int:
        """Keep what a robots.txt said, and which report said it; its Crawl-delay."""
        settings = crawl.settings
        key = key_of(lease.row.scheme, host.name, lease.row.authority, settings)
        before = self.robots.row(op.tx, key)
        if report.status in (UNFETCHABLE_URI, DEFERRED):
            row = RobotsRow(Outcome.NONE.value) if before is None else copy(before)
        else:
            row = after_fetch(before, report, op.now_ms, settings.robots, settings.fetch.product_token)
        if disposition is not None:
            row.token_crawl, row.token_serial = crawl.number, lease.serial
            row.token_disposition = disposition.value
        self.robots.put(op.tx, key, row)
        return self.robots.rules(op.tx, key).crawl_delay_ms

    def release(self, op: Operation, lease: Lease) -> None:
        """Take a lease back as if it had never been given."""
        crawl = self.crawls[lease.crawl]
        queue, host = self._end(op, crawl, lease)
        self._settle(op, crawl, queue, host, first=True)

    def lapse(self, op: Operation, lease: Lease) -> None:
        """End a lease that nobody reported: an attempt, and a rest for the host.

        The node may still be fetching. A URI that three leases lapsed with fails, so
        that a page that kills nodes is not fetched for ever.
        """
        crawl = self.crawls[lease.crawl]
        queue, host = self._end(op, crawl, lease)
        op.counters(crawl).lapsed += 1
        pending = self._pending(op, crawl, lease)
        report = Report(
            b"", fetch_status=PROCESSING_THREAD_KILLED, duration_ms=op.now_ms - lease.row.lease_ms
        )
        if lease.robots:
            crawl_delay_ms = self._learn(op, crawl, lease, host, RobotsReport(PROCESSING_THREAD_KILLED, b""))
        else:
            candidate = self.codec.decode(pending.candidate)
            uri = canonical(candidate.uri)
            crawl_delay_ms = self._crawl_delay_ms(op, crawl, uri)
            pending = pending._replace(attempts=pending.attempts + 1, lapses=pending.lapses + 1)
            if pending.lapses >= MAX_LAPSES or pending.attempts >= crawl.settings.retry.max_attempts:
                final = Final(
                    PROCESSING_THREAD_KILLED,
                    Disposition.FAILED,
                    uri.uri,
                    candidate,
                    node=lease.row.node,
                    annotations=(f"lapsed:{pending.lapses}",),
                )
                conclude(op, crawl, queue, lease.row.suffix, pending, final)
            else:
                self._keep(op, crawl, lease, pending, 0)
        self._rest_host(op, crawl, host, report, crawl_delay_ms)
        self._settle(op, crawl, queue, host)

    def _end(self, op: Operation, crawl: Crawl, lease: Lease) -> tuple[WorkQueue, Host]:
        """Take a lease off the books."""
        self.leases.remove(lease)
        op.tx.delete(Family.LEASES, keys.lease_key(lease.crawl, lease.row.queue[:8], lease.serial))
        op.counters(crawl)
        queue = crawl.queues[lease.row.queue]
        host = self.hosts.get(op.tx, queue.row.host)
        queue.leases_out -= 1
        host.in_flight -= 1
        crawl.leases_out -= 1
        if not lease.robots:
            crawl.pages_out -= 1
        return queue, host

    def _pending(self, op: Operation, crawl: Crawl, lease: Lease) -> PendingUri:
        value = op.tx.get(Family.PENDING, keys.pending_key(crawl.number, lease.row.queue, lease.row.suffix))
        if value is None:
            raise StoreCorrupt(f"crawl {crawl.name}: leased URI {lease.row.suffix.hex()} is not stored")
        return decode_pending(value)

    def _keep(
        self, op: Operation, crawl: Crawl, lease: Lease, pending: PendingUri, token_serial: int
    ) -> None:
        """Leave a URI in its place (S1.8), with its attempts, and note the report if there was one."""
        row = lease.row
        op.tx.put(
            Family.PENDING, keys.pending_key(crawl.number, row.queue, row.suffix), encode_pending(pending)
        )
        if token_serial:
            key = keys.seen_key(crawl.number, row.queue[:8], row.subject)
            seen = SeenRow(row.suffix, 0, Disposition.DEFERRED.value, token_serial)
            op.tx.put(Family.SEEN, key, encode(seen))

    def _crawl_delay_ms(self, op: Operation, crawl: Crawl, uri: CanonicalUri) -> int:
        key = key_of(uri.scheme, uri.host, uri.authority, crawl.settings)
        return self.robots.rules(op.tx, key).crawl_delay_ms

    def _rest_host(
        self, op: Operation, crawl: Crawl, host: Host, report: Report, crawl_delay_ms: int
    ) -> None:
        """Let a host rest after a fetch, however it ended."""
        politeness, status = crawl.settings.politeness, report.fetch_status
        rest, reason = rest_ms(report.duration_ms, crawl_delay_ms, politeness), "politeness"
        host.row.overloads = overloads_after(status, host.row.overloads)
        if status in OVERLOADED:
            overload_rest = overload_rest_ms(host.row.overloads, report.retry_after_ms, politeness)
            if overload_rest > rest:
                rest, reason = overload_rest, f"fetch status {status}"
        if op.now_ms + rest >= host.row.next_allowed_ms:
            host.row.next_allowed_ms, host.row.rest_reason = op.now_ms + rest, reason
        self.hosts.put(op.tx, host)

    def _rest_queue(self, op: Operation, queue: WorkQueue, wake_ms: int, reason: str) -> None:
        row = op.touch(queue)
        row.wake_ms, row.rest_reason = wake_ms, reason

    def _settle(self, op: Operation, crawl: Crawl, queue: WorkQueue, host: Host, first: bool = False) -> None:
        """Let a queue whose lease ended go on, behind those that waited for its host meanwhile."""
        waiting, host.waiting = host.waiting, []
        for other in waiting:
            its = self.crawls.get(other.crawl)
            if its is not None and other.state is QueueState.READY:  # else its crawl has ended meanwhile
                self._go_on(op, its, other, host)
        self._go_on(op, crawl, queue, host)
        if first and queue.state is QueueState.READY:
            crawl.ready.rotate(1)  # from the end to the front: its turn was not used

    def _go_on(self, op: Operation, crawl: Crawl, queue: WorkQueue, host: Host) -> None:
        until_ms, reason = rest_until(queue, host)
        if until_ms > op.now_ms:
            op.move(crawl, queue, QueueEvent.RESTED, until_ms, reason)
        elif queue.state is QueueState.READY:
            crawl.ready.append(queue)
        else:
            op.move(crawl, queue, QueueEvent.FREED)


def problem_of(report: Report, robots: bool) -> str:
    """What makes no sense in a report; empty if it does."""
    if not known_status(report.fetch_status):
        return f"fetch_status {report.fetch_status} is neither an HTTP status (100 to 599) nor a FetchStatus"
    if not 0 <= report.duration_ms <= DAY_MS:
        return f"fetch_duration of {report.duration_ms} ms is not within 0 and one day"
    if report.body_bytes < 0:
        return f"body_bytes {report.body_bytes} is negative"
    if report.retry_after_ms < 0:
        return f"retry_after_duration of {report.retry_after_ms} ms is negative"
    if report.robots_body and not robots:
        return "robots_body in the report of a page"
    if len(report.robots_body) > MAX_BODY_BYTES:
        return f"robots_body of {len(report.robots_body)} bytes; cut it at {MAX_BODY_BYTES}"
    if len(report.annotations) > MAX_ANNOTATIONS:
        return f"{len(report.annotations)} annotations; at most {MAX_ANNOTATIONS} are taken"
    for annotation in report.annotations:
        if (
            len(annotation) > MAX_ANNOTATION_CHARACTERS
            or annotation.split() != [annotation]
            or "," in annotation
        ):
            return f"annotation {annotation[:40]!r} is empty, too long, or has blanks or commas"
    if max(len(report.media_type), len(report.digest)) > 256:
        return "media_type or digest is longer than 256 characters"
    return ""
