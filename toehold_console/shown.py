"""A crawl as a page shows it, in JSON: looks, nodes, queues, events. Sentences are made here."""

import time
from collections.abc import Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import (
    GetFrontierResponse,
    Node,
    NodePresence,
    Seed,
    SeedResult,
    Shard,
    WorkQueue,
)
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, QueueState
from toehold_client.events import Event
from toehold_client.spec.plain import enum_word, seconds_of, to_plain
from toehold_client.text import fetch_status_text, rough_text, status_text
from toehold_client.watching.look import Look, is_problem, seconds_until, time_left
from toehold_client.watching.presence import (
    LEFT,
    LOST,
    PRESENT,
    SILENT,
    absence_text,
    rival_warning,
    summary,
    toe_count,
)
from toehold_client.watching.seeds import seeds_text
from toehold_client.watching.trouble import absences, lasting, troubles

from .course import Point, rates
from .verdict import limit_reached, next_step, verdict

FEW = 8
"""How many queues and jobs the first page has."""
MOST_NODES, MOST_SEEDS, MOST_PROBLEMS = 12, 20, 12
_URGENCY = {SILENT: 0, LOST: 1, PRESENT: 2, LEFT: 3}

_ACTIONS: dict[str, tuple[str, ...]] = {
    "NASCENT": ("launch", "stop", "teardown"),
    "PREPARING": ("stop", "teardown"),
    "RUNNING": ("pause", "stop", "teardown"),
    "EMPTY": ("pause", "stop", "teardown"),
    "PAUSING": ("resume", "stop", "teardown"),
    "PAUSED": ("resume", "stop", "teardown"),
    "STOPPING": ("interrupt", "teardown"),
    "FINISHED": ("reopen", "teardown"),
}
"""The acts that change a crawl in each state (Heritrix's CrawlController)."""


def look(seen: Look, acts: Sequence[Event]) -> dict[str, Any]:
    """A crawl at one moment."""
    found, statistics = verdict(seen, acts), seen.statistics
    state = enum_word(CrawlState.DESCRIPTOR, seen.status.state)
    return {
        "crawl": seen.crawl.crawl,
        "description": seen.crawl.spec.description,
        "at": moment(statistics.snapshot_time),
        "state": state,
        "status": status_text(seen.status, statistics),
        "actions": actions(seen.status),
        "verdict": {"tone": found.tone, "text": found.text, "setting": found.setting},
        "next": next_step(seen),
        "limit": limit_reached(seen),
        "held": seen.status.held,
        "torn_down": seen.status.torn_down,
        "away": bool(seen.away),
        "time_left": time_left(statistics),
        "elapsed_seconds": seconds_of(statistics.elapsed_duration),
        "counts": {
            "succeeded": statistics.succeeded_count,
            "failed": statistics.failed_count,
            "disregarded": statistics.disregarded_count,
            "queued": statistics.queued_count,
            "leased": statistics.leased_count,
            "discovered": statistics.discovered_count,
            "future": statistics.future_count,
            "retired": statistics.retired_uri_count,
            "bytes": statistics.bytes_count,
        },
        "rates": {
            "pages": statistics.succeeded_per_second,
            "bytes": statistics.bytes_per_second,
            "average_pages": statistics.average_succeeded_per_second,
        },
        "why": seen.why,
        "problems": problems(seen),
        "seeds": {
            "text": seeds_text(seen.seeds),
            "counts": {
                enum_word(SeedResult.DESCRIPTOR, result): count for result, count in seen.seeds.counts.items()
            },
            "troubled": [seed(each) for each in seen.seeds.troubled[:MOST_SEEDS]],
            "troubled_count": len(seen.seeds.troubled),
        },
        "statuses": statuses(seen),
        "nodes": nodes_of(seen),
        "shards": [shard(each) for each in seen.shards],
        "queue_counts": {
            name.removeprefix("QUEUE_STATE_"): count for name, count in statistics.queue_state_counts.items()
        },
        "slowest": [queue(each) for each in seen.slowest[:FEW]],
        "largest": [queue(each) for each in seen.largest[:FEW] if each.queued_count],
        "jobs": [to_plain(job) for job in seen.jobs[:FEW]],
        "limits": to_plain(seen.crawl.spec.limits),
    }


def actions(status: CrawlStatus) -> list[str]:
    """The acts that change a crawl now."""
    allowed = _ACTIONS.get(enum_word(CrawlState.DESCRIPTOR, status.state), ())
    if status.torn_down:
        return []
    if status.tearing_down:
        return [action for action in allowed if action == "interrupt"]
    if status.held:
        return ["resume", "pause", "stop", "teardown"]
    return list(allowed)


def problems(seen: Look) -> list[dict[str, str]]:
    """Whatever is wrong now; then problems that events told of and that last, the latest first."""
    missed = () if seen.ended else absences(seen)  # a crawl that has ended needs no node
    now = [{"text": each.text, "ago": ""} for each in (*troubles(seen), *missed)]
    then = [
        {
            "text": str(each).removeprefix("problem: "),
            "ago": f"{rough_text(max(-seconds_until(seen.statistics, each.event_time), 0.0))} ago",
        }
        for each in reversed(lasting(seen))
    ]
    return [*now, *then][:MOST_PROBLEMS]


def statuses(seen: Look) -> list[dict[str, Any]]:
    """The fetch statuses of finished URIs, the most frequent first."""
    counts = seen.statistics.fetch_status_counts
    order = sorted(counts, key=lambda code: (-counts[code], code))
    return [{"code": code, "text": fetch_status_text(code), "uri_count": counts[code]} for code in order]


def course(points: Sequence[Point]) -> dict[str, Any]:
    """The points of a chart: seconds since the launch, pages a second, failures and waiting URIs so far."""
    start_s = points[0].at_s if points else 0.0
    return {
        "start": start_s,
        "at": [round(point.at_s - start_s, 1) for point in points],
        "rate": [round(rate, 3) for rate in rates(points)],
        "failed": [point.failed for point in points],
        "queued": [point.queued for point in points],
    }


# Nodes.


def nodes_of(seen: Look) -> dict[str, Any] | None:
    """The nodes of a look, those that are missed first; None for a caller who may not see them."""
    if not seen.sees_nodes:
        return None
    now_s = seen.statistics.snapshot_time.ToNanoseconds() / 1e9
    order = sorted(seen.nodes, key=lambda node: (_URGENCY.get(node.presence, 2), node.node))
    return {
        "text": summary(seen.nodes),
        "count": len(seen.nodes),
        "rows": [_node(each, seen.lease_s, now_s) for each in order[:MOST_NODES]],
    }


def all_nodes(answer: GetFrontierResponse) -> dict[str, Any]:
    """All nodes of a frontier, those that are missed first."""
    order = sorted(answer.nodes, key=lambda node: (_URGENCY.get(node.presence, 2), node.node))
    now_s, lease_s = time.time(), seconds_of(answer.lease_duration)
    return {
        "text": summary(answer.nodes),
        "rows": [_node(each, lease_s, now_s) for each in order],
        "shards": [shard(each) for each in answer.shards],
    }


def shard(each: Shard) -> dict[str, Any]:
    """A shard of a frontier that has several."""
    return {
        "shard": each.shard,
        "present": each.present,
        "queued": each.queued_count,
        "leased": each.leased_count,
        "rate": each.finished_per_second,
        "cores": each.busy_core_count,
        "memory": each.memory_bytes,
        "disk": each.store_bytes,
    }


def _node(node: Node, lease_s: float, now_s: float) -> dict[str, Any]:
    silent_s = max(now_s - node.last_seen_time.ToNanoseconds() / 1e9, 0.0)
    return {
        "node": node.node,
        "presence": enum_word(NodePresence.DESCRIPTOR, node.presence),
        "absence": absence_text(node.presence, silent_s, lease_s),
        "heartbeat_age_seconds": round(silent_s, 1),
        "draining": node.draining,
        "toes": toe_count(node),
        "pool_size": node.pool_size if node.HasField("pool_size") else None,
        "steps": {told.step: told.count for told in node.toe_steps if told.count},
        "leased": node.leased_count,
        "died": node.pool.died_count,
        "left_behind": node.pool.abandoned_count,
        "service_address": node.service_address,
        "warning": rival_warning(node).removeprefix("Warning: ") if node.rival_session else "",
    }


# Queues, seeds, events.


def queue(each: WorkQueue) -> dict[str, Any]:
    """A work queue."""
    return {
        "key": each.queue_key,
        "host": each.host,
        "state": enum_word(QueueState.DESCRIPTOR, each.state),
        "queued": each.queued_count,
        "leased": each.leased_count,
        "succeeded": each.succeeded_count,
        "failed": each.failed_count,
        "wake": moment(each.wake_time) if each.HasField("wake_time") else "",
        "reason": each.reason,
        "paused": each.paused,
        "precedence": each.precedence,
        "expenditure": each.expenditure,
        "session_budget": each.session_budget,
        "total_budget": each.total_budget,
        "average_cost": each.average_cost,
    }


def seed(each: Seed) -> dict[str, Any]:
    """A seed, and how it fared."""
    return {
        "uri": each.uri,
        "outcome": each.outcome,
        "result": enum_word(SeedResult.DESCRIPTOR, each.result),
    }


def event(each: Event) -> dict[str, Any]:
    """An event as a sentence."""
    told = {
        "sequence": each.sequence,
        "at": moment(each.event_time),
        "kind": each.kind or "",
        "text": str(each),
        "problem": is_problem(each),
    }
    if each.kind == "operator_acted":
        acted = each.operator_acted
        told |= {"operator": acted.operator, "action": acted.action, "detail": acted.detail}
    return told


def moment(time_: Timestamp) -> str:
    """RFC 3339 in UTC."""
    return time_.ToJsonString()
