"""Leases out, and when they lapse.

A lease lives one period from its last heartbeat, and never longer than its hard
limit. Heartbeats are not stored: after a restart every stored lease gets a fresh
period, and keeps its unique number (`keys.lease_serial`).
"""

from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush

from ..rows.keys import Token, decode_token, encode_token, lease_serial
from ..rows.records import LeaseRow
from ..spec.settings import FetchSettings
from ..uri.assign import hash64
from .head import Head
from .model import Candidate
from .nodes import LeaseId, NodeTable
from .redirects import NO_CHAIN, Chain, Link, decode_chain, encode_chain

LONGEST_PERIODS = 10  # the hard limit of leases for short fetches: a busy node does more than fetch


class Lease:
    """A URI that is out."""

    __slots__ = ("crawl", "deadline_ms", "hard_ms", "head", "robots", "row", "said", "sent", "serial")

    def __init__(self, crawl: int, serial: int, row: LeaseRow, deadline_ms: int, hard_ms: int) -> None:
        self.crawl = crawl
        self.serial = serial
        self.row = row
        self.deadline_ms = min(deadline_ms, hard_ms)
        self.hard_ms = hard_ms
        self.robots = bool(row.scheme)  # whether the lease is for a robots.txt
        self.said = Token(crawl, row.queue[:8], serial, row.fingerprint, self.robots)  # its token's content
        self.sent = b""  # its token, once it is given out
        # None if the lease is older than the last restart or the candidate is large: read its row.
        self.head: Head | None = None

    def __repr__(self) -> str:
        what = f"{self.row.scheme}://{self.row.authority}/robots.txt" if self.robots else "a page"
        if self.head is not None and not self.robots:
            what = self.head.uri.uri
        of = f"crawl {self.crawl} at {self.row.node}"
        return f"<lease {self.serial} of {of}: {what}, until {self.deadline_ms}>"

    def token(self, secret: bytes) -> bytes:
        """Its token, signed for the node."""
        return encode_token(self.said, secret)


class LeaseTable:
    """All leases out, by crawl and serial number."""

    def __init__(self, secret: bytes, period_ms: int, incarnation: int, heartbeat_ms: int = 0) -> None:
        self._secret = secret
        self._incarnation = incarnation
        self.period_ms = period_ms
        self.nodes = NodeTable(period_ms, heartbeat_ms)
        self._leases: dict[LeaseId, Lease] = {}
        self._by_token: dict[bytes, Lease] = {}
        self._robots: set[tuple[int, str, str]] = set()  # leased ones: crawl, scheme, authority
        self._deadlines: list[tuple[int, LeaseId]] = []  # heap; an entry may be too early

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    def serial(self, count: int) -> int:
        """The number of a new lease; `count` is its number in its crawl."""
        return lease_serial(self._incarnation, count)

    def add(self, lease: Lease) -> bytes:
        """Note a lease. Returns its token."""
        number = (lease.crawl, lease.serial)
        self._leases[number] = lease
        if lease.robots:
            self._robots.add((lease.crawl, lease.row.scheme, lease.row.authority))
        self.nodes.of(lease.row.node, lease.row.session).leases.add(number)
        heappush(self._deadlines, (lease.deadline_ms, number))
        lease.sent = lease.token(self._secret)
        self._by_token[lease.sent] = lease
        return lease.sent

    def remove(self, lease: Lease) -> None:
        """Forget a lease that has ended."""
        number = (lease.crawl, lease.serial)
        del self._leases[number], self._by_token[lease.sent]
        if lease.robots:
            self._robots.discard((lease.crawl, lease.row.scheme, lease.row.authority))
        node = self.nodes.get(lease.row.node)
        if node is not None:
            node.leases.discard(number)
        if len(self._deadlines) > 1000 + 4 * len(self._leases):
            self._deadlines = [(lease.deadline_ms, number) for number, lease in self._leases.items()]
            heapify(self._deadlines)

    def genuine(self, token: bytes) -> Token | None:
        """The content of a token; None if this server never gave it out."""
        return decode_token(token, self._secret)

    def chain(self, lease: Lease, head: Head, now_ms: int) -> bytes:
        """The chain of redirects that a lease tells its fetcher: that of its URI, and the lease itself."""
        before_ms = min(head.candidate.refetch_before_ms or 0, now_ms + 1)
        earlier = self.chain_to(lease.crawl, head.candidate)
        link = Link(lease.row.fingerprint, hash64(head.uri.uri), lease.serial)
        return encode_chain(earlier.followed_by(link, before_ms), lease.crawl, self._secret)

    def chain_to(self, crawl: int, candidate: Candidate) -> Chain:
        """The chain of redirects that a candidate of a crawl brings; an empty one if it is not genuine."""
        if not candidate.redirects:
            return NO_CHAIN
        return decode_chain(candidate.redirects, crawl, self._secret).with_cookies(candidate.cookies_sent)

    def out(self, token: bytes) -> Lease | None:
        """The lease of a token, until it ends."""
        return self._by_token.get(token)

    def of_serial(self, crawl: int, serial: int) -> Lease | None:
        """The lease of a crawl with a number, until it ends."""
        return self._leases.get((crawl, serial))

    def robots_out(self, crawl: int, scheme: str, authority: str) -> bool:
        """Whether an authority's robots.txt is leased."""
        return (crawl, scheme, authority) in self._robots

    def record_seen(self, node: str, session: str, now_ms: int) -> list[Lease]:
        """Note a request of a node's accepted session. Returns an earlier session's leases, which end."""
        known = self.nodes.get(node)
        ended: list[Lease] = []
        if known is not None and known.session != session:
            ended = [self._leases[number] for number in known.leases]
            known.begin(session)
        self.nodes.remember(node, session, now_ms)
        return sorted(ended, key=lambda lease: (lease.crawl, lease.serial))

    def of(self, name: str, but: Collection[bytes] = ()) -> list[Lease]:
        """The leases of a node, in order, except those of some tokens."""
        known = {(lease.crawl, lease.serial) for each in but if (lease := self.out(each))}
        node = self.nodes.get(name)
        held = set() if node is None else node.leases
        return [self._leases[number] for number in sorted(held - known)]

    def of_crawl(self, crawl: int) -> list[Lease]:
        """The leases of a crawl."""
        return [lease for lease in self._leases.values() if lease.crawl == crawl]

    def longest_ms(self, fetch: FetchSettings) -> int:
        """The hard limit of a lease: twice the longest fetch, but at least LONGEST_PERIODS."""
        return max(2 * fetch.timeout_ms, LONGEST_PERIODS * self.period_ms)

    def extend(self, lease: Lease, now_ms: int) -> None:
        """Extend a lease by a period from now, up to its hard limit."""
        lease.deadline_ms = min(now_ms + self.period_ms, lease.hard_ms)

    def excuse(self, away_ms: int, now_ms: int) -> None:
        """Exclude a time in which the server could not hear any node."""
        for lease in self._leases.values():
            lease.hard_ms += min(away_ms, max(now_ms - lease.row.lease_ms, 0))
            lease.deadline_ms = min(lease.deadline_ms + away_ms, now_ms + self.period_ms, lease.hard_ms)
        self.nodes.excuse(away_ms, now_ms)

    def lapsed(self, now_ms: int) -> Lease | None:
        """An expired lease, if there is one."""
        while self._deadlines:
            deadline_ms, number = self._deadlines[0]
            lease = self._leases.get(number)
            if lease is not None and lease.deadline_ms > deadline_ms:
                heappop(self._deadlines)
                heappush(self._deadlines, (lease.deadline_ms, number))
            elif lease is None:
                heappop(self._deadlines)
            else:
                return lease if deadline_ms <= now_ms else None
        return None

    def next_deadline_ms(self) -> int | None:
        """The next time to look for expired leases."""
        return self._deadlines[0][0] if self._deadlines else None
