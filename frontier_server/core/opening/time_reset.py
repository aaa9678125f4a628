"""Sets the frontier's time for an operator, and preserves what is left of each rest.

One write adjusts hosts, queues, leases, robots.txt files and the clocks of crawls. Future URIs, and queues
that are snoozed on disk, keep the moments that they wait for.
"""

from ..rows.keys import CrawlRow
from ..rows.records import (
    CountersRow,
    HostRow,
    LeaseRow,
    QueueRow,
    Record,
    RobotsRow,
    StateRow,
    decode,
    encode,
)
from ..rows.store import Changes, Family, Store, Transaction
from .opening import put_server_row, server_row


def set_time(store: Store, last_ms: int, now_ms: int) -> Changes:
    """The changes that set the time to `now_ms`. The server ended at `last_ms`."""
    tx = Transaction(store)
    server = server_row(store)
    server.time_ms, server.boot = now_ms, ""
    put_server_row(tx, server)

    def moved(moment_ms: int) -> int:
        """A moment that is as far ahead of the new time as it was of the old."""
        return moment_ms if moment_ms <= min(last_ms, now_ms) else now_ms + max(moment_ms - last_ms, 0)

    def put(family: Family, key: bytes, before: bytes, row: Record) -> None:
        after = encode(row)
        if after != before:
            tx.put(family, key, after)

    for family in (Family.HOSTS, Family.OWN_HOSTS):
        for key, value in store.scan(family, b"", b""):
            host = decode(HostRow, value)
            host.next_allowed_ms = moved(host.next_allowed_ms)
            put(family, key, value, host)
    for key, value in store.scan(Family.QUEUES, b"", b""):
        queue = decode(QueueRow, value)
        if not queue.far_ms:
            queue.wake_ms = moved(queue.wake_ms)
            put(Family.QUEUES, key, value, queue)
    for key, value in store.scan(Family.LEASES, b"", b""):
        lease = decode(LeaseRow, value)
        lease.lease_ms, lease.hard_ms = moved(lease.lease_ms), moved(lease.hard_ms)
        put(Family.LEASES, key, value, lease)
    for key, value in store.scan(Family.ROBOTS, b"", b""):
        robots = decode(RobotsRow, value)
        robots.answer_ms, robots.fetch_ms = moved(robots.answer_ms), moved(robots.fetch_ms)
        robots.report_ms = moved(robots.report_ms)
        robots.tries_ms = tuple(map(moved, robots.tries_ms))
        put(Family.ROBOTS, key, value, robots)
    for key, value in store.scan(Family.CRAWLS, b"", b""):
        if key[4] == CrawlRow.STATE:
            state = decode(StateRow, value)
            if state.running_since_ms:
                state.elapsed_ms += max(last_ms - state.running_since_ms, 0)
                state.running_since_ms = now_ms
            state.round_ms, state.reach_ms = moved(state.round_ms), moved(state.reach_ms)
            state.interrupt_ms = moved(state.interrupt_ms)
            put(Family.CRAWLS, key, value, state)
        elif key[4] == CrawlRow.COUNTERS:
            counters = decode(CountersRow, value)
            counters.told_ms = moved(counters.told_ms)
            put(Family.CRAWLS, key, value, counters)
    return tx.changes
