"""Waiting for what other threads and processes do: a condition and a deadline, never a fixed time."""

import time
from collections.abc import Callable

DEADLINE_S = 15.0


def eventually(holds: Callable[[], object], what: str = "") -> None:
    """Returns as soon as it holds; fails when it does not within the deadline."""
    until_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < until_s, what or "what was waited for did not happen"
        time.sleep(0.002)
