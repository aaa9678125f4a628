"""Finds work queues by their keys, or by hosts."""

from collections.abc import Iterable, Iterator
from itertools import islice

from ..rows import keys
from ..rows.errors import InvalidRequest
from ..rows.records import QueueRow, decode
from ..rows.store import Family, Store, Transaction
from ..state.crawl import Crawl
from ..state.operation import Operation
from ..state.queue import QueueEvent, QueueState, WorkQueue
from ..uri.assign import hash64
from ..uri.canonical import Malformed, TooLong, UnsupportedScheme, canonical

QUEUES_OF_A_KEY = 100


def check_few(store: Store, crawl: Crawl, key: str, field: str, instead: str) -> None:
    """Raise InvalidRequest if a request would concern too many queues by a key.

    Check requests before they change anything: an operation that has begun must not fail.
    """
    prefix = keys.name_prefix(crawl.number, hash64(key))
    names = islice(store.scan(Family.INDEX, prefix, prefix), QUEUES_OF_A_KEY + 1)
    if len(list(names)) > QUEUES_OF_A_KEY:
        raise InvalidRequest(
            f"more than {QUEUES_OF_A_KEY} queues have the key {key[:200]!r}, each in a partition of its own; "
            + instead,
            field=field,
        )


def queue_ids_of(store: Store | Transaction, crawl: Crawl, key: str) -> list[bytes]:
    """The ids of the queues with a key."""
    key_hash = hash64(key)
    prefix = keys.name_prefix(crawl.number, key_hash)
    ids = [name[len(prefix) :] + key_hash for name, _ in store.scan(Family.INDEX, prefix, prefix)]
    rows = ((one, store.get(Family.QUEUES, keys.queue_row_key(crawl.number, one))) for one in ids)
    return [one for one, value in rows if value is not None and decode(QueueRow, value).key == key]


def wanted_queues(op: Operation, crawl: Crawl, names: Iterable[str]) -> Iterator[WorkQueue]:
    """The queues with some keys, or of some hosts, whose turn it may be now.

    A ready one leaves its place for it; one that is in line for a host keeps that. A queue that waits on disk
    is activated, whatever goes before it.
    """
    for name in names:
        for queue_id in queue_ids_of(op.tx, crawl, name) or _of_host(crawl, name):
            queue = op.queue(crawl, queue_id)
            if queue is None:
                continue
            if queue.state is QueueState.INACTIVE:
                op.move(crawl, queue, QueueEvent.ACTIVATED)
                op.touch(queue).session_start = queue.row.expenditure
            if queue.state in (QueueState.READY, QueueState.BUSY):
                crawl.queues.ready.leave(queue)
                yield queue


def _of_host(crawl: Crawl, host: str) -> list[bytes]:
    """The ids of the queues of a host's home pages."""
    found = []
    for scheme in ("http", "https"):
        try:
            uri = canonical(f"{scheme}://{host}/")
        except (Malformed, UnsupportedScheme, TooLong):
            return []
        queue = crawl.origins.site(uri, crawl.settings_for(uri)).place.queue
        if queue not in found:
            found.append(queue)
    return found
