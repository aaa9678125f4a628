"""One history: a plan, played from its begin to the end of all crawls."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from core_doubles.rebuilt import as_rebuilt
from core_doubles.shell import START_MS
from simulation.book import Book
from simulation.calls import Call
from simulation.entry import Entry, Violated, demand
from simulation.faults import Faults
from simulation.ledger import Ledger
from simulation.loop import Loop
from simulation.network import Network
from simulation.node import Node
from simulation.operators import Operators
from simulation.plan import Plan
from simulation.recovery import Recovered
from simulation.server import Server
from simulation.world import World

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus
from frontier_server.core.state.job import JobKind

PERIOD_MS = 60_000
HEARTBEAT_MS = PERIOD_MS // 3
CALM_MS = 3 * 3_600_000  # after the last fault everything has ended by then
SETTLED_MS = 20_000  # after the last launch, wish or fault
CALM_EVERY_MS = 20_000
MOST_EVENTS = 200_000
_S = CrawlState


@dataclass
class Statistics:
    """What a history was made of."""

    crawls: int = 0
    events: int = 0
    operations: int = 0
    faults: int = 0
    fetches: int = 0
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Statistics") -> None:
        """Count another history, too."""
        self.crawls += other.crawls
        self.events += other.events
        self.operations += other.operations
        self.faults += other.faults
        self.fetches += other.fetches
        self.checked.update(other.checked)


class History:
    """Everybody, at one table."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.told: list[Entry] = []
        self.loop = Loop(START_MS)
        self.world = World(plan)
        self.server = Server(
            self.loop,
            self._dice("server"),
            Ledger(PERIOD_MS),
            PERIOD_MS,
            plan.flush_ms,
            self._hear,
        )
        self.network = Network(self.loop, self._dice("network"), plan.network, self.server)
        self.nodes = [Node(self.loop, self.network, self.world, node, HEARTBEAT_MS) for node in plan.nodes]
        self.operators = Operators(
            self.loop, self._dice("operators"), self.network, self.server, self.world, plan
        )
        self.faults = Faults(
            self.loop,
            self._dice("faults"),
            self.network,
            self.server,
            self.world,
            self.nodes,
            plan,
            HEARTBEAT_MS,
        )

    def _hear(self, entry: Entry) -> None:
        self.told.append(entry)
        self.faults.told(entry)

    def _dice(self, whose: str) -> Random:
        return Random(f"{self.plan.seed} {whose}")

    @property
    def ledger(self) -> Ledger:
        """What was acknowledged so far."""
        return self.server.ledger

    def play(self) -> Statistics:
        """Play it. Raises AssertionError, or whatever the frontier raises, if something is wrong."""
        plan = self.plan
        planned = (*plan.wishes, *plan.faults)
        last_ms = START_MS + max((event.at_ms for event in planned), default=0) + SETTLED_MS
        calm_ms = START_MS + plan.chaos_ms
        while self.loop.now_ms < calm_ms and not (self.loop.now_ms >= last_ms and self._all_ended()):
            self._until(min(self.loop.now_ms + SETTLED_MS, calm_ms))
        while not self.server.up or self.server.stopped:
            self._step()
        self.faults.end()
        end_ms = self.loop.now_ms + CALM_MS
        next_ms = self.loop.now_ms + 2 * HEARTBEAT_MS
        while not self._all_ended():
            self._until(next_ms)
            self.server.strict = True
            next_ms = self.loop.now_ms + CALM_EVERY_MS
            if self.loop.now_ms >= end_ms:
                raise Violated(f"crawls have not ended: {self._states()}")
            self.faults.revive()
            self.operators.calm_all()
            self.server.want_flush()
            for book in list(self.ledger.books.values()):
                if not book.finished:
                    self.operators.calm(book)
        self._verify()
        return Statistics(
            len(self.ledger.books) + len(self.ledger.deleted),
            self.loop.happened,
            self.server.operations,
            self.faults.happened + self.network.lost,
            sum(node.fetches for node in self.nodes),
            self.ledger.checked,
        )

    def _until(self, moment_ms: int) -> None:
        while self.loop.now_ms < moment_ms:
            self._step()

    def _step(self) -> None:
        self.loop.step()
        if self.loop.happened > MOST_EVENTS:
            raise Violated(f"too much happens: {self._states()}")

    def _states(self) -> dict[str, str]:
        return {book.name: book.watcher.state.value for book in self.ledger.books.values()}

    def _all_ended(self) -> bool:
        ended = all(book.finished for book in self.ledger.books.values())
        begun = self.operators.created.issuperset(crawl.name for crawl in self.plan.crawls)
        return (
            ended
            and begun
            and self.server.up
            and not self.server.store.unflushed
            and not self.server.core.upkeep.has_work
        )

    def _verify(self) -> None:
        """At the end: nothing is out, memory is what is stored, and every count is that of its rows."""
        server, ledger = self.server, self.ledger
        server.flush()
        for book in ledger.books.values():
            if book.name in server.core.shard.registry.names:
                answer = server.run(Call("job", book.name, (JobKind.VERIFY.value, ())))
                if hasattr(answer, "number"):
                    self._worked()
                    found = server.core.administration.job(book.name, answer.number).findings
                    demand(not found, f"verification of {book.name} finds {found}")
        server.flush()
        demand(not ledger.live, f"leases are out: {[lease.uri for lease in ledger.live.values()]}")
        as_rebuilt(server)  # type: ignore[arg-type]  # it has what that needs of a shell
        Recovered(server.store, server.core).check(ledger, self.loop.now_ms, thorough=True)
        for book in ledger.books.values():
            self._complete(book)

    def _worked(self) -> None:
        while self.server.core.upkeep.has_work:
            self.server.run(Call("work"))

    def _complete(self, book: Book) -> None:
        """All that belongs to a crawl that came to its natural end was fetched, or has a disposition."""
        if book.watcher.exit_status is not ExitStatus.FINISHED:
            return
        demand(not book.future, f"{book.name} has ended, and {list(book.future)} wait for their time")
        left, told = book.waiting_at_end, book.left_behind
        demand(left == told, f"{book.name} has ended with {left} URIs that wait, and tells of {told}")
        for uri in book.known:
            had = uri in book.done or uri in book.waiting or uri in book.forgotten
            demand(had, f"{uri} of {book.name} has no disposition")
        for seed in book.seeds:
            demand(seed in book.known or book.copied or self._refusable(book, seed), f"seed {seed} was lost")
        for uri in () if book.set_back else book.fetched:  # else links that were offered may be lost
            for link in self.world.links.get(uri, ()):
                known = link in book.known or link in book.refused
                demand(known, f"{link}, a link of {uri}, was never offered to {book.name}")

    def _refusable(self, book: Book, seed: str) -> bool:
        return bool(book.settings.scope.surt_prefixes)
