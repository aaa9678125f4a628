"""Node: a crawler node's life, from the first lease to the last report.

It owns the threads and decides when they begin and end; what they do is in their modules.

Threads
-------
poller      Asks the frontier for leases (*Next*, a long poll) and puts them into the book. It has a
            connection of its own, so that closing this one breaks off the poll without disturbing reports.
toes        As many as were asked for. Each takes a lease from the book, sends it through the chain (fetch,
            extract, archive), and hands its page to the reporter; then the next. A toe waits for the network,
            and for nothing else of this list but room in the reporter's backlog.
reporter    Takes all pages that have finished so far, syncs their files, offers their links (*Schedule*),
            reports them (*Finished*), and settles their leases in the book: in this order, always. Pages
            that need a shard of the frontier which is away wait in its outbox, and hold up no others.
heartbeat   Names every lease that the node holds, and obeys the answer: leases that are over, to be handed
            back or broken off, the number of toes, a drain.
watch       Replaces toes that died, leaves behind those that do not end, and tends the files.
main        `wait` sleeps until something ends: a signal, the parent, a thread, too many toes left behind.

Poller, reporter and heartbeat call the frontier, each again and again. What an error means, and how long to
rest, is the same for all that take leases, so it is not here but in `toehold_client.worker`.

Locks
-----
`LeaseBook` has one lock, and it alone decides who has which lease; its two conditions wake toes (work) and
the poller (room). `Reporter` has one for its backlog and its outbox, each writer of files has its own, and
the pool has one for its list of threads. The pool takes the book's and the reporter's while it holds its own,
one after the other; these two call nobody. No lock is held during a call to the frontier or during a fetch.

A lease is in the book from *Next*'s answer until its report is settled, and each heartbeat names it. If the
node dies, the frontier hears nothing, and gives its leases to others: that is all that a crash costs.

What happens on a drain
-----------------------
A signal (SIGTERM, SIGINT), the frontier's wish, or `drain`: `wait` goes on, in this order.

1.  No more leases: the poll is broken off, and what it still brings goes back unstarted. So does what is in
    the book and was not started. The toes end after the lease that they have.
2.  Fetches end by themselves; their own deadlines bound them. A second signal interrupts them: their pages
    are reported as put off, and do not count as tries.
3.  The reporter reports what is left, until it has, or until the frontier has been silent for too long
    (`Drain`). Pages that cannot be reported are lost work and nothing more: their leases lapse.
4.  A goodbye lets another process take the node's name at once. Files are closed, and get their final names.

What happens on a kill
----------------------
SIGKILL, or a power cut: nothing of the above. The next start finds files whose names still end in `.open`,
keeps their whole records, and gives them their final names (`output.repair`). A page whose records were
synced, but whose report was lost, is fetched again, and is then in the archive twice. The reverse cannot be:
no page is reported before its records are on the disk.

If the frontier has given the node's name to another process (`SUPERSEDED`), or a thread that must not end
has failed (`BROKEN`), reporting makes no sense any more: the node breaks off at once, and says so in its
exit code.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from math import inf
from queue import Empty, SimpleQueue

import structlog

from toehold_base.observability.tracing import Tracer
from toehold_client.errors import SessionSuperseded
from toehold_client.worker.contact import Contact

from .fetching.outcome import Status
from .leases.book import HeldLease, LeaseBook, LeaseStage
from .leases.frontier import FrontierConnection
from .leases.heartbeat import Heartbeat
from .leases.poller import Poller
from .leases.report import FinishedPage, failed
from .leases.reporter import Reporter
from .meter import UNMEASURED, Meter
from .output.archive import Archive
from .process import NodeExitCode
from .toes.chain import Stages, ToeChain
from .toes.pool import ToePool
from .toes.toe import ToeThread
from .tracing import trace_of

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Drain:
    """How a node ends.

    After `fetch_s` it interrupts the running fetches (None: only their own deadlines end them). It gives up
    reporting when the frontier, or each part that pages wait for, has been silent for `silence_s`, and after
    `report_s` in any case.
    """

    fetch_s: float | None
    silence_s: float
    report_s: float
    unreported: NodeExitCode
    """The exit code after giving up."""


ORDERLY = Drain(fetch_s=None, silence_s=30.0, report_s=inf, unreported=NodeExitCode.UNREPORTED)
"""At a signal."""

ORPHANED = Drain(fetch_s=10.0, silence_s=5.0, report_s=20.0, unreported=NodeExitCode.DRAINED)
"""When the parent has died: it ends soon, as the frontier may be gone as well."""

WORN_OUT = Drain(fetch_s=60.0, silence_s=30.0, report_s=inf, unreported=NodeExitCode.UNREPORTED)
"""When too many threads were left behind."""


BREAK_OFF_S = 5.0
"""How long toes have to end when nothing can be reported any more."""

MAX_LEFT_BEHIND = 3
"""A process ends when it has left more toe threads behind."""

WATCH_S = 0.5
"""How often the node checks its toe threads."""

MAX_IDLE_CRAWLS = 100
"""The most crawls that a heartbeat may ask about."""

LONG_SILENT_S = 600.0
"""When the frontier has not answered for so long, idle files are closed, as if their crawls had ended: it may
have been stopped for good."""

TEND_ROUNDS = 4
"""After how many checks the node tends its files."""

HURRY_S = 10.0
"""How long reporting may still take when the node is asked to end a second time."""

GOODBYE_S = 2.0
"""How long the node tries to tell the frontier that it has ended."""


class Node:
    """One crawler node. `start` it, then `wait` until it has ended; `drain` and `orphaned` make it end."""

    def __init__(
        self,
        *,
        frontier: FrontierConnection,
        polling: FrontierConnection,
        contact: Contact,
        stages: Stages,
        archive: Archive,
        crawl: str,
        toes: int,
        max_left_behind: int = MAX_LEFT_BEHIND,
        service_address: str = "",
        tracer: Tracer | None = None,
        meter: Meter = UNMEASURED,
    ) -> None:
        """`polling` is a second connection to the same frontier (see Poller). `stages` store in `archive`.
        `crawl` names the only crawl to fetch for; empty for any. The node ends, to be started anew, when it
        has left more than `max_left_behind` toe threads behind. `service_address` is that of its
        NodeService."""
        self._frontier = frontier
        self._contact = contact
        self._archive = archive
        self._toes = toes
        self._polling: threading.Thread | None = None
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._book = LeaseBook(trace_of=None if tracer is None else partial(trace_of, tracer))
        self._reporter = Reporter(frontier, self._book, archive)
        give_back = self._reporter.give_back
        self._fetcher = stages.fetcher
        self._chain = ToeChain(stages, meter)
        self._pool = ToePool(
            lambda serial: ToeThread(serial, self._book, self._chain, self._reporter),
            lambda size: give_back(self._book.resize(size)),
            self._report_left_behind,
        )
        self._max_left_behind = max_left_behind
        self._draining = False
        self._on_draining: Callable[[], None] = lambda: None
        self._on_keepalive: Callable[[], None] = lambda: None
        self._ended = threading.Event()
        self._heartbeat = Heartbeat(
            frontier,
            self._book,
            self._pool,
            give_back,
            toes=toes,
            service_address=service_address,
            drain=self.drain,
            trouble=lambda: archive.low_disk,
            idle_crawls=lambda: archive.idle_crawls(MAX_IDLE_CRAWLS),
            end_crawls=archive.end_crawls,
        )
        self._poller = Poller(polling, self._book, archive, crawl, give_back)
        archive.when_failing(lambda: give_back(self._book.suspend()))

    def start(self) -> None:
        """Starts the node's threads."""
        self._spawn("reporter", self._reporter.run, _Event.REPORTED)
        self._pool.set_size(self._toes)
        self._spawn("watch", self._watch)
        self._spawn("heartbeat", self._heartbeat.run, _Event.LEFT)
        self._polling = self._spawn("poller", self._poller.run)

    @property
    def pool(self) -> ToePool:
        """Its toe threads."""
        return self._pool

    @property
    def draining(self) -> bool:
        """Whether it takes no more leases, for good."""
        return self._draining

    def when_draining(self, act: Callable[[], None]) -> None:
        """Sets what to do when the node begins to end."""
        self._on_draining = act

    def on_keepalive(self, act: Callable[[], None]) -> None:
        """Sets what to do, again and again, as long as the node keeps its toe threads in order."""
        self._on_keepalive = act

    def held_counts(self) -> dict[LeaseStage, int]:
        """How many leases it holds, by stage."""
        return self._book.counts()

    @property
    def frontier_silent_s(self) -> float:
        """How long ago the frontier answered last; before its first answer, how long the node has run."""
        return time.monotonic() - self._contact.answered_at_s()

    def unreported_count(self) -> int:
        """How many finished pages wait for their report."""
        return self._reporter.unreported_count()

    def outbox_count(self) -> int:
        """How many of these wait for a shard of the frontier that is away."""
        return self._reporter.outbox_count()

    def drain(self) -> None:
        """Asks the node to end in order. A second call makes it hurry."""
        self._draining = True
        self._events.put(_Event.ASKED)

    def orphaned(self) -> None:
        """Tells the node that its parent has died. It then ends soon."""
        self._events.put(_Event.ORPHANED)

    def wait(self) -> NodeExitCode:
        """Waits until the node has ended. Closes the WARC files, whatever happened."""
        try:
            why = self._next_event() or _Event.ASKED
            self._draining = True
            self._take_no_more()
            orphaned, worn = why is _Event.ORPHANED, why is _Event.WORN_OUT
            drain = ORPHANED if orphaned else WORN_OUT if worn else ORDERLY
            exit_code = self._finish_reports(self._finish_fetches(drain))
            return NodeExitCode.WORN_OUT if worn and exit_code is NodeExitCode.DRAINED else exit_code
        except _BrokenOff as end:
            self._take_no_more()
            self._break_off()
            return end.exit_code
        finally:
            self._close()

    def _take_no_more(self) -> None:
        """Hands back the leases that have not been started, and lets each toe finish its own."""
        log.info("draining")
        self._on_draining()
        self._poller.stop()
        self._reporter.lift_bound()
        self._reporter.give_back(self._book.close())
        self._pool.close()
        self._fetcher.close()
        self._spawn("drain", self._join_toes, _Event.TOES_ENDED)

    def _finish_fetches(self, drain: Drain) -> Drain:
        """Waits for the toes. Interrupts them when the node must hurry, or when `drain.fetch_s` is over."""
        until_s = None if drain.fetch_s is None else time.monotonic() + drain.fetch_s
        interrupted = False
        while (event := self._next_event(until_s)) is not _Event.TOES_ENDED:
            if event is _Event.WORN_OUT:
                continue
            if event is _Event.ORPHANED:
                drain = ORPHANED
            if interrupted:  # toes that do not end are left behind
                continue
            if event is _Event.ORPHANED:
                until_s = time.monotonic() + (ORPHANED.fetch_s or 0.0)
            else:
                log.info("fetches_interrupted")
                self._book.interrupt_started()
                interrupted, until_s = True, None
        return drain

    def _finish_reports(self, drain: Drain) -> NodeExitCode:
        """Waits until everything is reported, or the frontier has been silent for too long; or a part of it,
        and all that is left waits for that."""
        self._reporter.finish(drain.silence_s)
        begun_s = time.monotonic()
        at_most_s = begun_s + drain.report_s
        while True:
            silent_s = max(begun_s, self._contact.answered_at_s()) + drain.silence_s
            event = self._next_event(min(at_most_s, silent_s))
            if event is _Event.REPORTED:
                self._say_goodbye()
                return self._unreported(drain) if self._reporter.unreported_count() else NodeExitCode.DRAINED
            if event in (_Event.ASKED, _Event.ORPHANED):
                at_most_s = min(at_most_s, time.monotonic() + HURRY_S)
            if event is _Event.ORPHANED:
                drain = ORPHANED
            answered_s = max(begun_s, self._contact.answered_at_s())
            if event is None and time.monotonic() >= min(at_most_s, answered_s + drain.silence_s):
                return self._unreported(drain)

    def _unreported(self, drain: Drain) -> NodeExitCode:
        log.error("pages_unreported", pages=self._reporter.unreported_count())
        return drain.unreported

    def _say_goodbye(self) -> None:
        """Tells the frontier that this node is gone, unless that takes too long."""
        self._heartbeat.leave()
        until_s = time.monotonic() + GOODBYE_S
        with suppress(_BrokenOff):  # all is reported, so another process may take the name
            while self._next_event(until_s) not in (_Event.LEFT, None):
                pass

    def _break_off(self) -> None:
        """Ends at once, as nothing more can be reported, or the thread that should do so is broken."""
        self._reporter.abandon()
        self._book.interrupt_started()
        until_s = time.monotonic() + BREAK_OFF_S
        with suppress(Empty):
            while self._events.get(timeout=max(0.0, until_s - time.monotonic())) is not _Event.TOES_ENDED:
                pass

    def _watch(self) -> None:
        """Keeps the pool whole until the node has ended."""
        worn_out = False
        rounds = 0
        while not self._ended.wait(WATCH_S):
            rounds += 1
            if rounds % TEND_ROUNDS == 0:
                if self.frontier_silent_s > LONG_SILENT_S:
                    self._archive.end_crawls(self._archive.idle_crawls(MAX_IDLE_CRAWLS))
                self._archive.tend()
            self._pool.watch()
            self._chain.mend()
            self._on_keepalive()
            left_behind = self._pool.left_behind_count
            if left_behind > self._max_left_behind and not worn_out:
                log.error("worn_out", toes=left_behind)
                self._events.put(_Event.WORN_OUT)
                worn_out = True

    def _report_left_behind(self, held: HeldLease, serial: int) -> None:
        """Reports a lease without the toe that works on it. A fetch that the node's end interrupted counts as
        not tried."""
        status = Status.PROCESSING_THREAD_KILLED if held.killed else Status.DEFERRED
        reason = "its toe thread did not end" if held.killed else "the node ended"
        report = failed(held.lease, status, serial, "leftBehind", reason=reason)
        self._reporter.append([FinishedPage(held, report)])

    def _close(self) -> None:
        self._ended.set()
        self._heartbeat.stop()
        self._reporter.abandon()
        try:
            self._archive.close()
        except OSError as error:
            log.error("output_not_closed", error=str(error))
        self._frontier.close()

    def _next_event(self, until_s: float | None = None) -> "_Event | None":
        """The next event; None if there is none until then. Raises _BrokenOff."""
        try:
            event = self._events.get(
                timeout=None if until_s is None else max(0.0, until_s - time.monotonic())
            )
        except Empty:
            return None
        if event is _Event.SUPERSEDED:
            raise _BrokenOff(NodeExitCode.SUPERSEDED)
        if event is _Event.BROKEN:
            raise _BrokenOff(NodeExitCode.UNREPORTED)
        return event

    def _join_toes(self) -> None:
        if self._polling is not None:
            self._polling.join()  # it may have one more answer, whose leases go back
        self._pool.join()

    def _spawn(self, name: str, run: Callable[[], None], at_end: "_Event | None" = None) -> threading.Thread:
        """Starts a thread. Its end becomes an event, whether it returns or fails."""

        def guarded() -> None:
            try:
                run()
            except SessionSuperseded as error:
                log.error("superseded", error=str(error), request_id=error.request_id)
                self._events.put(_Event.SUPERSEDED)
            except Exception:
                log.error("thread_failed", thread=name, exc_info=True)
                self._events.put(_Event.BROKEN)
            else:
                if at_end is not None:
                    self._events.put(at_end)

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread


class _Event(Enum):
    ASKED = auto()
    ORPHANED = auto()
    WORN_OUT = auto()
    TOES_ENDED = auto()
    REPORTED = auto()
    LEFT = auto()
    SUPERSEDED = auto()
    BROKEN = auto()


class _BrokenOff(Exception):
    """The node must end at once."""

    def __init__(self, exit_code: NodeExitCode) -> None:
        super().__init__(exit_code.name)
        self.exit_code = exit_code
