"""Verification: recounts a crawl row by row while it goes on, and mends what is wrong if asked.

Four passes: every queue against its URIs and its place in the indexes; every index row
against its queue; every URI of the seen-set that waits against where it waits; at the
end the crawl's sums, if nothing changed them meanwhile.
"""

from collections.abc import Iterator
from itertools import islice

from . import job, keys
from .assign import hash64
from .crawl import Crawl
from .keys import IndexSet
from .operation import PRESENT, Operation, inactive_key
from .queue import QueueState, WorkQueue
from .records import JobRow, QueueRow, SeenRow, decode, decode_pending, encode
from .store import Family

ROWS_PER_SLICE = 200
QUEUES_PER_SLICE = 20
RECOUNTS = 3  # of a long queue that changes while it is counted
_QUEUES, _INDEX, _SEEN = b"\0", b"\1", b"\2"
_QUEUE_SETS = frozenset(
    (IndexSet.ACTIVE, IndexSet.INACTIVE, IndexSet.RETIRED, IndexSet.INELIGIBLE, IndexSet.FAR)
)


class Verification:
    """One slice of a job that verifies a crawl. With `repair`, it mends what it finds."""

    def __init__(self, op: Operation, crawl: Crawl, number: int, row: JobRow) -> None:
        self.op = op
        self.crawl = crawl
        self.number = number
        self.row = row
        self.repair = row.parameters.get("repair") == "true"

    def run(self) -> None:
        """Do the slice."""
        row, figures = self.row, self.row.figures
        if not row.cursor:
            figures["changes_at_start"] = self.crawl.counters.sum_changes
            figures["future"] = 0
            row.cursor = _QUEUES
        phase, cursor = row.cursor[:1], row.cursor[1:]
        following = {_QUEUES: self._queues, _INDEX: self._index, _SEEN: self._seen}[phase](cursor)
        if following is not None:
            row.cursor = phase + following
        elif phase != _SEEN:
            row.cursor = _INDEX if phase == _QUEUES else _SEEN
        else:
            self._sums()
            job.end(self.op, self.crawl, self.number, row)
            return
        job.put(self.op, self.crawl, self.number, row)

    def _wrong(self, finding: str) -> None:
        self.row.changed += 1
        job.find(self.row, finding)

    # Queues.

    def _queues(self, cursor: bytes) -> bytes | None:
        """The next queues, or the next part of a long one; where to go on."""
        prefix = keys.crawl_prefix(self.crawl.number)
        behind = cursor[:16]
        if len(cursor) > 16:
            return self._count(self._queue(behind, None), cursor[16:])
        rows = self.op.tx.scan(Family.QUEUES, prefix + behind, prefix)
        read = [row for row in islice(rows, QUEUES_PER_SLICE + 1) if row[0][4:] != behind]
        counted = self.row.done
        following = None
        for key, value in read[:QUEUES_PER_SLICE]:
            queue = self._queue(key[4:], value)
            self._membership(queue)
            figures = self.row.figures
            figures["counted"], figures["recounts"] = 0, 0
            self._note_queue(queue)
            following = self._count(queue, b"\0")
            if len(following) > 16 or self.row.done - counted >= ROWS_PER_SLICE:
                break
        return following

    def _queue(self, queue_id: bytes, value: bytes | None) -> WorkQueue:
        queue = self.op.queue(self.crawl, queue_id)
        if queue is None:
            assert value is not None
            queue = WorkQueue(self.crawl.number, queue_id, decode(QueueRow, value))
        return queue

    def _note_queue(self, queue: WorkQueue) -> None:
        figures = self.row.figures
        figures["enqueued_then"], figures["count_then"] = queue.row.enqueued, queue.row.count

    def _count(self, queue: WorkQueue, cursor: bytes) -> bytes:
        """Count some URIs of a queue; where to go on."""
        figures, row = self.row.figures, queue.row
        prefix = keys.queue_row_key(self.crawl.number, queue.queue)
        start = prefix if cursor == b"\0" else prefix + keys.suffix_after(cursor[-keys.SUFFIX_BYTES :])
        read = list(islice(self.op.tx.scan(Family.PENDING, start, prefix), ROWS_PER_SLICE))
        for key, value in read:
            self._uri(queue, key[len(prefix) :], value)
        figures["counted"] += len(read)
        self.row.done += len(read)
        if len(read) == ROWS_PER_SLICE:
            return queue.queue + b"\0" + read[-1][0][-keys.SUFFIX_BYTES :]
        if (row.enqueued, row.count) != (figures["enqueued_then"], figures["count_then"]):
            figures["recounts"] += 1
            if figures["recounts"] <= RECOUNTS:
                figures["counted"] = 0
                self._note_queue(queue)
                return queue.queue + b"\0"
            figures["too_busy"] = figures.get("too_busy", 0) + 1
        elif figures["counted"] != row.count:
            self._wrong(f"queue {row.key}: counts {row.count} URIs, has {figures['counted']}")
            if self.repair:
                before = self.crawl.counters.sum_changes
                self.op.add_uris(self.crawl, queue, figures["counted"] - row.count)
                figures["changes_at_start"] += self.crawl.counters.sum_changes - before
        self._add_up(queue)
        return queue.queue

    def _uri(self, queue: WorkQueue, suffix: bytes, value: bytes) -> None:
        if suffix < queue.row.head:
            self._wrong(f"queue {queue.row.key}: its head is behind {suffix.hex()}")
            if self.repair:
                self.op.touch(queue).head = suffix
                queue.first = None
        subject = decode_pending(value).subject
        key = keys.seen_key(self.crawl.number, queue.partition, subject)
        found = self.op.tx.get(Family.SEEN, key)
        seen = SeenRow(b"") if found is None else decode(SeenRow, found)
        if (seen.suffix, seen.queue) != (suffix, queue.queue[8:]):
            self._wrong(f"queue {queue.row.key}: the seen-set does not know of {suffix.hex()}")
            if self.repair:
                seen.suffix, seen.queue = suffix, queue.queue[8:]
                self.op.tx.put(Family.SEEN, key, encode(seen))

    def _add_up(self, queue: WorkQueue) -> None:
        figures, count = self.row.figures, queue.row.count
        figures["queues"] = figures.get("queues", 0) + 1
        name = "queued"
        if queue.state is QueueState.RETIRED:
            name = "retired_uris"
        elif queue.state is QueueState.INELIGIBLE and not queue.row.paused:
            figures["barred_uris"] = figures.get("barred_uris", 0) + count
        figures[name] = figures.get(name, 0) + count

    def _membership(self, queue: WorkQueue) -> None:
        for key in expected_index(queue):
            if self.op.tx.get(Family.INDEX, key) is None:
                self._wrong(f"queue {queue.row.key}: {queue.state.value}, but not in that set")
                if self.repair:
                    self.op.tx.put(Family.INDEX, key, PRESENT)
                    self.crawl.inactive_head = self.crawl.far_head = b""
                    self.crawl.first_far_ms = 0

    # Index rows.

    def _index(self, cursor: bytes) -> bytes | None:
        prefix = keys.crawl_prefix(self.crawl.number)
        start = prefix + cursor
        read = list(islice(self.op.tx.scan(Family.INDEX, start, prefix), ROWS_PER_SLICE))
        for key, _ in read:
            self.row.done += 1
            if key[4] == IndexSet.FUTURE:
                self.row.figures["future"] += 1
            if key[4] in _QUEUE_SETS:
                queue = self.op.queue(self.crawl, key[-16:])
                if queue is None or key not in expected_index(queue):
                    self._wrong(f"set {IndexSet(key[4]).name}: {key[-16:].hex()} does not belong there")
                    if self.repair:
                        self.op.tx.delete(Family.INDEX, key)
        return read[-1][0][4:] + b"\0" if len(read) == ROWS_PER_SLICE else None

    # The seen-set.

    def _seen(self, cursor: bytes) -> bytes | None:
        prefix = keys.crawl_prefix(self.crawl.number)
        read = list(islice(self.op.tx.scan(Family.SEEN, prefix + cursor, prefix), ROWS_PER_SLICE))
        for key, value in read:
            self.row.done += 1
            seen = decode(SeenRow, value)
            partition, subject = key[4:12], key[12:20]
            if seen.suffix:
                place = keys.pending_key(self.crawl.number, partition + seen.queue, seen.suffix)
                if self.op.tx.get(Family.PENDING, place) is None:
                    self._wrong(f"seen-set: {subject.hex()} is not where it is said to wait")
                    seen.suffix = b""
                    if self.repair:
                        self.op.tx.put(Family.SEEN, key, encode(seen))
            if seen.future_ms:
                member = partition + subject
                place = keys.timed_key(self.crawl.number, IndexSet.FUTURE, seen.future_ms, member)
                if self.op.tx.get(Family.INDEX, place) is None:
                    self._wrong(f"seen-set: {subject.hex()} is not among the future URIs")
                    seen.future_ms = 0
                    if self.repair:
                        self.op.tx.put(Family.SEEN, key, encode(seen))
            self.row.figures["seen"] = self.row.figures.get("seen", 0) + 1
        return read[-1][0][4:] + b"\0" if len(read) == ROWS_PER_SLICE else None

    # Sums.

    def _sums(self) -> None:
        counters, figures = self.op.counters(self.crawl), self.row.figures
        if counters.sum_changes != figures["changes_at_start"]:
            figures["sums_compared"] = 0  # the crawl went on: only what stands still can be summed up
            return
        figures["sums_compared"] = 1
        for name, actual, counted in self._sums_of():
            if actual != counted:
                self._wrong(f"the crawl counts {actual} {name}, has {counted}")
                if self.repair:
                    setattr(counters, name, counted)

    def _sums_of(self) -> Iterator[tuple[str, int, int]]:
        counters, figures = self.crawl.counters, self.row.figures
        for name in ("queued", "retired_uris", "barred_uris", "future"):
            yield name, getattr(counters, name), figures.get(name, 0)
        yield "discovered", counters.discovered, figures.get("seen", 0)


def expected_index(queue: WorkQueue) -> list[bytes]:
    """The index rows that a queue must have."""
    crawl, queue_id = queue.crawl, queue.queue
    found = [keys.name_prefix(crawl, hash64(queue.row.key)) + queue.partition]
    if queue.in_memory:
        found.append(keys.member_key(crawl, IndexSet.ACTIVE, queue_id))
    elif queue.state is QueueState.SNOOZED:
        found.append(keys.timed_key(crawl, IndexSet.FAR, queue.row.far_ms, queue_id))
    elif queue.state is QueueState.INACTIVE:
        found.append(inactive_key(queue))
    elif queue.state is QueueState.RETIRED:
        found.append(keys.member_key(crawl, IndexSet.RETIRED, queue_id))
    elif queue.state is QueueState.INELIGIBLE:
        found.append(keys.member_key(crawl, IndexSet.INELIGIBLE, queue_id))
    return found
