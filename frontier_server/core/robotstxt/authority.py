"""The state of one authority's robots.txt: what it lets us do now.

A row without valid rules leads to a fetch; failures to waiting, longer each time;
and after the last try to failure of the URIs, so that a crawl always ends.
"""

from dataclasses import dataclass
from enum import Enum

from ..records import RobotsRow
from ..rules.disposition import DEEMED_NOT_FOUND, grown
from ..spec.settings import DAY_MS, RobotsSettings
from .robots import group_for


class Outcome(Enum):
    """What the last fetch that brought an answer said; stored in RobotsRow.outcome."""

    NONE = "none"  # never had an answer
    RULES = "rules"
    ALLOW_ALL = "allow-all"


class Gate(Enum):
    """What robots.txt means for the URIs of its authority now."""

    OPEN = "open"  # ask the rules
    FETCH = "fetch"
    WAIT = "wait"  # until RobotsRow.next_try_ms
    FAIL = "fail"  # with -61


MAX_RETRY_DELAY_MS = DAY_MS
ALLOW_AFTER_ATTEMPTS = 3  # Heritrix 2.8


def gate(row: RobotsRow | None, now_ms: int, settings: RobotsSettings, for_this: bool = False) -> Gate:
    """What to do about a URI of the authority.

    What was fetched just for this URI (`for_this`) counts though it has expired meanwhile:
    else a host that rests for longer than that would be asked for nothing but its robots.txt.
    """
    if row is None:
        return Gate.FETCH
    if now_ms < row.expire_ms or (for_this and row.expire_ms):
        return Gate.OPEN if row.outcome != Outcome.NONE.value else Gate.FAIL
    if row.attempts == 0 or now_ms >= row.next_try_ms:
        return Gate.FETCH
    if row.outcome != Outcome.NONE.value:
        return Gate.OPEN  # the last good copy counts while fetching again fails
    return Gate.WAIT


@dataclass(frozen=True, slots=True)
class RobotsReport:
    """How a fetch of a robots.txt ended."""

    status: int
    body: bytes


def after_fetch(
    row: RobotsRow | None, report: RobotsReport, now_ms: int, settings: RobotsSettings, product_token: str
) -> RobotsRow:
    """The row after a fetch (RFC 9309, 2.3.1)."""
    status = report.status
    before = row or RobotsRow(Outcome.NONE.value)
    after = RobotsRow(
        before.outcome,
        rules=before.rules,
        fetch_ms=now_ms,
        fetch_status=status,
    )
    if 200 <= status < 300:
        after.outcome, after.rules = Outcome.RULES.value, group_for(report.body, product_token)
    elif (300 <= status < 500 and status != 429) or status == DEEMED_NOT_FOUND:
        # 4xx, and redirects that lead nowhere: unavailable, so everything is allowed.
        after.outcome, after.rules = Outcome.ALLOW_ALL.value, ""
    else:
        after.attempts = before.attempts + 1
        delay = grown(settings.retry_delay_ms, 2, after.attempts - 1, MAX_RETRY_DELAY_MS)
        after.next_try_ms = now_ms + int(delay)
        after.expire_ms = 0
        if before.outcome != Outcome.NONE.value:
            return after
        if settings.allow_unreachable and after.attempts >= min(ALLOW_AFTER_ATTEMPTS, settings.max_attempts):
            after.outcome = Outcome.ALLOW_ALL.value
        elif after.attempts < settings.max_attempts:
            return after
        after.attempts = 0
    after.expire_ms = now_ms + settings.validity_ms
    return after
