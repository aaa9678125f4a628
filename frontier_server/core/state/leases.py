"""Leases out, the nodes that hold them, and when they lapse.

A lease lives one period from its last heartbeat, and never longer than its hard
limit. Heartbeats are not stored: after a restart every stored lease gets a fresh
period, and keeps its unique number (`keys.lease_serial`). A node has one session;
a new session ends the leases of the earlier one.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush

from ..rows.errors import NodePresent, UnknownNode
from ..rows.keys import Token, decode_token, encode_token, lease_serial
from ..rows.records import LeaseRow
from ..spec.settings import DAY_MS, FetchSettings
from ..uri.assign import hash64
from .head import Head
from .model import Candidate, NodeView, PoolStatistics, Presence
from .redirects import NO_CHAIN, Chain, Link, decode_chain, encode_chain

MAX_NODES = 1000
MAX_TOE_STEPS = 32
MAX_ADDRESS_CHARACTERS = 256
LISTED_MS = DAY_MS  # how long listings have a node that is gone
LONGEST_PERIODS = 10  # the hard limit of leases for short fetches: a busy node does more than fetch
MISSED_HEARTBEATS = 3  # after which a node counts as silent
SILENT_PERIODS = 2  # lease periods without a request, after which a node counts as gone

LeaseId = tuple[int, int]  # crawl, serial


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

    def token(self, secret: bytes) -> bytes:
        """Its token, signed for the node."""
        return encode_token(self.said, secret)


class _Node:
    __slots__ = (
        "draining",
        "gone",
        "last_seen_ms",
        "leases",
        "pool",
        "rival",
        "rival_ms",
        "rival_told",
        "service_address",
        "session",
        "silent_ms",
        "toe_steps",
        "troubled",
    )

    def __init__(self, session: str) -> None:
        self.gone = ""  # why the node counts as gone; empty if it does not
        self.last_seen_ms = self.silent_ms = 0  # silence counts from silent_ms: last seen, or later
        self.leases: set[LeaseId] = set()
        self.begin(session)

    def begin(self, session: str) -> None:
        """Begin a session, and forget the state of the earlier one."""
        self.session = session
        self.toe_steps: tuple[tuple[str, int], ...] = ()
        self.pool: PoolStatistics | None = None
        self.service_address = ""
        self.draining = self.troubled = False
        self.rival, self.rival_ms = "", 0  # the last other session that called in its name, and when
        self.rival_told = ""  # the last one that crawls have been told of


class LeaseTable:
    """All leases out, by crawl and serial number; and the nodes."""

    def __init__(self, secret: bytes, period_ms: int, incarnation: int, heartbeat_ms: int = 0) -> None:
        self._secret = secret
        self._incarnation = incarnation
        self.period_ms = period_ms
        self._missed_ms = MISSED_HEARTBEATS * heartbeat_ms or period_ms
        self._leases: dict[LeaseId, Lease] = {}
        self._by_token: dict[bytes, Lease] = {}
        self._robots: set[tuple[int, str, str]] = set()  # leased ones: crawl, scheme, authority
        self._nodes: OrderedDict[str, _Node] = OrderedDict()  # the last seen last
        self._present: OrderedDict[str, _Node] = OrderedDict()  # of these, without those gone
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
        self._node(lease.row.node, lease.row.session).leases.add(number)
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
        node = self._nodes.get(lease.row.node)
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

    def note_seen(self, node: str, session: str, now_ms: int) -> list[Lease]:
        """Note a request of a node's accepted session. Returns an earlier session's leases, which end."""
        known = self._nodes.get(node)
        ended: list[Lease] = []
        if known is not None and known.session != session:
            ended = [self._leases[number] for number in known.leases]
            known.begin(session)
        self.remember(node, session, now_ms)
        return sorted(ended, key=lambda lease: (lease.crawl, lease.serial))

    def remember(self, name: str, session: str, now_ms: int) -> None:
        """Note that a node is present, as if it had been seen now."""
        node = self._node(name, session)
        node.last_seen_ms = node.silent_ms = now_ms
        node.gone = ""
        self._nodes.move_to_end(name)
        self._present[name] = node
        self._present.move_to_end(name)

    def recall(self, name: str, session: str, last_seen_ms: int, now_ms: int, gone: str) -> None:
        """Note a node that was seen before this server started. Unless it is gone, its silence counts from
        now."""
        node = self._node(name, session)
        node.last_seen_ms, node.silent_ms, node.gone = last_seen_ms, last_seen_ms if gone else now_ms, gone
        if not gone:
            self._present[name] = node

    def forget(self, name: str, now_ms: int) -> None:
        """Forget a node that is not there. Raises UnknownNode or NodePresent."""
        node = self._nodes.get(name)
        if node is None:
            raise _unknown(name)
        presence = self._presence(node, now_ms)
        if node.leases or presence in (Presence.PRESENT, Presence.SILENT):
            is_there = (
                f"is {presence.value}"
                if not node.leases
                else f"holds {len(node.leases)} lease{'s' if len(node.leases) > 1 else ''}"
            )
            raise NodePresent(
                f"node {name!r} {is_there}; it must be LOST or have LEFT to be forgotten", node=name
            )
        del self._nodes[name]
        self._present.pop(name, None)

    def note_rival(self, name: str, session: str, now_ms: int) -> None:
        """Note that a superseded session has called in a node's name."""
        node = self._nodes.get(name)
        if node is not None:
            node.rival, node.rival_ms = session, now_ms

    def rival_of(self, name: str, now_ms: int) -> str:
        """The other session that has called in a node's name within a lease period; empty if none has."""
        node = self._nodes[name]
        return node.rival if node.rival and now_ms - node.rival_ms <= self.period_ms else ""

    def take_new_rival(self, name: str) -> bool:
        """Whether a node has a rival that this has not told yet."""
        node = self._nodes[name]
        new, node.rival_told = node.rival != node.rival_told, node.rival
        return new

    def is_there(self, name: str, now_ms: int) -> bool:
        """Whether a node has called within three heartbeats."""
        node = self._nodes.get(name)
        return node is not None and self._presence(node, now_ms) is Presence.PRESENT

    def _presence(self, node: _Node, now_ms: int) -> Presence:
        if node.gone == "left":
            return Presence.LEFT
        silence_ms = now_ms - node.silent_ms
        if node.gone or silence_ms > self.period_ms:
            return Presence.LOST
        return Presence.SILENT if silence_ms > self._missed_ms else Presence.PRESENT

    def of(self, name: str, but: Collection[bytes] = ()) -> list[Lease]:
        """The leases of a node, in order, except those of some tokens."""
        known = {(lease.crawl, lease.serial) for each in but if (lease := self.out(each))}
        return [self._leases[number] for number in sorted(self._nodes[name].leases - known)]

    def leaves(self, name: str) -> None:
        """Note that a node is leaving."""
        self._present.pop(name).gone = "left"

    def fall_silent(self, now_ms: int) -> bool:
        """Note that nodes not seen for long are gone. Returns whether there were any."""
        fell = False
        while (due_ms := self.next_silence_ms()) is not None and due_ms <= now_ms:
            _, node = self._present.popitem(last=False)
            node.gone, fell = "silent", True
        return fell

    def next_silence_ms(self) -> int | None:
        """When the next node will count as gone unless it is seen before."""
        for node in self._present.values():
            return node.silent_ms + SILENT_PERIODS * self.period_ms
        return None

    def why_gone(self, name: str, session: str) -> str:
        """Why a session of a node is gone; empty if it is present."""
        node = self._nodes.get(name)
        if node is None:
            return "silent"
        return node.gone if node.session == session else "replaced"

    def session_of(self, name: str) -> str | None:
        """The last session of a node, if it is known."""
        node = self._nodes.get(name)
        return node.session if node is not None else None

    def note(
        self,
        name: str,
        toe_steps: Iterable[tuple[str, int]],
        pool: PoolStatistics | None = None,
        service_address: str = "",
    ) -> None:
        """Note the steps of a node's toe threads, the state of its toe pool, and its service address."""
        node = self._nodes[name]
        node.toe_steps = tuple(toe_steps)[:MAX_TOE_STEPS]
        node.pool, node.service_address = pool, service_address[:MAX_ADDRESS_CHARACTERS]

    def note_trouble(self, name: str, troubled: bool) -> bool:
        """Note whether a node has trouble. Returns whether the trouble has just begun."""
        node = self._nodes[name]
        begins, node.troubled = troubled and not node.troubled, troubled
        return begins

    def drain(self, name: str) -> bool:
        """Ask a node's session to drain. Returns False if it was already asked. Raises UnknownNode."""
        node = self._present.get(name)
        if node is None:
            raise _unknown(name)
        asked, node.draining = not node.draining, True
        return asked

    def drains(self, name: str) -> bool:
        """Whether a node was asked to drain."""
        return self._nodes[name].draining

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
        for node in self._present.values():
            node.silent_ms = min(node.silent_ms + away_ms, now_ms)

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

    def presences(self, now_ms: int) -> Counter[Presence]:
        """How many of the nodes that `nodes` lists are there, silent, lost, or have left."""
        return Counter(
            [self._presence(node, now_ms) for node in self._nodes.values() if _listed(node, now_ms)]
        )

    def nodes(self, now_ms: int) -> list[NodeView]:
        """The nodes that were seen within a day, the last seen first."""
        return [
            NodeView(
                name,
                node.session,
                node.last_seen_ms,
                len(node.leases),
                node.toe_steps,
                pool=node.pool,
                service_address=node.service_address,
                draining=node.draining,
                presence=self._presence(node, now_ms),
                rival=self.rival_of(name, now_ms),
            )
            for name, node in reversed(self._nodes.items())
            if _listed(node, now_ms)
        ]

    def _node(self, name: str, session: str) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node(session)
            if len(self._nodes) > MAX_NODES:
                self._forget_one()
        return node

    def _forget_one(self) -> None:
        """Forget the node without leases that was last seen longest ago, but never the newest."""
        for name, node in list(self._nodes.items())[:-1]:
            if not node.leases:
                del self._nodes[name]
                self._present.pop(name, None)
                return


def _listed(node: _Node, now_ms: int) -> bool:
    return now_ms - node.last_seen_ms < LISTED_MS or bool(node.leases)


def _unknown(name: str) -> UnknownNode:
    return UnknownNode(f"the frontier knows no node {name[:200]!r}", node=name[:200])
