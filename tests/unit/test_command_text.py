"""Rough times as text for people."""

import pytest

from toehold_client.text import remaining_text, rough_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1 s"),
        (89, "89 s"),
        (90, "2 min"),
        (5_399, "90 min"),
        (5_400, "2 h"),
        (129_599, "36 h"),
        (129_600, "2 days"),
    ],
)
def test_a_rough_time_has_one_unit(seconds: float, text: str) -> None:
    assert rough_text(seconds) == text


@pytest.mark.parametrize(
    ("least_s", "most_s", "text"),
    [
        (30, 31, "30 to 31 s left"),
        (600, 610, "about 10 min left"),
        (3_600, 10_800, "1 to 3 h left"),
        (2_400, 7_200, "40 min to 2 h left"),
        (20, 86_400 * 3, "20 s to 3 days left"),
        (50, 40, "about 50 s left"),
    ],
)
def test_a_time_left_is_a_range_of_one_unit_where_that_is_possible(
    least_s: float, most_s: float, text: str
) -> None:
    assert remaining_text(least_s, most_s) == text
