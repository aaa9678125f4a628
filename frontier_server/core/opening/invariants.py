"""What must hold of queues and crawls at the end of each operation that changes them.

A count below nothing, or a queue that is not where its state says, would sooner or later lose URIs or lease
one twice. So the operation raises InvariantBroken before anything of it is stored, and the server stops: the
store is as it was, and the next start makes memory from it.

The cheap checks look at what the operation changed in memory, and run always. The dear one reads the rows of
each queue that it changed, and runs if somebody asks for it.
"""

from ..rows import keys
from ..rows.errors import InvariantBroken
from ..rows.records import CountersRow, decode_pending
from ..rows.store import Family
from ..state.crawl import Crawl
from ..state.operation import Operation
from ..state.queue import QueueState, WorkQueue


def check(op: Operation, crawls: dict[int, Crawl], dearly: bool) -> None:
    """Raise InvariantBroken if an operation leaves a crawl or a queue in contradiction with itself."""
    for crawl in op.touched:
        _check_crawl(crawl)
    for queue in op.touched_queues:
        its = crawls.get(queue.crawl)
        if its is not None:
            _check_queue(its, queue)
            if dearly:
                _recount(op, its, queue)


def _check_crawl(crawl: Crawl) -> None:
    counters, queues = crawl.counters, crawl.queues
    if (
        counters.queued < 0
        or counters.future < 0
        or counters.retired_uris < 0
        or counters.ineligible_uris < 0
        or counters.to_revisit < 0
        or counters.kept_room < 0
    ):
        raise InvariantBroken(f"crawl {crawl.name}: {_below_nothing(counters)}")
    if not 0 <= crawl.known_out <= crawl.pages_out <= crawl.leases_out:
        raise InvariantBroken(
            f"crawl {crawl.name}: of {crawl.leases_out} leases out, {crawl.pages_out} are pages, and "
            f"{crawl.known_out} of these are known"
        )
    if counters.active_queues != len(queues.active):
        raise InvariantBroken(
            f"crawl {crawl.name}: {counters.active_queues} active queues are counted, but memory has "
            f"{len(queues.active)}"
        )


def _below_nothing(counters: CountersRow) -> str:
    names = ("queued", "future", "retired_uris", "ineligible_uris", "to_revisit", "kept_room")
    counts = [(name, getattr(counters, name)) for name in names]
    return ", ".join(f"{name} must be at least 0, got {count}" for name, count in counts if count < 0)


def _check_queue(crawl: Crawl, queue: WorkQueue) -> None:
    row, state = queue.row, queue.state
    problem = ""
    if row.count < 0:
        problem = f"it must have at least 0 URIs, got {row.count}"
    elif len(queue.out) > row.count or queue.leases_out != len(queue.out) + bool(queue.robots_out):
        problem = f"of its {row.count} URIs {len(queue.out)} are out, in {queue.leases_out} leases"
    elif (state is QueueState.BUSY) != bool(queue.leases_out):
        problem = f"it is {state.value}, with {queue.leases_out} leases out"
    elif queue.in_memory != (crawl.queues.active.get(queue.queue) is queue):
        problem = f"it is {state.value}, and {'not ' if queue.in_memory else ''}among the active queues"
    elif state is QueueState.EXHAUSTED and row.count:
        problem = f"it is EXHAUSTED, with {row.count} URIs"
    if problem:
        raise InvariantBroken(f"crawl {crawl.name}, queue {row.key!r}: {problem}")


def _recount(op: Operation, crawl: Crawl, queue: WorkQueue) -> None:
    """Compare a queue's counts, and the places where its levels begin, with its rows."""
    row, prefix = queue.row, keys.queue_row_key(queue.crawl, queue.queue)
    found: dict[int, int] = {}
    positions: set[bytes] = set()
    for key, value in op.tx.scan(Family.PENDING, prefix, prefix):
        position = key[len(prefix) :]
        positions.add(position)
        precedence = decode_pending(value).precedence
        found[precedence] = found.get(precedence, 0) + 1
        level = keys.level_of(position)
        if keys.ordinal_of(position) < row.heads.get(level, keys.ordinal_of(position) + 1):
            raise InvariantBroken(
                f"crawl {crawl.name}, queue {row.key!r}: URI {position.hex()} is before the head of its level"
            )
    if len(positions) != row.count or found != row.uri_precedences:
        raise InvariantBroken(
            f"crawl {crawl.name}, queue {row.key!r}: {row.count} URIs are counted, {row.uri_precedences} by "
            f"precedence; stored are {len(positions)}, {found}"
        )
    if not queue.out.keys() <= positions:
        raise InvariantBroken(f"crawl {crawl.name}, queue {row.key!r}: a URI that is out is not stored")
