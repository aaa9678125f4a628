"""The job that launches a crawl from a checkpoint: it copies the rows of a crawl there.

The crawl is loaded into memory when the last row is copied. URIs that were out at nodes wait
in their queues, as after a released lease. Outcomes and events are not copied; the crawl
begins its own. Its own seeds are dropped.

Each part of a larger crawl does this with its part of a checkpoint set. Then the coordinator does it with the
rows of the whole (`coordinator.jobs`).
"""

from collections.abc import Callable
from itertools import islice

from ..machines.lifecycle import CrawlState, Input
from ..opening import opening
from ..rows.errors import IllegalState, UnknownCheckpoint, invalid_spec
from ..rows.keys import crawl_prefix, serial_key
from ..rows.records import JobRow
from ..rows.store import CheckpointOf, Family, Store, Transaction
from ..spec.settings import CrawlSettings
from ..state import job, life
from ..state.crawl import Crawl
from ..state.host import Hosts
from ..state.job import JobKind, JobState
from ..state.operation import Operation
from ..state.spec_problems import fixed_problems

ROWS_PER_SLICE = 500
_COPIED = (
    Family.SEEDS,
    Family.OVERRIDES,
    Family.FETCH_STATISTICS,
    Family.SEEN,
    Family.KEPT_URIS,
    Family.PENDING,
    Family.QUEUES,
    Family.IMPORTS,
    Family.JOBS,
    Family.INDEX,
    Family.OWN_HOSTS,
)


def begin(
    op: Operation,
    crawl: Crawl,
    name: str,
    checkpoint: Store,
    rows: opening.CrawlRows,
    settings_of: Callable[[bytes], CrawlSettings],
) -> int:
    """Start the job, given the rows of the crawl there; its number. Raises InvalidSpec or IllegalState;
    nothing has changed then."""
    if (other := unfinished_copy(checkpoint, rows.number)) is not None:
        raise IllegalState(
            f"checkpoint {name} has crawl {rows.spec.name!r} only in part: it was being launched from "
            f"checkpoint {other}; use that one, or one made later",
            crawl=crawl.name,
            state=crawl.state.value,
        )
    if _places_differ(op.tx, checkpoint):
        raise IllegalState(
            f"checkpoint {name} places URIs by another list of public suffixes than this store; it can only "
            "be put in the store's place",
            crawl=crawl.name,
            state=crawl.state.value,
        )
    if found := fixed_problems(settings_of(rows.spec.spec), crawl.settings):
        raise invalid_spec(found)
    row, counters = crawl.state_row, crawl.counters
    if counters.discovered or row.parked or crawl.jobs or crawl.receiving or counters.next_job > 1:
        raise IllegalState(
            f"crawl {crawl.name!r} has taken in URIs, or has had jobs; create a new crawl to launch from a "
            "checkpoint",
            crawl=crawl.name,
            state=crawl.state.value,
        )
    # Continue the checkpoint's numbers, so that its jobs can keep theirs.
    op.counters(crawl).next_job = rows.counters.next_job
    row.scope_changed = True  # the URIs may come from a crawl with another scope
    op.put_state(crawl)
    crawl.restoring = name
    return job.start(op, crawl, JobKind.RESTORE, parameters_of(name, rows.number))


def parameters_of(checkpoint: str, source: int) -> dict[str, str]:
    """The parameters of the job that copies a crawl with a number from a checkpoint."""
    return {"checkpoint": checkpoint, "crawl": str(source)}


def _places_differ(ours: Transaction, theirs: Store) -> bool:
    """Whether a checkpoint's rows would be in other places. One from before format 3 has the old places."""
    own = opening.places_row(ours, opening.server_row(ours))
    its = opening.places_row(theirs, opening.server_row(theirs))
    return own != its and not (own is not None and its is None and not own.by_site)


def unfinished_copy(store: Store, number: int) -> str | None:
    """The checkpoint that a crawl was, or is, launched from, if not all of its rows have been copied."""
    copied = job.restore_of(job.rows(store, number))
    return (
        None
        if copied is None or copied[1].state == JobState.DONE.value
        else copied[1].parameters["checkpoint"]
    )


def check_whole(store: Store, crawl: Crawl) -> None:
    """Raise IllegalState if a crawl was stopped before all rows of its checkpoint were copied."""
    if (name := unfinished_copy(store, crawl.number)) is not None:
        raise IllegalState(
            f"crawl {crawl.name!r} was stopped before checkpoint {name} was copied; launch another crawl "
            "from that checkpoint",
            crawl=crawl.name,
            state=crawl.state.value,
        )


def crawl_in(checkpoint: Store, name: str) -> opening.CrawlRows | None:
    """The rows of a checkpoint's crawl, by its name."""
    found = (each for each in _crawls_in(checkpoint) if not each.state.deleted)
    return next((each for each in found if each.spec.name == name), None)


def part_in(checkpoint: Store, number: int) -> opening.CrawlRows | None:
    """The rows of a checkpoint's crawl, by its number, which all its parts have; it may have been
    deleted."""
    return next((each for each in _crawls_in(checkpoint) if each.number == number), None)


def _crawls_in(checkpoint: Store) -> list[opening.CrawlRows]:
    server = opening.read_server_row(checkpoint)
    return opening.crawl_rows(checkpoint, server.next_crawl) if server is not None else []


def restore_slice(
    op: Operation, crawl: Crawl, number: int, row: JobRow, checkpoint_of: CheckpointOf, hosts: Hosts
) -> None:
    """Copy the next rows; after the last ones, load them. If its checkpoint is gone, the crawl ends."""
    try:
        _copy_slice(op, crawl, number, row, checkpoint_of(row.parameters["checkpoint"]), hosts)
    except UnknownCheckpoint as problem:  # it is gone, or cannot be read
        op.event(crawl, "problem", kind="checkpoint", detail=str(problem))
        life.apply(op, crawl, Input.STOP, str(problem))


def _copy_slice(
    op: Operation, crawl: Crawl, number: int, row: JobRow, checkpoint: Store, hosts: Hosts
) -> None:
    source = int(row.parameters["crawl"])
    theirs, ours = crawl_prefix(source), crawl_prefix(crawl.number)
    place, after = (row.cursor[0], row.cursor[1:]) if row.cursor else (0, b"")
    if place == len(_COPIED):
        rows = opening.rows_of(checkpoint, source)
        behind = max(ours + after, serial_key(crawl.number, rows.counters.next_seed))
        own = [key for key, _ in islice(op.tx.scan(Family.SEEDS, behind, ours), ROWS_PER_SLICE)]
        for key in own:
            op.tx.delete(Family.SEEDS, key)
        if len(own) < ROWS_PER_SLICE:
            _take_over(op, crawl, number, row, checkpoint, rows, hosts)
        else:
            row.cursor = bytes((place,)) + own[-1][len(ours) :]
            job.put(op, crawl, number, row)
        return
    read = list(islice(checkpoint.scan(_COPIED[place], theirs + after, theirs), ROWS_PER_SLICE))
    for key, value in read:
        op.tx.put(_COPIED[place], ours + key[len(theirs) :], value)
    row.done += len(read)
    row.changed = row.done
    if len(read) < ROWS_PER_SLICE:
        row.cursor = bytes((place + 1,))
    else:
        row.cursor = bytes((place,)) + read[-1][0][len(theirs) :] + b"\0"
    job.put(op, crawl, number, row)


def _take_over(
    op: Operation,
    crawl: Crawl,
    number: int,
    row: JobRow,
    checkpoint: Store,
    rows: opening.CrawlRows,
    hosts: Hosts,
) -> None:
    server = opening.read_server_row(checkpoint)  # before any change: the read may fail
    own, counters = crawl.counters, rows.counters
    counters.next_event, counters.next_job = own.next_event, own.next_job
    counters.oldest_outcome, counters.logged_outcome = counters.next_outcome, counters.next_outcome - 1
    counters.log_bytes, counters.told, counters.told_ms = 0, {}, 0
    counters.job_log_event, counters.job_log_bytes = own.job_log_event, own.job_log_bytes
    crawl.counters = counters
    crawl.restoring = ""
    crawl.unlogged.clear()
    crawl.statistics.clear()  # a request may have cached them before they were copied
    crawl.scope_cache.clear()
    crawl.note_scope()
    crawl.note_forgotten()
    opening.load(op.tx, crawl, hosts, op.now_ms)
    state, then_ms = crawl.state_row, server.time_ms if server is not None else 0
    ran_ms = max(then_ms - rows.state.running_since_ms, 0) if rows.state.running_since_ms else 0
    state.elapsed_ms += rows.state.elapsed_ms + ran_ms
    state.round, state.round_ms = rows.state.round, rows.state.round_ms
    state.recrawl_ms, state.elapsed_before_ms = rows.state.recrawl_ms, rows.state.elapsed_before_ms
    state.bound = state.bound or rows.state.bound
    state.parked = rows.state.parked
    op.put_state(crawl)
    row.cursor = b""  # a coordinator would take it for what it knows of parts
    job.end(op, crawl, number, row)
    unannounced = counters.announced_seeds + 1 < counters.next_seed
    kinds = {job.get(op.tx, crawl, each).kind for each in crawl.jobs}
    if JobKind.SEED.value in kinds:
        return  # that job ends the announcement of the seeds
    if unannounced:
        job.start(op, crawl, JobKind.SEED)
    elif crawl.state is CrawlState.PREPARING:
        life.apply(op, crawl, Input.SEEDED_TO_PAUSE if crawl.settings.pause_at_start else Input.SEEDED)
