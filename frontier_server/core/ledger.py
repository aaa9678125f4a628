"""The ledger of leases: what is counted and written when one begins, and again when it ends.

A lease counts at its queue, its host, its host's groups and its crawl. Only this module counts it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from . import keys
from .attendance import join
from .crawl import Crawl
from .head import Head
from .host import Group, Host, Hosts
from .leases import Lease, LeaseTable
from .operation import Operation
from .queue import WorkQueue
from .records import LeaseRow, encode
from .store import Family

MAX_KEPT_BYTES = 4096  # of a candidate that memory keeps while it is out


class Ended(NamedTuple):
    """What a lease that has ended leaves to go on."""

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
        """Let a URI be out, or the robots.txt that it waits for."""
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

    def end(self, op: Operation, crawl: Crawl, lease: Lease) -> Ended:
        """Let a lease be over; queues that are in line for its host or groups have their turns."""
        self._leases.remove(lease)
        row = lease.row
        op.tx.delete(Family.LEASES, keys.lease_key(lease.crawl, row.queue[:8], lease.serial))
        op.counters(crawl)
        queue = crawl.queues[row.queue]
        host = self._hosts.get(op.tx, row.host)
        shared = [self._hosts.get(op.tx, name) for name in row.groups]
        op.touch(queue).lease_ms = row.lease_ms
        count(crawl, queue, (host, *shared), lease, -1)
        for one in (host, *shared):
            self._open_lines(op, one)
        if lease.robots:
            self._open_lines(op, self._hosts.robots_of(crawl, row.scheme, row.authority))
        return Ended(queue, host, shared)

    def _open_lines(self, op: Operation, host: Host) -> None:
        """Let those have their turns that are in line for a host or a group. Nothing of them is written."""
        for number in host.lines:
            crawl = self._crawls.get(number)
            if crawl is not None:  # else it is gone, and its queues with it
                crawl.lines.open(host)
                op.look_at(crawl)


def count(crawl: Crawl, queue: WorkQueue, hosts: Iterable[Host], lease: Lease, change: int) -> None:
    """Count a lease that is out (1), or no more (-1)."""
    queue.leases_out += change
    for host in hosts:
        host.in_flight += change
    crawl.leases_out += change
    if not lease.robots:
        crawl.pages_out += change
