"""A shard: the state of all crawls of one store, shared by every door of the core.

An operation reads the store and changes memory. Before the next operation, the caller must
write the changes to the store; before the answer leaves, they must be durable. If that
fails, memory is wrong: build a new shard from the store.
"""

from collections.abc import Iterable, Mapping

from ..machines.lifecycle import CrawlState
from ..machines.target import Target
from ..robotstxt.robots_table import RobotsTable
from ..rows import errors
from ..rows.store import Changes, CheckpointOf, Store, Transaction
from ..spec.settings import CrawlSettings
from ..state import life
from ..state.attendance import reconcile
from ..state.crawl import Crawl, SettingsOf
from ..state.host import Hosts
from ..state.leases import LeaseTable
from ..state.ledger import Ledger
from ..state.model import CandidateCodec, Versions
from ..state.operation import Operation
from ..state.sessions import Sessions
from ..state.sweeps import Act, Sweeps
from ..uri.assign import hash64
from . import opening
from .invariants import check
from .registry import MakeCrawl, Registry, made_of

ANY_NODE = ""


def size_of_pool(sizes: Mapping[str, int], node: str) -> int | None:
    """The size that operators have set for a node, or else for any node; None if there is none."""
    return sizes.get(node, sizes.get(ANY_NODE))


def _look_again(op: Operation, crawl: Crawl) -> None:
    """Let the end of an operation settle a crawl."""
    op.counters(crawl)


def no_checkpoint(name: str) -> Store:
    """Raise UnknownCheckpoint: for a shard without checkpoints."""
    raise errors.UnknownCheckpoint(f"there is no checkpoint {name[:80]!r}", checkpoint=name[:80])


class Shard:
    """The state that all operations share, and how each of them begins and ends.

    `store` must hold a server row (`opening.new_store`). `settings_of` reads a stored
    spec and overrides; `version` goes into user agents; `period_ms` is a lease's life without a
    heartbeat, `heartbeat_ms` the time between two; `incarnation` is 32 random bits of this start,
    which make lease numbers unique; `checkpoint_of` finds checkpoints. `read_only` says that nobody
    will call for leases; `make` makes crawls of their rows. With `check_dearly`, each operation recounts the
    queues that it changed.
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
        heartbeat_ms: int = 0,
        read_only: bool = False,
        check_dearly: bool = False,
        make: MakeCrawl = made_of,
    ) -> None:
        self.store = store
        self._checks_dearly = check_dearly
        self.codec = codec
        self.checkpoint_of = checkpoint_of
        self.server = opening.server_row(store)
        self.now_ms = max(now_ms, self.server.time_ms)
        self.places = opening.places_of(opening.places_row(store, self.server))
        self.hosts = Hosts(self.places)
        self.robots = RobotsTable()
        self.leases = LeaseTable(self.server.secret, period_ms, incarnation, heartbeat_ms)
        self.incarnation = incarnation
        self._versions = 0  # so many so far
        self.registry = Registry(store, settings_of, self.places, version, make)
        self.registry.asked_of_any.in_vain = read_only
        self.sessions = Sessions(store)
        self.registry.open(self.server, self.hosts, self.leases, self.sessions, self.now_ms)
        self.crawls = self.registry.crawls
        self.agenda = self.registry.agenda
        self.ledger = Ledger(self.leases, self.hosts, self.crawls)
        # Their clocks, which stood while no server ran, are stored with the next changes.
        self.clocks = {each.number: each for each in self.crawls.values() if each.state_row.running_since_ms}
        for crawl in self.clocks.values():
            crawl.leave_out(self.server.time_ms, self.now_ms)
            self.agenda.note(crawl)
        self.sweeps = Sweeps()
        # Crawls that can now be held: the imports that they waited for ended with the last server.
        holding = [number for number, crawl in self.crawls.items() if crawl.target is Target.HOLD]
        self.sweeps.begin("hold", holding, _look_again)
        # Pauses every crawl: kind and message. Until a crawl is paused, it gives no leases.
        self.trouble: tuple[str, str] | None = None
        # Crawls that are watched, and have changed: name → when, counted from the start; the latest last.
        self._changed: dict[str, int] = {}
        self.changes = 0  # so many so far
        self.news: dict[int, Crawl] = {}  # crawls with events since the last `take_news`

    def versions_of(self, crawl: Crawl) -> Versions:
        """The versions of a crawl's scope and memory: no other ones of any crawl are ever the same."""
        scope, seen = crawl.versions
        if not (scope and seen):
            crawl.versions = Versions(scope or self._new_version(), seen or self._new_version())
        return crawl.versions

    def _new_version(self) -> bytes:
        self._versions += 1
        return hash64(f"{self.incarnation} {self._versions}")

    def begin(self, now_ms: int) -> Operation:
        """Start an operation."""
        self.now_ms = max(self.now_ms, now_ms)
        self.hosts.let_go()
        return Operation(self.store, self.now_ms)

    def sweep(self, op: Operation, name: str, crawls: Iterable[int], act: Act) -> None:
        """Act on many crawls: on some now, on the others with the next ticks."""
        self.sweeps.begin(name, crawls, act)
        self.sweeps.slice(op, self.crawls)

    def started(self) -> list[int]:
        """The crawls whose clocks run."""
        return [number for number, crawl in self.crawls.items() if crawl.state_row.running_since_ms]

    def attended_by(self, node: str) -> list[int]:
        """The crawls that a node fetches for."""
        return [number for number, crawl in self.crawls.items() if node in crawl.state_row.nodes]

    def reconcile(self, op: Operation) -> None:
        """Note which nodes have left any crawl."""
        attended = [number for number, crawl in self.crawls.items() if crawl.state_row.nodes]
        self.sweep(op, "attendance", attended, lambda op, crawl: reconcile(op, crawl, self.leases))

    def end(self, op: Operation) -> Changes:
        """Settle the crawls that an operation touched, and return its changes."""
        for crawl in op.touched:
            if crawl.number in self.crawls:
                self._settle(op, crawl)
        op.close()
        check(op, self.crawls, self._checks_dearly)
        for number, crawl in (op.looked_at | {crawl.number: crawl for crawl in op.touched}).items():
            if crawl.state_row.torn_down:
                self.registry.unload(crawl)
            elif number in self.crawls:
                self.agenda.note(crawl)
            if crawl.watched:
                self._note_change(crawl.name)
        if op.told:
            self.news |= op.told
        if op.tx.changes:
            for number, crawl in self.clocks.items():
                if number in self.crawls:
                    op.put_state(crawl)
            self.clocks.clear()
        if op.tx.changes and self.now_ms > self.server.time_ms:  # the server's time is never before a row's
            self.server.time_ms = self.now_ms
            opening.put_server_row(op.tx, self.server)
        return op.tx.changes

    def _note_change(self, name: str) -> None:
        self.changes += 1
        self._changed.pop(name, None)
        self._changed[name] = self.changes

    def changed_after(self, change: int) -> tuple[list[str], int]:
        """The watched crawls that have changed since a change, by its number, and the number of the last one.
        Changes are counted from the start."""
        names = []
        for name in reversed(self._changed):
            if self._changed[name] <= change:
                break
            names.append(name)
        return names, self.changes

    def _settle(self, op: Operation, crawl: Crawl) -> None:
        life.settle(op, crawl)
        if crawl.state_row.suspicion and crawl.state is not CrawlState.PREPARING:
            kind, detail = crawl.state_row.suspicion
            life.distrust(op, crawl, kind, detail)
            life.settle(op, crawl)
        if self.trouble is not None:
            life.pause_for(op, crawl, *self.trouble, self.trouble[0])
            life.settle(op, crawl)

    def crawl_delays(
        self, tx: Transaction, crawl: Crawl, robots_key: bytes, settings: CrawlSettings
    ) -> tuple[int, int]:
        """The Crawl-delays after which all crawls, and this crawl alone, may ask the host of a robots.txt
        again. They differ if the crawl has an answer of its own, and shares its hosts with others."""
        bound = crawl.state_row.bound
        own_key = self.robots.key_for(tx, robots_key, crawl.number, bound)
        own = self.robots.crawl_delay_ms(tx, own_key, settings)
        if own_key == robots_key or not crawl.settings.politeness.across_crawls:
            return own, own
        return self.robots.crawl_delay_ms(tx, robots_key, settings), own

    def pool_size_of(self, node: str) -> int | None:
        """The number of toe threads that operators have set for a node; None if they have not."""
        return size_of_pool(self.server.pool_sizes, node)
