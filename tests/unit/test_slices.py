"""The slices that a batch is worked off in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.shell.exchange import size_of_slices


@given(st.integers(1, 10_000))
def test_slices_are_two_thirds_to_one_and_a_half_times_the_usual(count: int) -> None:
    size = size_of_slices(count, 250)
    assert size <= 375
    assert size >= min(count, 166)


@pytest.mark.parametrize(
    "count, slices", [(0, 0), (1, 1), (250, 1), (261, 1), (374, 1), (376, 2), (500, 2), (520, 2), (1_000, 4)]
)
def test_a_few_candidates_more_make_no_further_slice(count: int, slices: int) -> None:
    assert len(range(0, count, size_of_slices(count, 250))) == slices
