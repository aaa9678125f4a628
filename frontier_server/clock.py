"""The frontier's own time: the wall clock's at start, then advanced by the monotonic clock.

It never stands below the last stored time. A jump of the wall clock changes nothing.
"""

import time


class Clock:
    """Milliseconds since the epoch, as this server reckons them."""

    def __init__(self, least_ms: int = 0) -> None:
        self._start_ms = max(wall_ms(), least_ms)
        self._start_ns = time.monotonic_ns()

    def now_ms(self) -> int:
        """Now. Never less than before."""
        return self._start_ms + (time.monotonic_ns() - self._start_ns) // 1_000_000


def wall_ms() -> int:
    """What the wall clock says."""
    return time.time_ns() // 1_000_000
