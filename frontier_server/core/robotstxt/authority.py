"""The state of one authority's robots.txt: what was seen of it, and what that lets a crawl do now.

All crawls with one product token share what was seen: the last answer, and the tries
since then that brought none. What follows is judged anew for each crawl that asks,
by its own settings (RobotsSpec): how long an answer is valid, when to try again,
after how many tries to give up, and what an unreachable robots.txt means.

A row without valid rules leads to a fetch; tries that bring nothing to waiting, longer
each time; and after the last one to failure of the URIs, so that a crawl always ends.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ..records import RobotsRow
from ..rules.disposition import DEEMED_NOT_FOUND
from ..spec.settings import DAY_MS, RobotsSettings
from .robots import group_for


class Outcome(Enum):
    """What the last answer said; stored in RobotsRow.outcome."""

    NONE = "none"  # never had an answer
    RULES = "rules"
    ALLOW_ALL = "allow-all"  # it is not there


class Gate(Enum):
    """What robots.txt means for the URIs of its authority now."""

    OPEN = "open"  # ask the rules
    FETCH = "fetch"
    WAIT = "wait"  # until Standing.next_try_ms
    FAIL = "fail"  # with -61


class Standing(NamedTuple):
    """What an authority's robots.txt means for a crawl now."""

    gate: Gate
    tries: int = 0  # in a row that brought nothing, as this crawl counts them
    next_try_ms: int = 0  # after them


MAX_RETRY_DELAY_MS = DAY_MS
ALLOW_AFTER_ATTEMPTS = 3  # Heritrix 2.8
KEPT_TRIES = 1_000  # whose times are kept at least: as many as a crawl may have (RobotsSpec.max_attempts)


def standing(row: RobotsRow | None, now_ms: int, settings: RobotsSettings, tried_ms: int = 0) -> Standing:
    """What to do about a URI of the authority, by the settings of its crawl.

    `tried_ms` is when a fetch of the file just for this URI began; 0 if there was none. What has
    come of that counts though it has expired meanwhile, or others have tried since: else a host that
    rests for longer would be asked for nothing but its robots.txt. So does the last copy when the try
    brought no new one.
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
    # While fetching again fails, the last copy counts (RFC 9309, 2.3.1.4), and so does leniency.
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
    """After how many tries in a row a crawl gives up."""
    if settings.allow_unreachable:
        return min(ALLOW_AFTER_ATTEMPTS, settings.max_attempts)
    return settings.max_attempts


class _Tries(NamedTuple):
    in_a_row: int  # since the crawl began or last gave up
    next_try_ms: int  # after them
    given_up_ms: int | None  # when the crawl last gave up, if it ever did


def _count(row: RobotsRow, settings: RobotsSettings, limit: int | None) -> _Tries:
    """The tries that brought nothing, as a crawl with these settings counts them.

    They may have been other crawls': one that comes before the crawl would have tried itself is
    none of its own, lest an eager crawl uses up the patience of all others.
    """
    count = row.attempts - len(row.tries_ms)  # whose times are forgotten
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
    """How a fetch of a robots.txt ended."""

    status: int
    body: bytes


def after_fetch(row: RobotsRow | None, report: RobotsReport, now_ms: int, product_token: str) -> RobotsRow:
    """The row after a fetch (RFC 9309, 2.3.1): what was seen, and nothing that a crawl's settings decide."""
    status = report.status
    after = RobotsRow(Outcome.NONE.value, fetch_ms=now_ms, fetch_status=status)
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
            if len(kept) >= 2 * KEPT_TRIES:  # many at once: between two cuts no crawl loses count
                kept = kept[-KEPT_TRIES:]
            after.tries_ms = (*kept, now_ms)
    return after


def _unavailable(status: int) -> bool:
    """Whether a robots.txt is not there: 4xx, and redirects that lead nowhere. Everything is allowed then."""
    return (300 <= status < 500 and status != 429) or status == DEEMED_NOT_FOUND


def as_seen(row: RobotsRow) -> RobotsRow:
    """A row as an older server wrote it, with what it saw.

    Such a row has no times of tries, and an "allow-all" of it may be a crawl's leniency: it counts
    only if the last fetch was its answer.
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
