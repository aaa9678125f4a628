"""Drives the two machines of each crawl, and records their events.

An input may lead through several states at once (a stop without leases out); all of them
are one write.
"""

from typing import NamedTuple

from ..machines.lifecycle import CLOCK_RUNS, CrawlState, ExitStatus, Input, move
from ..machines.target import Reached, Target, reached
from ..rows.records import StateRow
from ..spec.settings import LimitSettings
from . import job
from .crawl import Crawl
from .landings import no_seed_is_fetched
from .operation import Operation

_INPUT_OF = {
    Reached.RUN: Input.REACHED_RUN,
    Reached.EMPTY: Input.REACHED_EMPTY,
    Reached.HOLD: Input.REACHED_HOLD,
    Reached.PAUSE: Input.REACHED_PAUSE,
    Reached.FINISH: Input.REACHED_FINISH,
}

# The counters in a statistics event, and their names there.
_TOLD = {
    "succeeded": "succeeded_count",
    "failed": "failed_count",
    "disregarded": "disregarded_count",
    "deferred": "deferred_count",
    "lapsed": "lapsed_count",
    "bytes": "bytes_count",
    "discovered": "discovered_count",
}


def new_state_row(now_ms: int) -> StateRow:
    """The state of a new crawl."""
    return StateRow(
        state=CrawlState.NASCENT.value,
        exit_status=ExitStatus.CREATED.value,
        target=Target.PAUSE.value,
        reached="",
        request=0,
        answered=0,
        reach_ms=now_ms,
    )


def apply(op: Operation, crawl: Crawl, given: Input, reason: str = "", trouble: str = "") -> None:
    """Give the crawl machine an input. `reason` describes the problem that led to it; `trouble` names the
    problem if it may pass.

    Raises IllegalState before anything changes.
    """
    step = move(crawl.state, given, crawl.name)
    row = crawl.state_row
    before, held = (row.state, row.exit_status), crawl.held
    if step.target is not None and (step.target is not crawl.target or not row.request):
        row.target = step.target.value
        row.request += 1
        if held:
            op.event(crawl, "released")
    if step.interrupts and not row.interrupt_ms:
        row.interrupt_ms = op.now_ms
    if step.state is not None:
        if step.state in (CrawlState.PAUSED, CrawlState.FINISHED):
            tell_statistics(op, crawl)
        if step.state is CrawlState.FINISHED:
            job.abandon(crawl)
            row.no_seed_fetched = crawl.has_uris and no_seed_is_fetched(op, crawl)
            crawl.forget()
        row.state = step.state.value
        keeps = step.state in (CrawlState.PAUSED, CrawlState.FINISHED)  # the problem of PAUSING or STOPPING
        row.reason = reason or (row.reason if keeps else "")
        row.trouble = trouble or (row.trouble if keeps else "")
    if step.exit_status is not None:
        row.exit_status = step.exit_status.value
    if before[0] != row.state:
        crawl.excused_ms = 0
    if before != (row.state, row.exit_status):
        _record_times(row, CrawlState(before[0]), crawl.state, op.now_ms)
        told = {"state": row.state, "exit_status": row.exit_status, "reason": row.reason}
        op.event(crawl, "status_changed", **told, tearing_down=int(row.tearing_down))
    op.counters(crawl)
    op.put_state(crawl)


def request(op: Operation, crawl: Crawl, given: Input, action: str, by: str) -> None:
    """Handle an operator's request. Its event comes before those that follow from it. Raises IllegalState.

    A request for a state that is reached or under way has no effect, with one exception: a crawl that trouble
    has paused then stays paused or held when the trouble passes.
    """
    step, row = move(crawl.state, given, crawl.name), crawl.state_row
    asks = step.target is not None and step.target is not crawl.target
    stays = given in (Input.PAUSE, Input.HOLD) and bool(row.trouble)
    if step.interrupts and not row.interrupt_ms:
        op.acted(crawl, by, "interrupt")
    elif asks or stays or step.state is not None:
        op.acted(crawl, by, action)
    else:
        return
    if stays:
        row.trouble = ""
    apply(op, crawl, given)


def tear_down(op: Operation, crawl: Crawl, by: str) -> bool:
    """End a crawl, if need be, and unload it then. Returns whether this request began the teardown.

    While the crawl is stopping, a repeated request makes nodes interrupt their fetches.
    """
    row = crawl.state_row
    if row.tearing_down:
        request(op, crawl, Input.STOP, "teardown", by)
        return False
    op.acted(crawl, by, "teardown")
    row.tearing_down = True
    apply(op, crawl, Input.STOP)
    return True


def pause_for(op: Operation, crawl: Crawl, kind: str, detail: str, trouble: str = "") -> None:
    """Pause a running crawl because of a problem. `go_on_after` takes the same `trouble`."""
    if crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
        op.event(crawl, "problem", kind=kind, detail=detail)
        apply(op, crawl, Input.PROBLEM, detail, trouble)


LOG_AHEAD, SALVAGED = "log-ahead", "salvaged"  # kinds of problems that do not pass by themselves


def distrust(op: Operation, crawl: Crawl, kind: str, detail: str) -> None:
    """Record a problem that does not pass by itself. A crawl that runs, or would resume by itself, is paused
    until somebody resumes it; one that is being seeded, once it is."""
    if crawl.state is CrawlState.PREPARING:
        crawl.state_row.suspicion = kind, detail
        op.put_state(crawl)
        return
    crawl.state_row.suspicion = ()
    op.event(crawl, "problem", kind=kind, detail=detail)
    if crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
        apply(op, crawl, Input.PROBLEM, detail)
    elif crawl.state in (CrawlState.PAUSING, CrawlState.PAUSED):
        crawl.state_row.reason, crawl.state_row.trouble = detail, ""
    op.put_state(crawl)


def go_on_after(op: Operation, crawl: Crawl, trouble: str) -> None:
    """Resume a crawl whose trouble is over, if only the trouble has paused it, and its spec says so."""
    if crawl.goes_on_after != trouble:
        return
    if crawl.led:
        crawl.state_row.trouble = ""  # whoever leads it sees that, and decides
        op.counters(crawl)
        op.put_state(crawl)
    else:
        apply(op, crawl, Input.RESUME)


def tell_statistics(op: Operation, crawl: Crawl) -> None:
    """Record the counts since the last such event, unless all are zero."""
    counters = crawl.counters
    statistics = {name: getattr(counters, name) for name in _TOLD}
    news = {told: statistics[name] - counters.told.get(name, 0) for name, told in _TOLD.items()}
    since_ms = max(counters.told_ms, crawl.state_row.launch_ms, crawl.spec.create_ms)
    counters.told_ms = op.now_ms
    if any(news.values()):
        op.event(crawl, "statistics", interval_ms=op.now_ms - since_ms, **news, queued_count=counters.queued)
        counters.told = statistics


def _record_times(row: StateRow, before: CrawlState, state: CrawlState, now_ms: int) -> None:
    if before is not state:
        row.reach_ms = now_ms
    if state is CrawlState.PREPARING:
        row.launch_ms = now_ms
    if state is CrawlState.FINISHED:
        row.finish_ms = now_ms
        row.nodes = {}
    elif before is CrawlState.FINISHED:
        row.finish_ms = row.interrupt_ms = 0
        row.launch_ms = row.launch_ms or now_ms
    runs = state in CLOCK_RUNS
    if runs and not row.running_since_ms:
        row.running_since_ms = now_ms
    elif not runs and row.running_since_ms:
        row.elapsed_ms += now_ms - row.running_since_ms
        row.running_since_ms = 0


def settle(op: Operation, crawl: Crawl) -> None:
    """Let the frontier machine read the counts, and give the crawl machine the state that it reached."""
    if crawl.state_row.running_since_ms and op.now_ms >= crawl.next_statistics_ms:
        tell_statistics(op, crawl)
    while _step(op, crawl):
        pass
    row = crawl.state_row
    if row.tearing_down and not row.torn_down and crawl.state is CrawlState.FINISHED and crawl.unloaded:
        row.torn_down = True
        op.put_state(crawl)
        op.event(crawl, "torn_down")


def _step(op: Operation, crawl: Crawl) -> bool:
    """Apply one input to the crawl machine, if there is one. Returns whether more may follow."""
    state, row, leads = crawl.state, crawl.state_row, not crawl.led
    if leads and state in (CrawlState.RUNNING, CrawlState.EMPTY) and _limit_reached(op, crawl):
        return True
    left = crawl.left or crawl.rounds_left
    if leads and state is CrawlState.EMPTY and not left and not crawl.settings.run_while_empty:
        _end_naturally(op, crawl)
        return True
    if state is CrawlState.RUNNING and crawl.awaits_round and op.now_ms >= crawl.next_round_ms:
        _begin_round(op, crawl)  # before the frontier reaches EMPTY
        return True
    if not row.request:
        return False  # never launched
    answered = row.answered == row.request
    now = reached(crawl.target, crawl.in_flight, left, answered)
    if now is None or (answered and now.value == row.reached):
        return False
    row.reached, row.answered = now.value, row.request
    op.put_state(crawl)
    if state is CrawlState.FINISHED:
        return False
    apply(op, crawl, _INPUT_OF[now])
    if now is Reached.HOLD:
        op.event(crawl, "held")
    return True


def _end_naturally(op: Operation, crawl: Crawl) -> None:
    """End a crawl without URIs to lease, or pause it if its spec says so and other URIs are left."""
    counters = crawl.counters
    behind = counters.retired_uris + counters.ineligible_uris
    if behind:
        op.event(
            crawl,
            "uris_left",
            retired_count=counters.retired_uris,
            ineligible_count=counters.ineligible_uris,
        )
    if behind and crawl.settings.pause_with_uris_left:
        apply(op, crawl, Input.PROBLEM, "only URIs of retired or ineligible queues are left")
    else:
        apply(op, crawl, Input.NOTHING_LEFT)


def _begin_round(op: Operation, crawl: Crawl) -> None:
    """Announce the seeds again, once each time that the crawl runs out of URIs."""
    row = crawl.state_row
    row.round += 1
    row.round_ms = op.now_ms
    op.put_state(crawl)
    op.event(crawl, "round_begun", round=row.round)
    job.start(op, crawl, job.JobKind.RESEED)


def _limit_reached(op: Operation, crawl: Crawl) -> bool:
    """End the crawl if it has reached a limit. Returns whether it has.

    Documents never exceed their limit, since the crawl ends when the leases that fill it have ended. Bytes
    and time can exceed theirs by the leases in flight.
    """
    found = limit_reached(crawl, crawl.settings.limits, op.now_ms)
    if found is None:
        return False
    limit, given, value, actual = found
    op.event(crawl, "limit_reached", limit=limit, value=value, reached=actual, leased_count=crawl.leases_out)
    apply(op, crawl, given)
    return True


class Limit(NamedTuple):
    """A limit that a crawl has reached."""

    name: str  # its field in the contract's LimitSpec
    given: Input
    value: int
    actual: int


def limit_reached(crawl: Crawl, limits: LimitSettings, now_ms: int) -> Limit | None:
    """The first of these limits that a crawl has reached. A recrawl begins their counts anew."""
    elapsed_ms, size, documents = crawl.limited_ms(now_ms), crawl.limited_bytes, crawl.documents
    if limits.max_elapsed_ms and elapsed_ms >= limits.max_elapsed_ms:
        return Limit("max_elapsed", Input.TIME_LIMIT, limits.max_elapsed_ms, elapsed_ms)
    if limits.max_bytes and size >= limits.max_bytes:
        return Limit("max_bytes", Input.DATA_LIMIT, limits.max_bytes, size)
    if limits.max_documents and not crawl.pages_out and documents >= limits.max_documents:
        return Limit("max_documents", Input.DOCUMENT_LIMIT, limits.max_documents, documents)
    return None


def begin_recrawl(op: Operation, crawl: Crawl, before_ms: int) -> None:
    """Count towards limits from now on, and the known pages that are fetched again.

    Those that an earlier recrawl left waiting are among these.
    """
    row, counters = crawl.state_row, op.counters(crawl)
    row.recrawl_ms = max(before_ms, row.recrawl_ms)
    row.elapsed_before_ms = crawl.elapsed_ms(op.now_ms)
    counters.succeeded_before, counters.bytes_before = counters.succeeded, counters.bytes
    counters.to_revisit, counters.revisited = counters.to_revisit - counters.revisited, 0
    counters.kept_room = counters.to_revisit
    op.put_state(crawl)
