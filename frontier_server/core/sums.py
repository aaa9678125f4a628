"""Sums of what others say: they end at the largest number that a row and the contract's int64 both hold.

A sum that went on beyond it could neither be stored nor told, and every operation that
touches it would fail from then on.
"""

MAX_SUM = (1 << 63) - 1


def added(total: int, more: int) -> int:
    """A sum and what comes to it, or the largest number that there is room for."""
    return min(total + more, MAX_SUM)
