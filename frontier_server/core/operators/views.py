"""Descriptions and statistics of crawls, and the reason why a crawl waits."""

from ..machines.lifecycle import CrawlState, ExitStatus
from ..opening.opening import CrawlRows
from ..opening.shard import Shard
from ..rows.errors import UnknownCrawl
from ..rows.records import CountersRow, StateRow
from ..rules.outcome_words import failure
from ..state.agenda import empty_reason
from ..state.crawl import Crawl
from ..state.leases import LeaseTable
from ..state.model import CrawlView, EmptyReason, StatisticsView
from ..state.operation import EVENTS_KEPT
from ..state.queue import QueueState
from .bottleneck import bottleneck, later_why
from .idle import asked_lately, some
from .remaining import remaining


class Views:
    """Descriptions and statistics of crawls."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def crawl(self, name: str, number: int = 0) -> CrawlView:
        """A crawl's description. If `number` is given, raises UnknownCrawl for another crawl of that name."""
        registry = self._shard.registry
        torn = registry.torn_rows(name)
        if number and torn is None and name not in registry.names:
            raise UnknownCrawl(f"crawl {name!r} was deleted", crawl=name)
        view = crawl_view(registry.named(name)) if torn is None else rows_view(torn)
        if number and view.number != number:
            raise UnknownCrawl(f"crawl {name!r} was deleted; another has its name", crawl=name)
        return view

    def crawls_after(self, name: str, most: int) -> list[CrawlView]:
        """The crawls whose names sort behind `name`."""
        return [self.crawl(known) for known in self._shard.registry.names_after(name, most)]

    def statistics(self, name: str, now_ms: int) -> StatisticsView:
        """A crawl's statistics."""
        shard = self._shard
        return statistics_of(shard.registry.named(name), max(now_ms, shard.now_ms), shard.leases)


def crawl_view(crawl: Crawl) -> CrawlView:
    """A crawl's description."""
    return rows_view(CrawlRows(crawl.number, crawl.spec, crawl.state_row, crawl.counters), crawl.held)


def rows_view(rows: CrawlRows, held: bool = False) -> CrawlView:
    """A crawl's description, from its rows."""
    spec, row, counters = rows.spec, rows.state, rows.counters
    return CrawlView(
        rows.number,
        spec.name,
        spec=spec.spec,
        state=CrawlState(row.state),
        exit_status=ExitStatus(row.exit_status),
        reach_ms=row.reach_ms,
        create_ms=spec.create_ms,
        launch_ms=row.launch_ms,
        finish_ms=row.finish_ms,
        seeds=counters.next_seed - 1,
        announced_seeds=counters.announced_seeds,
        oldest_event=max(counters.next_event - EVENTS_KEPT, 1),
        last_event=counters.next_event - 1,
        reason=row.reason,
        held=held,
        tearing_down=row.tearing_down,
        torn_down=row.torn_down,
        failure=_failure(row, counters),
    )


def _failure(row: StateRow, counters: CountersRow) -> str:
    """Why a crawl counts as failed; empty if it goes on, was stopped by a request, or has not."""
    if row.state != CrawlState.FINISHED.value or row.exit_status == ExitStatus.ABORTED.value:
        return ""
    seeds = counters.next_seed - 1
    statuses = counters.fetch_statuses, counters.seed_statuses
    return failure(*statuses, seeds, counters.discovered, row.no_seed_fetched)


def statistics_of(crawl: Crawl, now_ms: int, leases: LeaseTable) -> StatisticsView:
    """A crawl's statistics."""
    counters = crawl.counters
    waiting_for, next_due_ms = awaited(crawl)
    per_second, bytes_per_second = crawl.pace.rates(now_ms)
    needs = remaining(crawl, now_ms)
    found = bottleneck(crawl, now_ms, leases, needs)
    fetches = not crawl.running or crawl.leases_out > 0 or asked_lately(crawl, now_ms, leases)
    return StatisticsView(
        now_ms,
        counts_of(crawl),
        fetch_statuses=dict(counters.fetch_statuses),
        verdicts=dict(counters.verdicts),
        queue_states=queue_counts(crawl),
        elapsed_ms=crawl.elapsed_ms(now_ms),
        next_due_ms=next_due_ms,
        waiting_for=waiting_for,
        media_types=dict(counters.media_types),
        current_per_second=per_second,
        current_bytes_per_second=bytes_per_second,
        deepest_queue=crawl.queues.largest.most,
        congestion=_congestion(crawl),
        round=crawl.state_row.round,
        limited_by=found.text,
        limiting_setting=found.setting,
        annotations=dict(counters.annotations),
        remaining=needs if fetches else None,
        limited_ms=crawl.limited_ms(now_ms),
    )


def counts_of(crawl: Crawl) -> dict[str, int]:
    """A crawl's counts; the contract's names."""
    counters = crawl.counters
    return {
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
        "noted_count": counters.noted,
        "limited_count": crawl.documents,
        "limited_bytes_count": crawl.limited_bytes,
        "revisit_count": counters.to_revisit,
        "revisited_count": counters.revisited,
        "connection_count": counters.connections,
        "tls_handshake_count": counters.tls_handshakes,
        "kept_connection_count": counters.kept_connections,
    }


def queue_counts(crawl: Crawl) -> dict[QueueState, int]:
    """How many work queues are in each state."""
    stored = crawl.counters.queues
    counts = {state: stored.get(state.value, 0) + crawl.queues.counts[state] for state in QueueState}
    counts[QueueState.INACTIVE] += crawl.inactive_queues
    return counts


def _congestion(crawl: Crawl) -> float:
    """How many times as fast a crawler without politeness could go (Heritrix: congestionRatio)."""
    counts = queue_counts(crawl)
    held = counts[QueueState.BUSY] + counts[QueueState.SNOOZED]
    could = held + counts[QueueState.READY] + counts[QueueState.INACTIVE]
    return could / held if held else 0.0


def awaited(crawl: Crawl) -> tuple[str, int | None]:
    """Why no lease can be given now, in words, and until when at least; ("", None) if one can."""
    reason = empty_reason(crawl)
    if reason is not EmptyReason.NOTHING_DUE:
        awaited_then = {
            EmptyReason.NOT_RUNNING: "the seeds' announcement" if crawl.state_row.launch_ms else "launch",
            EmptyReason.PAUSED: f"resumption; {crawl.state_row.reason or 'the crawl pauses'}",
            EmptyReason.FINISHED: f"{some(crawl.leases_out, 'lease')} to end" if crawl.leases_out else "",
            EmptyReason.LIMIT_REACHED: f"the last {some(crawl.pages_out, 'document')} of the limit",
        }
        return awaited_then[reason], None
    if crawl.waiting_rank() is not None or crawl.queues.ready or crawl.queues.lines:
        return "", None
    out = crawl.leases_out
    under_way = f"{out} fetch under way" if out == 1 else f"{out} fetches under way"
    resting = _resting(crawl)
    if resting is not None:
        due_ms, message = resting
        return message + (f"; {under_way}" if out else ""), due_ms
    if out:
        return under_way, None
    held = crawl.queues.counts[QueueState.READY]
    if held:
        return f"the hosts or groups of {some(held, 'queue')}, which are busy with others", None
    if crawl.awaits_round:
        return f"round {crawl.state_row.round + 1} of the seeds", crawl.next_round_ms
    return "", None


def _resting(crawl: Crawl) -> tuple[int, str] | None:
    """The first known moment at which a queue wakes or a future URI is due, and that event in words."""
    found = []
    queue = crawl.queues.next_wake()
    if queue is not None:
        resting = queue_counts(crawl)[QueueState.SNOOZED]
        noun = "queue at rest" if resting == 1 else "queues at rest"
        found.append((queue.wake_ms, f"{resting} {noun}, first {queue.row.key} ({queue.rest_reason})"))
    in_line_ms = crawl.queues.lines.next_ms()
    if in_line_ms is not None:
        found.append((in_line_ms, "queues in line for a host or a group that rests"))
    # 0: unknown since the server started.
    if crawl.queues.first_far_ms:
        found.append((crawl.queues.first_far_ms, "queues that rest for long"))
    if crawl.counters.future and crawl.first_future_ms:
        later = f"{some(crawl.counters.future, 'URI')} to be fetched later{later_why(crawl)}"
        found.append((crawl.first_future_ms, later))
    return min(found, default=None)
