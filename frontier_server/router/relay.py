"""A door's servicer: passes all calls on to the front of the cluster, wherever it is.

A door judges its callers as a front does, and bounds what it receives; the front hears who calls.
"""

from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from toehold.frontier.v1 import admin_pb2, frontier_pb2

from ..service.answers import Context
from ..service.arrivals import Arrivals, Server
from ..shards.links import Link, passed_on, time_left_s
from .answers import routed, routed_stream


def register_relay(server: Server, arrivals: Arrivals, link: Link) -> None:
    """Let a server serve the contract's services by the front that `link` leads to."""
    for service in (
        frontier_pb2.DESCRIPTOR.services_by_name["FrontierService"],
        admin_pb2.DESCRIPTOR.services_by_name["FrontierAdminService"],
    ):
        arrivals.register(server, Relay(link, service), service)


class Relay:
    """Has a method for each RPC of a service."""

    def __init__(self, link: Link, service: ServiceDescriptor) -> None:
        """`link` leads to the front."""
        self._link = link
        for method in service.methods:
            setattr(self, method.name, self._passing(method))

    def _passing(self, method: MethodDescriptor) -> Any:
        name = f"{method.containing_service.full_name}/{method.name}"
        kind: type[Message] = GetMessageClass(method.output_type)

        @routed
        async def one(relay: "Relay", request: Message, context: Context) -> bytes:
            data = request.SerializeToString()
            return await relay._link.pass_on(name, data, time_left_s(context), passed_on(context))

        @routed
        async def many(relay: "Relay", requests: AsyncIterator[Message], context: Context) -> Message:
            upload = relay._link.upload(name, kind, passed_on(context))
            try:
                async for request in requests:
                    await upload.send(request)
                return await upload.answer()
            finally:
                upload.cancel()

        async def streamed(relay: "Relay", request: Message, context: Context) -> AsyncIterator[Message]:
            async for message in relay._link.answers(name, request, kind, passed_on(context)):
                yield message

        behaviour: Any = one
        if method.server_streaming:
            behaviour = routed_stream(streamed)
        elif method.client_streaming:
            behaviour = many
        return behaviour.__get__(self)
