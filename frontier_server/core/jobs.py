"""Work in slices: seeding, deleting a crawl, letting go of a finished crawl's queues.

Seeding and deletion are durable jobs with a cursor: a slice and its cursor are one
write, so each seed is announced exactly once, whatever is killed between.
"""

from itertools import islice

from . import keys
from .crawl import Crawl, Operation
from .intake import schedule
from .life import hear
from .lifecycle import ENDING, CrawlState, Input
from .model import CandidateCodec, Verdict
from .queue import QueueEvent
from .records import JobRow, decode, encode
from .robots_table import RobotsTable
from .store import Family

SEEDS_PER_SLICE = 100
ROWS_PER_SLICE = 500
QUEUES_PER_SLICE = 200
SEED, DELETE = "seed", "delete"


def start(op: Operation, crawl: Crawl, kind: str) -> None:
    """Begin a job of a crawl."""
    counters = op.counters(crawl)
    number = counters.next_job
    counters.next_job += 1
    crawl.jobs.append(number)
    op.tx.put(Family.JOBS, keys.serial_key(crawl.number, number), encode(JobRow(kind)))


def seed_slice(op: Operation, crawl: Crawl, codec: CandidateCodec, robots: RobotsTable) -> None:
    """Announce the next seeds of a crawl's first job; conclude it when none is left."""
    key = keys.serial_key(crawl.number, crawl.jobs[0])
    value = op.tx.get(Family.JOBS, key)
    job = decode(JobRow, value) if value else JobRow(SEED)
    counters = op.counters(crawl)
    if crawl.state in ENDING:
        _conclude(op, crawl, key)
        return
    prefix = keys.crawl_prefix(crawl.number)
    start_key = keys.serial_key(crawl.number, counters.announced_seeds + 1)
    seeds: list[str] = []
    for _, seed in op.tx.scan(Family.SEEDS, start_key, prefix):
        seeds.append(seed.decode())
        if len(seeds) == SEEDS_PER_SLICE:
            break
    if seeds:
        verdicts = schedule(op, crawl, [codec.seed(seed) for seed in seeds], robots)
        counters.announced_seeds += len(seeds)
        job.done += len(seeds)
        job.queued += verdicts.count(Verdict.QUEUED)
        op.tx.put(Family.JOBS, key, encode(job))
    if counters.announced_seeds + 1 >= counters.next_seed:
        _conclude(op, crawl, key)
        op.event(crawl, "seeds_concluded", seed_count=job.done, queued_count=job.queued)
        if crawl.state is CrawlState.PREPARING:
            hear(op, crawl, Input.SEEDED)


def _conclude(op: Operation, crawl: Crawl, key: bytes) -> None:
    crawl.jobs.pop(0)
    op.tx.delete(Family.JOBS, key)


# In this order; a crawl's own rows last, so that an interrupted deletion is found again.
_OF_A_CRAWL = (
    Family.SEEDS,
    Family.QUEUES,
    Family.PENDING,
    Family.SEEN,
    Family.INDEX,
    Family.LEASES,
    Family.EVENTS,
    Family.OUTCOMES,
    Family.JOBS,
    Family.CRAWLS,
)


class Deletion:
    """The deletion of a crawl that nobody can see any more. Its place is where rows are left."""

    def __init__(self, crawl: int) -> None:
        self.crawl = crawl
        self._prefix = keys.crawl_prefix(crawl)
        self._cursor = self._prefix  # deleted rows before it need not be walked again
        self._families = list(_OF_A_CRAWL)

    def slice(self, op: Operation) -> bool:
        """Delete some rows; whether any may be left."""
        family = self._families[0]
        for rows, (key, _) in enumerate(op.tx.scan(family, self._cursor, self._prefix), 1):
            op.tx.delete(family, key)
            self._cursor = key
            if rows == ROWS_PER_SLICE:
                return True
        self._families.pop(0)
        self._cursor = self._prefix
        return bool(self._families)


def unload_slice(op: Operation, crawl: Crawl) -> None:
    """Let go of some of the queues that a finished crawl still has in memory."""
    for queue in list(islice(crawl.queues.values(), QUEUES_PER_SLICE)):
        op.move(crawl, queue, QueueEvent.DEACTIVATED if queue.row.count else QueueEvent.DRAINED)
    if not crawl.queues:
        crawl.ready.clear()
        crawl.snoozed.clear()
        crawl.known_texts.clear()
        crawl.scope_cache.clear()
