"""Descriptions of crawls, their events and statistics, queues and nodes."""

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

from ..core.machines.lifecycle import Input
from ..core.rows.records import EventRow
from ..core.state.model import CrawlView, NodeView, QueueView, StatisticsView
from ..core.state.queue import ACTIVE, QueueState
from .by_name import message_of
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
    return message_of(
        admin_pb2.Crawl,
        view,
        crawl=view.name,
        spec=spec(settings(view.spec)),
        status=crawl_status(view),
        seed_count=view.seeds,
        announced_seed_count=view.announced_seeds,
    )


def crawl_status(view: CrawlView) -> crawl_pb2.CrawlStatus:
    return message_of(crawl_pb2.CrawlStatus, view)


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
            part = getattr(message, kind)
            part.SetInParent()
            for name, value in fields.items():
                if name == "interval_ms":
                    part.interval_duration.CopyFrom(duration(int(value)))
                else:
                    setattr(part, name, value)
        case other:
            raise ValueError(f"event {sequence} must be of a kind of the contract, got {other!r}")
    return message


def statistics(view: StatisticsView) -> crawl_pb2.Statistics:
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
    return message_of(
        admin_pb2.WorkQueue,
        view,
        queue_key=view.key,
        succeeded_count=view.successes,
        session_expenditure=view.session_spent,
    )


def node(view: NodeView) -> admin_pb2.Node:
    steps = [frontier_pb2.ToeStepCount(step=step, count=count) for step, count in view.toe_steps]
    pool = None if view.pool is None else message_of(frontier_pb2.PoolStatistics, view.pool)
    return message_of(admin_pb2.Node, view, toe_steps=steps, pool=pool, rival_session=view.rival)
