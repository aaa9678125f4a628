"""Guides the routers of other machines: tells them what they must know of the coordinator, and what changes.

A router that passes calls on to shards must not call one that has begun anew and has not heard yet what was
wished meanwhile. So it learns which incarnation of each shard serves, and calls no other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Never

from toehold.shard.v1 import shard_pb2, shard_pb2_grpc
from toehold_base.access.shown import CALLER_KEY
from toehold_base.serving.request_ids import REQUEST_ID_KEY

from .. import wire
from ..core.state.order import Facts
from ..core.uri.assign import Places
from ..service.answers import OPERATOR_KEY, Context
from ..shards.links import Links
from ..shell.tasks import Closing
from .answers import routed, routed_stream
from .coordination import Coordination
from .introductions import Introductions

KEEPALIVE_S = 0.5
GATHER_S = 0.05  # changes are gathered for so long
CRAWLS_PER_MESSAGE = 500
_OF_CALLER = (OPERATOR_KEY, CALLER_KEY, REQUEST_ID_KEY)

CountCalls = Callable[[shard_pb2.CountCallsRequest], None]


class _Mailbox:
    """What a door has not been told yet. What changes twice before it is told is told once."""

    def __init__(self) -> None:
        self.crawls: dict[str, Facts | None] = {}
        self.sessions: dict[str, str] = {}
        self.presence_changed = True
        self.ranks_changed = True
        self.sizes_changed = True
        self.has_news = asyncio.Event()
        self.end: Closing | None = None

    def name(self, node: str, session: str) -> None:
        """Tell of a session that has got its node's name."""
        self.sessions[node] = session
        self.has_news.set()


class Board:
    """What doors are told. `run` it."""

    def __init__(self, links: Links, coordination: Coordination) -> None:
        self._links = links
        self._coordination = coordination
        self._crawls: dict[str, Facts] = {}
        self._mailboxes: set[_Mailbox] = set()
        self.ranks: tuple[int, ...] = ()
        self.sizes: Mapping[str, int] = {}

    async def run(self) -> Never:
        """Note what changes, as long as the server runs."""
        change = 0
        while True:
            next_change = self._coordination.next_change()
            news, change = await self._coordination.news(change)
            self._note(news)
            await asyncio.wait((next_change,))
            await asyncio.sleep(GATHER_S)

    def _note(self, news: Mapping[str, Facts | None]) -> None:
        # A crawl that has not changed since the start may be known to doors that have asked for it.
        changed = {
            name: facts for name, facts in news.items() if facts is None or self._crawls.get(name) != facts
        }
        for name, facts in changed.items():
            if facts is None:
                self._crawls.pop(name, None)
            else:
                self._crawls[name] = facts
        ranks, sizes = tuple(self._coordination.next_ranks("")), dict(self._coordination.pool_sizes())
        ranks_changed, sizes_changed = ranks != self.ranks, sizes != self.sizes
        self.ranks, self.sizes = ranks, sizes
        if not (changed or ranks_changed or sizes_changed):
            return
        for mailbox in self._mailboxes:
            mailbox.crawls |= changed
            mailbox.ranks_changed |= ranks_changed
            mailbox.sizes_changed |= sizes_changed
            mailbox.has_news.set()

    def note_presence(self) -> None:
        """Note that a shard has come, or is away."""
        for mailbox in self._mailboxes:
            mailbox.presence_changed = True
            mailbox.has_news.set()

    def end(self, why: Closing) -> None:
        """Tell nothing any more."""
        for mailbox in self._mailboxes:
            mailbox.end = why
            mailbox.has_news.set()

    def incarnations(self) -> list[int]:
        """The incarnation of each shard that serves, 0 for one that is away."""
        return [
            0 if link.away else self._coordination.incarnation_of(link.number) for link in self._links.all
        ]

    @contextmanager
    def mailbox(self) -> Iterator[_Mailbox]:
        """A mailbox that gets all that there is, and what changes."""
        found = _Mailbox()
        found.crawls |= self._crawls
        self._mailboxes.add(found)
        try:
            yield found
        finally:
            self._mailboxes.discard(found)


class FrontService(shard_pb2_grpc.FrontServiceServicer):
    """The RPCs of doors."""

    def __init__(
        self,
        board: Board,
        coordination: Coordination,
        introductions: Introductions,
        places: Places,
        count_calls: CountCalls | None,
    ) -> None:
        """`places` are those that URIs have in the stores. `count_calls` takes the calls that doors have
        answered; None: nobody wants them."""
        self._board = board
        self._coordination = coordination
        self._introductions = introductions
        self._places = places
        self._count_calls = count_calls

    @routed_stream
    async def Guide(
        self, request: shard_pb2.GuideRequest, context: Context
    ) -> AsyncIterator[shard_pb2.GuideResponse]:
        rule = shard_pb2.PlacesRule(suffixes=self._places.suffixes.packed, by_site=self._places.by_site)
        message = shard_pb2.GuideResponse(places_rule=rule)
        with self._board.mailbox() as mailbox:
            self._introductions.told.add(mailbox.name)
            try:
                while True:
                    self._fill(message, mailbox)
                    yield message
                    message = shard_pb2.GuideResponse()
                    if not mailbox.crawls:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(KEEPALIVE_S):
                                await mailbox.has_news.wait()
                    mailbox.has_news.clear()
                    if mailbox.end is not None:
                        raise mailbox.end
            finally:
                self._introductions.told.discard(mailbox.name)

    def _fill(self, message: shard_pb2.GuideResponse, mailbox: _Mailbox) -> None:
        """Put into a message what a door has not been told; as many crawls as fit."""
        for name in list(islice(mailbox.crawls, CRAWLS_PER_MESSAGE)):
            facts = mailbox.crawls.pop(name)
            if facts is None:
                message.gone_crawls.append(name)
            else:
                message.crawls.append(_crawl(name, facts))
        if mailbox.presence_changed:
            message.incarnations.extend(self._board.incarnations())
        if mailbox.ranks_changed:
            message.next_ranks.ranks.extend(self._board.ranks)
            message.next_ranks.SetInParent()
        if mailbox.sizes_changed:
            message.pool_sizes.sizes.update(self._board.sizes)
            message.pool_sizes.SetInParent()
        for node, session in mailbox.sessions.items():
            message.sessions.add(node=node, session=session)
        mailbox.presence_changed = mailbox.ranks_changed = mailbox.sizes_changed = False
        mailbox.sessions.clear()

    @routed
    async def Introduce(
        self, request: shard_pb2.IntroduceRequest, context: Context
    ) -> shard_pb2.IntroduceResponse:
        named = request.named
        metadata = context.invocation_metadata() or ()
        of_caller = tuple((key, str(value)) for key, value in metadata if key in _OF_CALLER)
        await self._introductions.introduce(named.node, named.session, of_caller)
        return shard_pb2.IntroduceResponse(known=self._introductions.is_known(named.node, named.session))

    @routed
    async def TellCrawl(
        self, request: shard_pb2.TellCrawlRequest, context: Context
    ) -> shard_pb2.TellCrawlResponse:
        wait_s = wire.milliseconds(request.wait_duration) / 1000
        if wait_s:
            await self._coordination.reason(request.crawl, wait_s)
        facts, spec = await self._coordination.described(request.crawl)
        its_spec = spec if request.with_spec else b""
        return shard_pb2.TellCrawlResponse(crawl=_crawl(request.crawl, facts), spec=its_spec)

    @routed
    async def CheckIntake(
        self, request: shard_pb2.CheckIntakeRequest, context: Context
    ) -> shard_pb2.CheckIntakeResponse:
        await self._coordination.check_unfinished(request.crawl)
        return shard_pb2.CheckIntakeResponse()

    @routed
    async def Park(self, request: shard_pb2.ParkRequest, context: Context) -> shard_pb2.ParkResponse:
        candidates = [wire.candidate(message) for message in request.candidates]
        parked = await self._coordination.park(request.crawl, request.shard, candidates)
        return shard_pb2.ParkResponse(parked=parked)

    @routed
    async def CountCalls(
        self, request: shard_pb2.CountCallsRequest, context: Context
    ) -> shard_pb2.CountCallsResponse:
        if self._count_calls is not None:
            self._count_calls(request)
        return shard_pb2.CountCallsResponse()


def _crawl(name: str, facts: Facts) -> shard_pb2.GuidedCrawl:
    return shard_pb2.GuidedCrawl(
        crawl=name,
        number=facts.number,
        reason=wire.EMPTY_REASONS[facts.reason],
        takes_in=facts.takes_in,
        next_ranks=facts.next_ranks,
    )
