"""Running operations against frontier and model, with crashes; what must hold after each."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any, TypeVar, cast

import pytest
from core_doubles.audit import Audit
from core_doubles.codec import PlainCodec, candidate
from core_doubles.machine import forgetting
from core_doubles.machine.choices import KINDS
from core_doubles.model import attendance, intake, jobs, leasing, life, places, reporting, settling, turns
from core_doubles.model.things import Crawl, Lease, Model, Offer, Uri
from core_doubles.model.turns import After, Told
from core_doubles.recount import pending_of
from core_doubles.replay import Watcher
from core_doubles.rows import all_rows_of, rows_of
from core_doubles.shell import PERIOD_MS, CheckedShell, Operation
from core_doubles.small_shares import small_shares
from core_doubles.web import RobotsFile
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from frontier_server.core.core import Core
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.opening import opening
from frontier_server.core.rows import errors
from frontier_server.core.rows.records import OutcomeRow, QueueRow
from frontier_server.core.rows.store import Changes, Family
from frontier_server.core.state.crawl import Crawl as LiveCrawl
from frontier_server.core.state.kinds import Kinds
from frontier_server.core.state.model import Candidate, Report, Verdict
from frontier_server.core.state.queue import QueueState

A = TypeVar("A")
Step = Callable[..., None]

MOST_SLICES = 3_000
COMPLETE = (CrawlState.PAUSED, CrawlState.FINISHED)  # then statistics' events add up
ADDED_UP = [f"{name}_count" for name in (*life.TOLD, "discovered")]


class Lost(Exception):
    """The step's write was lost in a crash."""


def step(**strategies: Any) -> Callable[[Step], Step]:
    """A rule that a crash may cut short. What fails in it keeps the run from being drained."""

    def decorate(function: Step) -> Step:
        @wraps(function)
        def guarded(self: "Base", **drawn: Any) -> None:
            self.sound = False
            try:
                function(self, **drawn)
            except Lost:
                self.check_events()
            self.sound = True

        as_rule = cast("Callable[[Step], Step]", rule(**strategies))
        return as_rule(guarded)

    return decorate


class Base(RuleBasedStateMachine):
    """A frontier in a shell, and a model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = ExitStack()
        self.shares.enter_context(small_shares())
        self.shell = self.new_shell()
        self.model = Model(PERIOD_MS)
        self.doomed = False  # the next write is lost
        self.sound = True
        self.outcomes_read: dict[int, int] = {}
        self.events_read: dict[int, int] = {}
        self.watchers: dict[int, Watcher] = {}
        self.frozen: dict[int, list[tuple[Family, bytes, bytes]]] = {}  # rows of crawls that stand still
        self.deleted: set[int] = set()

    def new_shell(self) -> CheckedShell:
        """The shell that the frontier runs in."""
        return CheckedShell()

    def teardown(self) -> None:
        """Let the shares be what they are."""
        self.shares.close()

    # Running operations.

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.shell.now_ms

    def run(self, operation: Operation[A]) -> A:
        """Run an operation; or run it, and lose what it changed, if the server is doomed."""
        self.model.step += 1
        self.model.now_ms = self.now_ms
        if not self.doomed:
            return self.shell.do(operation)
        self.doomed = False
        self.shell.lose(operation)
        self.restarted()
        raise Lost

    def restarted(self) -> None:
        """Memory was built anew."""
        self.model.now_ms = self.now_ms
        reporting.restarted(self.model)
        self.leave_out_downtime()
        self.check_queues(After.RESTART)

    def leave_out_downtime(self) -> None:
        """Clocks of crawls stood from the last write on. An absence since then was left out, too."""
        written_ms = opening.server_row(self.shell.store).time_ms
        for crawl in self.model.crawls.values():
            if crawl.running_since_ms is None:
                continue
            ran_ms = self.shell.core.shard.crawls[crawl.number].elapsed_ms(self.now_ms)
            most_ms = crawl.elapsed_ms + max(written_ms - crawl.running_since_ms, 0)
            assert ran_ms == most_ms or crawl.was_excused, "the clock counts time without a server"
            crawl.elapsed_ms, crawl.running_since_ms = ran_ms, self.now_ms

    def refused(self, error: type[errors.FrontierError], operation: Operation[Any]) -> None:
        """Run an operation that must be refused; the audit shows that nothing was changed."""
        with pytest.raises(error):
            try:
                operation(self.shell.core, self.now_ms)
            except errors.FrontierError as refusal:
                assert type(refusal) is error, f"{type(refusal).__name__}, not {error.__name__}"
                raise

    def changes(self, crawl: Crawl, operation: Operation[Any]) -> bool:
        """Whether a crawl may be changed; an operation that may not must be refused."""
        if crawl.held:
            self.refused(errors.CrawlHeld, operation)
        return not crawl.held

    def takes_in(self, crawl: Crawl, operation: Operation[Any]) -> bool:
        """Whether a crawl takes in things; an operation that it does not take must be refused."""
        if crawl.state is CrawlState.FINISHED:
            self.refused(errors.CrawlFinished, operation)
            return False
        return self.changes(crawl, operation)

    # What follows from an operation.

    def check(self, on_time: bool = False) -> None:
        """After an operation in which no queue had its turn."""
        self.check_outcomes(None)
        self.check_queues(After.OTHER)
        self.settle(on_time)

    def settle(self, on_time: bool = False) -> None:
        """Crawls reach what they reach, and tell of it."""
        for crawl in list(self.model.crawls.values()):
            live = self.live(crawl)
            row, torn_down = live.state_row, crawl.number not in self.shell.core.shard.crawls
            seen = settling.Seen(
                live.exit_status,
                row.round,
                live.counters.told_ms,
                len(live.queues.active),
                live.held,
                torn_down,
            )
            settling.settle(self.model, crawl, seen, on_time)
            if torn_down or not crawl.held:
                self.frozen.pop(crawl.number, None)
            if torn_down:
                self.model.torn_down[crawl.name] = self.model.crawls.pop(crawl.name)
                self.check_events([crawl])
            if crawl.held or torn_down:
                self.frozen.setdefault(crawl.number, all_rows_of(self.shell.store, crawl.number))
        self.check_events()

    def live(self, crawl: Crawl) -> LiveCrawl:
        """A crawl of the frontier, in memory or torn down."""
        return self.shell.core.shard.registry.named(crawl.name)

    def check_outcomes(
        self,
        came: Callable[[Model, Crawl, OutcomeRow], None] | None,
        crawls: Sequence[Crawl] | None = None,
    ) -> None:
        """The final dispositions stored since are those that the model expects, each once.

        `came` judges those that it does not expect.
        """
        for crawl in list(self.model.crawls.values()) if crawls is None else crawls:
            expected = crawl.take_outcomes()
            crawl.stored += expected.total()
            read = self.outcomes_read.get(crawl.number, 0)
            for number, row in self.shell.core.upkeep.outcomes_after(crawl.number, read, 10_000):
                assert number == self.outcomes_read.get(crawl.number, 0) + 1
                self.outcomes_read[crawl.number] = number
                assert row.time_ms == self.now_ms
                outcome = row.uri, row.fetch_status, row.disposition
                if expected[outcome]:
                    expected[outcome] -= 1
                else:
                    assert came is not None, f"{outcome} came from nowhere"
                    came(self.model, crawl, row)
                    crawl.stored += 1
            assert not +expected, f"missing: {+expected}"
            assert not crawl.outcomes

    def check_queues(self, after: After) -> None:
        """The queues of all crawls are in states in which they may be."""
        for crawl in self.model.crawls.values():
            live, told = self.live(crawl), {}
            for queue, row in rows_of(self.shell.store, live, Family.QUEUES, QueueRow).items():
                active = live.queues.active.get(queue)
                state = active.state if active is not None else QueueState(row.state)
                wake_ms = row.far_ms if active is None else active.wake_ms
                told[queue] = Told(state, row.precedence, wake_ms, row.session_start)
            turns.told(self.model, crawl, told, after)

    def check_events(self, crawls: Sequence[Crawl] | None = None) -> None:
        """The events stored since are numbered without gap, and are the changes of the model."""
        for crawl in list(self.model.crawls.values()) if crawls is None else crawls:
            read = self.events_read.get(crawl.number, 0)
            rows = self.shell.core.history.events_after(crawl.name, read)
            assert [number for number, _ in rows] == list(range(read + 1, read + 1 + len(rows)))
            told = [
                (row.kind, *(str(value) for value in row.fields.values()))
                for _, row in rows
                if row.fields.get("kind") != "node-name"  # the model's sessions have no rivals
            ]
            expected = crawl.take_events()
            assert told == expected, f"events tell {told}, not {expected}"
            self.events_read[crawl.number] = read + len(rows)
            watcher = self.watchers.setdefault(crawl.number, Watcher())
            for _, row in rows:
                assert row.time_ms == self.now_ms
                watcher.hear(row)
            core = self.shell.core
            watcher.check(core.views.crawl(crawl.name), self.live(crawl).state_row.nodes)
            if any(row.kind == "status_changed" for _, row in rows) and crawl.state in COMPLETE:
                counts = core.views.statistics(crawl.name, self.now_ms).counts
                sums = Counter({name: counts[name] for name in ADDED_UP})
                assert watcher.statistics == sums, (
                    f"statistics' events add up to {watcher.statistics}, not {sums}"
                )

    # Operations that several rules need.

    def ask(self, node: str, session: str, name: str | None, most: int, kinds: Kinds = KINDS) -> list[Lease]:
        """Next; the leases that it brought."""
        want = Want(most, kinds=kinds)
        answer = self.run(lambda core, now: core.frontier.next(node, session, want, name, now))
        model = self.model
        reporting.heard(model, node, session)
        in_turn = leasing.asked(model, name, kinds, most, answer.grants)
        for crawl in in_turn:
            intake.release_due(model, crawl)
            for uri, queue in self.moved(crawl):
                leasing.moved(model, crawl, uri, queue)
        self.check_outcomes(leasing.cleared)
        for grant in answer.grants:
            leasing.granted(model, model.crawls[grant.crawl], grant, node, session)
        self.check_queues(After.TURNS)
        leasing.answered(model, answer, name, kinds, most, in_turn)
        self.settle()
        return [model.leases[grant.token] for grant in answer.grants]

    def moved(self, crawl: Crawl) -> list[tuple[Uri, bytes]]:
        """URIs that are in another queue than the model thinks, in the order of their places there."""
        misplaced = {uri.identity: uri for uri in places.misplaced(crawl)}
        if not misplaced:
            return []
        live, found, codec = self.shell.core.shard.crawls[crawl.number], [], PlainCodec()
        for queue in rows_of(self.shell.store, live, Family.QUEUES, QueueRow):
            for _, pending in pending_of(self.shell, live, queue):
                uri = misplaced.get(crawl.texts[codec.decode(pending.candidate).uri])
                if uri is not None and uri.queue != queue:
                    found.append((uri, queue))
        return found

    def report(self, reports: Sequence[tuple[Report, RobotsFile]], node: str, session: str) -> None:
        """Finished."""
        sent = [report for report, _ in reports]
        results = self.run(lambda core, now: core.frontier.finished(sent, node, session, now))
        reporting.heard(self.model, node, session)
        for (report, file), result in zip(reports, results, strict=True):
            reporting.reported(self.model, report, file, result)
        self.check()

    def offer(self, crawl: Crawl, offers: Sequence[Offer]) -> None:
        """Schedule."""
        candidates = [made(offer) for offer in offers]

        def schedule(core: Core, now_ms: int) -> tuple[list[Verdict], Changes]:
            return core.frontier.schedule(crawl.name, candidates, now_ms)

        if not self.takes_in(crawl, schedule):
            return
        verdicts = self.run(schedule)
        assert len(verdicts) == len(offers)
        for offer, answer in zip(offers, verdicts, strict=True):
            expected = intake.verdict(self.model, crawl, offer)
            known = crawl.texts.get(offer.spelled.text) in crawl.uris
            by_text = known and offer.refetch_before_ms is None and answer is Verdict.ALREADY_SEEN
            assert answer is expected or by_text, f"{offer.spelled.text}: {answer}, not {expected}"
            intake.offered(self.model, crawl, offer, answer)
        self.check()

    def work(self) -> None:
        """One slice of whatever is to be done."""
        self.run(lambda core, now: core.upkeep.work(now))
        self.check_outcomes(
            jobs.deleted, [crawl for crawl in self.model.crawls.values() if jobs.deletes(crawl)]
        )
        core = self.shell.core
        forgetting.follow(self.shell, self.model)
        for crawl in self.model.crawls.values():
            announced = core.views.crawl(crawl.name).announced_seeds
            views = {view.number: view for view in core.administration.jobs(crawl.name)}
            jobs.worked(self.model, crawl, announced, views)
        self.check()

    def work_all(self) -> None:
        """All slices."""
        for _ in range(MOST_SLICES):
            if not self.shell.core.upkeep.has_work:
                return
            self.work()
        raise AssertionError("jobs do not end")

    def tick(self) -> None:
        """What has fallen due happens."""
        self.run(lambda core, now: core.upkeep.tick(now))
        reporting.lapse_due(self.model)
        attendance.fall_silent(self.model)
        for crawl in self.model.crawls.values():
            if crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
                intake.release_due(self.model, crawl)
            settling.cancel_overdue(self.model, crawl)
        self.check(on_time=True)
        due_ms = self.shell.core.upkeep.next_due_ms()
        assert due_ms is None or due_ms > self.now_ms, "the timer would fire for ever"

    def tick_when_due(self) -> None:
        """The shell's timer: time goes on to the next due moment."""
        due_ms = self.shell.core.upkeep.next_due_ms()
        if due_ms is not None:
            self.shell.now_ms = max(self.now_ms, due_ms)
        self.tick()

    # What must hold.

    @invariant()
    def everything_agrees(self) -> None:
        """Memory, store and model."""
        self.sound = False
        self.model.now_ms = self.now_ms
        Audit(self.shell, self.model).run()
        unlogged = {c.number for c in self.model.crawls.values() if c.logged < c.stored}
        assert self.shell.core.upkeep.log_positions().keys() == unlogged
        for number, rows in self.frozen.items():
            assert all_rows_of(self.shell.store, number) == rows, f"crawl {number} does not stand still"
        self.sound = True

    # Choosing.

    def some_crawl(self, pick: int) -> Crawl:
        """One of the crawls; more often one that goes on."""
        ended = [crawl for crawl in self.model.crawls.values() if crawl.state is CrawlState.FINISHED]
        crawls = [*self.unfinished() * 3, *ended]
        return crawls[pick % len(crawls)]

    def unfinished(self) -> list[Crawl]:
        """The crawls that go on."""
        return [crawl for crawl in self.model.crawls.values() if crawl.state is not CrawlState.FINISHED]

    def some_lease(self, pick: int) -> Lease:
        """One of the leases that are out."""
        leases = list(self.model.leases.values())
        return leases[pick % len(leases)]

    def some_ended(self, pick: int) -> Lease:
        """One of the leases that have ended, the last ones first."""
        return list(self.model.ended.values())[-1 - pick % len(self.model.ended)]

    def has_crawl(self) -> bool:
        """Whether there is a crawl."""
        return bool(self.model.crawls)

    def has_lease(self) -> bool:
        """Whether a lease is out."""
        return bool(self.model.leases)

    def has_ended(self) -> bool:
        """Whether a lease has ended."""
        return bool(self.model.ended)


def made(offer: Offer) -> Candidate:
    """A candidate as somebody offers it."""
    return candidate(
        offer.spelled.text,
        via=offer.via,
        path=offer.path,
        directive=offer.directive,
        precedence=offer.precedence,
        seed=offer.seed,
        refetch_before_ms=offer.refetch_before_ms,
        cost=offer.cost,
        not_before_ms=offer.not_before_ms,
        source=offer.source,
    )
