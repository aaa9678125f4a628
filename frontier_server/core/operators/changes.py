"""Changes of a crawl's spec and overrides, with all that follows from them for its hosts and queues."""

from collections.abc import Sequence

from ..machines.lifecycle import CrawlState
from ..opening.shard import Shard
from ..rows import keys
from ..rows.records import SpecRow, encode
from ..rows.store import Family
from ..state import job
from ..state.crawl import Crawl
from ..state.job import JobKind
from ..state.meaning import authorities
from ..state.operation import Operation
from ..uri.scope import add_authority


def put_spec(op: Operation, crawl: Crawl, row: SpecRow) -> None:
    """Store a crawl's spec."""
    op.tx.put(Family.CRAWLS, keys.crawl_key(crawl.number, keys.CrawlRow.SPEC), encode(row))


def change_spec(op: Operation, shard: Shard, crawl: Crawl, spec: bytes) -> None:
    """Replace the spec of a crawl by a checked one."""
    if spec == crawl.spec.spec:
        return
    before = crawl.settings
    crawl.set_spec(SpecRow(crawl.spec.name, spec, crawl.spec.create_ms))
    settings = crawl.settings
    of_host = authorities(settings.scope.hosts)
    for named in of_host.keys() - set(before.scope.hosts):
        add_authority(op.tx, crawl.places, crawl.number, *of_host[named])
    put_spec(op, crawl, crawl.spec)
    if settings.scope != before.scope:
        crawl.state_row.scope_changed = True
        op.put_state(crawl)
    shard.hosts.disperse(crawl)
    op.counters(crawl)
    if settings.queues != before.queues and crawl.state is not CrawlState.NASCENT:
        job.start(op, crawl, JobKind.APPRAISE_QUEUES)


def put_override(op: Operation, crawl: Crawl, surt: str, override: bytes) -> None:
    """Set the override of a SURT prefix. `overrides_changed` must follow."""
    op.tx.put(Family.OVERRIDES, keys.override_key(crawl.number, surt), override)
    crawl.put_override(surt, override)


def delete_override(op: Operation, crawl: Crawl, surt: str) -> None:
    """Remove the override of a SURT prefix. `overrides_changed` must follow."""
    op.tx.delete(Family.OVERRIDES, keys.override_key(crawl.number, surt))
    crawl.discard_override(surt)


def overrides_changed(op: Operation, shard: Shard, crawl: Crawl) -> None:
    """Update the precedences of queues on disk. Active queues follow at their next turn."""
    op.counters(crawl)
    shard.hosts.disperse(crawl)
    running = (job.get(op.tx, crawl, number) for number in crawl.jobs)
    if not any(row.kind == JobKind.APPRAISE_QUEUES.value and not row.done for row in running):
        job.start(op, crawl, JobKind.APPRAISE_QUEUES)


def change_overrides(
    op: Operation, shard: Shard, crawl: Crawl, overrides: Sequence[tuple[str, bytes]]
) -> None:
    """Replace all overrides of a crawl by checked ones."""
    before, after = dict(crawl.overrides.items()), dict(overrides)
    if before == after:
        return
    for surt in before.keys() - after.keys():
        delete_override(op, crawl, surt)
    for surt, override in after.items():
        if before.get(surt) != override:
            put_override(op, crawl, surt, override)
    overrides_changed(op, shard, crawl)
