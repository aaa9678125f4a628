"""The server's own door: time, jobs, logs and troubles.

Every operation returns *(answer, changes)*.
"""

from collections.abc import Mapping

from .jobs.housekeeping import Housekeeping
from .jobs.work import unload_slice, work_slice
from .journey.dispatch import Dispatcher
from .journey.reports import Lapse, Reports
from .machines.lifecycle import CrawlState
from .machines.target import Target
from .opening import troubles
from .opening.shard import Shard
from .operators.history import outcomes_after
from .rows import keys
from .rows.records import OutcomeRow
from .rows.store import Changes, Family
from .state import life
from .state.crawl import Crawl
from .state.operation import Operation
from .state.sweeps import CRAWLS_PER_SLICE

LAPSES_PER_TICK = 200
OUTCOMES_DROPPED_PER_CALL = 2000


class Upkeep:
    """Work that the server does unasked."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._dispatcher = Dispatcher(shard)
        self._reports = Reports(shard)
        self._housekeeping = Housekeeping(shard.hosts, shard.robots, shard.now_ms)
        self._turn = 0  # slices of jobs and deletions so far

    # Time.

    def tick(self, now_ms: int) -> tuple[None, Changes]:
        """Do what is due: end expired leases, wake queues, enforce the bounds of pauses and stops."""
        op = self._shard.begin(now_ms)
        self._shard.sweeps.slice(op, self._shard.crawls)
        for _ in range(LAPSES_PER_TICK):
            lease = self._shard.leases.lapsed(op.now_ms)
            if lease is None:
                break
            self._reports.lapse(op, lease)
        if self._shard.leases.nodes.fall_silent(op.now_ms):
            self._shard.reconcile(op)
        for number in self._shard.agenda.take_due(op.now_ms, CRAWLS_PER_SLICE):
            crawl = self._shard.crawls[number]
            op.look_at(crawl)
            if crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
                self._dispatcher.wake_due(op, crawl)
            if crawl.must_settle(op.now_ms):
                op.counters(crawl)
            bound = crawl.bound
            if bound is not None and bound[0] <= op.now_ms:
                self._cancel(op, crawl, bound[1])
        return None, self._shard.end(op)

    def _cancel(self, op: Operation, crawl: Crawl, bound: str) -> None:
        """End some of the leases that a pause or a stop has waited for too long."""
        row = crawl.state_row
        if row.cancelled != row.request:
            row.cancelled = row.request
            op.put_state(crawl)
            op.event(crawl, "flights_cancelled", leased_count=crawl.leases_out, bound=bound)
        why = Lapse.PAUSE if crawl.state is CrawlState.PAUSING else Lapse.STOP
        for lease in self._shard.leases.of_crawl(crawl.number)[:LAPSES_PER_TICK]:
            self._reports.lapse(op, lease, why)

    def excuse(self, away_ms: int, now_ms: int) -> None:
        """Exclude the time in which this frontier could not answer: it was stopped, or its disk hung.

        The deadlines of leases, nodes, pauses and stops move, so that nodes can first be heard again. That is
        not stored: a restart gives leases a fresh period anyway. The clocks of crawls leave the time out.
        """
        until_ms = max(now_ms, self._shard.now_ms)
        self._shard.leases.excuse(away_ms, until_ms)
        for crawl in self._shard.crawls.values():
            if crawl.state_row.running_since_ms:
                crawl.leave_out(until_ms - away_ms, until_ms)
                self._shard.clocks[crawl.number] = crawl
                self._shard.agenda.note(crawl)
            if crawl.leases_out:
                crawl.excused_ms += away_ms
                self._shard.agenda.note(crawl)

    def next_due_ms(self) -> int | None:
        """The next time to `tick`."""
        due = [
            self._shard.leases.next_deadline_ms(),
            self._shard.leases.nodes.next_silence_ms(),
            self._shard.agenda.next_due_ms(),
        ]
        if self._shard.sweeps:
            due.append(self._shard.now_ms)
        return min((moment for moment in due if moment is not None), default=None)

    # Jobs.

    @property
    def has_work(self) -> bool:
        """Whether `work` has a slice to do."""
        idle = not (self._shard.registry.deletions or self._shard.agenda.working)
        return not idle or self._housekeeping.wanted(self._shard.now_ms)

    def work(self, now_ms: int) -> tuple[None, Changes]:
        """Do one slice of work, if there is any; crawls take turns."""
        op = self._shard.begin(now_ms)
        working, deletions = len(self._shard.agenda.working), self._shard.registry.deletions
        self._turn += 1
        if deletions and self._turn % (working + 1) == 0:
            if not deletions[0].slice(op):
                deletions.pop(0)
        elif working:
            crawl = self._shard.agenda.next_at_work()
            if crawl.jobs:
                work_slice(op, self._shard, crawl)
            else:
                unload_slice(op, crawl)
        elif self._housekeeping.wanted(op.now_ms):
            validities = (crawl.settings.robots.validity_ms for crawl in self._shard.crawls.values())
            self._housekeeping.slice(op, max(validities, default=0))
        return None, self._shard.end(op)

    # Troubles.

    def record_trouble(self, trouble: tuple[str, str] | None, now_ms: int) -> tuple[None, Changes]:
        """Note trouble (kind and message) that keeps all crawls from running; None: the trouble is over.

        Trouble pauses the running crawls, and each crawl that would start to run meanwhile. When the trouble
        is over, crawls resume if their specs say so. Some do at once, the others with the next ticks: until
        then no crawl that is to pause gives leases.
        """
        op = self._shard.begin(now_ms)
        over, self._shard.trouble = self._shard.trouble, trouble
        if trouble is None:
            troubles.end(op, self._shard, over[0] if over is not None else troubles.DISK_RESERVE)
        else:
            kind, detail = trouble
            troubles.begin(
                op,
                self._shard,
                kind,
                self._shard.started(),
                lambda op, crawl: life.pause_for(op, crawl, kind, detail, kind),
            )
        return None, self._shard.end(op)

    def record_lost(
        self, told: Mapping[str, str], now_ms: int, kind: str = life.LOG_AHEAD
    ) -> tuple[None, Changes]:
        """Note that the store lost acknowledged changes. `told` has a message for each crawl known to be hit.

        Any crawl may have lost changes, so all are paused; held crawls stand still anyway.
        """
        op = self._shard.begin(now_ms)
        first = next(iter(told))
        for crawl in self._shard.crawls.values():
            detail = told.get(crawl.name, f"crawl {first}: {told[first]}")
            if not crawl.held:
                life.distrust(op, crawl, kind, detail)
        return None, self._shard.end(op)

    def record_clock(self, detail: str, now_ms: int) -> tuple[None, Changes]:
        """Record in all unfinished crawls that the frontier's time differs from the machine's."""
        op = self._shard.begin(now_ms)
        for crawl in self._shard.crawls.values():
            if crawl.state is not CrawlState.FINISHED and not crawl.held:
                op.event(crawl, "problem", kind="clock", detail=detail)
        return None, self._shard.end(op)

    # Events and logs.

    def take_news(self) -> list[Crawl]:
        """The crawls with events since the last call, including crawls torn down or deleted meanwhile."""
        news, self._shard.news = self._shard.news, {}
        return list(news.values())

    def log_positions(self) -> dict[int, tuple[str, int, int]]:
        """Each incomplete crawl log: its crawl's name, its last outcome, and its length in bytes."""
        return {
            number: (crawl.name, crawl.counters.logged_outcome, crawl.counters.log_bytes)
            for number, crawl in self._shard.agenda.unlogged.items()
        }

    @property
    def awaits_log(self) -> bool:
        """Whether a crawl waits for its crawl log before it can be held or torn down."""
        return any(
            not crawl.leases_out and (crawl.target is Target.HOLD or crawl.state_row.tearing_down)
            for crawl in self._shard.agenda.unlogged.values()
        )

    def outcomes_after(self, number: int, outcome: int, most: int) -> list[tuple[int, OutcomeRow]]:
        """The outcomes of a crawl after the one with the given number."""
        crawl = self._shard.crawls.get(number)
        return outcomes_after(self._shard.store, crawl, outcome, most) if crawl is not None else []

    def last_outcome(self, number: int) -> int:
        """The number of a crawl's last outcome."""
        crawl = self._shard.crawls.get(number)
        return crawl.counters.next_outcome - 1 if crawl is not None else 0

    def record_logged(self, number: int, outcome: int, log_bytes: int, now_ms: int) -> tuple[None, Changes]:
        """Note that outcomes up to this one are durable in the crawl log; delete the oldest stored ones."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.crawls.get(number)
        if crawl is not None and not crawl.held:  # a held crawl's log is complete
            counters = op.counters(crawl)
            counters.logged_outcome, counters.log_bytes = outcome, log_bytes
            crawl.forget_logged()
            kept_from = min(outcome + 1, counters.next_outcome - crawl.settings.outcomes_kept)
            last = min(kept_from, counters.oldest_outcome + OUTCOMES_DROPPED_PER_CALL)
            for serial in range(counters.oldest_outcome, last):
                op.tx.delete(Family.OUTCOMES, keys.serial_key(number, serial))
            counters.oldest_outcome = max(counters.oldest_outcome, last)
        return None, self._shard.end(op)

    def record_job_logged(self, synced: Mapping[str, tuple[int, int]], now_ms: int) -> tuple[None, Changes]:
        """Note, for each crawl, the last event that is durable in its job log, and the length of the log."""
        op = self._shard.begin(now_ms)
        for name, (event, size) in synced.items():
            crawl = self._shard.registry.names.get(name)
            if crawl is not None and not crawl.held and event < crawl.counters.next_event:
                counters = op.counters(crawl)
                counters.job_log_event, counters.job_log_bytes = event, size
        return None, self._shard.end(op)
