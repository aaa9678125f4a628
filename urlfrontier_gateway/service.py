"""URLFrontier's service: one method for each of its 19 RPCs.

`local`, in many requests, restricts a call to one member of a URLFrontier cluster. Gateways keep nothing for
themselves, so it makes no difference here.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from urlfrontier import urlfrontier_pb2

from .calls import ServedCall, ServedCalls, ServeOne, decoded
from .changes import Changes
from .crawl_ids import normalised
from .crawls import Crawls
from .dispenser import Dispenser
from .frontier import FrontierCalls
from .intake import UrlIntake
from .leases import Leases
from .logs import set_level
from .refusals import refusing
from .streams import put_discovered, put_urls
from .views import UrlViews, seen_filter

SERVICE = urlfrontier_pb2.DESCRIPTOR.services_by_name["URLFrontier"]

_M = TypeVar("_M", bound=Message)


class URLFrontier:
    """URLFrontier's RPCs, on a Toehold frontier."""

    def __init__(self, frontier: FrontierCalls, leases: Leases, address: Callable[[], str]) -> None:
        self._leases, self._address = leases, address
        self._crawls = Crawls(frontier)
        self._views = UrlViews(frontier)
        self._changes = Changes(frontier, self._crawls, leases, self._views)
        self._intake = UrlIntake(frontier, self._crawls, leases)
        self._dispenser = Dispenser(self._crawls, leases)

    # streams

    async def put_urls(self, call: ServedCall) -> None:
        """Puts URLs, each a message."""
        await put_urls(self._intake, call)

    async def put_discovered(self, call: ServedCall) -> None:
        """Puts discovered URLs, many in a message."""
        await put_discovered(self._intake, call)

    async def get_urls(self, call: ServedCall, request: bytes) -> None:
        """Sends URLs that are due."""
        await self._dispenser.get(decoded(urlfrontier_pb2.GetParams.FromString, request), call.write)

    async def list_urls(self, call: ServedCall, request: bytes) -> None:
        """Sends the URLs of a crawl or a queue."""
        async for item in self._views.urls(decoded(urlfrontier_pb2.ListUrlParams.FromString, request)):
            await call.write(item.SerializeToString())

    # one answer each

    async def ListNodes(self, _: urlfrontier_pb2.Empty) -> urlfrontier_pb2.StringList:
        """This gateway's address. Clients find the others by their own configuration."""
        return urlfrontier_pb2.StringList(values=[self._address()])

    async def ListCrawls(self, _: urlfrontier_pb2.Local) -> urlfrontier_pb2.StringList:
        """The ids of all crawls."""
        return urlfrontier_pb2.StringList(values=await self._crawls.ids())

    async def DeleteCrawl(self, request: urlfrontier_pb2.DeleteCrawlMessage) -> urlfrontier_pb2.Long:
        """Deletes a crawl; how many URLs it had."""
        return urlfrontier_pb2.Long(value=await self._changes.delete_crawl(normalised(request.value)))

    async def ListQueues(self, request: urlfrontier_pb2.Pagination) -> urlfrontier_pb2.QueueList:
        """The keys of a crawl's queues."""
        return await self._views.queues(request)

    async def GetStats(self, request: urlfrontier_pb2.QueueWithinCrawlParams) -> urlfrontier_pb2.Stats:
        """Counts of a crawl or a queue."""
        await self._leases.hand_back_expired()
        return await self._views.stats(normalised(request.crawlID), request.key)

    async def DeleteQueue(self, request: urlfrontier_pb2.QueueWithinCrawlParams) -> urlfrontier_pb2.Long:
        """Deletes a queue; how many URLs it had."""
        return urlfrontier_pb2.Long(value=await self._changes.delete_queue(request))

    async def BlockQueueUntil(self, request: urlfrontier_pb2.BlockQueueParams) -> urlfrontier_pb2.Empty:
        """Lets a queue give no URLs before a time."""
        await self._changes.block(request)
        return urlfrontier_pb2.Empty()

    async def SetActive(self, request: urlfrontier_pb2.Active) -> urlfrontier_pb2.Empty:
        """Resumes or pauses GetURLs, at all gateways."""
        await self._crawls.set_active(request.state)
        return urlfrontier_pb2.Empty()

    async def GetActive(self, _: urlfrontier_pb2.Local) -> urlfrontier_pb2.Boolean:
        """Whether GetURLs gives URLs."""
        _delay_s, active = await self._crawls.settings()
        return urlfrontier_pb2.Boolean(state=active)

    async def SetDelay(self, request: urlfrontier_pb2.QueueDelayParams) -> urlfrontier_pb2.Empty:
        """Sets how long a queue rests after it has given URLs."""
        await self._changes.set_delay(request)
        return urlfrontier_pb2.Empty()

    async def SetLogLevel(self, request: urlfrontier_pb2.LogLevelParams) -> urlfrontier_pb2.Empty:
        """Sets the log level of this gateway, whatever the package."""
        set_level(urlfrontier_pb2.LogLevelParams.Level.Name(request.level))
        return urlfrontier_pb2.Empty()

    async def SetCrawlLimit(self, request: urlfrontier_pb2.CrawlLimitParams) -> urlfrontier_pb2.Empty:
        """Sets how many URLs of a queue are completed."""
        await self._changes.set_limit(request)
        return urlfrontier_pb2.Empty()

    async def GetURLStatus(self, request: urlfrontier_pb2.URLStatusRequest) -> urlfrontier_pb2.URLItem:
        """All that is known of a URL."""
        return await self._views.status(request)

    async def CountURLs(self, request: urlfrontier_pb2.CountUrlParams) -> urlfrontier_pb2.Long:
        """How many URLs a crawl or a queue has."""
        which = seen_filter(request.key, request.filter, request.ignoreCase)
        return urlfrontier_pb2.Long(value=await self._views.total(normalised(request.crawlID), which))

    async def PurgeURLs(self, request: urlfrontier_pb2.PurgeUrlParams) -> urlfrontier_pb2.Long:
        """Deletes old URLs; how many."""
        return urlfrontier_pb2.Long(value=await self._changes.purge(request))


def register(server: grpc.aio.Server, service: URLFrontier) -> None:
    """Lets a server serve the RPCs."""
    streams = {"PutURLs": service.put_urls, "PutDiscovered": service.put_discovered}
    others: dict[str, ServeOne] = {"GetURLs": service.get_urls, "ListURLs": service.list_urls}
    for method in SERVICE.methods:
        if method.name not in streams and method.name not in others:
            others[method.name] = _unary(GetMessageClass(method.input_type), getattr(service, method.name))
    ServedCalls().register(
        server,
        SERVICE.full_name,
        {name: refusing(serve) for name, serve in streams.items()},
        {name: refusing(serve) for name, serve in others.items()},
    )


def _unary(kind: type[_M], answer: Callable[[_M], Awaitable[Message]]) -> ServeOne:
    async def serve(call: ServedCall, request: bytes) -> None:
        answered = await answer(decoded(kind.FromString, request))
        await call.write(answered.SerializeToString())

    return serve
