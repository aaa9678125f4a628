"""Whether a frontier's memory, its store and a model of it agree, recounted row by row."""

from collections import Counter
from typing import TypeVar

from core_doubles.codec import PlainCodec
from core_doubles.model import Crawl as CrawlModel
from core_doubles.model import Host as HostModel
from core_doubles.model import Model
from core_doubles.shell import Shell

from frontier_server.core import keys
from frontier_server.core.crawl import Crawl
from frontier_server.core.frontier import Frontier
from frontier_server.core.lifecycle import CrawlState
from frontier_server.core.queue import ACTIVE, QueueState
from frontier_server.core.records import (
    HostRow,
    OutcomeRow,
    QueueRow,
    Record,
    RobotsRow,
    SeenRow,
    decode,
    decode_pending,
)
from frontier_server.core.store import Family

R = TypeVar("R", bound=Record)
Q = QueueState
OF_CRAWLS = [family for family in Family if family not in (Family.HOSTS, Family.ROBOTS)]


class Audit:
    """One comparison of everything with everything."""

    def __init__(self, shell: Shell, model: Model) -> None:
        self.shell = shell
        self.model = model
        self.live = shell.frontier

    def run(self) -> None:
        """Raise AssertionError at the first contradiction."""
        assert set(self.live._names) == set(self.model.crawls)
        for crawl in self.live._crawls.values():
            expected = self.model.crawls[crawl.name]
            self.recount(crawl)
            self.lists(crawl)
            self.as_expected(crawl, expected)
        self.leases()
        self.rests()
        self.wakes()
        self.as_rebuilt()

    # The store against itself.

    def rows(self, family: Family, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Keys behind the prefix, and values."""
        return [(key[len(prefix) :], value) for key, value in self.shell.store.scan(family, prefix, prefix)]

    def of(self, crawl: Crawl, family: Family, kind: type[R]) -> dict[bytes, R]:
        """The rows of a crawl."""
        found = self.rows(family, keys.crawl_prefix(crawl.number))
        return {key: decode(kind, value) for key, value in found}

    def recount(self, crawl: Crawl) -> None:
        """Counts are those of rows; each queue is in exactly one set; URIs are where they are said to be."""
        counters = crawl.counters
        queues = self.of(crawl, Family.QUEUES, QueueRow)
        prefix = keys.crawl_prefix(crawl.number)
        pending = {key: decode_pending(value) for key, value in self.rows(Family.PENDING, prefix)}
        in_queue = Counter(key[:16] for key in pending)
        assert counters.queued == len(pending) == sum(row.count for row in queues.values())
        for queue, row in queues.items():
            assert row.count == in_queue[queue], f"{row.key} counts {row.count} URIs of {in_queue[queue]}"
            first = min((key[16:] for key in pending if key[:16] == queue), default=row.head)
            assert row.head <= first, f"the head of {row.key} is behind its first URI"
            assert row.enqueued >= row.count and row.next_ordinal == row.enqueued + 1
        assert set(in_queue) <= set(queues)
        seen = self.of(crawl, Family.SEEN, SeenRow)
        assert counters.discovered == len(seen)
        waiting = {key[:8] + row.suffix + key[8:] for key, row in seen.items() if row.suffix}
        assert waiting == {key[:8] + key[16:] + row.subject for key, row in pending.items()}
        self.recount_outcomes(crawl, [row for row in seen.values() if not row.suffix])
        self.recount_queues(crawl, queues)

    def recount_outcomes(self, crawl: Crawl, done: list[SeenRow]) -> None:
        """Outcomes are numbered without gap, and the figures are theirs."""
        counters = crawl.counters
        rows = self.rows(Family.OUTCOMES, keys.crawl_prefix(crawl.number))
        numbers = [int.from_bytes(key, "big") for key, _ in rows]
        assert numbers == list(range(counters.oldest_outcome, counters.next_outcome))
        final = counters.succeeded + counters.failed + counters.disregarded
        assert counters.next_outcome - 1 == final + counters.robots_fetches
        assert sum(counters.fetch_statuses.values()) == final >= len(done)
        if counters.logged_outcome == 0:
            outcomes = [decode(OutcomeRow, value) for _, value in rows]
            pages = [row for row in outcomes if not row.path.endswith("P")]
            assert Counter(row.fetch_status for row in pages) == counters.fetch_statuses
            assert sum(row.body_bytes for row in pages if row.disposition == "SUCCEEDED") == counters.bytes

    def recount_queues(self, crawl: Crawl, queues: dict[bytes, QueueRow]) -> None:
        """Index rows, queue rows and counts say the same."""
        counters = crawl.counters
        in_memory = keys.set_prefix(crawl.number, keys.IndexSet.ACTIVE)
        active = {key for key, _ in self.rows(Family.INDEX, in_memory)}
        waiting = [key for key, _ in self.rows(Family.INDEX, keys.inactive_prefix(crawl.number))]
        inactive = {key[-16:] for key in waiting}
        assert len(inactive) == len(waiting) == crawl.inactive_queues
        assert len(active) == counters.active_queues
        assert active.isdisjoint(inactive)
        for queue, row in queues.items():
            state = Q(row.state)
            assert (queue in active) == (state in ACTIVE), f"{row.key} is {state}"
            assert (queue in inactive) == (state is Q.INACTIVE), f"{row.key} is {state}"
            if state is Q.INACTIVE:
                assert row.count > 0
                key = keys.inactive_key(crawl.number, row.precedence, row.inactive_serial, queue)
                assert key[5:] in waiting
                assert crawl.inactive_head <= key, f"{row.key} waits behind the place where it is looked for"
            if state is Q.EXHAUSTED:
                assert row.count == 0
        exhausted = [row for row in queues.values() if row.state == Q.EXHAUSTED.value]
        assert counters.queues.get(Q.EXHAUSTED.value, 0) == len(exhausted)
        assert active | inactive <= set(queues) and set(crawl.queues) == active

    # Memory against itself.

    def lists(self, crawl: Crawl) -> None:
        """Each active queue is in the one list of its state, once (D11)."""
        ready = Counter(id(queue) for queue in crawl.ready)
        asleep = Counter(
            id(queue)
            for _, _, serial, queue in crawl.snoozed
            if serial == queue.snooze_serial and queue.state is Q.SNOOZED
        )
        at_hosts = Counter(id(queue) for host in self.live._hosts._hosts.values() for queue in host.waiting)
        states: Counter[QueueState] = Counter()
        for queue in crawl.queues.values():
            states[queue.state] += 1
            there = (ready[id(queue)], asleep[id(queue)], at_hosts[id(queue)])
            name = f"{queue.row.key}, {queue.state}"
            match queue.state:
                case Q.READY:
                    assert there in ((1, 0, 0), (0, 0, 1)), f"{name}: {there}"
                case Q.SNOOZED:
                    assert there == (0, 1, 0), f"{name}: {there}"
                case Q.BUSY:
                    assert there == (0, 0, 0) and queue.leases_out == 1, f"{name}: {there}"
                case _:
                    raise AssertionError(f"{name} is in memory")
            assert queue.leases_out == (queue.state is Q.BUSY)
        for state in ACTIVE:
            assert crawl.active_counts[state] == states[state]

    def leases(self) -> None:
        """Never more than one lease for a queue and for a host, of whatever crawl."""
        queues: Counter[tuple[int, bytes]] = Counter()
        hosts: Counter[str] = Counter()
        out: Counter[int] = Counter()
        pages: Counter[int] = Counter()
        for lease in self.live._leases:
            queues[lease.crawl, lease.row.queue] += 1
            hosts[self.live._crawls[lease.crawl].queues[lease.row.queue].row.host] += 1
            out[lease.crawl] += 1
            pages[lease.crawl] += not lease.robots
        assert max(queues.values(), default=0) <= 1 and max(hosts.values(), default=0) <= 1
        assert self.live._hosts.in_flight() == hosts
        for crawl in self.live._crawls.values():
            assert (crawl.leases_out, crawl.pages_out) == (out[crawl.number], pages[crawl.number])
        secret = self.live._server.secret
        ends = {lease.token(secret): (lease.deadline_ms, lease.hard_ms) for lease in self.live._leases}
        expected = self.model.leases.items()
        assert ends == {token: (lease.deadline_ms, lease.hard_ms) for token, lease in expected}
        assert self.live.leases_out == len(ends)

    def rests(self) -> None:
        """Hosts and queues rest exactly as long as the model says, and for that many overloads."""
        for name, host in self.live._hosts._hosts.items():
            expected = self.model.hosts.get(name, HostModel())
            assert (host.row.next_allowed_ms, host.row.overloads) == (expected.rest_ms, expected.overloads), (
                name
            )
        for crawl in self.live._crawls.values():
            of_crawl = self.model.crawls[crawl.name].queues
            rests = {site.queue_key: queue.rest_ms for site, queue in of_crawl.items()}
            for queue in crawl.queues.values():
                assert queue.row.wake_ms == rests.get(queue.row.key, 0), queue.row.key

    def wakes(self) -> None:
        """Nothing is slept through: the next due time is no later than what the model waits for."""
        due_ms, now_ms = self.live.next_due_ms(), self.shell.now_ms
        for lease in self.model.leases.values():
            assert due_ms is not None and due_ms <= lease.deadline_ms
        if self.live.leasable():
            return
        for crawl in self.model.crawls.values():
            if crawl.state is not CrawlState.RUNNING or self.model.limited(crawl):
                continue
            for site in {uri.site for uri in crawl.waiting()}:
                if not self.model.busy(site.host):
                    free_ms = self.model.free_from_ms(crawl, site, now_ms)
                    assert due_ms is not None and due_ms <= max(free_ms, now_ms), f"{site.uri('')} sleeps on"

    # Memory and store against the model.

    def as_expected(self, crawl: Crawl, expected: CrawlModel) -> None:
        """State, URIs in their order, scope and figures are the model's."""
        assert (crawl.state, crawl.exit_status) == (expected.state, expected.exit_status)
        assert bool(crawl.jobs) == (expected.job is not None)
        codec, stored = PlainCodec(), {}
        for queue, row in self.of(crawl, Family.QUEUES, QueueRow).items():
            prefix = keys.queue_row_key(crawl.number, queue)
            uris = [decode_pending(value) for _, value in self.rows(Family.PENDING, prefix)]
            if uris:
                stored[row.key] = [
                    (expected.texts[codec.decode(uri.candidate).uri], uri.attempts, uri.lapses)
                    for uri in uris
                ]
        wanted = {
            site.queue_key: [(uri.uri, uri.attempts, uri.lapses) for uri in expected.in_order(site)]
            for site in {uri.site for uri in expected.waiting()}
        }
        assert stored == wanted
        scope = keys.crawl_prefix(crawl.number) + bytes((keys.IndexSet.SCOPE,))
        assert len(self.rows(Family.INDEX, scope)) == len(expected.scope)
        known = {authority for authority, within in crawl.scope_cache.items() if within}
        assert known <= expected.scope
        statistics = self.live.statistics(crawl.name, self.shell.now_ms)
        figures = expected.figures
        expected_counts = {
            "discovered_count": len(expected.uris),
            "queued_count": len(expected.waiting()),
            "leased_count": self.model.leases_of(expected),
            "succeeded_count": figures["succeeded"],
            "failed_count": figures["failed"],
            "disregarded_count": figures["disregarded"],
            "deferred_count": figures["deferred"],
            "lapsed_count": figures["lapsed"],
            "robots_fetch_count": figures["robots_fetches"],
            "bytes_count": figures["bytes"],
        }
        assert {name: statistics.counts[name] for name in expected_counts} == expected_counts
        assert statistics.fetch_statuses == expected.statuses
        assert statistics.verdicts == expected.verdicts
        most = crawl.settings.limits.max_documents
        pages_out = self.model.leases_of(expected, robots_too=False)
        assert not most or figures["succeeded"] + pages_out <= most, "beyond the document limit"

    # Memory against what a restart would make of the store.

    def as_rebuilt(self) -> None:
        """What is stored is what is in memory."""
        live, fresh = self.live, self.shell.build()
        assert set(live._crawls) == set(fresh._crawls)
        assert {deletion.crawl for deletion in live._deletions} == {
            deletion.crawl for deletion in fresh._deletions
        }
        for number, crawl in live._crawls.items():
            again = fresh._crawls[number]
            assert crawl.spec == again.spec and crawl.settings == again.settings
            assert crawl.state_row == again.state_row
            assert crawl.counters == again.counters
            assert crawl.jobs == again.jobs
            assert (crawl.leases_out, crawl.pages_out) == (again.leases_out, again.pages_out)
            self.queues_as_rebuilt(crawl, again)
        of_live, of_fresh = ({(o.crawl, o.serial): o.row for o in each._leases} for each in (live, fresh))
        assert of_live == of_fresh
        assert live._hosts.in_flight() == fresh._hosts.in_flight()
        self.shared_rows(live)

    def queues_as_rebuilt(self, crawl: Crawl, again: Crawl) -> None:
        """Active queues are the same; ready and snoozed may differ, but never towards too early."""
        assert set(crawl.queues) == set(again.queues)
        for key, queue in crawl.queues.items():
            other = again.queues[key]
            mine, its = (
                {name: getattr(each.row, name) for name in QueueRow.__struct_fields__ if name != "state"}
                for each in (queue, other)
            )
            assert mine == its
            assert (queue.state is Q.BUSY) == (other.state is Q.BUSY)
            if queue.state is Q.SNOOZED and other.state is Q.READY:
                due = queue.wake_ms <= self.shell.now_ms
                assert due or queue.rest_reason.startswith("its robots.txt"), queue.rest_reason

    def shared_rows(self, live: Frontier) -> None:
        """Hosts and robots.txt in memory are those stored."""
        store = self.shell.store
        hosts = {key[8:].decode(): decode(HostRow, value) for key, value in self.rows(Family.HOSTS, b"")}
        for name, host in live._hosts._hosts.items():
            assert host.row == hosts.get(name, HostRow()), f"{name} is not as stored"
        for key, (row, _) in live._robots._known.items():
            value = store.get(Family.ROBOTS, key)
            assert row == (decode(RobotsRow, value) if value else None)


def nothing_is_left_of(shell: Shell, number: int) -> bool:
    """Whether no row of a crawl is stored."""
    prefix = keys.crawl_prefix(number)
    return not any(True for family in OF_CRAWLS for _ in shell.store.scan(family, prefix, prefix))
