"""Numbers, times and codes as people read them."""

import pytest

from toehold_client.text import bytes_text, count_text, duration_text, fetch_status_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (10**15, "1.0 PB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (185, "3 min 05 s"), (7_380, "2 h 03 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_counts_have_blanks_between_thousands() -> None:
    assert (count_text(999), count_text(1_234_567)) == ("999", "1 234 567")


@pytest.mark.parametrize(
    ("code", "text"),
    [(404, "404"), ("-2", "-2 connect failed"), (-9998, "-9998 robots precluded"), (-12, "-12")],
)
def test_fetch_statuses_below_zero_have_a_name_if_the_contract_gives_one(code: int | str, text: str) -> None:
    assert fetch_status_text(code) == text
