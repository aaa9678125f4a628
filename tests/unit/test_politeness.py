"""How long a host rests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rules.politeness import (
    USUAL_STRAIN,
    is_silent,
    overload_rest_ms,
    overloads_after,
    rest_after,
    strain_after,
    unanswered_after,
)
from frontier_server.core.spec.settings import DAY_MS, PolitenessSettings

HERITRIX = PolitenessSettings()  # 5 times the duration, 3 to 30 s, Crawl-delay up to 300 s

politenesses = st.builds(
    lambda factor, least, more, crawl, overload, longer: PolitenessSettings(
        factor, least, least + more, crawl, overload, overload + longer
    ),
    st.floats(0, 1_000),
    st.integers(0, DAY_MS // 2),
    st.integers(0, DAY_MS // 2),
    st.integers(0, DAY_MS),
    st.integers(0, DAY_MS // 2),
    st.integers(0, DAY_MS // 2),
)


@pytest.mark.parametrize(
    ("duration_ms", "crawl_delay_ms", "rest"),
    [
        (0, 0, 3_000),
        (600, 0, 3_000),
        (601, 0, 3_005),
        (2_000, 0, 10_000),
        (6_000, 0, 30_000),
        (DAY_MS, 0, 30_000),
        (0, 2_000, 3_000),  # a shorter Crawl-delay changes nothing
        (2_000, 12_000, 12_000),
        (0, 300_000, 300_000),
        (0, 300_001, 300_000),
        (0, 999_999_999_000, 300_000),
    ],
)
def test_the_rest_after_a_fetch(duration_ms: int, crawl_delay_ms: int, rest: int) -> None:
    """Heritrix 2.8: the factor, clamped; or the Crawl-delay, capped, if it is longer."""
    assert rest_after(duration_ms, crawl_delay_ms, HERITRIX).ms == rest


def test_a_crawl_delay_can_be_ignored() -> None:
    assert rest_after(0, 60_000, PolitenessSettings(max_crawl_delay_ms=0)).ms == 3_000


@given(st.integers(0, DAY_MS), st.integers(0, 10**15), politenesses)
def test_a_rest_is_within_its_bounds(
    duration_ms: int, crawl_delay_ms: int, politeness: PolitenessSettings
) -> None:
    rest = rest_after(duration_ms, crawl_delay_ms, politeness).ms
    respected_ms = min(crawl_delay_ms, politeness.max_crawl_delay_ms)
    assert max(politeness.min_delay_ms, respected_ms) <= rest
    assert rest <= max(politeness.max_delay_ms, respected_ms)
    assert rest <= rest_after(duration_ms + 1_000, crawl_delay_ms, politeness).ms


@pytest.mark.parametrize(
    ("status", "before", "after"),
    [(503, 0, 1), (429, 1, 2), (503, 7, 8), (200, 3, 0), (404, 3, 0), (500, 3, 0), (-4, 3, 3), (-7000, 3, 3)],
)
def test_an_answer_of_another_kind_ends_the_overload(status: int, before: int, after: int) -> None:
    """What is no HTTP answer says nothing."""
    assert overloads_after(status, before) == after


@pytest.mark.parametrize(
    ("overloads", "retry_after_ms", "rest"),
    [
        (1, 0, 30_000),
        (2, 0, 60_000),
        (3, 0, 120_000),
        (8, 0, 3_600_000),
        (1_000_000, 0, 3_600_000),
        (1, 10_000, 30_000),
        (1, 45_000, 45_000),
        (3, 45_000, 120_000),
        (1, 86_400_000, 3_600_000),
        (1, 10**30, 3_600_000),
    ],
)
def test_an_overloaded_host_rests_longer_each_time(overloads: int, retry_after_ms: int, rest: int) -> None:
    """A longer Retry-After wins; both have an end."""
    assert overload_rest_ms(overloads, retry_after_ms, HERITRIX) == rest


@given(st.integers(1, 100), st.integers(0, 10**12), politenesses)
def test_an_overloaded_hosts_rest_is_within_its_bounds(
    overloads: int, retry_after_ms: int, politeness: PolitenessSettings
) -> None:
    rest = overload_rest_ms(overloads, retry_after_ms, politeness)
    assert politeness.overload_delay_ms <= rest <= politeness.max_overload_delay_ms
    assert rest >= min(retry_after_ms, politeness.max_overload_delay_ms)


# Adaptive rests.

ADAPTIVE = PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=30_000, adaptive=True)


@pytest.mark.parametrize("status", [-2, -3, -4, 429, 500, 503, 999])
def test_a_host_that_struggles_is_strained_twice_as_much(status: int) -> None:
    assert strain_after(USUAL_STRAIN, 100, status, 100) == (2 * USUAL_STRAIN, 100)


@pytest.mark.parametrize("status", [-1, -5, -7, -50, -61, -7000, -9998])
def test_a_fetch_that_says_nothing_of_the_host_changes_nothing(status: int) -> None:
    assert strain_after(250, 100, status, 10_000) == (250, 100)


def test_an_answer_that_takes_much_longer_than_usual_strains() -> None:
    assert strain_after(USUAL_STRAIN, 100, 200, 401)[0] == 2 * USUAL_STRAIN
    assert strain_after(USUAL_STRAIN, 100, 200, 400)[0] == USUAL_STRAIN
    assert strain_after(USUAL_STRAIN, 0, 200, 60_000) == (USUAL_STRAIN, 60_000), (
        "the first one is the usual one"
    )


def test_a_rest_grows_to_its_bound_and_is_as_usual_again_after_good_answers() -> None:
    strain, usual_ms, rests = USUAL_STRAIN, 0, []
    for status in (200, *[500] * 8, *[200] * 25):
        strain, usual_ms = strain_after(strain, usual_ms, status, 100)
        rests.append(rest_after(100, 0, ADAPTIVE, strain).ms)
    assert rests[:7] == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    assert rests[-1] == 1_000 and max(rests) == ADAPTIVE.max_delay_ms


def test_only_an_adaptive_rest_follows_the_strain() -> None:
    assert rest_after(0, 0, HERITRIX, 800).ms == rest_after(0, 0, HERITRIX).ms
    assert rest_after(0, 0, PolitenessSettings(0, 0, 30_000, adaptive=True), 200).ms == 500


@pytest.mark.parametrize(
    ("duration_ms", "crawl_delay_ms", "strain", "setting"),
    [
        (0, 0, 100, "min_delay_seconds = 3"),
        (2_000, 0, 100, "delay_factor = 5"),
        (60_000, 0, 100, "max_delay_seconds = 30"),
        (0, 10_000, 100, "Crawl-delay = 10"),
        (0, 0, 400, "adaptive, 4.0 times the usual rest"),
    ],
)
def test_a_rest_names_the_setting_that_decides(
    duration_ms: int, crawl_delay_ms: int, strain: int, setting: str
) -> None:
    politeness = PolitenessSettings(adaptive=True)
    assert rest_after(duration_ms, crawl_delay_ms, politeness, strain).setting == setting


def unanswered(*fetches: tuple[int, str]) -> bytes:
    """What a host has left without an answer after some fetches, each a status and a URI of one letter."""
    found = b""
    for status, uri in fetches:
        found = unanswered_after(status, found, uri)
    return found


@pytest.mark.parametrize(
    ("fetches", "silent"),
    [
        ([(-3, "a"), (-3, "b")], False),
        ([(-3, "a"), (-3, "b"), (-3, "c")], True),
        ([(-3, "a"), (-4, "b"), (-3, "c")], True),  # a time-out is no answer, either
        ([(-3, "a"), (-3, "b"), (-3, "a"), (-3, "b"), (-3, "a")], False),  # two URIs only
        ([(-3, "a"), (-3, "b"), (200, "x"), (-3, "c")], False),
        ([(-3, "a"), (-3, "b"), (500, "x"), (-3, "c")], False),  # any answer is one
        ([(-3, "a"), (-3, "b"), (-10, "x"), (-3, "c")], False),  # also one that is not HTTP
        ([(-3, "a"), (-3, "b"), (-1, "x"), (-2, "x"), (-7000, "x"), (-3, "c")], True),  # these tell nothing
        ([(-3, "a"), (-3, "b"), (-3, "c"), (-3, "d"), (-3, "e")], True),
        ([(-3, "a"), (-3, "b"), (-3, "c"), (-3, "d"), (304, "a")], False),
    ],
)
def test_a_host_is_silent_after_three_different_uris_in_a_row_without_an_answer(
    fetches: list[tuple[int, str]], silent: bool
) -> None:
    assert is_silent(unanswered(*fetches)) == silent


def test_the_count_of_unanswered_uris_keeps_the_last_three() -> None:
    assert len(unanswered(*[(-3, chr(65 + number)) for number in range(50)])) == 24
