"""Whether what is stored is what is in memory: against what a restart would make of the store."""

from core_doubles.codec import PlainCodec
from core_doubles.rows import rows
from core_doubles.shell import Shell
from msgspec.structs import replace

from frontier_server.core.core import Core
from frontier_server.core.journey import refusals
from frontier_server.core.rows import keys
from frontier_server.core.rows.records import (
    FetchStatisticsRow,
    HostRow,
    OutcomeRow,
    QueueRow,
    RobotsRow,
    decode,
    decode_pending,
)
from frontier_server.core.rows.store import Family
from frontier_server.core.state.crawl import Crawl
from frontier_server.core.state.head import queue_settings
from frontier_server.core.state.lanes import shares
from frontier_server.core.state.operation import Operation
from frontier_server.core.state.queue import QueueState

Q = QueueState


def as_rebuilt(shell: Shell) -> None:
    """Raise AssertionError at the first difference."""
    live, fresh = shell.core, shell.build()
    assert set(live.shard.crawls) == set(fresh.shard.crawls)
    assert live.shard.registry.torn == fresh.shard.registry.torn
    assert live.shard.server == fresh.shard.server, "as stored: the server"
    assert dict(live.shard.sessions._rows) == dict(fresh.shard.sessions._rows), "as stored: sessions"
    assert {job.crawl for job in live.shard.registry.deletions} == {
        job.crawl for job in fresh.shard.registry.deletions
    }
    for number, crawl in live.shard.crawls.items():
        again = fresh.shard.crawls[number]
        assert (crawl.spec, crawl.settings) == (again.spec, again.settings)
        lives = [replace(each.state_row, running_since_ms=0, elapsed_ms=0) for each in (crawl, again)]
        assert lives[0] == lives[1], "as stored: lives"
        assert bool(crawl.state_row.running_since_ms) == bool(again.state_row.running_since_ms)
        # The clock of a new server leaves out the time since the last write.
        assert again.elapsed_ms(shell.now_ms) <= crawl.elapsed_ms(shell.now_ms), "as stored: the clock"
        assert crawl.counters == again.counters, "as stored: counts"
        assert crawl.overrides.items() == again.overrides.items(), "as stored: overrides"
        assert {*crawl.jobs, *crawl.receiving} == set(again.jobs)  # a restart ends what waits for more
        assert (crawl.leases_out, crawl.pages_out) == (again.leases_out, again.pages_out)
        _queues(shell, crawl, again)
        for rule, examples in crawl.refused.items():
            stored = [view.uri for view in refusals.rules(shell.store, crawl, rule)[0].examples]
            assert list(reversed(examples)) == stored, "as stored: examples of refused URIs"
        _read_before(shell, crawl)
    of_live, of_fresh = ({(o.crawl, o.serial): o.row for o in each.shard.leases} for each in (live, fresh))
    assert of_live == of_fresh, "as stored: leases"
    assert live.shard.hosts.in_flight() == fresh.shard.hosts.in_flight(), "as stored: requests at once"
    _shared_rows(shell, live)
    _out(shell, live)


def _queues(shell: Shell, crawl: Crawl, again: Crawl) -> None:
    """Active queues are the same; ready and snoozed may differ, but never towards too early."""
    assert set(crawl.queues.active) == set(again.queues.active), "as stored: active queues"
    for key, queue in crawl.queues.active.items():
        other = again.queues.active[key]
        mine, its = (
            {name: getattr(each.row, name) for name in QueueRow.__struct_fields__ if name != "state"}
            for each in (queue, other)
        )
        assert mine == its, f"as stored: {queue.row.key}"
        assert (queue.state is Q.BUSY) == (other.state is Q.BUSY)
        assert queue.cost_out == other.cost_out, f"as stored: what is out costs {queue.row.key}"
        if queue.state is Q.SNOOZED and other.state is Q.READY:
            due = queue.wake_ms <= shell.now_ms
            # Where several hosts share a queue, its next turn tells which of them rest.
            settings = queue_settings(Operation(shell.store, 0), crawl, PlainCodec(), queue)
            told_later = shares(queue, settings) or queue.rest_reason.startswith("its robots.txt")
            assert due or told_later, queue.rest_reason


def _read_before(shell: Shell, crawl: Crawl) -> None:
    """URIs that were read ahead of their turns, and statistics in memory, are those stored."""
    for queue in (*crawl.queues.active.values(), *crawl.queues.recent.values()):
        prefix = keys.queue_row_key(crawl.number, queue.queue)
        known = queue.ahead.rows
        stored = rows(shell.store, Family.PENDING, prefix)[: len(known)]
        assert list(known) == stored, f"heads of {queue.row.key}"
    for (kind, name), row in crawl.statistics.items():
        key = crawl.statistics_key(kind, name)
        value = shell.store.get(Family.FETCH_STATISTICS, key)
        assert row == (decode(FetchStatisticsRow, value) if value else FetchStatisticsRow()), (
            f"statistics of {name}"
        )
    for number, outcome in crawl.unlogged:
        value = shell.store.get(Family.OUTCOMES, keys.serial_key(crawl.number, number))
        assert value is not None and outcome == decode(OutcomeRow, value), f"outcome {number}"
    numbers = [number for number, _ in crawl.unlogged]
    last = crawl.counters.next_outcome
    assert numbers == list(range(last - len(numbers), last)), "outcomes without a gap"


def _out(shell: Shell, live: Core) -> None:
    """URIs that are out are those stored."""
    for lease in live.shard.leases:
        if lease.head is not None:
            key = keys.pending_key(lease.crawl, lease.row.queue, lease.row.position)
            value = shell.store.get(Family.PENDING, key)
            assert value is not None and lease.head.pending == decode_pending(value), "what is out"


def _shared_rows(shell: Shell, live: Core) -> None:
    """Hosts and robots.txt in memory are those stored, but for what only deleted crawls knew."""
    numbers = {*live.shard.registry.crawls, *live.shard.registry.torn.values()}
    hosts = {key[8:].decode(): decode(HostRow, row) for key, row in rows(shell.store, Family.HOSTS, b"")}
    for key, stored in rows(shell.store, Family.OWN_HOSTS, b""):
        hosts[f"{int.from_bytes(key[:4], 'big')}\0{key[12:].decode()}"] = decode(HostRow, stored)
    for name, host in live.shard.hosts._hosts.items():
        number, of_one_crawl, _ = name.partition("\0")
        if of_one_crawl and int(number) not in numbers:
            continue
        assert host.row == hosts.get(name, HostRow()), f"{name} is not as stored"
    for key, (row, _) in live.shard.robots._known.items():
        value = shell.store.get(Family.ROBOTS, key)
        assert row == (decode(RobotsRow, value) if value else None)
