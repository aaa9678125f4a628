"""Jobs that announce a crawl's seeds: at its launch, when seeds are added, and anew in each round."""

from itertools import islice

from ..journey.intake import schedule
from ..machines.lifecycle import CrawlState, Input
from ..robotstxt.robots_table import RobotsTable
from ..rows import keys
from ..rows.records import JobRow
from ..rows.store import Family
from ..state import job
from ..state.crawl import Crawl
from ..state.leases import LeaseTable
from ..state.life import apply
from ..state.model import CandidateCodec, Verdict
from ..state.operation import Operation

SEEDS_PER_SLICE = 100


def seed_slice(
    op: Operation,
    crawl: Crawl,
    number: int,
    row: JobRow,
    codec: CandidateCodec,
    robots: RobotsTable,
    leases: LeaseTable,
) -> None:
    """Announce the next seeds that were never announced."""
    counters = op.counters(crawl)
    seeds = _seeds(op, crawl, counters.announced_seeds)
    if seeds:
        verdicts = schedule(op, crawl, [codec.seed(seed) for seed in seeds], robots, leases)
        counters.announced_seeds += len(seeds)
        _count(row, verdicts)
        job.put(op, crawl, number, row)
    if counters.announced_seeds + 1 >= counters.next_seed:
        job.end(op, crawl, number, row)
        op.event(crawl, "seeds_concluded", seed_count=row.done, queued_count=row.changed)
        if crawl.state is CrawlState.PREPARING:
            apply(op, crawl, Input.SEEDED_TO_PAUSE if crawl.settings.pause_at_start else Input.SEEDED)


def reseed_slice(
    op: Operation,
    crawl: Crawl,
    number: int,
    row: JobRow,
    codec: CandidateCodec,
    robots: RobotsTable,
    leases: LeaseTable,
) -> None:
    """Announce the next seeds anew, although they have been seen.

    A round fetches a URI once: not one that another seed has redirected to since the round began.
    """
    seeds = _seeds(op, crawl, row.done)
    if not seeds:
        job.end(op, crawl, number, row)
        return
    before_ms = crawl.state_row.round_ms + 1
    candidates = [codec.refetched(codec.seed(seed), before_ms) for seed in seeds]
    _count(row, schedule(op, crawl, candidates, robots, leases, anew=True))
    job.put(op, crawl, number, row)


def _seeds(op: Operation, crawl: Crawl, after: int) -> list[str]:
    """The next seeds after the first so many."""
    prefix = keys.crawl_prefix(crawl.number)
    rows = op.tx.scan(Family.SEEDS, keys.serial_key(crawl.number, after + 1), prefix)
    most = min(SEEDS_PER_SLICE, crawl.counters.next_seed - 1 - after)
    return [seed.decode() for _, seed in islice(rows, max(most, 0))]


def _count(row: JobRow, verdicts: list[Verdict]) -> None:
    row.done += len(verdicts)
    row.changed += verdicts.count(Verdict.QUEUED)
