"""A crawl's seeds, and how far their announcement has come."""

from collections.abc import Sequence
from itertools import islice

from ..machines.lifecycle import CrawlState, Input
from ..rows import keys
from ..rows.records import JobRow
from ..rows.store import Family
from . import job
from .crawl import Crawl
from .job import JobKind
from .life import apply
from .model import Verdict
from .operation import Operation

SEEDS_PER_SLICE = 100


def after(op: Operation, crawl: Crawl, count: int) -> list[str]:
    """The next seeds after the first so many."""
    prefix = keys.crawl_prefix(crawl.number)
    rows = op.tx.scan(Family.SEEDS, keys.serial_key(crawl.number, count + 1), prefix)
    most = min(SEEDS_PER_SLICE, crawl.counters.next_seed - 1 - count)
    return [seed.decode() for _, seed in islice(rows, max(most, 0))]


def count(op: Operation, crawl: Crawl, number: int, row: JobRow, verdicts: Sequence[Verdict]) -> None:
    """Note the verdicts on seeds that a job has announced."""
    row.done += len(verdicts)
    row.changed += verdicts.count(Verdict.QUEUED)
    if row.kind == JobKind.SEED.value:
        op.counters(crawl).announced_seeds += len(verdicts)
    job.put(op, crawl, number, row)


def conclude(op: Operation, crawl: Crawl, number: int, row: JobRow) -> None:
    """End a job that has announced all seeds. A crawl that was waiting for that runs."""
    job.end(op, crawl, number, row)
    if row.kind != JobKind.SEED.value:
        return
    op.event(crawl, "seeds_concluded", seed_count=row.done, queued_count=row.changed)
    if crawl.state is CrawlState.PREPARING:
        apply(op, crawl, Input.SEEDED_TO_PAUSE if crawl.settings.pause_at_start else Input.SEEDED)
