"""A router that is elsewhere than the coordinator: what it knows of it, and which shards it may call.

The front tells what changes. The router asks it for what it has not told yet. While the router has lost its
front, or sees fewer shards than the front does, calls go by the front.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Never, TypeVar
from weakref import WeakValueDictionary

import structlog
from google.protobuf.message import Message

from toehold.frontier.v1 import frontier_pb2
from toehold.shard.v1 import shard_pb2

from .. import wire
from ..core.frontier import check_node
from ..core.opening.shard import size_of_pool
from ..core.rows.errors import ShardAway
from ..core.state.model import Candidate, EmptyReason
from ..core.state.order import Facts
from ..core.uri.assign import Places
from ..core.uri.suffixes import Suffixes
from ..shards.links import Link, Links, Relayed
from ..shards.pipe import Metadata
from ..shell.tasks import Tasks
from .places import Placing

FRONT = "toehold.shard.v1.FrontService"
LOOK = "toehold.shard.v1.ShardService/Look"
ASK_S = 10.0
LOOK_S = 2.0
AGAIN_S = 0.1
SILENT_S = 2.0  # a front that says nothing for so long is gone: no sooner does it take a shard for lost
MAX_KNOWN = 20_000  # sessions
MAX_PLACED = 1_000  # crawls

M = TypeVar("M", bound=Message)

_log = structlog.get_logger()
_REASONS: Mapping[int, EmptyReason] = {number: reason for reason, number in wire.EMPTY_REASONS.items()}


class Guided:
    """A coordinator as a router that is elsewhere knows it (`coordination.Guidance`)."""

    def __init__(self, front: Link, links: Links) -> None:
        """`links` are the ways to the shards; their presence is kept up to date from now on."""
        self._front = front
        self._links = links
        self._places: Places | None = None  # None: nothing is known
        self._incarnations = [0] * len(links)
        self._serving: Sequence[Link] = ()
        self._crawls: dict[str, Facts] = {}
        self._placings: dict[int, Placing] = {}
        self._ranks: Sequence[int] = ()
        self._sizes: Mapping[str, int] = {}
        self._sessions: dict[str, str] = {}
        self._introducing: dict[str, str] = {}  # by nodes whose call waits: the session told of last
        self._telling = 0  # counts what the front has told of crawls, and the times that it was lost
        self._names: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of nodes
        self._changes: WeakValueDictionary[str, asyncio.Future[None]] = WeakValueDictionary()
        self._told = asyncio.Event()  # set when the front has told of shards, and then another one

    def begin(self, tasks: Tasks) -> None:
        """Begin to listen to the front."""
        tasks.keep("guidance by the front", self._listen())
        for link in self._links.all:
            tasks.keep(f"watch of {link.name}", self._watch(link))

    @property
    def sees_all(self) -> bool:
        """Whether it knows what it must, and reaches each shard that serves."""
        return self._places is not None and not any(link.away for link in self._serving)

    # What the front tells.

    async def _listen(self) -> Never:
        while True:
            with suppress(ShardAway):
                request, kind = shard_pb2.GuideRequest(), shard_pb2.GuideResponse
                messages = self._front.messages(f"{FRONT}/Guide", request, kind, SILENT_S)
                async with aclosing(messages):
                    async for message in messages:
                        self._take(message)
            self._lose()
            await asyncio.sleep(AGAIN_S)

    def _take(self, message: shard_pb2.GuideResponse) -> None:
        if message.HasField("places_rule"):
            rule = message.places_rule
            self._places = Places(Suffixes(rule.suffixes), rule.by_site)
            _log.info("guided_by_front")
        if message.incarnations:
            self._serve_by(message.incarnations)
        self._telling += bool(message.crawls or message.gone_crawls)
        for crawl in message.crawls:
            self._note(crawl)
        for name in message.gone_crawls:
            self.forget(name)
            self._wake(name)
        if message.HasField("next_ranks"):
            self._ranks = list(message.next_ranks.ranks)
        if message.HasField("pool_sizes"):
            self._sizes = dict(message.pool_sizes.sizes)
        for named in message.sessions:
            if self._sessions.get(named.node) != named.session:
                self._sessions.pop(named.node, None)
            if named.node in self._introducing:
                self._introducing[named.node] = named.session

    def _note(self, crawl: shard_pb2.GuidedCrawl) -> None:
        facts = _facts(crawl)
        before = self._crawls.get(crawl.crawl)
        self._crawls[crawl.crawl] = facts
        if before is None or before.reason is not facts.reason or before.number != facts.number:
            self._wake(crawl.crawl)

    def _lose(self) -> None:
        """Forget all that the front has told."""
        if self._places is None:
            return
        _log.warning("guidance_lost")
        self._places = None
        self._telling += 1
        self._serve_by([0] * len(self._links))
        self._crawls.clear()
        self._placings.clear()
        self._sessions.clear()
        self._ranks, self._sizes = (), {}
        for name in list(self._changes):
            self._wake(name)

    # Shards.

    def _serve_by(self, incarnations: Sequence[int]) -> None:
        """Call those shards only whose incarnation is one of these."""
        self._incarnations = list(incarnations)
        self._serving = [link for link in self._links.all if incarnations[link.number]]
        self._told.set()
        self._told = asyncio.Event()

    async def _watch(self, link: Link) -> Never:
        """Let a shard be present while the incarnation of it serves that the front has met."""
        number = link.number
        while True:
            told, wanted = self._told, self._incarnations[number]
            if not wanted:
                await told.wait()
            elif await self._incarnation_of(link) == wanted == self._incarnations[number]:
                link.away = False
                while not link.away and self._incarnations[number] == wanted:
                    await _first_of(self._told.wait(), link.until_away())
                link.step_back()
            else:
                await asyncio.sleep(AGAIN_S)

    async def _incarnation_of(self, link: Link) -> int:
        """The incarnation that answers; 0 if none does."""
        request, kind = shard_pb2.LookRequest(), shard_pb2.LookResponse
        try:
            return (await link.call(LOOK, request, kind, LOOK_S)).incarnation
        except (ShardAway, Relayed):
            return 0

    # What a router asks.

    async def introduce(self, node: str, session: str, metadata: Metadata) -> None:
        """Let the front introduce a node's session to all shards, if it is new. Raises Relayed if another
        session has replaced it, ShardAway if the front is away."""
        if self._sessions.get(node) == session:
            return
        check_node(node, session)
        async with self._names.setdefault(node, asyncio.Lock()):
            if self._sessions.get(node) == session:
                return
            places, self._introducing[node] = self._places, session
            named = shard_pb2.NamedSession(node=node, session=session)
            try:
                answer = await self._ask(
                    "Introduce",
                    shard_pb2.IntroduceRequest(named=named),
                    shard_pb2.IntroduceResponse,
                    metadata=metadata,
                )
            finally:
                is_last = self._introducing.pop(node) == session
            if answer.known and is_last and self._places is places is not None:
                if len(self._sessions) >= MAX_KNOWN:
                    self._sessions.clear()
                self._sessions[node] = session

    async def reason(self, crawl: str, exactly_s: float = 0.0) -> EmptyReason:
        """Why a crawl gives no leases; NOTHING_DUE or LIMIT_REACHED if it runs. It may have begun to run a
        moment ago: with `exactly_s`, the front is asked, and the shards have so long to hear that. Raises
        Relayed for an unknown crawl, ShardAway if the front is away."""
        facts = self._crawls.get(crawl)
        if facts is None or exactly_s:
            facts, _ = await self._described(crawl, exactly_s)
        return facts.reason

    async def check_unfinished(self, crawl: str) -> None:
        """Raise Relayed if a crawl takes in no URIs now, ShardAway if the front is away."""
        facts = self._crawls.get(crawl)
        if facts is None or not facts.takes_in:
            request = shard_pb2.CheckIntakeRequest(crawl=crawl)
            await self._ask("CheckIntake", request, shard_pb2.CheckIntakeResponse)

    async def placing_for(self, crawl: str) -> Placing:
        """Where the URIs of a crawl belong. Raises Relayed for an unknown one, ShardAway if the front is
        away."""
        facts = self._crawls.get(crawl)
        placing = None if facts is None else self._placings.get(facts.number)
        if placing is None:
            facts, spec = await self._described(crawl, with_spec=True)
            if self._places is None:
                raise self._front.absence()
            settings = wire.settings_with(spec, ())
            placing = Placing(settings, self._places, self._links.shard_of, facts.number)
            if len(self._placings) >= MAX_PLACED:
                self._placings.clear()
            self._placings[facts.number] = placing
        return placing

    def absence(self) -> ShardAway | None:
        """The refusal of a call while the front is away; None while it guides."""
        return self._front.absence() if self._places is None else None

    def forget(self, crawl: str) -> None:
        """Ask the front anew when a crawl is needed next."""
        facts = self._crawls.pop(crawl, None)
        if facts is not None:
            self._placings.pop(facts.number, None)

    async def _described(
        self, crawl: str, wait_s: float = 0.0, with_spec: bool = False
    ) -> tuple[Facts, bytes]:
        request = shard_pb2.TellCrawlRequest(
            crawl=crawl, wait_duration=wire.duration(round(wait_s * 1000)), with_spec=with_spec
        )
        telling = self._telling
        answer = await self._ask("TellCrawl", request, shard_pb2.TellCrawlResponse, wait_s)
        facts = _facts(answer.crawl)
        if self._telling == telling and self._places is not None:  # else it may be older than what was told
            self._crawls[crawl] = facts
        return facts, answer.spec

    async def park(self, crawl: str, shard: int, candidates: Sequence[Candidate]) -> bool:
        """Let the front keep candidates for a shard that is away; whether it does. Raises Relayed."""
        messages = [frontier_pb2.Candidate.FromString(each.record) for each in candidates]
        request = shard_pb2.ParkRequest(crawl=crawl, shard=shard, candidates=messages)
        try:
            return (await self._ask("Park", request, shard_pb2.ParkResponse)).parked
        except ShardAway:
            return False

    @contextmanager
    def change(self, crawl: str) -> Iterator[asyncio.Future[None]]:
        """A future that is done when the reason may have changed for a crawl (empty: any)."""
        change = self._changes.get(crawl)
        if change is None:
            change = self._changes[crawl] = asyncio.get_running_loop().create_future()
        yield change

    def _wake(self, crawl: str) -> None:
        for name in {crawl, ""}:
            change = self._changes.pop(name, None)
            if change is not None:
                change.set_result(None)

    def next_ranks(self, crawl: str) -> Sequence[int]:
        """The ranks of the queues whose turns come next in the shards; empty if none are known."""
        if not crawl:
            return self._ranks
        facts = self._crawls.get(crawl)
        return () if facts is None else facts.next_ranks

    def pool_size_of(self, node: str) -> int | None:
        """How many toe threads operators have asked a node to have."""
        return size_of_pool(self._sizes, node)

    async def _ask(
        self, method: str, request: Message, kind: type[M], wait_s: float = 0.0, metadata: Metadata = ()
    ) -> M:
        return await self._front.call(f"{FRONT}/{method}", request, kind, ASK_S + wait_s, metadata)


def _facts(crawl: shard_pb2.GuidedCrawl) -> Facts:
    return Facts(crawl.number, _REASONS[crawl.reason], crawl.takes_in, tuple(crawl.next_ranks))


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of these is over."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
