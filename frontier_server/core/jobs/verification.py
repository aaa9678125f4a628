"""Verification: recounts a crawl row by row while it goes on, and repairs faults if asked.

Five passes compare every queue with its place in the indexes; every waiting URI with its
queue and the seen-set; every index row with its queue; every URI of the seen-set with the
place where it should wait; and last the crawl's sums, if they have not changed meanwhile.
Each pass reads its rows once, in order: a scan for the rest of one queue would walk over the
deleted rows of others.
"""

from collections.abc import Iterator
from itertools import islice

from ..rows import keys
from ..rows.keys import IndexSet
from ..rows.records import JobRow, QueueRow, SeenRow, decode, decode_pending, encode
from ..rows.store import Family
from ..state import job, lanes
from ..state.crawl import Crawl
from ..state.operation import PRESENT, Operation, inactive_key
from ..state.queue import QueueState, WorkQueue
from ..uri.assign import hash64

ROWS_PER_SLICE = 200
QUEUES_PER_SLICE = 20
RECOUNTS = 3  # of a queue that changes while it is counted
_QUEUES, _URIS, _INDEX, _SEEN = b"\0", b"\1", b"\2", b"\3"
_AFTER = {_QUEUES: _URIS, _URIS: _INDEX, _INDEX: _SEEN}
_QUEUE_SETS = frozenset(
    (IndexSet.ACTIVE, IndexSet.INACTIVE, IndexSet.RETIRED, IndexSet.INELIGIBLE, IndexSet.FAR)
)
_LANES = (IndexSet.LANE, IndexSet.LANE_HEAD)


class Verification:
    """One slice of a job that verifies a crawl. With `repair` it mends the faults."""

    def __init__(self, op: Operation, crawl: Crawl, number: int, row: JobRow) -> None:
        self.op = op
        self.crawl = crawl
        self.number = number
        self.row = row
        self.repair = row.parameters.get("repair") == "true"

    def run(self) -> None:
        """Do the slice."""
        row, counts = self.row, self.row.counts
        if not row.cursor:
            counts["changes_at_start"] = self.crawl.counters.sum_changes
            counts["future"] = 0
            row.cursor = _QUEUES
        phase, cursor = row.cursor[:1], row.cursor[1:]
        passes = {_QUEUES: self._queues, _URIS: self._uris, _INDEX: self._index, _SEEN: self._seen}
        following = passes[phase](cursor)
        if following is not None:
            row.cursor = phase + following
        elif phase in _AFTER:
            row.cursor = _AFTER[phase]
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
        """Check the next queues; where to continue."""
        prefix = keys.crawl_prefix(self.crawl.number)
        rows = self.op.tx.scan(Family.QUEUES, prefix + cursor, prefix)
        read = [row for row in islice(rows, QUEUES_PER_SLICE + 1) if row[0][4:] != cursor]
        for key, value in read:
            queue = self.op.queue(self.crawl, key[4:])
            if queue is None:
                queue = WorkQueue(self.crawl.number, key[4:], decode(QueueRow, value))
            self.row.done += 1
            self._membership(queue)
            self._add_up(queue, queue.row.count)
            self.row.counts["queues"] = self.row.counts.get("queues", 0) + 1
            if queue.row.count and self._empty(queue):
                self._counted(queue, 0)
        return read[-1][0][4:] if read else None

    def _empty(self, queue: WorkQueue) -> bool:
        prefix = keys.queue_row_key(self.crawl.number, queue.queue)
        return not any(True for _ in self.op.tx.scan(Family.PENDING, prefix + queue.row.start, prefix))

    def _counted(self, queue: WorkQueue, uris: int) -> None:
        """Compare a queue's count with its number of URIs."""
        row = queue.row
        if uris != row.count:
            self._wrong(f"the URI count of queue {row.key} must be {uris}, got {row.count}")
            if self.repair:
                before, more = self.crawl.counters.sum_changes, uris - row.count
                self.op.add_uris(self.crawl, queue, more)
                self._add_up(queue, more)
                self.row.counts["changes_at_start"] += self.crawl.counters.sum_changes - before

    # URIs that wait.

    def _uris(self, cursor: bytes) -> bytes | None:
        """Check the next URIs, queue by queue; where to continue."""
        prefix, counts = keys.crawl_prefix(self.crawl.number), self.row.counts
        rows = self.op.tx.scan(Family.PENDING, prefix + cursor, prefix)
        read = [row for row in islice(rows, ROWS_PER_SLICE + 1) if row[0][4:] != cursor]
        current = self._known(cursor[:16])
        if current is not None and len(cursor) == 16:  # count its URIs again
            counts["counted"] = 0
            self._record_queue(current)
        for key, value in read:
            queue_id, position = key[4:20], key[20:]
            if current is None or current.queue != queue_id:
                if current is not None and not self._close(current):
                    return current.queue
                current = self._known(queue_id)
                if current is None:
                    self._wrong(f"queue {queue_id.hex()} has URIs, but its own row is missing")
                    return queue_id + keys.LAST_POSITION
                counts["counted"], counts["recounts"] = 0, counts.get("recounts", 0)
                self._record_queue(current)
            self._uri(current, position, value)
            counts["counted"] += 1
            self.row.done += 1
        if read:
            return read[-1][0][4:]
        if current is not None and len(cursor) > 16 and not self._close(current):
            return current.queue
        return None

    def _known(self, queue_id: bytes) -> WorkQueue | None:
        return self.op.queue(self.crawl, queue_id) if queue_id else None

    def _record_queue(self, queue: WorkQueue) -> None:
        counts = self.row.counts
        counts["enqueued_then"], counts["count_then"] = queue.row.enqueued, queue.row.count

    def _close(self, queue: WorkQueue) -> bool:
        """End the count of a queue; False if it must be counted again."""
        counts, row = self.row.counts, queue.row
        if (row.enqueued, row.count) == (counts["enqueued_then"], counts["count_then"]):
            self._counted(queue, counts["counted"])
        elif counts["recounts"] < RECOUNTS:
            counts["recounts"] += 1
            return False
        else:
            counts["too_busy"] = counts.get("too_busy", 0) + 1
        counts["recounts"] = 0
        return True

    def _uri(self, queue: WorkQueue, position: bytes, value: bytes) -> None:
        level, ordinal, heads = keys.level_of(position), keys.ordinal_of(position), queue.row.heads
        if ordinal < heads.get(level, ordinal + 1):
            self._wrong(f"queue {queue.row.key} begins after its URI {position.hex()}")
            if self.repair:
                self.op.touch(queue)
                heads[level] = ordinal
                queue.firsts.pop(level, None)
                queue.ahead.forget()
        uri = decode_pending(value)
        if not uri.lane and queue.row.filed >= position:
            self._wrong(
                f"queue {queue.row.key} has URI {position.hex()} in no lane, but says that all are in one"
            )
            if self.repair:
                self.op.touch(queue).filed = b""
        elif uri.lane and not lanes.has(self.op, self.crawl, queue, uri.lane, position):
            self._wrong(
                f"queue {queue.row.key} has URI {position.hex()}, which the lane of its authority lacks"
            )
            if self.repair:
                lanes.mend(self.op, self.crawl, queue, uri.lane, position)
        key = keys.seen_key(self.crawl.number, queue.partition, uri.fingerprint)
        found = self.op.tx.get(Family.SEEN, key)
        seen = SeenRow(b"") if found is None else decode(SeenRow, found)
        if (seen.position, seen.queue) != (position, queue.queue[8:]):
            self._wrong(f"queue {queue.row.key} has URI {position.hex()}, which the seen-set lacks")
            if self.repair:
                seen.position, seen.queue = position, queue.queue[8:]
                self.op.tx.put(Family.SEEN, key, encode(seen))

    def _add_up(self, queue: WorkQueue, uris: int) -> None:
        counts = self.row.counts
        name = "queued"
        if queue.state is QueueState.RETIRED:
            name = "retired_uris"
        elif queue.state is QueueState.INELIGIBLE and not queue.row.paused:
            counts["ineligible_uris"] = counts.get("ineligible_uris", 0) + uris
        counts[name] = counts.get(name, 0) + uris

    def _membership(self, queue: WorkQueue) -> None:
        for key in expected_index(queue):
            if self.op.tx.get(Family.INDEX, key) is None:
                self._wrong(f"queue {queue.row.key} is {queue.state.value}, but missing from that set")
                if self.repair:
                    self.op.tx.put(Family.INDEX, key, PRESENT)
                    self.crawl.queues.inactive_heads.clear()
                    self.crawl.queues.far_head = b""
                    self.crawl.queues.first_far_ms = 0

    # Index rows.

    def _index(self, cursor: bytes) -> bytes | None:
        prefix = keys.crawl_prefix(self.crawl.number)
        start = prefix + cursor
        read = list(islice(self.op.tx.scan(Family.INDEX, start, prefix), ROWS_PER_SLICE))
        for key, _ in read:
            self.row.done += 1
            if key[4] == IndexSet.FUTURE:
                self.row.counts["future"] += 1
            if key[4] in _LANES:
                self._lane(key)
            if key[4] in _QUEUE_SETS:
                queue = self.op.queue(self.crawl, key[-16:])
                if queue is None or key not in expected_index(queue):
                    self._wrong(
                        f"set {IndexSet(key[4]).name} has {key[-16:].hex()}, which does not belong there"
                    )
                    if self.repair:
                        self.op.tx.delete(Family.INDEX, key)
        return read[-1][0][4:] + b"\0" if len(read) == ROWS_PER_SLICE else None

    def _lane(self, key: bytes) -> None:
        """Compare a row of a lane, or of the order of lanes, with the URIs of its queue."""
        if lanes.is_explained(self.op, self.crawl, key):
            return
        self._wrong(f"a lane of queue {key[5:21].hex()} has row {key[21:].hex()}, which the queue lacks")
        if not self.repair:
            return
        queue = self.op.queue(self.crawl, key[5:21])
        if queue is not None:
            queue.passing = None
        if queue is not None and key[4] == IndexSet.LANE:
            lanes.leave(self.op, self.crawl, queue, key[21:29], key[29:])
        else:
            self.op.tx.delete(Family.INDEX, key)

    # The seen-set.

    def _seen(self, cursor: bytes) -> bytes | None:
        prefix = keys.crawl_prefix(self.crawl.number)
        read = list(islice(self.op.tx.scan(Family.SEEN, prefix + cursor, prefix), ROWS_PER_SLICE))
        for key, value in read:
            self.row.done += 1
            seen = decode(SeenRow, value)
            partition, fingerprint = key[4:12], key[12:20]
            if seen.position:
                place = keys.pending_key(self.crawl.number, partition + seen.queue, seen.position)
                if self.op.tx.get(Family.PENDING, place) is None:
                    self._wrong(
                        f"URI {fingerprint.hex()} of the seen-set is missing from its place in the queue"
                    )
                    seen.position = b""
                    if self.repair:
                        self.op.tx.put(Family.SEEN, key, encode(seen))
            if seen.future_ms:
                member = partition + fingerprint
                place = keys.timed_key(self.crawl.number, IndexSet.FUTURE, seen.future_ms, member)
                if self.op.tx.get(Family.INDEX, place) is None:
                    self._wrong(f"URI {fingerprint.hex()} of the seen-set is missing from the future URIs")
                    seen.future_ms = 0
                    if self.repair:
                        self.op.tx.put(Family.SEEN, key, encode(seen))
            self.row.counts["seen"] = self.row.counts.get("seen", 0) + 1
        return read[-1][0][4:] + b"\0" if len(read) == ROWS_PER_SLICE else None

    # Sums.

    def _sums(self) -> None:
        counters, counts = self.op.counters(self.crawl), self.row.counts
        if counters.sum_changes != counts["changes_at_start"]:
            counts["sums_compared"] = 0  # the sums have changed, so they cannot be compared
            return
        counts["sums_compared"] = 1
        for name, actual, counted in self._sums_of():
            if actual != counted:
                self._wrong(f"the crawl counts {actual} {name}, but has {counted}")
                if self.repair:
                    setattr(counters, name, counted)

    def _sums_of(self) -> Iterator[tuple[str, int, int]]:
        counters, counts = self.crawl.counters, self.row.counts
        for name in ("queued", "retired_uris", "ineligible_uris", "future"):
            yield name, getattr(counters, name), counts.get(name, 0)
        yield "discovered", counters.discovered, counts.get("seen", 0)


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
