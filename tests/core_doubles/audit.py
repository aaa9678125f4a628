"""Whether a frontier's memory, its store and a model of it agree, after every step.

Never more leases on a queue, a host or a group than allowed; nothing that was taken in is lost, or
leased before its time; each queue is in exactly one set; what is stored is what is in memory; counts
equal a recount.
"""

from collections import Counter

from core_doubles.codec import PlainCodec
from core_doubles.machine.choices import KINDS
from core_doubles.model import attendance, leasing, life, settling
from core_doubles.model.things import Crawl as CrawlModel
from core_doubles.model.things import Host as HostModel
from core_doubles.model.things import Model, Statistics
from core_doubles.rebuilt import as_rebuilt
from core_doubles.recount import Recount
from core_doubles.rows import rows_of
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus
from frontier_server.core.machines.target import Target
from frontier_server.core.rows.keys import FetchStatisticsOf, IndexSet
from frontier_server.core.rows.records import FetchStatisticsRow
from frontier_server.core.rows.store import Family
from frontier_server.core.state.crawl import Crawl
from frontier_server.core.state.queue import QueueState

Q, S, X, T = QueueState, CrawlState, ExitStatus, Target
ENDS = {
    X.FINISHED,
    X.ABORTED,
    X.FINISHED_DOCUMENT_LIMIT,
    X.FINISHED_DATA_LIMIT,
    X.FINISHED_TIME_LIMIT,
}
# Exit statuses that a state may have, and targets (None: nothing has been asked for).
POSSIBLE: dict[CrawlState, tuple[set[ExitStatus], set[Target | None]]] = {
    S.NASCENT: ({X.CREATED}, {None}),
    S.PREPARING: ({X.RUNNING}, {None}),
    S.RUNNING: ({X.RUNNING}, {T.RUN}),
    S.EMPTY: ({X.RUNNING}, {T.RUN}),
    S.PAUSING: ({X.WAITING_FOR_PAUSE}, {T.PAUSE, T.HOLD}),
    S.PAUSED: ({X.PAUSED}, {T.PAUSE, T.HOLD}),
    S.STOPPING: (ENDS, {T.FINISH}),
    S.FINISHED: (ENDS, {T.FINISH}),
}


class Audit:
    """One comparison of everything with everything."""

    def __init__(self, shell: Shell, model: Model) -> None:
        self.shell = shell
        self.model = model
        self.live = shell.core

    def run(self) -> None:
        """Raise AssertionError at the first contradiction."""
        assert set(self.live.shard.registry.names) == set(self.model.crawls)
        assert set(self.live.shard.registry.torn) == set(self.model.torn_down)
        assert self.live.shard.server.pool_sizes == self.model.pool_sizes
        for crawl in self.live.shard.crawls.values():
            recount = Recount(self.shell, crawl)
            recount.run()
            expected = self.model.crawls[crawl.name]
            self.uris(recount, expected)
            self.queues(recount, expected)
            self.life(crawl, expected)
            self.counts(crawl, expected)
            self.statistics(crawl, expected)
        self.leases()
        self.rests()
        self.wakes()
        as_rebuilt(self.shell)

    # Memory and store against the model.

    def uris(self, recount: Recount, expected: CrawlModel) -> None:
        """Every URI waits where it should, in its order, with its attempts and cost; or is done."""
        codec = PlainCodec()
        stored: dict[bytes, list[tuple[object, ...]]] = {}
        for key, uri in sorted(recount.pending.items()):
            identity = expected.texts[codec.decode(uri.candidate).uri]
            one = identity, uri.attempts, uri.lapses, uri.deferrals, uri.cost, uri.precedence
            stored.setdefault(key[:16], []).append(one)
        for queue in expected.queues.values():
            told = stored.get(queue.id, [])
            wanted = [
                (uri.identity, uri.attempts, uri.lapses, uri.deferrals, uri.cost, uri.precedence)
                for uri in expected.in_order(queue)
            ]
            assert told == wanted, f"what waits in {queue.key}: {told}, not {wanted}"
        future = Counter(row.future_ms for row in recount.seen.values() if row.future_ms)
        assert future == Counter(uri.due_ms for uri in expected.future()), "what waits for its time"
        visits = Counter(row.visits for row in recount.seen.values() if not row.position)
        wanted_visits = Counter(uri.visits for uri in expected.uris.values() if not uri.queued)
        assert visits == wanted_visits, "visits that succeeded"
        assert len(recount.sets[IndexSet.SCOPE]) == len(expected.scope), "hosts in scope"

    def queues(self, recount: Recount, expected: CrawlModel) -> None:
        """Budgets, counts and wishes of operators are kept."""
        for queue, row in recount.queues.items():
            its = expected.queues[queue]
            assert row.key == its.key
            assert row.expenditure == its.expenditure, f"{row.key} has spent {row.expenditure}"
            told = (row.successes, row.failed, row.enqueued)
            assert told == (its.successes, its.failed, its.enqueued), f"statistics of {row.key}"
            wishes = (row.session_budget, row.total_budget, row.fixed_precedence, row.paused, row.retiring)
            wished = (
                its.session_budget,
                its.total_budget,
                its.fixed_precedence,
                its.paused,
                its.retiring,
            )
            assert wishes == wished, f"what is wished of {row.key}"

    def life(self, crawl: Crawl, expected: CrawlModel) -> None:
        """Where a crawl is, where it goes, and how it came there are the model's, and can be."""
        row, status = crawl.state_row, crawl.exit_status
        told = (crawl.state, status, row.reason, row.trouble, row.reach_ms, row.round)
        wanted = (
            expected.state,
            expected.exit_status,
            expected.reason,
            expected.trouble,
            expected.reach_ms,
            expected.round,
        )
        assert told == wanted, f"the crawl's life: {told}, not {wanted}"
        statuses, targets = POSSIBLE[crawl.state]
        assert status in statuses, f"{crawl.state}, {status}"
        assert (crawl.target if row.request else None) in targets, f"{crawl.state}, {crawl.target}"
        assert expected.target in targets and row.answered <= row.request
        assert crawl.held == expected.held and (not crawl.held or crawl.state is S.PAUSED), "held"
        assert (row.interrupt_ms or None) == expected.interrupt_ms, "asked twice for its end"
        assert row.tearing_down == expected.tearing_down and not row.torn_down, "teardown"
        assert list(row.nodes.items()) == list(expected.nodes.items()), "nodes that fetch"
        assert crawl.settings == expected.settings, "settings"
        kept = (crawl.counters.next_outcome - 1, crawl.counters.logged_outcome)
        assert kept == (expected.stored, expected.logged), "outcomes, and those in the crawl log"
        running = (S.RUNNING, S.EMPTY)
        assert self.model.trouble is None or crawl.state not in running, "it runs in spite of trouble"

    def counts(self, crawl: Crawl, expected: CrawlModel) -> None:
        """Statistics are the model's."""
        assert crawl.jobs == [job.number for job in expected.jobs], "jobs in line"
        known = {authority for authority, within in crawl.scope_cache.items() if within}
        assert known <= expected.scope, "hosts that memory takes for in scope"
        answer = self.live.views.statistics(crawl.name, self.shell.now_ms)
        assert answer.elapsed_ms == life.elapsed_ms(self.model, expected), "the crawl's clock"
        statistics = expected.statistics
        retired, ineligible = life.behind(expected)
        expected_counts = {
            "discovered_count": len(expected.uris),
            "queued_count": len(expected.queued()) - retired,
            "leased_count": self.model.leases_of(expected),
            "future_count": len(expected.future()),
            "retired_uri_count": retired,
            "ineligible_uri_count": ineligible,
            "robots_fetch_count": statistics["robots_fetches"],
            "novel_count": statistics["novel"],
            "novel_bytes_count": statistics["novel_bytes"],
            "bytes_count": statistics["bytes"],
            "relocated_count": statistics["relocated"],
            "connection_count": statistics["connections"],
            "tls_handshake_count": statistics["tls_handshakes"],
            "kept_connection_count": statistics["kept_connections"],
        }
        for name in ("succeeded", "failed", "disregarded", "deferred", "lapsed", "noted"):
            expected_counts[f"{name}_count"] = statistics[name]
        # Nothing is crawled again here.
        expected_counts |= {"revisit_count": 0, "revisited_count": 0}
        expected_counts["limited_count"] = expected_counts["succeeded_count"]
        expected_counts["limited_bytes_count"] = expected_counts["bytes_count"]
        wrong = {
            name: (count, expected_counts[name])
            for name, count in answer.counts.items()
            if count != expected_counts[name]
        }
        assert not wrong, f"counts, and what they should be: {wrong}"
        assert answer.fetch_statuses == expected.statuses, "fetch statuses"
        assert answer.verdicts == expected.verdicts, "verdicts"
        states = Counter(queue.state for queue in expected.queues.values())
        assert Counter(answer.queue_states) == states, "queues by state"
        most = crawl.settings.limits.max_documents
        documents = statistics["succeeded"] + self.model.leases_of(expected, robots_too=False)
        most = most and max(most, expected.documents_before)  # lowered, it gives no more
        assert not most or documents <= most, "beyond the document limit"

    def statistics(self, crawl: Crawl, expected: CrawlModel) -> None:
        """What happened to hosts and sources."""
        stored = rows_of(self.shell.store, crawl, Family.FETCH_STATISTICS, FetchStatisticsRow)
        for kind, statistics in (
            (FetchStatisticsOf.HOST, expected.hosts),
            (FetchStatisticsOf.SOURCE, expected.sources),
        ):
            told = {key[9:].decode(): row for key, row in stored.items() if key[0] == kind}
            assert told.keys() == {name for name, one in statistics.items() if one != Statistics()}, kind.name
            for name, row in told.items():
                for field in Statistics.__dataclass_fields__:
                    assert getattr(row, field) == getattr(statistics[name], field), (name, field)

    def leases(self) -> None:
        """Leases count for their queue, host and groups; the limits were judged when they were given."""
        counted: Counter[str] = Counter()
        out: Counter[int] = Counter()
        pages: Counter[int] = Counter()
        queues: Counter[tuple[int, bytes]] = Counter()
        for lease in self.live.shard.leases:
            queues[lease.crawl, lease.row.queue] += 1
            counted.update((lease.row.host, *lease.row.groups))
            out[lease.crawl] += 1
            pages[lease.crawl] += not lease.robots
        assert max(queues.values(), default=0) <= 1, "two leases of a queue"
        expected = Counter(name for lease in self.model.leases.values() for name in lease.hosts)
        assert self.live.shard.hosts.in_flight() == counted == expected, "requests at once"
        for crawl in self.live.shard.crawls.values():
            of_crawl = (out[crawl.number], pages[crawl.number])
            assert (crawl.leases_out, crawl.pages_out) == of_crawl, "leases of a crawl"
        secret = self.live.shard.server.secret
        ends = {lease.token(secret): (lease.deadline_ms, lease.hard_ms) for lease in self.live.shard.leases}
        wanted = self.model.leases.items()
        expected_ends = {token: (lease.deadline_ms, lease.hard_ms) for token, lease in wanted}
        assert ends == expected_ends and self.live.nodes.leases_out == len(ends), "when leases lapse"

    def rests(self) -> None:
        """Hosts, groups and queues rest exactly as long as the model says, and for that many overloads."""
        for name, host in self.live.shard.hosts._hosts.items():
            expected = self.model.hosts.get(name, HostModel())
            told = (host.row.next_allowed_ms, host.row.overloads, host.row.address)
            rests = (expected.rest_ms, expected.overloads, expected.address)
            assert told == rests, f"{name!r} rests until {told}, not {rests}"
        for crawl in self.live.shard.crawls.values():
            its = self.model.crawls[crawl.name].queues
            for queue in crawl.queues.active.values():
                assert queue.row.wake_ms == its[queue.queue].rest_ms, f"{queue.row.key} rests by itself"

    def wakes(self) -> None:
        """Nothing is slept through: the next due time is no later than what the model waits for."""
        due_ms, now_ms = self.live.upkeep.next_due_ms(), self.shell.now_ms
        roused = self.live.frontier.leasable(kinds=KINDS) or (due_ms is not None and due_ms <= now_ms)
        awaited = [("lease", lease.deadline_ms) for lease in self.model.leases.values()]
        awaited += [("silence", at_ms) for at_ms in attendance.silence_ms(self.model)]
        for crawl in self.model.crawls.values():
            if crawl.state is S.RUNNING:
                snoozed = [it for it in crawl.queues.items() if it[1].state is Q.SNOOZED]
                awaited += [(f"rest of {key!r}", queue.asleep_ms) for key, queue in snoozed]
                awaited += [("future URI", uri.due_ms) for uri in crawl.future()]
                if life.rounds_left(crawl) and not life.left(self.model, crawl):
                    awaited.append(("round", life.next_round_ms(crawl)))
                if not roused:
                    awaited += [("line", at_ms) for at_ms in leasing.in_line_ms(self.model, crawl)]
                    assert not leasing.due(self.model, crawl), "nobody is told that there is something"
            bound = settling.bound(self.model, crawl)
            if bound is not None:
                awaited.append(("bound", bound[0]))
            if crawl.unseen:
                awaited.append(("unseen", now_ms))
            if crawl.running_since_ms is not None:
                awaited.append(("statistics", life.next_statistics_ms(crawl)))
            most_ms = crawl.settings.limits.max_elapsed_ms
            if most_ms and crawl.state in (S.RUNNING, S.EMPTY):
                awaited.append(("time limit", now_ms + most_ms - life.elapsed_ms(self.model, crawl)))
        if awaited:
            what, at_ms = min(awaited, key=lambda item: item[1])
            assert due_ms is not None and due_ms <= max(at_ms, now_ms), (
                f"slept through: {what} at {at_ms}, not {due_ms}"
            )
