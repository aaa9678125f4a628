"""Changes work queues for operators: one by its key, or all whose key matches.

A queue whose URI is out at a node changes its state when that lease ends.
"""

from dataclasses import dataclass

from ..journey import future
from ..rows import keys
from ..rows.errors import InvalidRequest
from ..rows.keys import QUEUE_BYTES
from ..rows.records import JobRow, QueueRow, decode
from ..rows.store import Family
from ..spec.settings import DAY_MS, YEAR_MS
from ..state import job
from ..state.crawl import Crawl
from ..state.head import queue_settings
from ..state.job import JobKind
from ..state.model import CandidateCodec
from ..state.operation import Operation
from ..state.queue import QueueEvent, QueueState, WorkQueue
from ..uri.patterns import Pattern, compile_pattern, full_match

QUEUES_PER_SLICE = 200
FUTURE_PER_SLICE = 500
MAX_PRECEDENCE = 255
_S = QueueState
MAX_REST_MS = YEAR_MS
BY_OPERATOR = "an operator has retired it"


@dataclass(frozen=True, slots=True)
class QueueChange:
    """Changes to a queue; None leaves a field as it is."""

    precedence: int | None = None  # -1: back to the policy's
    session_budget: int | None = None  # -2: back to the settings'
    total_budget: int | None = None  # -2: back to the settings'
    paused: bool | None = None
    retired: bool | None = None
    wake: bool = False
    rest_until_ms: int | None = None
    min_gap_ms: int | None = None  # below 0: back to the settings'


def check(change: QueueChange) -> None:
    """Raise InvalidRequest for an invalid change."""
    for field, value, least, most in (
        ("precedence", change.precedence, -1, MAX_PRECEDENCE),
        ("session_budget", change.session_budget, -2, 1 << 62),
        ("total_budget", change.total_budget, -2, 1 << 62),
    ):
        if value is not None and not least <= value <= most:
            raise InvalidRequest(f"{field} must be between {least} and {most}, got {value}", field=field)
    if change.min_gap_ms is not None and change.min_gap_ms > DAY_MS:
        raise InvalidRequest(f"min_gap must be at most 1 day, got {change.min_gap_ms} ms", field="min_gap")
    if change.wake and change.rest_until_ms is not None:
        raise InvalidRequest("wake and rest_until_time must not be set together, got both", field="wake")
    if change == QueueChange():
        raise InvalidRequest("change must set at least one field", field="change")


def apply(op: Operation, codec: CandidateCodec, crawl: Crawl, queue: WorkQueue, change: QueueChange) -> None:
    """Change a queue."""
    row = op.touch(queue)
    if change.session_budget is not None:
        row.session_budget = None if change.session_budget == -2 else change.session_budget
    if change.total_budget is not None:
        row.total_budget = None if change.total_budget == -2 else change.total_budget
    if change.precedence is not None:
        row.fixed_precedence = None if change.precedence < 0 else change.precedence
        op.reprioritise(crawl, queue, queue_settings(op, crawl, codec, queue).queues)
    if change.paused is not None:
        set_paused(op, codec, crawl, queue, change.paused)
    if change.retired:
        retire(op, crawl, queue, BY_OPERATOR)
    elif change.retired is not None:
        unretire(op, codec, crawl, queue)
    if change.min_gap_ms is not None:
        row.min_gap_ms = None if change.min_gap_ms < 0 else change.min_gap_ms
    if change.wake or change.rest_until_ms is not None:
        force_wake(op, crawl, queue)
    if change.wake:
        _recall(op, codec, crawl, queue)
    if change.rest_until_ms is not None and change.rest_until_ms > op.now_ms:
        rest(op, crawl, queue, change.rest_until_ms)
    _take_another_turn(crawl, queue)


def _take_another_turn(crawl: Crawl, queue: WorkQueue) -> None:
    """Give a BUSY queue another turn: after a change it may have more leases."""
    if queue.state is _S.BUSY:
        crawl.queues.ready.put(queue)


def rest(op: Operation, crawl: Crawl, queue: WorkQueue, until_ms: int) -> None:
    """Let a queue give no leases before a time, at most MAX_REST_MS ahead."""
    row = op.touch(queue)
    row.wake_ms, row.rest_reason = min(until_ms, op.now_ms + MAX_REST_MS), "an operator has put it to rest"
    if queue.state is _S.READY:  # else it rests at its next turn
        op.move(crawl, queue, QueueEvent.RESTED, row.wake_ms, row.rest_reason)


def retire(op: Operation, crawl: Crawl, queue: WorkQueue, reason: str) -> None:
    """Retire a queue: its URIs stay, and are not given out."""
    if queue.state is _S.RETIRED:
        return
    op.touch(queue).retire_reason = reason
    if queue.leases_out:
        queue.row.retiring = True
    else:
        op.move(crawl, queue, QueueEvent.RETIRED)


def unretire(op: Operation, codec: CandidateCodec, crawl: Crawl, queue: WorkQueue) -> None:
    """Unretire a queue; its budget may retire it again at its next turn."""
    op.touch(queue).retiring = False
    if queue.state is not _S.RETIRED:
        return
    queue.row.retire_reason = ""
    op.move(crawl, queue, QueueEvent.UNRETIRED)
    if not queue.row.count:
        op.move(crawl, queue, QueueEvent.DRAINED)
    else:
        op.reprioritise(crawl, queue, queue_settings(op, crawl, codec, queue).queues)


def force_wake(op: Operation, crawl: Crawl, queue: WorkQueue) -> None:
    """End a queue's own rest, such as one before a retry; its host's rest goes on.

    If several hosts share the queue, their rests before a retry end, too.
    """
    row = op.touch(queue)
    row.wake_ms, row.rest_reason, row.woken_ms = 0, "", op.now_ms
    queue.passing = None
    if queue.state is _S.SNOOZED:
        op.wake(crawl, queue)


def _recall(op: Operation, codec: CandidateCodec, crawl: Crawl, queue: WorkQueue) -> None:
    """End the rests of URIs that rest alone before a retry, as far as the queue's are among the next due."""
    most, partition = future.RECALLED_AT_ONCE, queue.partition
    future.recall(op, crawl, codec, b"", most, partition, lambda place: place.queue == queue.queue)


def set_paused(op: Operation, codec: CandidateCodec, crawl: Crawl, queue: WorkQueue, paused: bool) -> None:
    """Pause a queue, or resume it. Its URIs stay queued, so the crawl does not end meanwhile."""
    row = op.touch(queue)
    if row.paused is paused:
        return
    ineligible = queue.state is _S.INELIGIBLE
    if ineligible:  # admit it first: its URIs count differently while it is paused
        op.admit(crawl, queue)
    row.paused = paused
    if not paused:
        op.reprioritise(crawl, queue, queue_settings(op, crawl, codec, queue).queues)
    elif not queue.leases_out and queue.state in (_S.INACTIVE, _S.READY, _S.SNOOZED):
        op.move(crawl, queue, QueueEvent.BECAME_INELIGIBLE)


def queues_slice(op: Operation, codec: CandidateCodec, crawl: Crawl, number: int, row: JobRow) -> None:
    """Change the next queues whose keys match a job's pattern, then the URIs that rest outside them."""
    kind, pattern = JobKind(row.kind), compile_pattern(row.parameters.get("queue_pattern", ".*"))
    ended = len(row.cursor) > QUEUE_BYTES or _pass_queues(op, codec, crawl, row, kind, pattern)
    if ended and kind is JobKind.WAKE_QUEUES:
        cursor = row.cursor if len(row.cursor) > QUEUE_BYTES else b""
        row.cursor, recalled = future.recall(
            op,
            crawl,
            codec,
            cursor,
            FUTURE_PER_SLICE,
            b"",
            lambda place: full_match(pattern, place.queue_key),
        )
        if recalled:
            row.counts["recalled"] = row.counts.get("recalled", 0) + recalled
        ended = not row.cursor
    if ended:
        job.end(op, crawl, number, row)
    else:
        job.put(op, crawl, number, row)


def _pass_queues(
    op: Operation, codec: CandidateCodec, crawl: Crawl, row: JobRow, kind: JobKind, pattern: Pattern
) -> bool:
    """Change the next queues; return whether these were the last ones."""
    prefix = keys.crawl_prefix(crawl.number)
    queue_id = b""
    read = 0
    for key, value in op.tx.scan(Family.QUEUES, prefix + row.cursor, prefix):
        queue_id = key[len(prefix) :]
        if queue_id == row.cursor:
            continue
        read += 1
        queue = op.queue(crawl, queue_id) or WorkQueue(crawl.number, queue_id, decode(QueueRow, value))
        if full_match(pattern, queue.row.key) and _concerns(kind, queue):
            row.changed += 1
            _change(op, codec, crawl, queue, kind)
        if read == QUEUES_PER_SLICE:
            break
    row.done += read
    row.cursor = queue_id
    return read < QUEUES_PER_SLICE


def _concerns(kind: JobKind, queue: WorkQueue) -> bool:
    match kind:
        case JobKind.RETIRE_QUEUES:
            return queue.state is not _S.RETIRED
        case JobKind.UNRETIRE_QUEUES:
            return queue.state is _S.RETIRED or queue.row.retiring
        case JobKind.WAKE_QUEUES:
            return queue.state is _S.SNOOZED
        case _:
            return queue.state in (_S.INACTIVE, _S.INELIGIBLE)


def _change(op: Operation, codec: CandidateCodec, crawl: Crawl, queue: WorkQueue, kind: JobKind) -> None:
    match kind:
        case JobKind.RETIRE_QUEUES:
            retire(op, crawl, queue, BY_OPERATOR)
        case JobKind.UNRETIRE_QUEUES:
            unretire(op, codec, crawl, queue)
            _take_another_turn(crawl, queue)
        case JobKind.WAKE_QUEUES:
            force_wake(op, crawl, queue)
        case _:
            op.reprioritise(crawl, queue, queue_settings(op, crawl, codec, queue).queues)
