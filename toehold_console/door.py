"""The door to a server: calls of any RPC in the name of whoever sent the token with them.

A connection has one token, so there is one door for each. Doors that nobody uses any more are closed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from grpc import aio

from toehold_client.aio.driver import AsyncDriver
from toehold_client.aio.streams import AsyncStream, this_task_is_cancelled
from toehold_client.credentials import Credentials
from toehold_client.errors import NODE
from toehold_client.rpc.contract import Stubs
from toehold_client.rpc.request_ids import request_id

MOST_DOORS = 200
CALL_S = 90.0
"""How long a call may take: a long poll of Next takes up to 60 s."""
RETURN_S = 1.5
"""How long a call to a server that was away waits for the next attempt to connect; gRPC makes one after 1.2 s
at most. The server may be back for as long, and a page may have heard of it."""
RECONNECT_S = 24 * 3600.0
"""For so long a stream waits for a frontier that is away."""


class Door(AsyncDriver):
    """A server, by any of its RPCs."""

    async def ask(self, method: MethodDescriptor, request: Message, identity: str) -> Message:
        """One call, tried once. Raises grpc's own error, which has the server's status as it came, and
        ClientClosed when the console ends."""
        name = method.containing_service.full_name
        with request_id(identity):
            metadata = self._call_metadata()
        with self._used_channel() as used:
            stub = getattr(_service(used.stubs, name), method.name)
            try:
                await _met(used.channel)
                answer: Message = await stub(request, timeout=CALL_S, metadata=metadata)
            except (aio.UsageError, asyncio.CancelledError):  # what gRPC raises on a closed channel
                if not this_task_is_cancelled():
                    self._check_open()
                raise
            return answer

    async def sentence(self, error: aio.AioRpcError) -> str:
        """Why a call failed that did not reach the server."""
        return str(await self._reason(error, CALL_S, self._call_metadata()))

    def stream(self, method: MethodDescriptor, request: Any) -> AsyncStream[Any, Any]:
        """A stream of answers. It goes on after a restart of the frontier, without gap or repeat."""
        name = method.containing_service.full_name
        return self._stream(
            lambda stubs: getattr(_service(stubs, name), method.name),
            request,
            what="answers",
            timeout_s=None,
            reconnect_s=RECONNECT_S,
        )


class NodeDoor(Door):
    """A node, by its NodeService."""

    _server = NODE


async def _met(channel: aio.Channel) -> None:
    """Wait a moment for a server that the last attempt to connect has not found; for others, not at all."""
    if channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
        with suppress(TimeoutError):  # the call tells why
            await asyncio.wait_for(channel.channel_ready(), RETURN_S)


def _service(stubs: Stubs, full_name: str) -> Any:
    name = full_name.rpartition(".")[2]
    return {
        "FrontierService": stubs.frontier,
        "FrontierAdminService": stubs.admin,
        "NodeService": stubs.node,
    }[name]


class Doors:
    """The doors to a frontier and to its nodes, by address and token."""

    def __init__(self, frontier: str, credentials: Credentials) -> None:
        self._frontier = frontier
        self._credentials = credentials
        self._doors: OrderedDict[tuple[str, str], Door] = OrderedDict()
        self._users: dict[Door, int] = {}

    def credentials_of(self, token: str) -> Credentials:
        """How a client with this token reaches the frontier. InvalidArgument for one that cannot be sent."""
        return replace(self._credentials, token=token or None)

    @asynccontextmanager
    async def to_frontier(self, token: str) -> AsyncIterator[Door]:
        """The frontier, for a caller with this token, or without one."""
        async with self._opened(Door, self._frontier, token) as door:
            yield door

    @asynccontextmanager
    async def to_node(self, address: str, token: str) -> AsyncIterator[Door]:
        async with self._opened(NodeDoor, address, token) as door:
            yield door

    async def close(self) -> None:
        """Ends all calls."""
        doors, self._doors = list(self._doors.values()), OrderedDict()
        await asyncio.gather(*(door.close() for door in doors))

    @asynccontextmanager
    async def _opened(self, kind: type[Door], address: str, token: str) -> AsyncIterator[Door]:
        key = (address, token)
        door = self._doors.get(key)
        if door is None:
            door = self._doors[key] = kind(address, credentials=self.credentials_of(token))
        self._doors.move_to_end(key)
        self._users[door] = self._users.get(door, 0) + 1
        try:
            await self._close_oldest()
            yield door
        finally:
            self._users[door] -= 1
            if not self._users[door]:
                del self._users[door]

    async def _close_oldest(self) -> None:
        """Closes doors beyond the most, one at a time: others come and go meanwhile."""
        while len(self._doors) > MOST_DOORS:
            idle = next((key for key, door in self._doors.items() if door not in self._users), None)
            if idle is None:
                return
            await self._doors.pop(idle).close()
