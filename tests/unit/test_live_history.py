"""The history of a crawl's rate: pages per second in equal spans, and the sparkline that shows them."""

import pytest

from toehold_client.watching.history import MOST_SPANS, SPAN_S, History, sparkline

BEGIN_S = 1_800_000_000.0


def test_a_history_begins_with_the_first_whole_span() -> None:
    history = History()
    assert history.rates() == ()
    for second in range(3, 31):
        history.record_total(BEGIN_S + second, pages=2 * second)
    assert history.rates() == pytest.approx((2.0, 2.0))


def test_looks_that_are_far_apart_share_their_pages_between_the_spans() -> None:
    history = History()
    history.record_total(BEGIN_S, 100)
    history.record_total(BEGIN_S + 3.5 * SPAN_S, 170)
    assert history.rates() == pytest.approx((2.0, 2.0, 2.0))


def test_only_the_last_minutes_are_kept() -> None:
    history = History()
    for span in range(100):
        history.record_total(BEGIN_S + span * SPAN_S, span * 50)
    assert history.rates() == pytest.approx((5.0,) * MOST_SPANS)


def test_a_crawl_that_stands_still_has_rates_of_0() -> None:
    history = History()
    history.record_total(BEGIN_S, 100)
    history.record_total(BEGIN_S + 2 * SPAN_S, 100)
    assert history.rates() == (0.0, 0.0)


def test_events_tell_of_the_time_before_the_first_look_and_no_page_counts_twice() -> None:
    history = History()
    history.record_interval(BEGIN_S + 2 * SPAN_S, 2 * SPAN_S, pages=60)
    history.record_total(BEGIN_S + 3 * SPAN_S, 90)
    history.record_interval(BEGIN_S + 4 * SPAN_S, 2 * SPAN_S, pages=60)  # half of it after that look
    history.record_total(BEGIN_S + 4 * SPAN_S, 120)
    assert history.rates() == pytest.approx((3.0, 3.0, 3.0, 3.0))


def test_an_event_without_a_length_tells_nothing() -> None:
    history = History()
    history.record_interval(BEGIN_S, 0.0, pages=60)
    history.record_total(BEGIN_S + 1, 60)
    assert history.rates() == ()


@pytest.mark.parametrize(
    ("rates", "drawn", "in_ascii"),
    [
        ((), "", ""),
        ((0.0, 0.0), "▁▁", "__"),
        ((0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), "▁▂▃▄▅▆▇█", "_.-:=+*#"),
        ((700.0, 350.0), "█▅", "#="),
    ],
)
def test_a_sparkline_is_as_high_as_its_highest_rate(
    rates: tuple[float, ...], drawn: str, in_ascii: str
) -> None:
    assert sparkline(rates, ascii_only=False) == drawn
    assert sparkline(rates, ascii_only=True) == in_ascii
