"""The ledger of leases: all counts and rows that change when a lease begins or ends.

A lease counts for its queue, its host, its host's groups and its crawl. Only this module counts leases.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ..rows import keys
from ..rows.records import LeaseRow, encode
from ..rows.store import Family
from .attendance import join
from .crawl import Crawl
from .head import Head
from .host import Group, Host, Hosts
from .leases import Lease, LeaseTable
from .operation import Operation
from .queue import WorkQueue

MAX_KEPT_BYTES = 4096  # largest candidate that memory keeps during a lease


class Occupied(NamedTuple):
    """The queue and the hosts that a lease occupied."""

    queue: WorkQueue
    host: Host
    shared: list[Host]  # groups of hosts


class Ledger:
    """Begins and ends leases."""

    def __init__(self, leases: LeaseTable, hosts: Hosts, crawls: dict[int, Crawl]) -> None:
        self._leases = leases
        self._hosts = hosts
        self._crawls = crawls

    def begin(
        self,
        op: Operation,
        crawl: Crawl,
        queue: WorkQueue,
        head: Head,
        host: Host,
        groups: list[Group],
        row: LeaseRow,
    ) -> Lease:
        """Lease a URI, or the robots.txt that it waits for."""
        counters = op.counters(crawl)
        serial = self._leases.serial(counters.next_lease)
        counters.next_lease += 1
        shared = [group.host for group in groups]
        row.host, row.groups = host.name, tuple(each.name for each in shared) if shared else ()
        row.hard_ms = op.now_ms + self._leases.longest_ms(head.settings.fetch)
        lease = Lease(crawl.number, serial, row, op.now_ms + self._leases.period_ms, row.hard_ms)
        op.tx.put(Family.LEASES, keys.lease_key(crawl.number, queue.partition, serial), encode(row))
        if len(head.pending.candidate) <= MAX_KEPT_BYTES:
            lease.head = head
        self._leases.add(lease)
        if crawl.state_row.nodes.get(row.node) != row.session:
            join(op, crawl, row.node, row.session)
        count(crawl, queue, (host, *shared), lease, 1)
        return lease

    def end(self, op: Operation, crawl: Crawl, lease: Lease) -> Occupied:
        """End a lease, and open the lines for its host and groups."""
        self._leases.remove(lease)
        row = lease.row
        op.tx.delete(Family.LEASES, keys.lease_key(lease.crawl, row.queue[:8], lease.serial))
        op.counters(crawl)
        queue = crawl.queues.active[row.queue]
        host = self._hosts.get(op.tx, row.host)
        shared = [self._hosts.get(op.tx, name) for name in row.groups]
        op.touch(queue).lease_ms = row.lease_ms
        count(crawl, queue, (host, *shared), lease, -1)
        for one in (host, *shared):
            self._open_lines(op, one)
        if lease.robots:
            self._open_lines(op, self._hosts.robots_of(crawl, row.scheme, row.authority))
        return Occupied(queue, host, shared)

    def _open_lines(self, op: Operation, host: Host) -> None:
        """Let the queues in line for a host or a group have their turns. This writes no rows."""
        self._hosts.record_end(host)
        for number in host.lines:
            crawl = self._crawls.get(number)
            if crawl is not None:  # else the crawl and its queues are gone
                crawl.queues.lines.open(host)
                op.look_at(crawl)


def count(crawl: Crawl, queue: WorkQueue, hosts: Iterable[Host], lease: Lease, change: int) -> None:
    """Count a lease that begins (1) or ends (-1)."""
    queue.leases_out += change
    for host in hosts:
        host.in_flight += change
    crawl.leases_out += change
    if lease.robots:
        queue.robots_out, queue.robots_for = (lease.serial, lease.row.position) if change > 0 else (0, b"")
        return
    crawl.pages_out += change
    crawl.known_out += change * lease.row.known
    queue.cost_out += change * lease.row.cost
    if change > 0:
        queue.out[lease.row.position] = lease.serial
    else:
        del queue.out[lease.row.position]
