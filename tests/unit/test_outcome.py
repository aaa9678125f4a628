"""Retry-After, annotations, and what errors mean."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching.addresses import AddressRefused, Unresolvable
from crawler_node.fetching.answer_head import ProtocolError
from crawler_node.fetching.cancellation import Cancelled
from crawler_node.fetching.connection import (
    ConnectFailed,
    ConnectionLost,
    DeadlinePassed,
    Stalled,
    WireLimitReached,
)
from crawler_node.fetching.outcome import MAX_NOTE_CHARS, note, retry_after_ms, status_of

NOW_MS = 1_700_000_000_500


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        ("120", 120_000),
        (" 0 ", 0),
        ("9999999999", 9_999_999_999_000),
        (formatdate(1_700_000_060, usegmt=True), 59_500),
        (formatdate(1_600_000_000, usegmt=True), 0),
        ("Wed, 15 Nov 2023 01:13:20 +0300", 0),
        ("Wed, 15 Nov 2023 01:14:20 -0000", 10_859_500),
        (None, None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("99999999999", None),
        ("\u0661\u0662", None),
        ("Fri, 99 Xyz 2023", None),
        ("Fri, 31 Dec 9999 23:59:59 -9999", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, wait_ms: int | None) -> None:
    assert retry_after_ms(header, NOW_MS) == wait_ms


@given(st.text(max_size=80))
def test_no_retry_after_is_an_error(header: str) -> None:
    wait_ms = retry_after_ms(header, NOW_MS)
    assert wait_ms is None or wait_ms >= 0


@given(st.text())
def test_a_note_fits_the_crawl_log(text: str) -> None:
    made = note(text)
    assert len(made) <= MAX_NOTE_CHARS
    assert made.isascii()
    assert not set(made) & set(" ,\t\r\n")


def test_errors_mean_what_heritrix_means_by_its_codes() -> None:
    """Section 2.10."""
    meanings: dict[type[Exception], int]
    meanings = {Cancelled: -7000, Unresolvable: -1, ConnectFailed: -2, ConnectionLost: -3, DeadlinePassed: -4}
    meanings |= {Stalled: -4, KeyError: -5, AddressRefused: -7}
    meanings |= {ProtocolError: -10, WireLimitReached: -10}  # which are ours
    assert {error: int(status_of(error())) for error in meanings} == meanings
