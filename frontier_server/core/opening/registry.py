"""The crawls of a shard: those in memory, those torn down, and those being deleted.

Memory has only the name of a crawl that was torn down; each request for the crawl reads it from the store.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from ..machines.lifecycle import CrawlState
from ..rows import errors
from ..rows.records import ServerRow
from ..rows.store import Store
from ..state.agenda import Agenda
from ..state.askers import Askers
from ..state.crawl import Crawl, SettingsOf
from ..state.host import Hosts
from ..state.leases import LeaseTable
from ..state.nodes import MAX_NODES
from ..state.sessions import Sessions
from ..uri.assign import Places
from . import opening
from .teardown import CrawlDeletion

MakeCrawl = Callable[[opening.CrawlRows, SettingsOf, Places, str], Crawl]
"""Makes a crawl of its three rows, with the means to read a spec, the store's places, and the version."""


def made_of(rows: opening.CrawlRows, settings_of: SettingsOf, places: Places, version: str) -> Crawl:
    """A crawl without the rows beyond its own three."""
    return Crawl(rows.number, rows.spec, settings_of, places, version, rows.state, rows.counters)


class Registry:
    """The crawls of a shard."""

    def __init__(
        self,
        store: Store,
        settings_of: SettingsOf,
        places: Places,
        version: str,
        make: MakeCrawl = made_of,
    ) -> None:
        self.crawls: dict[int, Crawl] = {}  # in memory, by number
        self.names: dict[str, Crawl] = {}  # the same, by name
        self.torn: dict[str, int] = {}  # torn down: name → number
        self._in_order: list[str] = []  # all names, sorted
        self.deletions: list[CrawlDeletion] = []
        self.agenda = Agenda()
        self.asked_of_any = Askers()
        self.settings_of = settings_of
        self.places = places
        self.version = version
        self._store = store
        self._make = make

    def open(
        self, server: ServerRow, hosts: Hosts, leases: LeaseTable, sessions: Sessions, now_ms: int
    ) -> None:
        """Find the crawls of the store, and open those that are not torn down or deleted."""
        stored = opening.crawl_rows(self._store, server.next_crawl)
        self._in_order = sorted(rows.spec.name for rows in stored if not rows.state.deleted)
        for rows in stored:
            if rows.state.deleted:
                self.deletions.append(CrawlDeletion(rows.number, rows.state))
            elif rows.state.torn_down:
                self.torn[rows.spec.name] = rows.number
            else:
                crawl = self.made(rows)
                opening.load_all(self._store, crawl, hosts, leases, now_ms)
                self.add(crawl)
        awaited = () if self.asked_of_any.in_vain else self.crawls.values()
        at_work = {node for crawl in awaited for node in crawl.state_row.nodes}
        for node, row in sessions.listed(now_ms)[-MAX_NODES:]:
            gone = "left" if row.left else "" if node in at_work else "silent"
            leases.nodes.recall(node, row.session, row.last_seen_ms, now_ms, gone)
        for crawl in awaited:
            for node, session in crawl.state_row.nodes.items():
                if leases.nodes.session_of(node) is None:
                    leases.nodes.remember(node, sessions.of(node) or session, now_ms)

    def made(self, rows: opening.CrawlRows) -> Crawl:
        """A crawl without the rows beyond its own three."""
        return self._make(rows, self.settings_of, self.places, self.version)

    def add(self, crawl: Crawl) -> None:
        """Add a crawl to those in memory."""
        self.crawls[crawl.number] = self.names[crawl.name] = crawl
        place = bisect_left(self._in_order, crawl.name)
        if self._in_order[place : place + 1] != [crawl.name]:
            self._in_order.insert(place, crawl.name)
        crawl.asked_of_any = self.asked_of_any
        self.agenda.note(crawl)

    def unload(self, crawl: Crawl) -> None:
        """Remove a crawl that was torn down from memory."""
        self._forget(crawl)
        self.torn[crawl.name] = crawl.number

    def delete(self, crawl: Crawl) -> None:
        """Forget a crawl that is marked as deleted, and begin to delete its rows."""
        self._forget(crawl)
        del self._in_order[bisect_left(self._in_order, crawl.name)]
        self.deletions.append(CrawlDeletion(crawl.number, crawl.state_row))

    def _forget(self, crawl: Crawl) -> None:
        self.crawls.pop(crawl.number, None)
        self.names.pop(crawl.name, None)
        self.torn.pop(crawl.name, None)
        self.agenda.forget(crawl.number)

    def __len__(self) -> int:
        return len(self.crawls) + len(self.torn)

    def __contains__(self, name: str) -> bool:
        return name in self.names or name in self.torn

    def names_after(self, name: str, most: int) -> list[str]:
        """The first names that sort behind `name`."""
        place = bisect_right(self._in_order, name)
        return self._in_order[place : place + most]

    def torn_rows(self, name: str) -> opening.CrawlRows | None:
        """The rows of a crawl that was torn down, without opening it; None if it was not."""
        number = self.torn.get(name)
        return None if number is None else opening.rows_of(self._store, number)

    def named(self, name: str) -> Crawl:
        """A crawl, for reading. Raises UnknownCrawl."""
        crawl = self.names.get(name)
        if crawl is not None:
            return crawl
        if name not in self.torn:
            raise errors.UnknownCrawl(f"there is no crawl {name[:80]!r}", crawl=name[:80])
        crawl = self.made(opening.rows_of(self._store, self.torn[name]))
        opening.read_overrides(self._store, crawl)
        return crawl

    def changeable(self, name: str) -> Crawl:
        """A crawl, for a change. Raises UnknownCrawl, CrawlHeld or CrawlTornDown."""
        crawl = self.named(name)
        if crawl.state_row.torn_down:
            raise errors.CrawlTornDown(
                f"crawl {name!r} was torn down; it can only be read, copied to a new crawl, or deleted",
                crawl=name,
                state=crawl.state.value,
            )
        if crawl.held:
            raise errors.CrawlHeld(
                f"crawl {name!r} is held; resume, pause or stop it first",
                crawl=name,
                state=crawl.state.value,
            )
        if crawl.restoring:
            raise errors.CrawlHeld(
                f"crawl {name!r} is being launched from checkpoint {crawl.restoring}; wait until it runs",
                crawl=name,
                state=crawl.state.value,
            )
        return crawl

    def unfinished(self, name: str) -> Crawl:
        """A crawl that has not finished, for a change. Raises CrawlFinished, or as `changeable` does."""
        crawl = self.changeable(name)
        if crawl.state is CrawlState.FINISHED:
            raise errors.CrawlFinished(
                f"crawl {name!r} has finished ({crawl.exit_status.value}); reopen it first",
                crawl=name,
            )
        return crawl
