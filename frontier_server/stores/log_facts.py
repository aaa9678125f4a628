"""What a store tells of its log."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

MEASURED = 1_000
"""Of so many appends, the last ones, a quantile is told."""
QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The state of a log, as its owner knows it, and what the owner has had to do for it since it began."""

    appends: int
    append_s: float  # that they took, together
    append_quantile_s: float  # QUANTILE of the last MEASURED took so long at most; 0 before the first
    tail_rows: int
    tail_records: int
    epoch: int
    is_restored: bool  # its store did not have it, and was made anew
    waiting_s: float  # of the flush that is under way
    replica_age_s: float | None  # None: there is no replica yet
    requests: Mapping[str, int]  # of the process to its bucket, by kind


class Appends:
    """How long appends have taken. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._took_s = 0.0
        self._last_s: deque[float] = deque(maxlen=MEASURED)

    def add(self, took_s: float) -> None:
        """One more has taken so long."""
        with self._lock:
            self._count += 1
            self._took_s += took_s
            self._last_s.append(took_s)

    def told(self) -> tuple[int, float, float]:
        """How many there were, what they took together, and the quantile of the last ones."""
        with self._lock:
            count, took_s, last_s = self._count, self._took_s, sorted(self._last_s)
        rank = -(-len(last_s) * round(QUANTILE * 100) // 100)  # the nearest, rounded up
        return count, took_s, last_s[rank - 1] if last_s else 0.0
