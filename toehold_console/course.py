"""The course of a crawl, for a chart: pages, failures and the queue over time, from its launch to its end.

The crawl's statistics events tell it; looks tell what happens between them. Neighbours are merged when there
are too many, so that a crawl of a month has as many points as one of an hour.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Statistics
from toehold_client.events import Event

MOST_POINTS = 240
LOOKS_APART_S = 5.0
RATE_OVER_S = 15.0
"""A rate is that of so many seconds: between two looks there need not be a page."""


class Point(NamedTuple):
    """A moment, by the frontier's clock, with the counts up to then."""

    at_s: float
    succeeded: int
    failed: int
    queued: int


class Course:
    """The points of a crawl so far, by their time. Looks may be ahead of events, which come later."""

    def __init__(self) -> None:
        self._launch_s = math.inf
        self._told: list[Point] = []  # by events; the counts are those since the first event that is kept
        self._seen: list[Point] = []  # by looks
        self._told_first = 0  # the number of the first event
        self._missing: tuple[int, int] | None = None  # what earlier events have told, pages and failures

    @property
    def points(self) -> list[Point]:
        """All of them. The first is the launch, if it is known."""
        pages, failed = self._missing or (0, 0)
        merged = [
            each._replace(succeeded=each.succeeded + pages, failed=each.failed + failed)
            for each in self._told
        ]
        moments = [point.at_s for point in merged]
        near_s = self._apart_s / 2
        merged += [each for each in self._seen if not _is_near(moments, each.at_s, near_s)]
        merged = sorted(point for point in merged if point.at_s > self._launch_s)
        if merged:
            merged.insert(0, Point(self._launch_s, 0, 0, 0))
        return _thinned(merged)

    def record_event(self, event: Event) -> bool:
        """Notes an event; whether the course is another one now."""
        at_s = event.event_time.ToNanoseconds() / 1e9
        self._told_first = self._told_first or event.sequence
        if event.kind == "status_changed" and event.status_changed.state in _LAUNCHED:
            self._launch_s = min(self._launch_s, at_s)
        if event.kind != "statistics":
            return False
        statistics = event.statistics
        last = self._told[-1] if self._told else Point(-math.inf, 0, 0, 0)
        begun_s = at_s - statistics.interval_duration.ToNanoseconds() / 1e9
        self._launch_s = min(self._launch_s, begun_s)
        if self._told and last.at_s < begun_s:  # nothing has happened meanwhile: a pause
            self._told.append(last._replace(at_s=begun_s))
        pages, failed = last.succeeded + statistics.succeeded_count, last.failed + statistics.failed_count
        self._told.append(Point(at_s, pages, failed, statistics.queued_count))
        if len(self._told) > 2 * MOST_POINTS:
            self._told = _thinned(self._told)
        return True

    def record_look(self, crawl: Crawl, status: CrawlStatus, now: Statistics) -> bool:
        """Notes the present counts, if the last ones are old; whether they were. A crawl that has ended has
        had its last counts since its end."""
        at_s = now.snapshot_time.ToNanoseconds() / 1e9
        if status.state == CrawlState.CRAWL_STATE_FINISHED:
            at_s = min(at_s, status.reach_time.ToNanoseconds() / 1e9)
        if crawl.HasField("launch_time"):
            self._launch_s = crawl.launch_time.ToNanoseconds() / 1e9
        elif math.isinf(self._launch_s):  # it is not known yet; pauses would make this too late
            self._launch_s = at_s - now.elapsed_duration.ToNanoseconds() / 1e9
        self._record_missing(now)
        if self._seen and at_s < self._seen[-1].at_s + self._apart_s:
            return False
        self._seen.append(Point(at_s, now.succeeded_count, now.failed_count, now.queued_count))
        if len(self._seen) > 2 * MOST_POINTS:
            self._seen = _thinned(self._seen)
        return True

    @property
    def _apart_s(self) -> float:
        """How far looks must be from each other."""
        last_s = max((points[-1].at_s for points in (self._told, self._seen) if points), default=0.0)
        return max(LOOKS_APART_S, (last_s - self._launch_s) / MOST_POINTS)

    def _record_missing(self, now: Statistics) -> None:
        """Learns what the events have told that are no longer kept. A look may be ahead of the events that
        are still to come, so that the least difference is the best."""
        if self._told_first <= 1 or not self._told:
            return
        last = self._told[-1]
        pages, failed = now.succeeded_count - last.succeeded, now.failed_count - last.failed
        known = self._missing or (pages, failed)
        self._missing = (max(min(known[0], pages), 0), max(min(known[1], failed), 0))


_LAUNCHED = (CrawlState.CRAWL_STATE_PREPARING, CrawlState.CRAWL_STATE_RUNNING)


def rates(points: Sequence[Point]) -> list[float]:
    """Pages a second up to each point, over some seconds."""
    found, first = [], 0
    for place, point in enumerate(points):
        while first + 1 < place and points[first + 1].at_s <= point.at_s - RATE_OVER_S:
            first += 1
        length_s = point.at_s - points[first].at_s
        pages = point.succeeded - points[first].succeeded
        found.append(max(pages, 0) / length_s if length_s > 0 else 0.0)
    return found


def _is_near(moments: Sequence[float], at_s: float, near_s: float) -> bool:
    """Whether one of some moments, in order, is near."""
    place = bisect_left(moments, at_s - near_s)
    return place < len(moments) and moments[place] <= at_s + near_s


def _thinned(points: list[Point]) -> list[Point]:
    """At most MOST_POINTS; the first and the last stay."""
    while len(points) > MOST_POINTS:
        points = [*points[:-1:2], points[-1]]
    return points
