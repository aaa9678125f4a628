"""FrontierService beside the coordinator: what fetchers and feeders call, and what is about a whole crawl."""

from collections.abc import AsyncIterator

from toehold.frontier.v1 import frontier_pb2

from ..service.answers import Context
from ..service.fetchers import FrontierService
from ..shards.links import Links
from .answers import routed
from .candidates import Candidates
from .chances import Chances
from .coordination import Coordination, Introducing
from .fetchers import STEER_S, RoutedFetchers


class RoutedFrontier(RoutedFetchers):
    """The RPCs of fetchers and feeders, over all shards. `whole` answers what is about a crawl as a whole."""

    def __init__(
        self,
        links: Links,
        chances: Chances,
        candidates: Candidates,
        coordination: Coordination,
        introductions: Introducing,
        whole: FrontierService,
    ) -> None:
        super().__init__(links, chances, candidates, coordination, introductions)
        self._coordination = coordination
        self._whole = whole

    @routed
    async def RequestState(
        self, request: frontier_pb2.RequestStateRequest, context: Context
    ) -> frontier_pb2.RequestStateResponse:
        answer = await self._whole.RequestState(request, context)
        await self._coordination.steered(request.crawl, STEER_S)
        return await self._whole.present_state(request.crawl) or answer

    async def StateEvents(
        self, request: frontier_pb2.StateEventsRequest, context: Context
    ) -> AsyncIterator[frontier_pb2.StateEventsResponse]:
        async for message in self._whole.StateEvents(request, context):
            yield message
