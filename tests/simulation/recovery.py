"""What a restart must bring back: everything that the ledger has."""

from core_doubles.placing import PLACES
from core_doubles.recount import Recount
from core_doubles.rows import rows
from simulation.book import Book
from simulation.entry import demand
from simulation.ledger import Ledger

from frontier_server.core.core import Core
from frontier_server.core.rows import keys
from frontier_server.core.rows.records import HostRow, decode
from frontier_server.core.rows.store import Family, Store


class Recovered:
    """A frontier that was just built from the store. It has what `Recount` needs of a shell."""

    def __init__(self, store: Store, core: Core) -> None:
        self.store = store
        self.core = core

    def check(self, ledger: Ledger, now_ms: int, thorough: bool) -> None:
        """Raise Violated, or AssertionError, if something that was acknowledged is missing or changed."""
        core = self.core
        names = {*core.shard.registry.names, *core.shard.registry.torn}
        demand(names == ledger.books.keys(), f"crawls are {sorted(names)}, not {sorted(ledger.books)}")
        demand(core.shard.server.pool_sizes == ledger.pool_sizes, "pool sizes are not as they were set")
        for node, session in ledger.sessions.items():
            told = core.shard.sessions.of(node)
            demand(told == session, f"the session of {node} is {told}, not {session}")
        secret = core.shard.server.secret
        out = {lease.token(secret) for lease in core.shard.leases}
        lost = [lease.uri for token, lease in ledger.live.items() if token not in out]
        demand(not lost, f"leases are lost: {lost}")
        demand(len(out) == len(ledger.live), "leases are out that have ended, or were never given")
        self._rests(ledger, now_ms)
        for book in ledger.books.values():
            self.crawl(book, thorough)

    def _rests(self, ledger: Ledger, now_ms: int) -> None:
        for name, host in ledger.manners.hosts.items():
            if host.free_ms <= now_ms:
                continue
            crawl, of_one, its = name.partition("\0")
            if of_one and int(crawl) in ledger.deleted:
                continue
            key = keys.host_key(PLACES.of_host(its or name), its or name)
            family = Family.OWN_HOSTS if of_one else Family.HOSTS
            value = self.store.get(family, keys.crawl_prefix(int(crawl)) + key if of_one else key)
            until_ms = decode(HostRow, value).next_allowed_ms if value is not None else 0
            demand(until_ms >= host.free_ms, f"the rest of {its or name} is forgotten")

    def crawl(self, book: Book, thorough: bool) -> None:
        """One crawl is as the ledger has it."""
        core = self.core
        view = core.views.crawl(book.name)
        live = core.shard.registry.named(book.name)
        demand(view.number == book.number, f"{book.name} is another crawl")
        demand(view.spec == book.spec, f"the spec of {book.name} is not what was acknowledged")
        book.watcher.check(view, live.state_row.nodes)
        demand(view.last_event == len(book.events), f"events of {book.name} are missing, or new")
        overrides = dict(core.administration.overrides(book.name))
        if not (book.copied and live.restoring):
            demand(overrides == book.overrides, f"overrides of {book.name} are not what was acknowledged")
            prefix = keys.crawl_prefix(book.number)
            seeds = [value.decode() for _, value in rows(self.store, Family.SEEDS, prefix)]
            demand(seeds == book.seeds, f"seeds of {book.name} are {len(seeds)}, not {len(book.seeds)}")
        if thorough:
            prefix = keys.crawl_prefix(book.number)
            stored = [value for _, value in rows(self.store, Family.EVENTS, prefix)]
            demand(stored == book.events, f"events of {book.name} are not those that were told")
            if book.number in core.shard.registry.crawls and not live.restoring:
                Recount(self, live).run()  # type: ignore[arg-type]  # it has what that needs of a shell
