"""The nodes that call, their sessions, and whether they are there.

A node has one session; a new session ends the leases of the earlier one (`LeaseTable.record_seen`).
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable

from ..rows.errors import NodePresent, UnknownNode
from ..spec.settings import DAY_MS
from .model import NodeView, PoolStatistics, Presence

MAX_NODES = 1000
MAX_TOE_STEPS = 32
MAX_ADDRESS_CHARACTERS = 256
LISTED_MS = DAY_MS  # how long listings have a node that is gone
MISSED_HEARTBEATS = 3  # after which a node counts as silent
SILENT_PERIODS = 2  # lease periods without a request, after which a node counts as gone

LeaseId = tuple[int, int]  # crawl, serial


class KnownNode:
    """A node, with the state of its present session."""

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


class NodeTable:
    """The nodes that called within a day, or hold leases."""

    def __init__(self, period_ms: int, heartbeat_ms: int = 0) -> None:
        self._period_ms = period_ms
        self._missed_ms = MISSED_HEARTBEATS * heartbeat_ms or period_ms
        self._nodes: OrderedDict[str, KnownNode] = OrderedDict()  # the last seen last
        self._present: OrderedDict[str, KnownNode] = OrderedDict()  # of these, without those gone

    def get(self, name: str) -> KnownNode | None:
        """A node, if it is known."""
        return self._nodes.get(name)

    def of(self, name: str, session: str) -> KnownNode:
        """A node; a new one begins with this session."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = KnownNode(session)
            if len(self._nodes) > MAX_NODES:
                self._forget_one()
        return node

    def remember(self, name: str, session: str, now_ms: int) -> None:
        """Note that a node is present, as if it had been seen now."""
        node = self.of(name, session)
        node.last_seen_ms = node.silent_ms = now_ms
        node.gone = ""
        self._nodes.move_to_end(name)
        self._present[name] = node
        self._present.move_to_end(name)

    def recall(self, name: str, session: str, last_seen_ms: int, now_ms: int, gone: str) -> None:
        """Note a node that was seen before this server started. Unless it is gone, its silence counts from
        now."""
        node = self.of(name, session)
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

    def _forget_one(self) -> None:
        """Forget the node without leases that was last seen longest ago, but never the newest."""
        for name, node in list(self._nodes.items())[:-1]:
            if not node.leases:
                del self._nodes[name]
                self._present.pop(name, None)
                return

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

    def record_trouble(self, name: str, troubled: bool) -> bool:
        """Note whether a node has trouble. Returns whether the trouble has just begun."""
        node = self._nodes[name]
        begins, node.troubled = troubled and not node.troubled, troubled
        return begins

    def session_of(self, name: str) -> str | None:
        """The last session of a node, if it is known."""
        node = self._nodes.get(name)
        return node.session if node is not None else None

    def why_gone(self, name: str, session: str) -> str:
        """Why a session of a node is gone; empty if it is present."""
        node = self._nodes.get(name)
        if node is None:
            return "silent"
        return node.gone if node.session == session else "replaced"

    def record_rival(self, name: str, session: str, now_ms: int) -> None:
        """Note that a superseded session has called in a node's name."""
        node = self._nodes.get(name)
        if node is not None:
            node.rival, node.rival_ms = session, now_ms

    def rival_of(self, name: str, now_ms: int) -> str:
        """The other session that has called in a node's name within a lease period; empty if none has."""
        node = self._nodes[name]
        return node.rival if node.rival and now_ms - node.rival_ms <= self._period_ms else ""

    def take_new_rival(self, name: str) -> bool:
        """Whether a node has a rival that this has not told yet."""
        node = self._nodes[name]
        new, node.rival_told = node.rival != node.rival_told, node.rival
        return new

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
            return node.silent_ms + SILENT_PERIODS * self._period_ms
        return None

    def is_there(self, name: str, now_ms: int) -> bool:
        """Whether a node has called within three heartbeats."""
        node = self._nodes.get(name)
        return node is not None and self._presence(node, now_ms) is Presence.PRESENT

    def _presence(self, node: KnownNode, now_ms: int) -> Presence:
        if node.gone == "left":
            return Presence.LEFT
        silence_ms = now_ms - node.silent_ms
        if node.gone or silence_ms > self._period_ms:
            return Presence.LOST
        return Presence.SILENT if silence_ms > self._missed_ms else Presence.PRESENT

    def presences(self, now_ms: int) -> Counter[Presence]:
        """How many of the nodes that `views` lists are there, silent, lost, or have left."""
        return Counter(
            [self._presence(node, now_ms) for node in self._nodes.values() if _listed(node, now_ms)]
        )

    def views(self, now_ms: int) -> list[NodeView]:
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

    def excuse(self, away_ms: int, now_ms: int) -> None:
        """Exclude a time in which the server could not hear any node."""
        for node in self._present.values():
            node.silent_ms = min(node.silent_ms + away_ms, now_ms)


def _listed(node: KnownNode, now_ms: int) -> bool:
    return now_ms - node.last_seen_ms < LISTED_MS or bool(node.leases)


def _unknown(name: str) -> UnknownNode:
    return UnknownNode(f"the frontier knows no node {name[:200]!r}", node=name[:200])
