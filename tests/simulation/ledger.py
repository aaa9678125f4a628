"""The ledger: all that was acknowledged, in order, and whether each thing could follow from those before.

It reads operations once they are durable, or have outlived a crash: their answers, and the rows that they
wrote. It knows nothing of the frontier's memory. `recovery` compares it with what a restart brings back.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from core_doubles.codec import PlainCodec, override_of
from core_doubles.shell import SECRET
from core_doubles.web import Site
from simulation.book import PRECLUDED, Book, site_of
from simulation.entry import Entry, Violated, demand
from simulation.manners import Manners

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.rows import keys
from frontier_server.core.rows.errors import FrontierError, SessionSuperseded
from frontier_server.core.rows.keys import IndexSet
from frontier_server.core.rows.records import decode_pending
from frontier_server.core.rows.store import Changes, Family
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.state.model import Grant, Report, ReportResult, Verdict

D = Disposition
SPOKEN = ("next", "finished", "heartbeat")  # by a session of a node
COUNTED = (D.SUCCEEDED, D.FAILED, D.DISREGARDED, D.DEFERRED)
RUN = (CrawlState.RUNNING, CrawlState.EMPTY)
_CODEC = PlainCodec()


@dataclass
class Live:
    """A lease that is out."""

    token: bytes
    book: Book
    uri: str
    robots: bool
    node: str
    session: str
    given_ms: int
    last_seen_ms: int  # of the frontier's presence, when its node last named it
    row: bytes  # its key in `leases`

    @property
    def site(self) -> Site:
        """Whose URI it is."""
        return site_of(self.uri)


@dataclass
class Ledger:
    """Everything that was acknowledged."""

    period_ms: int
    books: dict[str, Book] = field(default_factory=dict)  # by name
    numbers: dict[int, Book] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    manners: Manners = field(default_factory=Manners)
    live: dict[bytes, Live] = field(default_factory=dict)
    by_row: dict[bytes, Live] = field(default_factory=dict)
    ended: dict[bytes, Disposition] = field(default_factory=dict)  # what ended leases came to
    sessions: dict[str, str] = field(default_factory=dict)
    superseded: set[tuple[str, str]] = field(default_factory=set)
    pool_sizes: dict[str, int] = field(default_factory=dict)
    started_ms: int = 0  # of the frontier's presence, when it was last started
    copies: dict[str, Any] = field(default_factory=dict)  # of checkpoints: ledgers as they were then
    set_back: bool = False  # an older copy of the store was put in its place: numbers may come again
    checked: Counter[str] = field(default_factory=Counter)

    def take(self, entry: Entry) -> None:
        """The next operation. Raises Violated, or AssertionError."""
        call, answer = entry.call, entry.answer
        if call.kind in SPOKEN:
            self._heard(entry)
        if entry.refused:
            demand(not entry.changes, f"{call.kind} was refused, and has written something")
            return
        ran = {book.name for book in self.books.values() if book.watcher.state in RUN}
        self._before(entry)
        self._rows(entry)
        self._vanished(entry, [lease for lease in self.live.values() if self._replaced(lease)])
        match call.kind:
            case "schedule":
                for offer, verdict in zip(call.said[0], answer, strict=True):
                    self._book(call.name).verdict(offer.uri, verdict)
                    self.checked["verdicts"] += 1
                    if verdict is Verdict.QUEUED and offer.again:
                        self._book(call.name).forgotten.add(offer.uri)
            case "next":
                for grant in answer.grants:
                    state = self.books[grant.crawl].watcher.state
                    runs = grant.crawl in ran or state in RUN  # a limit may end it in the same moment
                    demand(runs, f"{grant.crawl} is {state.value}, and gives leases")
                    self._granted(entry, grant)
            case "finished":
                for report, result in zip(call.said[1], answer, strict=True):
                    self._reported(entry, report, result)
            case "heartbeat":
                for token in call.said[1]:
                    if token in self.live:
                        self.live[token].last_seen_ms = entry.present_ms
            case "take-back":
                for token in call.said[0]:
                    self._end(token, D.RELEASED)
            case "steer":
                told = self.books[call.name].watcher.state
                demand(
                    answer.state is told, f"{call.name} is {answer.state.value}; its events say {told.value}"
                )
            case _:
                pass
        self._vanished(entry, self.live.values())
        for book in self.books.values():
            if book.finished and book.waiting_at_end is None:
                book.waiting_at_end = len(book.waiting)

    def _replaced(self, lease: Live) -> bool:
        return self.sessions.get(lease.node) != lease.session

    def _book(self, name: str) -> Book:
        return self.books[name]

    # Before the rows are read: what makes sense of them.

    def _before(self, entry: Entry) -> None:
        call, answer = entry.call, entry.answer
        match call.kind:
            case "create":
                book = Book(answer.number, call.name, call.said[0], set_back=self.set_back)
                demand(book.number not in self.numbers, f"number {book.number} is used a second time")
                demand(book.number not in self.deleted, f"number {book.number} is used a second time")
                book.settings_changed()
                self.books[call.name] = self.numbers[book.number] = book
            case "update":
                book = self._book(call.name)
                book.settings = replace(book.settings, **dict(call.said))
                book.settings_changed()
            case "override":
                book = self._book(call.name)
                book.overrides[answer] = override_of(**call.said[1])
                book.settings_changed()
            case "no-override":
                book = self._book(call.name)
                del book.overrides[call.said[0]]
                book.settings_changed()
            case "seeds":
                self._book(call.name).seeds.extend(call.said[0])
            case "launch":
                if call.said and call.said[0]:
                    self._copied(call.name, *call.said)
            case "forget" | "note":
                book = self._book(call.name)
                book.forgotten.update(call.said[0])
                book.known.update(call.said[0] if call.kind == "note" else ())
            case "delete":
                book = self.books.pop(call.name)
                del self.numbers[book.number]
                self.deleted.add(book.number)
            case "pool-size":
                if call.said[0] is None:
                    self.pool_sizes.pop(call.name, None)
                else:
                    self.pool_sizes[call.name] = call.said[0]
            case _:
                pass

    def _copied(self, name: str, checkpoint: str, source: str) -> None:
        """A crawl goes on from a checkpoint: what was acknowledged of the other until then is its own."""
        book, other = self.books[name], self.copies[checkpoint].books[source or name]
        book.copied = True
        book.seeds, book.overrides = list(other.seeds), dict(other.overrides)
        book.known, book.done = set(other.known), Counter(other.done)
        book.refused, book.forgotten = set(other.refused), set(other.forgotten)
        book.fetched, book.deleted = set(other.fetched), set(other.deleted)
        book.outcomes = other.outcomes
        book.settings_changed()

    # The rows of an operation.

    def _rows(self, entry: Entry) -> None:
        changes = entry.changes
        left = self._left(changes)
        anew = entry.call.kind == "schedule" and any(offer.again for offer in entry.call.said[0])
        final: dict[tuple[int, str], int] = {}
        for (family, key), value in changes.items():
            if value is None or family not in _READ:
                continue
            book = self.numbers.get(int.from_bytes(key[:4], "big"))
            if book is None:
                continue
            if family is Family.PENDING:
                book.waits(uri_in(value), key, anew)
            elif family is Family.INDEX:
                if key[4] == IndexSet.FUTURE:
                    book.waits_for_its_time(uri_in(value), key)
            elif family is Family.EVENTS:
                book.event(keys.serial_of(key), value)
                self.checked["events"] += 1
            else:
                row = book.outcome(keys.serial_of(key), value)
                self.checked["dispositions"] += 1
                if row is not None:
                    final[book.number, row.uri] = row.fetch_status
        for number, uri in left:
            book = self.numbers[number]
            there = uri in book.waiting or uri in book.future or (number, uri) in final
            there = there or entry.call.kind == "forget"  # which says what it is about
            demand(there, f"{uri} of {book.name} is in no queue any more, and has no disposition")
        for (number, uri), status in final.items():
            if (number, uri) in left:
                continue
            # A robots.txt that is known may forbid a URI when that is offered, or offered anew.
            book = self.numbers[number]
            new = uri not in book.known or uri in book.forgotten or anew or book.repeats
            demand(
                new and status == PRECLUDED, f"{uri} of {book.name} waited nowhere when it got a disposition"
            )
            book.known.add(uri)

    def _left(self, changes: Changes) -> list[tuple[int, str]]:
        """URIs that have left their places."""
        left = []
        for (family, key), value in changes.items():
            if value is None and family in (Family.PENDING, Family.INDEX):
                book = self.numbers.get(int.from_bytes(key[:4], "big"))
                uri = book.leaves(key) if book is not None else None
                if book is not None and uri is not None:
                    left.append((book.number, uri))
        return left

    # Leases.

    def _heard(self, entry: Entry) -> None:
        """A session speaks: the one that a name has, or a new one; never one that was replaced."""
        call = entry.call
        node, session = call.name, call.said[0]
        superseded = (node, session) in self.superseded
        denied = isinstance(entry.answer, SessionSuperseded)
        demand(superseded == denied, f"session {session} of {node} is {'' if denied else 'not '}refused")
        known = self.sessions.get(node)
        if not denied and not isinstance(entry.answer, FrontierError) and known != session:
            if known is not None:
                self.superseded.add((node, known))
            self.sessions[node] = session

    def _granted(self, entry: Entry, grant: Grant) -> None:
        call = entry.call
        book = self._book(grant.crawl)
        uri = grant.candidate.uri if grant.robots else grant.uri
        site = site_of(uri)
        settings = book.settings_for(site)
        said = keys.decode_token(grant.token, SECRET)
        demand(said is not None and grant.token not in self.ended, f"the token of {grant.uri} is no new one")
        assert said is not None
        row = keys.lease_key(said.crawl, said.partition, said.serial)
        demand(row not in self.by_row, f"lease {said.serial} of {book.name} is given a second time")
        if not grant.robots:
            demand(uri in book.waiting, f"{uri} is leased, and waits nowhere")
            demand(uri not in book.leased, f"{uri} is leased twice")
            self.manners.allowed(site, uri.removeprefix(site.uri("")), settings)
            book.leased[uri] = grant.token
        self.manners.granted(entry.now_ms, book.number, site, settings)
        lease = Live(
            grant.token,
            book,
            uri,
            grant.robots,
            call.name,
            call.said[0],
            entry.now_ms,
            entry.present_ms,
            row,
        )
        self.live[grant.token] = self.by_row[row] = lease
        self.checked["leases"] += 1

    def _reported(self, entry: Entry, report: Report, result: ReportResult) -> None:
        token, told = report.token, result.disposition
        lease = self.live.get(token)
        if lease is None:
            before = self.ended.get(token)
            if result.repeated:
                demand(told is before, f"a report is said to repeat {told}; it was {before}")
            else:
                demand(told is D.STALE, f"a report of a lease that has ended counts: {told.value}")
            return
        self.checked["reports"] += 1
        if told is D.INVALID_REPORT:
            raise Violated(f"a report makes no sense: {result.problem}")
        demand(not result.repeated, "a first report is said to be repeated")
        if report.released:
            demand(told is D.RELEASED, f"a release is {told.value}")
            self._end(token, told)
            return
        demand(told in COUNTED, f"a report of a lease that is out is {told.value}")
        if not lease.robots and told is not D.DEFERRED:
            demand(lease.uri not in lease.book.waiting, f"{lease.uri} is {told.value}, and waits")
        if lease.robots:
            self.manners.learn(lease.site, lease.book.settings_for(lease.site), report)
        self._end(token, told, entry.now_ms, report)

    def _end(self, token: bytes, how: Disposition, now_ms: int = 0, report: Report | None = None) -> None:
        """A lease is not out any more; if it was used, its host rests."""
        lease = self.live.pop(token, None)
        if lease is None:
            return
        del self.by_row[lease.row]
        self.ended[token] = how
        book = lease.book
        if not lease.robots:
            book.leased.pop(lease.uri, None)
        settings = book.settings_for(lease.site)
        host = self.manners.ended(book.number, lease.site, settings)
        if report is not None:
            self.manners.rests(now_ms, host, lease.site, settings, report, lease.given_ms)

    def _vanished(self, entry: Entry, leases: Iterable[Live]) -> None:
        """Leases that are not stored any more have been let go, or lapsed for a reason."""
        changes = entry.changes
        for lease in [each for each in leases if changes.get((Family.LEASES, each.row), b"") is None]:
            if entry.call.kind == "heartbeat" and entry.call.said[2] and lease.session == entry.call.said[0]:
                self._end(lease.token, D.RELEASED)
                continue
            self._lapsed(entry, lease)
            report = Report(b"", fetch_status=-7000, duration_ms=entry.now_ms - lease.given_ms)
            self._end(lease.token, D.STALE, entry.now_ms, report)
            self.checked["lapses"] += 1

    def _lapsed(self, entry: Entry, lease: Live) -> None:
        """A lease lapses if its node was not heard for a period in which it could have been, or was replaced.

        Or if it has come to its hard limit, or its crawl's pause or end has waited long enough.
        """
        if self._replaced(lease):
            return
        if lease.book.watcher.state in (CrawlState.PAUSING, CrawlState.STOPPING, CrawlState.FINISHED):
            return
        if lease.book.watcher.state is CrawlState.PAUSED:
            return  # it has just come to that
        settings = lease.book.settings_for(lease.site)
        longest_ms = max(2 * settings.fetch.timeout_ms, 10 * self.period_ms)
        if entry.now_ms >= lease.given_ms + longest_ms:
            return
        silent_ms = entry.present_ms - max(lease.last_seen_ms, self.started_ms)
        demand(
            silent_ms >= self.period_ms,
            f"the lease of {lease.uri} lapses after {silent_ms} ms in which its node could have been heard",
        )


_READ = frozenset((Family.PENDING, Family.INDEX, Family.EVENTS, Family.OUTCOMES))


def uri_in(value: bytes) -> str:
    """The URI of a row of `pending`, or of a future URI."""
    return _CODEC.decode(decode_pending(value).candidate).uri
