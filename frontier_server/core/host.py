"""The hosts and the groups of hosts that queues wait for: so many requests at once, and their rest.

A host is shared by all its queues, ports and crawls, so its row has no crawl in its key;
unless a crawl wants a rest of its own: then the row goes with the crawl. So does that of a
group of hosts. How many requests are in flight is not stored: leases tell.
"""

from collections.abc import Iterable
from typing import NamedTuple

from .crawl import Crawl
from .keys import host_key, own_host_key
from .line import Awaited
from .queue import QueueState, WorkQueue
from .records import HostRow, decode, encode
from .store import Family, Transaction
from .uri.assign import partition_of

MAX_IDLE_IN_MEMORY = 20_000

RowKey = tuple[Family, bytes]


class Host(Awaited):
    """A host in memory, or a group of hosts."""

    __slots__ = ("in_flight", "place", "row")

    def __init__(self, name: str, row: HostRow, place: "RowKey | None" = None) -> None:
        super().__init__(name)
        self.row = row
        self.place = place  # where its row is; None if it is stored nowhere
        self.in_flight = 0


class Group(NamedTuple):
    """A group of hosts, and what holds for it."""

    host: Host
    max_parallel: int
    min_gap_ms: int
    message: str


class Hosts:
    """Hosts by name, read from the store when first asked for."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}
        self._let_go_at = MAX_IDLE_IN_MEMORY

    def get(self, tx: Transaction, name: str) -> Host:
        """A host, or a group; unknown ones may be asked at once."""
        host = self._hosts.get(name)
        if host is None:
            place = _row_key(name)
            value = tx.get(*place)
            host = self._hosts[name] = Host(name, decode(HostRow, value) if value else HostRow(), place)
        return host

    def of(self, tx: Transaction, crawl: Crawl, name: str) -> Host:
        """A host as a crawl treats it: with a rest of its own, if the crawl wants that."""
        if crawl.settings.politeness.across_crawls:
            return self.get(tx, name)
        return self.get(tx, f"{crawl.number}\0{name}")

    def robots_of(self, crawl: Crawl, scheme: str, authority: str) -> Host:
        """What the queues of a crawl wait for whose robots.txt is being fetched for another one."""
        name = f"{crawl.number}\0robots\0{scheme}://{authority}"
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host(name, HostRow())
        return host

    def authority(self, tx: Transaction, crawl: Crawl, scheme: str, authority: str) -> Host:
        """What rests before a retry in a queue that several hosts share: one of them, by itself."""
        return self.get(tx, f"{crawl.number}\0authority\0{scheme}://{authority}")

    def groups(self, tx: Transaction, crawl: Crawl, name: str, host: Host) -> list[Group]:
        """The groups that a host belongs to: a named one, and that of its address."""
        found = []
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

    def disperse(self, crawl: Crawl) -> None:
        """Let the queues of a crawl that are in line have their turns: more may be allowed than was."""
        for host in self._hosts.values():
            host.sleepers.pop(crawl.number, None)
            for queue in host.lines.pop(crawl.number, ()):
                if queue.line is host:
                    queue.line = None
                    crawl.ready.append(queue)
        crawl.lines.clear()
        for queue in crawl.queues.values():
            queue.passing = None

    def drop(self, name: str) -> bool:
        """Forget a host, unless a request to it is out or a queue waits for it; whether it is forgotten."""
        host = self._hosts.get(name)
        if host is not None and _is_awaited(host):
            return False
        self._hosts.pop(name, None)
        return True

    def put(self, tx: Transaction, host: Host) -> None:
        """Store a host's row."""
        assert host.place is not None
        tx.put(*host.place, encode(host.row))

    def in_flight(self) -> dict[str, int]:
        """Hosts and groups with requests in flight."""
        return {host.name: host.in_flight for host in self._hosts.values() if host.in_flight}

    def let_go(self) -> None:
        """Let go of idle hosts, if there are too many; between operations, as one may hold a host."""
        if len(self._hosts) < self._let_go_at:
            return
        self._hosts = {name: host for name, host in self._hosts.items() if _is_awaited(host)}
        self._let_go_at = max(MAX_IDLE_IN_MEMORY, 2 * len(self._hosts))


def _is_awaited(host: Host) -> bool:
    """Whether a request to a host is out, or a queue waits for it still."""
    in_line = any(queue.line is host for line in host.lines.values() for queue in line)
    asleep = any(queue.state is QueueState.SNOOZED for queue in host.sleepers.values())
    return bool(host.in_flight) or in_line or asleep


def _row_key(name: str) -> RowKey:
    """Where a host's row is. The name of one that only a crawl knows begins with its number."""
    number, of_one_crawl, own = name.partition("\0")
    if of_one_crawl:
        return Family.OWN_HOSTS, own_host_key(int(number), partition_of(own), own)
    return Family.HOSTS, host_key(partition_of(name), name)


class Rest(NamedTuple):
    """Until when a queue rests, why, and which host or group does (None: the queue by itself)."""

    until_ms: int
    reason: str
    host: Host | None


def rest_of(queue: WorkQueue, host: Host, groups: Iterable[Group] = ()) -> Rest:
    """The longest of the rests of a queue, of its host and of its groups."""
    rest = Rest(host.row.next_allowed_ms, host.row.rest_reason, host)
    if queue.row.wake_ms > rest.until_ms:
        rest = Rest(queue.row.wake_ms, queue.row.rest_reason, None)
    for group in groups:
        if group.host.row.next_allowed_ms > rest.until_ms:
            rest = Rest(group.host.row.next_allowed_ms, f"{group.message}: gap", group.host)
    return rest


def full(host: Host, max_parallel: int, groups: Iterable[Group] = ()) -> Host | None:
    """Which of a host and its groups answers as many requests as it may; None if none does."""
    if host.in_flight >= max_parallel:
        return host
    for group in groups:
        if group.max_parallel and group.host.in_flight >= group.max_parallel:
            return group.host
    return None
