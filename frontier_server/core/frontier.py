"""The frontier: every operation, each *(answer, changes)* from `now_ms` and a store.

An operation reads the store and changes memory; the caller must make its changes
durable, and shown by the store, before the next operation and before the answer
leaves. If it cannot, this object is worthless: build a new one from the store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from . import errors, keys, opening, reports
from .attendance import reconcile
from .crawl import Crawl, SettingsOf
from .dispatch import Dispatcher, empty_reason
from .host import Hosts
from .intake import schedule
from .jobs import work
from .jobs.housekeeping import Housekeeping
from .jobs.restoring import CheckpointOf
from .leases import LeaseTable
from .machines import life
from .machines.lifecycle import CrawlState
from .machines.target import Target
from .model import (
    MAX_BATCH,
    Candidate,
    CandidateCodec,
    CrawlView,
    EmptyReason,
    HeartbeatAnswer,
    NextAnswer,
    NodeView,
    PoolStatistics,
    Report,
    ReportResult,
    StatisticsView,
    Verdict,
)
from .operation import Operation
from .operators import views
from .operators.administration import Administration
from .operators.control import MAX_NODE_CHARACTERS, Control
from .records import EventRow, OutcomeRow
from .registry import Registry
from .robotstxt.robots_table import RobotsTable
from .sessions import Sessions
from .spec.fetch_policy import FetchPolicy
from .store import Changes, Family, Store

A = TypeVar("A")

MAX_TOKENS = 10_000  # of a heartbeat: no node holds as many leases
LAPSES_PER_TICK = 200
MAX_BEHIND = 200.0  # leases by weight that a crawl may be behind another
DISK_RESERVE = "disk-reserve"
LOG_AHEAD = "log-ahead"
LAPSED_IN_ONE_CALL = 1000
OUTCOMES_DROPPED_PER_CALL = 2000
# The states that make a crawl without leases worth a word to the node that asks for any.
_MOST_TELLING = (
    EmptyReason.NOTHING_DUE,
    EmptyReason.LIMIT_REACHED,
    EmptyReason.PAUSED,
    EmptyReason.NOT_RUNNING,
)


def no_checkpoint(name: str) -> Store:
    """What there is without checkpoints."""
    raise errors.UnknownCheckpoint(f"there is no checkpoint {name[:80]!r}", checkpoint=name[:80])


class Frontier:
    """All crawls of one shard.

    `store` must hold a server row (`opening.new_store`). `settings_of` reads a stored
    spec and overrides; `version` goes into user agents; `period_ms` is a lease's life without a
    heartbeat; `incarnation` is 32 random bits of this start, for the numbers of leases;
    `checkpoint_of` finds checkpoints.
    """

    def __init__(
        self,
        store: Store,
        codec: CandidateCodec,
        settings_of: SettingsOf,
        version: str,
        period_ms: int,
        now_ms: int,
        incarnation: int,
        checkpoint_of: CheckpointOf = no_checkpoint,
    ) -> None:
        row = opening.server_row(store)
        self.store = store
        self.checkpoint_of = checkpoint_of
        self.server = row
        self._now_ms = max(now_ms, row.time_ms)
        self._hosts = Hosts()
        self._robots = RobotsTable()
        self._leases = LeaseTable(row.secret, period_ms, incarnation)
        self.registry = Registry(store, settings_of, version)
        self._sessions = Sessions(store)
        self.registry.open(row, self._hosts, self._leases, self._sessions, self._now_ms)
        self._crawls = self.registry.crawls
        self._agenda = self.registry.agenda
        # Those that are to be held: the imports that they waited for have ended with the last server.
        self._unsettled = [
            crawl for crawl in self._crawls.values() if crawl.target is Target.HOLD and not crawl.held
        ]
        self._dispatcher = Dispatcher(self._hosts, self._robots, self._leases, codec)
        self._reports = reports.Reports(self._crawls, self._hosts, self._robots, self._leases, codec)
        self.control = Control(self, self._leases)
        self.administration = Administration(self, self._dispatcher)
        self.trouble: tuple[str, str] | None = None  # kind and words of what pauses every crawl, if anything
        self._suspect: dict[int, tuple[str, str]] = {}  # crawls to be paused once they are seeded, and why
        self._housekeeping = Housekeeping(self._hosts, self._robots, self._now_ms)
        self._turn = 0  # slices of jobs and deletions so far
        self._most_passed = 0.0  # that any crawl has had, for its weight
        self._news: dict[int, Crawl] = {}  # crawls with events that nobody has taken note of

    # What fetchers and feeders need.

    def schedule(
        self, name: str, candidates: Sequence[Candidate], now_ms: int
    ) -> tuple[list[Verdict], Changes]:
        """Take in candidates. The caller slices batches: a call's work is for all of them."""
        crawl = self.registry.unfinished(name)
        op = self.begin(now_ms)
        return schedule(op, crawl, candidates, self._robots), self.end(op)

    def next(
        self, node: str, session: str, most: int, name: str | None, now_ms: int
    ) -> tuple[NextAnswer, Changes]:
        """Leases for a node, of one crawl or of any that runs."""
        self._check_node(node, session)
        if not 1 <= most <= MAX_BATCH:
            raise errors.InvalidRequest(
                f"max_leases is {most}; 1 to {MAX_BATCH} can be asked for", field="max_leases"
            )
        crawl = self.registry.named(name) if name else None
        op = self.begin(now_ms)
        self._note_seen(op, node, session)
        if crawl is not None:
            if not crawl.running:
                return NextAnswer([], empty_reason(crawl)), self.end(op)
            crawl.asked.ms = op.now_ms
            grants, again = self._dispatcher.lease(op, crawl, node, session, most)
            reason = None if grants else empty_reason(crawl)
            return NextAnswer(grants, reason, again and not grants), self.end(op)
        return self._next_of_any(op, node, session, most), self.end(op)

    def finished(
        self, received: Sequence[Report], node: str, session: str, now_ms: int
    ) -> tuple[list[ReportResult], Changes]:
        """What reports mean. The caller slices batches."""
        self._check_node(node, session)
        op = self.begin(now_ms)
        self._note_seen(op, node, session)
        return [self._reports.finished(op, report) for report in received], self.end(op)

    def take_back(self, tokens: Sequence[bytes], now_ms: int) -> tuple[None, Changes]:
        """Release leases whose caller was gone before it had them."""
        op = self.begin(now_ms)
        for token in tokens:
            lease = self._leases.out(token)
            if lease is not None:
                self._reports.release(op, lease)
        return None, self.end(op)

    def heartbeat(
        self,
        node: str,
        session: str,
        tokens: Sequence[bytes],
        toe_steps: Sequence[tuple[str, int]],
        now_ms: int,
        leaving: bool = False,
        pool: PoolStatistics | None = None,
        service_address: str = "",
        trouble: str = "",
    ) -> tuple[HeartbeatAnswer, Changes]:
        """Extend the leases that a node names; tell it which have ended, and which to let go."""
        self._check_node(node, session)
        if len(tokens) > MAX_TOKENS:
            raise errors.BatchTooLarge(
                f"{len(tokens)} tokens in one heartbeat; at most {MAX_TOKENS} are taken",
                limit=str(MAX_TOKENS),
            )
        op = self.begin(now_ms)
        self._note_seen(op, node, session)
        self._leases.note(node, toe_steps, pool, service_address)
        drain = self._leases.drains(node)
        answer = HeartbeatAnswer([], [], [], self.control.pool_size_of(node), drain)
        for token in tokens:
            lease = self._leases.out(token)
            if lease is None:
                answer.ended.append(token)
                continue
            self._leases.extend(lease, op.now_ms)
            crawl = self._crawls[lease.crawl]
            if crawl.state_row.interrupt_ms:
                answer.interrupt.append(token)
            elif not crawl.running:
                answer.release.append(token)
        self._hear_of_trouble(op, node, trouble)
        if leaving:
            # What it does not know that it holds: the answer of a Next was lost.
            for lease in self._leases.of(node, tokens)[:LAPSED_IN_ONE_CALL]:
                self._reports.release(op, lease)
            self._leases.leaves(node)
            self._reconcile(op)
        return answer, self.end(op)

    def _hear_of_trouble(self, op: Operation, node: str, trouble: str) -> None:
        """A node that cannot go on pauses the crawls that it fetches for: once, so that an operator who knows
        better may resume them. Those that want to go on when it can."""
        begins = self._leases.note_trouble(node, bool(trouble))
        name = f"node:{node}"
        if begins:
            for crawl in self._crawls.values():
                if node in crawl.state_row.nodes:
                    life.pause_for(op, crawl, "node-trouble", f"node {node}: {trouble[:500]}", name)
        elif not trouble:
            for crawl in list(self._agenda.troubled.values()):
                if crawl.state_row.trouble == name:
                    life.go_on_after(op, crawl, name)

    def drain_node(self, node: str, now_ms: int, by: str = "") -> tuple[None, Changes]:
        """Let a node's present session end: it is told with its next heartbeat."""
        asked = self._leases.drain(node)
        op = self.begin(now_ms)
        for crawl in self._crawls.values():
            if asked and node in crawl.state_row.nodes and not crawl.held:
                op.acted(crawl, by, "drain-node", node)
        return None, self.end(op)

    def excuse(self, away_ms: int, now_ms: int) -> None:
        """Let a time not count in which this frontier could not answer: it was stopped, or its disk hung.

        Leases, the silence of nodes, and the bounds of pauses and ends go on from where they stood, so that
        nodes are heard first when it is back. Nothing of it is stored: a restart is generous anyway.
        """
        self._leases.excuse(away_ms, max(now_ms, self._now_ms))
        for crawl in self._crawls.values():
            if crawl.leases_out:
                crawl.excused_ms += away_ms
                self._agenda.note(crawl)

    def tick(self, now_ms: int) -> tuple[None, Changes]:
        """Do what has fallen due: leases lapse, queues wake, waits reach their bounds."""
        op = self.begin(now_ms)
        unsettled, self._unsettled = self._unsettled, []
        for crawl in unsettled:
            if crawl.number in self._crawls and not crawl.held:
                op.counters(crawl)
        for _ in range(LAPSES_PER_TICK):
            lease = self._leases.lapsed(op.now_ms)
            if lease is None:
                break
            self._reports.lapse(op, lease)
        if self._leases.fall_silent(op.now_ms):
            self._reconcile(op)
        for number in self._agenda.take_due(op.now_ms):
            crawl = self._crawls[number]
            op.look_at(crawl)
            if crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
                self._dispatcher.wake_due(op, crawl)
            if crawl.must_settle(op.now_ms):
                op.counters(crawl)
            bound = crawl.bound
            if bound is not None and bound[0] <= op.now_ms:
                self._cancel(op, crawl, bound[1])
        return None, self.end(op)

    def _cancel(self, op: Operation, crawl: Crawl, bound: str) -> None:
        """End some of the leases that a pause or a stop has waited for in vain."""
        row = crawl.state_row
        if row.cancelled != row.request:
            row.cancelled = row.request
            op.put_state(crawl)
            op.event(crawl, "flights_cancelled", leased_count=crawl.leases_out, bound=bound)
        why = reports.Lapse.PAUSE if crawl.state is CrawlState.PAUSING else reports.Lapse.STOP
        for lease in self._leases.of_crawl(crawl.number)[:LAPSES_PER_TICK]:
            self._reports.lapse(op, lease, why)

    def note_trouble(self, trouble: tuple[str, str] | None, now_ms: int) -> tuple[None, Changes]:
        """Note what keeps every crawl from running (its kind, and words), or that nothing does any more.

        Crawls that run are paused; so is each one that comes to run meanwhile. Those that want to go on when
        it is over.
        """
        op = self.begin(now_ms)
        over, self.trouble = self.trouble, trouble
        for crawl in self._crawls.values():
            if trouble is not None and crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
                op.counters(crawl)
            elif trouble is None:
                life.go_on_after(op, crawl, over[0] if over is not None else DISK_RESERVE)
        return None, self.end(op)

    def note_lost(self, told: Mapping[str, str], now_ms: int, kind: str = LOG_AHEAD) -> tuple[None, Changes]:
        """The store has lost what was acknowledged, of some crawls for sure: their names, and words.

        It may have lost something of any crawl, so all are paused; those that are held stand still anyway.
        """
        op = self.begin(now_ms)
        first = next(iter(told))
        for crawl in self._crawls.values():
            detail = told.get(crawl.name, f"crawl {first}: {told[first]}")
            if crawl.state is CrawlState.PREPARING:
                self._suspect[crawl.number] = kind, detail
            elif not crawl.held:
                life.distrust(op, crawl, kind, detail)
        return None, self.end(op)

    def note_clock(self, detail: str, now_ms: int) -> tuple[None, Changes]:
        """The frontier's time is not the machine's: every crawl that lives has an event that says so."""
        op = self.begin(now_ms)
        for crawl in self._crawls.values():
            if crawl.state is not CrawlState.FINISHED and not crawl.held:
                op.event(crawl, "problem", kind="clock", detail=detail)
        return None, self.end(op)

    def work(self, now_ms: int) -> tuple[None, Changes]:
        """One slice of a job, if `has_work`; crawls with work take turns."""
        op = self.begin(now_ms)
        working, deletions = len(self._agenda.working), self.registry.deletions
        self._turn += 1
        if deletions and self._turn % (working + 1) == 0:
            if not deletions[0].slice(op):
                deletions.pop(0)
        elif working:
            crawl = self._agenda.next_at_work()
            if crawl.jobs:
                work.work_slice(op, crawl, self._dispatcher, self.checkpoint_of)
            else:
                work.unload_slice(op, crawl)
        elif self._housekeeping.wanted(op.now_ms):
            validities = (crawl.settings.robots.validity_ms for crawl in self._crawls.values())
            self._housekeeping.slice(op, max(validities, default=0))
        return None, self.end(op)

    def note_logged(self, number: int, outcome: int, log_bytes: int, now_ms: int) -> tuple[None, Changes]:
        """Outcomes up to one are in the crawl log for good, which is that long: forget the oldest."""
        op = self.begin(now_ms)
        crawl = self._crawls.get(number)
        if crawl is not None and not crawl.held:  # then its log was complete before
            counters = op.counters(crawl)
            counters.logged_outcome, counters.log_bytes = outcome, log_bytes
            crawl.forget_logged()
            kept_from = min(outcome + 1, counters.next_outcome - crawl.settings.outcomes_kept)
            last = min(kept_from, counters.oldest_outcome + OUTCOMES_DROPPED_PER_CALL)
            for serial in range(counters.oldest_outcome, last):
                op.tx.delete(Family.OUTCOMES, keys.serial_key(number, serial))
            counters.oldest_outcome = max(counters.oldest_outcome, last)
        return None, self.end(op)

    def note_job_logged(self, synced: Mapping[str, tuple[int, int]], now_ms: int) -> tuple[None, Changes]:
        """Of each crawl events up to one are in its job log for good, which is that long."""
        op = self.begin(now_ms)
        for name, (event, size) in synced.items():
            crawl = self.registry.names.get(name)
            if crawl is not None and not crawl.held and event < crawl.counters.next_event:
                counters = op.counters(crawl)
                counters.job_log_event, counters.job_log_bytes = event, size
        return None, self.end(op)

    # Reads.

    def crawl(self, name: str, number: int = 0) -> CrawlView:
        """A crawl's description. With its number it is no other one that has got the name since."""
        torn = self.registry.torn_rows(name)
        if number and torn is None and name not in self.registry.names:
            raise errors.UnknownCrawl(f"crawl {name!r} was deleted", crawl=name)
        view = views.crawl_view(self.registry.named(name)) if torn is None else views.rows_view(torn)
        if number and view.number != number:
            raise errors.UnknownCrawl(f"crawl {name!r} was deleted; another has its name", crawl=name)
        return view

    def crawls_after(self, name: str, most: int) -> list[CrawlView]:
        """Crawls by name, behind one."""
        return [self.crawl(known) for known in self.registry.names_after(name, most)]

    def policy(self, name: str, policy_id: str) -> FetchPolicy:
        """How URIs whose leases name it are fetched."""
        return self.registry.named(name).policies.named(policy_id)

    def statistics(self, name: str, now_ms: int) -> StatisticsView:
        """A crawl's statistics."""
        return views.statistics(self.registry.named(name), max(now_ms, self._now_ms), self._leases)

    def event_time(self, name: str, sequence: int) -> int:
        """When an event happened; 0 if it is not kept."""
        return views.event_time(self.store, self.registry.named(name), sequence)

    def check_event(self, name: str, sequence: int, read_ms: int) -> None:
        """Raise CursorTooOld if the event that somebody has read is another one: see `views.check_event`."""
        views.check_event(self.store, self.registry.named(name), sequence, read_ms)

    def events_after(self, name: str, sequence: int) -> list[tuple[int, EventRow]]:
        """Some events behind a sequence number."""
        return views.events_after(self.store, self.registry.named(name), sequence)

    def log_positions(self) -> dict[int, tuple[str, int, int]]:
        """Of each log that lacks outcomes: its crawl's name, the last one that is in it, its length then."""
        return {
            number: (crawl.name, crawl.counters.logged_outcome, crawl.counters.log_bytes)
            for number, crawl in self._agenda.unlogged.items()
        }

    @property
    def awaits_log(self) -> bool:
        """Whether a crawl waits for its crawl log: to stand still, or to leave memory."""
        return any(
            not crawl.leases_out and (crawl.target is Target.HOLD or crawl.state_row.tearing_down)
            for crawl in self._agenda.unlogged.values()
        )

    def outcomes_after(self, number: int, outcome: int, most: int) -> list[tuple[int, OutcomeRow]]:
        """Final dispositions of a crawl behind one."""
        crawl = self._crawls.get(number)
        return views.outcomes_after(self.store, crawl, outcome, most) if crawl is not None else []

    def last_outcome(self, number: int) -> int:
        """The number of a crawl's last final disposition."""
        crawl = self._crawls.get(number)
        return crawl.counters.next_outcome - 1 if crawl is not None else 0

    def nodes(self) -> list[NodeView]:
        """The nodes heard of, the latest first."""
        return [
            replace(view, pool_size=self.control.pool_size_of(view.node)) for view in self._leases.nodes()
        ]

    @property
    def leases_out(self) -> int:
        """How many leases are out, of all crawls."""
        return len(self._leases)

    @property
    def has_work(self) -> bool:
        """Whether `work` has a slice to do."""
        idle = not (self.registry.deletions or self._agenda.working)
        return not idle or self._housekeeping.wanted(self._now_ms)

    def leasable(self) -> bool:
        """Whether a node that waits should ask again: a crawl that runs has a queue to look at."""
        return bool(self._agenda.leasable)

    def take_news(self) -> list[Crawl]:
        """The crawls that have had events since the last call; torn down or deleted ones too."""
        news, self._news = self._news, {}
        return list(news.values())

    def next_due_ms(self) -> int | None:
        """When to `tick` again."""
        due = [self._leases.next_deadline_ms(), self._leases.next_silence_ms(), self._agenda.next_due_ms()]
        if self._unsettled:
            due.append(self._now_ms)
        return min((moment for moment in due if moment is not None), default=None)

    def next_chance_ms(self, name: str | None = None) -> int | None:
        """When a node that got no lease, of a crawl or any, should ask again: before, time brings none."""
        chance_ms = self.registry.named(name).next_chance_ms() if name else self._agenda.next_chance_ms()
        due = [self._leases.next_deadline_ms(), chance_ms]
        return min((moment for moment in due if moment is not None), default=None)

    # Helpers.

    def line_up(self, crawl: Crawl) -> None:
        """Let queues of a crawl that wait for hosts or groups ask again: more may be allowed than was."""
        self._hosts.disperse(crawl)

    def begin(self, now_ms: int) -> Operation:
        """The start of an operation of this object's."""
        self._now_ms = max(self._now_ms, now_ms)
        self._hosts.let_go()
        return Operation(self.store, self._now_ms)

    def end(self, op: Operation) -> Changes:
        """What an operation changes, once the crawls that it touched have settled."""
        for crawl in op.touched:
            if crawl.number in self._crawls:
                life.settle(op, crawl)
                if crawl.number in self._suspect and crawl.state is not CrawlState.PREPARING:
                    life.distrust(op, crawl, *self._suspect.pop(crawl.number))
                    life.settle(op, crawl)
                if self.trouble is not None:
                    life.pause_for(op, crawl, *self.trouble, self.trouble[0])
                    life.settle(op, crawl)
        op.close()
        for number, crawl in (op.looked_at | {crawl.number: crawl for crawl in op.touched}).items():
            if crawl.state_row.torn_down:
                self.registry.unload(crawl)
            elif number in self._crawls:
                self._agenda.note(crawl)
        if op.told:
            self._news |= op.told
        if op.tx.changes and self._now_ms > self.server.time_ms:  # no row is ever later than the server
            self.server.time_ms = self._now_ms
            opening.put_server_row(op.tx, self.server)
        return op.tx.changes

    def _note_seen(self, op: Operation, node: str, session: str) -> None:
        self._sessions.accept(op.tx, node, session, op.now_ms)
        before = self._leases.session_of(node)
        for lease in self._leases.note_seen(node, session, op.now_ms)[:LAPSED_IN_ONE_CALL]:
            self._reports.lapse(op, lease)
        if before is not None and before != session:
            self._reconcile(op)

    def _reconcile(self, op: Operation) -> None:
        for crawl in self._crawls.values():
            if crawl.state_row.nodes:
                reconcile(op, crawl, self._leases)

    def _next_of_any(self, op: Operation, node: str, session: str, most: int) -> NextAnswer:
        self.registry.asked_of_any.ms = op.now_ms
        agenda = self._agenda
        if not agenda.running:
            telling = next((each for each in _MOST_TELLING if agenda.reasons[each]), EmptyReason.NO_CRAWL)
            return NextAnswer([], telling)
        answer = NextAnswer([], None)
        again = False
        for crawl in self._in_turn(op):
            grants, more = self._dispatcher.lease(op, crawl, node, session, most - len(answer.grants))
            crawl.passed += len(grants) / crawl.settings.weight
            self._most_passed = max(self._most_passed, crawl.passed)
            answer.grants.extend(grants)
            again = again or more
            if len(answer.grants) == most:
                break
        if answer.grants:
            return answer
        for crawl in op.touched:  # leases that this operation has ended no longer fill a limit
            agenda.note(crawl)
        filled = len(agenda.filled) == len(agenda.running)
        return NextAnswer([], EmptyReason.LIMIT_REACHED if filled else EmptyReason.NOTHING_DUE, again)

    def _in_turn(self, op: Operation) -> list[Crawl]:
        """The crawls that may have something to give: who had least for its weight goes first.

        A crawl that had nothing to give for a while does not make up for all of it.
        """
        found = self._agenda.leasable | op.looked_at  # what this operation has freed is not noted yet
        for number in self._agenda.take_chances(op.now_ms):
            found[number] = self._crawls[number]
            op.look_at(found[number])
        crawls = [crawl for crawl in found.values() if crawl.running]
        for crawl in crawls:
            crawl.passed = max(crawl.passed, self._most_passed - MAX_BEHIND)
        return sorted(crawls, key=lambda crawl: (crawl.passed, crawl.number))

    @staticmethod
    def _check_node(node: str, session: str) -> None:
        for field, value in (("node", node), ("session", session)):
            if not 0 < len(value) <= MAX_NODE_CHARACTERS:
                raise errors.InvalidRequest(
                    f"{field} has {len(value)} characters; 1 to {MAX_NODE_CHARACTERS} are taken", field=field
                )
