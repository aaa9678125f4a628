"""Which session has a node's name: all shards hear of a new one before any of them leases to it.

A process that hung may come back after another session has taken its name. A shard that was away when that
happened would take it for the newer one, so the coordinator, which is never away, is asked first.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from toehold.frontier.v1 import frontier_pb2

from ..core.frontier import check_node
from ..core.rows.errors import SessionSuperseded, ShardAway
from ..shards.links import Link, Links, Relayed
from ..shards.pipe import Metadata
from .coordination import Coordination

FINISHED = "toehold.frontier.v1.FrontierService/Finished"
HEAR_S = 3.0
MAX_KNOWN = 20_000  # nodes


class _Session(NamedTuple):
    """The session that has a node's name."""

    session: str
    shards: Sequence[Link]  # that have heard of it
    before: str = ""  # the session that had the name before
    of_both: Sequence[Link] = ()  # the shards that have heard of both


class Introductions:
    """Introduces sessions to the shards."""

    def __init__(self, links: Links, coordination: Coordination) -> None:
        self._links = links
        self._coordination = coordination
        self._known: dict[str, _Session] = {}  # by node: all shards that are there know these
        self._names: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of nodes
        self.told: set[Callable[[str, str], None]] = set()
        """Those who hear of each session that gets its node's name."""

    async def introduce(self, node: str, session: str, metadata: Metadata) -> None:
        """Let all shards that are there know a node's session, if it is new. Raises SessionSuperseded, or
        Relayed for the same, if another session has replaced it."""
        if self.is_known(node, session):
            return
        check_node(node, session)
        async with self._names.setdefault(node, asyncio.Lock()):
            if self.is_known(node, session):
                return
            known = self._known.get(node)
            try:
                await self._coordination.check_session(node, session)
            except SessionSuperseded:
                if known is not None and known.before == session:
                    # A shard that has heard of both refuses it, and tells its rival.
                    there = [link for link in known.of_both if not link.away]
                    await self._tell(there[:1], node, session, metadata)
                raise
            heard, some_refuse = await self._tell(self._links.present, node, session, metadata)
            await self._coordination.accept(node, session)
            for tell in list(self.told):
                tell(node, session)
            if some_refuse:
                return  # the next call tells them
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            before = known or _Session("", ())
            of_both = [link for link in heard if link in before.shards]
            self._known[node] = _Session(session, heard, before.session, of_both)

    def is_known(self, node: str, session: str) -> bool:
        """Whether a session has its node's name, and all shards that were there have heard of it."""
        known = self._known.get(node)
        return known is not None and known.session == session

    async def _tell(
        self, links: Sequence[Link], node: str, session: str, metadata: Metadata
    ) -> tuple[Sequence[Link], bool]:
        """Tell shards of a session, by a report of no lease, which changes nothing else; those that have
        heard it, and whether others could not just now. Raises Relayed if one refuses the session, as another
        has replaced it."""
        hello = frontier_pb2.FinishedRequest(node=node, session=session, reports=[frontier_pb2.Report()])
        heard: list[Link] = []
        refuse: list[Link] = []

        async def tell(link: Link) -> None:
            try:
                await link.call(FINISHED, hello, frontier_pb2.FinishedResponse, HEAR_S, metadata)
                heard.append(link)
            except ShardAway:  # when it is back, it hears of the session by any of its calls
                pass
            except Relayed as refusal:
                if refusal.reason == SessionSuperseded.reason:
                    raise
                refuse.append(link)

        await self._links.of_all(tell, links)
        return heard, bool(refuse)
