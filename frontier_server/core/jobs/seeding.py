"""Jobs that announce a crawl's seeds: at its launch, when seeds are added, and anew in each round."""

from ..journey.intake import schedule
from ..robotstxt.robots_table import RobotsTable
from ..rows.records import JobRow
from ..state import seeds
from ..state.crawl import Crawl
from ..state.leases import LeaseTable
from ..state.model import CandidateCodec
from ..state.operation import Operation


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
    found = seeds.after(op, crawl, counters.announced_seeds)
    if found:
        verdicts = schedule(op, crawl, [codec.seed(seed) for seed in found], robots, leases)
        seeds.count(op, crawl, number, row, verdicts)
    if counters.announced_seeds + 1 >= counters.next_seed:
        seeds.conclude(op, crawl, number, row)


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
    found = seeds.after(op, crawl, row.done)
    if not found:
        seeds.conclude(op, crawl, number, row)
        return
    before_ms = crawl.state_row.round_ms + 1
    candidates = [codec.refetched(codec.seed(seed), before_ms) for seed in found]
    seeds.count(op, crawl, number, row, schedule(op, crawl, candidates, robots, leases, anew=True))
