"""The course of a crawl: counts over time, from events and from looks, with a bounded number of points."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.crawl_pb2 import Event, IntervalStatistics, Statistics
from toehold_client import events
from toehold_console.course import MOST_POINTS, Course, Point


def interval(
    end_s: int, succeeded: int, failed: int = 0, queued: int = 0, length_s: int = 20
) -> events.Event:
    told = IntervalStatistics(
        interval_duration=Duration(seconds=length_s),
        succeeded_count=succeeded,
        failed_count=failed,
        queued_count=queued,
    )
    return events.Event(Event(event_time=Timestamp(seconds=end_s), statistics=told))


def look(at_s: int, succeeded: int, elapsed_s: int = 0) -> Statistics:
    return Statistics(
        snapshot_time=Timestamp(seconds=at_s),
        succeeded_count=succeeded,
        elapsed_duration=Duration(seconds=elapsed_s),
    )


def test_events_add_up_from_the_launch() -> None:
    course = Course()
    assert course.note_event(interval(120, 10, failed=1, queued=5))
    assert course.note_event(interval(140, 30, queued=2))
    assert course.points == [Point(100, 0, 0, 0), Point(120, 10, 1, 5), Point(140, 40, 1, 2)]


def test_other_events_change_nothing() -> None:
    course = Course()
    assert not course.note_event(events.Event(Event(sequence=1)))
    assert course.points == []


def test_looks_tell_what_no_event_has_told_yet_and_begin_at_the_launch() -> None:
    course = Course()
    assert course.note_look(look(110, 4, elapsed_s=10))
    assert not course.note_look(look(112, 6))
    assert course.note_look(look(115, 9))
    assert course.points == [Point(100, 0, 0, 0), Point(110, 4, 0, 0), Point(115, 9, 0, 0)]


def test_events_that_come_after_a_look_take_their_places_in_time() -> None:
    course = Course()
    course.note_look(look(200, 40, elapsed_s=100))
    for event in (interval(120, 10), interval(140, 10)):
        course.note_event(event)
    assert [point.at_s for point in course.points] == [100, 120, 140, 200]
    assert [point.succeeded for point in course.points] == [0, 10, 20, 40]


def test_a_long_crawl_has_as_many_points_as_a_short_one_from_its_beginning_to_its_end() -> None:
    course = Course()
    for number in range(1, 5_000):
        course.note_event(interval(100 + 20 * number, 1))
    points = course.points
    assert MOST_POINTS / 3 < len(points) <= MOST_POINTS
    assert (points[0], points[-1].succeeded) == (Point(100, 0, 0, 0), 4_999)
    assert points == sorted(points)
    for number in range(5_000):
        course.note_look(look(200_000 + number, 5_000 + number))
    assert len(course.points) <= MOST_POINTS
