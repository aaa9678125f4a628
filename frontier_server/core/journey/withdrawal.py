"""Takes URIs away that wait or are out: candidates replace them, or their crawl is deleted."""

from ..opening.shard import Shard
from ..rows.errors import StoreCorrupt
from ..rows.records import SeenRow
from ..rules.disposition import Disposition
from ..state.crawl import Crawl
from ..state.head import stored_head
from ..state.leases import Lease
from ..state.model import Report
from ..state.operation import Operation
from ..state.queue import WorkQueue
from . import future
from .enqueue import take_out
from .settlement import Ended, Settling


class Withdrawal:
    """Takes URIs away. Their nodes may still be fetching them, so the hosts rest."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._settling = Settling(shard)

    def withdraw(self, op: Operation, crawl: Crawl, key: bytes, seen: SeenRow) -> None:
        """Take a URI out of its queue, or end its wait for its time; its lease ends.

        `seen` is its row in the seen-set, at `key`, which the caller stores.
        """
        partition, fingerprint = key[4:12], key[12:20]
        if seen.future_ms:
            future.drop(op, crawl, seen.future_ms, partition, fingerprint)
        elif seen.position:
            queue = op.queue(crawl, partition + seen.queue)
            if queue is None:
                raise StoreCorrupt(
                    f"crawl {crawl.name}: queue {seen.queue.hex()} of a waiting URI is missing"
                )
            self._withdraw_from(op, crawl, queue, seen.position)
        seen.position, seen.queue, seen.future_ms = b"", b"", 0
        if seen.disposition == Disposition.DEFERRED.value:  # it is not tried again
            seen.disposition, seen.token_serial = "", 0
            seen.fetch_status, seen.reason = 0, ""

    def _withdraw_from(self, op: Operation, crawl: Crawl, queue: WorkQueue, position: bytes) -> None:
        serial = queue.robots_out if position == queue.robots_for else queue.out.get(position, 0)
        lease = self._shard.leases.of_serial(crawl.number, serial) if serial else None
        if lease is None:
            head = stored_head(op, crawl, self._shard.codec, queue.queue, position)
            take_out(op, crawl, queue, position, head.pending)
            return
        ended = self._settling.end(op, lease)
        take_out(op, crawl, queue, position, ended.head.pending)
        self._rest_unreported(ended)
        self._settling.settle(ended)

    def abandon(self, op: Operation, lease: Lease) -> None:
        """End a lease of a crawl that is deleted."""
        self._rest_unreported(self._settling.end(op, lease))

    def _rest_unreported(self, ended: Ended) -> None:
        """Let a host rest as after a fetch that has lasted until now."""
        report = Report(b"", duration_ms=ended.op.now_ms - ended.lease.row.lease_ms)
        self._settling.rest_host(ended, report, ended.head.uri)
