"""Pages of lists for operators: queues, waiting URIs, hosts, sources, seeds.

A page ends when its size or its share of work is used up; the cursor continues there.
"""

from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import islice

from ..rows import keys
from ..rows.errors import InvalidRequest
from ..rows.keys import FetchStatisticsOf, IndexSet
from ..rows.records import FetchStatisticsRow, decode, decode_pending
from ..rows.store import Family, Store, Transaction
from ..state.crawl import Crawl
from ..state.host import Hosts, full, rest_of
from ..state.largest import MOST, Largest
from ..state.model import CandidateCodec, FetchStatisticsView, QueueView, UriView
from ..state.operation import Operation
from ..state.queue import ACTIVE, QueueState, WorkQueue

ROWS_PER_READ = 250
URIS_PER_READ = 500
SEEDS_PER_READ = 100  # each is looked up with its story
SLOWEST_QUEUES = 20
QUEUE_BYTES = 16
FAR_CURSOR_BYTES = 1 + 8 + QUEUE_BYTES
# For states whose queues are not listed in the order of their ids.
_CURSOR_BYTES: dict[QueueState | None, int] = {
    QueueState.INACTIVE: 1 + 8 + QUEUE_BYTES,
    QueueState.READY: 1 + QUEUE_BYTES,
    QueueState.BUSY: 1 + QUEUE_BYTES,
    QueueState.SNOOZED: 1 + QUEUE_BYTES,
}
_SETS = {
    QueueState.INACTIVE: IndexSet.INACTIVE,  # in the order of activation
    QueueState.RETIRED: IndexSet.RETIRED,
    QueueState.INELIGIBLE: IndexSet.INELIGIBLE,
}


def queue_page(
    store: Store, crawl: Crawl, hosts: Hosts, state: QueueState | None, size: int, cursor: bytes
) -> tuple[list[QueueView], bytes]:
    """Queues of a state (or all) after `cursor`, and the next cursor (empty at the end)."""
    far = state is QueueState.SNOOZED and cursor[:1] == b"\1"
    size_of_cursor = FAR_CURSOR_BYTES if far else _CURSOR_BYTES.get(state, QUEUE_BYTES)
    _check_cursor(cursor, size_of_cursor, "ListQueues")
    page: list[QueueView] = []
    op = Operation(store, 0)
    for read, (place, queue_id) in enumerate(_queue_ids(op, crawl, state, cursor), 1):
        queue = op.queue(crawl, queue_id)
        if queue is not None and (state is None or queue.state is state):
            page.append(queue_view(op.tx, crawl, queue, hosts))
        if len(page) == size or read == ROWS_PER_READ:
            return page, place
    return page, b""


def _check_cursor(cursor: bytes, size: int, what: str) -> None:
    """Raise InvalidRequest for a cursor that no page has."""
    if cursor and len(cursor) != size:
        raise InvalidRequest(
            f"page_token does not belong to {what}; leave it out to begin again", field="page_token"
        )


def _queue_ids(
    op: Operation, crawl: Crawl, state: QueueState | None, cursor: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Cursors and ids of queues that may be of a state, after a cursor."""
    crawl_prefix = keys.crawl_prefix(crawl.number)
    if state in ACTIVE:
        # First the queues in memory, then those snoozed on disk, each part in its own order.
        if cursor[:1] in (b"", b"\0"):
            for queue_id in sorted(known for known in crawl.queues.active if known > cursor[1:]):
                yield b"\0" + queue_id, queue_id
        if state is QueueState.SNOOZED:
            prefix = keys.set_prefix(crawl.number, IndexSet.FAR)
            start = cursor[1:] if cursor[:1] == b"\1" else b""
            for key, _ in op.tx.scan(Family.INDEX, prefix + start, prefix):
                if key[5:] != start:
                    yield b"\1" + key[5:], key[-16:]
        return
    if state in _SETS:
        family, prefix = Family.INDEX, keys.set_prefix(crawl.number, _SETS[state])
    else:
        family, prefix = Family.QUEUES, crawl_prefix
    for key, _ in op.tx.scan(family, prefix + cursor, prefix):
        if key[len(prefix) :] != cursor:
            yield key[len(prefix) :], key[-16:]


def queue_view(tx: Transaction, crawl: Crawl, queue: WorkQueue, hosts: Hosts) -> QueueView:
    """A work queue's description."""
    row, budgets = queue.row, crawl.settings.queues
    until_ms, reason = _wait(tx, crawl, queue, hosts)
    return QueueView(
        row.key,
        host=row.host,
        state=queue.state,
        queued=row.count,
        enqueued=row.enqueued,
        leased=queue.leases_out,
        failed=row.failed,
        wake_ms=until_ms,
        reason=reason,
        precedence=row.precedence,
        successes=row.successes,
        expenditure=row.expenditure,
        session_spent=row.expenditure - row.session_start if queue.state in ACTIVE else 0,
        session_budget=budgets.session_budget if row.session_budget is None else row.session_budget,
        total_budget=budgets.total_budget if row.total_budget is None else row.total_budget,
        last_cost=row.last_cost,
        average_cost=row.total_cost / row.enqueued if row.enqueued else 0.0,
        paused=row.paused,
        precedence_fixed=row.fixed_precedence is not None,
        queue_ms=row.queue_ms,
        lease_ms=row.lease_ms,
        min_gap_ms=budgets.min_gap_ms if row.min_gap_ms is None else row.min_gap_ms,
    )


def _wait(tx: Transaction, crawl: Crawl, queue: WorkQueue, hosts: Hosts) -> tuple[int, str]:
    """Until when a queue waits (0: unknown), and why, for people; empty if it does not wait."""
    row = queue.row
    match queue.state:
        case QueueState.RETIRED:
            return 0, row.retire_reason
        case QueueState.INELIGIBLE:
            return (
                0,
                "an operator has paused it"
                if row.paused
                else f"precedence {row.precedence} is at or over the floor",
            )
        case QueueState.READY | QueueState.SNOOZED:
            host = hosts.of(tx, crawl, row.host)
            groups = hosts.groups(tx, crawl, row.host, host)
            rest = rest_of(queue, host, groups)
            if queue.state is QueueState.SNOOZED:
                return row.far_ms or queue.wake_ms, queue.rest_reason or rest.reason
            busy = full(host, crawl.settings.politeness.max_parallel, groups)
            if busy is None:
                return (rest.until_ms, rest.reason) if rest.host in queue.lines else (0, "")
            named = [group.message for group in groups if group.host is busy]
            message = (
                f"{named[0]}: busy with other queues" if named else "its host is busy with another queue"
            )
            return 0, message
        case _:
            return 0, queue.rest_reason


def uri_page(
    store: Store, crawl: Crawl, codec: CandidateCodec, queues: Sequence[bytes], size: int, cursor: bytes
) -> tuple[list[UriView], bytes]:
    """URIs that wait, of some queues (or all, if none is named), by their keys; future ones last."""
    _check_cursor(cursor, 1 + QUEUE_BYTES + keys.POSITION_BYTES, "ListUris")
    page: list[UriView] = []
    size = min(size, URIS_PER_READ)
    op = Operation(store, 0)
    if cursor[:1] in (b"", b"\0"):
        for key, value in _pending_rows(store, crawl, queues, cursor[1:]):
            known = op.queue(crawl, key[:QUEUE_BYTES])
            page.append(
                uri_view(
                    codec, known.row.key if known is not None else "", value, keys.due_of_position(key[16:])
                )
            )
            if len(page) == size:
                return page, b"\0" + key
    if queues:
        return page, b""
    prefix = keys.set_prefix(crawl.number, IndexSet.FUTURE)
    start = cursor[1:] if cursor[:1] == b"\1" else b""
    for key, value in store.scan(Family.INDEX, prefix + start, prefix):
        if key[5:] == start:
            continue
        page.append(uri_view(codec, "", value, keys.due_of(key)))
        if len(page) >= size:
            return page, b"\1" + key[5:]
    return page, b""


def _pending_rows(
    store: Store, crawl: Crawl, queues: Sequence[bytes], after: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Rows after a place: queue and position, and the stored value."""
    prefix = keys.crawl_prefix(crawl.number)
    op = Operation(store, 0)
    for part in sorted(queues) or [b""]:
        if part < after[: len(part)]:
            continue  # an earlier page had it
        queue = op.queue(crawl, part) if part else None
        start = max(part + queue.row.start if queue is not None else part, after)
        rows = store.scan(Family.PENDING, prefix + start, prefix + part)
        # No further than the queue's count: after it come deleted rows of emptied queues.
        for key, value in rows if queue is None else islice(rows, queue.row.count):
            if key[4:] != after:
                yield key[4:], value


def uri_view(codec: CandidateCodec, queue_key: str, value: bytes, due_ms: int = 0) -> UriView:
    """A stored URI that waits."""
    pending = decode_pending(value)
    candidate = codec.decode(pending.candidate)
    return UriView(candidate, queue_key, pending.cost, pending.precedence, pending.attempts, due_ms)


def statistics_page(
    store: Store, crawl: Crawl, kind: FetchStatisticsOf, size: int, cursor: bytes
) -> tuple[list[FetchStatisticsView], bytes]:
    """Hosts or sources, with counts of their URIs."""
    prefix = keys.statistics_prefix(crawl.number, kind)
    rows = store.scan(Family.FETCH_STATISTICS, prefix + cursor, prefix)
    found = [(key, value) for key, value in islice(rows, size + 1) if key[len(prefix) :] != cursor][:size]
    page = [
        FetchStatisticsView(key[len(prefix) + 8 :].decode(), decode(FetchStatisticsRow, value))
        for key, value in found
    ]
    return page, found[-1][0][len(prefix) :] if len(found) == size else b""


def seed_page(store: Store, crawl: Crawl, size: int, cursor: int) -> tuple[list[str], int]:
    """Seeds after the first `cursor`, and the next cursor (0 at the end)."""
    if cursor < 0:
        raise InvalidRequest(
            "page_token does not belong to ListSeeds; leave it out to begin again", field="page_token"
        )
    size = min(size, SEEDS_PER_READ)
    prefix = keys.crawl_prefix(crawl.number)
    rows = store.scan(Family.SEEDS, keys.serial_key(crawl.number, cursor + 1), prefix)
    page = [value.decode() for _, value in islice(rows, size)]
    return page, cursor + size if len(page) == size else 0


def largest_queues(store: Store, crawl: Crawl, hosts: Hosts) -> list[QueueView]:
    """The queues with the most URIs, among those that changed since the server started, and those that were
    read from the store: some more at each question, until all are known."""
    op = Operation(store, 0)
    stored = crawl.queues.largest_stored
    if stored.unread is not None:
        stored.unread = _read_on(op, crawl, stored, stored.unread)
    found = [op.queue(crawl, queue_id) for queue_id in {**crawl.queues.largest.queues, **stored.queues}]
    views = [queue_view(op.tx, crawl, queue, hosts) for queue in found if queue is not None]
    return nlargest(MOST, views, key=lambda view: view.queued)


def _read_on(op: Operation, crawl: Crawl, stored: Largest, after: bytes) -> bytes | None:
    """Note some of the stored queues after a cursor. Returns the next cursor; None at the end."""
    for read, (place, queue_id) in enumerate(_queue_ids(op, crawl, None, after), 1):
        queue = op.queue(crawl, queue_id)
        if queue is not None and queue.row.count:
            stored.note(queue)
        if read == ROWS_PER_READ:
            return place
    return None


def slowest_queues(store: Store, crawl: Crawl, hosts: Hosts) -> list[QueueView]:
    """The queues that rest longest, the last to wake first, among those in memory."""
    resting = (queue for queue in crawl.queues.active.values() if queue.state is QueueState.SNOOZED)
    found = nlargest(SLOWEST_QUEUES, resting, key=lambda queue: queue.wake_ms)
    tx = Operation(store, 0).tx
    return [queue_view(tx, crawl, queue, hosts) for queue in found]
