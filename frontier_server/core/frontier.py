"""The door for nodes and feeders: URIs in, leases out, reports in.

Every operation returns *(answer, changes)*; `shard` says what the caller must do with the changes.
"""

from collections.abc import Callable, Sequence
from itertools import chain, islice

from .journey.dispatch import BYTES_PER_CALL, Dispatcher, Want, size_of
from .journey.grants import Asker
from .journey.intake import schedule
from .journey.named_queues import check_few
from .journey.reports import Reports, anybody
from .journey.withdrawal import Withdrawal
from .machines.lifecycle import CrawlState
from .opening import troubles
from .opening.shard import Shard
from .rows import errors
from .rows.store import Changes
from .state import life
from .state.agenda import empty_reason
from .state.fetch_policy import FetchPolicy
from .state.kinds import Kinds, check_kinds, serves
from .state.model import (
    CRAWL_NAME,
    CRAWL_NAME_FORM,
    MAX_BATCH,
    MAX_NODE_CHARACTERS,
    NO_VERSIONS,
    Candidate,
    EmptyReason,
    HeartbeatAnswer,
    NextAnswer,
    PoolStatistics,
    Report,
    ReportResult,
    Verdict,
    Versions,
)
from .state.operation import Operation

MAX_QUEUES_WANTED = 100
MAX_TOKENS = 10_000  # of a heartbeat; nodes hold fewer leases
MAX_IDLE_CRAWLS = 100  # of a heartbeat
MOST_EXPECTED = 10  # crawls of which the nodes are looked up that should ask first
MAX_BEHIND = 200.0  # leases by weight that a crawl may catch up on
LAPSED_IN_ONE_CALL = 1000
MIN_RETRY_MS, OTHER_RETRY_MS, MAX_RETRY_MS = 50, 2_000, 60_000
LONG_WAIT_MS = 1_000
# If no crawl runs, a node that asks for any crawl gets the first of these reasons that applies.
_MOST_TELLING = (
    EmptyReason.NOTHING_DUE,
    EmptyReason.LIMIT_REACHED,
    EmptyReason.PAUSED,
    EmptyReason.NOT_RUNNING,
)


class Frontier:
    """Requests of nodes and feeders."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._dispatcher = Dispatcher(shard)
        self._reports = Reports(shard)
        self._withdrawal = Withdrawal(shard)
        self._most_passed = 0.0  # the highest `passed` of any crawl

    def schedule(
        self,
        name: str,
        candidates: Sequence[Candidate],
        now_ms: int,
        replace: bool = False,
        anew: bool = False,
    ) -> tuple[list[Verdict], Changes]:
        """Take in candidates. The caller slices batches: one call handles all that it gets.

        With `replace` they replace what the crawl has of their URIs; `anew` says that they are the seeds of a
        round.
        """
        crawl = self._shard.registry.unfinished(name)
        op = self._shard.begin(now_ms)
        crawl.intakes += 1
        withdraw = self._withdrawal.withdraw if replace else None
        offered = [self._not_ahead(candidate, op.now_ms) for candidate in candidates]
        verdicts = schedule(op, crawl, offered, self._shard.robots, self._shard.leases, anew, withdraw)
        return verdicts, self._shard.end(op)

    def _not_ahead(self, candidate: Candidate, now_ms: int) -> Candidate:
        """A candidate whose time of refetching is not ahead of our clock. Otherwise what several of them
        redirect to would be fetched again for each."""
        before_ms = candidate.refetch_before_ms
        if before_ms is None or before_ms <= now_ms:
            return candidate
        return self._shard.codec.refetched(candidate, now_ms)

    def next(
        self, node: str, session: str, want: Want, name: str | None, now_ms: int, bound: bool = False
    ) -> tuple[NextAnswer, Changes]:
        """Lease URIs to a node, from one crawl or from any running crawl.

        Its caller is `bound` if it may act on some crawls only: what it says of hosts counts for them alone.
        """
        check_node(node, session)
        check_want(want, name)
        crawl = self._shard.registry.named(name) if name else None
        if crawl is not None:
            for key in want.queues:
                check_few(self._shard.store, crawl, key, "queues", "name hosts instead")
        op = self._shard.begin(now_ms)
        self._record_seen(op, node, session)
        if crawl is not None:
            if crawl.running and self._shard.trouble is not None:
                op.counters(crawl)  # it is paused as this operation ends
                return NextAnswer([], EmptyReason.PAUSED), self._shard.end(op)
            if not crawl.running:
                return NextAnswer([], empty_reason(crawl)), self._shard.end(op)
            crawl.asked.note(node, want.kinds, op.now_ms)
            if not serves(want.kinds, crawl.kind):
                return NextAnswer([], EmptyReason.OTHER_FETCHER), self._shard.end(op)
            grants, again = self._dispatcher.lease(op, crawl, Asker(node, session, bound), want)
            reason = None if grants else empty_reason(crawl)
            return NextAnswer(grants, reason, again and not grants), self._shard.end(op)
        return self._next_of_any(op, Asker(node, session, bound), want), self._shard.end(op)

    def _next_of_any(self, op: Operation, asker: Asker, want: Want) -> NextAnswer:
        self._shard.registry.asked_of_any.note(asker.node, want.kinds, op.now_ms)
        if not any(of_kind.running for of_kind in self._shard.agenda.served(want.kinds)):
            return NextAnswer([], self._none_runs(want.kinds))
        if self._shard.trouble is not None:
            return NextAnswer([], EmptyReason.PAUSED)  # all are about to pause
        answer = NextAnswer([], None)
        again = False
        agenda = self._shard.agenda
        for freed in (op.looked_at | {crawl.number: crawl for crawl in op.touched}).values():
            if freed.number in self._shard.crawls:
                agenda.note(freed)  # leases that this operation ended leave room
        agenda.come_due(op.now_ms, want.kinds)
        while (crawl := agenda.take_turn(want.kinds)) is not None:
            op.look_at(crawl)  # so that it is noted again
            # A crawl that had no URIs for a while catches up on at most MAX_BEHIND leases.
            crawl.passed = max(crawl.passed, self._most_passed - MAX_BEHIND)
            left = want.most - len(answer.grants)
            queues = len({(grant.crawl, grant.queue_key) for grant in answer.grants})
            if want.most_queues and queues >= want.most_queues:
                break
            wanted = want._replace(most=left, most_queues=max(want.most_queues - queues, 0))
            grants, more = self._dispatcher.lease(op, crawl, asker, wanted, size_of(answer.grants))
            crawl.passed += len(grants) / crawl.settings.weight
            self._most_passed = max(self._most_passed, crawl.passed)
            answer.grants.extend(grants)
            again = again or more
            if len(answer.grants) == want.most or size_of(answer.grants) >= BYTES_PER_CALL:
                break
        if answer.grants:
            return answer
        for touched in op.touched:  # leases that this operation ended leave room in limits
            agenda.note(touched)
        served = self._shard.agenda.served(want.kinds)
        filled = all(len(of_kind.filled) == len(of_kind.running) for of_kind in served)
        return NextAnswer([], EmptyReason.LIMIT_REACHED if filled else EmptyReason.NOTHING_DUE, again)

    def _none_runs(self, kinds: Kinds) -> EmptyReason:
        """Why a fetcher that offers these kinds gets no lease while no crawl runs that it serves."""
        served = self._shard.agenda.served(kinds)
        for reason in _MOST_TELLING:
            if any(of_kind.reasons[reason] for of_kind in served):
                return reason
        return EmptyReason.OTHER_FETCHER if self._shard.agenda.running else EmptyReason.NO_CRAWL

    def finished(
        self,
        received: Sequence[Report],
        node: str,
        session: str,
        now_ms: int,
        speaks_for: Callable[[str], bool] = anybody,
        bound: bool = False,
    ) -> tuple[list[ReportResult], Changes]:
        """Apply reports, if their caller `speaks_for` the nodes whose leases they end.

        `bound` is as in `next`. The caller slices batches.
        """
        check_node(node, session)
        op = self._shard.begin(now_ms)
        self._record_seen(op, node, session)
        results = [self._reports.finished(op, report, speaks_for, bound) for report in received]
        return results, self._shard.end(op)

    def take_back(self, tokens: Sequence[bytes], now_ms: int) -> tuple[None, Changes]:
        """Release leases whose caller disconnected before it received them."""
        op = self._shard.begin(now_ms)
        for token in tokens:
            lease = self._shard.leases.out(token)
            if lease is not None:
                self._reports.release(op, lease)
        return None, self._shard.end(op)

    def heartbeat(
        self,
        node: str,
        session: str,
        tokens: Sequence[bytes],
        toe_steps: Sequence[tuple[str, int]],
        now_ms: int,
        leaving: bool = False,
        pool: PoolStatistics | None = None,
        service_address: str = "",
        trouble: str = "",
        speaks_for: Callable[[str], bool] = anybody,
        idle_crawls: Sequence[str] = (),
        acts_on: Callable[[str], bool] = anybody,
    ) -> tuple[HeartbeatAnswer, Changes]:
        """Extend the leases that a node names; tell it which of them have ended, and which to give up. Tell
        it also which of the crawls that it names have ended.

        Leases of nodes that the caller doesn't speak for count as ended, and so do crawls that it may not act
        on.
        """
        check_node(node, session)
        check_token_count(len(tokens))
        if len(idle_crawls) > MAX_IDLE_CRAWLS:
            raise errors.BatchTooLarge(
                f"a heartbeat must name at most {MAX_IDLE_CRAWLS} idle crawls, got {len(idle_crawls)}",
                limit=str(MAX_IDLE_CRAWLS),
            )
        for place, name in enumerate(idle_crawls):
            if not CRAWL_NAME(name):
                field = f"idle_crawls[{place}]"
                raise errors.InvalidRequest(
                    f"{field} must have {CRAWL_NAME_FORM}, got {name[:80]!r}", field=field
                )
        op = self._shard.begin(now_ms)
        self._record_seen(op, node, session)
        self._shard.leases.nodes.note(node, toe_steps, pool, service_address)
        drain = self._shard.leases.nodes.drains(node)
        rival = self._hear_of_rival(op, node)
        ended_crawls = [name for name in idle_crawls if not acts_on(name) or self._has_ended(name)]
        answer = HeartbeatAnswer([], [], [], self._shard.pool_size_of(node), drain, rival, ended_crawls)
        for token in tokens:
            lease = self._shard.leases.out(token)
            if lease is None or not speaks_for(lease.row.node):
                answer.ended.append(token)
                continue
            self._shard.leases.extend(lease, op.now_ms)
            crawl = self._shard.crawls[lease.crawl]
            if crawl.state_row.interrupt_ms:
                answer.interrupt.append(token)
            elif not crawl.running:
                answer.release.append(token)
        self._hear_of_trouble(op, node, trouble)
        if leaving:
            # The node doesn't know of these leases: the answer to a Next was lost.
            for lease in self._shard.leases.of(node, tokens)[:LAPSED_IN_ONE_CALL]:
                self._reports.release(op, lease)
            self._shard.leases.nodes.leaves(node)
            self._shard.sessions.record_left(op.tx, node, op.now_ms)
            self._shard.reconcile(op)
        return answer, self._shard.end(op)

    def _has_ended(self, name: str) -> bool:
        crawl = self._shard.registry.names.get(name)  # which has none that was torn down
        return crawl is None or crawl.state is CrawlState.FINISHED

    def _hear_of_trouble(self, op: Operation, node: str, trouble: str) -> None:
        """Pause the crawls of a node that cannot continue; resume them when it can, if their specs say so.

        Each trouble pauses only once, so that an operator may resume a crawl in spite of it.
        """
        begins = self._shard.leases.nodes.record_trouble(node, bool(trouble))
        name = f"node:{node}"
        if begins:
            detail = f"node {node}: {trouble[:500]}"
            troubles.begin(
                op,
                self._shard,
                name,
                self._shard.attended_by(node),
                lambda op, crawl: life.pause_for(op, crawl, "node-trouble", detail, name),
            )
        elif not trouble:
            troubles.end(op, self._shard, name)

    def _hear_of_rival(self, op: Operation, node: str) -> str:
        """The session of another process that has a node's name. The crawls that it fetches for are told
        once."""
        if self._shard.leases.nodes.take_new_rival(node):
            detail = f"two processes use the node name {node!r}; each must have a name of its own"
            self._shard.sweep(
                op,
                f"rival of {node}",
                self._shard.attended_by(node),
                lambda op, crawl: op.event(crawl, "problem", kind="node-name", detail=detail),
            )
        return self._shard.leases.nodes.rival_of(node, op.now_ms)

    def _record_seen(self, op: Operation, node: str, session: str) -> None:
        try:
            self._shard.sessions.accept(op.tx, node, session, op.now_ms)
        except errors.SessionSuperseded:
            self._shard.leases.nodes.record_rival(node, session, op.now_ms)
            raise
        before = self._shard.leases.nodes.session_of(node)
        for lease in self._shard.leases.record_seen(node, session, op.now_ms)[:LAPSED_IN_ONE_CALL]:
            self._reports.lapse(op, lease)
        if before is not None and before != session:
            self._shard.reconcile(op)

    def policy(self, name: str, policy_id: str) -> FetchPolicy:
        """A fetch policy of a crawl, by the ID in its leases."""
        return self._shard.registry.named(name).policies.named(policy_id)

    def leasable(self, name: str | None = None, kinds: Kinds = ()) -> bool:
        """Whether fetchers that offer these kinds and wait for a crawl, or for any, should ask again: it may
        have a URI to lease."""
        if name is None:
            return any(of_kind.shared for of_kind in self._shard.agenda.served(kinds))
        crawl = self._shard.registry.names.get(name)
        if crawl is None:
            return True  # to be told that it is gone
        return crawl.number in self._shard.agenda.leasable and serves(kinds, crawl.kind)

    def expected(self, name: str | None, kinds: Kinds) -> list[str]:
        """The nodes that may be connected to the hosts whose URIs are the next to be leased, of a crawl or
        of any, in the order of the hosts. If they ask first, they need no new connections."""
        if name is None:
            shared = chain.from_iterable(
                of_kind.shared.values() for of_kind in self._shard.agenda.served(kinds)
            )
            crawls = list(islice(shared, MOST_EXPECTED))
        else:
            named = self._shard.registry.names.get(name)
            crawls = [] if named is None else [named]
        return [node for crawl in crawls for node in crawl.queues.last_nodes()]

    def versions(self, name: str) -> Versions:
        """The versions of a crawl's scope and memory; empty if there is no such crawl."""
        crawl = self._shard.registry.names.get(name)
        return NO_VERSIONS if crawl is None else self._shard.versions_of(crawl)

    def retry_ms(
        self, name: str | None, kinds: Kinds, answer: NextAnswer, waited_ms: int, now_ms: int
    ) -> int:
        """How long a node that got no lease should wait before it asks again, for one crawl or any."""
        if answer.again:
            return MIN_RETRY_MS
        reason = answer.empty_reason
        if waited_ms >= LONG_WAIT_MS and reason is not EmptyReason.FINISHED:
            return MIN_RETRY_MS  # its next call waits here, too, and gets new URIs at once
        if reason is not EmptyReason.NOTHING_DUE:
            return OTHER_RETRY_MS
        due_ms = self._next_chance_ms(name, kinds)
        if due_ms is None:
            return MAX_RETRY_MS
        return min(max(due_ms - now_ms, MIN_RETRY_MS), MAX_RETRY_MS)

    def _next_chance_ms(self, name: str | None = None, kinds: Kinds = ()) -> int | None:
        """When time alone may next bring a lease, for one crawl or any."""
        chance_ms = (
            self._shard.registry.named(name).next_chance_ms()
            if name
            else self._shard.agenda.next_chance_ms(kinds)
        )
        due = [self._shard.leases.next_deadline_ms(), chance_ms]
        return min((moment for moment in due if moment is not None), default=None)


def check_node(node: str, session: str) -> None:
    """Raise InvalidRequest for a name or a session that no node has."""
    for field, value in (("node", node), ("session", session)):
        if not 0 < len(value) <= MAX_NODE_CHARACTERS:
            raise errors.InvalidRequest(
                f"{field} must have 1 to {MAX_NODE_CHARACTERS} characters, got {len(value)}", field=field
            )


def check_token_count(count: int) -> None:
    """Raise BatchTooLarge for a heartbeat with too many tokens."""
    if count > MAX_TOKENS:
        raise errors.BatchTooLarge(
            f"a heartbeat must have at most {MAX_TOKENS} tokens, got {count}", limit=str(MAX_TOKENS)
        )


def check_want(want: Want, name: str | None) -> None:
    """Raise InvalidRequest for a request for leases that makes no sense."""
    if not 1 <= want.most <= MAX_BATCH:
        raise errors.InvalidRequest(
            f"max_leases must be between 1 and {MAX_BATCH}, got {want.most}", field="max_leases"
        )
    for field, number in (("max_leases_per_queue", want.per_queue), ("max_queues", want.most_queues)):
        if number < 0:
            raise errors.InvalidRequest(f"{field} must be at least 0, got {number}", field=field)
    if len(want.queues) > MAX_QUEUES_WANTED:
        raise errors.InvalidRequest(
            f"queues must have at most {MAX_QUEUES_WANTED} keys or hosts, got {len(want.queues)}",
            field="queues",
        )
    if want.queues and not name:
        raise errors.InvalidRequest("crawl must be set when queues are named, got none", field="crawl")
    check_kinds(want.kinds)
