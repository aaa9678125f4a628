"""CrawlController: takes one crawl through its life.

The crawl's life is in the frontier. A controller holds no truth of its own: it asks, waits and listens, so
any number of them, at any time, may steer and watch the same crawl.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    Crawl,
    GetStatisticsResponse,
    Job,
    JobState,
    UriOutcome,
    WaitingUri,
)
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus, Event, TargetState

from .client import FrontierClient
from .drivers import RECONNECT_S
from .errors import CrawlExists, CrawlFinished, DeadlineExceeded, IllegalState, WaitTimedOut
from .spec_file import differences
from .streams import EventStream

NASCENT = CrawlState.CRAWL_STATE_NASCENT
ENDED = frozenset((JobState.JOB_STATE_DONE, JobState.JOB_STATE_CANCELLED))
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.05, 1.0


class CrawlController:
    """One crawl of a frontier, by its name; it need not exist yet.

    Every method may raise what FrontierClient's may, and UnknownCrawl unless the crawl has been created.
    """

    def __init__(self, frontier: FrontierClient, crawl: str) -> None:
        self.frontier = frontier
        self.crawl = crawl

    def create(self, spec: CrawlSpec, seeds: Iterable[str] = ()) -> AddSeedsResponse:
        """Creates the crawl, NASCENT, and stores its seeds. Returns what became of them: some may be
        rejected.

        May be repeated, after a lost answer or with the seeds amended, until the crawl is launched: a NASCENT
        crawl of this name with the same spec is taken as the one meant. Any other is CrawlExists.
        InvalidName, InvalidSpec.
        """
        try:
            self.frontier.create_crawl(self.crawl, spec)
        except CrawlExists:
            existing = self.describe()
            if existing.status.state != NASCENT or differences(existing.spec, spec):
                raise
        return self.frontier.add_seeds(self.crawl, seeds)

    def launch(self) -> CrawlStatus:
        """From NASCENT: announces the seeds and gives out URIs. Returns at once: PREPARING or beyond.
        NoSeeds; IllegalState.

        If an answer gets lost and the repeat is refused because the crawl has been launched, that is success.
        """
        status = self.status()
        try:
            return self.frontier.launch_crawl(self.crawl)
        except IllegalState:
            if status.state != NASCENT:
                raise
            return self.status()

    def pause(self) -> CrawlStatus:
        """From RUNNING or EMPTY: gives out no more URIs. At once: PAUSING, or PAUSED when no lease is out.

        While it pauses or is paused this changes nothing. IllegalState from any other state.
        """
        return self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_PAUSE)

    def resume(self) -> CrawlStatus:
        """From PAUSING or PAUSED: gives out URIs again. At once; RUNNING comes when the frontier runs.

        While it runs this changes nothing. IllegalState from any other state.
        """
        return self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_RUN)

    def stop(self) -> CrawlStatus:
        """From any state: ends the crawl for good. At once: STOPPING, or FINISHED when no lease is out.

        While it stops, and when it has finished, this changes nothing.
        """
        return self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_FINISH)

    def wait_for(
        self, states: Collection[CrawlState.ValueType], timeout_s: float | None = None
    ) -> CrawlStatus:
        """Waits until the crawl is in one of the states; returns the status that it had then.

        A state that it has left again counts if that happened since the call. Restarts of the frontier are
        waited out: up to `timeout_s`, or for a minute each without one. WaitTimedOut; CrawlFinished when the
        crawl ends and FINISHED is not among the states, since nothing leads out of it.
        """
        reconnect_s = RECONNECT_S if timeout_s is None else timeout_s
        stream = self.frontier.state_events(self.crawl, timeout_s=timeout_s, reconnect_s=reconnect_s)
        wanted = " or ".join(state_name(state) for state in states)
        last = "unknown"
        try:
            for status in _statuses(stream):
                if status.state in states:
                    return status
                last = state_name(status.state)
        except DeadlineExceeded as error:
            problem = f"{self.crawl} has not become {wanted} within {timeout_s} s; its state is {last}"
            raise WaitTimedOut(problem, reason=error.reason) from None
        finally:
            stream.close()
        raise CrawlFinished(f"{self.crawl} has ended ({last}), so it will not become {wanted}")

    def follow(self, cursor: str = "") -> Iterator[Event]:
        """The crawl's events after `cursor` ("" from now on, "start" all kept) until it has finished.

        Each has its own `cursor`, to go on after it. Restarts of the frontier are waited out for a minute
        each. The stream ends when the iterator is closed. CursorTooOld.
        """
        with self.frontier.state_events(self.crawl, cursor) as stream:
            for message in stream:
                if message.HasField("event"):
                    yield message.event

    def events(self, cursor: str = "start") -> Iterator[Event]:
        """The events after `cursor` that have happened by now. Waits for none to come. CursorTooOld."""
        with self.frontier.state_events(self.crawl) as now:
            end = next(now).cursor
        with self.frontier.state_events(self.crawl, cursor) as stream:
            for message in stream:
                if message.HasField("event"):
                    yield message.event
                elif not message.HasField("present"):
                    return  # a sign of life: there is nothing more to tell
                if message.cursor == end:
                    return

    def wait_for_job(self, job: int, timeout_s: float | None = None) -> Job:
        """Waits until a job has ended, whatever the crawl does; the job then. WaitTimedOut; UnknownJob."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        rest_s = _FIRST_LOOK_S
        while True:
            found = self.frontier.get_job(self.crawl, job)
            if found.state in ENDED:
                return found
            if until_s is not None and time.monotonic() >= until_s:
                looked_at = f"{found.done_count} of {found.total_count or 'an unknown number of'} rows"
                raise WaitTimedOut(
                    f"job {job} of {self.crawl} has not ended within {timeout_s} s; it has done {looked_at}"
                )
            left_s = rest_s if until_s is None else until_s - time.monotonic()
            time.sleep(max(0.0, min(rest_s, left_s)))
            rest_s = min(2 * rest_s, _LONGEST_LOOK_S)

    def outcomes(self, cursor: str = "start", *, follow: bool = False) -> Iterator[UriOutcome]:
        """The final dispositions after `cursor` that are kept; with `follow` also those to come, to the end.

        Each has its own `cursor`, to go on after it. Restarts of the frontier are waited out for a minute
        each. CursorTooOld.
        """
        with self.frontier.stream_outcomes(self.crawl, cursor, follow=follow) as stream:
            for message in stream:
                yield from message.outcomes

    def waiting(self) -> Iterator[WaitingUri]:
        """All URIs that wait, by queue, then the future ones. Restarts of the frontier are waited out."""
        with self.frontier.export_uris(self.crawl) as stream:
            for message in stream:
                yield from message.uris

    def statistics(self) -> GetStatisticsResponse:
        """The crawl's figures, and its status at the same moment."""
        return self.frontier.get_statistics(self.crawl)

    def describe(self) -> Crawl:
        """The crawl's spec with every default filled in, its status, its times, its seeds' number."""
        return self.frontier.get_crawl(self.crawl)

    def status(self) -> CrawlStatus:
        """Where the crawl is in its life."""
        return self.describe().status

    def delete(self) -> None:
        """Deletes the crawl and all that is stored of it. From NASCENT or FINISHED; CrawlActive otherwise."""
        self.frontier.delete_crawl(self.crawl)


def _statuses(stream: EventStream) -> Iterator[CrawlStatus]:
    """The present status, then each one that follows, to the end of the stream."""
    for message in stream:
        if message.HasField("present"):
            yield message.present
        elif message.event.HasField("status_changed"):
            yield message.event.status_changed


def state_name(state: CrawlState.ValueType) -> str:
    """The state in one word, as people say it: `RUNNING`."""
    known = state in CrawlState.values()
    return CrawlState.Name(state).removeprefix("CRAWL_STATE_") if known else str(state)
