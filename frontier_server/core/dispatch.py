"""Next: from ready queues to leases.

A ready queue gets a lease when its host and groups are free and rested, its budgets and
quotas are not spent, and robots.txt allows its head. Where nothing is ready, an inactive
queue is made active (T3). What one operation may clear away (heads that are forbidden,
failed or moved) is bounded; a queue with more goes back in line.
"""

from functools import partial

from . import future, keys, statistics
from .attendance import join
from .conclusion import Final, conclude
from .crawl import Crawl
from .enqueue import first_uri, put_in, queue_at, take_out, uris_from
from .errors import StoreCorrupt
from .head import Head, read_head
from .host import Group, Host, Hosts, full, rest_of
from .keys import IndexSet
from .leases import Lease, LeaseTable
from .line import Awaited
from .model import CandidateCodec, EmptyReason, Grant
from .operation import Operation, is_ineligible
from .origin import Site
from .passing import Wait, Walk, shares
from .queue import QueueEvent, QueueState, WorkQueue
from .records import LeaseRow, PendingUri, QueueRow, SeenRow, decode, encode
from .robotstxt.authority import Gate, standing
from .robotstxt.robots_table import RobotsTable
from .rules.disposition import (
    BLOCKED_BY_QUOTA,
    ROBOTS_PRECLUDED,
    ROBOTS_PREREQUISITE_FAILURE,
    Disposition,
)
from .rules.politeness import rest_ms
from .spec.settings import CrawlSettings, QueueSettings
from .store import Family
from .uri.assign import partition_of
from .uri.canonical import CanonicalUri

CLEARING_PER_CALL = 200  # heads that may be cleared away, rules that are heavy counting more
WEIGHT_PER_CLEARING = 100
LEASES_PER_CALL = 100  # an answer has no more
TURNS_PER_CALL = 100  # queues that may be looked at beyond the leases wanted
WAKES_PER_CALL = 1000
MAX_KEPT_BYTES = 4096  # of a candidate that memory keeps while it is out
FAR_WAKES_PER_CALL = 200


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
        self.wake_due(op, crawl)
        most = min(most, LEASES_PER_CALL)
        grants: list[Grant] = []
        share = _Share(CLEARING_PER_CALL, TURNS_PER_CALL + most)
        while len(grants) < most and share.left() and not limited(crawl):
            queue, awaited = crawl.lines.take() or (_next_ready(op, crawl), None)
            if queue is None:
                return grants, False
            share.turns -= 1
            grant = self._turn(op, crawl, queue, awaited, node, session, share)
            if grant is not None:
                grants.append(grant)
        return grants, len(grants) < most and not limited(crawl)

    def wake_due(self, op: Operation, crawl: Crawl) -> None:
        """Make the queues ready whose time has come (T13), and queue URIs whose time has come."""
        op.look_at(crawl)
        for _ in range(WAKES_PER_CALL):
            queue = crawl.next_wake()
            if queue is None or queue.wake_ms > op.now_ms:
                break
            op.wake(crawl, queue)
        crawl.lines.open_due(op.now_ms)
        _wake_far(op, crawl)
        future.release_due(op, crawl, self.codec)

    def _turn(
        self,
        op: Operation,
        crawl: Crawl,
        queue: WorkQueue,
        awaited: Awaited | None,
        node: str,
        session: str,
        share: "_Share",
    ) -> Grant | None:
        """A ready queue's turn: a lease, or None once it has gone where it belongs.

        `awaited` is what it was in line for, if it was.
        """
        row = queue.row
        if awaited is not None:
            _wake_in_line(op, crawl, queue)
        if queue.state is not QueueState.READY:
            return None  # it has been taken elsewhere since (T5)
        if row.count == 0:
            op.move(crawl, queue, QueueEvent.DRAINED)
            return None
        while row.count and share.clearings > 0:
            head = self._first_to_go(op, crawl, queue, awaited, share)
            if head is None:
                return None
            free = self._free(op, crawl, queue, awaited, head)
            if free is None:
                return None
            host, groups = free
            spent = over_quota(op, crawl, head)
            if spent is not None and head.settings.limits.fail_over_quota:
                share.clearings -= 1
                _clear(op, crawl, queue, head, BLOCKED_BY_QUOTA, f"quota:{spent.field}")
                continue
            if self._sent_away(op, crawl, queue, head, spent):
                return None
            site = crawl.origins.site(head.uri, head.settings)
            if site.place.queue != queue.queue:
                self._move(op, crawl, queue, head, site)
                share.clearings -= 1
                continue
            key = site.robots_key
            robots = self.robots.row(op.tx, key)
            its = standing(robots, op.now_ms, head.settings.robots, robots_tried_ms(row, head.uri))
            match its.gate:
                case Gate.FETCH:
                    lease = self._robots_lease(op, queue, head, its.tries, node, session)
                    if self.leases.robots_out(crawl.number, lease.scheme, lease.authority):
                        # Another queue of the host has it fetched.
                        crawl.lines.join(self.hosts.robots_of(crawl, lease.scheme, lease.authority), queue)
                        return None
                    address = f"{head.uri.origin}/robots.txt"
                    return self._grant(op, crawl, queue, host, groups, lease, head, address)
                case Gate.WAIT:
                    assert robots is not None
                    reason = f"its robots.txt ({robots.fetch_status})"
                    op.move(crawl, queue, QueueEvent.RESTED, its.next_try_ms, reason)
                    return None
                case Gate.FAIL:
                    why = f"robots:{robots.fetch_status if robots else 0}"
                    share.clearings -= 1
                    _clear(op, crawl, queue, head, ROBOTS_PREREQUISITE_FAILURE, why)
                case Gate.OPEN:
                    rules = self.robots.rules(op.tx, key)
                    if rules.allows(head.uri.target):
                        lease = _page_lease(op, queue, head, node, session)
                        return self._grant(op, crawl, queue, host, groups, lease, head, head.uri.uri)
                    share.clearings -= 1 + rules.weight // WEIGHT_PER_CLEARING
                    _clear(op, crawl, queue, head, ROBOTS_PRECLUDED)
        crawl.ready.append(queue)
        return None

    def _first_to_go(
        self, op: Operation, crawl: Crawl, queue: WorkQueue, awaited: Awaited | None, share: "_Share"
    ) -> Head | None:
        """A queue's head, or what may pass it where several hosts share the queue.

        None if all must wait: the queue rests then, or is in line. Or if the call's share is used up.
        """
        head = self.head(op, crawl, queue)
        if not shares(head.settings) or (queue.passing is None and self.wait(op, crawl, queue, head) is None):
            return head

        def wait_of(found: Head) -> Wait | None:
            return self.wait(op, crawl, queue, found)

        read = partial(read_head, crawl, self.codec)
        walk = Walk(partial(uris_from, op, crawl, queue), read, _origin, wait_of)
        passing, wait, looked = walk.choose(queue, op.now_ms, share.clearings)
        share.clearings -= looked
        if wait is not None:
            if wait.until_ms:
                op.move(crawl, queue, QueueEvent.RESTED, wait.until_ms, wait.reason)
            if wait.busy is not None:  # though it is snoozed, perhaps, for others of its hosts
                _wait_for(crawl, queue, wait.busy, awaited)
        elif passing is None:
            crawl.ready.append(queue)
        return passing

    def wait(self, op: Operation, crawl: Crawl, queue: WorkQueue, head: Head) -> Wait | None:
        """What the authority of a URI waits for, in a queue that several hosts share; None if for nothing."""
        uri, settings = head.uri, head.settings
        host = self.hosts.of(op.tx, crawl, uri.host)
        groups = self.hosts.groups(op.tx, crawl, uri.host, host)
        busy = full(host, settings.politeness.max_parallel, groups)
        if busy is not None:
            return Wait(0, busy=busy)
        rest = rest_of(queue, host, groups)
        own = self.hosts.authority(op.tx, crawl, uri.scheme, uri.authority).row
        waits = [Wait(rest.until_ms, rest.reason)]
        if own.start_ms > queue.row.woken_ms:
            waits.append(Wait(own.next_allowed_ms, own.rest_reason))
        longest = max(waits, key=lambda each: each.until_ms)
        if longest.until_ms > op.now_ms:
            return longest
        robots = self.robots.row(op.tx, crawl.origins.site(uri, settings).robots_key)
        its = standing(robots, op.now_ms, settings.robots, robots_tried_ms(queue.row, uri))
        if its.gate is Gate.WAIT and robots is not None:
            return Wait(its.next_try_ms, f"its robots.txt ({robots.fetch_status})")
        if its.gate is Gate.FETCH and self.leases.robots_out(crawl.number, uri.scheme, uri.authority):
            return Wait(0, busy=self.hosts.robots_of(crawl, uri.scheme, uri.authority))
        return None

    def _free(
        self, op: Operation, crawl: Crawl, queue: WorkQueue, awaited: Awaited | None, head: Head
    ) -> tuple[Host, list[Group]] | None:
        """The host of a queue's head, and its groups; None if they are busy or rest, and the queue waits."""
        if queue.row.host != head.uri.host:
            op.counters(crawl)
            op.touch(queue).host = head.uri.host
        host = self.hosts.of(op.tx, crawl, head.uri.host)
        groups = self.hosts.groups(op.tx, crawl, head.uri.host, host)
        busy = full(host, head.settings.politeness.max_parallel, groups)
        if busy is not None:
            _wait_for(crawl, queue, busy, awaited)
            return None
        rest = rest_of(queue, host, groups)
        if rest.until_ms <= op.now_ms:
            return host, groups
        if rest.host is not None and (rest.host is awaited or rest.host.has_line(crawl.number)):
            _wait_for(crawl, queue, rest.host, awaited, rest.until_ms)
        else:
            if rest.host is not None:
                rest.host.sleepers[crawl.number] = queue
            op.move(crawl, queue, QueueEvent.RESTED, rest.until_ms, rest.reason)
        return None

    def head(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> Head:
        """The first URI of a queue that has one."""
        return read_head(crawl, self.codec, *first_uri(op, crawl, queue))

    def head_at(self, op: Operation, crawl: Crawl, queue: WorkQueue, position: bytes) -> Head:
        """A URI at its place in a queue, as if it were the first."""
        position, pending = next(uris_from(op, crawl, queue, position))
        return read_head(crawl, self.codec, position, pending)

    def settings_of(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> CrawlSettings:
        """The settings of a queue as a whole: those of its head."""
        if not len(crawl.overrides) or not queue.row.count:
            return crawl.settings
        return self.head(op, crawl, queue).settings

    def _sent_away(
        self, op: Operation, crawl: Crawl, queue: WorkQueue, head: Head, spent: statistics.Spent | None
    ) -> bool:
        """Whether a queue's precedence, budgets or quota end its turn; it has gone where it belongs."""
        settings, row = head.settings.queues, queue.row
        op.appraise(crawl, queue, settings)
        if is_ineligible(queue, settings):
            op.move(crawl, queue, QueueEvent.BECAME_INELIGIBLE)
            return True
        reason = retire_reason(row, settings) or (spent.message if spent is not None else "")
        if reason:
            op.touch(queue).retire_reason = reason
            op.move(crawl, queue, QueueEvent.RETIRED)
            return True
        if session_spent(row, settings):
            op.move(crawl, queue, QueueEvent.YIELDED)  # T7
            return True
        return False

    def _move(self, op: Operation, crawl: Crawl, queue: WorkQueue, head: Head, site: Site) -> None:
        """Put the head into the queue that it belongs to by now (S3.12, T9)."""
        take_out(op, crawl, queue, head.position, head.pending)
        other = queue_at(op, crawl, site.place, head.uri.host)
        arriving = (head.pending, head.candidate.directive)
        (position,) = put_in(op, crawl, other, (arriving,), head.settings)
        key = keys.seen_key(crawl.number, queue.partition, head.pending.fingerprint)
        value = op.tx.get(Family.SEEN, key)
        seen = decode(SeenRow, value) if value is not None else SeenRow(b"")
        seen.position, seen.queue = position, other.queue[8:]
        op.tx.put(Family.SEEN, key, encode(seen))
        op.counters(crawl).relocated += 1

    def _robots_lease(
        self,
        op: Operation,
        queue: WorkQueue,
        head: Head,
        tries: int,
        node: str,
        session: str,
    ) -> LeaseRow:
        return LeaseRow(
            node,
            session,
            queue.queue,
            head.position,
            partition_of(head.uri.host),
            tries + 1,
            op.now_ms,
            head.uri.scheme,
            head.uri.authority,
        )

    def _start(self, op: Operation, crawl: Crawl, host: Host, head: Head) -> None:
        """Keep the rest between the starts of requests to a host that may answer several at once.

        The last fetch tells how long it is; before the first one has ended, the least rest counts.
        """
        row, politeness = host.row, head.settings.politeness
        key = crawl.origins.site(head.uri, head.settings).robots_key
        crawl_delay_ms = self.robots.rules(op.tx, key).crawl_delay_ms
        row.start_ms = op.now_ms
        row.next_allowed_ms = op.now_ms + rest_ms(row.duration_ms, crawl_delay_ms, politeness)
        row.rest_reason = "politeness"
        self.hosts.put(op.tx, host)

    def _grant(
        self,
        op: Operation,
        crawl: Crawl,
        queue: WorkQueue,
        host: Host,
        groups: list[Group],
        row: LeaseRow,
        head: Head,
        address: str,
    ) -> Grant:
        counters = op.counters(crawl)
        serial = self.leases.serial(counters.next_lease)
        counters.next_lease += 1
        shared = [group.host for group in groups]
        row.host, row.groups = host.name, tuple(each.name for each in shared) if shared else ()
        hard_ms = op.now_ms + self.leases.longest_ms(head.settings.fetch)
        row.hard_ms = hard_ms
        lease = Lease(crawl.number, serial, row, op.now_ms + self.leases.period_ms, hard_ms)
        op.tx.put(Family.LEASES, keys.lease_key(crawl.number, queue.partition, serial), encode(row))
        if len(head.pending.candidate) <= MAX_KEPT_BYTES:
            lease.head = head
        token = self.leases.add(lease)
        if crawl.state_row.nodes.get(row.node) != row.session:
            join(op, crawl, row.node, row.session)
        note_out(crawl, queue, (host, *shared), lease)
        if head.settings.politeness.max_parallel > 1:
            self._start(op, crawl, host, head)
        for group in groups:
            if group.min_gap_ms:
                group.host.row.next_allowed_ms = op.now_ms + group.min_gap_ms
                self.hosts.put(op.tx, group.host)
        op.move(crawl, queue, QueueEvent.LEASED)
        visit = _last_visit(op, crawl, queue, head.pending) if not lease.robots else _NEVER
        candidate = head.candidate
        return Grant(
            token,
            crawl.name,
            address,
            lease.robots,
            candidate,
            row.attempt,
            queue.row.key,
            lease.deadline_ms,
            crawl.policies.of(head.settings, head.uri).policy_id,
            candidate.source or (head.uri.uri if candidate.seed else ""),
            visit.etag,
            visit.last_modified,
            visit.digest,
        )


def _next_ready(op: Operation, crawl: Crawl) -> WorkQueue | None:
    """The ready queue that has waited longest; if there is none, one that becomes active."""
    if not crawl.ready:
        op.activate(crawl)
    return crawl.ready.popleft() if crawl.ready else None


def _wake_in_line(op: Operation, crawl: Crawl, queue: WorkQueue) -> None:
    """Let a queue that was first in line have its turn, though it is snoozed for others of its hosts."""
    if queue.state is QueueState.SNOOZED:
        op.wake(crawl, queue)
        if crawl.ready and crawl.ready[-1] is queue:
            crawl.ready.pop()  # this is its turn


def _wait_for(
    crawl: Crawl, queue: WorkQueue, host: Awaited, awaited: Awaited | None, until_ms: int = 0
) -> None:
    """Let a queue wait in line for a host or a group that is busy, or rests until a time."""
    was_first = host is awaited
    crawl.lines.join(host, queue, first=was_first)
    if was_first or until_ms:
        crawl.lines.close(host, until_ms)


def _origin(head: Head) -> str:
    return head.uri.origin


class _Share:
    """What is left of one call's share of work."""

    __slots__ = ("clearings", "turns")

    def __init__(self, clearings: int, turns: int) -> None:
        self.clearings = clearings
        self.turns = turns

    def left(self) -> bool:
        return self.clearings > 0 and self.turns > 0


_NEVER = SeenRow(b"")


def _last_visit(op: Operation, crawl: Crawl, queue: WorkQueue, pending: PendingUri) -> SeenRow:
    """What the server said at the last visit, for a conditional request."""
    if not pending.visited:
        return _NEVER
    value = op.tx.get(Family.SEEN, keys.seen_key(crawl.number, queue.partition, pending.fingerprint))
    return _NEVER if value is None else decode(SeenRow, value)


def _page_lease(op: Operation, queue: WorkQueue, head: Head, node: str, session: str) -> LeaseRow:
    pending = head.pending
    return LeaseRow(
        node, session, queue.queue, head.position, pending.fingerprint, pending.attempts + 1, op.now_ms
    )


def _clear(op: Operation, crawl: Crawl, queue: WorkQueue, head: Head, status: int, *annotations: str) -> None:
    """Give a queue's head its final disposition without fetching it."""
    disposition = Disposition.DISREGARDED if status == ROBOTS_PRECLUDED else Disposition.FAILED
    final = Final(status, disposition, head.uri, head.candidate, annotations=annotations)
    op.touch(queue).robots_of = ""
    conclude(op, crawl, queue, head.position, head.pending, final, head.settings)


def robots_tried_ms(row: QueueRow, uri: CanonicalUri) -> int:
    """When the last try began to fetch the robots.txt of a queue's head for it; 0 if there was none."""
    return row.robots_ms if row.robots_of == uri.origin else 0


def retire_reason(row: QueueRow, settings: QueueSettings) -> str:
    """Why a queue is to be retired at its turn; empty if it is not (T8, T12)."""
    if settings.retire:
        return "its settings retire it"
    budget = settings.total_budget if row.total_budget is None else row.total_budget
    if budget >= 0 and row.expenditure >= budget:
        return f"total budget {budget} spent"
    return ""


def session_spent(row: QueueRow, settings: QueueSettings) -> bool:
    """Whether a queue has spent its session's budget (T7: strictly more than that)."""
    budget = settings.session_budget if row.session_budget is None else row.session_budget
    return budget > 0 and row.expenditure - row.session_start > budget


def over_quota(op: Operation, crawl: Crawl, head: Head) -> statistics.Spent | None:
    """Which quota is spent for a queue's head, if one is."""
    candidate = head.candidate
    source = candidate.source or (head.uri.uri if candidate.seed else "")
    return statistics.over_quota(op.tx, crawl, head.settings, head.uri.host, source)


def note_out(crawl: Crawl, queue: WorkQueue, hosts: tuple[Host, ...], lease: Lease) -> None:
    """Count a lease that is out."""
    queue.leases_out += 1
    for host in hosts:
        host.in_flight += 1
    crawl.leases_out += 1
    if not lease.robots:
        crawl.pages_out += 1


def limited(crawl: Crawl) -> bool:
    """Whether what is out fills a limit of the crawl."""
    return crawl.full or document_limit_reached(crawl)


def document_limit_reached(crawl: Crawl) -> bool:
    """Whether successes and leases out fill the document limit."""
    most = crawl.settings.limits.max_documents
    return bool(most) and crawl.counters.succeeded + crawl.pages_out >= most


def _wake_far(op: Operation, crawl: Crawl) -> None:
    """Wake queues that were snoozed on disk."""
    if crawl.first_far_ms is None or crawl.first_far_ms > op.now_ms:
        return
    prefix = keys.set_prefix(crawl.number, IndexSet.FAR)
    due: list[bytes] = []
    crawl.first_far_ms = None
    for key, _ in op.tx.scan(Family.INDEX, max(prefix, crawl.far_head), prefix):
        crawl.far_head = key
        if keys.due_of(key) > op.now_ms or len(due) == FAR_WAKES_PER_CALL:
            crawl.first_far_ms = keys.due_of(key)
            break
        due.append(key)
    for key in due:
        queue = op.queue(crawl, key[-16:])
        if queue is None:
            raise StoreCorrupt(f"crawl {crawl.name}: snoozed queue {key.hex()} has no row")
        op.wake(crawl, queue)


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
