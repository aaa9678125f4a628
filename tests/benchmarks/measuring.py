"""Rounds of work, what they cost each process, and the calibration loop between them."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.calibration import REFERENCE_MS, loop_ms

SERVER, CLIENT = "server", "client"


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that may not be more than that."""

    words: str
    value: float
    most: float

    @property
    def met(self) -> bool:
        """Whether it is not."""
        return self.value <= self.most


@dataclass(frozen=True, slots=True)
class Figure:
    """What one kind of work costs."""

    name: str
    items: int
    per_s: float
    cpu_us: Mapping[str, float]
    """CPU time of an item, by process."""
    loop_ms: float
    """What the calibration loop took meanwhile."""
    wait_ms: Mapping[str, float] = field(default_factory=dict)
    """How long answers took: p50, p99 and max."""
    mib: Mapping[str, float] = field(default_factory=dict)
    """Memory."""
    limit: Limit | None = None

    def scaled_us(self, process: str) -> float:
        """CPU time of an item where the loop takes `REFERENCE_MS`."""
        return self.cpu_us[process] * REFERENCE_MS / self.loop_ms


def measure(
    name: str,
    server_cpu_s: Callable[[], float],
    rounds: Sequence[Callable[[], int]],
    waits_s: list[float] | None = None,
) -> Figure:
    """Run rounds, each of which says how many items it was; the median round's figures.

    The loop runs before, between and after the rounds, while nothing else of ours does; its best run counts.
    `waits_s` is where the rounds note how long answers took.
    """
    loops_ms = [loop_ms()]
    items: list[int] = []
    rates: list[float] = []
    server_us: list[float] = []
    client_us: list[float] = []
    for work in rounds:
        server_s, client_s, start_s = server_cpu_s(), time.process_time(), time.perf_counter()
        count = work()
        rates.append(count / (time.perf_counter() - start_s))
        client_us.append((time.process_time() - client_s) / count * 1e6)
        server_us.append((server_cpu_s() - server_s) / count * 1e6)
        items.append(count)
        loops_ms.append(loop_ms())
    cpu_us = {SERVER: statistics.median(server_us), CLIENT: statistics.median(client_us)}
    return Figure(name, sum(items), statistics.median(rates), cpu_us, min(loops_ms), waits_ms(waits_s or []))


def waits_ms(waits_s: Sequence[float]) -> dict[str, float]:
    """p50, p99 and max of waits; empty if there were none."""
    if not waits_s:
        return {}
    ordered = sorted(waits_s)
    return {
        "p50": ordered[len(ordered) // 2] * 1e3,
        "p99": ordered[len(ordered) * 99 // 100] * 1e3,
        "max": ordered[-1] * 1e3,
    }
