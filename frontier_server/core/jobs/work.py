"""The next slice of a crawl's first job."""

from itertools import islice

from ..machines.lifecycle import ENDING
from ..opening.shard import Shard
from ..state import job
from ..state.crawl import Crawl
from ..state.job import FEEDING, JobKind, JobState
from ..state.operation import Operation
from ..state.queue import QueueEvent
from . import importing
from .deletion import UriDeletion
from .forgetting import forget_slice
from .restoring import restore_slice
from .seeding import reseed_slice, seed_slice
from .steering import queues_slice
from .verification import Verification

QUEUES_PER_SLICE = 200


def work_slice(op: Operation, shard: Shard, crawl: Crawl) -> None:
    """Do a slice of a crawl's first job."""
    number = crawl.jobs[0]
    row = job.get(op.tx, crawl, number)
    kind = JobKind(row.kind)
    abandoned = row.state == JobState.RECEIVING.value  # its rows stay incomplete
    ends = crawl.state_row.tearing_down or (kind in FEEDING and crawl.state in ENDING)
    foreign = kind is JobKind.RESTORE and not crawl.restoring  # it came with another crawl's rows
    if abandoned or ends or foreign:
        row.state = JobState.CANCELLING.value
    if row.state == JobState.CANCELLING.value and kind is not JobKind.IMPORT:
        if kind is JobKind.RESTORE:
            crawl.restoring, row.cursor = "", b""
        job.end(op, crawl, number, row)
        return
    codec, robots = shard.codec, shard.robots
    match kind:
        case JobKind.SEED:
            seed_slice(op, crawl, number, row, codec, robots, shard.leases)
        case JobKind.RESEED:
            reseed_slice(op, crawl, number, row, codec, robots, shard.leases)
        case JobKind.IMPORT:
            importing.import_slice(op, crawl, number, row, codec, robots, shard.leases)
        case JobKind.RESTORE:
            restore_slice(op, crawl, number, row, shard.checkpoint_of, shard.hosts)
        case JobKind.DELETE_URIS:
            UriDeletion(op, crawl, number, row, codec, shard.leases).run()
        case JobKind.FORGET_URIS:
            forget_slice(op, crawl, number, row)
        case JobKind.VERIFY:
            Verification(op, crawl, number, row).run()
        case _:
            queues_slice(op, codec, crawl, number, row)


def unload_slice(op: Operation, crawl: Crawl) -> None:
    """Unload some of the queues that a finished crawl still has in memory."""
    for queue in list(islice(crawl.queues.active.values(), QUEUES_PER_SLICE)):
        if not queue.row.count:
            op.move(crawl, queue, QueueEvent.DRAINED)
        else:
            op.set_aside(crawl, queue)
    if not crawl.queues.active:
        crawl.queues.ready.clear()
        crawl.queues.snoozed.clear()
