"""The limit of bytes a second, by a clock of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching.throttle import MAX_PIECE_BYTES, PIECES_PER_SECOND, Throttle


def test_bytes_are_waited_for_at_the_rate() -> None:
    throttle = Throttle(1000)
    assert throttle.charge(500, 10.0) == pytest.approx(0.5)
    assert throttle.charge(1000, 10.5) == pytest.approx(1.0)
    assert throttle.charge(0, 11.5) == pytest.approx(0.0)


def test_who_does_not_wait_owes_the_more() -> None:
    throttle = Throttle(1000)
    assert [throttle.charge(100, 5.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])


def test_a_rest_saves_nothing_up() -> None:
    throttle = Throttle(1000)
    throttle.charge(100, 0.0)
    assert throttle.charge(1000, 3600.0) == pytest.approx(1.0)


@given(
    rate=st.integers(1, 1 << 40),
    reads=st.lists(st.tuples(st.integers(0, 1 << 20), st.floats(0, 10)), min_size=1, max_size=50),
)
def test_who_waits_as_told_never_reads_faster_than_the_limit(
    rate: int, reads: list[tuple[int, float]]
) -> None:
    throttle = Throttle(rate)
    now_s, total = 0.0, 0
    for byte_count, pause_s in reads:
        now_s += throttle.charge(byte_count, now_s)
        total += byte_count
        assert total <= rate * now_s * 1.0001 + 1
        now_s += pause_s


def test_many_who_read_equal_pieces_get_equal_shares() -> None:
    throttle, threads = Throttle(1000), 5
    wake_s = dict.fromkeys(range(threads), 0.0)
    shares = dict.fromkeys(range(threads), 0)
    for _ in range(500):
        who = min(wake_s, key=lambda each: wake_s[each])
        wake_s[who] += throttle.charge(throttle.piece_bytes, wake_s[who])
        shares[who] += throttle.piece_bytes
    assert max(shares.values()) - min(shares.values()) <= throttle.piece_bytes
    assert sum(shares.values()) / max(wake_s.values()) == pytest.approx(1000, rel=0.05)


@pytest.mark.parametrize(
    ("rate", "piece"), [(1, 1), (100, 100 // PIECES_PER_SECOND), (1 << 40, MAX_PIECE_BYTES)]
)
def test_pieces_are_small_enough_to_flow(rate: int, piece: int) -> None:
    assert Throttle(rate).piece_bytes == piece


@pytest.mark.parametrize("rate", [0, -1])
def test_a_limit_of_nothing_is_refused(rate: int) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        Throttle(rate)
