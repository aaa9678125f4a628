"""What a fetch status means: Heritrix's table (2.10), and where it is meant to differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rules.disposition import (
    MEANINGS,
    NO_ANSWER,
    Decision,
    Disposition,
    decide,
    known_status,
    retry_rest_ms,
)
from frontier_server.core.spec.settings import DAY_MS, RetryRule, RetrySettings

D = Disposition
RETRY = RetrySettings()  # Heritrix's: 30 tries, 900 s apart

SUCCESSES = (100, 200, 204, 301, 304, 307, 401, 403, 404, 410, 500, 502, 504, 599)
FAILURES = (-4, -5, -6, -7, -8, -60, -61, -62, -63, -404, -3000, -4000, -5003, -5004, -7000)
DISREGARDED = (-4001, -4002, -5000, -5001, -5002, -6000, -9998)
RETRIED_AFTER_A_REST = (-1, -2)
CONNECT_LOST = -3
OURS = -10  # the one status below zero that Heritrix lacks
ALL_KNOWN = (*SUCCESSES, *FAILURES, *DISREGARDED, *RETRIED_AFTER_A_REST, CONNECT_LOST, OURS, -50, 429, 503)


@pytest.mark.parametrize("status", SUCCESSES)
def test_any_http_answer_that_is_not_tried_again_is_a_success(status: int) -> None:
    """Heritrix 2.10: any response, 404 and 5xx too. S1.17: 401 only with credentials, which we have not."""
    assert decide(status, 1, RETRY) == Decision(D.SUCCEEDED)


@pytest.mark.parametrize("status", FAILURES)
def test_failures_are_final_at_once(status: int) -> None:
    """Heritrix 2.10. S1.18: timeouts (-4) are not retried. S1.19: everything else false."""
    assert decide(status, 1, RETRY) == Decision(D.FAILED)


@pytest.mark.parametrize("status", DISREGARDED)
def test_what_should_not_have_been_fetched_is_disregarded(status: int) -> None:
    """S1.12, Heritrix 2.10."""
    assert decide(status, 1, RETRY) == Decision(D.DISREGARDED)


@pytest.mark.parametrize("status", RETRIED_AFTER_A_REST)
def test_no_address_and_no_connection_are_tried_again_after_a_rest(status: int) -> None:
    """S1.18, S1.20: 15 minutes."""
    assert decide(status, 1, RETRY) == Decision(D.DEFERRED, rest_ms=900_000)


def test_a_uri_whose_connection_is_lost_rests_alone_and_is_tried_again() -> None:
    """S1.18, S1.20: likewise, but its host was reached, so its queue goes on."""
    assert decide(CONNECT_LOST, 1, RETRY) == Decision(D.DEFERRED, rest_ms=900_000, steps_aside=True)


@pytest.mark.parametrize("status", [429, 503])
def test_an_overloaded_host_is_asked_again_after_its_own_rest(status: int) -> None:
    """A difference: in Heritrix these are successes (2.8). The host rests, so the queue need not."""
    assert decide(status, 1, RETRY) == Decision(D.DEFERRED, rest_ms=0)


@pytest.mark.parametrize("status", [*RETRIED_AFTER_A_REST, CONNECT_LOST, 429, 503])
def test_the_last_attempt_is_final(status: int) -> None:
    """S1.16: once over the maximum no more."""
    assert decide(status, 29, RETRY).disposition is D.DEFERRED
    rest_ms = RETRY.delay_ms if status == CONNECT_LOST else 0  # of its queue, if its host is silent
    assert decide(status, 30, RETRY) == Decision(D.FAILED, rest_ms, steps_aside=bool(rest_ms))
    assert decide(status, 1, RetrySettings(max_attempts=1)) == Decision(D.FAILED)


def test_an_answer_that_is_no_http_is_asked_for_once_more_while_its_queue_goes_on() -> None:
    """S1.18: Heritrix takes it for a lost connection, and tries it 30 times while its queue rests."""
    assert decide(-10, 1, RETRY) == Decision(D.DEFERRED, rest_ms=900_000, steps_aside=True)
    assert decide(-10, 2, RETRY) == Decision(D.FAILED)
    assert decide(-10, 1, RetrySettings(max_attempts=1)) == Decision(D.FAILED)
    own = RetrySettings(statuses=(RetryRule(-10, max_attempts=5, delay_ms=1_000),))
    assert decide(-10, 4, own) == Decision(D.DEFERRED, rest_ms=1_000, steps_aside=True)
    assert decide(-10, 5, own) == Decision(D.FAILED)


@pytest.mark.parametrize("attempt", [1, 30, 1_000])
def test_what_was_put_off_is_tried_at_once_and_is_free(attempt: int) -> None:
    """S1.6, S1.18, S1.20: -50 costs nothing, rests nothing, and is no attempt."""
    assert decide(-50, attempt, RETRY) == Decision(D.DEFERRED, rest_ms=0, counts=False)


@pytest.mark.parametrize("status", ALL_KNOWN)
def test_statuses_of_the_table_are_known(status: int) -> None:
    assert known_status(status)


@pytest.mark.parametrize(
    "status", [0, 1, 42, 99, 1000, 1001, 2001, 2002, -9, -64, -5005, -9999, 2**31, -(2**31)]
)
def test_other_statuses_are_not(status: int) -> None:
    """0 is no outcome (S1.19 needs a retire directive); dns and whois fetches are not ours."""
    assert not known_status(status)


@given(st.integers(-10_000, 700), st.integers(1, 100))
def test_every_known_status_has_one_meaning(status: int, attempt: int) -> None:
    decision = decide(status, attempt, RetrySettings(max_attempts=10))
    if known_status(status):
        assert decision.disposition in (D.SUCCEEDED, D.FAILED, D.DISREGARDED, D.DEFERRED)
        assert decision.rest_ms >= 0
        assert decision.counts or decision.disposition is D.DEFERRED


def test_a_rest_grows_with_each_try_if_it_is_asked_to() -> None:
    retry = RetrySettings(delay_ms=1_000, growth=2.0, max_delay_ms=5_000)
    assert [retry_rest_ms(attempt, retry) for attempt in range(1, 6)] == [1_000, 2_000, 4_000, 5_000, 5_000]


def test_without_growth_each_rest_is_as_long() -> None:
    """S1.20"""
    assert {retry_rest_ms(attempt, RETRY) for attempt in (1, 2, 29)} == {900_000}


@given(
    st.integers(1, 10_000),
    st.integers(0, DAY_MS),
    st.floats(1, 100),
    st.integers(0, 29 * DAY_MS),
)
def test_no_rest_is_longer_than_the_longest_or_shorter_than_the_one_before(
    attempt: int, delay_ms: int, growth: float, more_ms: int
) -> None:
    retry = RetrySettings(10_000, delay_ms, growth, delay_ms + more_ms)
    rest_ms = retry_rest_ms(attempt, retry)
    assert delay_ms <= rest_ms <= delay_ms + more_ms
    assert rest_ms <= retry_rest_ms(attempt + 1, retry)


def test_the_table_has_every_status_of_heritrix_below_zero() -> None:
    """Heritrix 2.10."""
    known = {status for status in ALL_KNOWN if status < 0}
    assert {status for status in MEANINGS if status < 0} == known


@pytest.mark.parametrize(
    ("status", "last", "alone"),
    [
        *[(status, D.FAILED, False) for status in (-1, -2, 429, 503)],  # they tell of the host
        *[(status, D.FAILED, True) for status in (-3, -4, -5, -10)],
        *[(status, D.SUCCEEDED, True) for status in (400, 404, 500, 502, 504, 599, 999)],
    ],
)
def test_a_status_may_have_a_rule_of_its_own(status: int, last: Disposition, alone: bool) -> None:
    """Delay, growth and tries by status; once its tries are used up it is what it would have been."""
    rule = RetryRule(status, max_attempts=3, delay_ms=1_000, growth=2.0, max_delay_ms=10_000)
    retry = RetrySettings(statuses=(RetryRule(598, max_attempts=9), rule))
    assert decide(status, 1, retry) == Decision(D.DEFERRED, rest_ms=1_000, steps_aside=alone)
    assert decide(status, 2, retry) == Decision(D.DEFERRED, rest_ms=2_000, steps_aside=alone)
    rest_ms = 4_000 if status in NO_ANSWER else 0
    assert decide(status, 3, retry) == Decision(last, rest_ms, steps_aside=bool(rest_ms))


def test_statuses_without_a_rule_keep_the_common_one() -> None:
    retry = RetrySettings(statuses=(RetryRule(-1, max_attempts=2, delay_ms=1_000),))
    assert decide(-2, 3, retry) == Decision(D.DEFERRED, rest_ms=900_000)
