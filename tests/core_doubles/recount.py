"""Whether what is stored of a crawl, and memory's lists, agree with themselves: counted anew, row by row."""

from collections import Counter

from core_doubles.rows import rows, rows_of
from core_doubles.shell import Shell

from frontier_server.core.rows import keys
from frontier_server.core.rows.keys import IndexSet
from frontier_server.core.rows.records import (
    OutcomeRow,
    PendingUri,
    QueueRow,
    SeenRow,
    decode,
    decode_pending,
)
from frontier_server.core.rows.store import Family
from frontier_server.core.state.crawl import Crawl
from frontier_server.core.state.queue import ACTIVE, QueueState

Q = QueueState
SETS = {  # of the states that are no matter of memory
    Q.INACTIVE: IndexSet.INACTIVE,
    Q.RETIRED: IndexSet.RETIRED,
    Q.INELIGIBLE: IndexSet.INELIGIBLE,
}
_IN_MEMORY, _FAR = IndexSet.ACTIVE, IndexSet.FAR
LAST_ORDINAL = (1 << 48) - 1


class Recount:
    """One crawl, counted."""

    def __init__(self, shell: Shell, crawl: Crawl) -> None:
        self.shell = shell
        self.crawl = crawl
        prefix = keys.crawl_prefix(crawl.number)
        self.queues = rows_of(shell.store, crawl, Family.QUEUES, QueueRow)
        stored = rows(shell.store, Family.PENDING, prefix)
        self.pending = {key: decode_pending(value) for key, value in stored}
        self.seen = rows_of(shell.store, crawl, Family.SEEN, SeenRow)
        self.sets = {index: self._members(index) for index in IndexSet}

    def _members(self, index: IndexSet) -> list[bytes]:
        prefix = keys.set_prefix(self.crawl.number, index)
        return [key for key, _ in rows(self.shell.store, Family.INDEX, prefix)]

    def run(self) -> None:
        """Raise AssertionError at the first contradiction."""
        self.uris()
        self.future()
        self.outcomes()
        self.imports()
        self.membership()
        self.sums()
        self.lists()

    def uris(self) -> None:
        """Each queue has as many URIs as it counts; each URI that waits is where the seen-set says."""
        in_queue = Counter(key[:16] for key in self.pending)
        assert set(in_queue) <= set(self.queues), "URIs of a queue that has no row"
        for queue, row in self.queues.items():
            assert row.count == in_queue[queue], f"{row.key} counts {row.count} URIs of {in_queue[queue]}"
            mine = {key[16:]: uri for key, uri in self.pending.items() if key[:16] == queue}
            for position in mine:
                head = row.heads.get(keys.level_of(position), LAST_ORDINAL)
                assert head <= keys.ordinal_of(position), f"a head of {row.key} is behind a URI"
            assert row.enqueued >= row.count and row.next_ordinal == row.enqueued + 1, row.key
            precedences = Counter(uri.precedence for uri in mine.values())
            assert Counter(row.uri_precedences) == precedences, f"{row.key}: {row.uri_precedences}"
            for position, uri in mine.items():
                assert uri.lane or row.filed < position, f"a URI of {row.key} is in no lane"
        self.lanes()
        assert self.crawl.counters.discovered == len(self.seen), "discovered URIs"
        said = {
            key[:8] + row.queue + row.position + key[8:] for key, row in self.seen.items() if row.position
        }
        stored = {key + uri.fingerprint for key, uri in self.pending.items()}
        assert said == stored, "a URI is lost, or there twice"

    def lanes(self) -> None:
        """Each URI that has a lane is in it, and each queue's lanes are in the order of their first URIs."""
        said: set[bytes] = set()
        first: dict[bytes, bytes] = {}  # queue and lane → the position of the lane's first URI
        for key, uri in self.pending.items():
            if uri.lane:
                lane = key[:16] + uri.lane
                said |= {lane + key[16:], lane + keys.LAST_POSITION}
                first[lane] = min(first.get(lane, key[16:]), key[16:])
        assert said == set(self.sets[IndexSet.LANE]), "a lane lacks a URI, or has one that is gone"
        heads = {lane[:16] + position + lane[16:] for lane, position in first.items()}
        ends = {lane[:16] + keys.LAST_POSITION for lane in first}
        stored = set(self.sets[IndexSet.LANE_HEAD])
        assert heads | ends <= stored, "a lane is not in order"
        assert all(key[16:] == keys.LAST_POSITION for key in stored - heads), "a lane is in order, but empty"

    def future(self) -> None:
        """Each future URI is where the seen-set says, and nowhere else."""
        said = {row.future_ms.to_bytes(8, "big") + key for key, row in self.seen.items() if row.future_ms}
        assert said == set(self.sets[IndexSet.FUTURE]), "a future URI is lost, or there twice"
        assert self.crawl.counters.future == len(said), "future URIs"
        both = [key for key, row in self.seen.items() if row.future_ms and row.position]
        assert not both, "a URI is queued, and waits for its time, too"

    def outcomes(self) -> None:
        """Outcomes are numbered without gap, and the statistics are theirs."""
        counters = self.crawl.counters
        stored = rows(self.shell.store, Family.OUTCOMES, keys.crawl_prefix(self.crawl.number))
        numbers = [int.from_bytes(key, "big") for key, _ in stored]
        kept = list(range(counters.oldest_outcome, counters.next_outcome))
        assert numbers == kept, "outcomes without gap"
        final = counters.succeeded + counters.failed + counters.disregarded
        assert counters.next_outcome - 1 == final + counters.robots_fetches, "outcomes"
        assert sum(counters.fetch_statuses.values()) == final, "fetch statuses"
        if counters.oldest_outcome == 1:
            pages = [row for _, value in stored if not (row := decode(OutcomeRow, value)).path.endswith("P")]
            assert Counter(row.fetch_status for row in pages) == counters.fetch_statuses, "fetch statuses"
            body_bytes = sum(row.body_bytes for row in pages if row.disposition == "SUCCEEDED")
            assert body_bytes == counters.bytes, "bytes"

    def imports(self) -> None:
        """What is to be taken in belongs to a job that has not ended."""
        prefix = keys.crawl_prefix(self.crawl.number)
        of_jobs = {
            int.from_bytes(key[:8], "big") for key, _ in rows(self.shell.store, Family.IMPORTS, prefix)
        }
        assert of_jobs <= {*self.crawl.jobs, *self.crawl.receiving}, "rows of an import that has ended"

    # Queues.

    def membership(self) -> None:
        """Each queue is in exactly the one set that its state has (D11)."""
        of: dict[bytes, list[IndexSet]] = {queue: [] for queue in self.queues}
        for index in (_IN_MEMORY, _FAR, *SETS.values()):
            for member in self.sets[index]:
                of[member[-16:]].append(index)
        for queue, row in self.queues.items():
            state = Q(row.state)
            expected = [SETS[state]] if state in SETS else []
            if state in ACTIVE:
                expected = [_FAR if row.far_ms else _IN_MEMORY]
            assert of[queue] == expected, f"{row.key} is {state.value}, in {of[queue]}"
            if state is Q.INACTIVE:
                place = keys.inactive_key(self.crawl.number, _rank(row), row.inactive_serial, queue)
                assert place[5:] in self.sets[IndexSet.INACTIVE], f"{row.key} waits elsewhere"
                head = self.crawl.queues.inactive_heads.get(_rank(row), b"")
                assert head <= place, f"{row.key} waits before where it is looked for"
            if row.far_ms:
                place = keys.timed_key(self.crawl.number, _FAR, row.far_ms, queue)
                assert place[5:] in self.sets[_FAR] and self.crawl.queues.far_head <= place, (
                    f"{row.key} sleeps on"
                )
                first_ms = self.crawl.queues.first_far_ms
                assert first_ms is not None and first_ms <= row.far_ms, f"{row.key} sleeps on"
        named = {keys.name_prefix(self.crawl.number, queue[8:])[5:] + queue[:8] for queue in self.queues}
        assert named == set(self.sets[IndexSet.NAME]), "queues by their keys"
        assert set(self.crawl.queues.active) == {member[-16:] for member in self.sets[_IN_MEMORY]}, (
            "active queues"
        )

    def sums(self) -> None:
        """The crawl's counts are those of its queues."""
        counters, retired, ineligible = self.crawl.counters, 0, 0
        by_state: Counter[str] = Counter()
        inactive: Counter[int] = Counter()
        for row in self.queues.values():
            if row.state == Q.INACTIVE.value:
                inactive[_rank(row)] += 1
            elif row.state not in {state.value for state in ACTIVE} or row.far_ms:
                by_state[row.state] += 1
            if row.state == Q.RETIRED.value:
                retired += row.count
            if row.state == Q.INELIGIBLE.value and not row.paused:
                ineligible += row.count
        assert counters.queued == len(self.pending) - retired, "queued URIs"
        assert (counters.retired_uris, counters.ineligible_uris) == (retired, ineligible), (
            "URIs of such queues"
        )
        levels, others = Counter(counters.inactive), Counter(counters.queues)
        assert levels == inactive and 0 not in levels.values(), "inactive queues by rank"
        assert others == by_state and 0 not in others.values(), "queues by state"
        assert counters.active_queues == len(self.sets[_IN_MEMORY]), "active queues"

    def lists(self) -> None:
        """Each queue that memory holds is in the one list of its state, once (D11)."""
        crawl = self.crawl
        ready = Counter(id(queue) for queue in crawl.queues.ready)
        asleep = Counter(
            id(queue)
            for _, _, serial, queue in crawl.queues.snoozed
            if serial == queue.snooze_serial and queue.state is Q.SNOOZED and not queue.far
        )
        hosts = self.shell.core.shard.hosts._hosts.values()
        in_line = {
            (id(queue), host.name)
            for host in hosts
            for line in host.lines.values()
            for queue in line
            if host in queue.lines
        }
        at_hosts = Counter({queue for queue, _ in in_line})  # one may be in the lines of several
        states: Counter[QueueState] = Counter()
        for queue in crawl.queues.active.values():
            states[queue.state] += 1
            is_ready = ready[id(queue)] if queue.state is not Q.BUSY else 0  # BUSY ones may be there, or not
            there = (is_ready, asleep[id(queue)], at_hosts[id(queue)])
            name = f"{queue.row.key}, {queue.state}"
            match queue.state:
                case Q.READY:
                    assert there in ((1, 0, 0), (0, 0, 1)), f"{name}: {there}"
                case Q.SNOOZED:
                    assert there[1] == 1, f"{name}: {there}"
                case _:
                    assert queue.state is Q.BUSY and not there[1], f"{name}: {there}"
            assert bool(queue.leases_out) == (queue.state is Q.BUSY), name
            assert queue.leases_out <= crawl.settings.queues.max_leases_per_queue or len(crawl.overrides), (
                name
            )
        for state in ACTIVE:
            assert crawl.queues.counts[state] == states[state], f"{state.value} queues in memory"


def _rank(row: QueueRow) -> int:
    return row.precedence + (keys.STANDS_BACK if row.stands_back else 0)


def pending_of(shell: Shell, crawl: Crawl, queue: bytes) -> list[tuple[bytes, PendingUri]]:
    """The URIs of a queue in their order, with their places."""
    prefix = keys.queue_row_key(crawl.number, queue)
    return [(key, decode_pending(value)) for key, value in rows(shell.store, Family.PENDING, prefix)]
