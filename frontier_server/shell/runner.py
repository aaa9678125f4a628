"""The shell around the core: reads the clock, runs operations, commits, then sends answers.

The core decides; it cannot write, wait or tell the time. These are the duties of whoever drives one. Tests
that drive a core without this module (`core_doubles.shell`) keep the same ones.

One operation at a time
    The core's memory has no locks. `_lock` lets one operation run, together with its write; those that others
    wait for go first (`priority_lock`). No operation may await anything between its question and its write.

Write at once
    `operation(core, now_ms)` returns an answer and changes. Memory has changed by then, so the write must
    follow before anything else happens: the next operation sees both. If the store is stalled by its own
    compaction, the lock is held until the write has succeeded. Being cancelled does not spare the write.

Flush, then answer
    A write is in the store's log, but not yet on the disk. `apply` returns a *mark*, the number of the write;
    `durable(mark)` waits for a flush that began after it. One flush in a thread makes all writes before it
    durable, so the more requests wait, the less a flush costs each. `run` does both. Questions wait likewise:
    an answer that shows state which a power loss then takes back would be a promise broken. So do refusals.
    Verdicts on known URIs wait for the rows of these URIs alone: most of what nodes offer is known, and
    changes nothing but counts of verdicts, of which a power loss may take the last ones.

Events leave last
    Events are rows like others. The thread that flushes also writes them to `job.log`, before anybody's
    answer may leave: what a follower has seen must be in the log after any crash.

Fail as a whole
    An exception in an operation, other than a refusal (`FrontierError`, raised before anything has changed),
    means that memory and store may disagree. Nothing is repaired: `failed` is set, all waits end, the
    server ends with an error, and the next start reads memory from the store. A failing write or flush is
    treated the same: after an fsync that failed, nobody knows what the disk has.

Time
    `clock` gives times that never decrease. While the server was away (suspended, stopped, or too busy to
    answer) nodes could not be heard; `_presence` asks the core like a node, and what passes beyond a
    heartbeat until the answer is excused: it lapses no lease.

Nothing unasked
    The core does nothing by itself. It says when something is due (`upkeep.next_due_ms`), and the timer calls
    `upkeep.tick` then. It says that jobs have work, and the worker calls `upkeep.work`, a slice at a time,
    with pauses as long as the slices, so that requests go in between. The watcher tells it of the disk.

Waking who waits
    A *Next* with nothing to lease waits here, not in the core. Any change may have made something leasable,
    so after each one the core is asked for whom (`waiting`). Followers of events and outcomes wait for the
    next change of their crawl.

The timer, the worker and the watcher are `tasks`: if one of them ends, so does the server. `exchange` handles
requests that take several operations.
"""

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, Protocol, TypeVar

import structlog

from ..core.core import Core
from ..core.opening.troubles import DISK_RESERVE
from ..core.rows.errors import FrontierError, StoreCorrupt
from ..core.rows.keys import are_counts
from ..core.rows.records import EventRow
from ..core.rows.store import Changes, WritableStore, WriteStalled
from .absence import Absence
from .clock import Clock
from .priority_lock import PriorityLock, go_first
from .tasks import Closing, Tasks, message_of
from .waiters import Sought, Waiters

__all__ = ["Closing", "Runner", "TryLater"]

A = TypeVar("A")

Took = Callable[[float], None]
"""Gets how many seconds something took."""

STALL_RETRY_S = 0.01
WATCH_EVERY_S = 0.5
MAX_PRESENCE_S = 1.0
MAX_TIMER_S = 60.0
LOG_RETRY_MS = 1_000
CLOSE_S = 10.0  # for the last write and the last flush
CLOSE_AWAY_S = 1.0  # for the same, if a log's storage has not answered for long
MIN_PAUSE_S, MAX_PAUSE_S = 0.001, 0.01  # between slices of jobs: as long as the last slice took

_log = structlog.get_logger()


class TryLater(Exception):
    """The server is overloaded, or its disk is nearly full. Try again later."""

    def __init__(self, reason: str, message: str, retry_ms: int) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_ms = retry_ms


async def _nothing() -> None:
    return


def _always() -> bool:
    return True


class News(NamedTuple):
    """Events of a crawl that its log lacks."""

    crawl: str
    launch_id: str
    rows: list[tuple[int, EventRow]]


class EventLog(Protocol):
    """What writes events when they are durable, and before anybody sees them (`logs.job_feed`)."""

    def note(self) -> set[str]:
        """Note that all events until now are in the store. Returns the names of their crawls."""

    def collect(self) -> list[News]:
        """The events noted since the last call, and those that are due for a retry."""

    def write(self, found: list[News]) -> None:
        """Write events. May block; call it in a thread."""

    def overdue(self) -> bool:
        """Whether it is time to retry what could not be written."""


class Ownership(Protocol):
    """A store's log elsewhere, which another process may own by now (`stores.logged`)."""

    @property
    def is_current(self) -> bool:
        """Whether this process owns the log, as far as it has looked a moment ago. A flush looks again."""

    @property
    def waits_for(self) -> str:
        """Why a flush has waited for long; empty if none has."""

    def abandon(self) -> None:
        """End a flush that waits: it fails."""


def _untold(_: float) -> None:
    return


class Runner:
    """Runs a core over a store. All answers of its public coroutines are durable, except those of `apply`."""

    def __init__(
        self,
        core: Core,
        store: WritableStore,
        clock: Clock,
        data: Path,
        disk_reserve_bytes: int,
        heartbeat_ms: int,
        feed: EventLog,
        sync: bool = True,
        when_idle: Callable[[], Awaitable[None]] = _nothing,
        read_only: bool = False,
        is_reached: Callable[[], bool] = _always,
        ownership: Ownership | None = None,
    ) -> None:
        """Nodes are excused for the time beyond `heartbeat_ms` in which this server fails to answer, or in
        which none can reach it (`is_reached`); `when_idle` is called now and then without jobs. With
        `read_only` nothing happens unasked."""
        self.core = core
        self.read_only = read_only
        self._when_idle = when_idle
        self._is_reached = is_reached
        self._ownership = ownership
        self._feed = feed
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.corrupt: StoreCorrupt | None = None  # the failure, if the store contradicts itself
        self._store = store
        self._clock = clock
        self._data = data
        self._disk_reserve_bytes = disk_reserve_bytes
        self._sync = sync
        self._absence = Absence(heartbeat_ms, clock.now_ms())
        self._presence_s = min(heartbeat_ms / 2000, MAX_PRESENCE_S)
        self._lock = PriorityLock()
        self._written = 0  # number of writes
        self._binding = 0  # the last of them that was not of counts alone
        self._durable = 0  # number of durable writes
        self._durable_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._flush_wanted = asyncio.Event()
        self._event_waiters: dict[str, asyncio.Future[None]] = {}  # by crawl
        self._change_waiters: set[asyncio.Future[None]] = set()
        self._log_wanted = asyncio.Event()
        self._work_wanted = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._disk_low = self._pressed = False
        self._flush_took: Took = _untold
        self._write_took: Took = _untold
        self._closing = False
        self.tasks = Tasks(self._fail)
        self.waiting = Waiters(self._lock, self.tasks)  # for leases
        if read_only:
            return
        self.tasks.keep("flusher", self._flusher())
        self.tasks.keep("worker", self._worker())
        self.tasks.keep("watcher", self._watcher())
        self.tasks.keep("presence", self._presence())
        self._after_operation(True)

    def now_ms(self) -> int:
        """The frontier's time."""
        return self._clock.now_ms()

    def measure(self, flush: Took, write: Took) -> None:
        """Tell how long each flush and each write takes from now on."""
        self._flush_took, self._write_took = flush, write

    @property
    def awaiting_flush(self) -> int:
        """How many answers wait until what they tell is durable."""
        return len(self._durable_waiters)

    # Running operations.

    async def run(self, operation: Callable[[Core, int], tuple[A, Changes]]) -> A:
        """Run an operation. Returns its answer when its changes are durable."""
        answer, mark = await self.apply(operation)
        await self.durable(mark)
        return answer

    async def apply(
        self, operation: Callable[[Core, int], tuple[A, Changes]], tells_counts: bool = True
    ) -> tuple[A, int]:
        """Run an operation and write its changes. The answer may leave when the returned mark is durable. If
        it tells no counts, that is the mark of the last write that was not of counts alone.

        A refusal reveals stored state, too, so it is raised only when all writes are durable.
        """
        try:
            answer = await self._apply(operation)
        except FrontierError:
            await self.durable(self._written)
            raise
        return answer, self._written if tells_counts else self._binding

    async def _apply(self, operation: Callable[[Core, int], tuple[A, Changes]]) -> A:
        async with self._lock:
            if self._closing:
                raise self._closed()
            try:
                answer, changes = operation(self.core, self._clock.now_ms())
                if changes:
                    await self._write(changes)
                if not self.read_only:
                    self._after_operation(bool(changes))
            except (FrontierError, Closing):
                raise
            except Exception as problem:
                # Memory and store may disagree now: a restart rebuilds memory.
                self._fail(message_of(problem, "an operation failed"), problem)
                _log.exception("operation_failed")
                raise self._closed() from problem
            return answer

    async def read(self, question: Callable[[Core, int], A]) -> A:
        """Read from the core. Returns the answer when all that it may have read is durable."""

        def operation(core: Core, now_ms: int) -> tuple[A, Changes]:
            return question(core, now_ms), {}

        return await self.run(operation)

    async def durable(self, mark: int) -> None:
        """Wait until everything up to a mark is durable, and this process is known to own the store."""
        if self._durable >= mark and (self._ownership is None or self._ownership.is_current):
            return
        if self.failed.done():
            raise self._closed()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._durable_waiters.append((mark, waiter))
        self._flush_wanted.set()
        await waiter

    async def _write(self, changes: Changes) -> None:
        cancelled = False
        start_s = perf_counter()
        while True:
            try:
                self._store.write(changes)
            except WriteStalled as stall:
                self._pressed = True
                _log.warning("write_stalled", problem=str(stall))
            else:
                break
            if self.failed.done():
                raise self._closed()
            try:
                await asyncio.sleep(STALL_RETRY_S)  # the lock is held: no other operation runs
            except asyncio.CancelledError:
                cancelled = True  # memory has changed, so the write must still succeed
        self._write_took(perf_counter() - start_s)
        self._written += 1
        if not are_counts(changes):
            self._binding = self._written
        task = asyncio.current_task()
        if cancelled and task is not None:
            task.cancel()  # cancel again at the next wait, after the operation

    async def _flusher(self) -> None:
        go_first()  # all others wait for the flush anyway
        while True:
            await self._flush_wanted.wait()
            self._flush_wanted.clear()
            mark = self._written  # a flush covers what was written before it began
            news = self._feed.collect()
            if self._sync or news:
                start_s = perf_counter()
                await asyncio.to_thread(self._make_durable, news)
                self._flush_took(perf_counter() - start_s)
            self._durable = mark
            waiting = []
            for wanted, waiter in self._durable_waiters:
                if wanted > mark:
                    waiting.append((wanted, waiter))
                elif not waiter.done():
                    waiter.set_result(None)
            self._durable_waiters = waiting
            if waiting:
                self._flush_wanted.set()
            if self._store.log_is_full():
                await self._rotate_wal()

    async def _rotate_wal(self) -> None:
        """Let the store begin a new log while no operation writes."""
        async with self._lock:
            if not self._closing:
                await asyncio.to_thread(self._store.rotate_wal)

    def _make_durable(self, news: list[News]) -> None:
        """Flush, then write the job logs: events must be logged before followers see them."""
        if self._sync:
            self._store.flush()
        self._feed.write(news)

    def _after_operation(self, changed: bool) -> None:
        core = self.core
        if changed:
            told = self._feed.note()
            for crawl in told & self._event_waiters.keys():
                self._event_waiters.pop(crawl).set_result(None)
            self._log_wanted.set()
            _wake(self._change_waiters)
            if core.upkeep.has_work:
                self._work_wanted.set()
            if told:
                self._wake_nodes(lambda sought: True)
            else:
                self._wake_nodes(lambda sought: core.frontier.leasable(*sought))
        self._arm()

    def _wake_nodes(self, concerns: Callable[[Sought], bool]) -> None:
        if self.waiting:
            self.waiting.wake(concerns, lambda sought: self.core.frontier.expected(*sought))

    def _arm(self) -> None:
        due_ms = self.core.upkeep.next_due_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_s = min(max(due_ms - self._clock.now_ms(), 0) / 1000, MAX_TIMER_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fell_due)

    def _fell_due(self) -> None:
        self._timer = None
        self.tasks.once("timer", self._tick())

    async def _tick(self) -> None:
        def operation(core: Core, now_ms: int) -> tuple[None, Changes]:
            self._excuse(core, now_ms)  # first, or leases would lapse whose heartbeats wait to be read
            return core.upkeep.tick(now_ms)

        await self.apply(operation)
        self._wake_nodes(lambda sought: self.core.frontier.leasable(*sought))

    async def _presence(self) -> None:
        """Regularly make a request as nodes do: while it gets no answer, nodes get none either."""
        while True:
            await asyncio.sleep(self._presence_s)
            await self.read(lambda core, now_ms: None)
            now_ms = self._clock.now_ms()
            self._excuse(self.core, now_ms)
            if not self._is_reached():
                continue
            if excused_ms := self._absence.answered(now_ms):
                _log.warning("was_away", excused_ms=excused_ms)

    def _excuse(self, core: Core, now_ms: int) -> None:
        if more_ms := self._absence.more_ms(now_ms):
            core.upkeep.excuse(more_ms, now_ms)

    async def _worker(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):  # a request may have opened what `when_idle` closes
                async with asyncio.timeout(WATCH_EVERY_S):
                    await self._work_wanted.wait()
            self._work_wanted.clear()
            while self.core.upkeep.has_work:
                start_s = loop.time()
                await self.apply(lambda core, now_ms: core.upkeep.work(now_ms))
                # Let others run; the threads that flush and serve gRPC need an idle loop.
                await asyncio.sleep(min(max(loop.time() - start_s, MIN_PAUSE_S), MAX_PAUSE_S))
            await self._when_idle()

    async def _watcher(self) -> None:
        """Watch the disk, the pressure on the store, and job logs due for a retry."""
        looked = False
        while True:
            try:
                space = await asyncio.to_thread(os.statvfs, self._data)
            except OSError as problem:
                _log.warning("disk_space_unknown", problem=str(problem))  # the last result stays valid
            else:
                low = space.f_bavail * space.f_frsize < self._disk_reserve_bytes
                if low and not self._disk_low:
                    _log.warning("disk_low", reserve_bytes=self._disk_reserve_bytes)
                elif self._disk_low and not low:
                    _log.warning("disk_has_room", reserve_bytes=self._disk_reserve_bytes)
                if low != self._disk_low or not looked:  # crawls may have paused before this start
                    self._disk_low, looked = low, True
                    await self._record_disk(low)
            self._pressed = self._store.pressed()
            if await asyncio.to_thread(self._feed.overdue):  # in a thread: a write may hold its lock
                self._flush_wanted.set()  # a flush also writes the job logs
            await asyncio.sleep(WATCH_EVERY_S)

    async def _record_disk(self, low: bool) -> None:
        """Pause crawls while the disk is nearly full."""
        free = f"less than {self._disk_reserve_bytes >> 20} MiB is free on the frontier's disk"
        trouble = (DISK_RESERVE, f"{free}; make room, then resume") if low else None
        await self.apply(lambda core, now_ms: core.upkeep.record_trouble(trouble, now_ms))

    def _fail(self, why: str, problem: BaseException | None = None) -> None:
        self._closing = True
        if not self.failed.done():
            self.failed.set_result(why)
            self.corrupt = problem if isinstance(problem, StoreCorrupt) else None
        self._release_waiters()

    def _closed(self) -> Closing:
        return Closing("STORE_FAILED" if self.failed.done() else "SHUTTING_DOWN")

    def _release_waiters(self) -> None:
        for _, waiter in self._durable_waiters:
            if not waiter.done():
                waiter.set_exception(self._closed())
        self._durable_waiters.clear()
        self._wake_all()

    async def is_alive(self) -> None:
        """Return once an operation could run. Answers may still have to wait for a log's storage."""
        if self._ownership is None:
            await self.read(lambda core, now_ms: None)
        else:
            await self.apply(lambda core, now_ms: (None, {}))

    @property
    def answers(self) -> bool:
        """Whether no answer waits for a log's storage that is away."""
        return self._ownership is None or not self._ownership.waits_for

    @property
    def serving(self) -> bool:
        """Whether the runner accepts operations."""
        return not self._closing

    def begin_close(self) -> None:
        """Refuse new operations, and end all waits. Earlier writes are still flushed."""
        self._closing = True
        self._wake_all()

    def _wake_all(self) -> None:
        self.waiting.wake_at_once()
        _wake(self._change_waiters)
        for waiter in self._event_waiters.values():
            waiter.set_result(None)
        self._event_waiters.clear()

    async def close(self) -> None:
        """Flush, and end all tasks. The caller closes the store."""
        self.begin_close()
        waits_for = "" if self._ownership is None else self._ownership.waits_for
        close_s = CLOSE_AWAY_S if waits_for else CLOSE_S
        try:
            async with asyncio.timeout(close_s):
                async with self._lock:
                    pass  # wait for the operation in progress
                await self.durable(self._written)
        except Closing:
            pass  # `failed` has the reason
        except TimeoutError:
            where, why = "disk" if self._ownership is None else "log", f": {waits_for}" if waits_for else ""
            self._fail(f"the last write did not reach the {where} within {close_s:g} s{why}")
        if self._ownership is not None:
            self._ownership.abandon()
        if self._timer is not None:
            self._timer.cancel()
        await self.tasks.end()
        self._release_waiters()

    # Admission, and waits for changes.

    def admit(self) -> None:
        """Raise TryLater if the disk or the store cannot take in more now. Call it before the core runs."""
        if self._disk_low:
            raise TryLater(
                "DISK_RESERVE", "the frontier's disk is nearly full; make room, or try later", 30_000
            )
        if self._pressed:
            raise TryLater("OVERLOADED", "the frontier's store can't keep up with writes; try later", 500)

    @property
    def log_check(self) -> Callable[[], None] | None:
        """What raises TryLater while answers wait for the store's log, whose storage is away or slow; None if
        the store has no log."""
        return None if self._ownership is None else functools.partial(_check_log, self._ownership)

    def next_change(self) -> asyncio.Future[None]:
        """A future that is done at the next change, or when the server closes."""
        if not self._change_waiters:
            self._change_waiters.add(asyncio.get_running_loop().create_future())
        return next(iter(self._change_waiters))

    def next_event(self, crawl: str) -> asyncio.Future[None]:
        """A future that is done at a crawl's next event, or when the server closes. Don't cancel it."""
        if crawl not in self._event_waiters:
            self._event_waiters[crawl] = asyncio.get_running_loop().create_future()
        return self._event_waiters[crawl]

    async def until_log_wanted(self, timeout_s: float) -> None:
        """Wait until there may be new outcomes for the crawl logs, or for `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):  # wait_for may swallow a cancellation (Python 3.11)
                await self._log_wanted.wait()
        except TimeoutError:
            return
        self._log_wanted.clear()


def _check_log(ownership: Ownership) -> None:
    if problem := ownership.waits_for:
        raise TryLater("OVERLOADED", f"the frontier waits for its log: {problem}; try later", LOG_RETRY_MS)


def _wake(waiters: set[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
