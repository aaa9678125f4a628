"""How fast this machine's Python is just now: the yardstick beside every figure.

Machines differ, and one machine differs from minute to minute. A figure divided by what a fixed loop takes in
the same minute can be compared with another day's.
"""

import time

REFERENCE_MS = 70.0
"""What the loop takes on the machine that limits are stated for."""

STEPS = 1_000_000
RUNS = 3


def loop_ms() -> float:
    """CPU time of one million steps of plain integer arithmetic; the best of a few runs.

    CPU time, not time on the clock: what else the machine does must not make a limit look wider.
    """
    return min(_run() for _ in range(RUNS))


def _run() -> float:
    v = 1
    start_ns = time.process_time_ns()
    for _ in range(STEPS):
        v = (v * 1103515245 + 12345) & 0x7FFFFFFF
    return (time.process_time_ns() - start_ns) / 1e6
