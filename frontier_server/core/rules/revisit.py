"""When a URI is fetched again: after a fixed interval, or sooner the more often it changes."""

from ..rows.records import SeenRow
from ..spec.settings import RevisitSettings

NONE, FIXED, ADAPTIVE = "none", "fixed", "adaptive"


def interval_ms(before: SeenRow, changed: bool, settings: RevisitSettings) -> int:
    """The time until the next visit, by the policy; 0 if there is none.

    Adaptive: the last interval, times `growth` if the content is the same or `shrink` if it
    has changed, within the bounds. The first interval is `interval`.
    """
    if settings.policy == NONE:
        return 0
    if settings.policy == FIXED:
        return settings.interval_ms
    own = settings.interval_ms
    if before.visits and before.interval_ms:
        own = int(before.interval_ms * (settings.shrink if changed else settings.growth))
    return min(max(own, settings.min_interval_ms), settings.max_interval_ms)
