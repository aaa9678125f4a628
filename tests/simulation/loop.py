"""Simulated time: it goes from one event to the next, and nothing happens between them."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Loop:
    """Events in the order of their moments; those of one moment in the order in which they were planned."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.happened = 0
        self._serial = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, moment_ms: int, event: Callable[..., None], *arguments: Any) -> None:
        """Let something happen at a moment, or now if that has passed."""
        self._serial += 1
        heappush(self._heap, (max(moment_ms, self.now_ms), self._serial, event, arguments))

    def after(self, delay_ms: int, event: Callable[..., None], *arguments: Any) -> None:
        """Let something happen after a while."""
        self.at(self.now_ms + delay_ms, event, *arguments)

    def step(self) -> bool:
        """Let the next event happen; whether there was one."""
        if not self._heap:
            return False
        self.now_ms, _, event, arguments = heappop(self._heap)
        self.happened += 1
        event(*arguments)
        return True
