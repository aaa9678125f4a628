"""Which URI goes first in its queue, and which queue is activated first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rules.precedence import (
    QUEUE_POLICIES,
    URI_POLICIES,
    queue_precedence,
)
from frontier_server.core.spec.settings import QueueSettings


@pytest.mark.parametrize(
    ("policy", "cost", "path", "precedence"),
    [
        ("cost", 0, "LL", 0),
        ("cost", 3, "LL", 3),
        ("cost", 128, "", 127),
        ("base", 3, "LL", 1),
        ("hops", 3, "", 1),
        ("hops", 3, "LELRX", 3),
        ("hops", 3, "L" * 2_000, 127),
    ],
)
def test_a_uri_s_precedence_is_what_its_policy_says(
    policy: str, cost: int, path: str, precedence: int
) -> None:
    """Heritrix 2.6."""
    assert URI_POLICIES[policy](cost, path) == precedence


@pytest.mark.parametrize(
    ("policy", "lowest_uri", "successes", "precedence"),
    [
        ("base", 2, 5_000, 3),
        ("highest-uri", None, 0, 3),
        ("highest-uri", 0, 0, 3),
        ("highest-uri", 4, 5_000, 7),
        ("success-counts", 4, 0, 3),
        ("success-counts", 4, 99, 3),
        ("success-counts", 4, 100, 4),
        ("success-counts", 4, 1_099, 4),
        ("success-counts", 4, 1_100, 5),
        ("success-counts", 4, 2_099, 5),
        ("success-counts", 4, 2_100, 6),
        ("success-counts", 4, 10**18, 255),
    ],
)
def test_a_queue_s_precedence_is_what_its_policy_says(
    policy: str, lowest_uri: int | None, successes: int, precedence: int
) -> None:
    """Heritrix 2.6: base 3, tiers of 100 and then 1000 successes."""
    settings = QueueSettings(queue_precedence=policy)
    assert queue_precedence(settings, lowest_uri, successes) == precedence


def test_the_tiers_of_successes_are_a_setting() -> None:
    settings = QueueSettings(
        queue_precedence="success-counts", base_precedence=0, success_thresholds=(1, 10, 2)
    )
    counts = [queue_precedence(settings, None, successes) for successes in (0, 1, 10, 11, 12, 13, 14, 15)]
    assert counts == [0, 1, 1, 2, 2, 3, 3, 4]
    none = QueueSettings(queue_precedence="success-counts", success_thresholds=())
    assert queue_precedence(none, None, 1_000_000) == 3


@given(
    st.sampled_from(sorted(QUEUE_POLICIES)),
    st.integers(0, 255),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.none() | st.integers(0, 127),
    st.integers(0, 1 << 62),
)
def test_a_precedence_fits_where_it_is_stored(
    policy: str, base: int, tiers: list[int], lowest_uri: int | None, successes: int
) -> None:
    settings = QueueSettings(queue_precedence=policy, base_precedence=base, success_thresholds=tuple(tiers))
    precedence = queue_precedence(settings, lowest_uri, successes)
    assert base <= precedence <= 255
    if policy == "success-counts":
        # With its tiers spent one by one, as Heritrix counts.
        steps, left = 0, min(successes, 2_000)
        while steps < 1_000 and left >= (tier := tiers[min(steps, len(tiers) - 1)]):
            left, steps = left - tier, steps + 1
        assert queue_precedence(settings, None, min(successes, 2_000)) == min(base + steps, 255)


@given(st.sampled_from(sorted(URI_POLICIES)), st.integers(0, 1 << 62), st.text("LERXMPIS", max_size=200))
def test_a_uri_s_precedence_fits_into_its_key(policy: str, cost: int, path: str) -> None:
    assert 0 <= URI_POLICIES[policy](cost, path) <= 127
