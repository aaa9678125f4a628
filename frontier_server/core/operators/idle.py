"""Explains why a crawl gives no leases now: the state of its life, its waits, and URIs that it leaves out."""

from itertools import islice

from ..journey.future import retry_of
from ..machines.lifecycle import CrawlState, ExitStatus
from ..machines.target import Target
from ..opening.troubles import DISK_RESERVE
from ..rows import keys
from ..rows.keys import IndexSet
from ..rows.store import Family
from ..state import job
from ..state.crawl import Crawl
from ..state.leases import LeaseTable
from ..state.model import Reason, Why
from ..state.operation import Operation
from ..state.queue import QueueState

ASKED_LATELY_MS = 60_000
MAX_COUNTED = 1_000  # paused queues
READ_ONLY = "the crawl does not run now: its frontier only answers questions"
_S, _X = CrawlState, ExitStatus
_HANDED_OVER = frozenset(("ABOUT_TO_GET_URI", "FINISHING"))  # steps of toe threads
_TO_BE_HELD = "the crawl will be held when its crawl log is written"
_LIMITS = frozenset((_X.FINISHED_DOCUMENT_LIMIT, _X.FINISHED_DATA_LIMIT, _X.FINISHED_TIME_LIMIT))


def reasons(op: Operation, crawl: Crawl, leases: LeaseTable) -> list[Reason]:
    """All reasons. `leases` are those of all crawls."""
    return [*life(op, crawl, leases), *_present(op, crawl, leases), *_behind(op, crawl)]


def life(op: Operation, crawl: Crawl, leases: LeaseTable) -> list[Reason]:
    """The reasons for all URIs of a crawl: its state, its limits, and its jobs."""
    found = []
    match crawl.state:
        case _S.NASCENT:
            found.append(Reason(Why.NOT_LAUNCHED, "the crawl has not been launched"))
        case _S.PREPARING:
            counters = crawl.counters
            message = f"{counters.announced_seeds} of {some(counters.next_seed - 1, 'seed')} announced"
            found.append(Reason(Why.PREPARING, message))
        case _S.PAUSING if not crawl.leases_out:
            found.append(Reason(Why.PAUSED, _TO_BE_HELD))
        case _S.PAUSING:
            found.append(Reason(Why.PAUSED, _pausing(op, crawl, leases), _bound_ms(crawl)))
        case _S.PAUSED:
            found.append(Reason(Why.PAUSED, _paused(crawl)))
        case _S.STOPPING | _S.FINISHED:
            found.append(_end(crawl))
        case _ if crawl.full:
            message = f"{some(crawl.leases_out, 'URI')} being fetched, as many as max_toes allows"
            found.append(Reason(Why.LIMIT_REACHED, message))
        case _ if crawl.documents_full:
            most, out = crawl.settings.limits.max_documents, crawl.pages_out
            message = f"{some(crawl.documents, 'document')} fetched and {out} being fetched"
            found.append(Reason(Why.LIMIT_REACHED, f"{message} reach limits.max_documents = {most}"))
    for number in crawl.jobs:
        found.append(Reason(Why.JOB_RUNS, f"job {number} ({job.get(op.tx, crawl, number).kind}) runs"))
    return found


def _pausing(op: Operation, crawl: Crawl, leases: LeaseTable) -> str:
    """Why a crawl is pausing, and what it waits for."""
    reason, uris = crawl.state_row.reason, some(crawl.leases_out, "URI")
    if not reason:
        return f"the crawl is pausing, with {uris} still being fetched"
    if crawl.state_row.trouble == DISK_RESERVE and _toes_idle(op, crawl, leases):
        were = "was" if crawl.leases_out == 1 else "were"
        told = f"{uris} {were} fetched, and the frontier refuses the links until its disk has room"
    else:
        told = f"{uris} still being fetched"
    return f"the crawl is pausing: {reason}; {told}"


def _toes_idle(op: Operation, crawl: Crawl, leases: LeaseTable) -> bool:
    """Whether no toe thread is at work on a crawl's URIs: each has handed its page over, or tries to."""
    holders = {lease.row.node for lease in leases.of_crawl(crawl.number)}
    steps = [dict(node.toe_steps) for node in leases.nodes.views(op.now_ms) if node.node in holders]
    at_work = sum([sum([n for step, n in each.items() if step not in _HANDED_OVER]) for each in steps])
    return any(steps) and not at_work


def _paused(crawl: Crawl) -> str:
    """Why a crawl is paused, and the remedy."""
    if crawl.held:
        return "the crawl is held; resume it, or pause it to allow changes"
    if crawl.target is Target.HOLD:
        return _TO_BE_HELD
    if crawl.state_row.reason:
        return f"the crawl is paused: {crawl.state_row.reason}"
    return "the crawl is paused; resume it"


def _bound_ms(crawl: Crawl) -> int:
    """Until when a pause or an end waits for leases; 0 if it does not wait."""
    return crawl.bound[0] if crawl.bound is not None else 0


def _end(crawl: Crawl) -> Reason:
    """Why a crawl has ended, or is about to."""
    limits, status = crawl.settings.limits, crawl.exit_status
    documents, size = some(crawl.documents, "document"), some(crawl.limited_bytes, "byte")
    message = {
        _X.FINISHED: "no URI was left to fetch",
        _X.ABORTED: "it was stopped",
        _X.FINISHED_DOCUMENT_LIMIT: f"{documents} reached limits.max_documents = {limits.max_documents}",
        _X.FINISHED_DATA_LIMIT: f"{size} reached limits.max_bytes = {limits.max_bytes}",
        _X.FINISHED_TIME_LIMIT: f"limits.max_elapsed of {limits.max_elapsed_ms / 1000:g} s has passed",
    }[status]
    ended = "has finished"
    if crawl.state is _S.STOPPING:
        ended = f"is stopping, with {some(crawl.leases_out, 'URI')} still being fetched"
    why = Why.LIMIT_REACHED if status in _LIMITS else Why.FINISHED
    return Reason(why, f"the crawl {ended}: {message}", _bound_ms(crawl))


def asked_lately(crawl: Crawl, now_ms: int, leases: LeaseTable) -> bool:
    """Whether a node that is there has asked for leases of a crawl lately."""
    return any(leases.nodes.is_there(node, now_ms) for node in crawl.askers(now_ms - ASKED_LATELY_MS))


def asked(op: Operation, crawl: Crawl, leases: LeaseTable) -> Reason:
    """Whether nodes ask for leases, if there is no other obstacle."""
    if asked_lately(crawl, op.now_ms, leases):
        return Reason(Why.DUE, "due now, and nodes ask for leases")
    if crawl.asked_of_any.in_vain:
        return Reason(Why.NO_NODE_ASKS, f"due, but {READ_ONLY}")
    since = f"for {span(op.now_ms - crawl.asked_ms)}" if crawl.asked_ms else "since the server started"
    start = "one" if crawl.kind else "toehold-node"
    return Reason(
        Why.NO_NODE_ASKS, f"due now, but {nobody(crawl)} has asked for leases {since}: start {start}"
    )


def kept_room(crawl: Crawl) -> str:
    """For what a recrawl keeps the rest of its document limit."""
    left, known = crawl.documents_left or 0, crawl.counters.kept_room
    return (
        f"known pages go first: limits.max_documents leaves room for {some(left, 'document')}, and "
        f"{some(known, 'known page')} of the recrawl {'is' if known == 1 else 'are'} not fetched again yet"
    )


def nobody(crawl: Crawl) -> str:
    """The fetchers of a crawl that are missing: `no node`, `no fetcher of kind scrapy`."""
    return f"no fetcher of kind {crawl.kind}" if crawl.kind else "no node"


def _present(op: Operation, crawl: Crawl, leases: LeaseTable) -> list[Reason]:
    """Why a running crawl waits."""
    if crawl.state not in (_S.RUNNING, _S.EMPTY):
        return []
    if crawl.awaits_round:
        message = f"no URI is left to fetch; round {crawl.state_row.round + 1} of the seeds comes next"
        return [Reason(Why.AWAITS_ROUND, message, crawl.next_round_ms)]
    if not crawl.left:
        waits = "; run_while_empty keeps the crawl waiting for more" if crawl.settings.run_while_empty else ""
        return [Reason(Why.EMPTY, f"no URI is left to fetch{waits}")]
    found = []
    ready = crawl.queues.counts[QueueState.READY]
    resting = _resting(op, crawl)
    woken = any(reason.until_ms <= op.now_ms for reason in resting)  # they wake now, or very soon
    if (
        crawl.waiting_rank() is not None
        or woken
        or any(queue.state is QueueState.READY for queue in crawl.queues.ready)
    ):
        found.append(asked(op, crawl, leases))
    elif not crawl.room_for_new and crawl.inactive_queues:
        stand_back = some(crawl.inactive_queues, "queue")
        found.append(Reason(Why.KNOWN_PAGES_FIRST, f"{stand_back} of new pages, and {kept_room(crawl)}"))
    elif ready:
        message = f"{some(ready, 'queue')} ready, but their hosts or groups are busy with other queues"
        found.append(Reason(Why.HOST_BUSY, message))
    if crawl.leases_out:
        first_ms = min((lease.deadline_ms for lease in leases if lease.crawl == crawl.number), default=0)
        message = (
            f"{some(crawl.leases_out, 'URI')} being fetched; the first lease lapses if its node stays silent"
        )
        found.append(Reason(Why.LEASED, message, first_ms))
    return found + [reason for reason in resting if reason.until_ms > op.now_ms]


def _resting(op: Operation, crawl: Crawl) -> list[Reason]:
    """Waits for a time: queues in memory and on disk, and future URIs."""
    found = []
    queue = crawl.queues.next_wake()
    if queue is not None:
        resting = some(crawl.queues.counts[QueueState.SNOOZED], "queue")
        message = f"{resting} at rest; {queue.row.key} wakes first ({queue.rest_reason})"
        found.append(Reason(Why.QUEUE_SNOOZED, message, queue.wake_ms))
    far = crawl.counters.queues.get(QueueState.SNOOZED.value, 0)
    if far:
        message = f"{some(far, 'queue')} at rest on disk, for longer"
        found.append(Reason(Why.QUEUE_SNOOZED, message, _first_far_ms(op, crawl)))
    if crawl.counters.future:
        due_ms, why = _first_future(op, crawl)
        message = f"{some(crawl.counters.future, 'URI')} to be fetched later{why}"
        found.append(Reason(Why.FUTURE, message, due_ms))
    return found


def _first_far_ms(op: Operation, crawl: Crawl) -> int:
    """When the first queue at rest on disk wakes; 0 if there is none."""
    prefix = keys.set_prefix(crawl.number, IndexSet.FAR)
    for key, _ in op.tx.scan(Family.INDEX, max(prefix, crawl.queues.far_head), prefix):
        return keys.due_of(key)
    return 0


def _first_future(op: Operation, crawl: Crawl) -> tuple[int, str]:
    """When the first future URI is due (0: there is none), and why it waits, if it was tried before."""
    prefix = keys.set_prefix(crawl.number, IndexSet.FUTURE)
    for key, value in op.tx.scan(Family.INDEX, max(prefix, crawl.future_head), prefix):
        why = retry_of(op, crawl, key, value)
        return keys.due_of(key), f" ({why})" if why else ""
    return 0, ""


def _behind(op: Operation, crawl: Crawl) -> list[Reason]:
    """URIs that stay behind: those in retired, ineligible and paused queues."""
    counters = crawl.counters
    found = []
    if counters.retired_uris:
        found.append(Reason(Why.URIS_LEFT, f"{some(counters.retired_uris, 'URI')} in retired queues"))
    if counters.ineligible_uris:
        message = f"{some(counters.ineligible_uris, 'URI')} in queues at or over the precedence floor"
        found.append(Reason(Why.QUEUE_INELIGIBLE, message))
    prefix = keys.set_prefix(crawl.number, IndexSet.INELIGIBLE)
    rows = islice(op.tx.scan(Family.INDEX, prefix, prefix), MAX_COUNTED)
    queues = [op.queue(crawl, key[-16:]) for key, _ in rows]
    paused = [queue.row.count for queue in queues if queue is not None and queue.row.paused]
    if any(paused):
        message = f"{some(sum(paused), 'URI')} in {some(len(paused), 'queue')} that an operator has paused"
        found.append(Reason(Why.QUEUE_PAUSED, message))
    return found


def some(number: int, noun: str) -> str:
    """`1 lease`, `2 leases`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(ms: int) -> str:
    """A span of time, for people."""
    for size_ms, unit in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size_ms:
            return f"{ms // size_ms} {unit}"
    return f"{max(ms, 0) // 1000} s"
