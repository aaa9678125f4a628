"""Finished: applies a report to its URI, its queue and its host; also ends leases that lapse.

A lease for a page ends in one of three ways: a report counts (a final disposition, or a
deferral), the node releases it unstarted, or it lapses. A lease for a robots.txt ends likewise.
"""

from collections.abc import Callable
from copy import copy
from enum import Enum

from msgspec.structs import replace

from ..opening.shard import Shard
from ..robotstxt.authority import Outcome, RobotsReport, after_fetch
from ..rows import keys
from ..rows.records import PendingUri, RobotsRow, SeenRow, decode, encode
from ..rows.store import Family
from ..rows.sums import added
from ..rules.disposition import (
    DEFERRED,
    MAX_DEFERRALS,
    PROCESSING_THREAD_KILLED,
    SERIOUS_ERROR,
    UNFETCHABLE_URI,
    Disposition,
    decide,
)
from ..rules.outcome_words import retry_words
from ..state.attendance import record_bound
from ..state.crawl import Crawl
from ..state.leases import Lease
from ..state.life import pause_for
from ..state.model import Candidate, Report, ReportResult
from ..state.operation import Operation
from ..state.statistics import Happened, note
from ..uri.canonical import canonical
from . import future
from .conclusion import Final, conclude, log
from .enqueue import put_row, take_out
from .intake import take_in
from .report_problems import problem_of
from .settlement import Ended, Settling

STALE = ReportResult(Disposition.STALE)


class Lapse(Enum):
    """Why a lease ends without its report."""

    SILENCE = "its node did not confirm it within the lease period"
    PAUSE = "the crawl has waited long enough to be paused"
    STOP = "the crawl has waited long enough to stop"


def anybody(node: str) -> bool:
    """Callers without names speak for every node."""
    return True


class Reports:
    """Ends the leases of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._settling = Settling(shard)

    def finished(
        self, op: Operation, report: Report, speaks_for: Callable[[str], bool] = anybody, bound: bool = False
    ) -> ReportResult:
        """Apply one report. Idempotent by token. To others than the lease's node, its token is unknown.

        What a `bound` caller says of hosts, who may act on some crawls only, counts for its crawl alone.
        """
        lease = self._shard.leases.out(report.token)
        if lease is None:
            return self._repeated(op, report.token)
        if not speaks_for(lease.row.node):
            return ReportResult(Disposition.UNKNOWN_TOKEN)
        crawl = self._shard.crawls[lease.crawl]
        if bound and not lease.row.bound:  # its node's lease was another caller's
            lease.row.bound = True
            record_bound(op, crawl)
        problem = "" if report.released else report.problem or problem_of(report, lease.robots)
        if problem:
            return ReportResult(Disposition.INVALID_REPORT, problem=problem)
        if report.released:
            self.release(op, lease)
            return ReportResult(Disposition.RELEASED)
        if report.connections or report.kept_connections or report.tls_handshakes:
            counters = op.counters(crawl)
            counters.connections += report.connections
            counters.tls_handshakes += report.tls_handshakes
            counters.kept_connections += report.kept_connections
        if report.retire_queue:  # once the lease has ended, whatever the result
            row = op.touch(crawl.queues.active[lease.row.queue])
            row.retiring, row.retire_reason = True, f"a report of {lease.row.node} retires it"
        if lease.robots:
            return self._robots(op, lease, report)
        return self._page(op, lease, report)

    def _repeated(self, op: Operation, data: bytes) -> ReportResult:
        token = self._shard.leases.genuine(data)
        if token is None:
            return ReportResult(Disposition.UNKNOWN_TOKEN)
        if token.crawl not in self._shard.crawls:
            return STALE
        if token.robots:
            return self._robots_repeated(op, token)
        value = op.tx.get(Family.SEEN, keys.seen_key(token.crawl, token.partition, token.fingerprint))
        seen = decode(SeenRow, value) if value is not None else None
        if seen is None or not token.serial or seen.token_serial != token.serial:
            return STALE
        return ReportResult(Disposition(seen.disposition), repeated=True)

    def _robots_repeated(self, op: Operation, token: keys.Token) -> ReportResult:
        for _, value in op.tx.scan(Family.ROBOTS, token.fingerprint, token.fingerprint):
            row = decode(RobotsRow, value)
            of = (row.token_crawl, row.token_partition, row.token_serial)
            if of == (token.crawl, token.partition, token.serial):
                return ReportResult(Disposition(row.token_disposition), repeated=True)
        return STALE

    def _page(self, op: Operation, lease: Lease, report: Report) -> ReportResult:
        ended = self._settling.end(op, lease)
        crawl, queue, row, head = ended.crawl, ended.queue, lease.row, ended.head
        queue.row.robots_of = ""
        pending, uri, settings = head.pending, head.uri, head.settings
        status = report.fetch_status
        decision = decide(status, row.attempt, settings.retry, pending.deferrals)
        if report.peer_address:
            ended.host.row.address = report.peer_address
        silent = self._settling.rest_host(ended, report, uri)
        final = Final(
            status,
            decision.disposition,
            uri,
            head.candidate,
            report=report,
            node=row.node,
            token_serial=lease.serial,
            annotations=(f"{row.attempt}t",) if row.attempt > 1 else (),
        )
        if decision.disposition is Disposition.DEFERRED:
            op.counters(crawl).deferred += 1
            if decision.counts:
                pending = replace(pending, attempts=pending.attempts + 1)
                queue_row = op.touch(queue)
                queue_row.expenditure = added(queue_row.expenditure, pending.cost)  # each attempt costs
            else:
                pending = replace(pending, deferrals=pending.deferrals + 1)
            if status > 0:
                happened = Happened(status, Disposition.DEFERRED, report.body_bytes)
                note(op, crawl, uri.host, final.source, happened)
            if decision.steps_aside:
                _put_aside(ended, pending, report, op.now_ms + decision.rest_ms)
            else:
                _keep(ended, pending, report)
        else:
            conclude(op, crawl, queue, row.position, pending, final, settings)
        if decision.rest_ms and (silent or not decision.steps_aside):
            reason, until_ms = retry_words(status, report.reason), op.now_ms + decision.rest_ms
            self._settling.rest_queue(ended, until_ms, reason)
        self._settling.settle(ended)
        if decision.disposition is not Disposition.DEFERRED:
            self._follow(ended)
        _pause_after(op, crawl, status, row.node, uri.uri)
        return ReportResult(decision.disposition)

    def _follow(self, ended: Ended) -> None:
        """Take in the target of a page's redirect, if it has waited since both have one identity."""
        target = ended.lease.row.target
        if target:
            candidate = self._shard.codec.decode(target)
            take_in(ended.op, ended.crawl, [candidate], self._shard.robots, self._shard.leases)

    def _robots(self, op: Operation, lease: Lease, report: Report) -> ReportResult:
        ended = self._settling.end(op, lease)
        crawl, row, head, status = ended.crawl, lease.row, ended.head, report.fetch_status
        pending, candidate = head.pending, head.candidate
        if report.peer_address:
            ended.host.row.address = report.peer_address
        put_off = status == DEFERRED and pending.deferrals < MAX_DEFERRALS
        if put_off:
            # The report teaches nothing and does not count, but the host got a request.
            disposition = Disposition.DEFERRED
            op.counters(crawl).deferred += 1
            _keep(ended, replace(pending, deferrals=pending.deferrals + 1))
        else:
            disposition = Disposition.SUCCEEDED if status > 0 else Disposition.FAILED
            op.counters(crawl).robots_fetches += 1
            ended.queue.row.robots_of = "" if status == UNFETCHABLE_URI else f"{row.scheme}://{row.authority}"
            ended.queue.row.robots_ms = row.lease_ms
        if status == UNFETCHABLE_URI:
            # All crawls share the observations of a robots.txt. A fetch that is impossible from here
            # reveals nothing about the host, so only the URI that waited fails.
            final = Final(
                status,
                Disposition.FAILED,
                head.uri,
                candidate,
                node=row.node,
                annotations=("robots:-7",),
                reason=report.reason,
            )
            conclude(op, crawl, ended.queue, row.position, pending, final, head.settings)
        # A fetch that was aborted when the crawl stopped reveals nothing about the host, either.
        cut = status == PROCESSING_THREAD_KILLED and bool(crawl.state_row.interrupt_ms)
        learned = None
        if not (put_off or cut or status == UNFETCHABLE_URI):
            learned = RobotsReport(status, report.robots_body, report.reason)
        self._learn(ended, learned, disposition)
        address = canonical(f"{row.scheme}://{row.authority}/robots.txt")
        if not put_off:
            of_robots = Candidate(
                address.uri, b"", via=candidate.uri, path=candidate.path + "P", source=head.source
            )
            log(op, crawl, Final(status, disposition, address, of_robots, report=report, node=row.node))
        self._settling.rest_host(ended, report, address)
        self._settling.settle(ended)
        _pause_after(op, crawl, status, row.node, address.uri)
        return ReportResult(disposition)

    def _learn(
        self, ended: Ended, report: RobotsReport | None, disposition: Disposition | None = None
    ) -> None:
        """Store the result of a robots.txt fetch, if any, and its report's token.

        The answer that a bound caller reports counts for its crawl alone; it follows the one that counted for
        the crawl before.
        """
        op, lease, head, robots = ended.op, ended.lease, ended.head, self._shard.robots
        key = self._shard.places.robots_key(
            lease.row.scheme, head.uri.host, lease.row.authority, head.settings
        )
        before = robots.row(op.tx, key)
        if lease.row.bound:
            before = robots.row(op.tx, robots.key_for(op.tx, key, lease.crawl, bound=True))
            key = keys.own_robots_key(key, lease.crawl)
        if report is None:
            row = RobotsRow(Outcome.NONE.value) if before is None else copy(before)
        else:
            row = after_fetch(before, report, op.now_ms, head.settings.fetch.product_token)
        if disposition is not None:
            said = lease.said
            row.token_crawl, row.token_partition, row.token_serial = said.crawl, said.partition, said.serial
            row.token_disposition = disposition.value
        row.report_ms = op.now_ms
        robots.put(op.tx, key, row)

    def release(self, op: Operation, lease: Lease) -> None:
        """End a lease as if it had never been given."""
        ended = self._settling.end(op, lease)
        ended.queue.give_back(lease.row.position, ended.head.pending.lane)
        self._settling.settle(ended, first=True)

    def lapse(self, op: Operation, lease: Lease, why: Lapse = Lapse.SILENCE) -> None:
        """End a lease without a report. It counts as an attempt, and the host rests.

        The node may still be fetching. A URI fails after some leases that lapsed in silence, because
        its page may kill nodes; it also fails if its crawl stops without waiting any longer. A lapse
        caused by a pause is not an attempt. Only silence counts as a failed try of a robots.txt.
        """
        ended = self._settling.end(op, lease)
        crawl, head = ended.crawl, ended.head
        op.counters(crawl).lapsed += 1
        pending, settings = head.pending, head.settings
        report = Report(
            b"", fetch_status=PROCESSING_THREAD_KILLED, duration_ms=op.now_ms - lease.row.lease_ms
        )
        if lease.robots and why is Lapse.SILENCE:
            self._learn(ended, RobotsReport(PROCESSING_THREAD_KILLED, b""))
        ended.queue.give_back(lease.row.position, pending.lane)
        if not lease.robots:
            ended.queue.row.robots_of = ""
        ends = False
        if not lease.robots and why is not Lapse.PAUSE:
            lapses = pending.lapses + (why is Lapse.SILENCE)
            pending = replace(pending, attempts=pending.attempts + 1, lapses=lapses)
            spent = lapses >= settings.retry.max_lapses or pending.attempts >= settings.retry.max_attempts
            ends = spent or why is Lapse.STOP
            if ends:
                final = Final(
                    PROCESSING_THREAD_KILLED,
                    Disposition.FAILED,
                    head.uri,
                    head.candidate,
                    node=lease.row.node,
                    annotations=("cancelled",) if why is Lapse.STOP else (f"lapsed:{pending.lapses}",),
                )
                conclude(op, crawl, ended.queue, lease.row.position, pending, final, settings)
            else:
                queue_row = op.touch(ended.queue)
                queue_row.expenditure = added(queue_row.expenditure, pending.cost)
                _keep(ended, pending)
        self._settling.rest_host(ended, report, head.uri)
        self._settling.settle(ended)
        if ends:
            self._follow(ended)


def _keep(ended: Ended, pending: PendingUri, report: Report | None = None) -> None:
    """Leave a URI in its place, with its new counts, and note the report if there was one."""
    op, row = ended.op, ended.lease.row
    ended.queue.give_back(row.position, pending.lane)
    put_row(op, ended.crawl, ended.queue, row.position, pending)
    if report is not None:
        key, seen = _deferred(op, ended.lease, pending, report)
        seen.position, seen.queue = row.position, row.queue[8:]
        op.tx.put(Family.SEEN, key, encode(seen))


def _put_aside(ended: Ended, pending: PendingUri, report: Report, due_ms: int) -> None:
    """Make a URI a future one, so that it rests while its queue goes on; note the report."""
    op, crawl, lease = ended.op, ended.crawl, ended.lease
    take_out(op, crawl, ended.queue, lease.row.position, pending)
    key, seen = _deferred(op, lease, pending, report)
    seen.position, seen.queue, seen.future_ms = b"", b"", due_ms
    op.tx.put(Family.SEEN, key, encode(seen))
    future.keep(op, crawl, due_ms, ended.queue.partition, pending)
    if due_ms == crawl.first_future_ms:
        crawl.first_retry = (due_ms, retry_words(report.fetch_status, report.reason))


def _deferred(op: Operation, lease: Lease, pending: PendingUri, report: Report) -> tuple[bytes, SeenRow]:
    """The key and the seen-set row of a URI that a report has deferred; it says why."""
    key = keys.seen_key(lease.crawl, lease.row.queue[:8], lease.row.fingerprint)
    value = op.tx.get(Family.SEEN, key) if pending.visited else None
    seen = SeenRow(b"") if value is None else decode(SeenRow, value)
    seen.disposition, seen.token_serial = Disposition.DEFERRED.value, lease.serial
    seen.fetch_status, seen.reason = report.fetch_status, report.reason
    return key, seen


def _pause_after(op: Operation, crawl: Crawl, status: int, node: str, uri: str) -> None:
    """Pause a crawl after a serious error of its node, whatever the node was fetching."""
    if status == SERIOUS_ERROR:
        pause_for(op, crawl, "serious-error", f"node {node} could not go on at {uri[:200]}")
