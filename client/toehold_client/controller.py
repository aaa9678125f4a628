# Made from aio/controller.py by `make client`: edit that one.
"""CrawlController: takes one crawl through its life, for blocking programs.

The crawl's life is in the frontier. A controller holds no truth of its own: it asks, waits and listens, so
any number of them, at any time, may steer and watch the same crawl. `awaiting` judges what it waits for.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    Crawl,
    GetStatisticsResponse,
    Job,
    UriOutcome,
    WaitingUri,
)
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus, Event, TargetState
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse
from toehold_client.awaiting import (
    FINISHED,
    NASCENT,
    TEARDOWN_S,
    AwaitedJob,
    AwaitedState,
    Pace,
    is_as_asked,
    is_last,
    is_torn_down,
)
from toehold_client.errors import (
    CrawlExists,
    DeadlineExceeded,
    FrontierUnavailable,
    IllegalState,
    RefusedForNow,
)
from toehold_client.rpc.batches import MAX_ITEMS
from toehold_client.rpc.listeners import Listeners
from toehold_client.rpc.retry import RECONNECT_S
from toehold_client.rpc.streams import EventStream

from .client import FrontierClient
from .listening import Callback, Listener


class CrawlController:
    """One crawl of a frontier, by its name; it need not exist yet.

    Every method may raise the errors of FrontierClient, and UnknownCrawl unless the crawl has been
    created. Methods that change the crawl raise CrawlHeld while it is held, except those that ask for another
    state or for the teardown; and CrawlTornDown once it is torn down, except `delete`. A refused request has
    changed nothing.

    As a context manager the controller closes its listeners at the end. The crawl goes on, then and when the
    program ends.
    """

    def __init__(self, frontier: FrontierClient, crawl: str) -> None:
        self.frontier = frontier
        self.crawl = crawl
        self._listeners: Listeners[Listener] = Listeners()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as leaving:  # closes each of them, whatever the others raise
            for listener in self._listeners.take():
                leaving.callback(listener.close)

    # its life

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
            if not is_as_asked(self.describe(), spec):
                raise
        return self.add_seeds(seeds)

    def copy(self, name: str, *, seeds: bool = False) -> CrawlController:
        """Creates a crawl of another name, NASCENT, with this one's present spec; its controller.

        From any state. With `seeds` it gets the same seeds, as they were added. May be repeated, as `create`
        may. CrawlExists, InvalidName.
        """
        copied = CrawlController(self.frontier, name)
        described = self.describe()
        copied.create(described.spec)
        if seeds:
            batch: list[str] = []
            for seed in self.frontier.list_seeds(self.crawl):
                batch.append(seed.uri)
                if len(batch) == MAX_ITEMS:
                    copied.add_seeds(batch)
                    batch = []
            if batch:
                copied.add_seeds(batch)
        return copied

    def add_seeds(self, uris: Iterable[str]) -> AddSeedsResponse:
        """Adds seeds, any number; what became of them. They are announced when the crawl is launched, or at
        once if it has been.

        From any state but FINISHED (CrawlFinished). Waits until all are stored. Harmless to repeat.
        """
        return self.frontier.add_seeds(self.crawl, uris)

    def launch(self, checkpoint: str = "", checkpoint_crawl: str = "") -> CrawlStatus:
        """From NASCENT: announces the seeds and gives out URIs. Returns at once: PREPARING or beyond.

        With the name of a checkpoint it goes on from there instead, as the crawl of the same name was then,
        or as `checkpoint_crawl` was: see LaunchCrawl in the contract. UnknownCheckpoint; UnknownCrawl if the
        checkpoint has no such crawl; InvalidSpec if the specs do not agree in what cannot be changed;
        IllegalState if this crawl has taken in URIs or had jobs, or if that one was only half there then.

        RUNNING follows, or PAUSED with the spec's `pause_at_start`. NoSeeds; DiskReserve; IllegalState from
        any other state. If an answer gets lost and the repeat is refused because the crawl has been launched,
        that is success.
        """
        status = self.status()
        try:
            return self.frontier.launch_crawl(self.crawl, checkpoint, checkpoint_crawl)
        except IllegalState:
            if status.state != NASCENT:
                raise
            now = self.status()
            if now.state == NASCENT:
                raise
            return now

    def pause(self) -> CrawlStatus:
        """From RUNNING or EMPTY: gives out no more URIs. Returns at once: PAUSING, or PAUSED when no lease is
        out.

        PAUSED follows when what is in flight has ended, or at the spec's `pause_timeout`. While it pauses or
        is paused this changes nothing, but a crawl that is held may be changed again, and one that trouble
        has paused does not go on by itself. IllegalState from any other state.
        """
        return self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_PAUSE)

    def resume(self) -> CrawlStatus:
        """From PAUSING or PAUSED, held or not: gives out URIs again. Returns at once; RUNNING comes when the
        frontier runs.

        While it runs this changes nothing. DiskReserve while the frontier's disk is nearly full; IllegalState
        from any other state.
        """
        return self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_RUN)

    def hold(self) -> CrawlStatus:
        """From RUNNING, EMPTY, PAUSING or PAUSED: pauses the crawl, and then lets it stand still. Returns at
        once.

        `held` of its status, and the event Held, tell when it does: from then on nothing of it is written
        until it is asked to `resume`, `pause` or `stop`, and what would change it is CrawlHeld. IllegalState
        from any other state.
        """
        return self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_HOLD)

    def stop(self) -> CrawlStatus:
        """From any state: ends the crawl for good. Returns at once: STOPPING, or FINISHED when no lease is
        out.

        FINISHED follows when what is in flight has ended, or at the spec's `stop_timeout`. A second stop,
        while it is STOPPING, tells nodes to interrupt their fetches, and FINISHED follows within 15 s. Once
        it has finished this changes nothing.
        """
        return self.frontier.request_state(self.crawl, TargetState.TARGET_STATE_FINISH)

    def teardown(self, timeout_s: float | None = TEARDOWN_S) -> bool:
        """From any state: stops the crawl if need be, and lets go of all that the frontier's memory has of
        it.

        Waits for that, at most `timeout_s` (None: as long as it takes). True: it is complete, the crawl's
        last event has happened. False: it is not complete yet, or the frontier went away meanwhile; the
        frontier completes it by itself, also after a restart, and whatever becomes of this program. What is
        stored of the crawl stays, and can be read, until `delete`.

        Any number of controllers may ask, at once or again: it is done once, and each gets True when it is
        complete. Of a crawl that is STOPPING it interrupts fetches, as a second `stop` does.
        """
        asked = self.frontier.tear_down_crawl(self.crawl)
        if asked.status.torn_down:
            return True
        try:
            with self._events(timeout_s) as stream:
                for message in stream:
                    if is_torn_down(message):
                        return True
            status = self.status()
            return status.torn_down
        except (DeadlineExceeded, FrontierUnavailable, RefusedForNow):
            return False

    def delete(self) -> None:
        """Deletes the crawl and all that is stored of it. From NASCENT or FINISHED; CrawlActive otherwise."""
        self.frontier.delete_crawl(self.crawl)

    # what holds while it lives

    def update(self, spec: CrawlSpec, paths: Collection[str] = ()) -> Crawl:
        """Changes settings, from the next decision on; the crawl's description then.

        From any state but FINISHED (CrawlFinished). `paths` names what is set to what `spec` has there, or to
        its default if it has nothing there: `limits.max_documents`, `politeness`. Without any it is all that
        `spec` sets. InvalidSpec tells all that is wrong, or cannot be changed.
        """
        return self.frontier.update_crawl(self.crawl, spec, paths)

    def set_pool_size(self, size: int | None) -> None:
        """Sets how many toe threads each node of the frontier has, for all its crawls: 0 to 10 000, or None
        for as many as it was started with.

        In any state. Nodes follow with their next heartbeat. `set_pool_size` of the client can name one node;
        the spec's `max_toes` bounds this crawl alone.
        """
        self.frontier.set_pool_size(size)

    # what becomes of it

    def wait_for(
        self, states: Collection[CrawlState.ValueType], timeout_s: float | None = None
    ) -> CrawlStatus:
        """From any state: waits until the crawl is in one of the states; returns the status that it had then.

        A state that it has left again counts if that happened since the call. Restarts of the frontier are
        waited out: up to `timeout_s`, or for a minute each without one. WaitTimedOut; CrawlFinished when the
        crawl ends and FINISHED is not among the states, since nothing leads out of it.
        """
        awaited = AwaitedState(self.crawl, states)
        try:
            with self._events(timeout_s) as stream:
                for message in stream:
                    status = awaited.reached(message)
                    if status is not None:
                        return status
        except DeadlineExceeded as error:
            raise awaited.late(timeout_s, error) from None
        self.status()  # ClientClosed, if it is that which has ended the stream
        raise awaited.broken_off()

    def follow(self, cursor: str = "") -> Iterator[Event]:
        """The crawl's events after `cursor` ("" from now on, "start" all kept) until it has finished, or, if
        its teardown was asked for before that, until it is torn down.

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
            first = next(now, StateEventsResponse())
        with self.frontier.state_events(self.crawl, cursor) as stream:
            for message in stream:
                if message.HasField("event"):
                    yield message.event
                if is_last(message, first.cursor):
                    return

    def listen(self, listener: Callback, cursor: str = "") -> Listener:
        """Calls `listener` with each event after `cursor`, one at a time, in a thread of its own, until the
        crawl's events end as in `follow`. Returns when it hears: no later event is missed.

        Restarts of the frontier are waited out for a minute each, without gap or repeat. A listener that
        raises ends this: `close` and `join` of what is returned raise the error, and its `cursor` is then
        before that event. They raise CursorTooOld, too.
        """
        stream = self.frontier.state_events(self.crawl, cursor)
        first = next(stream, StateEventsResponse())
        return self._listeners.add(Listener(stream, listener, first))

    def statistics(self) -> GetStatisticsResponse:
        """The crawl's statistics, and its status at the same moment. In any state."""
        return self.frontier.get_statistics(self.crawl)

    def statistics_every(self, interval_s: float) -> Iterator[GetStatisticsResponse]:
        """The crawl's statistics now, and then every `interval_s` seconds, until it has finished: the last
        ones have that status.

        From any state. Restarts of the frontier are waited out as long as the client has patience.
        InvalidArgument unless the interval is more than 0.
        """
        pace = Pace(interval_s)
        while True:
            statistics = self.statistics()
            yield statistics
            if statistics.status.state == FINISHED:
                return
            time.sleep(pace.rest_s())

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

    def wait_for_job(self, job: int, timeout_s: float | None = None) -> Job:
        """Waits until a job has ended, whatever the crawl does; the job then. WaitTimedOut; UnknownJob."""
        awaited = AwaitedJob(self.crawl, timeout_s)
        while True:
            found = self.frontier.get_job(self.crawl, job)
            rest_s = awaited.rest_s(found)
            if rest_s is None:
                return found
            time.sleep(rest_s)

    def describe(self) -> Crawl:
        """The crawl's spec with every default filled in, its status, its times, its seeds' number."""
        return self.frontier.get_crawl(self.crawl)

    def status(self) -> CrawlStatus:
        """Where the crawl is in its life."""
        described = self.describe()
        return described.status

    def _events(self, timeout_s: float | None) -> EventStream:
        reconnect_s = RECONNECT_S if timeout_s is None else timeout_s
        return self.frontier.state_events(self.crawl, timeout_s=timeout_s, reconnect_s=reconnect_s)
