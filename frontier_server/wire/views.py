"""Descriptions of crawls, their events and statistics, queues and nodes."""

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

from ..core.machines.lifecycle import Input
from ..core.rows.records import EventRow
from ..core.state.model import CrawlView, NodeView, PoolStatistics, QueueView, StatisticsView
from ..core.state.queue import ACTIVE, QueueState
from .cursors import cursor
from .specs import settings, spec
from .times import duration, timestamp

QUEUE_STATES = {s: crawl_pb2.QueueState.Value(f"QUEUE_STATE_{s.value}") for s in QueueState}
QUEUE_STATES_BY_NUMBER = {number: state for state, number in QUEUE_STATES.items()}
EVENT_KINDS = frozenset(field.name for field in crawl_pb2.Event.DESCRIPTOR.oneofs_by_name["kind"].fields)
TARGETS = {
    crawl_pb2.TARGET_STATE_RUN: Input.RESUME,
    crawl_pb2.TARGET_STATE_PAUSE: Input.PAUSE,
    crawl_pb2.TARGET_STATE_FINISH: Input.STOP,
    crawl_pb2.TARGET_STATE_HOLD: Input.HOLD,
}


def crawl(view: CrawlView) -> admin_pb2.Crawl:
    """A crawl's description."""
    return admin_pb2.Crawl(
        crawl=view.name,
        spec=spec(settings(view.spec)),
        status=crawl_status(view),
        create_time=timestamp(view.create_ms),
        launch_time=timestamp(view.launch_ms),
        finish_time=timestamp(view.finish_ms),
        seed_count=view.seeds,
        announced_seed_count=view.announced_seeds,
    )


def crawl_status(view: CrawlView) -> crawl_pb2.CrawlStatus:
    """A crawl's status."""
    return crawl_pb2.CrawlStatus(
        state=_state(view.state.value),
        exit_status=_exit_status(view.exit_status.value),
        reach_time=timestamp(view.reach_ms),
        reason=view.reason,
        held=view.held,
        tearing_down=view.tearing_down,
        torn_down=view.torn_down,
        failure=view.failure,
    )


def _state(name: str) -> crawl_pb2.CrawlState.ValueType:
    return crawl_pb2.CrawlState.Value(f"CRAWL_STATE_{name}")


def _exit_status(name: str) -> crawl_pb2.ExitStatus.ValueType:
    return crawl_pb2.ExitStatus.Value(f"EXIT_STATUS_{name}")


def event(sequence: int, row: EventRow) -> crawl_pb2.Event:
    """An event. Its fields have the contract's names; a status takes its time from the event."""
    message = crawl_pb2.Event(
        sequence=sequence, cursor=cursor(sequence, row.time_ms), event_time=timestamp(row.time_ms)
    )
    fields = row.fields
    match row.kind:
        case "status_changed":
            status = crawl_pb2.CrawlStatus(
                state=_state(str(fields["state"])),
                exit_status=_exit_status(str(fields["exit_status"])),
                reach_time=timestamp(row.time_ms),
                reason=str(fields.get("reason", "")),
                tearing_down=bool(fields.get("tearing_down", 0)),
            )
            message.status_changed.CopyFrom(status)
        case kind if kind in EVENT_KINDS:
            told = getattr(message, kind)
            told.SetInParent()
            for name, value in fields.items():
                if name == "interval_ms":
                    told.interval_duration.CopyFrom(duration(int(value)))
                else:
                    setattr(told, name, value)
        case other:
            raise ValueError(f"event {sequence} must be of a kind of the contract, got {other!r}")
    return message


def statistics(view: StatisticsView) -> crawl_pb2.Statistics:
    """A crawl's statistics."""
    counts, queues, needs = view.counts, view.queue_states, view.remaining
    elapsed_s = view.elapsed_ms / 1000
    waiting = sum(queues.get(state, 0) for state in (QueueState.INACTIVE, *ACTIVE))
    return crawl_pb2.Statistics(
        snapshot_time=timestamp(view.now_ms),
        fetch_status_counts=view.fetch_statuses,
        verdict_counts=view.verdicts,
        queue_state_counts={state.value: count for state, count in queues.items()},
        elapsed_duration=duration(view.elapsed_ms),
        limited_duration=duration(view.limited_ms),
        next_due_time=timestamp(view.next_due_ms or 0),
        waiting_for=view.waiting_for,
        media_type_counts=view.media_types,
        succeeded_per_second=view.current_per_second,
        bytes_per_second=view.current_bytes_per_second,
        deepest_queue_count=view.deepest_queue,
        congestion_ratio=view.congestion,
        round=view.round,
        limited_by=view.limited_by,
        average_succeeded_per_second=counts["succeeded_count"] / elapsed_s if elapsed_s else 0.0,
        average_bytes_per_second=counts["bytes_count"] / elapsed_s if elapsed_s else 0.0,
        average_depth=counts["queued_count"] / waiting if waiting else 0.0,
        remaining_min_duration=None if needs is None else duration(needs.least_ms),
        remaining_max_duration=None if needs is None else duration(needs.most_ms),
        remaining_host="" if needs is None else needs.last,
        remaining_limit="" if needs is None else needs.limit,
        remaining_uri_count=0 if needs is None else needs.left,
        limiting_setting=view.limiting_setting,
        annotation_counts=view.annotations,
        **counts,
    )


def queue(view: QueueView) -> admin_pb2.WorkQueue:
    """A work queue."""
    return admin_pb2.WorkQueue(
        queue_key=view.key,
        host=view.host,
        state=QUEUE_STATES[view.state],
        queued_count=view.queued,
        enqueued_count=view.enqueued,
        leased_count=view.leased,
        failed_count=view.failed,
        wake_time=timestamp(view.wake_ms),
        reason=view.reason,
        precedence=view.precedence,
        succeeded_count=view.successes,
        expenditure=view.expenditure,
        session_expenditure=view.session_spent,
        session_budget=view.session_budget,
        total_budget=view.total_budget,
        last_cost=view.last_cost,
        average_cost=view.average_cost,
        paused=view.paused,
        min_gap=duration(view.min_gap_ms),
        precedence_fixed=view.precedence_fixed,
        queue_time=timestamp(view.queue_ms),
        lease_time=timestamp(view.lease_ms),
    )


def node(view: NodeView) -> admin_pb2.Node:
    """A node."""
    return admin_pb2.Node(
        node=view.node,
        session=view.session,
        last_seen_time=timestamp(view.last_seen_ms),
        leased_count=view.leased,
        toe_steps=[frontier_pb2.ToeStepCount(step=step, count=count) for step, count in view.toe_steps],
        pool_size=view.pool_size,
        pool=pool_message(view.pool),
        service_address=view.service_address,
        draining=view.draining,
        presence=admin_pb2.NodePresence.Value(f"NODE_PRESENCE_{view.presence.value}"),
        rival_session=view.rival,
    )


def pool_message(pool: PoolStatistics | None) -> frontier_pb2.PoolStatistics | None:
    """A node's counts of toe threads."""
    if pool is None:
        return None
    return frontier_pb2.PoolStatistics(
        size=pool.size,
        alive_count=pool.alive,
        died_count=pool.died,
        killed_count=pool.killed,
        abandoned_count=pool.abandoned,
    )
