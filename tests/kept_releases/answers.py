"""What a frontier answers about its crawls, in values that a later version must answer, too."""

from collections.abc import Iterator, Mapping
from typing import Any

from frontier_harness.calls import Stubs
from google.protobuf.json_format import MessageToDict

Answers = dict[str, Any]

_ASKED = {
    "GetCrawl": "crawl",
    "GetStatistics": "statistics",
    "ListOverrides": "overrides",
    "ListSeeds": "seeds",
    "ListJobs": "jobs",
    "ListRefusals": "rules",
    "ListHosts": "hosts",
    "ListSources": "sources",
}
"""RPCs of a crawl, and the field of the answer that counts."""
_PASSING = {
    # They change with the time.
    "snapshotTime",
    "elapsedDuration",
    "limitedDuration",
    "nextDueTime",
    "waitingFor",
    "limitedBy",
    "remainingMinDuration",
    "remainingMaxDuration",
    "congestionRatio",
    "wakeTime",
    "expireTime",
    # It is of the queues that have changed since the server started.
    "deepestQueueCount",
    # They are for people.
    "message",
    "outcome",
    "reason",
    # They are numbers of floating point.
    "averageBytesPerSecond",
    "averageCost",
    "averageDepth",
    "averageSucceededPerSecond",
    "bytesPerSecond",
    "succeededPerSecond",
}
_ACTIVE = {"QUEUE_STATE_READY", "QUEUE_STATE_SNOOZED", "QUEUE_STATE_BUSY"}
"""States of queues that follow from the time, and that are one here."""


def answers(stubs: Stubs, crawl: str) -> Answers:
    """Everything that a frontier knows of a crawl and that stays while nobody changes it."""
    found: Answers = {rpc: _plain(getattr(stubs.ask(rpc, crawl), field)) for rpc, field in _ASKED.items()}
    states = found["GetStatistics"].pop("queueStateCounts", {})
    found["QueueStates"] = {
        state: count for state, count in states.items() if f"QUEUE_STATE_{state}" not in _ACTIVE
    }
    found["ListQueues"] = _plain(stubs.queues(crawl))
    found["ExportUris"] = _plain(stubs.waiting(crawl))
    found["Outcomes"] = [
        outcome
        for message in stubs.ask("StreamOutcomes", crawl, cursor="start")
        for outcome in _plain(message.outcomes)
    ]
    found["StateEvents"] = _plain(stubs.events_so_far(crawl))
    return found


def _plain(message: Any) -> Any:
    if isinstance(message, Mapping):
        return {key: _plain(value) for key, value in message.items() if key not in _PASSING}
    if isinstance(message, str):
        return "ACTIVE" if message in _ACTIVE else message
    if isinstance(message, int | float):
        return message
    if hasattr(message, "DESCRIPTOR"):
        return _plain(MessageToDict(message))
    return [_plain(each) for each in message]


def differences(told: Any, found: Any, place: str = "") -> Iterator[str]:
    """Where an answer lacks what was told, or says otherwise. It may say more: later versions know more."""
    if isinstance(told, dict) and isinstance(found, dict):
        for key, value in told.items():
            yield from differences(value, found.get(key), f"{place}.{key}")
    elif isinstance(told, list) and isinstance(found, list) and len(told) <= len(found):
        if len(told) < len(found) and not place.endswith("StateEvents"):
            yield f"{place}: {len(told)} were told, {len(found)} are there: {found[len(told) :]}"
        for number, value in enumerate(told):
            yield from differences(value, found[number], f"{place}[{number}]")
    elif told != found:
        yield f"{place}: {told!r} was told, {found!r} is there"
