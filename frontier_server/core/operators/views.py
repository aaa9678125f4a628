"""What operators see of a crawl: its description, statistics, events and outcomes, and what it waits for."""

from collections.abc import Iterator
from itertools import islice

from .. import keys
from ..crawl import Crawl
from ..dispatch import empty_reason
from ..errors import CursorTooOld, InvalidRequest
from ..leases import LeaseTable
from ..machines.lifecycle import CrawlState, ExitStatus
from ..model import CrawlView, EmptyReason, StatisticsView
from ..opening import CrawlRows
from ..operation import EVENTS_KEPT
from ..queue import QueueState
from ..records import EventRow, OutcomeRow, decode
from ..store import Family, Store
from .bottleneck import limited_by

EVENTS_PER_READ = 200
_RENAMED_KINDS = {"figures": "statistics"}  # of events that an older version stored


def crawl_view(crawl: Crawl) -> CrawlView:
    """A crawl's description."""
    return rows_view(CrawlRows(crawl.number, crawl.spec, crawl.state_row, crawl.counters), crawl.held)


def rows_view(rows: CrawlRows, held: bool = False) -> CrawlView:
    """A crawl's description, from its rows."""
    spec, row, counters = rows.spec, rows.state, rows.counters
    return CrawlView(
        rows.number,
        spec.name,
        spec.spec,
        CrawlState(row.state),
        ExitStatus(row.exit_status),
        row.reach_ms,
        spec.create_ms,
        row.launch_ms,
        row.finish_ms,
        counters.next_seed - 1,
        counters.announced_seeds,
        max(counters.next_event - EVENTS_KEPT, 1),
        counters.next_event - 1,
        row.reason,
        held,
        row.tearing_down,
        row.torn_down,
    )


def statistics(crawl: Crawl, now_ms: int, leases: LeaseTable) -> StatisticsView:
    """A crawl's statistics (Heritrix 2.16)."""
    counters = crawl.counters
    waiting_for, next_due_ms = awaited(crawl)
    per_second, bytes_per_second = crawl.pace.rates(now_ms)
    return StatisticsView(
        now_ms,
        {
            "discovered_count": counters.discovered,
            "queued_count": counters.queued,
            "leased_count": crawl.leases_out,
            "succeeded_count": counters.succeeded,
            "failed_count": counters.failed,
            "disregarded_count": counters.disregarded,
            "deferred_count": counters.deferred,
            "lapsed_count": counters.lapsed,
            "robots_fetch_count": counters.robots_fetches,
            "bytes_count": counters.bytes,
            "novel_count": counters.novel,
            "novel_bytes_count": counters.novel_bytes,
            "relocated_count": counters.relocated,
            "future_count": counters.future,
            "retired_uri_count": counters.retired_uris,
            "ineligible_uri_count": counters.ineligible_uris,
        },
        dict(counters.fetch_statuses),
        dict(counters.verdicts),
        queue_counts(crawl),
        crawl.elapsed_ms(now_ms),
        next_due_ms,
        waiting_for,
        dict(counters.media_types),
        per_second,
        bytes_per_second,
        max(crawl.largest.values(), default=0),
        _congestion(crawl),
        crawl.state_row.round,
        limited_by(crawl, now_ms, leases),
    )


def queue_counts(crawl: Crawl) -> dict[QueueState, int]:
    """Work queues by state."""
    stored = crawl.counters.queues
    counts = {state: stored.get(state.value, 0) + crawl.active_counts[state] for state in QueueState}
    counts[QueueState.INACTIVE] += crawl.inactive_queues
    return counts


def _congestion(crawl: Crawl) -> float:
    """How many times as fast a crawler without politeness could go (congestionRatio)."""
    counts = queue_counts(crawl)
    held = counts[QueueState.BUSY] + counts[QueueState.SNOOZED]
    could = held + counts[QueueState.READY] + counts[QueueState.INACTIVE]
    return could / held if held else 0.0


def awaited(crawl: Crawl) -> tuple[str, int | None]:
    """In words, why no lease can be given now, and until when at least; ("", None) when one can."""
    reason = empty_reason(crawl)
    if reason is not EmptyReason.NOTHING_DUE:
        awaited_then = {
            EmptyReason.NOT_RUNNING: "the seeds' announcement" if crawl.state_row.launch_ms else "launch",
            EmptyReason.PAUSED: f"resumption; {crawl.state_row.reason or 'the crawl pauses'}",
            EmptyReason.FINISHED: f"{crawl.leases_out} leases to end" if crawl.leases_out else "",
            EmptyReason.LIMIT_REACHED: f"the last {crawl.pages_out} documents of the limit",
        }
        return awaited_then[reason], None
    if crawl.counters.inactive or crawl.ready or crawl.lines:
        return "", None
    out = crawl.leases_out
    under_way = f"{out} fetch under way" if out == 1 else f"{out} fetches under way"
    resting = _resting(crawl)
    if resting is not None:
        due_ms, words = resting
        return words + (f"; {under_way}" if out else ""), due_ms
    if out:
        return under_way, None
    held = crawl.active_counts[QueueState.READY]
    if held:
        return f"{held} queues whose hosts or groups answer others", None
    if crawl.awaits_round:
        return f"round {crawl.state_row.round + 1} of the seeds", crawl.next_round_ms
    return "", None


def _resting(crawl: Crawl) -> tuple[int, str] | None:
    """The first moment at which a queue wakes or a future URI is due, as far as it is known, and which."""
    found = []
    queue = crawl.next_wake()
    if queue is not None:
        resting = queue_counts(crawl)[QueueState.SNOOZED]
        noun = "queue at rest" if resting == 1 else "queues at rest"
        found.append((queue.wake_ms, f"{resting} {noun}, first {queue.row.key} ({queue.rest_reason})"))
    in_line_ms = crawl.lines.next_ms()
    if in_line_ms is not None:
        found.append((in_line_ms, "queues in line for a host or a group that rests"))
    # 0: not looked at since the server started.
    if crawl.first_far_ms:
        found.append((crawl.first_far_ms, "queues that rest for long"))
    if crawl.counters.future and crawl.first_future_ms:
        found.append((crawl.first_future_ms, f"{crawl.counters.future} URIs to be fetched later"))
    return min(found, default=None)


def event_time(store: Store, crawl: Crawl, sequence: int) -> int:
    """When an event happened; 0 if it is not kept."""
    value = store.get(Family.EVENTS, keys.serial_key(crawl.number, sequence))
    return decode(EventRow, value).time_ms if value is not None else 0


def outcome_time(store: Store, crawl: Crawl, number: int) -> int:
    """When a final disposition was; 0 if it is not kept."""
    value = store.get(Family.OUTCOMES, keys.serial_key(crawl.number, number))
    return decode(OutcomeRow, value).time_ms if value is not None else 0


def check_event(store: Store, crawl: Crawl, sequence: int, read_ms: int) -> None:
    """Raise CursorTooOld unless the event that was read is the one of that number here.

    `read_ms` is when it happened, as its reader knows; 0 if that is not told.
    """
    last, found_ms = crawl.counters.next_event - 1, event_time(store, crawl, sequence)
    if read_ms and (sequence > last or found_ms not in (0, read_ms)):
        raise _other_history("event", sequence, max(last - EVENTS_KEPT + 1, 1))


def check_outcome(store: Store, crawl: Crawl, number: int, read_ms: int) -> None:
    """The same for a final disposition."""
    last, found_ms = crawl.counters.next_outcome - 1, outcome_time(store, crawl, number)
    if read_ms and (number > last or found_ms not in (0, read_ms)):
        raise _other_history("outcome", number, crawl.counters.oldest_outcome)


def _other_history(what: str, number: int, oldest: int) -> CursorTooOld:
    return CursorTooOld(
        f"{what} {number} is not the one that was read: the frontier was set back to a checkpoint since, or "
        f"the crawl was made anew, or it is another; 'start' begins at the oldest that is kept, {oldest}",
        oldest=str(oldest),
    )


def events_after(store: Store, crawl: Crawl, sequence: int) -> list[tuple[int, EventRow]]:
    """Events behind a sequence number, in order; no more than EVENTS_PER_READ at a time.

    Raises CursorTooOld if one of them is no longer kept.
    """
    last = crawl.counters.next_event - 1
    if sequence > last:
        raise InvalidRequest(f"cursor {sequence} is ahead of the last event, {last}", field="cursor")
    if sequence < last - EVENTS_KEPT:
        raise CursorTooOld(
            f"events behind {sequence} are not kept any more; the oldest kept is {last - EVENTS_KEPT + 1}",
            oldest=str(last - EVENTS_KEPT + 1),
        )
    rows = _serial_rows(store, Family.EVENTS, crawl, sequence)
    return [(number, _event(value)) for number, value in _first(rows, EVENTS_PER_READ)]


def _event(value: bytes) -> EventRow:
    row = decode(EventRow, value)
    row.kind = _RENAMED_KINDS.get(row.kind, row.kind)
    return row


def outcomes_after(store: Store, crawl: Crawl, number: int, most: int) -> list[tuple[int, OutcomeRow]]:
    """Final dispositions behind a number, in order. Raises CursorTooOld if one is no longer kept."""
    oldest, last = crawl.counters.oldest_outcome, crawl.counters.next_outcome - 1
    if number > last:
        raise InvalidRequest(f"cursor {number} is ahead of the last outcome, {last}", field="cursor")
    if number < oldest - 1:
        raise CursorTooOld(
            f"outcomes behind {number} are not kept any more; the oldest kept is {oldest}", oldest=str(oldest)
        )
    if crawl.unlogged and crawl.unlogged[0][0] <= number + 1:
        start = number + 1 - crawl.unlogged[0][0]
        return list(islice(crawl.unlogged, start, start + most))
    rows = _serial_rows(store, Family.OUTCOMES, crawl, number)
    return [(serial, decode(OutcomeRow, value)) for serial, value in _first(rows, most)]


def _serial_rows(store: Store, family: Family, crawl: Crawl, after: int) -> Iterator[tuple[int, bytes]]:
    prefix = keys.crawl_prefix(crawl.number)
    for key, value in store.scan(family, keys.serial_key(crawl.number, after + 1), prefix):
        yield keys.serial_of(key), value


def _first(rows: Iterator[tuple[int, bytes]], most: int) -> Iterator[tuple[int, bytes]]:
    for count, row in enumerate(rows, 1):
        yield row
        if count == most:
            return
