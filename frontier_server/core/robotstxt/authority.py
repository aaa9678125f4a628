"""The state of one authority's robots.txt, and its meaning for a crawl now.

All crawls with one product token share the observations: the last answer, and the failed
tries since then. Each crawl judges them by its own settings (RobotsSpec): how long an
answer is valid, when to try again, after how many tries to give up, and what an
unreachable robots.txt means.

Without valid rules the file is fetched. After a failed try the crawl waits, longer each
time; after the last one the URIs fail, so that a crawl always ends.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ..rows.records import RobotsRow
from ..rules.disposition import DEEMED_NOT_FOUND
from ..spec.settings import DAY_MS, RobotsSettings
from .robots import group_for


class Outcome(Enum):
    """The last answer; stored in RobotsRow.outcome."""

    NONE = "none"  # there was no answer yet
    RULES = "rules"
    ALLOW_ALL = "allow-all"  # the file does not exist


class Gate(Enum):
    """The next step for the URIs of a robots.txt's authority."""

    OPEN = "open"  # ask the rules
    FETCH = "fetch"
    WAIT = "wait"  # until Standing.next_try_ms
    FAIL = "fail"  # with -61


class Standing(NamedTuple):
    """The meaning of an authority's robots.txt for a crawl now."""

    gate: Gate
    tries: int = 0  # failed ones in a row, as this crawl counts them
    next_try_ms: int = 0  # after them


MAX_RETRY_DELAY_MS = DAY_MS
ALLOW_AFTER_ATTEMPTS = 3  # as in Heritrix
KEPT_TRIES = 1_000  # tries whose times are kept: as many as a crawl may have (RobotsSpec.max_attempts)


def standing(row: RobotsRow | None, now_ms: int, settings: RobotsSettings, tried_ms: int = 0) -> Standing:
    """The meaning for a URI of the authority, by the settings of its crawl.

    `tried_ms` is when a fetch of the file for just this URI began; 0 if there was none. Its result
    counts even if it has expired meanwhile, or others have tried since: otherwise a host with long
    rests would be asked only for its robots.txt. If that try failed, the last copy counts.
    """
    if row is None:
        return Standing(Gate.FETCH)
    answered = row.outcome != Outcome.NONE.value
    if answered and (tried_ms or _lasts(row.answer_ms, now_ms, settings)):
        return Standing(Gate.OPEN)
    if not row.attempts:
        return Standing(Gate.FETCH)
    limit = None if answered else _limit(settings)
    tries = _count(row, settings, limit)
    # While new fetches fail, the last copy stays in force (RFC 9309, 2.3.1.4), and so does leniency.
    lenient = answered or (tries.given_up_ms is not None and settings.allow_unreachable)
    if tries.given_up_ms is not None and (
        _lasts(tries.given_up_ms, now_ms, settings) or 0 < tried_ms <= tries.given_up_ms
    ):
        return Standing(Gate.OPEN if lenient else Gate.FAIL, limit or 0)
    if not tries.in_a_row or now_ms >= tries.next_try_ms:
        return Standing(Gate.FETCH, tries.in_a_row)
    return Standing(Gate.OPEN if lenient else Gate.WAIT, tries.in_a_row, tries.next_try_ms)


def _lasts(begin_ms: int, now_ms: int, settings: RobotsSettings) -> bool:
    return now_ms < begin_ms + settings.validity_ms


def _limit(settings: RobotsSettings) -> int:
    """The number of failed tries in a row after which a crawl gives up."""
    if settings.allow_unreachable:
        return min(ALLOW_AFTER_ATTEMPTS, settings.max_attempts)
    return settings.max_attempts


class _Tries(NamedTuple):
    in_a_row: int  # since the crawl began or last gave up
    next_try_ms: int  # after them
    given_up_ms: int | None  # when the crawl last gave up, if it ever did


def _count(row: RobotsRow, settings: RobotsSettings, limit: int | None) -> _Tries:
    """The failed tries, as a crawl with these settings counts them.

    Other crawls may have made them. A try counts only if this crawl would have tried by then, too:
    an eager crawl must not use up the patience of all others.
    """
    count = row.attempts - len(row.tries_ms)  # tries whose times are no longer kept
    if limit is not None:
        count = min(count, limit - 1)
    delay_ms = float(settings.retry_delay_ms)
    for _ in range(count - 1):
        if delay_ms >= MAX_RETRY_DELAY_MS or not delay_ms:
            break
        delay_ms *= 2
    due_ms, given_up_ms = 0, None
    for try_ms in row.tries_ms:
        if try_ms < due_ms:
            continue
        delay_ms = delay_ms * 2 if count else float(settings.retry_delay_ms)
        count += 1
        due_ms = try_ms + int(min(delay_ms, MAX_RETRY_DELAY_MS))
        if count == limit:
            count, given_up_ms, due_ms = 0, try_ms, try_ms + settings.validity_ms
    return _Tries(count, due_ms, given_up_ms)


@dataclass(frozen=True, slots=True)
class RobotsReport:
    """The result of a fetch of a robots.txt."""

    status: int
    body: bytes
    reason: str = ""  # why there is no answer, for people


def after_fetch(row: RobotsRow | None, report: RobotsReport, now_ms: int, product_token: str) -> RobotsRow:
    """The row after a fetch (RFC 9309, 2.3.1): only observations, whatever the crawl's settings."""
    status = report.status
    after = RobotsRow(Outcome.NONE.value, fetch_ms=now_ms, fetch_status=status, reason=report.reason)
    if 200 <= status < 300:
        after.outcome, after.rules = Outcome.RULES.value, group_for(report.body, product_token)
        after.answer_ms = now_ms
    elif _unavailable(status):
        after.outcome, after.answer_ms = Outcome.ALLOW_ALL.value, now_ms
    else:
        after.attempts, after.tries_ms = 1, (now_ms,)
        if row is not None:
            after.outcome, after.rules, after.answer_ms = row.outcome, row.rules, row.answer_ms
            after.attempts = row.attempts + 1
            kept = row.tries_ms
            if len(kept) >= 2 * KEPT_TRIES:  # cut many at once, and keep as many as any crawl counts
                kept = kept[-KEPT_TRIES:]
            after.tries_ms = (*kept, now_ms)
    return after


def _unavailable(status: int) -> bool:
    """Whether a robots.txt does not exist, and so allows everything: 4xx, and redirects that lead nowhere."""
    return (300 <= status < 500 and status != 429) or status == DEEMED_NOT_FOUND


def as_seen(row: RobotsRow) -> RobotsRow:
    """Convert a row of an older server to observations.

    Such a row has no times of tries, and its "allow-all" may be one crawl's leniency: it counts
    only if the last fetch answered so.
    """
    if not row.fetch_ms or row.answer_ms or row.tries_ms:
        return row
    by_rules = row.outcome == Outcome.RULES.value and not row.attempts
    if by_rules or (row.outcome == Outcome.ALLOW_ALL.value and _unavailable(row.fetch_status)):
        row.answer_ms = row.fetch_ms
    else:
        if row.outcome == Outcome.ALLOW_ALL.value:
            row.outcome = Outcome.NONE.value
        row.attempts = max(row.attempts, 1)
        row.tries_ms = (row.fetch_ms,)
    return row
