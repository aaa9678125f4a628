"""The course of a crawl, for a chart: pages, failures and the queue over time.

The crawl's statistics events tell it from the launch on; looks tell what has happened since. Neighbours are
merged when there are too many, so that a crawl of a month has as many points as one of an hour.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from toehold.frontier.v1.crawl_pb2 import Statistics
from toehold_client.events import Event

MOST_POINTS = 240
LOOKS_APART_S = 5.0


class Point(NamedTuple):
    """A moment, by the frontier's clock, with the counts up to then."""

    at_s: float
    succeeded: int
    failed: int
    queued: int


class Course:
    """The points of a crawl so far, by their time."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._succeeded = self._failed = 0  # by events
        self._apart_s = LOOKS_APART_S

    @property
    def points(self) -> list[Point]:
        """All of them."""
        return list(self._points)

    def note_event(self, event: Event) -> bool:
        """Notes an event; whether the course is another one now. Looks may be ahead of events."""
        if event.kind != "statistics":
            return False
        told = event.statistics
        end_s = event.event_time.ToNanoseconds() / 1e9
        if not self._succeeded and not self._failed:
            start_s = end_s - told.interval_duration.ToNanoseconds() / 1e9
            self._add(Point(start_s, 0, 0, 0))
        self._succeeded += told.succeeded_count
        self._failed += told.failed_count
        self._add(Point(end_s, self._succeeded, self._failed, told.queued_count))
        return True

    def note_look(self, now: Statistics) -> bool:
        """Notes the present counts, if the last ones are old; whether they were."""
        at_s = now.snapshot_time.ToNanoseconds() / 1e9
        if not self._points:
            self._add(Point(at_s - now.elapsed_duration.ToNanoseconds() / 1e9, 0, 0, 0))
        elif at_s < self._points[-1].at_s + self._apart_s:
            return False
        self._add(Point(at_s, now.succeeded_count, now.failed_count, now.queued_count))
        return True

    def _add(self, point: Point) -> None:
        place = bisect_left(self._points, point.at_s, key=lambda each: each.at_s)
        if place < len(self._points) and self._points[place].at_s == point.at_s:
            self._points[place] = point
        else:
            self._points.insert(place, point)
        if len(self._points) > MOST_POINTS:  # the first and the last stay
            last = self._points[-1]
            self._points = self._points[::2]
            if self._points[-1] != last:
                self._points.append(last)
            length_s = last.at_s - self._points[0].at_s
            self._apart_s = max(LOOKS_APART_S, length_s / MOST_POINTS)
