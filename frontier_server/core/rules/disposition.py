"""The meaning of a fetch status: the disposition, and whether and when to try again.

This is Heritrix's table as data, with four differences: 429 and 503 are tried again (there
they are successes), rests between tries may grow, a crawl may have its own rule for a status,
and a URI that fails although its host was reached rests alone, so that it does not hold up the
host's other pages.
"""

from dataclasses import dataclass
from enum import Enum

from ..spec.settings import RetryRule, RetrySettings


class Disposition(Enum):
    """The frontier's decision on a report; the contract's names."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DISREGARDED = "DISREGARDED"
    DEFERRED = "DEFERRED"
    RELEASED = "RELEASED"
    STALE = "STALE"
    UNKNOWN_TOKEN = "UNKNOWN_TOKEN"
    INVALID_REPORT = "INVALID_REPORT"

    __hash__ = object.__hash__  # by identity: each report's is looked up


CONNECT_LOST = -3
TIMEOUT = -4
UNFETCHABLE_URI = -7
PROTOCOL_ERROR = -10
DEFERRED = -50
ROBOTS_PREREQUISITE_FAILURE = -61
DEEMED_NOT_FOUND = -404
OUT_OF_SCOPE = -5000
BLOCKED_BY_QUOTA = -5003
DELETED_BY_USER = -6000
PROCESSING_THREAD_KILLED = -7000
SERIOUS_ERROR = -3000
ROBOTS_PRECLUDED = -9998


class Meaning(Enum):
    """The meaning of a status, without the crawl's own rules."""

    FAILURE = "final: the URI was not fetched"
    DISREGARDED = "final: the URI should not be fetched"
    RETRIED = "the queue rests, and the URI is tried again"
    UNANSWERED = "the URI rests by itself while its queue goes on, and is tried again"
    MALFORMED = "as UNANSWERED, but tried once more only"
    OVERLOADED = "the host rests, and the URI is tried again"
    DEFERRED = "put off: the URI is tried again at once, at no cost; after many, as RETRIED"
    SUCCESS = "final: any other HTTP status"


_M = Meaning
MEANINGS: dict[int, tuple[str, Meaning]] = {
    -1: ("DOMAIN_UNRESOLVABLE", _M.RETRIED),
    -2: ("CONNECT_FAILED", _M.RETRIED),
    CONNECT_LOST: ("CONNECT_LOST", _M.UNANSWERED),
    TIMEOUT: ("TIMEOUT", _M.FAILURE),
    -5: ("RUNTIME_EXCEPTION", _M.FAILURE),
    -6: ("DOMAIN_PREREQUISITE_FAILURE", _M.FAILURE),
    UNFETCHABLE_URI: ("UNFETCHABLE_URI", _M.FAILURE),
    -8: ("TOO_MANY_RETRIES", _M.FAILURE),
    PROTOCOL_ERROR: ("PROTOCOL_ERROR", _M.MALFORMED),
    DEFERRED: ("DEFERRED", _M.DEFERRED),
    -60: ("UNQUEUEABLE", _M.FAILURE),
    ROBOTS_PREREQUISITE_FAILURE: ("ROBOTS_PREREQUISITE_FAILURE", _M.FAILURE),
    -62: ("OTHER_PREREQUISITE_FAILURE", _M.FAILURE),
    -63: ("PREREQUISITE_UNSCHEDULABLE_FAILURE", _M.FAILURE),
    DEEMED_NOT_FOUND: ("DEEMED_NOT_FOUND", _M.FAILURE),
    -3000: ("SERIOUS_ERROR", _M.FAILURE),
    -4000: ("DEEMED_CHAFF", _M.FAILURE),
    -4001: ("TOO_MANY_LINK_HOPS", _M.DISREGARDED),
    -4002: ("TOO_MANY_EMBED_HOPS", _M.DISREGARDED),
    OUT_OF_SCOPE: ("OUT_OF_SCOPE", _M.DISREGARDED),
    -5001: ("BLOCKED_BY_USER", _M.DISREGARDED),
    -5002: ("BLOCKED_BY_CUSTOM_PROCESSOR", _M.DISREGARDED),
    BLOCKED_BY_QUOTA: ("BLOCKED_BY_QUOTA", _M.FAILURE),
    -5004: ("BLOCKED_BY_RUNTIME_LIMIT", _M.FAILURE),
    DELETED_BY_USER: ("DELETED_BY_USER", _M.DISREGARDED),
    PROCESSING_THREAD_KILLED: ("PROCESSING_THREAD_KILLED", _M.FAILURE),
    ROBOTS_PRECLUDED: ("ROBOTS_PRECLUDED", _M.DISREGARDED),
    429: ("Too Many Requests", _M.OVERLOADED),
    503: ("Service Unavailable", _M.OVERLOADED),
}
OVERLOADED = frozenset(status for status, (_, meaning) in MEANINGS.items() if meaning is _M.OVERLOADED)
# The host was reached and gave no answer: it is in trouble, or only this URI's handler is.
NO_ANSWER = frozenset((CONNECT_LOST, TIMEOUT))
# What tells nothing of one URI, but of its host (which was not reached, or wants a rest) or of the node.
_OF_HOST = frozenset((-1, -2, DEFERRED, *OVERLOADED))
# Statuses that a crawl may have its own rule for: a later fetch may succeed.
RULED = frozenset((-1, -2, CONNECT_LOST, TIMEOUT, -5, PROTOCOL_ERROR, *range(400, 1000)))
# A server will most likely answer the same URI in the same way again, but its other pages may be fine.
MALFORMED_ATTEMPTS = 2
MAX_HTTP_STATUS = 999  # three digits; from 600 on they have no class, and count as 5xx (RFC 9110, 15)
MAX_DEFERRALS = 10  # of a URI, free of cost
_AGAIN = frozenset((_M.RETRIED, _M.UNANSWERED, _M.MALFORMED, _M.OVERLOADED, _M.DEFERRED))


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a report, for its URI."""

    disposition: Disposition
    rest_ms: int = 0  # of the queue, or of the URI alone, before the URI is tried again
    counts: bool = True  # as an attempt
    steps_aside: bool = False  # the URI rests alone; its queue rests only if the host is silent


def known_status(status: int) -> bool:
    """Whether a node may report this fetch status."""
    return 100 <= status <= MAX_HTTP_STATUS or status in MEANINGS


def decide(status: int, attempt: int, retry: RetrySettings, deferrals: int = 0) -> Decision:
    """Decide on the fetch status of a URI's `attempt`-th try, after so many deferrals."""
    meaning = MEANINGS[status][1] if status in MEANINGS else Meaning.SUCCESS
    if meaning is Meaning.DEFERRED and deferrals < MAX_DEFERRALS:
        return Decision(Disposition.DEFERRED, counts=False)
    rule = rule_for(status, retry)
    if rule is not None or meaning in _AGAIN:
        most = retry.max_attempts if rule is None else rule.max_attempts
        if rule is None and meaning is Meaning.MALFORMED:
            most = min(most, MALFORMED_ATTEMPTS)
        if attempt >= most:
            # After its last try, a status that is tried again only by a rule keeps its own meaning.
            final = Disposition.SUCCEEDED if meaning is Meaning.SUCCESS else Disposition.FAILED
            rests = most > 1 and status in NO_ANSWER  # a silent host is not asked for the next URI at once
            return Decision(final, retry_rest_ms(attempt, rule or retry) if rests else 0, steps_aside=rests)
        rests = meaning is not Meaning.OVERLOADED or rule is not None
        rest_ms = retry_rest_ms(attempt, rule or retry) if rests else 0
        return Decision(Disposition.DEFERRED, rest_ms, steps_aside=status not in _OF_HOST)
    match meaning:
        case Meaning.SUCCESS:
            return Decision(Disposition.SUCCEEDED)
        case Meaning.DISREGARDED:
            return Decision(Disposition.DISREGARDED)
        case _:
            return Decision(Disposition.FAILED)


def rule_for(status: int, retry: RetrySettings) -> RetryRule | None:
    """The crawl's own rule for a status."""
    return next((rule for rule in retry.statuses if rule.fetch_status == status), None)


def retry_rest_ms(attempt: int, retry: RetrySettings | RetryRule) -> int:
    """The rest of a queue, or of a URI that steps aside, after the `attempt`-th try failed."""
    return int(grown(retry.delay_ms, retry.growth, attempt - 1, retry.max_delay_ms))


def grown(delay_ms: float, growth: float, times: int, most_ms: int) -> float:
    """A delay after it has grown so many times, up to a bound."""
    for _ in range(times):
        if delay_ms >= most_ms or growth == 1 or not delay_ms:
            break
        delay_ms *= growth
    return min(delay_ms, most_ms)
