"""The state of one robots.txt: what it lets us do, and what each end of a fetch makes of it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.robotstxt.authority import (
    KEPT_TRIES,
    Gate,
    Outcome,
    RobotsReport,
    Standing,
    after_fetch,
    as_seen,
    standing,
)
from frontier_server.core.robotstxt.robots import Rules
from frontier_server.core.rows.records import RobotsRow, decode, encode
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
    body: bytes = b"",
) -> RobotsRow:
    """The row after a fetch."""
    return after_fetch(row, RobotsReport(status, body), now_ms, "toehold")


def gate(row: RobotsRow | None, now_ms: int, settings: RobotsSettings = FORBID) -> Gate:
    """What a crawl may do."""
    return standing(row, now_ms, settings).gate


def failing(
    times: int, settings: RobotsSettings = FORBID, row: RobotsRow | None = None, now_ms: int = NOW
) -> tuple[RobotsRow, int]:
    """The row after so many tries in vain, each when it is due; and when the last one was."""
    for tried in range(times):
        if tried:
            now_ms = max(now_ms, standing(row, now_ms, settings).next_try_ms)
        row = fetched(row, 503, now_ms)
    assert row is not None
    return row, now_ms


def allows(row: RobotsRow, target: str) -> bool:
    """What the row's rules say."""
    return Rules(row.rules).allows(target)


def test_an_authority_that_nobody_knows_is_asked_first() -> None:
    """Heritrix 2.11: the robots.txt comes before its pages."""
    assert gate(None, NOW) is Gate.FETCH


@pytest.mark.parametrize("status", [200, 204, 206, 299])
def test_rules_are_obeyed_for_a_day(status: int) -> None:
    """RFC 9309, 2.4: no longer than 24 hours. Heritrix 2.2: robotsValidityDurationSeconds."""
    row = fetched(None, status, body=BODY)
    assert row.outcome == Outcome.RULES.value
    assert not allows(row, "/private/x") and allows(row, "/")
    assert gate(row, NOW + DAY_MS - 1) is Gate.OPEN
    assert gate(row, NOW + DAY_MS) is Gate.FETCH


@pytest.mark.parametrize("status", [300, 301, 304, 400, 401, 403, 404, 410, 451, 499, -404])
def test_an_unavailable_robots_txt_allows_everything(status: int) -> None:
    """RFC 9309, 2.3.1.3; and redirects beyond the fifth, 2.3.1.2. What was known before does not count."""
    row = fetched(fetched(None, 200, body=BODY), status, NOW + DAY_MS)
    assert row.outcome == Outcome.ALLOW_ALL.value and allows(row, "/private/x")
    assert gate(row, NOW + DAY_MS) is Gate.OPEN


@pytest.mark.parametrize("status", UNREACHABLE)
def test_an_unreachable_robots_txt_forbids_until_a_later_try(status: int) -> None:
    """RFC 9309, 2.3.1.4. A difference: in Heritrix 5xx allows at once (2.8)."""
    row = fetched(None, status)
    assert row.outcome == Outcome.NONE.value and row.attempts == 1
    assert gate(row, NOW) is Gate.WAIT
    assert gate(row, NOW + 29_999) is Gate.WAIT
    assert gate(row, NOW + 30_000) is Gate.FETCH


def test_each_further_try_waits_twice_as_long() -> None:
    row, now_ms, waits = fetched(None, 503), NOW, []
    for _ in range(4):
        due_ms = standing(row, now_ms, FORBID).next_try_ms
        waits.append(due_ms - now_ms)
        row, now_ms = fetched(row, 503, due_ms), due_ms
    assert waits == [30_000, 60_000, 120_000, 240_000]


def test_after_the_last_try_its_uris_fail_for_a_while_so_that_a_crawl_ends() -> None:
    """D23: Heritrix holds a queue for 30 tries of 900 s."""
    row, last_ms = failing(5)
    assert last_ms == NOW + 450_000
    assert gate(row, last_ms) is Gate.FAIL
    assert gate(row, last_ms + DAY_MS - 1) is Gate.FAIL
    assert gate(row, last_ms + DAY_MS) is Gate.FETCH


def test_after_giving_up_the_tries_begin_anew() -> None:
    row, last_ms = failing(5)
    assert standing(row, last_ms + DAY_MS, FORBID) == Standing(Gate.FETCH)
    row = fetched(row, -2, last_ms + DAY_MS)
    again = standing(row, last_ms + DAY_MS, FORBID)
    assert again == Standing(Gate.WAIT, 1, last_ms + DAY_MS + 30_000)


def test_one_try_may_be_all() -> None:
    assert gate(fetched(None, 500), NOW, RobotsSettings(max_attempts=1)) is Gate.FAIL


def test_what_was_seen_is_judged_by_the_settings_of_each_who_asks() -> None:
    """One row, and as many meanings as crawls have settings."""
    row, last_ms = failing(3)
    meant = {
        settings: gate(row, last_ms, settings)
        for settings in (
            FORBID,
            RobotsSettings(max_attempts=3),
            RobotsSettings(max_attempts=1),
            ALLOW,
            RobotsSettings(retry_delay_ms=0),
        )
    }
    assert list(meant.values()) == [Gate.WAIT, Gate.FAIL, Gate.FAIL, Gate.OPEN, Gate.FETCH]


def test_a_try_that_comes_before_a_crawl_would_have_made_it_is_none_of_its_own() -> None:
    row = None
    for second in range(100):
        row = fetched(row, 503, NOW + 1_000 * second)
    # The crawl would have made those after 0, 30 and 90 seconds itself.
    assert standing(row, NOW + 99_000, FORBID) == Standing(Gate.WAIT, 3, NOW + 90_000 + 120_000)


@pytest.mark.parametrize(("max_attempts", "delay_ms"), [(1, 0), (5, 0), (5, 1), (1_000, 0)])
def test_however_long_a_robots_txt_cannot_be_had_a_crawl_gives_up_after_its_tries(
    max_attempts: int, delay_ms: int
) -> None:
    """The times of the oldest tries are forgotten; the count of nobody starts anew with each."""
    settings = RobotsSettings(max_attempts=max_attempts, retry_delay_ms=delay_ms, validity_ms=1_000)
    row, now_ms, in_a_row = None, NOW, 0
    for _ in range(2 * KEPT_TRIES + 50):
        row = fetched(row, -2, now_ms)
        assert len(row.tries_ms) <= 2 * KEPT_TRIES
        its, in_a_row = standing(row, now_ms, settings), in_a_row + 1
        if its.gate is Gate.FAIL:
            now_ms, in_a_row = now_ms + settings.validity_ms, 0
        else:
            assert in_a_row < 2 * max_attempts
            now_ms = max(now_ms, its.next_try_ms)


@pytest.mark.parametrize("status", UNREACHABLE)
def test_the_last_good_copy_counts_while_a_refetch_fails(status: int) -> None:
    """RFC 9309, 2.3.1.4 and 2.4."""
    good = fetched(None, 200, body=BODY)
    later = NOW + DAY_MS
    row = fetched(good, status, later)
    assert gate(row, later) is Gate.OPEN and not allows(row, "/private/x")
    assert gate(row, later + 29_999) is Gate.OPEN
    assert gate(row, later + 30_000) is Gate.FETCH


def test_the_last_good_copy_counts_however_often_a_refetch_fails() -> None:
    row, now_ms = fetched(None, 200, body=BODY), NOW + DAY_MS
    for _ in range(40):
        assert gate(row, now_ms) is Gate.FETCH
        row = fetched(row, 503, now_ms)
        assert gate(row, now_ms) is Gate.OPEN and not allows(row, "/private/x")
        due_ms = standing(row, now_ms, FORBID).next_try_ms
        assert now_ms < due_ms <= now_ms + DAY_MS
        now_ms = due_ms


def test_a_copy_that_allowed_everything_counts_as_well() -> None:
    row = fetched(fetched(None, 404), 503, NOW + DAY_MS)
    assert gate(row, NOW + DAY_MS) is Gate.OPEN


def test_success_ends_a_row_of_failures() -> None:
    row = fetched(fetched(fetched(None, 503), 503), 200, body=BODY)
    assert row.attempts == 0 and gate(row, NOW) is Gate.OPEN


def test_heritrix_way_allows_after_three_tries() -> None:
    """Heritrix 2.8: from the third attempt on no restrictions; a setting chooses."""
    for tries in range(1, 4):
        row, last_ms = failing(tries, ALLOW)
        assert (gate(row, last_ms, ALLOW) is Gate.OPEN) == (tries == 3)
        assert gate(row, last_ms) is Gate.WAIT
    assert allows(row, "/private/x")
    assert gate(row, last_ms + DAY_MS, ALLOW) is Gate.FETCH


def test_heritrix_way_still_allows_while_asking_again_fails() -> None:
    row, last_ms = failing(3, ALLOW)
    later = last_ms + DAY_MS
    row = fetched(row, 503, later)
    assert gate(row, later, ALLOW) is Gate.OPEN
    assert gate(row, later + 30_000, ALLOW) is Gate.FETCH


def test_heritrix_way_allows_after_fewer_tries_if_there_are_fewer() -> None:
    settings = RobotsSettings(allow_unreachable=True, max_attempts=2)
    row, last_ms = failing(2, settings)
    assert gate(row, last_ms, settings) is Gate.OPEN


def test_heritrix_way_does_not_outweigh_a_copy() -> None:
    """RFC 9309, 2.4: a cached copy may be used while the file is unreachable."""
    row, last_ms = failing(9, ALLOW, fetched(None, 200, body=BODY), NOW + DAY_MS)
    assert gate(row, last_ms, ALLOW) is Gate.OPEN and not allows(row, "/private/x")


# Rows of older servers, which stored what the last crawl made of it.

OLD_RULES = RobotsRow("rules", "disallow:/private/", NOW, NOW + DAY_MS, fetch_status=200)
OLD_MISSING = RobotsRow("allow-all", "", NOW, NOW + DAY_MS, fetch_status=404)
OLD_LENIENCY = RobotsRow("allow-all", "", NOW, NOW + DAY_MS, fetch_status=503)
OLD_GIVEN_UP = RobotsRow("none", "", NOW, NOW + DAY_MS, fetch_status=-2)
OLD_TRIES = RobotsRow("none", "", NOW, 0, 4, NOW + 240_000, 503)
OLD_COPY = RobotsRow("rules", "disallow:/private/", NOW, 0, 2, NOW + 60_000, 503)
OLD_PUT_OFF = RobotsRow("none", token_crawl=1, token_serial=7, token_disposition="DEFERRED")


@pytest.mark.parametrize(
    ("row", "meant"),
    [
        (OLD_RULES, Standing(Gate.OPEN)),
        (OLD_MISSING, Standing(Gate.OPEN)),
        (OLD_LENIENCY, Standing(Gate.WAIT, 1, NOW + 30_000)),
        (OLD_GIVEN_UP, Standing(Gate.WAIT, 1, NOW + 30_000)),
        (OLD_TRIES, Standing(Gate.WAIT, 4, NOW + 240_000)),
        (OLD_COPY, Standing(Gate.OPEN, 2, NOW + 60_000)),
        (OLD_PUT_OFF, Standing(Gate.FETCH)),
    ],
    ids=["rules", "404", "leniency", "given up", "tries", "copy", "put off"],
)
def test_a_row_of_an_older_server_is_read_as_what_was_seen(row: RobotsRow, meant: Standing) -> None:
    """Its judgement was one crawl's: leniency counts for no other, nor does impatience."""
    stored = b"\x01" + msgspec.msgpack.encode(
        [getattr(row, name) for name in RobotsRow.__struct_fields__[:10]]
    )
    read = as_seen(decode(RobotsRow, stored))
    assert standing(read, NOW + 1, FORBID) == meant
    assert as_seen(decode(RobotsRow, encode(read))) == read


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
            row = fetched(row, status, now_ms, BODY)
        if row is None:
            continue
        its = standing(row, now_ms, settings)
        answered = row.outcome != Outcome.NONE.value
        match its.gate:
            case Gate.WAIT:
                assert now_ms < its.next_try_ms <= now_ms + DAY_MS
                assert not answered and 0 < its.tries < max_attempts
            case Gate.FAIL:
                assert not answered and not allow_unreachable
                assert gate(row, now_ms + DAY_MS, settings) is Gate.FETCH
            case Gate.OPEN:
                assert answered or allow_unreachable
            case Gate.FETCH:
                assert now_ms >= row.answer_ms + settings.validity_ms
