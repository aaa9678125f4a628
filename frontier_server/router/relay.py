"""The servicers of a door: they pass calls on to the shards, or to the front of the cluster, wherever it is.

A door judges its callers as a front does, and bounds what it receives; front and shards hear who calls. Calls
of fetchers and feeders, nearly all that there are, go straight to the shards, so what a cluster can do grows
with its machines. What is about crawls as a whole is the front's.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from toehold.frontier.v1 import admin_pb2, frontier_pb2

from ..core.rows.errors import ShardAway
from ..service.answers import Context
from ..service.arrivals import Arrivals, Server
from ..shards.links import Link, passed_on, time_left_s
from .answers import routed, routed_stream
from .fetchers import RoutedFetchers
from .guided import Guided
from .tally import Tally

_TO_SHARDS = ("Schedule", "Next", "Finished", "Heartbeat")


def register_door(
    server: Server, arrivals: Arrivals, link: Link, fetchers: RoutedFetchers, guided: Guided, tally: Tally
) -> None:
    """Let a server serve the contract's services by the front that `link` leads to, and by the shards as far
    as `guided` knows what `fetchers` need. `tally` counts the calls that the front hears nothing of."""
    frontier = frontier_pb2.DESCRIPTOR.services_by_name["FrontierService"]
    admin = admin_pb2.DESCRIPTOR.services_by_name["FrontierAdminService"]
    arrivals.register(server, Door(Relay(link, frontier, tally), fetchers, guided, tally), frontier)
    arrivals.register(server, Relay(link, admin, tally), admin)


class Door:
    """FrontierService at a door. Has a method for each RPC."""

    def __init__(self, relay: "Relay", fetchers: RoutedFetchers, guided: Guided, tally: Tally) -> None:
        for name in relay.methods:
            setattr(self, name, getattr(relay, name))
        for name in _TO_SHARDS:
            setattr(self, name, _shorter(name, getattr(fetchers, name), getattr(relay, name), guided, tally))


def _shorter(name: str, straight: Any, around: Any, guided: Guided, tally: Tally) -> Any:
    """A method that takes the straight way while there is one."""

    async def answered(request: Message, context: Context) -> Any:
        if not guided.sees_all:
            return await around(request, context)
        with tally.one(name, context):
            return await straight(request, context)

    return answered


class Relay:
    """Has a method for each RPC of a service."""

    def __init__(self, link: Link, service: ServiceDescriptor, tally: Tally) -> None:
        """`link` leads to the front. `tally` counts the calls that it does not hear of."""
        self._link = link
        self._tally = tally
        self.methods = [method.name for method in service.methods]
        for method in service.methods:
            setattr(self, method.name, self._passing(method))

    @contextmanager
    def _counting(self, method: str) -> Iterator[None]:
        """Count a call that fails as the front is away, within a `with` block: it hears nothing of it."""
        is_away = self._link.away
        try:
            yield
        except ShardAway:
            if is_away:
                self._tally.refuse(method)
            raise

    def _passing(self, method: MethodDescriptor) -> Any:
        name = f"{method.containing_service.full_name}/{method.name}"
        kind: type[Message] = GetMessageClass(method.output_type)

        @routed
        async def one(relay: "Relay", request: Message, context: Context) -> bytes:
            data = request.SerializeToString()
            with relay._counting(method.name):
                return await relay._link.pass_on(name, data, time_left_s(context), passed_on(context))

        @routed
        async def many(relay: "Relay", requests: AsyncIterator[Message], context: Context) -> Message:
            with relay._counting(method.name):
                upload = relay._link.upload(name, kind, passed_on(context))
                try:
                    async for request in requests:
                        await upload.send(request)
                    return await upload.answer()
                finally:
                    upload.cancel()

        async def streamed(relay: "Relay", request: Message, context: Context) -> AsyncIterator[Message]:
            with relay._counting(method.name):
                async for message in relay._link.answers(name, request, kind, passed_on(context)):
                    yield message

        behaviour: Any = one
        if method.server_streaming:
            behaviour = routed_stream(streamed)
        elif method.client_streaming:
            behaviour = many
        return behaviour.__get__(self)
