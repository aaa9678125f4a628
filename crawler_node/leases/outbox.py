"""Outbox: the finished pages whose links, or whose report, wait for a shard of the frontier that is away."""

import time
from collections import deque
from collections.abc import Callable, Iterable

from .report import FinishedPage

MAX_PAGES = 2_000
MAX_BYTES = 64 * 1024 * 1024
"""With so many pages, or about so many bytes of links, the outbox is full. The batch that fills it is kept
whole."""

HALF_LIFE_PERIODS = 5
"""A lease lives for ten periods, or for twice the time of a fetch if that is longer."""

REST_S = 0.5
"""How long pages rest when the shards that they wait for are still away."""

MAX_TRIED_PAGES = 100
MAX_TRIED_BYTES = 256 * 1024
"""So many pages are tried at a time. While shards are away all tries are in vain, and must not take the time
of pages that can be reported. When they are back, the next pages are tried at once."""


def longest_wait_s(page: FinishedPage, period_s: float) -> float:
    """How long the links of a page may wait. Half of what a lease can live, as the fetch has had the other
    half: a lease that lapses counts as a failure, and a URI has few of these."""
    timeout_ms = 0 if page.held.policy is None else page.held.policy.timeout_ms
    return max(timeout_ms / 1000, HALF_LIFE_PERIODS * period_s)


class Outbox:
    """Pages in the order in which they are tried again. A page keeps only the links that wait. It belongs to
    one reporter, whose lock guards it."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._pages: deque[tuple[FinishedPage, int]] = deque()  # with its size
        self._bytes = 0
        self._due_s = 0.0
        self._tried_count = 0

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def is_full(self) -> bool:
        """Whether the reporter should send nothing new."""
        return len(self._pages) >= MAX_PAGES or self._bytes >= MAX_BYTES

    @property
    def rest_s(self) -> float | None:
        """How long its pages rest; None if it has none."""
        return max(0.0, self._due_s - self._clock_s()) if self._pages else None

    def take(self) -> list[FinishedPage]:
        """Takes out the pages to try now, and those whose leases have ended."""
        tried: list[FinishedPage] = []
        kept: deque[tuple[FinishedPage, int]] = deque()
        tried_bytes = 0
        for page, size_bytes in self._pages:
            has_room = len(tried) < MAX_TRIED_PAGES and tried_bytes < MAX_TRIED_BYTES
            if has_room or page.held.ended:
                tried.append(page)
                tried_bytes += size_bytes
            else:
                kept.append((page, size_bytes))
        self._pages = kept
        self._bytes -= tried_bytes
        self._tried_count = len(tried)
        return tried

    def put(self, pages: Iterable[FinishedPage]) -> None:
        """Puts the pages of a batch in that wait. They rest, unless some of those that were just taken have
        not come back: then the next ones may be lucky as well."""
        was_empty = not self._pages
        waiting = [(page, page.size_bytes) for page in pages]
        self._pages.extend(waiting)
        self._bytes += sum(size_bytes for _, size_bytes in waiting)
        if len(waiting) >= self._tried_count and (was_empty or self._tried_count):
            self._due_s = self._clock_s() + REST_S
        self._tried_count = 0
