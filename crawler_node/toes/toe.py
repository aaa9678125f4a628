"""ToeThread: takes leases one after the other, sends each through the chain, and hands its page over.

An error at a lease does not end its thread, unless it is one that is meant to end threads.
"""

import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

import structlog

from .. import tracing
from ..fetching.outcome import Status
from ..leases.book import HeldLease, LeaseBook, LeaseStage
from ..leases.report import FinishedPage, failed, released
from .chain import Killed, Step, ToeChain
from .frames import thread_frames

_TRACED = {
    Step.FETCHING: tracing.FETCH,
    Step.EXTRACTING: tracing.EXTRACT,
    Step.WRITING: tracing.WRITE,
    Step.FINISHING: tracing.REPORT,
}
"""The steps that are stages of a trace."""

log = structlog.get_logger()


class Handover(Protocol):
    """Takes the pages that toes are done with."""

    def put(self, page: FinishedPage) -> None:
        """Takes a page; waits while there are too many."""


@dataclass(frozen=True, slots=True)
class ToeReport:
    """A toe thread at one moment, as Heritrix's ToeThread reports it. Times are monotonic."""

    serial: int
    step: Step
    step_since_s: float
    held: HeldLease | None
    """The lease that it works on."""
    held_since_s: float
    retired: bool
    killed: bool
    abandoned: bool


class ToeThread:
    """One toe thread, idle at first. `start` lets it work until it is retired."""

    def __init__(self, serial: int, book: LeaseBook, chain: ToeChain, handover: Handover) -> None:
        self._serial = serial
        self._book = book
        self._chain = chain
        self._handover = handover
        self._leaving = threading.Event()
        self._killed = self._abandoned = False
        self._held: HeldLease | None = None
        self._step, self._step_since_s = Step.ABOUT_TO_GET_URI, time.monotonic()
        self._held_since_s = self._step_since_s
        self._thread = threading.Thread(target=self._run, name=f"toe-{serial}", daemon=True)

    def __repr__(self) -> str:
        flags = ("retired", self.retired), ("killed", self._killed), ("left behind", self._abandoned)
        at = f"{self._step} for {time.monotonic() - self._step_since_s:.1f} s"
        state = ", ".join([at, *(name for name, holds in flags if holds)])
        return f"<ToeThread {self._serial}: {state}, with {self._held}>"

    @property
    def serial(self) -> int:
        """Its number, which no other thread of the pool ever has."""
        return self._serial

    @property
    def step(self) -> Step:
        return self._step

    @property
    def step_since_s(self) -> float:
        """When it began that step."""
        return self._step_since_s

    @property
    def held(self) -> HeldLease | None:
        """The lease that it works on."""
        return self._held

    @property
    def retired(self) -> bool:
        """Whether it was told to end."""
        return self._leaving.is_set()

    @property
    def killed(self) -> bool:
        return self._killed

    def start(self) -> None:
        """Begins to work."""
        self._thread.start()

    def retire(self) -> None:
        """Ends the thread after the lease that it works on, or while it waits for one: LeaseBook.resize makes
        it look."""
        self._leaving.set()

    def kill(self) -> None:
        """Breaks off its lease, which fails with -7000, and ends the thread as soon as it notices."""
        self._killed = True
        self._leaving.set()
        self.break_off()

    def break_off(self) -> None:
        """Interrupts its lease, which fails with -7000 unless it comes to an end first."""
        held = self._held
        if held is not None:
            self._book.break_off(held)

    def abandon(self) -> HeldLease | None:
        """Leaves the thread behind, and discards any page that it still brings. Returns the lease that is
        taken away from it, to report it without the thread; None if it has none, or has handed its page
        over."""
        held = self._held
        if held is None or not self._book.take_away(held):
            return None
        self._abandoned = True
        self._leaving.set()
        return held

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float | None = None) -> None:
        """Waits for the thread's end."""
        self._thread.join(timeout_s)

    def report(self) -> ToeReport:
        """The state of the thread now."""
        return ToeReport(
            serial=self._serial,
            step=self._step,
            step_since_s=self._step_since_s,
            held=self._held,
            held_since_s=self._held_since_s,
            retired=self.retired,
            killed=self._killed,
            abandoned=self._abandoned,
        )

    def stack(self, frames: Mapping[int, FrameType] | None = None) -> str:
        """Where in the program it is, innermost call last; empty if it does not run.

        `frames` are those of all threads (thread_frames): a caller that asks many threads takes them
        once.
        """
        frames = thread_frames() if frames is None else frames
        frame = frames.get(self._thread.ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame))

    # the thread's own side

    def enter(self, step: Step) -> None:
        """Notes what it is doing now. Raises Killed if it was killed."""
        self._note(step)
        if self._killed or self._abandoned:
            raise Killed

    def _note(self, step: Step) -> None:
        self._step_since_s = time.monotonic()
        self._step = step
        held = self._held
        if held is not None and held.trace is not None and step in _TRACED:
            held.trace.enter(_TRACED[step])

    def _run(self) -> None:
        try:
            while (held := self._book.take(self._leaving)) is not None:
                if held.stage is LeaseStage.STARTED:
                    self._work(held)
                else:  # the lease had lapsed before the toe could start it
                    self._handover.put(FinishedPage(held, released(held.lease)))
        except BaseException:  # the thread dies, and the pool replaces it
            log.error("toe_failed", toe=self._serial, exc_info=True)

    def _work(self, held: HeldLease) -> None:
        self._held_since_s = time.monotonic()
        self._held = held
        try:
            self._finish(self._chain.process(held, self))
        except BaseException:  # a lease is handed back, whatever ends its thread
            status, reason = Status.PROCESSING_THREAD_KILLED, "its toe thread died"
            report = failed(held.lease, status, self._serial, "toeDied", reason=reason)
            self._finish(FinishedPage(held, report))
            raise
        finally:
            self._held = None
            self._note(Step.ABOUT_TO_GET_URI)

    def _finish(self, page: FinishedPage) -> None:
        self._note(Step.FINISHING)
        if not self._book.claim(page.held):
            log.warning("page_discarded", toe=self._serial)
            return
        try:
            self._handover.put(page)
        finally:
            self._book.done(page.held)
