"""Makes leases: of a queue's head, or of the robots.txt that it waits for."""

from typing import NamedTuple

from ..opening.shard import Shard
from ..rows import keys
from ..rows.records import LeaseRow, SeenRow, decode
from ..rows.store import Family
from ..rules.politeness import rest_after
from ..state.attendance import record_bound
from ..state.model import Grant
from ..state.queue import QueueEvent, QueueState
from .turn import Turn


class Asker(NamedTuple):
    """The node that asks for leases, and its session."""

    node: str
    session: str
    bound: bool = False  # whether its caller may act on some crawls only


class Granting:
    """Leases the heads of a shard's queues."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def page(self, turn: Turn, asker: Asker) -> Grant:
        """Lease the head."""
        pending = turn.head.pending
        row = LeaseRow(
            asker.node,
            asker.session,
            queue=turn.queue.queue,
            position=turn.head.position,
            fingerprint=pending.fingerprint,
            attempt=pending.attempts + 1,
            lease_ms=turn.op.now_ms,
            bound=asker.bound,
            cost=pending.cost,
            known=turn.crawl.revisits(turn.head.candidate),
        )
        return self._grant(turn, row, turn.head.uri.uri, _last_visit(turn))

    def robots_txt(self, turn: Turn, asker: Asker, attempt: int) -> Grant | None:
        """Lease the robots.txt that the head waits for, or wait in line if it is leased already."""
        crawl, uri = turn.crawl, turn.head.uri
        if turn.awaits_robots:
            crawl.queues.lines.join(self._shard.hosts.robots_of(crawl, uri.scheme, uri.authority), turn.queue)
            return None
        row = LeaseRow(
            asker.node,
            asker.session,
            queue=turn.queue.queue,
            position=turn.head.position,
            fingerprint=crawl.places.of_host(uri.host),
            attempt=attempt,
            lease_ms=turn.op.now_ms,
            bound=asker.bound,
            scheme=uri.scheme,
            authority=uri.authority,
        )
        return self._grant(turn, row, f"{uri.origin}/robots.txt", _NEVER)

    def _grant(self, turn: Turn, row: LeaseRow, address: str, visit: SeenRow) -> Grant:
        op, crawl, queue, head = turn.op, turn.crawl, turn.queue, turn.head
        if row.bound:
            record_bound(op, crawl)
        if head.settings.fetch.keep_alive and not head.settings.fetch.proxy:
            queue.last_node, queue.last_lease_ms = row.node, op.now_ms
        lease = self._shard.ledger.begin(op, crawl, queue, head, turn.host, turn.groups, row)
        if head.settings.politeness.max_parallel > 1:
            self._rest_between_starts(turn)
        for group in turn.groups:
            if group.min_gap_ms:
                group.host.row.next_allowed_ms = op.now_ms + group.min_gap_ms
                self._shard.hosts.put(op.tx, group.host)
        if queue.state is QueueState.READY:
            op.move(crawl, queue, QueueEvent.LEASED)
        conditional = head.settings.revisit.conditional
        launch_ms = crawl.state_row.launch_ms
        policy = crawl.policies.of(head.settings, head.uri, crawl.settings, launch_ms)
        return Grant(
            lease.sent,
            crawl=crawl.name,
            uri=address,
            robots=lease.robots,
            candidate=head.candidate,
            attempt=row.attempt,
            queue_key=queue.row.key,
            expire_ms=lease.deadline_ms,
            fetch_policy_id=policy.policy_id,
            source=head.source,
            etag=visit.etag if conditional else "",
            last_modified=visit.last_modified if conditional else "",
            last_digest=visit.digest,
            redirects=b"" if lease.robots else self._shard.leases.chain(lease, head, op.now_ms),
            capture_ms=visit.capture_ms,
            capture_uri=(visit.capture_uri or address) if visit.capture_ms else "",
            versions=self._shard.versions_of(crawl),
        )

    def _rest_between_starts(self, turn: Turn) -> None:
        """Rest between the starts of requests, for a host that may get several at once.

        The length of the rest depends on the last fetch; until the first one ends, the shortest rest applies.
        """
        op, crawl, row = turn.op, turn.crawl, turn.host.row
        settings, hosts = turn.head.settings, self._shard.hosts
        row.start_ms = op.now_ms
        shared, own = self._shard.crawl_delays(op.tx, crawl, turn.site.robots_key, settings)
        rest = rest_after(row.duration_ms, shared, settings.politeness, row.strain)
        row.next_allowed_ms, row.rest_reason = op.now_ms + rest.ms, rest.reason
        hosts.put(op.tx, turn.host)
        if own > shared:
            rest = rest_after(row.duration_ms, own, settings.politeness, row.strain)
            hosts.rest_alone(op.tx, crawl, turn.head.uri.host, turn.host, op.now_ms + rest.ms, rest.reason)


_NEVER = SeenRow(b"")


def _last_visit(turn: Turn) -> SeenRow:
    """The validators and digest of the last visit, for a conditional request."""
    pending = turn.head.pending
    if not pending.visited:
        return _NEVER
    key = keys.seen_key(turn.crawl.number, turn.queue.partition, pending.fingerprint)
    value = turn.op.tx.get(Family.SEEN, key)
    return _NEVER if value is None else decode(SeenRow, value)
