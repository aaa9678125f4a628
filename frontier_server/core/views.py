"""What operators see of a crawl: its description, figures, queues and events."""

from collections.abc import Iterator

from . import keys
from .crawl import EVENTS_KEPT, Crawl
from .dispatch import empty_reason
from .errors import CursorTooOld, InvalidRequest
from .host import MAX_IN_FLIGHT, Hosts
from .model import CrawlView, EmptyReason, QueueView, StatisticsView
from .queue import QueueState, WorkQueue
from .records import EventRow, OutcomeRow, QueueRow, decode
from .store import Family, Store, Transaction

EVENTS_PER_READ = 200
QUEUES_PER_READ = 1000


def crawl_view(crawl: Crawl) -> CrawlView:
    """A crawl's description."""
    row, counters = crawl.state_row, crawl.counters
    return CrawlView(
        crawl.number,
        crawl.name,
        crawl.spec.spec,
        crawl.state,
        crawl.exit_status,
        row.reach_ms,
        crawl.spec.create_ms,
        row.launch_ms,
        row.finish_ms,
        counters.next_seed - 1,
        counters.announced_seeds,
        max(counters.next_event - EVENTS_KEPT, 1),
        counters.next_event - 1,
    )


def statistics(crawl: Crawl, now_ms: int) -> StatisticsView:
    """A crawl's figures."""
    counters, row = crawl.counters, crawl.state_row
    running_ms = now_ms - row.running_since_ms if row.running_since_ms else 0
    waiting_for, next_due_ms = awaited(crawl)
    return StatisticsView(
        now_ms,
        {
            "discovered_count": counters.discovered,
            "queued_count": counters.queued,
            "leased_count": crawl.leases_out,
            "succeeded_count": counters.succeeded,
            "failed_count": counters.failed,
            "disregarded_count": counters.disregarded,
            "deferred_count": counters.deferred,
            "lapsed_count": counters.lapsed,
            "robots_fetch_count": counters.robots_fetches,
            "bytes_count": counters.bytes,
        },
        dict(counters.fetch_statuses),
        dict(counters.verdicts),
        {
            QueueState.EXHAUSTED: counters.exhausted_queues,
            QueueState.INACTIVE: counters.inactive_queues,
            QueueState.READY: crawl.active_counts[QueueState.READY],
            QueueState.BUSY: crawl.active_counts[QueueState.BUSY],
            QueueState.SNOOZED: crawl.active_counts[QueueState.SNOOZED],
        },
        row.elapsed_ms + running_ms,
        next_due_ms,
        waiting_for,
    )


def awaited(crawl: Crawl) -> tuple[str, int | None]:
    """In words, why no lease can be given now, and until when at least; ("", None) when one can."""
    reason = empty_reason(crawl)
    if reason is not EmptyReason.NOTHING_DUE:
        words = {
            EmptyReason.NOT_RUNNING: "the seeds' announcement" if crawl.state_row.launch_ms else "launch",
            EmptyReason.PAUSED: "resumption; the crawl pauses",
            EmptyReason.FINISHED: f"{crawl.leases_out} leases to end" if crawl.leases_out else "",
            EmptyReason.LIMIT_REACHED: f"the last {crawl.pages_out} documents of the limit",
        }
        return words[reason], None
    if crawl.counters.inactive_queues or crawl.ready:
        return "", None
    out = crawl.leases_out
    under_way = f"{out} fetch under way" if out == 1 else f"{out} fetches under way"
    queue = crawl.next_wake()
    if queue is None:
        return (under_way if out else ""), None
    resting = crawl.active_counts[QueueState.SNOOZED]
    noun = "queue at rest" if resting == 1 else "queues at rest"
    others = f"; {under_way}" if out else ""
    return f"{resting} {noun}, first {queue.row.key} ({queue.rest_reason}){others}", queue.wake_ms


def queue_page(
    store: Store, crawl: Crawl, hosts: Hosts, state: QueueState | None, size: int, cursor: bytes
) -> tuple[list[QueueView], bytes]:
    """Queues of a state (or all) in key order behind `cursor`, and the next cursor (empty at the end)."""
    prefix = keys.crawl_prefix(crawl.number)
    if cursor and len(cursor) != 16:
        raise InvalidRequest("page_token is not one of ListQueues", field="page_token")
    start = keys.queue_row_key(crawl.number, cursor) + b"\0" if cursor else prefix
    tx = Transaction(store)
    page: list[QueueView] = []
    for read, (key, value) in enumerate(store.scan(Family.QUEUES, start, prefix), 1):
        queue_id = key[len(prefix) :]
        queue = crawl.queues.get(queue_id)
        if queue is None:
            queue = WorkQueue(crawl.number, queue_id, decode(QueueRow, value))
        if state is None or queue.state is state:
            page.append(_queue_view(tx, queue, hosts))
        if len(page) == size or read == QUEUES_PER_READ:
            return page, queue_id
    return page, b""


def _queue_view(tx: Transaction, queue: WorkQueue, hosts: Hosts) -> QueueView:
    row = queue.row
    reason = queue.rest_reason
    if queue.state is QueueState.READY and hosts.get(tx, row.host).in_flight >= MAX_IN_FLIGHT:
        reason = "its host answers another queue"
    return QueueView(
        row.key,
        row.host,
        queue.state,
        row.count,
        row.enqueued,
        queue.leases_out,
        row.failed,
        queue.wake_ms,
        reason,
        row.precedence,
    )


def events_after(store: Store, crawl: Crawl, sequence: int) -> list[tuple[int, EventRow]]:
    """Events behind a sequence number, in order; no more than EVENTS_PER_READ at a time.

    Raises CursorTooOld if one of them is no longer kept.
    """
    last = crawl.counters.next_event - 1
    if sequence > last:
        raise InvalidRequest(f"cursor {sequence} is ahead of the last event, {last}", field="cursor")
    if sequence < last - EVENTS_KEPT:
        raise CursorTooOld(
            f"events behind {sequence} are not kept any more; the oldest kept is {last - EVENTS_KEPT + 1}",
            oldest=str(last - EVENTS_KEPT + 1),
        )
    rows = _serial_rows(store, Family.EVENTS, crawl, sequence)
    return [(number, decode(EventRow, value)) for number, value in _first(rows, EVENTS_PER_READ)]


def outcomes_after(store: Store, crawl: Crawl, number: int, most: int) -> list[tuple[int, OutcomeRow]]:
    """Final dispositions behind a number, in order."""
    rows = _serial_rows(store, Family.OUTCOMES, crawl, number)
    return [(serial, decode(OutcomeRow, value)) for serial, value in _first(rows, most)]


def _serial_rows(store: Store, family: Family, crawl: Crawl, after: int) -> Iterator[tuple[int, bytes]]:
    prefix = keys.crawl_prefix(crawl.number)
    for key, value in store.scan(family, keys.serial_key(crawl.number, after + 1), prefix):
        yield keys.serial_of(key), value


def _first(rows: Iterator[tuple[int, bytes]], most: int) -> Iterator[tuple[int, bytes]]:
    for count, row in enumerate(rows, 1):
        yield row
        if count == most:
            return
