"""Next: from ready queues to leases.

A ready queue gets a lease when its host is free and rested and robots.txt allows
its head. Where nothing is ready, an inactive queue is made active (T3). What one
operation may clear away (forbidden or failed heads) is bounded; a queue with more
goes back in line.
"""

from . import assign, keys
from .authority import Gate, gate
from .canonical import CanonicalUri, canonical
from .conclusion import Final, conclude
from .crawl import Crawl, Operation
from .disposition import ROBOTS_PRECLUDED, ROBOTS_PREREQUISITE_FAILURE, Disposition
from .errors import StoreCorrupt
from .host import MAX_IN_FLIGHT, Host, Hosts, rest_until
from .leases import Lease, LeaseTable
from .model import Candidate, CandidateCodec, EmptyReason, Grant
from .queue import QueueEvent, WorkQueue
from .records import LeaseRow, PendingUri, decode_pending, encode
from .robots_table import RobotsTable, key_of
from .store import Family

CLEARING_PER_CALL = 200  # heads that may be cleared away, rules that are heavy counting more
WEIGHT_PER_CLEARING = 100
LEASES_PER_CALL = 100  # an answer has no more
TURNS_PER_CALL = 500  # queues that may be looked at beyond the leases wanted
WAKES_PER_CALL = 1000


class Dispatcher:
    """What giving out leases needs, beside the crawl."""

    def __init__(self, hosts: Hosts, robots: RobotsTable, leases: LeaseTable, codec: CandidateCodec) -> None:
        self.hosts = hosts
        self.robots = robots
        self.leases = leases
        self.codec = codec

    def lease(
        self, op: Operation, crawl: Crawl, node: str, session: str, most: int
    ) -> tuple[list[Grant], bool]:
        """Up to `most` leases of a crawl that runs, and whether to ask again at once."""
        wake_due(op, crawl)
        most = min(most, LEASES_PER_CALL)
        grants: list[Grant] = []
        share = _Share(CLEARING_PER_CALL, TURNS_PER_CALL + most)
        while len(grants) < most and share.left() and not document_limit_reached(crawl):
            if not crawl.ready and not op.activate(crawl):
                return grants, False
            share.turns -= 1
            grant = self._turn(op, crawl, crawl.ready.popleft(), node, session, share)
            if grant is not None:
                grants.append(grant)
        return grants, len(grants) < most and not document_limit_reached(crawl)

    def _turn(
        self, op: Operation, crawl: Crawl, queue: WorkQueue, node: str, session: str, share: "_Share"
    ) -> Grant | None:
        """A ready queue's turn: a lease, or None once it has gone where it belongs."""
        row = queue.row
        if row.count == 0:
            op.move(crawl, queue, QueueEvent.DRAINED)
            return None
        host = self.hosts.get(op.tx, row.host)
        if host.in_flight >= MAX_IN_FLIGHT:
            host.waiting.append(queue)
            return None
        until_ms, reason = rest_until(queue, host)
        if until_ms > op.now_ms:
            op.move(crawl, queue, QueueEvent.RESTED, until_ms, reason)
            return None
        while row.count and share.clearings > 0:
            suffix, pending = head(op, crawl, queue)
            candidate = self.codec.decode(pending.candidate)
            uri = canonical(candidate.uri)
            key = key_of(uri.scheme, uri.host, uri.authority, crawl.settings)
            robots = self.robots.row(op.tx, key)
            match gate(robots, op.now_ms, crawl.settings.robots):
                case Gate.FETCH:
                    attempt = robots.attempts + 1 if robots else 1
                    lease = LeaseRow(
                        node,
                        session,
                        queue.queue,
                        suffix,
                        assign.hash64_bytes(key),
                        attempt,
                        op.now_ms,
                        uri.scheme,
                        uri.authority,
                    )
                    address = f"{uri.scheme}://{uri.authority}/robots.txt"
                    return self._grant(op, crawl, queue, host, lease, candidate, address)
                case Gate.WAIT:
                    assert robots is not None
                    op.move(
                        crawl,
                        queue,
                        QueueEvent.RESTED,
                        robots.next_try_ms,
                        f"its robots.txt ({robots.fetch_status})",
                    )
                    return None
                case Gate.FAIL:
                    status = robots.fetch_status if robots else 0
                    share.clearings -= 1
                    self._clear(
                        op, crawl, queue, uri, candidate, ROBOTS_PREREQUISITE_FAILURE, (f"robots:{status}",)
                    )
                case Gate.OPEN:
                    rules = self.robots.rules(op.tx, key)
                    if rules.allows(uri.target):
                        lease = LeaseRow(
                            node,
                            session,
                            queue.queue,
                            suffix,
                            pending.subject,
                            pending.attempts + 1,
                            op.now_ms,
                        )
                        return self._grant(op, crawl, queue, host, lease, candidate, uri.uri)
                    share.clearings -= 1 + rules.weight // WEIGHT_PER_CLEARING
                    self._clear(op, crawl, queue, uri, candidate, ROBOTS_PRECLUDED)
        crawl.ready.append(queue)
        return None

    def _clear(
        self,
        op: Operation,
        crawl: Crawl,
        queue: WorkQueue,
        uri: CanonicalUri,
        candidate: Candidate,
        status: int,
        annotations: tuple[str, ...] = (),
    ) -> None:
        """Give a queue's head its final disposition without fetching it."""
        suffix, pending = head(op, crawl, queue)
        disposition = Disposition.DISREGARDED if status == ROBOTS_PRECLUDED else Disposition.FAILED
        final = Final(status, disposition, uri.uri, candidate, annotations=annotations)
        conclude(op, crawl, queue, suffix, pending, final)

    def _grant(
        self,
        op: Operation,
        crawl: Crawl,
        queue: WorkQueue,
        host: Host,
        row: LeaseRow,
        candidate: Candidate,
        address: str,
    ) -> Grant:
        counters = op.counters(crawl)
        serial = counters.next_lease
        counters.next_lease += 1
        hard_ms = op.now_ms + self.leases.longest_ms(crawl.settings.fetch)
        lease = Lease(crawl.number, serial, row, op.now_ms + self.leases.period_ms, hard_ms)
        op.tx.put(Family.LEASES, keys.lease_key(crawl.number, queue.partition, serial), encode(row))
        token = self.leases.add(lease)
        note_out(crawl, queue, host, lease)
        op.move(crawl, queue, QueueEvent.LEASED)
        return Grant(
            token,
            crawl.name,
            address,
            lease.robots,
            candidate,
            row.attempt,
            queue.row.key,
            lease.deadline_ms,
            crawl.policy.policy_id,
        )


class _Share:
    """What is left of one call's share of work."""

    __slots__ = ("clearings", "turns")

    def __init__(self, clearings: int, turns: int) -> None:
        self.clearings = clearings
        self.turns = turns

    def left(self) -> bool:
        return self.clearings > 0 and self.turns > 0


def note_out(crawl: Crawl, queue: WorkQueue, host: Host, lease: Lease) -> None:
    """Count a lease that is out."""
    queue.leases_out += 1
    host.in_flight += 1
    crawl.leases_out += 1
    if not lease.robots:
        crawl.pages_out += 1


def document_limit_reached(crawl: Crawl) -> bool:
    """Whether successes and leases out fill the document limit."""
    most = crawl.settings.limits.max_documents
    return bool(most) and crawl.counters.succeeded + crawl.pages_out >= most


def wake_due(op: Operation, crawl: Crawl) -> None:
    """Make the queues ready whose time has come (T13)."""
    for _ in range(WAKES_PER_CALL):
        queue = crawl.next_wake()
        if queue is None or queue.wake_ms > op.now_ms:
            return
        op.move(crawl, queue, QueueEvent.WOKEN)


def head(op: Operation, crawl: Crawl, queue: WorkQueue) -> tuple[bytes, PendingUri]:
    """The first URI of a queue that has one."""
    prefix = keys.queue_row_key(crawl.number, queue.queue)
    for key, value in op.tx.scan(Family.PENDING, prefix + queue.row.head, prefix):
        queue.first = key[len(prefix) :]
        return queue.first, decode_pending(value)
    raise StoreCorrupt(
        f"queue {queue.row.key!r} counts {queue.row.count} URIs; none is stored behind its head"
    )


def empty_reason(crawl: Crawl) -> EmptyReason:
    """Why a crawl gives no leases now."""
    state = crawl.state.value
    if state in ("NASCENT", "PREPARING"):
        return EmptyReason.NOT_RUNNING
    if state in ("PAUSING", "PAUSED"):
        return EmptyReason.PAUSED
    if state in ("STOPPING", "FINISHED"):
        return EmptyReason.FINISHED
    return EmptyReason.LIMIT_REACHED if document_limit_reached(crawl) else EmptyReason.NOTHING_DUE
