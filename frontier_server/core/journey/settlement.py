"""After a lease: how long its host and its queue rest, and where the queue goes."""

from typing import NamedTuple

from ..opening.shard import Shard
from ..rules.disposition import NO_ANSWER, OVERLOADED
from ..rules.politeness import (
    is_silent,
    overload_rest_ms,
    overloads_after,
    rest_after,
    strain_after,
    unanswered_after,
)
from ..state.crawl import Crawl
from ..state.head import Head, stored_head
from ..state.host import Host
from ..state.lanes import shares
from ..state.leases import Lease
from ..state.model import Report
from ..state.operation import Operation, is_ineligible
from ..state.queue import QueueEvent, QueueState, WorkQueue
from ..uri.canonical import CanonicalUri


class Ended(NamedTuple):
    """A lease that has just ended, with all that it concerned."""

    op: Operation
    crawl: Crawl
    lease: Lease
    head: Head  # its URI, with its present settings
    queue: WorkQueue
    host: Host
    shared: list[Host]  # groups of hosts


class Settling:
    """Ends leases, lets their hosts rest, and their queues go on."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def end(self, op: Operation, lease: Lease) -> Ended:
        """End a lease. The caller decides about its URI, and settles it."""
        crawl = self._shard.crawls[lease.crawl]
        head = lease.head
        if head is None:
            head = stored_head(op, crawl, self._shard.codec, lease.row.queue, lease.row.position)
        else:
            head = head._replace(settings=crawl.settings_for(head.uri))
        occupied = self._shard.ledger.end(op, crawl, lease)
        return Ended(op, crawl, lease, head, occupied.queue, occupied.host, occupied.shared)

    def rest_host(self, ended: Ended, report: Report, uri: CanonicalUri) -> bool:
        """Let a host rest after the fetch of a URI of it, whatever its result.

        Returns whether it has left this URI, and different ones before it in a row, without an answer.

        If a host may get several requests at once, the rest begins with the start of the last one. What a
        bound caller says that the host asks for lets it rest for the crawl alone.
        """
        op, crawl, settings, host = ended.op, ended.crawl, ended.head.settings, ended.host
        politeness, status = settings.politeness, report.fetch_status
        begin_ms = op.now_ms
        if politeness.max_parallel > 1:
            begin_ms = max(host.row.start_ms, ended.queue.row.lease_ms)
            host.row.duration_ms = report.duration_ms
        if politeness.adaptive:
            host.row.strain, host.row.usual_ms = strain_after(
                host.row.strain, host.row.usual_ms, status, report.duration_ms
            )
        host.row.overloads = overloads_after(status, host.row.overloads)
        alone = ended.lease.row.bound and crawl.settings.politeness.across_crawls
        silent = self._count_unanswered(op, crawl, host, uri, status, alone)
        robots_key = crawl.origins.site(uri, settings).robots_key
        shared_delay_ms, delay_ms = self._shard.crawl_delays(op.tx, crawl, robots_key, settings)

        def rest(crawl_delay_ms: int, retry_after_ms: int) -> tuple[int, str, int]:
            found = rest_after(report.duration_ms, crawl_delay_ms, politeness, host.row.strain)
            until_ms, reason = begin_ms + found.ms, found.reason
            if status in OVERLOADED:
                overload_ms = overload_rest_ms(host.row.overloads, retry_after_ms, politeness)
                if op.now_ms + overload_ms > until_ms:
                    until_ms, reason = op.now_ms + overload_ms, f"fetch status {status}"
            return until_ms, reason, found.ms

        until_ms, reason, usual_ms = rest(shared_delay_ms, 0 if alone else report.retry_after_ms)
        if until_ms >= host.row.next_allowed_ms:
            host.row.next_allowed_ms, host.row.rest_reason = until_ms, reason
        self._shard.hosts.put(op.tx, host)
        if alone or delay_ms != shared_delay_ms:
            until_ms, reason, usual_ms = rest(delay_ms, report.retry_after_ms)
            self._shard.hosts.rest_alone(op.tx, crawl, uri.host, host, until_ms, reason)
        if not shares(ended.queue, settings):  # hosts that share a queue have intervals of their own
            own_ms = report.duration_ms if politeness.max_parallel == 1 else 0
            ended.queue.interval_ms = usual_ms + own_ms
        return silent

    def _count_unanswered(
        self, op: Operation, crawl: Crawl, host: Host, uri: CanonicalUri, status: int, alone: bool
    ) -> bool:
        """Count a URI that a host has left without an answer, or end the count; whether the host is silent.

        The caller stores the host's row. What counts for the crawl `alone` is counted in a row of its own.
        """
        counted = self._shard.hosts.own_rest(op.tx, crawl, uri.host) if alone else host
        before = counted.row.unanswered
        counted.row.unanswered = unanswered_after(status, before, uri.uri)
        if alone and counted.row.unanswered != before:
            self._shard.hosts.put(op.tx, counted)
        return status in NO_ANSWER and is_silent(counted.row.unanswered)

    def rest_queue(self, ended: Ended, until_ms: int, reason: str) -> None:
        """Let a queue rest before a retry; in a queue shared by several hosts, only the authority rests."""
        op, queue, uri = ended.op, ended.queue, ended.head.uri
        if not shares(queue, ended.head.settings):
            row = op.touch(queue)
            if until_ms >= row.wake_ms:
                row.wake_ms, row.rest_reason = until_ms, reason
            return
        op.touch(queue).authorities_rest = True
        authority = self._shard.hosts.authority(op.tx, ended.crawl, uri.scheme, uri.authority)
        authority.row.next_allowed_ms, authority.row.rest_reason = until_ms, reason
        authority.row.start_ms = op.now_ms
        self._shard.hosts.put(op.tx, authority)

    def settle(self, ended: Ended, first: bool = False) -> None:
        """Let a queue whose lease ended go on, behind the queues in line for its host or groups."""
        op, crawl, queue, settings = ended.op, ended.crawl, ended.queue, ended.head.settings
        if queue.leases_out:  # the last one decides where the queue goes
            crawl.queues.ready.offer(queue, settings, first)
            return
        op.reprioritise(crawl, queue, settings.queues)
        self._go_on(ended)
        if first and queue.state is QueueState.READY:  # its turn was not used, so it goes first again
            crawl.queues.ready.leave(queue)
            lined = [one for one in (ended.host, *ended.shared) if one.has_line(crawl.number)]
            if lined:
                crawl.queues.lines.join(lined[0], queue, first=True)
                crawl.queues.lines.open(lined[0])
            else:
                crawl.queues.ready.put_first(queue)

    def _go_on(self, ended: Ended) -> None:
        """Move a BUSY queue to its next state."""
        op, crawl, queue, settings = ended.op, ended.crawl, ended.queue, ended.head.settings
        rest = self._shard.hosts.rest(op.tx, crawl, queue, ended.host, settings)
        if queue.row.retiring:
            op.touch(queue).retiring = False
            op.move(crawl, queue, QueueEvent.RETIRED)
        elif rest.until_ms > op.now_ms:
            op.move(crawl, queue, QueueEvent.RESTED, rest.until_ms, rest.reason)
        elif not queue.row.count:
            op.move(crawl, queue, QueueEvent.FREED)  # it is drained at its next turn
        elif is_ineligible(queue, settings.queues):
            op.move(crawl, queue, QueueEvent.BECAME_INELIGIBLE)
        elif crawl.lower_waits(queue):
            op.move(crawl, queue, QueueEvent.YIELDED)
        else:
            op.move(crawl, queue, QueueEvent.FREED)
