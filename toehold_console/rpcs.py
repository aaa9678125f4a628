"""The routes of the contract: one call, or a stream of answers as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from grpc import aio
from starlette.requests import Request
from starlette.responses import Response

from toehold.frontier.v1.admin_pb2 import GetCallerRequest, GetCallerResponse, GetFrontierRequest
from toehold_base.access.roles import ROLES, all_of
from toehold_base.serving.request_ids import REQUEST_ID_KEY, is_request_id
from toehold_client.errors import ClientClosed, InvalidArgument, ToeholdError

from .bodies import announces_less, body_of
from .contract import METHODS, NODE_SERVICE, JsonCall, Refusal, call_of, method_of, refusal_of, to_json
from .door import Door, Doors
from .event_stream import EVENT_STREAM, EventStream, event, resumed
from .guard import Guard, unauthenticated
from .settings import Settings

_CALLERS_S = 30.0
_GET_CALLER = METHODS["FrontierAdminService/GetCaller"]
_GET_FRONTIER = METHODS["FrontierAdminService/GetFrontier"]
LARGE_BYTES = 256 * 1024
"""From this size on, messages are read and written in a thread, so that others need not wait."""
MOST_LARGE = 2
MOST_LARGE_BODIES = 4
"""So many large bodies arrive at once: whoever may make a call could otherwise fill the memory with them."""
LARGE_BODY_S = 30.0
"""For so long a large body waits for its turn."""


class Rpcs:
    """Answers requests for RPCs."""

    def __init__(self, settings: Settings, guard: Guard, doors: Doors, ending: asyncio.Event) -> None:
        self._settings = settings
        self._guard = guard
        self._doors = doors
        self._ending = ending
        self._working = asyncio.Semaphore(MOST_LARGE)
        self._receiving = asyncio.Semaphore(MOST_LARGE_BODIES)
        self._known_s: dict[str, float] = {}
        """When the frontier knew the caller with a token, if that is not long ago."""

    async def call(self, request: Request) -> Response:
        """`POST /v1/{service}/{method}`, and GET for streams, whose request is the parameter `request`."""
        service, method = request.path_params["service"], request.path_params["method"]
        token = self._guard.token_of(request)
        # First: a body takes memory, and JSON takes much more.
        await self.check_token(token)
        found = method_of(service, method)
        call = await self._received(request, token, found)
        if request.method != "POST" and not call.method.server_streaming:
            raise Refusal(
                grpc.StatusCode.UNIMPLEMENTED,
                f"{method} is a call with one answer: use POST",
                "POST_ONLY",
                http_status=405,
            )
        if call.method.server_streaming:
            return await self._streamed(request, call, token)
        identity = request.headers.get(REQUEST_ID_KEY, "")
        if not is_request_id(identity):
            identity = ""
        if service == NODE_SERVICE:
            answer = await self._of_node(request, call, token, identity)
        else:
            async with self._doors.to_frontier(token) as door:
                answer = await ask(door, call, identity)
        if answer.ByteSize() < LARGE_BYTES:
            text = to_json(answer)
        else:
            async with self._working:
                text = await asyncio.to_thread(to_json, answer)
        return Response(text, media_type="application/json")

    async def _received(self, request: Request, token: str, found: MethodDescriptor) -> JsonCall:
        """The call that a request asks for. Raises Refusal."""
        if request.method != "POST":
            return call_of(found, request.query_params.get("request", "").encode())
        if found.containing_service.name == NODE_SERVICE or announces_less(request, LARGE_BYTES):
            return call_of(found, await body_of(request, LARGE_BYTES))
        await self._check_role(token, found)
        async with self._turn():
            body = await body_of(request)
            async with self._working:
                return await asyncio.to_thread(call_of, found, body)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """The turn of a large body, which waits unread until then. Raises Refusal."""
        try:
            await asyncio.wait_for(self._receiving.acquire(), LARGE_BODY_S)
        except TimeoutError:
            raise Refusal(
                grpc.StatusCode.UNAVAILABLE,
                f"other large bodies have been arriving for {LARGE_BODY_S:g} s; try again",
                "LARGE_BODIES",
            ) from None
        try:
            yield
        finally:
            self._receiving.release()

    async def _check_role(self, token: str, found: MethodDescriptor) -> None:
        """Raise Refusal if the frontier would refuse each call of an RPC with this token."""
        caller = await self.caller(token)
        rpc = f"{found.containing_service.full_name}/{found.name}"
        if caller.caller and rpc not in caller.rpcs:
            raise Refusal(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{found.name} is for callers with the role {all_of(ROLES[rpc])}; caller {caller.caller!r} "
                f"has {', '.join(caller.roles)}",
                "ROLE_MISSING",
            )

    async def caller(self, token: str) -> GetCallerResponse:
        """The caller with a token, as the frontier knows it. Raises Refusal."""
        try:
            async with self._doors.to_frontier(token) as door:
                answer = await ask(door, JsonCall(_GET_CALLER, GetCallerRequest()))
        except InvalidArgument as problem:
            raise unauthenticated(str(problem)) from None
        assert isinstance(answer, GetCallerResponse)
        if self._settings.needs_callers:
            if not token:
                raise unauthenticated("log in with a token")
            if not answer.caller:
                raise Refusal(
                    grpc.StatusCode.PERMISSION_DENIED,
                    "the frontier has no file of callers, so it cannot know who uses this console; start it "
                    "with --callers, or let the console listen on a loopback address",
                    "CALLERS_MISSING",
                )
        return answer

    async def check_token(self, token: str) -> None:
        """Raise Refusal unless the call may be made in the name of this token, or in nobody's."""
        if not self._settings.needs_callers:
            return
        if not token:
            raise unauthenticated(
                "the call has no credentials; send a token: `Authorization: Bearer TOKEN`, or log in"
            )
        now_s = asyncio.get_running_loop().time()
        if now_s - self._known_s.get(token, float("-inf")) > _CALLERS_S:
            await self.caller(token)
            self._known_s = {
                each: since_s for each, since_s in self._known_s.items() if now_s - since_s <= _CALLERS_S
            }
            self._known_s[token] = now_s

    async def _of_node(self, request: Request, call: JsonCall, token: str, identity: str) -> Message:
        name = request.query_params.get("node", "")
        if not name:
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "an RPC of NodeService needs the node: add ?node=NAME to the path",
                "NODE_MISSING",
            )
        async with self._doors.to_frontier(token) as door:
            frontier: Any = await ask(door, JsonCall(_GET_FRONTIER, GetFrontierRequest()), identity)
        found = next((node for node in frontier.nodes if node.node == name), None)
        if found is None or not found.service_address:
            lack = "has no NodeService" if found is not None else "is unknown to the frontier"
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"node {name[:140]!r} {lack}", "UNKNOWN_NODE")
        if token and self._settings.credentials.tls_ca is None:
            raise _in_plain_text(found.service_address, name)
        async with self._doors.to_node(found.service_address, token) as node:
            return await ask(node, call, identity)

    async def _streamed(self, request: Request, call: JsonCall, token: str) -> Response:
        if request.method == "HEAD":
            return Response(media_type=EVENT_STREAM)
        last = request.headers.get("last-event-id", "")
        if last:
            call.request.cursor = last  # type: ignore[attr-defined]  # all streams have one
        answers = self._answers(call, token)
        # The first answer, or the refusal, comes before the headers. A stream may begin with silence.
        first: asyncio.Task[str] = asyncio.ensure_future(anext(answers))
        done, _ = await asyncio.wait((first,), timeout=1.0)
        if (
            done
            and (refusal := first.exception()) is not None
            and not isinstance(refusal, StopAsyncIteration)
        ):
            raise refusal
        return EventStream(resumed(first, answers, self._ending))

    async def _answers(self, call: JsonCall, token: str) -> AsyncGenerator[str, None]:
        async with self._doors.to_frontier(token) as door, door.stream(call.method, call.request) as stream:
            try:
                async for message in stream:
                    yield event(to_json(message), identity=getattr(message, "cursor", ""))
            except ToeholdError as problem:
                raise refusal_of_client(problem) from None


async def ask(door: Door, call: JsonCall, identity: str = "") -> Message:
    """The answer of a call. Raises Refusal."""
    try:
        return await door.ask(call.method, call.request, identity)
    except aio.AioRpcError as error:
        refusal = refusal_of(error)
        if not refusal.details:
            refusal = refusal_of(error, await door.sentence(error))
        raise refusal from None
    except ClientClosed:
        raise Refusal(
            grpc.StatusCode.UNAVAILABLE,
            "the console ends; nobody knows whether the call took effect",
            "CONSOLE_ENDING",
        ) from None


def refusal_of_client(problem: ToeholdError) -> Refusal:
    """A refusal as the client tells it."""
    cause = problem.__context__  # gRPC's own error, which has the code
    if isinstance(cause, grpc.RpcError):
        return refusal_of(cause, str(problem))
    return Refusal(grpc.StatusCode.UNAVAILABLE, str(problem), problem.reason or "UNAVAILABLE")


def _in_plain_text(address: str, name: str) -> Refusal:
    """The refusal to send a token without TLS to an address that a node announces, be it of this machine."""
    return Refusal(
        grpc.StatusCode.FAILED_PRECONDITION,
        f"node {name[:140]!r} announces {address}, and without TLS whoever listens there could read your "
        "token; start frontier, nodes and console with TLS (--tls-ca)",
        "TLS_MISSING",
    )
