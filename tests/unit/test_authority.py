"""The state of one robots.txt: what it lets us do, and what each end of a fetch makes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.records import RobotsRow
from frontier_server.core.robotstxt.authority import Gate, Outcome, RobotsReport, after_fetch, gate
from frontier_server.core.robotstxt.robots import Rules
from frontier_server.core.spec.settings import DAY_MS, RobotsSettings

NOW = 1_700_000_000_000
FORBID = RobotsSettings()  # 5 tries, 30 s apart and doubling, valid for 24 h
ALLOW = RobotsSettings(allow_unreachable=True)
BODY = b"User-agent: *\nDisallow: /private/\n"
UNREACHABLE = (100, 199, 429, 500, 502, 503, 599, -1, -2, -3, -4, -5, -50, -3000, -7000, -9998)


def fetched(
    row: RobotsRow | None,
    status: int,
    now_ms: int = NOW,
    settings: RobotsSettings = FORBID,
    body: bytes = b"",
) -> RobotsRow:
    """The row after a fetch."""
    return after_fetch(row, RobotsReport(status, body), now_ms, settings, "toehold")


def allows(row: RobotsRow, target: str) -> bool:
    """What the row's rules say."""
    return Rules(row.rules).allows(target)


def test_an_authority_that_nobody_knows_is_asked_first() -> None:
    """Heritrix 2.11: the robots.txt comes before its pages."""
    assert gate(None, NOW, FORBID) is Gate.FETCH


@pytest.mark.parametrize("status", [200, 204, 206, 299])
def test_rules_are_obeyed_for_a_day(status: int) -> None:
    """RFC 9309, 2.4: no longer than 24 hours. Heritrix 2.2: robotsValidityDurationSeconds."""
    row = fetched(None, status, body=BODY)
    assert row.outcome == Outcome.RULES.value
    assert not allows(row, "/private/x") and allows(row, "/")
    assert gate(row, NOW + DAY_MS - 1, FORBID) is Gate.OPEN
    assert gate(row, NOW + DAY_MS, FORBID) is Gate.FETCH


@pytest.mark.parametrize("status", [300, 301, 304, 400, 401, 403, 404, 410, 451, 499, -404])
def test_an_unavailable_robots_txt_allows_everything(status: int) -> None:
    """RFC 9309, 2.3.1.3; and redirects beyond the fifth, 2.3.1.2. What was known before does not count."""
    row = fetched(fetched(None, 200, body=BODY), status, NOW + DAY_MS)
    assert row.outcome == Outcome.ALLOW_ALL.value and allows(row, "/private/x")
    assert gate(row, NOW + DAY_MS, FORBID) is Gate.OPEN


@pytest.mark.parametrize("status", UNREACHABLE)
def test_an_unreachable_robots_txt_forbids_until_a_later_try(status: int) -> None:
    """RFC 9309, 2.3.1.4. A difference: in Heritrix 5xx allows at once (2.8)."""
    row = fetched(None, status)
    assert row.outcome == Outcome.NONE.value and row.attempts == 1
    assert gate(row, NOW, FORBID) is Gate.WAIT
    assert gate(row, NOW + 29_999, FORBID) is Gate.WAIT
    assert gate(row, NOW + 30_000, FORBID) is Gate.FETCH


def test_each_further_try_waits_twice_as_long() -> None:
    row, waits = None, []
    for _ in range(4):
        row = fetched(row, 503)
        waits.append(row.next_try_ms - NOW)
    assert waits == [30_000, 60_000, 120_000, 240_000]


def test_after_the_last_try_its_uris_fail_for_a_while_so_that_a_crawl_ends() -> None:
    """D23: Heritrix holds a queue for 30 tries of 900 s."""
    row = None
    for _ in range(5):
        row = fetched(row, 503)
    assert row is not None and row.attempts == 0
    assert gate(row, NOW, FORBID) is Gate.FAIL
    assert gate(row, NOW + DAY_MS - 1, FORBID) is Gate.FAIL
    assert gate(row, NOW + DAY_MS, FORBID) is Gate.FETCH


def test_after_giving_up_the_tries_begin_anew() -> None:
    row = None
    for _ in range(5):
        row = fetched(row, -2)
    row = fetched(row, -2, NOW + DAY_MS)
    assert row.attempts == 1 and gate(row, NOW + DAY_MS, FORBID) is Gate.WAIT


def test_one_try_may_be_all() -> None:
    row = fetched(None, 500, settings=RobotsSettings(max_attempts=1))
    assert gate(row, NOW, FORBID) is Gate.FAIL


@pytest.mark.parametrize("status", UNREACHABLE)
def test_the_last_good_copy_counts_while_a_refetch_fails(status: int) -> None:
    """RFC 9309, 2.3.1.4 and 2.4."""
    good = fetched(None, 200, body=BODY)
    later = NOW + DAY_MS
    row = fetched(good, status, later)
    assert gate(row, later, FORBID) is Gate.OPEN and not allows(row, "/private/x")
    assert gate(row, later + 29_999, FORBID) is Gate.OPEN
    assert gate(row, later + 30_000, FORBID) is Gate.FETCH


def test_the_last_good_copy_counts_however_often_a_refetch_fails() -> None:
    row, now_ms = fetched(None, 200, body=BODY), NOW + DAY_MS
    for _ in range(40):
        assert gate(row, now_ms, FORBID) is Gate.FETCH
        row = fetched(row, 503, now_ms)
        assert gate(row, now_ms, FORBID) is Gate.OPEN and not allows(row, "/private/x")
        assert row.next_try_ms - now_ms <= DAY_MS
        now_ms = row.next_try_ms


def test_a_copy_that_allowed_everything_counts_as_well() -> None:
    row = fetched(fetched(None, 404), 503, NOW + DAY_MS)
    assert gate(row, NOW + DAY_MS, FORBID) is Gate.OPEN


def test_success_ends_a_row_of_failures() -> None:
    row = fetched(fetched(fetched(None, 503), 503), 200, body=BODY)
    assert row.attempts == 0 and gate(row, NOW, FORBID) is Gate.OPEN


def test_heritrix_way_allows_after_three_tries() -> None:
    """Heritrix 2.8: from the third attempt on no restrictions; a setting chooses."""
    row = None
    for tries in range(1, 4):
        row = fetched(row, -2, settings=ALLOW)
        assert (gate(row, NOW, ALLOW) is Gate.OPEN) == (tries == 3)
    assert row is not None and allows(row, "/private/x")


def test_heritrix_way_allows_after_fewer_tries_if_there_are_fewer() -> None:
    settings = RobotsSettings(allow_unreachable=True, max_attempts=2)
    row = fetched(fetched(None, 500, settings=settings), 500, settings=settings)
    assert gate(row, NOW, settings) is Gate.OPEN


statuses = st.sampled_from([200, 301, 404, 429, 503, -2, -7000])


@given(
    st.lists(st.tuples(statuses, st.integers(0, 2 * DAY_MS)), max_size=30), st.booleans(), st.integers(1, 8)
)
def test_a_gate_is_never_shut_for_ever(
    history: list[tuple[int, int]], allow_unreachable: bool, max_attempts: int
) -> None:
    """Waiting ends, failing ends, and a wait always has rules or a try at its end."""
    settings = RobotsSettings(allow_unreachable, max_attempts)
    row, now_ms = None, NOW
    for status, pause_ms in history:
        now_ms += pause_ms
        if gate(row, now_ms, settings) is Gate.FETCH:
            row = fetched(row, status, now_ms, settings, BODY)
        if row is None:
            continue
        match gate(row, now_ms, settings):
            case Gate.WAIT:
                assert now_ms < row.next_try_ms <= now_ms + DAY_MS
                assert row.outcome == Outcome.NONE.value and 0 < row.attempts < max_attempts
            case Gate.FAIL:
                assert now_ms < row.expire_ms <= now_ms + DAY_MS and not allow_unreachable
            case Gate.OPEN:
                assert row.outcome != Outcome.NONE.value
            case Gate.FETCH:
                assert now_ms >= row.expire_ms
