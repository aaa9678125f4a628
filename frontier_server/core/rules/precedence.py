"""The order of URIs in a queue, and of queues for activation. Lower precedence goes first."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..spec.settings import QueueSettings

MAX_PRECEDENCE = 127  # of a URI
MAX_QUEUE_PRECEDENCE = 255
BASE_URI_PRECEDENCE = 1


def queue_precedence(settings: QueueSettings, lowest_uri: int | None, successes: int) -> int:
    """The precedence (0..255) of a queue.

    `lowest_uri` is the lowest precedence of its URIs, None if it has none; `successes` is the
    number of its URIs that have been fetched.
    """
    precedence = QUEUE_POLICIES[settings.queue_precedence](settings, lowest_uri, successes)
    return max(0, min(precedence, MAX_QUEUE_PRECEDENCE))


def _cost(cost: int, path: str) -> int:
    """The URI's cost."""
    return min(cost, MAX_PRECEDENCE)


def _base_uri(cost: int, path: str) -> int:
    """The same for all: first come, first served."""
    return BASE_URI_PRECEDENCE


def _hops(cost: int, path: str) -> int:
    """One more for each link from the seed: breadth first."""
    return min(BASE_URI_PRECEDENCE + path.count("L"), MAX_PRECEDENCE)


def _base_queue(settings: QueueSettings, lowest_uri: int | None, successes: int) -> int:
    """The same for all."""
    return settings.base_precedence


def _highest_uri(settings: QueueSettings, lowest_uri: int | None, successes: int) -> int:
    """Plus the lowest precedence of its URIs."""
    return settings.base_precedence + (lowest_uri or 0)


def _success_counts(settings: QueueSettings, lowest_uri: int | None, successes: int) -> int:
    """Plus one for each tier of successes; the last tier repeats.

    With tiers of 100 and 1000: 0 for the first 100 successes, 1 up to 1100, 2 up to 2100, …
    """
    passed = 0
    left = successes
    tier = 0
    for tier in settings.success_thresholds:
        if left < tier:
            return settings.base_precedence + passed
        left -= tier
        passed += 1
    return settings.base_precedence + passed + (left // tier if tier else 0)


URI_POLICIES: Mapping[str, Callable[[int, str], int]] = MappingProxyType(
    {"cost": _cost, "base": _base_uri, "hops": _hops}
)
"""By name: the precedence of a URI of this cost and discovery path."""
QUEUE_POLICIES: Mapping[str, Callable[[QueueSettings, int | None, int], int]] = MappingProxyType(
    {"base": _base_queue, "highest-uri": _highest_uri, "success-counts": _success_counts}
)
