"""Jobs of a crawl: durable work in slices, visible while it runs and for a while after.

Work on more than a few hundred rows is a job. Because a slice and its cursor are one write, a crash neither
repeats nor skips a slice. The jobs of a crawl run one after the other.
"""

from collections.abc import Mapping
from enum import Enum

from ..rows import keys
from ..rows.errors import InvalidRequest, UnknownJob
from ..rows.records import JobRow, decode, encode
from ..rows.store import Family, Store, Transaction
from .crawl import Crawl
from .operation import Operation

JOBS_KEPT = 100
MAX_RUNNING = 20
MAX_FINDINGS = 100


class JobKind(Enum):
    SEED = "seed"
    RESEED = "reseed"
    DELETE_URIS = "delete-uris"
    RETIRE_QUEUES = "retire-queues"
    UNRETIRE_QUEUES = "unretire-queues"
    WAKE_QUEUES = "wake-queues"
    APPRAISE_QUEUES = "appraise-queues"
    IMPORT = "import"
    VERIFY = "verify"
    FORGET_URIS = "forget-uris"
    RESTORE = "restore"


class JobState(Enum):
    RECEIVING = "RECEIVING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


ENDED = frozenset((JobState.DONE.value, JobState.CANCELLED.value))
FEEDING = frozenset(
    (JobKind.SEED, JobKind.RESEED, JobKind.IMPORT, JobKind.RESTORE)
)  # they end with their crawl
NOT_CANCELLED = frozenset((JobKind.SEED, JobKind.RESEED, JobKind.APPRAISE_QUEUES, JobKind.RESTORE))


def start(
    op: Operation,
    crawl: Crawl,
    kind: JobKind,
    parameters: Mapping[str, str] | None = None,
    state: JobState = JobState.RUNNING,
) -> int:
    """Begin a job of a crawl, and return its number. In state RECEIVING it waits for the rest of its rows."""
    counters = op.counters(crawl)
    number = counters.next_job
    counters.next_job += 1
    if state is JobState.RUNNING:
        crawl.jobs.append(number)
    else:
        crawl.receiving.add(number)
    put(op, crawl, number, JobRow(kind.value, op.now_ms, dict(parameters or {}), state.value))
    if number > JOBS_KEPT:
        _forget_one(op, crawl)
    return number


def check_room(crawl: Crawl) -> None:
    """Raise InvalidRequest unless a crawl may have another job."""
    running = len(crawl.jobs) + len(crawl.receiving)
    if running >= MAX_RUNNING:
        raise InvalidRequest(
            f"crawl {crawl.name!r} has {running} jobs; wait until it has fewer than {MAX_RUNNING}, "
            "or cancel one"
        )


def _forget_one(op: Operation, crawl: Crawl) -> None:
    """Forget the oldest job that has ended."""
    prefix = keys.crawl_prefix(crawl.number)
    first = b""
    # Start past the deleted keys of those that were forgotten before.
    for key, value in op.tx.scan(Family.JOBS, max(prefix, crawl.job_head), prefix):
        first = first or key
        if decode(JobRow, value).state in ENDED:
            op.tx.delete(Family.JOBS, key)
            break
    crawl.job_head = first


def get(store: Store | Transaction, crawl: Crawl, number: int) -> JobRow:
    """A job. Raises UnknownJob."""
    value = store.get(Family.JOBS, keys.serial_key(crawl.number, number)) if 0 < number < 1 << 63 else None
    if value is None:
        raise UnknownJob(f"crawl {crawl.name!r} has no job {number}", crawl=crawl.name, job=str(number))
    return decode(JobRow, value)


def put(op: Operation, crawl: Crawl, number: int, row: JobRow) -> None:
    """Store a job."""
    op.counters(crawl)
    op.tx.put(Family.JOBS, keys.serial_key(crawl.number, number), encode(row))


def rows(store: Store | Transaction, crawl: int) -> list[tuple[int, JobRow]]:
    """The running jobs of a crawl and the last ones that ended, by number."""
    prefix = keys.crawl_prefix(crawl)
    return [
        (keys.serial_of(key), decode(JobRow, value)) for key, value in store.scan(Family.JOBS, prefix, prefix)
    ]


def restore_of(found: list[tuple[int, JobRow]]) -> tuple[int, JobRow] | None:
    """The job that launched a crawl from a checkpoint, if one did.

    It is the last of its kind, because a crawl is launched once. Earlier ones came with the copied rows.
    """
    return next((each for each in reversed(found) if each[1].kind == JobKind.RESTORE.value), None)


def end(op: Operation, crawl: Crawl, number: int, row: JobRow) -> None:
    """End a job that is complete or was cancelled."""
    crawl.jobs.remove(number)
    row.state = (JobState.CANCELLED if row.state == JobState.CANCELLING.value else JobState.DONE).value
    row.finish_ms = op.now_ms
    put(op, crawl, number, row)
    if JobKind(row.kind) is not JobKind.SEED:  # the end of seeding has its own event
        op.event(crawl, "job_ended", job=number, kind=row.kind, outcome=row.state)


def cancel(op: Operation, crawl: Crawl, number: int) -> JobRow:
    """Ask a job to stop. A job that has ended stays as it is."""
    row = get(op.tx, crawl, number)
    if JobKind(row.kind) in NOT_CANCELLED:
        raise InvalidRequest(f"job {number} ({row.kind}) cannot be cancelled", field="job")
    if row.state not in ENDED:
        row.state = JobState.CANCELLING.value
        put(op, crawl, number, row)
        crawl.receiving.discard(number)
        if number not in crawl.jobs:
            crawl.jobs.append(number)
    return row


def received(op: Operation, crawl: Crawl, number: int) -> JobRow:
    """Let a job begin, because it has received all its rows."""
    row = get(op.tx, crawl, number)
    if row.state == JobState.RECEIVING.value:
        row.state = JobState.RUNNING.value
        put(op, crawl, number, row)
        crawl.receiving.discard(number)
        crawl.jobs.append(number)
    return row


def abandon(crawl: Crawl) -> None:
    """Queue the jobs that still receive rows, so that they end with their crawl."""
    crawl.jobs.extend(sorted(crawl.receiving))
    crawl.receiving.clear()


def find(row: JobRow, finding: str) -> None:
    """Note a finding, if there are fewer than MAX_FINDINGS. Counts include all findings."""
    if len(row.findings) < MAX_FINDINGS:
        row.findings.append(finding)
