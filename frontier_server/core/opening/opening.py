"""Opening a store: memory reads its rows by key, and never walks URIs.

It reads the rows of crawls, active queues and leases. Every lease gets one fresh period; rests of hosts and
queues continue.
"""

from dataclasses import dataclass

from ..rows import keys
from ..rows.errors import OtherFormat, StoreCorrupt
from ..rows.keys import IndexSet
from ..rows.records import (
    FORMAT,
    OLDEST_FORMAT,
    CountersRow,
    LeaseRow,
    PlacesRow,
    QueueRow,
    ServerRow,
    SpecRow,
    StateRow,
    decode,
    encode,
)
from ..rows.store import Changes, Family, Store, Transaction
from ..state import job
from ..state.crawl import Crawl
from ..state.host import Hosts
from ..state.job import ENDED
from ..state.leases import Lease, LeaseTable
from ..state.ledger import count
from ..state.queue import QueueState, WorkQueue
from ..uri.assign import Places
from ..uri.suffixes import Suffixes

_SERVER_KEY = keys.crawl_key(keys.SERVER, keys.CrawlRow.SERVER)
_PLACES_KEY = keys.crawl_key(keys.SERVER, keys.CrawlRow.PLACES)
FIRST_WITH_PLACES = 3  # format
WAY_BACK = "Use that version or a later one, or put a checkpoint from before the upgrade in its place"


def read_server_row(store: Store | Transaction) -> ServerRow | None:
    """The server's row, or None in a new store. Raises OtherFormat, StoreCorrupt."""
    value = store.get(Family.CRAWLS, _SERVER_KEY)
    return None if value is None else decoded_server_row(value)


def decoded_server_row(value: bytes) -> ServerRow:
    """The server's row from bytes. Raises OtherFormat, StoreCorrupt."""
    row = decode(ServerRow, value)
    known = str(FORMAT) if OLDEST_FORMAT == FORMAT else f"{OLDEST_FORMAT} to {FORMAT}"
    wrong = f"the store must have format {known} for this version of Toehold, got {row.format}"
    if row.format > FORMAT:
        raise OtherFormat(f"{wrong}, which version {row.version or 'unknown'} wrote. {WAY_BACK}")
    if row.format < OLDEST_FORMAT:
        raise OtherFormat(f"{wrong}. Start a version in between on it first")
    return row


def server_row(store: Store | Transaction) -> ServerRow:
    """The server's row. Raises StoreCorrupt if there is none."""
    row = read_server_row(store)
    if row is None:
        raise StoreCorrupt("the store has no server row")
    return row


def server_changes(row: ServerRow) -> Changes:
    """The changes that store the server's row."""
    return {(Family.CRAWLS, _SERVER_KEY): encode(row)}


def new_store(secret: bytes, now_ms: int, suffixes: bytes) -> Changes:
    """The changes that initialise an empty store.

    `secret` is 16 random bytes; `suffixes` is the list of public suffixes (see `uri.suffixes.packed`) that
    its places will follow for ever.
    """
    row = ServerRow(FORMAT, secret, time_ms=now_ms)
    return {(Family.CRAWLS, _SERVER_KEY): encode(row), **places_changes(PlacesRow(suffixes, by_site=True))}


def places_row(store: Store | Transaction, server: ServerRow) -> PlacesRow | None:
    """What the places of a store follow; None in one of an earlier format. Raises StoreCorrupt if lost."""
    value = store.get(Family.CRAWLS, _PLACES_KEY)
    if value is None and server.format >= FIRST_WITH_PLACES:
        raise StoreCorrupt("the store lacks the row that decides the places of all others")
    return None if value is None else decode(PlacesRow, value)


def places_of(row: PlacesRow | None) -> Places:
    """The places by a store's row. Without one, they follow the installed list, as before format 3."""
    return Places(Suffixes(), by_site=False) if row is None else Places(Suffixes(row.suffixes), row.by_site)


def places_changes(row: PlacesRow) -> Changes:
    """The changes that store what places follow."""
    return {(Family.CRAWLS, _PLACES_KEY): encode(row)}


def put_server_row(tx: Transaction, row: ServerRow) -> None:
    """Store the server's row."""
    tx.put(Family.CRAWLS, _SERVER_KEY, encode(row))


@dataclass(frozen=True, slots=True)
class CrawlRows:
    """The rows of one crawl in the family `crawls`."""

    number: int
    spec: SpecRow
    state: StateRow
    counters: CountersRow


def crawl_rows(store: Store, next_crawl: int) -> list[CrawlRows]:
    found = []
    for key, _ in store.scan(Family.CRAWLS, keys.crawl_prefix(1), b""):
        number, row = int.from_bytes(key[:4], "big"), key[4]
        if row == keys.CrawlRow.SPEC:
            if number >= next_crawl:
                raise StoreCorrupt(f"crawl {number} is newer than the server knows")
            found.append(rows_of(store, number))
    return found


def rows_of(store: Store, number: int) -> CrawlRows:
    wanted = (keys.CrawlRow.SPEC, keys.CrawlRow.STATE, keys.CrawlRow.COUNTERS)
    spec, state, counters = (store.get(Family.CRAWLS, keys.crawl_key(number, row)) for row in wanted)
    if spec is None or state is None or counters is None:
        raise StoreCorrupt(f"crawl {number} lacks rows")
    return CrawlRows(number, decode(SpecRow, spec), decode(StateRow, state), decode(CountersRow, counters))


def read_overrides(store: Store | Transaction, crawl: Crawl) -> None:
    """Read the overrides of a crawl. One that was torn down has no other rows that memory needs."""
    prefix = keys.crawl_prefix(crawl.number)
    for key, value in store.scan(Family.OVERRIDES, prefix, prefix):
        crawl.put_override(key[4:].decode(), value)


def load_all(store: Store, crawl: Crawl, hosts: Hosts, leases: LeaseTable, now_ms: int) -> None:
    """Read the overrides, active queues, leases and jobs of a crawl."""
    restore = job.restore_of(job.rows(store, crawl.number))
    if restore is not None and restore[1].state not in ENDED:
        crawl.jobs, crawl.restoring = [restore[0]], restore[1].parameters["checkpoint"]
        return  # its other rows are not copied yet
    tx = Transaction(store)
    prefix = keys.crawl_prefix(crawl.number)
    _read_active(tx, crawl)
    for key, value in store.scan(Family.LEASES, prefix, prefix):
        row = decode(LeaseRow, value)
        queue = crawl.queues.active.get(row.queue)
        if queue is None:
            raise StoreCorrupt(
                f"crawl {crawl.name}: a lease is out of queue {row.queue.hex()}, which is not active"
            )
        hard_ms = max(
            row.hard_ms or now_ms + leases.longest_ms(crawl.settings.fetch), now_ms + leases.period_ms
        )
        lease = Lease(crawl.number, int.from_bytes(key[-8:], "big"), row, now_ms + leases.period_ms, hard_ms)
        leases.add(lease)
        count(crawl, queue, [hosts.get(tx, name) for name in (row.host, *row.groups)], lease, 1)
    _line_up(tx, crawl, hosts, now_ms)


def load(tx: Transaction, crawl: Crawl, hosts: Hosts, now_ms: int) -> None:
    """Read the stored rows of a crawl that was restored from a checkpoint; it has no leases."""
    _read_active(tx, crawl)
    _line_up(tx, crawl, hosts, now_ms)


def _read_active(tx: Transaction, crawl: Crawl) -> None:
    read_overrides(tx, crawl)
    active = keys.set_prefix(crawl.number, IndexSet.ACTIVE)
    for key, _ in tx.scan(Family.INDEX, active, active):
        queue_id = key[len(active) :]
        value = _row_of(tx, crawl, queue_id)
        crawl.queues.active[queue_id] = WorkQueue(crawl.number, queue_id, decode(QueueRow, value))


def _line_up(tx: Transaction, crawl: Crawl, hosts: Hosts, now_ms: int) -> None:
    """Derive the states of active queues, and find the crawl's jobs."""
    for queue in crawl.queues.active.values():
        _derive(tx, crawl, queue, hosts, now_ms)
    for number, row in job.rows(tx, crawl.number):
        if row.state not in ENDED and number not in crawl.jobs:
            crawl.jobs.append(number)


def _row_of(store: Store | Transaction, crawl: Crawl, queue_id: bytes) -> bytes:
    value = store.get(Family.QUEUES, keys.queue_row_key(crawl.number, queue_id))
    if value is None:
        raise StoreCorrupt(f"crawl {crawl.name}: active queue {queue_id.hex()} has no row")
    return value


def _derive(tx: Transaction, crawl: Crawl, queue: WorkQueue, hosts: Hosts, now_ms: int) -> None:
    """Derive the state of an active queue from its lease and from the rests of queue, host and groups."""
    rest = hosts.rest(tx, crawl, queue, hosts.of(tx, crawl, queue.row.host), crawl.settings)
    if queue.leases_out:
        queue.state = QueueState.BUSY
        if crawl.settings.queues.max_leases_per_queue > 1 or len(crawl.overrides):
            crawl.queues.ready.put(queue)  # its turn shows whether it has room for more leases
    elif rest.until_ms > now_ms:
        queue.state = QueueState.SNOOZED
        queue.wake_ms, queue.rest_reason = rest.until_ms, rest.reason
        crawl.queues.push_snoozed(queue, rest.until_ms)
    else:
        queue.state = QueueState.READY
        crawl.queues.ready.put(queue)
    crawl.queues.counts[queue.state] += 1
