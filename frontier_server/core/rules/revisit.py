"""When a URI is fetched again: fixed, or sooner the more often it changes."""

from ..records import SeenRow
from ..spec.settings import RevisitSettings

NONE, FIXED, ADAPTIVE = "none", "fixed", "adaptive"


def interval_ms(before: SeenRow, changed: bool, settings: RevisitSettings) -> int:
    """How long until the next visit, by the policy; 0 if there is none.

    Adaptive: the interval of the last visit, times `growth` if the content was the same
    and `shrink` if it was not, within the bounds. The first one is `interval`.
    """
    if settings.policy == NONE:
        return 0
    if settings.policy == FIXED:
        return settings.interval_ms
    own = settings.interval_ms
    if before.visits and before.interval_ms:
        own = int(before.interval_ms * (settings.shrink if changed else settings.growth))
    return min(max(own, settings.min_interval_ms), settings.max_interval_ms)
