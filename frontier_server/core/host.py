"""The hosts that queues wait for: one request at a time to each, and its rest.

A host is shared by all its queues, ports and crawls, so its row has no crawl in its
key. How many requests are in flight is not stored: leases tell.
"""

from .assign import partition_of
from .keys import host_key
from .queue import WorkQueue
from .records import HostRow, decode, encode
from .store import Family, Transaction

MAX_IN_FLIGHT = 1
MAX_IDLE_IN_MEMORY = 20_000


class Host:
    """A host in memory."""

    __slots__ = ("in_flight", "name", "row", "waiting")

    def __init__(self, name: str, row: HostRow) -> None:
        self.name = name
        self.row = row
        self.in_flight = 0
        self.waiting: list[WorkQueue] = []  # ready, but for the request in flight


class Hosts:
    """Hosts by name, read from the store when first asked for."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}
        self._drop_at = MAX_IDLE_IN_MEMORY

    def get(self, tx: Transaction, name: str) -> Host:
        """A host; unknown ones may be asked at once."""
        host = self._hosts.get(name)
        if host is None:
            if len(self._hosts) >= self._drop_at:
                self._drop_idle()
            value = tx.get(Family.HOSTS, host_key(partition_of(name), name))
            host = self._hosts[name] = Host(name, decode(HostRow, value) if value else HostRow())
        return host

    def put(self, tx: Transaction, host: Host) -> None:
        """Store a host's row."""
        tx.put(Family.HOSTS, host_key(partition_of(host.name), host.name), encode(host.row))

    def in_flight(self) -> dict[str, int]:
        """Hosts with requests in flight."""
        return {host.name: host.in_flight for host in self._hosts.values() if host.in_flight}

    def _drop_idle(self) -> None:
        self._hosts = {name: host for name, host in self._hosts.items() if host.in_flight or host.waiting}
        self._drop_at = max(MAX_IDLE_IN_MEMORY, 2 * len(self._hosts))


def rest_until(queue: WorkQueue, host: Host) -> tuple[int, str]:
    """Until when a queue rests, for its own sake or its host's, and why."""
    if queue.row.wake_ms > host.row.next_allowed_ms:
        return queue.row.wake_ms, queue.row.rest_reason
    return host.row.next_allowed_ms, host.row.rest_reason
