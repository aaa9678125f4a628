"""The waits of controllers, with a clock that is a variable."""

import pytest

from toehold.frontier.v1.admin_pb2 import Job, JobState
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse
from toehold_client.errors import DeadlineExceeded, WaitTimedOut
from toehold_client.waits import AwaitedJob, AwaitedState, Pace


class Clock:
    """A time that is set."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def rests(pace: Pace, clock: Clock, *took_s: float) -> list[float]:
    """The rests after things that took so long, each of which is taken."""
    found = []
    for each_s in took_s:
        clock.now_s += each_s
        found.append(pace.rest_s())
        clock.now_s += found[-1]
    return found


def test_a_state_that_did_not_come_in_time_is_told_with_the_last_one() -> None:
    awaited = AwaitedState("c", {CrawlState.CRAWL_STATE_PAUSED})
    assert str(awaited.late(0.2, DeadlineExceeded("late"))).endswith("within 0.2 s; its state is unknown")
    pausing = CrawlStatus(state=CrawlState.CRAWL_STATE_PAUSING)
    assert awaited.reached(StateEventsResponse(present=pausing)) is None
    words = "crawl 'c' has not become PAUSED within 0.2 s; its state is PAUSING"
    assert str(awaited.late(0.2, DeadlineExceeded("late"))) == words


def test_a_pace_counts_from_beat_to_beat_not_from_end_to_beginning() -> None:
    clock = Clock()
    assert rests(Pace(10, clock), clock, 0, 3, 10, 1) == pytest.approx([10, 7, 0, 9])


def test_beats_that_were_missed_are_not_made_up_for() -> None:
    clock = Clock()
    assert rests(Pace(10, clock), clock, 35, 1, 1) == pytest.approx([0, 9, 9])


def test_a_job_is_looked_at_after_growing_rests_up_to_a_second() -> None:
    clock = Clock()
    awaited = AwaitedJob("c", None, clock)
    job = Job(state=JobState.JOB_STATE_RUNNING)
    assert [awaited.rest_s(job) for _ in range(7)] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1, 1])


def test_a_job_is_looked_at_a_last_time_when_the_wait_is_over() -> None:
    clock = Clock()
    awaited = AwaitedJob("c", 0.08, clock)
    job = Job(job=3, state=JobState.JOB_STATE_RUNNING, done_count=4)
    for now_s, rest_s in ((1000.0, 0.05), (1000.05, 0.03)):
        clock.now_s = now_s
        assert awaited.rest_s(job) == pytest.approx(rest_s)
    clock.now_s = 1000.08
    with pytest.raises(
        WaitTimedOut, match=r"has not ended within 0.08 s; it has done 4 of an unknown number"
    ):
        awaited.rest_s(job)


def test_a_job_that_ended_just_in_time_has_ended() -> None:
    clock = Clock()
    awaited = AwaitedJob("c", 1, clock)
    clock.now_s += 5
    assert awaited.rest_s(Job(state=JobState.JOB_STATE_DONE)) is None
