"""The waits of controllers: for a state, the end of a job, the next moment of an interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from toehold.frontier.v1.admin_pb2 import Crawl, Job, JobState
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse

from .errors import CrawlFinished, InvalidArgument, ToeholdError, UnexpectedAnswer, WaitTimedOut
from .spec.file import differences
from .states import State, state_name, states_of

NASCENT = CrawlState.CRAWL_STATE_NASCENT
FINISHED = CrawlState.CRAWL_STATE_FINISHED

TEARDOWN_S = 3.3
"""How long a teardown is waited for, unless another time is given: as long as Heritrix does."""

ENDED = frozenset((JobState.JOB_STATE_DONE, JobState.JOB_STATE_CANCELLED))
"""The states of a job that does nothing more."""

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.05, 1.0


class AwaitedState:
    """Waits for a crawl to reach one of `states`, by its events. InvalidArgument if one of them is none."""

    def __init__(self, crawl: str, states: State | Collection[State]) -> None:
        self._crawl = crawl
        self._states = states_of(states)
        self._last = "unknown"

    def reached(self, message: StateEventsResponse) -> CrawlStatus | None:
        """The status, if the message tells that the crawl is there. CrawlFinished if it can't get there."""
        status = _status_in(message)
        if status is None or status.state in self._states:
            return status
        self._last = state_name(status.state)
        if status.state == FINISHED:
            raise CrawlFinished(
                f"crawl {self._crawl!r} has ended ({self._last}), so it cannot become {self._wanted()}",
                reason="CRAWL_FINISHED",
            )
        return None

    def late(self, timeout_s: float | None, error: ToeholdError) -> WaitTimedOut:
        """The error for the end of the time limit, which ended the stream with `error`."""
        return WaitTimedOut(
            f"crawl {self._crawl!r} has not become {self._wanted()} within {timeout_s} s; "
            f"its state is {self._last}",
            reason=error.reason,
        )

    def broken_off(self) -> UnexpectedAnswer:
        """The error for events that end before the crawl does."""
        return UnexpectedAnswer(
            f"the events of crawl {self._crawl!r} ended before the crawl, which was {self._last}"
        )

    def _wanted(self) -> str:
        return " or ".join(state_name(state) for state in sorted(self._states))


class AwaitedJob:
    """Waits for the end of a job, with growing rests between looks."""

    def __init__(
        self, crawl: str, timeout_s: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._crawl = crawl
        self._timeout_s = timeout_s
        self._clock = clock
        self._until_s = None if timeout_s is None else clock() + timeout_s
        self._rest_s = _FIRST_LOOK_S

    def rest_s(self, job: Job) -> float | None:
        """How long to rest before looking again; None if the job has ended. WaitTimedOut."""
        if job.state in ENDED:
            return None
        rest_s = self._rest_s
        self._rest_s = min(2 * rest_s, _LONGEST_LOOK_S)
        if self._until_s is None:
            return rest_s
        left_s = self._until_s - self._clock()
        if left_s <= 0:
            done = f"{job.done_count} of {job.total_count or 'an unknown number of'} rows"
            raise WaitTimedOut(
                f"job {job.job} of crawl {self._crawl!r} has not ended within {self._timeout_s} s; "
                f"it has done {done}"
            )
        return min(rest_s, left_s)


class Pace:
    """The rhythm of something that happens every `interval_s` seconds, the first time now.

    After a delay the rhythm starts again. InvalidArgument unless the interval is more than 0.
    """

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        if not interval_s > 0:
            raise InvalidArgument(f"the interval must be more than 0 s, got {interval_s!r}")
        self._interval_s = interval_s
        self._clock = clock
        self._due_s = clock()

    def rest_s(self) -> float:
        """How long to rest before the next time."""
        now_s = self._clock()
        self._due_s = max(now_s, self._due_s + self._interval_s)
        return self._due_s - now_s


def is_as_asked(crawl: Crawl, spec: CrawlSpec) -> bool:
    """Whether an existing crawl is as if it had just been created with `spec`."""
    return crawl.status.state == NASCENT and not differences(crawl.spec, spec)


def is_torn_down(message: StateEventsResponse) -> bool:
    """Whether a message of a crawl's events tells that its teardown is complete."""
    return message.present.torn_down or message.event.HasField("torn_down")


def is_last(message: StateEventsResponse, end: str) -> bool:
    """Whether a stream has reached the present: the cursor `end`, or an empty message."""
    return message.cursor == end or not (message.HasField("present") or message.HasField("event"))


def _status_in(message: StateEventsResponse) -> CrawlStatus | None:
    if message.HasField("present"):
        return message.present
    return message.event.status_changed if message.event.HasField("status_changed") else None
