"""The server's own door: time, jobs, logs and troubles.

Operations are *(answer, changes)*, as all of the core's are.
"""

from collections.abc import Mapping

from . import keys, life
from .attendance import reconcile_all
from .crawl import Crawl
from .dispatch import Dispatcher
from .jobs.housekeeping import Housekeeping
from .machines.lifecycle import CrawlState
from .machines.target import Target
from .operation import Operation
from .operators.history import outcomes_after
from .records import OutcomeRow
from .reports import Lapse, Reports
from .shard import Shard
from .store import Changes, Family
from .work import unload_slice, work_slice

LAPSES_PER_TICK = 200
OUTCOMES_DROPPED_PER_CALL = 2000
DISK_RESERVE = "disk-reserve"
LOG_AHEAD = "log-ahead"


class Upkeep:
    """What the server sees to by itself."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._dispatcher = Dispatcher(shard)
        self._reports = Reports(shard)
        self._housekeeping = Housekeeping(shard.hosts, shard.robots, shard.now_ms)
        self._turn = 0  # slices of jobs and deletions so far

    # Time.

    def tick(self, now_ms: int) -> tuple[None, Changes]:
        """Do what has fallen due: leases lapse, queues wake, waits reach their bounds."""
        op = self._shard.begin(now_ms)
        unsettled, self._shard.unsettled = self._shard.unsettled, []
        for crawl in unsettled:
            if crawl.number in self._shard.crawls and not crawl.held:
                op.counters(crawl)
        for _ in range(LAPSES_PER_TICK):
            lease = self._shard.leases.lapsed(op.now_ms)
            if lease is None:
                break
            self._reports.lapse(op, lease)
        if self._shard.leases.fall_silent(op.now_ms):
            reconcile_all(op, self._shard.crawls.values(), self._shard.leases)
        for number in self._shard.agenda.take_due(op.now_ms):
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
        """End some of the leases that a pause or a stop has waited for in vain."""
        row = crawl.state_row
        if row.cancelled != row.request:
            row.cancelled = row.request
            op.put_state(crawl)
            op.event(crawl, "flights_cancelled", leased_count=crawl.leases_out, bound=bound)
        why = Lapse.PAUSE if crawl.state is CrawlState.PAUSING else Lapse.STOP
        for lease in self._shard.leases.of_crawl(crawl.number)[:LAPSES_PER_TICK]:
            self._reports.lapse(op, lease, why)

    def excuse(self, away_ms: int, now_ms: int) -> None:
        """Let a time not count in which this frontier could not answer: it was stopped, or its disk hung.

        Leases, the silence of nodes, and the bounds of pauses and ends go on from where they stood, so that
        nodes are heard first when it is back. Nothing of it is stored: a restart is generous anyway.
        """
        self._shard.leases.excuse(away_ms, max(now_ms, self._shard.now_ms))
        for crawl in self._shard.crawls.values():
            if crawl.leases_out:
                crawl.excused_ms += away_ms
                self._shard.agenda.note(crawl)

    def next_due_ms(self) -> int | None:
        """When to `tick` again."""
        due = [
            self._shard.leases.next_deadline_ms(),
            self._shard.leases.next_silence_ms(),
            self._shard.agenda.next_due_ms(),
        ]
        if self._shard.unsettled:
            due.append(self._shard.now_ms)
        return min((moment for moment in due if moment is not None), default=None)

    # Jobs.

    @property
    def has_work(self) -> bool:
        """Whether `work` has a slice to do."""
        idle = not (self._shard.registry.deletions or self._shard.agenda.working)
        return not idle or self._housekeeping.wanted(self._shard.now_ms)

    def work(self, now_ms: int) -> tuple[None, Changes]:
        """One slice of a job, if `has_work`; crawls with work take turns."""
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

    def note_trouble(self, trouble: tuple[str, str] | None, now_ms: int) -> tuple[None, Changes]:
        """Note what keeps every crawl from running (its kind, and words), or that nothing does any more.

        Crawls that run are paused; so is each one that comes to run meanwhile. Those that want to go on when
        it is over.
        """
        op = self._shard.begin(now_ms)
        over, self._shard.trouble = self._shard.trouble, trouble
        for crawl in self._shard.crawls.values():
            if trouble is not None and crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
                op.counters(crawl)
            elif trouble is None:
                life.go_on_after(op, crawl, over[0] if over is not None else DISK_RESERVE)
        return None, self._shard.end(op)

    def note_lost(self, told: Mapping[str, str], now_ms: int, kind: str = LOG_AHEAD) -> tuple[None, Changes]:
        """The store has lost what was acknowledged, of some crawls for sure: their names, and words.

        It may have lost something of any crawl, so all are paused; those that are held stand still anyway.
        """
        op = self._shard.begin(now_ms)
        first = next(iter(told))
        for crawl in self._shard.crawls.values():
            detail = told.get(crawl.name, f"crawl {first}: {told[first]}")
            if crawl.state is CrawlState.PREPARING:
                self._shard.suspect[crawl.number] = kind, detail
            elif not crawl.held:
                life.distrust(op, crawl, kind, detail)
        return None, self._shard.end(op)

    def note_clock(self, detail: str, now_ms: int) -> tuple[None, Changes]:
        """The frontier's time is not the machine's: every crawl that lives has an event that says so."""
        op = self._shard.begin(now_ms)
        for crawl in self._shard.crawls.values():
            if crawl.state is not CrawlState.FINISHED and not crawl.held:
                op.event(crawl, "problem", kind="clock", detail=detail)
        return None, self._shard.end(op)

    # Events and logs.

    def take_news(self) -> list[Crawl]:
        """The crawls that have had events since the last call; torn down or deleted ones too."""
        news, self._shard.news = self._shard.news, {}
        return list(news.values())

    def log_positions(self) -> dict[int, tuple[str, int, int]]:
        """Of each log that lacks outcomes: its crawl's name, the last one that is in it, its length then."""
        return {
            number: (crawl.name, crawl.counters.logged_outcome, crawl.counters.log_bytes)
            for number, crawl in self._shard.agenda.unlogged.items()
        }

    @property
    def awaits_log(self) -> bool:
        """Whether a crawl waits for its crawl log: to stand still, or to leave memory."""
        return any(
            not crawl.leases_out and (crawl.target is Target.HOLD or crawl.state_row.tearing_down)
            for crawl in self._shard.agenda.unlogged.values()
        )

    def outcomes_after(self, number: int, outcome: int, most: int) -> list[tuple[int, OutcomeRow]]:
        """Final dispositions of a crawl behind one."""
        crawl = self._shard.crawls.get(number)
        return outcomes_after(self._shard.store, crawl, outcome, most) if crawl is not None else []

    def last_outcome(self, number: int) -> int:
        """The number of a crawl's last final disposition."""
        crawl = self._shard.crawls.get(number)
        return crawl.counters.next_outcome - 1 if crawl is not None else 0

    def note_logged(self, number: int, outcome: int, log_bytes: int, now_ms: int) -> tuple[None, Changes]:
        """Outcomes up to one are in the crawl log for good, which is that long: forget the oldest."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.crawls.get(number)
        if crawl is not None and not crawl.held:  # then its log was complete before
            counters = op.counters(crawl)
            counters.logged_outcome, counters.log_bytes = outcome, log_bytes
            crawl.forget_logged()
            kept_from = min(outcome + 1, counters.next_outcome - crawl.settings.outcomes_kept)
            last = min(kept_from, counters.oldest_outcome + OUTCOMES_DROPPED_PER_CALL)
            for serial in range(counters.oldest_outcome, last):
                op.tx.delete(Family.OUTCOMES, keys.serial_key(number, serial))
            counters.oldest_outcome = max(counters.oldest_outcome, last)
        return None, self._shard.end(op)

    def note_job_logged(self, synced: Mapping[str, tuple[int, int]], now_ms: int) -> tuple[None, Changes]:
        """Of each crawl events up to one are in its job log for good, which is that long."""
        op = self._shard.begin(now_ms)
        for name, (event, size) in synced.items():
            crawl = self._shard.registry.names.get(name)
            if crawl is not None and not crawl.held and event < crawl.counters.next_event:
                counters = op.counters(crawl)
                counters.job_log_event, counters.job_log_bytes = event, size
        return None, self._shard.end(op)
