"""Runs the core as the server's shell does: one operation, its changes written, then its answer.

Time is a variable. A lost write is what a crash before the commit leaves: the store as it was, and memory
built anew from it.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from core_doubles.codec import PlainCodec, candidate, settings_of, spec_of
from core_doubles.memory_store import MemoryStore
from core_doubles.placing import SUFFIXES
from msgspec import structs

from frontier_server.core.core import Core
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.opening import opening
from frontier_server.core.opening.registry import MakeCrawl, made_of
from frontier_server.core.opening.shard import Shard, no_checkpoint
from frontier_server.core.rows.records import EventRow, OutcomeRow
from frontier_server.core.rows.store import Changes, Store, WritableStore
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Candidate, Grant, NextAnswer, Report, ReportResult, Verdict
from frontier_server.core.state.nodes import SILENT_PERIODS

A = TypeVar("A")

START_MS = 1_700_000_000_000
PERIOD_MS = 60_000
SECRET = b"0123456789abcdef"
VERSION = "0"
LINE_BYTES = 100  # of a crawl log, more or less

Operation = Callable[[Core, int], tuple[A, Changes]]


class Shell:
    """A frontier over a store, at a time of the test's choosing."""

    heartbeat_ms = 0
    read_only = False
    check_dearly = False
    make: MakeCrawl = staticmethod(made_of)
    kept: Store | None = None

    def __init__(
        self,
        store: WritableStore | None = None,
        period_ms: int = PERIOD_MS,
        now_ms: int = START_MS,
        incarnation: int = 0,
    ) -> None:
        self.store = MemoryStore() if store is None else store
        self.period_ms = period_ms
        self.now_ms = now_ms
        self.incarnation = incarnation
        if opening.read_server_row(self.store) is None:
            self.store.write(opening.new_store(SECRET, now_ms, SUFFIXES))
        self.core = self.build()

    def build(self) -> Core:
        """A frontier from what is stored."""
        shard = Shard(
            self.store,
            PlainCodec(),
            settings_of,
            VERSION,
            self.period_ms,
            self.now_ms,
            self.next_incarnation(),
            self.checkpoint_of,
            self.heartbeat_ms,
            self.read_only,
            self.check_dearly,
            self.make,
        )
        return Core(shard)

    def next_incarnation(self) -> int:
        """The bits that tell a start from all others."""
        self.incarnation += 1
        return self.incarnation

    def checkpoint_of(self, name: str) -> Store:
        """A checkpoint. There is none but `kept`."""
        return self.kept or no_checkpoint(name)

    def do(self, operation: Operation[A]) -> A:
        """Run an operation, write its changes, and return its answer."""
        answer, changes = operation(self.core, self.now_ms)
        self.store.write(changes)
        return answer

    def lose(self, operation: Operation[A]) -> A:
        """Run an operation and crash before its changes are written; the answer that nobody got."""
        answer, _ = operation(self.core, self.now_ms)
        self.restart()
        return answer

    def restart(self) -> None:
        """Build memory anew from the store."""
        self.core = self.build()

    # What many tests need, in a few words.

    def create(self, name: str, settings: CrawlSettings) -> None:
        """Create a crawl."""
        self.do(lambda core, now: core.control.create_crawl(name, settings, spec_of(settings), now))

    def launch(self, name: str, *seeds: str) -> None:
        """Add seeds, launch, and let the seeds be announced."""
        self.do(lambda core, now: core.control.add_seeds(name, seeds, now))
        self.do(lambda core, now: core.control.launch(name, now))
        self.work()

    def work(self, most_slices: int = 10_000) -> int:
        """Run jobs until none is left; how many slices that took."""
        for slices in range(most_slices):
            if not self.core.upkeep.has_work:
                return slices
            self.do(lambda core, now: core.upkeep.work(now))
        raise AssertionError(f"work is left after {most_slices} slices")

    def log(self) -> None:
        """Let all outcomes be in the crawl logs for good."""
        for number, (_, logged, log_bytes) in self.core.upkeep.log_positions().items():
            last = self.core.upkeep.last_outcome(number)
            if last > logged:
                self.record_logged(number, last, log_bytes + LINE_BYTES * (last - logged))

    def record_logged(self, number: int, outcome: int, log_bytes: int) -> None:
        """Let a crawl's outcomes up to one be in its log, which is that long."""
        self.do(lambda core, now: core.upkeep.record_logged(number, outcome, log_bytes, now))

    def tick(self) -> None:
        """Let happen what has fallen due."""
        self.do(lambda core, now: core.upkeep.tick(now))

    def let_nodes_be_silent(self) -> None:
        """Let so much time go by that nodes which say nothing are taken to be gone."""
        end_ms = self.now_ms + SILENT_PERIODS * self.period_ms
        while self.now_ms < end_ms:
            due_ms = self.core.upkeep.next_due_ms()
            self.now_ms = end_ms if due_ms is None else min(max(due_ms, self.now_ms), end_ms)
            self.tick()

    def schedule(self, crawl: str, *offered: Candidate | str) -> list[Verdict]:
        """Offer candidates."""
        candidates = [candidate(offer) if isinstance(offer, str) else offer for offer in offered]
        return self.do(lambda core, now: core.frontier.schedule(crawl, candidates, now))

    def next(
        self, crawl: str | None = None, most: int = 100, node: str = "node", session: str = "1"
    ) -> NextAnswer:
        """Ask for leases."""
        return self.do(lambda core, now: core.frontier.next(node, session, Want(most), crawl, now))

    def grants(self, crawl: str | None = None, most: int = 100, node: str = "node") -> list[Grant]:
        """The leases that are given."""
        return self.next(crawl, most, node).grants

    def finish(self, *reports: Report, node: str = "node", session: str = "1") -> list[ReportResult]:
        """Hand reports in; of a robots.txt without body it is said that it is empty, as nodes do."""
        told = [self._told(report) for report in reports]
        return self.do(lambda core, now: core.frontier.finished(told, node, session, now))

    def _told(self, report: Report) -> Report:
        token = self.core.shard.leases.genuine(report.token)
        empty = token is not None and token.robots and 200 <= report.fetch_status < 300
        return structs.replace(report, robots_empty=True) if empty and not report.robots_body else report

    def take_back(self, tokens: Sequence[bytes]) -> None:
        """Release leases whose caller is gone."""
        self.do(lambda core, now: core.frontier.take_back(tokens, now))

    def request(self, crawl: str, target: Input) -> CrawlState:
        """Ask a crawl to run, pause or stop; its state then."""
        return self.do(lambda core, now: core.control.request_state(crawl, target, now)).state

    def state(self, crawl: str) -> CrawlState:
        """Where a crawl is in its life."""
        return self.core.views.crawl(crawl).state

    def count(self, crawl: str, figure: str) -> int:
        """A figure of a crawl."""
        return self.core.views.statistics(crawl, self.now_ms).counts[figure]

    def outcomes(self, crawl: str) -> list[OutcomeRow]:
        """All final dispositions that are kept."""
        number = self.core.views.crawl(crawl).number
        return [row for _, row in self.core.upkeep.outcomes_after(number, 0, 1_000_000)]

    def events(self, crawl: str) -> list[EventRow]:
        """All events that are kept, up to those of one read."""
        return [row for _, row in self.core.history.events_after(crawl, 0)]

    def states(self, crawl: str) -> list[str]:
        """The states that a crawl's events tell of."""
        return [str(row.fields["state"]) for row in self.events(crawl) if row.kind == "status_changed"]


class CheckedShell(Shell):
    """A shell whose core recounts, at each operation's end, the queues that it changed."""

    check_dearly = True
