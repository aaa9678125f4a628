"""Rebuilds a store from the readable rows of another one.

Rows that follow from no others are copied: specs, seeds, overrides, the seen-set, events, outcomes,
statistics, examples of refused URIs. The operations of the core make all others again: they put each
waiting URI into its queue, in the old order, so that places, sets and counts agree. URIs restore a queue
whose row is lost. Leases are dropped; their URIs wait in their queues again. A URI of the seen-set that was
not visited and no longer waits is forgotten, so that it is new when it is found again. Each row is judged by
itself: one that cannot be used is left out and counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from ..journey.enqueue import Arrival, put_in, queue_at
from ..machines.lifecycle import CrawlState, ExitStatus
from ..machines.target import Reached, Target
from ..opening import opening
from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.keys import CrawlRow, IndexSet
from ..rows.records import (
    FORMAT,
    CountersRow,
    PlacesRow,
    QueueRow,
    SeenRow,
    ServerRow,
    SpecRow,
    StateRow,
    decode,
    decode_pending,
    encode,
)
from ..rows.store import Changes, Family, Store
from ..state import job
from ..state.crawl import Crawl, SettingsOf
from ..state.head import Head, read_head
from ..state.life import new_state_row
from ..state.meaning import authorities
from ..state.model import CandidateCodec
from ..state.operation import Operation
from ..state.queue import QueueEvent, QueueState
from ..uri.assign import Place, hash64
from ..uri.canonical import canonical
from ..uri.scope import add_authority
from ..uri.suffixes import Suffixes
from .soundness import is_sound, read_counters, read_job, read_state

ROWS_PER_WRITE = 500
CRAWL_KEY_BYTES = 5
SERIALS_LEFT_OUT = 1 << 20  # numbers that may be in use, if a crawl's counters are lost
CRAWLS_LEFT_OUT = 1_000  # numbers that may be in use, if all rows of a coordinator's newest crawls are lost
TERM_MS = 600_000  # since 1970: a coordinator has surely begun fewer terms than one in each such time

Rows = Callable[[Family, bytes], Iterator[tuple[bytes, bytes]]]
"""The readable rows of a family whose keys have a prefix, in key order."""

_NUMBERED = {
    Family.EVENTS: "next_event",
    Family.SEEDS: "next_seed",
    Family.JOBS: "next_job",
    Family.OUTCOMES: "next_outcome",
}
_COPIED = (
    *(Family.OVERRIDES, Family.SEEDS, Family.JOBS, Family.EVENTS, Family.OUTCOMES),
    *(Family.FETCH_STATISTICS, Family.OWN_HOSTS, Family.IMPORTS, Family.SEEN),
    Family.KEPT_URIS,
)
# The fields of a queue that its URIs do not determine.
_OF_A_QUEUE = (
    *("failed", "wake_ms", "expenditure", "session_start", "session_budget", "total_budget"),
    *("fixed_precedence", "paused", "retire_reason", "successes", "last_cost", "total_cost", "queue_ms"),
    *("lease_ms", "min_gap_ms", "authorities_rest", "forced"),
)
# The counters of a crawl that follow from its rows.
_COUNTED = frozenset(
    (
        *("queued", "retired_uris", "ineligible_uris", "future", "active_queues", "inactive", "queues"),
        "discovered",
    )
)


@dataclass(slots=True)
class Rebuilt:
    """The result for a crawl."""

    name: str
    uris: int | None = 0  # of the seen-set; None: they are in other stores
    waiting: int = 0
    lost: list[str] = field(default_factory=list)  # in words
    has_lost_log: bool = False  # nothing tells how far its crawl.log goes


class Rebuilding:
    """Builds `target`, which is empty, from `rows`. The caller writes what `changes` yields, in order."""

    def __init__(
        self,
        rows: Rows,
        target: Store,
        codec: CandidateCodec,
        settings_of: SettingsOf,
        now_ms: int,
        suffixes: bytes,
        leads: bool = False,
    ) -> None:
        """`suffixes` is a list of public suffixes, for a store whose own is lost. A store that `leads` has no
        URIs: its counts of them are those of other stores."""
        self.crawls: list[Rebuilt] = []
        self.lost: list[str] = []  # of the server and of whole crawls, in words
        self.left_out: Counter[Family] = Counter()  # rows that cannot be used
        self._numbers: set[int] = set()  # of the crawls that are in the new store
        self._found_again: set[bytes] = set()  # queues whose rows are lost
        self._rows = rows
        self._target = target
        self._codec = codec
        self._settings_of = settings_of
        self._suffixes = suffixes
        self._leads = leads
        self._store_places = opening.places_of(None)
        self._now_ms = now_ms
        self._ended_ms = now_ms  # when the last server wrote last

    def changes(self, secret: bytes) -> Iterator[Changes]:
        """All rows of the new store. `secret` replaces the server's if that is lost."""
        found = self._crawl_rows()
        of_server = found.pop(keys.SERVER, {})
        row = self._server_row(of_server.get(CrawlRow.SERVER))
        if row is None:
            row = ServerRow(FORMAT, secret, term=self._now_ms // TERM_MS if self._leads else 0)
        had_places = row.format >= opening.FIRST_WITH_PLACES
        row.format = FORMAT
        self._ended_ms = row.time_ms
        row.time_ms = max(row.time_ms, self._now_ms)
        row.next_crawl = max(row.next_crawl, max(found, default=0) + 1)
        if self._leads:
            row.next_crawl += CRAWLS_LEFT_OUT
        yield {(Family.CRAWLS, keys.crawl_key(keys.SERVER, CrawlRow.SERVER)): encode(row)}
        places = self._places_row(of_server.get(CrawlRow.PLACES), had_places)
        self._store_places = opening.places_of(places)
        yield opening.places_changes(places)
        for family in (Family.HOSTS, Family.ROBOTS):
            yield from self._copied(family, b"")
        for number, rows in sorted(found.items()):
            yield from self._crawl(number, rows)
        if self._leads:  # a crawl whose rows are lost may have parts in other stores
            row.spared = _gaps(self._numbers, row.next_crawl)
            yield {(Family.CRAWLS, keys.crawl_key(keys.SERVER, CrawlRow.SERVER)): encode(row)}

    def _server_row(self, value: bytes | None) -> ServerRow | None:
        """The server's row; None if it is lost. Raises OtherFormat if a later version wrote the store: every
        version can read that row as far as its format."""
        if value is not None:
            try:
                decode(ServerRow, value)
            except StoreCorrupt:
                self.left_out[Family.CRAWLS] += 1
            else:
                return opening.decoded_server_row(value)
        self.lost.append(
            "the server's own row is lost: its clock follows the machine's, and pools have their nodes' sizes"
        )
        return None

    def _places_row(self, value: bytes | None, had_one: bool) -> PlacesRow:
        """What the places of the store follow. If that is lost, rows of hosts show the rule."""
        if value is not None:
            try:
                row = decode(PlacesRow, value)
                Suffixes(row.suffixes).check()
                return row
            except (StoreCorrupt, ValueError):
                self.left_out[Family.CRAWLS] += 1
        if not had_one:
            return PlacesRow(self._suffixes, by_site=False)
        self.lost.append(
            "the list of public suffixes that the store was made with is lost: the installed one counts from "
            "now on, and pages of sites that the two tell apart may be fetched again"
        )
        some = list(islice(self._sound(Family.HOSTS, b""), ROWS_PER_WRITE))
        old = sum(key[:8] == hash64(key[8:].decode(errors="replace")) for key, _ in some)
        return PlacesRow(self._suffixes, by_site=2 * old <= len(some))

    def _crawl_rows(self) -> dict[int, dict[int, bytes]]:
        found: dict[int, dict[int, bytes]] = {}
        for key, value in self._rows(Family.CRAWLS, b""):
            if len(key) == CRAWL_KEY_BYTES:  # longer ones are of sessions, which begin anew
                found.setdefault(int.from_bytes(key[:4], "big"), {})[key[4]] = value
        return found

    def _crawl(self, number: int, rows: dict[int, bytes]) -> Iterator[Changes]:
        name = ""
        try:
            spec = decode(SpecRow, rows.get(CrawlRow.SPEC, b""))
            name = f" ({spec.name})"
            state = self._state(rows.get(CrawlRow.STATE))
            before = self._counters(rows.get(CrawlRow.COUNTERS))
            counters = _carried(before)
            crawl = Crawl(
                number,
                spec,
                self._settings_of,
                self._store_places,
                "",
                state or _paused(self._now_ms),
                counters,
            )
        except (StoreCorrupt, ValueError):
            self.left_out[Family.CRAWLS] += CrawlRow.SPEC in rows
            self.lost.append(f"crawl number {number}{name} is lost: its spec cannot be read")
            return
        told = Rebuilt(spec.name)
        self.crawls.append(told)
        self._numbers.add(number)
        if state is None:
            told.lost.append("its state: it is paused")
            state = crawl.state_row
        if before is None:
            told.lost.append("its statistics")
            told.has_lost_log = True
        yield {
            (Family.CRAWLS, keys.crawl_key(number, CrawlRow.SPEC)): rows[CrawlRow.SPEC],
            (Family.CRAWLS, keys.crawl_key(number, CrawlRow.STATE)): encode(state),
            (Family.CRAWLS, keys.crawl_key(number, CrawlRow.COUNTERS)): encode(counters),
        }
        if state.deleted:
            return
        left_out = self.left_out.copy()
        last: Counter[Family] = Counter()
        restores = self._restore(number)
        prefix = keys.crawl_prefix(number)
        for family in _COPIED:
            if restores and family not in (Family.JOBS, Family.EVENTS):
                continue  # its checkpoint has these rows
            for changes in self._copied(family, prefix, crawl):
                if family in _NUMBERED:
                    last[family] = keys.serial_of(max(key for _, key in changes))
                elif family is Family.SEEN:
                    counters.discovered += len(changes)
                yield changes
        _put_serials_right(counters, last, before is None)
        if crawl.led:  # its coordinator has heard of events that may be lost, and waits for later ones
            counters.next_event += SERIALS_LEFT_OUT
        opening.read_overrides(self._target, crawl)
        op = Operation(self._target, self._now_ms)
        op.counters(crawl)
        if crawl.led and (crawl.held or crawl.state_row.torn_down):
            op.event(crawl, "statistics", interval_ms=0)  # it is told nothing else, and readers need a row
        if restores:
            again = job.get(op.tx, crawl, restores)
            again.cursor, again.done, again.changed = b"", 0, 0
            job.put(op, crawl, restores, again)
        if self._leads:
            _put_parked_right(op, crawl)
        for host, authority in authorities(crawl.settings.scope.hosts).values():
            add_authority(op.tx, crawl.places, number, host, authority)
        yield _closed(op)
        if not restores:
            yield from self._places(crawl)
            yield from self._forgotten(crawl)
        told.lost += [
            f"{count} unreadable row{'s' if count > 1 else ''} of {family.value}"
            for family, count in (self.left_out - left_out).items()
        ]
        if self._leads:
            told.uris = None
            return
        told.uris, told.waiting = counters.discovered, counters.queued + counters.future
        # A queue whose retirement waited for its lease is retired now.
        waited, waiting = (_waiting_in(each) for each in (before or counters, counters))
        if waited > waiting:
            told.lost.append(f"{waited - waiting} of {waited} waiting URIs")
        if before is not None and before.discovered > told.uris:
            told.lost.append(f"{before.discovered - told.uris} of {before.discovered} URIs in the seen-set")

    def _restore(self, number: int) -> int:
        """The number of the job that is restoring a crawl from a checkpoint; 0 if there is none."""
        rows = [
            (keys.serial_of(key), read_job(value))
            for key, value in self._rows(Family.JOBS, keys.crawl_prefix(number))
            if is_sound(Family.JOBS, key, value, self._codec)
        ]
        found = job.restore_of(rows)
        return found[0] if found is not None and found[1].state not in job.ENDED else 0

    def _state(self, value: bytes | None) -> StateRow | None:
        if value is not None:
            try:
                state = read_state(value)
                if state.running_since_ms:  # its clock stands until a server runs again
                    state.elapsed_ms += max(self._ended_ms - state.running_since_ms, 0)
                    state.running_since_ms = self._now_ms
                return state
            except (StoreCorrupt, ValueError):
                self.left_out[Family.CRAWLS] += 1
        return None

    def _counters(self, value: bytes | None) -> CountersRow | None:
        if value is not None:
            try:
                return read_counters(value)
            except (StoreCorrupt, ValueError):
                self.left_out[Family.CRAWLS] += 1
        return None

    def _sound(self, family: Family, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rows that can be used. Counts the others."""
        for key, value in self._rows(family, prefix):
            if is_sound(family, key, value, self._codec):
                yield key, value
            else:
                self.left_out[family] += 1

    def _copied(self, family: Family, prefix: bytes, crawl: Crawl | None = None) -> Iterator[Changes]:
        rows = self._sound(family, prefix)
        if family is Family.OVERRIDES and crawl is not None:
            rows = self._overrides(rows, crawl)
        while changes := {(family, key): value for key, value in islice(rows, ROWS_PER_WRITE)}:
            yield dict(changes)

    def _overrides(self, rows: Iterator[tuple[bytes, bytes]], crawl: Crawl) -> Iterator[tuple[bytes, bytes]]:
        for key, value in rows:
            try:
                self._settings_of(crawl.spec.spec, [value])
                yield key, value
            except (StoreCorrupt, ValueError):
                self.left_out[Family.OVERRIDES] += 1

    # Queues and their URIs.

    def _places(self, crawl: Crawl) -> Iterator[Changes]:
        """Rebuild hosts in scope, refused URIs, where seeds were led, future and waiting URIs, and queues."""
        prefix = keys.crawl_prefix(crawl.number)
        steps = (
            (Family.INDEX, keys.set_prefix(crawl.number, IndexSet.SCOPE), self._as_it_was),
            (Family.INDEX, keys.set_prefix(crawl.number, IndexSet.REFUSED), self._as_it_was),
            (Family.INDEX, keys.set_prefix(crawl.number, IndexSet.LED), self._as_it_was),
            (Family.INDEX, keys.set_prefix(crawl.number, IndexSet.LANDED), self._as_it_was),
            (Family.INDEX, keys.set_prefix(crawl.number, IndexSet.FUTURE), self._future),
            (Family.SEEDS, prefix, self._seed),
            (Family.QUEUES, prefix, self._queue),
            (Family.PENDING, prefix, self._waiting),
        )
        for family, start, step in steps:
            # Those that are unsound among the seeds were counted when they were copied.
            rows = self._rows(family, start) if family is Family.SEEDS else self._sound(family, start)
            while some := list(islice(rows, ROWS_PER_WRITE)):
                op = Operation(self._target, self._now_ms)
                op.counters(crawl)
                for key, value in some:
                    step(op, crawl, key, value)
                yield _closed(op)

    def _as_it_was(self, op: Operation, crawl: Crawl, key: bytes, value: bytes) -> None:
        op.tx.put(Family.INDEX, key, value)

    def _future(self, op: Operation, crawl: Crawl, key: bytes, value: bytes) -> None:
        head = self._head(crawl, b"", value, Family.INDEX)
        if head is None:
            return
        partition, due_ms = self._place(crawl, head).partition, keys.due_of(key)
        op.tx.put(
            Family.INDEX,
            keys.timed_key(crawl.number, IndexSet.FUTURE, due_ms, partition + key[21:]),
            value,
        )
        op.counters(crawl).future += 1
        self._note(op, crawl, partition, key[21:], future_ms=due_ms)

    def _seed(self, op: Operation, crawl: Crawl, key: bytes, value: bytes) -> None:
        """Put a seed's host into scope if the seed was announced and taken in."""
        if keys.serial_of(key) > crawl.counters.announced_seeds:
            return
        try:
            uri = canonical(value.decode())
        except ValueError:
            return
        site, fingerprint = crawl.origins.located(uri, crawl.settings_for(uri))
        if op.tx.get(Family.SEEN, keys.seen_key(crawl.number, site.place.partition, fingerprint)) is not None:
            add_authority(op.tx, crawl.places, crawl.number, uri.host, uri.authority)

    def _queue(self, op: Operation, crawl: Crawl, key: bytes, value: bytes) -> None:
        old = decode(QueueRow, value)
        queue = op.new_queue(crawl, key[4:], old.key, old.host, hash64(old.key))
        for name in _OF_A_QUEUE:
            setattr(queue.row, name, getattr(old, name))
        queue.row.precedence = old.precedence
        queue.row.enqueued = max(old.enqueued - old.count, 0)  # put_in counts the waiting URIs
        queue.row.next_ordinal = queue.row.enqueued + 1
        if old.state == QueueState.RETIRED.value or old.retiring:
            op.move(crawl, queue, QueueEvent.RETIRED)

    def _waiting(self, op: Operation, crawl: Crawl, key: bytes, value: bytes) -> None:
        queue_id, position = key[4:20], key[20:]
        head = self._head(crawl, position, value, Family.PENDING)
        if head is None:
            return
        uri, place = head.pending, self._place(crawl, head)
        queue = op.queue(crawl, queue_id) if place.partition == queue_id[:8] else None
        if queue is None:
            queue = queue_at(op, crawl, place, head.uri.host)
            self._found_again.add(queue.queue)
        row = op.touch(queue)
        kept = row.last_cost, row.total_cost, row.queue_ms
        due_ms = keys.due_of_position(position) or head.candidate.not_before_ms
        arrival = Arrival(uri, position[0], head.uri.origin, due_ms)
        (new,) = put_in(op, crawl, queue, (arrival,), head.settings)
        if queue.queue not in self._found_again:  # the old values count this URI already
            row.last_cost, row.total_cost, row.queue_ms = kept
        self._note(op, crawl, queue.partition, uri.fingerprint, position=new, queue=queue.queue[8:])

    def _place(self, crawl: Crawl, head: Head) -> Place:
        """The place of a URI. It is another than its rows have if the list of public suffixes is."""
        return crawl.origins.site(head.uri, head.settings, head.candidate.queue_key).place

    def _head(self, crawl: Crawl, position: bytes, value: bytes, family: Family) -> Head | None:
        """A URI that waits; None if it cannot be read."""
        try:
            return read_head(crawl, self._codec, position, decode_pending(value))
        except (StoreCorrupt, ValueError):
            self.left_out[family] += 1
            return None

    def _note(
        self, op: Operation, crawl: Crawl, partition: bytes, fingerprint: bytes, **where: bytes | int
    ) -> None:
        """Record in the seen-set where a URI is."""
        key = keys.seen_key(crawl.number, partition, fingerprint)
        found = op.tx.get(Family.SEEN, key)
        if found is None:
            op.counters(crawl).discovered += 1
        seen = decode(SeenRow, found) if found is not None else SeenRow(b"")
        for name, value in where.items():
            setattr(seen, name, value)
        op.tx.put(Family.SEEN, key, encode(seen))

    def _forgotten(self, crawl: Crawl) -> Iterator[Changes]:
        """Remove entries of the seen-set whose waiting URIs are lost."""
        prefix = keys.crawl_prefix(crawl.number)
        start = prefix
        while some := list(islice(self._target.scan(Family.SEEN, start, prefix), ROWS_PER_WRITE)):
            start = some[-1][0] + b"\0"
            op = Operation(self._target, self._now_ms)
            op.counters(crawl)
            for key, value in some:
                self._look_for(op, crawl, key, decode(SeenRow, value))
            yield _closed(op)

    def _look_for(self, op: Operation, crawl: Crawl, key: bytes, seen: SeenRow) -> None:
        partition, fingerprint = key[4:12], key[12:]
        changed = False
        if seen.position:
            place = keys.pending_key(crawl.number, partition + seen.queue, seen.position)
            waits = op.tx.get(Family.PENDING, place)
            if waits is None or decode_pending(waits).fingerprint != fingerprint:
                seen.position, seen.queue, changed = b"", b"", True
        if seen.future_ms:
            place = keys.timed_key(crawl.number, IndexSet.FUTURE, seen.future_ms, partition + fingerprint)
            if op.tx.get(Family.INDEX, place) is None:
                seen.future_ms, changed = 0, True
        if not changed:
            return
        if seen.disposition or seen.fetch_status or seen.position or seen.future_ms:
            op.tx.put(Family.SEEN, key, encode(seen))
        else:
            op.tx.delete(Family.SEEN, key)
            op.counters(crawl).discovered -= 1


def _waiting_in(counters: CountersRow) -> int:
    """All URIs that wait: in queues, retired ones too, and for their times."""
    return counters.queued + counters.retired_uris + counters.future


def _closed(op: Operation) -> Changes:
    op.close()
    return op.tx.changes


def _paused(now_ms: int) -> StateRow:
    """The state of a crawl whose own is lost: it is paused until its operator resumes it."""
    row = new_state_row(now_ms)
    row.state, row.exit_status = CrawlState.PAUSED.value, ExitStatus.PAUSED.value
    row.target, row.reached = Target.PAUSE.value, Reached.PAUSE.value
    row.request = row.answered = 1
    row.launch_ms = now_ms
    row.scope_changed = True  # it may have: nothing says which URIs wait from before a change
    return row


def _carried(before: CountersRow | None) -> CountersRow:
    """The old counters, without those that the rebuilding counts."""
    counters = CountersRow()
    if before is not None:
        for name in CountersRow.__struct_fields__:
            if name not in _COUNTED:
                setattr(counters, name, getattr(before, name))
    return counters


def _gaps(numbers: set[int], after: int) -> list[tuple[int, int]]:
    """The first and last numbers of the gaps between numbers, from 1 and before `after`."""
    found: list[tuple[int, int]] = []
    first = 1
    for number in [*sorted(numbers), after]:
        if first < number:
            found.append((first, number - 1))
        first = number + 1
    return found


def _put_parked_right(op: Operation, crawl: Crawl) -> None:
    """Let the numbers of parked links be those of the rows that there are."""
    found: dict[int, tuple[int, int]] = {}
    prefix = keys.crawl_prefix(crawl.number)
    for key, _ in op.tx.scan(Family.IMPORTS, prefix, prefix):
        part, place = keys.parked_part(key), keys.parked_place(key)
        first, after = found.get(part, (place, place + 1))
        found[part] = min(first, place), max(after, place + 1)
    crawl.state_row.parked = found
    op.put_state(crawl)


def _put_serials_right(counters: CountersRow, last: Counter[Family], lost: bool) -> None:
    """Continue numbers behind those of the rows. The counters of events and outcomes must match their last
    rows, so that readers reach the end."""
    for family, name in _NUMBERED.items():
        after = last[family] + 1
        if lost or after > getattr(counters, name) or family in (Family.EVENTS, Family.OUTCOMES):
            setattr(counters, name, after)
    if lost:
        counters.next_lease = SERIALS_LEFT_OUT
        counters.announced_seeds = counters.next_seed - 1
    counters.next_outcome = max(counters.next_outcome, counters.logged_outcome + 1, counters.oldest_outcome)
