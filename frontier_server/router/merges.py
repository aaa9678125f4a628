"""One answer from those of all shards: counts add up, lists are put in one order. No calls."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2

MOST_QUEUES = 20
MOST_NODES = 1_000
EXAMPLES_SHOWN, EXAMPLES_KEPT = 3, 100  # of each rule: in a list of all, of one
_COUNTS = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_INT32)

# Reasons of a crawl's life: the coordinator's count, since parts only follow.
OF_LIFE = frozenset(
    (
        *(admin_pb2.WHY_NOT_LAUNCHED, admin_pb2.WHY_PREPARING, admin_pb2.WHY_PAUSED),
        *(admin_pb2.WHY_FINISHED, admin_pb2.WHY_EMPTY, admin_pb2.WHY_LIMIT_REACHED),
        *(admin_pb2.WHY_AWAITS_ROUND, admin_pb2.WHY_JOB_RUNS),
    )
)

OF_THE_WHOLE = frozenset((admin_pb2.WHY_EMPTY, admin_pb2.WHY_AWAITS_ROUND))  # of these, not those of a queue
STANDS = frozenset(
    (
        *(admin_pb2.WHY_NOT_LAUNCHED, admin_pb2.WHY_PREPARING),
        *(admin_pb2.WHY_PAUSED, admin_pb2.WHY_FINISHED),
    )
)
# What is said of a crawl that stands, too. A part may hear a moment later that it does.
_BEHIND = frozenset((admin_pb2.WHY_URIS_LEFT, admin_pb2.WHY_QUEUE_INELIGIBLE, admin_pb2.WHY_QUEUE_PAUSED))
_OF_NODES = frozenset((admin_pb2.WHY_DUE, admin_pb2.WHY_NO_NODE_ASKS))


def add_counts(total: Message, parts: Iterable[Message]) -> None:
    """Add the counts of messages of one kind to those of another."""
    names = [
        field.name
        for field in total.DESCRIPTOR.fields
        if field.cpp_type in _COUNTS and not field.is_repeated and field.name.endswith("_count")
    ]
    for part in parts:
        for name in names:
            setattr(total, name, getattr(total, name) + getattr(part, name))


def added_statistics(parts: Sequence[admin_pb2.FetchStatistics]) -> admin_pb2.FetchStatistics:
    """The statistics of a source whose URIs are in several shards."""
    total = admin_pb2.FetchStatistics()
    total.CopyFrom(parts[0])
    add_counts(total, parts[1:])
    last = max(parts, key=lambda part: _moment(part.last_success_time))
    if last.HasField("last_success_time"):
        total.last_success_time.CopyFrom(last.last_success_time)
    return total


def first_queues(
    lists: Iterable[Iterable[admin_pb2.WorkQueue]], rank: Callable[[admin_pb2.WorkQueue], Any]
) -> list[admin_pb2.WorkQueue]:
    """The first queues of all lists, by falling rank; those of the first shards go first among equals."""
    queues = [queue for each in lists for queue in each]
    return sorted(queues, key=rank, reverse=True)[:MOST_QUEUES]


def by_size(queue: admin_pb2.WorkQueue) -> int:
    """The rank of a queue among the largest."""
    return queue.queued_count


def by_wake(queue: admin_pb2.WorkQueue) -> tuple[int, int]:
    """The rank of a queue among the slowest: they wake last."""
    return _moment(queue.wake_time)


def merged_rules(
    lists: Iterable[Iterable[admin_pb2.RefusalRule]], examples: int
) -> list[admin_pb2.RefusalRule]:
    """The rules that refused URIs in any shard, the one that refused most first, with the latest examples."""
    merged: dict[str, admin_pb2.RefusalRule] = {}
    for rules in lists:
        for rule in rules:
            known = merged.get(rule.rule)
            if known is None:
                merged[rule.rule] = rule
            else:
                known.refused_count += rule.refused_count
                known.examples.extend(rule.examples)
    for rule in merged.values():
        latest = sorted(rule.examples, key=lambda each: _moment(each.refuse_time), reverse=True)
        shown: dict[str, admin_pb2.Refusal] = {}
        for example in latest:
            shown.setdefault(example.uri, example)
        del rule.examples[:]
        rule.examples.extend(list(shown.values())[:examples])
    return sorted(merged.values(), key=lambda rule: -rule.refused_count)


def merged_nodes(lists: Iterable[Iterable[admin_pb2.Node]]) -> list[admin_pb2.Node]:
    """The nodes that any shard knows, the last seen first. Each calls all shards, so the shard that it called
    last knows it best; its leases are in all of them."""
    known: dict[str, list[admin_pb2.Node]] = {}
    for nodes in lists:
        for node in nodes:
            known.setdefault(node.node, []).append(node)
    merged = [_merged_node(views) for views in known.values()]
    return sorted(merged, key=lambda node: _moment(node.last_seen_time), reverse=True)[:MOST_NODES]


def _merged_node(views: Sequence[admin_pb2.Node]) -> admin_pb2.Node:
    latest = max(views, key=lambda view: _moment(view.last_seen_time))
    merged = admin_pb2.Node()
    merged.CopyFrom(latest)
    same = [view for view in views if view.session == latest.session]
    merged.leased_count = sum([view.leased_count for view in same])
    merged.draining = any(view.draining for view in same)
    merged.rival_session = next((view.rival_session for view in same if view.rival_session), "")
    return merged


def merged_reasons(
    life: Iterable[admin_pb2.Reason],
    lists: Iterable[tuple[int, Sequence[admin_pb2.Reason]]],
    of_all: bool,
) -> list[admin_pb2.Reason]:
    """The reasons that shards give beside those of the crawl's life, in the order in which their kinds first
    come; `of_all` URIs of the crawl, or of a queue or a URI. Several shards' reasons of one kind become one;
    where their messages differ, or count, each has its shard's number."""
    stands = any(reason.why in STANDS for reason in life)
    kinds: dict[int, dict[int, list[admin_pb2.Reason]]] = {}
    for shard, reasons in lists:
        for reason in reasons:
            late = stands and (reason.why not in _BEHIND if of_all else reason.why in _OF_NODES)
            if reason.why not in OF_LIFE and not late:
                kinds.setdefault(reason.why, {}).setdefault(shard, []).append(reason)
    merged: list[admin_pb2.Reason] = []
    for shards in kinds.values():
        merged += next(iter(shards.values())) if len(shards) == 1 else [_one_reason(shards)]
    return merged


def _one_reason(shards: Mapping[int, Sequence[admin_pb2.Reason]]) -> admin_pb2.Reason:
    given = [(shard, reason) for shard, reasons in shards.items() for reason in reasons]
    merged = admin_pb2.Reason()
    merged.CopyFrom(given[0][1])
    counts = any(letter.isdigit() for letter in merged.message)  # of one shard
    if counts or any(reason.message != merged.message for _, reason in given):
        merged.message = "; ".join(f"shard {shard}: {reason.message}" for shard, reason in given)
    timed = [reason for _, reason in given if reason.HasField("until_time")]
    if timed:
        merged.until_time.CopyFrom(min(timed, key=lambda each: _moment(each.until_time)).until_time)
    return merged


def _moment(time: Timestamp) -> tuple[int, int]:
    return time.seconds, time.nanos
