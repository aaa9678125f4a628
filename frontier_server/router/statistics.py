"""The statistics of a crawl, from those of its parts: not of one moment, but each part's own are.

Counts and rates add up. What depends on time and limits is the whole crawl's, and is kept as the coordinator
has it. What is in words is that of the part that says most: the one with the most URIs that wait."""

from collections.abc import Sequence

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from toehold.frontier.v1 import crawl_pb2

from ..core.state.order import Progress

_RATES = ("succeeded_per_second", "bytes_per_second")
_OF_THE_LARGEST = ("limited_by", "limiting_setting")
_OF_THE_LAST = ("remaining_min_duration", "remaining_max_duration", "remaining_host")
_HELD = ("BUSY", "SNOOZED")
_IN_USE = (*_HELD, "READY", "INACTIVE")
_COUNTS = tuple(
    field.name
    for field in crawl_pb2.Statistics.DESCRIPTOR.fields
    if field.name.endswith("_count") and field.cpp_type == FieldDescriptor.CPPTYPE_INT64
)
_OWN = ("deepest_queue_count", "remaining_uri_count")  # counts that do not add up
_TABLES = tuple(
    field.name for field in crawl_pb2.Statistics.DESCRIPTOR.fields if field.name.endswith("_counts")
)

# Counts whose names in a part's counters are other than theirs without `_count`.
_NAMED = {
    "retired_uri": "retired_uris",
    "ineligible_uri": "ineligible_uris",
    "robots_fetch": "robots_fetches",
    "revisit": "to_revisit",
}
_TABLES_NAMED = {
    "fetch_status_counts": "fetch_statuses",
    "verdict_counts": "verdicts",
    "media_type_counts": "media_types",
    "annotation_counts": "annotations",
}


def statistics_of(progress: Progress) -> crawl_pb2.Statistics:
    """What is known of the statistics of a part that is away: its counts, as it told them last."""
    counters = progress.counters
    found = crawl_pb2.Statistics(leased_count=progress.leases_out, limited_count=progress.documents)
    found.queue_state_counts.update(progress.queues)
    if counters is None:
        return found
    for name in _COUNTS:
        short = name.removesuffix("_count")
        value = getattr(counters, _NAMED.get(short, short), None)
        if isinstance(value, int):
            setattr(found, name, value)
    for name, own in _TABLES_NAMED.items():
        getattr(found, name).update(getattr(counters, own))
    found.limited_bytes_count = counters.bytes - counters.bytes_before
    return found


def merge_statistics(whole: crawl_pb2.Statistics, parts: Sequence[crawl_pb2.Statistics]) -> None:
    """Put the statistics of all parts into those that the coordinator has."""
    for name in (*_COUNTS, *_RATES):
        if name not in _OWN:
            setattr(whole, name, sum([getattr(part, name) for part in parts]))
    for name in _TABLES:
        _add_up(whole, parts, name)
    whole.deepest_queue_count = max([part.deepest_queue_count for part in parts], default=0)
    whole.congestion_ratio = _ratio(_queues(whole, _IN_USE), _queues(whole, _HELD))
    in_use = [(part, _queues(part, _IN_USE)) for part in parts]
    depths = sum([part.average_depth * queues for part, queues in in_use])
    whole.average_depth = _ratio(depths, sum([queues for _, queues in in_use]))
    if not parts:
        return
    largest = max(parts, key=lambda part: part.queued_count)
    for name in _OF_THE_LARGEST:
        setattr(whole, name, getattr(largest, name))
    _take(whole, max(parts, key=_seconds_left), _OF_THE_LAST)
    waiting = [part for part in parts if part.queued_count or part.future_count]
    awaited = sorted((part for part in waiting if part.waiting_for), key=_due)
    if len(awaited) < len(waiting):
        whole.ClearField("waiting_for")
        whole.ClearField("next_due_time")
    elif awaited:
        _take(whole, awaited[0], ("waiting_for", "next_due_time"))


def _add_up(whole: Message, parts: Sequence[Message], name: str) -> None:
    whole.ClearField(name)
    total = getattr(whole, name)
    for part in parts:
        for key, count in getattr(part, name).items():
            total[key] += count


def _take(whole: Message, part: Message, names: Sequence[str]) -> None:
    for name in names:
        whole.ClearField(name)
        value = getattr(part, name)
        if not isinstance(value, Message):
            setattr(whole, name, value)
        elif part.HasField(name):
            getattr(whole, name).CopyFrom(value)


def _queues(statistics: crawl_pb2.Statistics, states: Sequence[str]) -> int:
    return sum([statistics.queue_state_counts.get(state, 0) for state in states])


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0


def _seconds_left(part: crawl_pb2.Statistics) -> float:
    return part.remaining_max_duration.seconds + part.remaining_max_duration.nanos / 1e9


def _due(part: crawl_pb2.Statistics) -> tuple[bool, float]:
    due = part.next_due_time
    return not part.HasField("next_due_time"), due.seconds + due.nanos / 1e9
