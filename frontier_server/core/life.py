"""Drives the two machines of each crawl, and tells of what they do.

What one input leads to may reach the next state at once (a stop with no lease out);
all of it is one write.
"""

from .crawl import Crawl, Operation
from .dispatch import document_limit_reached
from .lifecycle import CLOCK_RUNS, CrawlState, ExitStatus, Input, move
from .records import StateRow
from .target import Reached, Target, reached

_HEARD = {
    Reached.RUN: Input.REACHED_RUN,
    Reached.EMPTY: Input.REACHED_EMPTY,
    Reached.PAUSE: Input.REACHED_PAUSE,
    Reached.FINISH: Input.REACHED_FINISH,
}


def new_state_row(now_ms: int) -> StateRow:
    """The life of a crawl that was just created."""
    return StateRow(
        state=CrawlState.NASCENT.value,
        exit_status=ExitStatus.CREATED.value,
        target=Target.PAUSE.value,
        reached="",
        request=0,
        answered=0,
        reach_ms=now_ms,
    )


def hear(op: Operation, crawl: Crawl, heard: Input) -> None:
    """Give the crawl machine an input. Raises IllegalState, and then nothing has changed."""
    step = move(crawl.state, heard, crawl.name)
    row = crawl.state_row
    before = row.state, row.exit_status
    if step.state is not None:
        row.state = step.state.value
    if step.exit_status is not None:
        row.exit_status = step.exit_status.value
    if step.target is not None:
        row.target = step.target.value
        row.request += 1
    if before != (row.state, row.exit_status):
        _note_times(row, CrawlState(before[0]), crawl.state, op.now_ms)
        op.event(crawl, "status_changed", state=row.state, exit_status=row.exit_status)
    op.counters(crawl)
    op.put_state(crawl)


def _note_times(row: StateRow, before: CrawlState, state: CrawlState, now_ms: int) -> None:
    if before is not state:
        row.reach_ms = now_ms
    if state is CrawlState.PREPARING:
        row.launch_ms = now_ms
    if state is CrawlState.FINISHED:
        row.finish_ms = now_ms
    runs = state in CLOCK_RUNS
    if runs and not row.running_since_ms:
        row.running_since_ms = now_ms
    elif not runs and row.running_since_ms:
        row.elapsed_ms += now_ms - row.running_since_ms
        row.running_since_ms = 0


def settle(op: Operation, crawl: Crawl) -> None:
    """Let the frontier machine look at the counts, and the crawl machine hear what it reached."""
    while True:
        row = crawl.state_row
        state = crawl.state
        if state is CrawlState.EMPTY and not crawl.left:
            hear(op, crawl, Input.NOTHING_LEFT)
            continue
        if state is CrawlState.RUNNING and not crawl.pages_out and document_limit_reached(crawl):
            limit = crawl.settings.limits.max_documents
            op.event(crawl, "limit_reached", limit="max_documents", value=limit)
            hear(op, crawl, Input.DOCUMENT_LIMIT)
            continue
        if not row.request:
            return  # never launched
        answered = row.answered == row.request
        now = reached(crawl.target, crawl.leases_out, crawl.left, answered)
        if now is None or (answered and now.value == row.reached):
            return
        row.reached, row.answered = now.value, row.request
        op.put_state(crawl)
        if state is CrawlState.FINISHED:
            return
        hear(op, crawl, _HEARD[now])
