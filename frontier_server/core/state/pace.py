"""The recent speed of a crawl, from a few samples of its counters in memory."""

from collections import deque

SAMPLE_EVERY_MS = 2_000
SAMPLES = 11  # about twenty seconds, like Heritrix's snapshots


class RecentPace:
    """Samples of successes and bytes."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int, int]] = deque(maxlen=SAMPLES)

    def note(self, now_ms: int, successes: int, body_bytes: int) -> None:
        """Take a sample, if the last one is old enough."""
        if not self._samples or now_ms - self._samples[-1][0] >= SAMPLE_EVERY_MS:
            self._samples.append((now_ms, successes, body_bytes))

    def rates(self, now_ms: int) -> tuple[float, float]:
        """Successes and bytes a second since the oldest sample."""
        if not self._samples:
            return 0.0, 0.0
        first_ms, successes, body_bytes = self._samples[0]
        _, last_successes, last_bytes = self._samples[-1]
        seconds = (now_ms - first_ms) / 1000
        if seconds <= 0:
            return 0.0, 0.0
        return (last_successes - successes) / seconds, (last_bytes - body_bytes) / seconds
