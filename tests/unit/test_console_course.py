"""The course of a crawl: counts over time, from events and from looks, with a bounded number of points."""

from itertools import pairwise

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Event, IntervalStatistics, Statistics
from toehold_client import events
from toehold_console.course import MOST_POINTS, Course, Point, rates

LAUNCHED = Crawl(launch_time=Timestamp(seconds=100))
RUNNING = CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING)


def interval(
    end_s: int, succeeded: int, failed: int = 0, queued: int = 0, length_s: int = 20, number: int = 1
) -> events.Event:
    told = IntervalStatistics(
        interval_duration=Duration(seconds=length_s),
        succeeded_count=succeeded,
        failed_count=failed,
        queued_count=queued,
    )
    return events.Event(Event(sequence=number, event_time=Timestamp(seconds=end_s), statistics=told))


def look(at_s: int, succeeded: int, elapsed_s: int = 0, queued: int = 0, failed: int = 0) -> Statistics:
    return Statistics(
        snapshot_time=Timestamp(seconds=at_s),
        succeeded_count=succeeded,
        failed_count=failed,
        queued_count=queued,
        elapsed_duration=Duration(seconds=elapsed_s),
    )


def seen(
    course: Course, at_s: int, succeeded: int, *, crawl: Crawl = LAUNCHED, queued: int = 0, elapsed_s: int = 0
) -> bool:
    return course.record_look(crawl, RUNNING, look(at_s, succeeded, elapsed_s, queued))


def test_events_add_up_from_the_launch() -> None:
    course = Course()
    assert course.record_event(interval(120, 10, failed=1, queued=5))
    assert course.record_event(interval(140, 30, queued=2))
    assert course.points == [Point(100, 0, 0, 0), Point(120, 10, 1, 5), Point(140, 40, 1, 2)]


def test_other_events_change_nothing() -> None:
    course = Course()
    assert not course.record_event(events.Event(Event(sequence=1)))
    assert course.points == []


def test_looks_tell_what_no_event_has_told_yet_and_begin_at_the_launch() -> None:
    course = Course()
    assert seen(course, 110, 4)
    assert not seen(course, 112, 6)
    assert seen(course, 115, 9)
    assert course.points == [Point(100, 0, 0, 0), Point(110, 4, 0, 0), Point(115, 9, 0, 0)]


def test_the_course_begins_at_the_launch_event_or_else_as_the_elapsed_time_says() -> None:
    course = Course()
    seen(course, 110, 4, crawl=Crawl(), elapsed_s=6)
    assert course.points[0] == Point(104, 0, 0, 0)
    status = CrawlStatus(state=CrawlState.CRAWL_STATE_PREPARING)
    course.record_event(events.Event(Event(event_time=Timestamp(seconds=102), status_changed=status)))
    assert course.points[0] == Point(102, 0, 0, 0)
    seen(course, 116, 5)
    assert course.points[0] == Point(100, 0, 0, 0)


def test_events_that_come_after_a_look_take_their_places_in_time() -> None:
    course = Course()
    seen(course, 200, 40)
    for event in (interval(120, 10), interval(140, 10)):
        course.record_event(event)
    assert [point.at_s for point in course.points] == [100, 120, 140, 200]
    assert [point.succeeded for point in course.points] == [0, 10, 20, 40]


@pytest.mark.parametrize("launch_known", [True, False])
@pytest.mark.parametrize("looks_first", [True, False])
def test_the_course_does_not_fall_to_zero_after_a_pause(launch_known: bool, looks_first: bool) -> None:
    # It ran for 40 s, was paused for 1000 s, and has run for 25 s since.
    course = Course()
    told = [interval(120, 10, 1, 50), interval(140, 10, 0, 40), interval(1160, 10, 0, 30)]

    def looks() -> None:
        crawl = LAUNCHED if launch_known else Crawl()
        course.record_look(crawl, RUNNING, look(1165, 32, elapsed_s=65, queued=28, failed=1))

    if looks_first:
        looks()
    for event in told:
        course.record_event(event)
    if not looks_first:
        looks()
    assert course.points == [
        *(Point(100, 0, 0, 0), Point(120, 10, 1, 50), Point(140, 20, 1, 40)),
        *(Point(1140, 20, 1, 40), Point(1160, 30, 1, 30), Point(1165, 32, 1, 28)),
    ]


def test_the_course_keeps_the_queue_length_in_intervals_without_a_page() -> None:
    course = Course()
    for end_s, queued in ((120, 500), (140, 900), (160, 901)):
        course.record_event(interval(end_s, 0, queued=queued))
    assert [point.queued for point in course.points] == [0, 500, 900, 901]


def test_the_course_opened_late_counts_fetches_whose_events_are_no_longer_kept() -> None:
    course = Course()
    seen(course, 5_010, 1_012)
    course.record_event(interval(4_980, 10, number=70))
    seen(course, 5_020, 1_015)  # the next event is still to come
    course.record_event(interval(5_000, 10, number=71))
    seen(course, 5_030, 1_017)
    counts = [point.succeeded for point in course.points]
    assert counts == sorted(counts)
    assert counts[0] == 0 and counts[1] > 900


def test_the_course_of_an_ended_crawl_has_no_points_after_its_end() -> None:
    course = Course()
    course.record_event(interval(120, 10))
    ended = CrawlStatus(state=CrawlState.CRAWL_STATE_FINISHED, reach_time=Timestamp(seconds=120))
    for at_s in (130, 5_000, 90_000):
        course.record_look(LAUNCHED, ended, look(at_s, 10))
    assert [point.at_s for point in course.points] == [100, 120]


def test_rates_are_averages_of_some_seconds_and_not_zero_between_two_pages() -> None:
    course = Course()
    for at_s in range(105, 200, 5):
        seen(course, at_s, (at_s - 100) // 10)  # a page every 10 s
    course.record_event(interval(191, 9, length_s=91))
    seen(course, 200, 10)
    found = rates(course.points)
    assert found[0] == 0
    assert min(found[4:]) > 0.05 and max(found) < 0.15
    assert rates([]) == [] and rates([Point(1, 5, 0, 0)]) == [0.0]


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 50), st.integers(0, 400), st.booleans()), max_size=40
    ),
    st.integers(0, 40),
)
def test_counts_of_the_course_never_fall_over_any_pauses_and_openings(
    steps: list[tuple[int, int, int, bool]], opened: int
) -> None:
    """Steps are the length of an interval, its pages, a pause after it, and whether somebody looks then."""
    course, at_s, pages, run_s = Course(), 100, 0, 0
    told: list[events.Event] = []
    for number, (length_s, more, pause_s, looks) in enumerate(steps, 1):
        at_s, pages, run_s = at_s + length_s, pages + more, run_s + length_s
        if more:
            told.append(interval(at_s, more, length_s=length_s, number=number, queued=7))
        if number >= opened:
            for event in told:
                course.record_event(event)
            told = []
            if looks:
                seen(course, at_s, pages, elapsed_s=run_s, queued=7)
        points = course.points
        assert all(one.at_s < other.at_s for one, other in pairwise(points))
        assert all(one.succeeded <= other.succeeded for one, other in pairwise(points))
        assert all(point.queued == 7 for point in points[1:])
        at_s += pause_s


def test_a_long_crawl_has_as_many_points_as_a_short_one_from_its_beginning_to_its_end() -> None:
    course = Course()
    for number in range(1, 5_000):
        course.record_event(interval(100 + 20 * number, 1))
    points = course.points
    assert MOST_POINTS / 3 < len(points) <= MOST_POINTS
    assert (points[0], points[-1].succeeded) == (Point(100, 0, 0, 0), 4_999)
    assert points == sorted(points)
    for number in range(5_000):
        seen(course, 200_000 + number, 5_000 + number)
    assert len(course.points) <= MOST_POINTS
