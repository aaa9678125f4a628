"""How fast a crawl went over the last minutes: pages per second, and a sparkline of them."""

import math
from collections.abc import Sequence

SPAN_S = 10.0
"""Each rate is an average over so long."""

MOST_SPANS = 30
"""How many rates are kept."""

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.-:=+*#"


class History:
    """Pages per second in successive spans of time.

    Looks at a crawl give the number of pages so far. The crawl's own statistics events tell what was before
    the first look. All times are the frontier's.
    """

    def __init__(self) -> None:
        self._pages: dict[int, float] = {}  # by span
        self._from_s = math.inf  # since when the pages are known
        self._first_look_s = math.inf
        self._last_look: tuple[float, int] | None = None

    def record_total(self, at_s: float, pages: int) -> None:
        """Notes how many pages there were at a look."""
        if self._last_look is None:
            self._first_look_s = at_s
            self._from_s = min(self._from_s, at_s)
        else:
            before_s, before = self._last_look
            self._spread(before_s, at_s, max(pages - before, 0))
        self._last_look = (at_s, pages)

    def record_interval(self, end_s: float, length_s: float, pages: int) -> None:
        """Notes the pages of an interval that the crawl itself counted. Looks know better from the first
        one on.
        """
        begin_s = end_s - length_s
        until_s = min(end_s, self._first_look_s)
        if length_s <= 0 or begin_s >= until_s:
            return
        self._from_s = min(self._from_s, begin_s)
        self._spread(begin_s, until_s, pages * (until_s - begin_s) / length_s)

    def rates(self) -> tuple[float, ...]:
        """Pages per second in each whole span of the last minutes, the latest last."""
        if self._last_look is None:
            return ()
        end = math.floor(self._last_look[0] / SPAN_S)
        begin = max(math.ceil(self._from_s / SPAN_S), end - MOST_SPANS)
        return tuple(self._pages.get(span, 0.0) / SPAN_S for span in range(begin, end))

    def _spread(self, begin_s: float, end_s: float, pages: float) -> None:
        """Adds pages that came evenly between two moments."""
        oldest = math.floor(end_s / SPAN_S) - MOST_SPANS
        for span in range(max(math.floor(begin_s / SPAN_S), oldest), math.floor(end_s / SPAN_S) + 1):
            within_s = min(end_s, (span + 1) * SPAN_S) - max(begin_s, span * SPAN_S)
            if within_s > 0:
                self._pages[span] = self._pages.get(span, 0.0) + pages * within_s / (end_s - begin_s)
        newest = max(self._pages, default=0)
        for span in [span for span in self._pages if span < newest - MOST_SPANS]:
            del self._pages[span]


def sparkline(rates: Sequence[float], *, ascii_only: bool) -> str:
    """A character for each rate, the higher the faster."""
    levels = _ASCII if ascii_only else _BLOCKS
    highest = max(rates, default=0.0)
    if highest <= 0:
        return levels[0] * len(rates)
    return "".join(levels[round(rate / highest * (len(levels) - 1))] for rate in rates)
