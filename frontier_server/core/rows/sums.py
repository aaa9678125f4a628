"""Sums of numbers that others report end at the largest int64.

A larger sum would fit neither a row nor the contract, so that every later operation on it would fail.
"""

MAX_SUM = (1 << 63) - 1


def added(total: int, more: int) -> int:
    """The sum of both, at most MAX_SUM."""
    return min(total + more, MAX_SUM)
