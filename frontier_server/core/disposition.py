"""What a fetch status means: which disposition, and whether and when to try again.

Heritrix's table (2.10, S1.16 to S1.20), but 429 and 503 are tried again (there
they are successes), and each further rest may grow.
"""

from dataclasses import dataclass
from enum import Enum

from .settings import RetrySettings


class Disposition(Enum):
    """What became of a URI, or of a lease; the contract's names."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DISREGARDED = "DISREGARDED"
    DEFERRED = "DEFERRED"
    RELEASED = "RELEASED"
    STALE = "STALE"
    UNKNOWN_TOKEN = "UNKNOWN_TOKEN"
    INVALID_REPORT = "INVALID_REPORT"


UNFETCHABLE_URI = -7
DEFERRED = -50
ROBOTS_PREREQUISITE_FAILURE = -61
BLOCKED_BY_QUOTA = -5003
DELETED_BY_USER = -6000
PROCESSING_THREAD_KILLED = -7000
ROBOTS_PRECLUDED = -9998

KNOWN_FAILURES = frozenset(
    (-1, -2, -3, -4, -5, -6, -7, -8, -50, -60, -61, -62, -63, -404, -3000, -4000, -5003, -5004, -7000)
)
DISREGARDED = frozenset((-4001, -4002, -5000, -5001, -5002, -6000, -9998))
RESTED = frozenset((-1, -2, -3))  # the queue rests before the next try
OVERLOADED = frozenset((429, 503))  # the host rests before the next try


@dataclass(frozen=True, slots=True)
class Decision:
    """What a report means for its URI."""

    disposition: Disposition
    rest_ms: int = 0  # of the queue, before the URI is tried again
    counts: bool = True  # as an attempt


def known_status(status: int) -> bool:
    """Whether a node may report this fetch status."""
    return 100 <= status <= 599 or status in KNOWN_FAILURES or status in DISREGARDED


def decide(status: int, attempt: int, retry: RetrySettings) -> Decision:
    """What the fetch status of a URI's `attempt`-th try means."""
    if status == DEFERRED:
        return Decision(Disposition.DEFERRED, counts=False)
    if status in RESTED or status in OVERLOADED:
        if attempt >= retry.max_attempts:
            return Decision(Disposition.FAILED)
        return Decision(Disposition.DEFERRED, retry_rest_ms(attempt, retry) if status in RESTED else 0)
    if status > 0:
        return Decision(Disposition.SUCCEEDED)
    if status in DISREGARDED:
        return Decision(Disposition.DISREGARDED)
    return Decision(Disposition.FAILED)


def retry_rest_ms(attempt: int, retry: RetrySettings) -> int:
    """How long a queue rests after the `attempt`-th try of its head failed."""
    return int(grown(retry.delay_ms, retry.growth, attempt - 1, retry.max_delay_ms))


def grown(delay_ms: float, growth: float, times: int, most_ms: int) -> float:
    """A delay that grew some times, up to a bound."""
    for _ in range(times):
        if delay_ms >= most_ms or growth == 1 or not delay_ms:
            break
        delay_ms *= growth
    return min(delay_ms, most_ms)
