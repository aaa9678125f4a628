"""Decides on a candidate in scope: it was seen before, robots.txt forbids it, or it waits in its queue or for
its time.

URIs of a slice that belong to the same queue go into it together.
"""

from collections.abc import Callable

import msgspec

from ..robotstxt.robots import Rules
from ..robotstxt.robots_table import RobotsTable
from ..rows import keys
from ..rows.records import PendingUri, SeenRow, decode, encode
from ..rows.store import Family
from ..rules.disposition import ROBOTS_PRECLUDED, Disposition
from ..spec.settings import CrawlSettings
from ..state.crawl import Crawl
from ..state.leases import LeaseTable
from ..state.model import Candidate, Verdict
from ..state.operation import Operation
from ..state.origin import Origin, Site
from ..state.redirects import NO_CHAIN, Chain, Link, count_of
from ..uri.assign import hash64
from ..uri.canonical import CanonicalUri
from . import future, kept
from .conclusion import Final, record
from .enqueue import Arrival, Pricing, put_in, queue_at

LIGHT_RULES = 500  # heavier rules are only checked at the head of the queue


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """A candidate in scope, and where it belongs."""

    candidate: Candidate
    text: str  # of its canonical URI
    origin: Origin
    settings: CrawlSettings
    site: Site
    key: bytes  # in the seen-set; ends with the fingerprint

    @property
    def uri(self) -> CanonicalUri:
        return self.origin.uri(self.text)


Withdraw = Callable[[Operation, Crawl, bytes, SeenRow], None]
"""Takes a URI that waits or is out from where it is; `seen` is its row, which the caller stores."""


class Admission:
    """Admits the candidates of a slice. `anew` takes their times of refetching as they are, though ahead.

    With `withdraw` they replace what the crawl has of their URIs: it takes a URI that waits or is out from
    where it is.
    """

    def __init__(
        self,
        op: Operation,
        crawl: Crawl,
        robots: RobotsTable,
        leases: LeaseTable,
        anew: bool,
        withdraw: Withdraw | None = None,
    ) -> None:
        self._op = op
        self._crawl = crawl
        self._robots = robots
        self._leases = leases
        self._anew = anew
        self._withdraw = withdraw
        self._taken: set[bytes] = set()  # keys of rows that this slice changes
        # By queue: the candidates for it, all with the same settings, and their rows in the seen-set.
        self._entries: dict[bytes, list[tuple[Wanted, PendingUri, SeenRow]]] = {}
        self._discovered = 0
        self._pricing = Pricing(crawl.settings)
        self._rules: dict[bytes, tuple[CrawlSettings, Rules | None]] = {}  # by the keys of robots.txt files

    def admit(self, wanted: Wanted, value: bytes | None) -> Verdict:
        """Take in a URI unless it has been seen. `value` is its stored row in the seen-set."""
        op, crawl, candidate, key = self._op, self._crawl, wanted.candidate, wanted.key
        if key in self._taken:
            self.close()
            value = op.tx.get(Family.SEEN, key)
        chain, link = self._chain(candidate), None
        forced = candidate.refetch_before_ms is not None or chain is not NO_CHAIN
        if value is not None and not forced and self._withdraw is None:
            return Verdict.ALREADY_SEEN
        seen = decode(SeenRow, value) if value is not None else None
        if seen is not None and self._withdraw is not None:
            self.close()  # a queue must have its new URIs before others leave it
            self._withdraw(op, crawl, key, seen)
        elif seen is not None:
            link = _same_page(chain, wanted, seen)
            if seen.position:
                waits = link is not None and self._wait_for(link, wanted, seen)
                return Verdict.QUEUED if waits else Verdict.ALREADY_QUEUED
            if link is None and seen.finish_ms >= self._refetch_before_ms(candidate, chain):
                return Verdict.ALREADY_SEEN
            if seen.future_ms:
                if not seen.finish_ms or seen.disposition == Disposition.DEFERRED.value:
                    return Verdict.ALREADY_QUEUED  # its first fetch, or a retry, is still due
                future.drop(op, crawl, seen.future_ms, wanted.site.place.partition, key[-8:])
                seen.future_ms = 0
        self._taken.add(key)
        kept.note(op, crawl, key, wanted.text, candidate.queue_key, anew=seen is not None)
        if self._pricing.settings is not wanted.settings:
            self._pricing = Pricing(wanted.settings)
        cost, precedence = self._pricing.of(candidate, wanted.text)
        visited = seen is not None and seen.visits > 0
        if crawl.revisits(candidate):
            counters = op.counters(crawl)
            counters.to_revisit += 1
            counters.kept_room += 1
        pending = PendingUri(0, 0, cost, precedence, visited, key[-8:], candidate.record)
        if seen is None:
            self._discovered += 1
            seen = SeenRow(b"")
        if link is not None:
            seen.redirect = count_of(link.serial)
            # These are of the page that redirects.
            seen.etag = seen.last_modified = seen.digest = seen.capture_uri = ""
            seen.capture_ms = 0
        if self._forbidden(wanted):
            final = Final(ROBOTS_PRECLUDED, Disposition.DISREGARDED, wanted.uri, candidate)
            record(op, crawl, wanted.site.place.partition, pending, final, wanted.settings)
            return Verdict.ROBOTS_FORBIDDEN
        if candidate.not_before_ms > op.now_ms:
            future.keep(op, crawl, candidate.not_before_ms, wanted.site.place.partition, pending)
            seen.future_ms = candidate.not_before_ms
            if candidate.queue_key:  # its caller expects the queue to be there
                queue_at(op, crawl, wanted.site.place, wanted.origin.host)
            op.tx.put(Family.SEEN, key, encode(seen))
        else:
            entry = wanted, pending, seen
            entries = self._entries.get(wanted.site.place.queue)
            if entries and entries[0][0].settings is not wanted.settings:
                self.close()
                entries = None
            if entries is None:
                self._entries[wanted.site.place.queue] = [entry]
            else:
                entries.append(entry)
        return Verdict.QUEUED

    def _chain(self, candidate: Candidate) -> Chain:
        """The redirects that led to a candidate; an empty chain if it is no redirect's target."""
        if not candidate.path.endswith("R"):
            return NO_CHAIN
        return self._leases.chain_to(self._crawl.number, candidate)

    def _refetch_before_ms(self, candidate: Candidate, chain: Chain) -> int:
        """A URI that was last fetched before this time is fetched again."""
        before_ms = candidate.refetch_before_ms or 0
        if not self._anew:  # with a time ahead of our clock, a repeated request would fetch twice
            before_ms = min(before_ms, self._op.now_ms)
        return max(before_ms, chain.refetch_before_ms)

    def _wait_for(self, link: Link, wanted: Wanted, seen: SeenRow) -> bool:
        """Let a redirect's target wait for the end of the lease of its source, which has the same identity.

        An identity is in one place at a time. Returns whether the target waits.
        """
        lease = self._leases.of_serial(self._crawl.number, link.serial)
        if lease is None or lease.row.position != seen.position or lease.row.target:
            return False
        lease.row.target = wanted.candidate.record
        key = keys.lease_key(lease.crawl, lease.row.queue[:8], lease.serial)
        self._op.tx.put(Family.LEASES, key, encode(lease.row))
        return True

    def close(self) -> None:
        """Put the admitted URIs into their queues, and count them."""
        if self._discovered:
            self._op.sums(self._crawl).discovered += self._discovered
            self._discovered = 0
        for queue_id, entries in self._entries.items():
            self._put_in(queue_id, entries)
        self._entries.clear()

    def _put_in(self, queue_id: bytes, entries: list[tuple[Wanted, PendingUri, SeenRow]]) -> None:
        op, crawl, first = self._op, self._crawl, entries[0][0]
        queue = queue_at(op, crawl, first.site.place, first.origin.host)
        arriving = [
            Arrival(pending, wanted.candidate.urgency, wanted.origin.name, wanted.candidate.not_before_ms)
            for wanted, pending, _ in entries
        ]
        positions = put_in(op, crawl, queue, arriving, first.settings)
        for (wanted, _, seen), position in zip(entries, positions, strict=True):
            seen.position, seen.queue = position, queue_id[8:]
            op.tx.put(Family.SEEN, wanted.key, encode(seen))

    def _forbidden(self, wanted: Wanted) -> bool:
        """Whether a URI is forbidden by rules that are known, valid and light."""
        key = wanted.site.robots_key
        known = self._rules.get(key)
        if known is None or known[0] is not wanted.settings:
            crawl = self._crawl
            its = self._robots.key_for(self._op.tx, key, crawl.number, crawl.state_row.bound)
            rules = self._robots.valid_rules(self._op.tx, its, wanted.settings, self._op.now_ms)
            light = rules if rules is not None and rules.weight <= LIGHT_RULES else None
            known = self._rules[key] = wanted.settings, light
        return known[1] is not None and not known[1].allows(wanted.text[len(wanted.origin.name) :])


def _same_page(chain: Chain, wanted: Wanted, seen: SeenRow) -> Link | None:
    """The lease of a chain whose URI is the same as the chain's target by its identity, so that the target is
    fetched although it has been seen; None if there is none, or if it has had its target."""
    link = chain.same_as(wanted.key[-8:])
    if link is None or count_of(link.serial) <= seen.redirect:
        return None
    return link if chain.may_come(hash64(wanted.text), wanted.candidate.cookies_now) else None
