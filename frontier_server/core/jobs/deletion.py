"""The job that deletes URIs by pattern."""

from collections.abc import Iterable

from ..journey import future
from ..journey.conclusion import Final, conclude, record
from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.keys import IndexSet
from ..rows.records import JobRow, decode_pending
from ..rows.store import Family
from ..rules.disposition import DELETED_BY_USER, Disposition
from ..state import job
from ..state.crawl import Crawl
from ..state.head import read_head
from ..state.leases import Lease
from ..state.model import CandidateCodec
from ..state.operation import Operation
from ..state.queue import WorkQueue
from ..uri.patterns import Pattern, compile_pattern, full_match

URIS_PER_SLICE = 200
QUEUES_PER_SLICE = 50  # if they do not match, or have few URIs
_QUEUED, _FUTURE, _END = b"\0", b"\1", b"\2"


class UriDeletion:
    """One slice of a job that deletes waiting URIs whose queue and text match (Heritrix's deleteURIs).

    URIs that are out at a node stay, and are counted. Deleted ones get disposition
    DISREGARDED and fetch status -6000, and stay seen. With `dry_run` they are only counted.
    """

    def __init__(
        self,
        op: Operation,
        crawl: Crawl,
        number: int,
        row: JobRow,
        codec: CandidateCodec,
        leases: Iterable[Lease],
    ) -> None:
        self.op = op
        self.crawl = crawl
        self.number = number
        self.row = row
        self.codec = codec
        self.out = {(lease.row.queue, lease.row.position) for lease in leases if lease.crawl == crawl.number}
        self.queues: Pattern = compile_pattern(row.parameters["queue_pattern"])
        self.uris: Pattern = compile_pattern(row.parameters["uri_pattern"])
        self.dry_run = row.parameters.get("dry_run") == "true"

    def run(self) -> None:
        """Do the slice."""
        row = self.row
        if row.cursor[:1] in (b"", _QUEUED):
            row.cursor = self._queued(row.cursor[1:])
        else:
            row.cursor = self._future(row.cursor[1:])
        if row.cursor == _END:
            job.end(self.op, self.crawl, self.number, row)
        else:
            job.put(self.op, self.crawl, self.number, row)

    def _queued(self, cursor: bytes) -> bytes:
        """Process the next URIs of queues that match; where to continue."""
        read = 0
        for _ in range(QUEUES_PER_SLICE):
            queue_id, read = self._in_queue(cursor, read)
            if queue_id is None:
                return _FUTURE
            if read == URIS_PER_SLICE:
                return _QUEUED + queue_id
            cursor = queue_id
        return _QUEUED + cursor

    def _in_queue(self, cursor: bytes, read: int) -> tuple[bytes | None, int]:
        """Process the first queue from a place on: where to continue, and how many URIs were read."""
        prefix = keys.crawl_prefix(self.crawl.number)
        queue: WorkQueue | None = None
        place: bytes | None = None
        for key, value in self.op.tx.scan(Family.PENDING, prefix + cursor, prefix):
            queue_id, position = key[4:20], key[20:]
            if key[4:] == cursor:
                continue
            if queue is None:
                queue = self.op.queue(self.crawl, queue_id)
                if queue is None:
                    raise StoreCorrupt(f"crawl {self.crawl.name}: queue {queue_id.hex()} is missing")
                if not full_match(self.queues, queue.row.key):
                    return queue_id + keys.LAST_POSITION, read
            elif queue.queue != queue_id:
                break
            read += 1
            self.row.done += 1
            self._consider(queue, position, value)
            place = queue_id + position
            if read == URIS_PER_SLICE:
                break
        return place, read

    def _consider(self, queue: WorkQueue, position: bytes, value: bytes) -> None:
        pending = decode_pending(value)
        head = read_head(self.crawl, self.codec, position, pending)
        if not full_match(self.uris, head.uri.uri):
            return
        if (queue.queue, position) in self.out:
            self.row.counts["leased"] = self.row.counts.get("leased", 0) + 1
            return
        self.row.changed += 1
        job.find(self.row, head.uri.uri)
        if not self.dry_run:
            final = Final(DELETED_BY_USER, Disposition.DISREGARDED, head.uri, head.candidate)
            conclude(self.op, self.crawl, queue, position, pending, final, head.settings)

    def _future(self, cursor: bytes) -> bytes:
        prefix = keys.set_prefix(self.crawl.number, IndexSet.FUTURE)
        read = 0
        for key, value in self.op.tx.scan(Family.INDEX, prefix + cursor, prefix):
            if key[5:] == cursor:
                continue
            read += 1
            self.row.done += 1
            pending = decode_pending(value)
            head = read_head(self.crawl, self.codec, b"", pending)
            place = self.crawl.origins.site(head.uri, head.settings, head.candidate.queue_key).place
            if full_match(self.queues, place.queue_key) and full_match(self.uris, head.uri.uri):
                self.row.changed += 1
                job.find(self.row, head.uri.uri)
                if not self.dry_run:
                    partition = key[13:21]
                    future.drop(self.op, self.crawl, keys.due_of(key), partition, pending.fingerprint)
                    final = Final(DELETED_BY_USER, Disposition.DISREGARDED, head.uri, head.candidate)
                    record(self.op, self.crawl, partition, pending, final, head.settings)
            if read == URIS_PER_SLICE:
                return _FUTURE + key[5:]
        return _END
