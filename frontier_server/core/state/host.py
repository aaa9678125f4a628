"""Hosts and groups of hosts: how many requests they may have in flight, and how long they rest.

All queues, ports and crawls share a host, so its row belongs to no crawl. A crawl without
`across_crawls` has rows of its own for hosts; each crawl has them for groups of hosts.
The number of requests in flight is not stored: it follows from the leases.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ..rows.keys import host_key, own_host_key
from ..rows.records import HostRow, decode, encode
from ..rows.store import Family, Transaction
from ..spec.settings import CrawlSettings
from ..uri.assign import Places
from .crawl import Crawl
from .lanes import shares
from .line import Awaited
from .queue import QueueState, WorkQueue

MAX_IDLE_IN_MEMORY = 20_000

RowKey = tuple[Family, bytes]


class Host(Awaited):
    """A host in memory, or a group of hosts."""

    __slots__ = ("in_flight", "place", "row")

    def __init__(self, name: str, row: HostRow, place: "RowKey | None" = None) -> None:
        super().__init__(name)
        self.row = row
        self.place = place  # the place of its row; None if it is not stored
        self.in_flight = 0

    def __repr__(self) -> str:
        rests = f"rests until {self.row.next_allowed_ms} ({self.row.rest_reason})"
        return f"<host {self.name}: {self.in_flight} requests in flight, {rests}>"


class Group(NamedTuple):
    """A group of hosts, and its limits."""

    host: Host
    max_parallel: int
    min_gap_ms: int
    message: str  # empty for a host that rests for a crawl alone; its row has the reason


class Hosts:
    """Hosts by name, read from the store on first use."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._hosts: dict[str, Host] = {}
        self._let_go_at = MAX_IDLE_IN_MEMORY
        self._ends = 0

    def get(self, tx: Transaction, name: str) -> Host:
        """A host or a group. A new one may get a request at once."""
        host = self._hosts.get(name)
        if host is None:
            place = self._row_key(name)
            value = tx.get(*place)
            host = self._hosts[name] = Host(name, decode(HostRow, value) if value else HostRow(), place)
        return host

    def known_as(self, name: str) -> Host | None:
        """A host or a group that memory has."""
        return self._hosts.get(name)

    def record_end(self, host: Host) -> None:
        """Note that a request of a host or a group has ended: queues that wait for it may go on."""
        self._ends += 1
        host.ended = self._ends

    def of(self, tx: Transaction, crawl: Crawl, name: str) -> Host:
        """A host as a crawl treats it: shared, or with rests of its own."""
        if crawl.settings.politeness.across_crawls:
            return self.get(tx, name)
        return self.get(tx, f"{crawl.number}\0{name}")

    def robots_of(self, crawl: Crawl, scheme: str, authority: str) -> Host:
        """The line of a crawl's queues that wait while another queue fetches their robots.txt."""
        name = f"{crawl.number}\0robots\0{scheme}://{authority}"
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host(name, HostRow())
        return host

    def authority(self, tx: Transaction, crawl: Crawl, scheme: str, authority: str) -> Host:
        """An authority that rests before a retry, in a queue shared by several hosts."""
        return self.get(tx, f"{crawl.number}\0authority\0{scheme}://{authority}")

    def own_rest(self, tx: Transaction, crawl: Crawl, name: str) -> Host:
        """How long a host rests for a crawl alone, beyond the rest that all crawls keep: its caller says that
        the host asks for that, and may act on some crawls only."""
        return self.get(tx, f"{crawl.number}\0asked\0{name}")

    def rest_alone(
        self, tx: Transaction, crawl: Crawl, name: str, shared: Host, until_ms: int, reason: str
    ) -> None:
        """Let a host rest for a crawl alone, if that is longer than the rest that all crawls keep."""
        own = self.own_rest(tx, crawl, name)
        if until_ms > max(shared.row.next_allowed_ms, own.row.next_allowed_ms):
            own.row.next_allowed_ms, own.row.rest_reason = until_ms, reason
            self.put(tx, own)

    def groups(self, tx: Transaction, crawl: Crawl, name: str, host: Host) -> list[Group]:
        """The groups that a host belongs to: a named one, the one of its address, and itself as it rests for
        the crawl alone."""
        found = []
        if crawl.state_row.bound:
            own = self.own_rest(tx, crawl, name)
            if own.row.next_allowed_ms:
                found.append(Group(own, 0, 0, ""))
        named = crawl.group_of_host.get(name)
        if named is not None:
            group = crawl.groups[named]
            found.append(
                Group(
                    self.get(tx, f"{crawl.number}\0group\0{named}"),
                    group.max_parallel,
                    group.min_gap_ms,
                    f"group {named}",
                )
            )
        by_address = crawl.settings.address_group
        if (by_address.max_parallel or by_address.min_gap_ms) and host.row.address:
            found.append(
                Group(
                    self.get(tx, f"{crawl.number}\0address\0{host.row.address}"),
                    by_address.max_parallel,
                    by_address.min_gap_ms,
                    f"hosts at {host.row.address}",
                )
            )
        return found

    def rest(
        self, tx: Transaction, crawl: Crawl, queue: WorkQueue, host: Host, settings: CrawlSettings
    ) -> "Rest":
        """The rest of a queue whose last URI was the host's.

        Where several hosts share the queue, that is the queue's own: theirs are checked at its turn.
        """
        if shares(queue, settings):
            return Rest(queue.row.wake_ms, queue.row.rest_reason, None)
        return rest_of(queue, host, self.groups(tx, crawl, queue.row.host, host))

    def disperse(self, crawl: Crawl) -> None:
        """Give all queues of a crawl that are in line or BUSY their turns: new settings may allow more."""
        for host in self._hosts.values():
            host.sleepers.pop(crawl.number, None)
            for queue in host.lines.pop(crawl.number, ()):
                if host in queue.lines:
                    crawl.queues.ready.let_in(queue)
        crawl.queues.lines.clear()
        for queue in crawl.queues.active.values():
            queue.passing = None
            if queue.state is QueueState.BUSY:
                crawl.queues.ready.put(queue)

    def _row_key(self, name: str) -> RowKey:
        """The place of a host's row. Names of hosts that belong to one crawl begin with its number."""
        number, of_one_crawl, own = name.partition("\0")
        if of_one_crawl:
            return Family.OWN_HOSTS, own_host_key(int(number), self._places.of_host(own), own)
        return Family.HOSTS, host_key(self._places.of_host(name), name)

    def drop(self, name: str) -> bool:
        """Forget a host that has no requests in flight and no waiting queues. Returns whether it is gone."""
        host = self._hosts.get(name)
        if host is not None and _is_awaited(host):
            return False
        self._hosts.pop(name, None)
        return True

    def put(self, tx: Transaction, host: Host) -> None:
        """Store a host's row."""
        assert host.place is not None
        tx.put(*host.place, encode(host.row))

    def known(self) -> list[Host]:
        """The hosts and groups in memory."""
        return list(self._hosts.values())

    def in_flight(self) -> dict[str, int]:
        """The numbers of requests in flight, by host or group."""
        return {host.name: host.in_flight for host in self._hosts.values() if host.in_flight}

    def let_go(self) -> None:
        """Drop idle hosts from memory if there are too many. Call it between operations."""
        if len(self._hosts) < self._let_go_at:
            return
        self._hosts = {name: host for name, host in self._hosts.items() if _is_awaited(host)}
        self._let_go_at = max(MAX_IDLE_IN_MEMORY, 2 * len(self._hosts))


def _is_awaited(host: Host) -> bool:
    """Whether a host has requests in flight, or a queue waits for it."""
    in_line = any(host in queue.lines for line in host.lines.values() for queue in line)
    asleep = any(queue.state is QueueState.SNOOZED for queue in host.sleepers.values())
    return bool(host.in_flight) or in_line or asleep


class Rest(NamedTuple):
    """Until when a queue rests, why, and for which host or group (None: only for itself)."""

    until_ms: int
    reason: str
    host: Host | None


def rest_of(queue: WorkQueue, host: Host, groups: Iterable[Group] = ()) -> Rest:
    """The longest rest of a queue, its host and its groups."""
    rest = Rest(host.row.next_allowed_ms, host.row.rest_reason, host)
    if queue.row.wake_ms > rest.until_ms:
        rest = Rest(queue.row.wake_ms, queue.row.rest_reason, None)
    for group in groups:
        if group.host.row.next_allowed_ms > rest.until_ms:
            reason = f"{group.message}: gap" if group.message else group.host.row.rest_reason
            rest = Rest(group.host.row.next_allowed_ms, reason, group.host)
    return rest


def full(host: Host, max_parallel: int, groups: Iterable[Group] = ()) -> Host | None:
    """A host, or its first group, that has as many requests in flight as it may; None if all have room."""
    if host.in_flight >= max_parallel:
        return host
    for group in groups:
        if group.max_parallel and group.host.in_flight >= group.max_parallel:
            return group.host
    return None
