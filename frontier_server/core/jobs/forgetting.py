"""Forgets seen URIs that a filter chooses, in crawls that keep them.

A job that forgets all URIs of a queue key, waiting ones included, also forgets the queues with this key.
"""

from ..journey import future, kept
from ..journey.enqueue import take_out
from ..journey.named_queues import queue_ids_of
from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.records import JobRow, decode_pending
from ..rows.store import Family
from ..state import job
from ..state.crawl import Crawl
from ..state.operation import Operation
from ..state.queue import QueueState, WorkQueue

ROWS_PER_SLICE = 200


def forget_slice(op: Operation, crawl: Crawl, number: int, row: JobRow) -> None:
    """Forget the next URIs, or, at the end, the queues."""
    wanted = kept.filter_of(row.parameters)
    waiting, dry_run = row.parameters.get("waiting") == "true", row.parameters.get("dry_run") == "true"
    choice = kept.Choice(op.tx, crawl, wanted)
    chosen, following, read = choice.after(row.cursor, ROWS_PER_SLICE)
    row.done += read
    for each in chosen:
        if _is_out(op, crawl, each):
            row.counts["leased"] = row.counts.get("leased", 0) + 1
        elif waiting or not (each.seen.position or each.seen.future_ms):
            row.changed += 1
            job.find(row, each.row.uri)
            if not dry_run:
                _forget(op, crawl, each)
    if chosen and not dry_run:
        crawl.note_forgotten()
    if following:
        row.cursor = following
        job.put(op, crawl, number, row)
        return
    whole = kept.SeenFilter(queue_key=wanted.queue_key) == wanted
    if wanted.queue_key and whole and waiting and not dry_run:
        for queue_id in queue_ids_of(op.tx, crawl, wanted.queue_key):
            _forget_queue(op, crawl, queue_id)
    job.end(op, crawl, number, row)


def _queue_of(op: Operation, crawl: Crawl, each: kept.Kept) -> WorkQueue:
    queue = op.queue(crawl, each.key[4:12] + each.seen.queue)
    if queue is None:
        raise StoreCorrupt(f"crawl {crawl.name}: the queue of {each.row.uri} is missing")
    return queue


def _is_out(op: Operation, crawl: Crawl, each: kept.Kept) -> bool:
    """Whether a URI, or the robots.txt that it waits for, is out."""
    position = each.seen.position
    if not position:
        return False
    queue = _queue_of(op, crawl, each)
    return position in queue.out or (bool(queue.robots_out) and position == queue.robots_for)


def _forget(op: Operation, crawl: Crawl, each: kept.Kept) -> None:
    seen = each.seen
    if seen.position:
        queue = _queue_of(op, crawl, each)
        value = op.tx.get(Family.PENDING, keys.pending_key(crawl.number, queue.queue, seen.position))
        if value is None:
            raise StoreCorrupt(f"crawl {crawl.name}: waiting URI {each.row.uri} is not stored")
        take_out(op, crawl, queue, seen.position, decode_pending(value))
    if seen.future_ms:
        future.drop(op, crawl, seen.future_ms, each.key[4:12], each.key[12:20])
    op.tx.delete(Family.SEEN, each.key)
    kept.drop(op, crawl, each.key)
    op.sums(crawl).discovered -= 1


def _forget_queue(op: Operation, crawl: Crawl, queue_id: bytes) -> None:
    """Forget a queue without URIs that no operator has changed."""
    queue = op.queue(crawl, queue_id)
    if queue is None:
        return
    row = queue.row
    changed = (row.session_budget, row.total_budget, row.fixed_precedence, row.min_gap_ms)
    if row.count or queue.leases_out or row.paused or any(each is not None for each in changed):
        return
    if queue.state in (QueueState.READY, QueueState.SNOOZED, QueueState.EXHAUSTED):
        op.forget_queue(crawl, queue)
