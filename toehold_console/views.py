"""The routes of the page: sessions, live looks, and what it asks for when somebody opens a part of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import grpc
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from toehold.access.tokens import can_be_sent
from toehold.frontier.v1.admin_pb2 import (
    GetCallerResponse,
    GetCrawlRequest,
    GetFrontierRequest,
    ListQueuesRequest,
    ListSeedsRequest,
)
from toehold.frontier.v1.crawl_pb2 import QueueState
from toehold_client.errors import InvalidArgument, ToeholdError
from toehold_client.spec.plain import enum_number

from . import finding, settings_page, shown
from .contract import METHODS, Asked, Refusal
from .crawl_files import CrawlFiles
from .door import Doors
from .guard import Guard, check_csrf, unauthenticated
from .rpcs import EventStream, Rpcs, ask, body_of, event, refusal_of_client, resumed
from .sessions import SESSION_S, Sessions
from .settings import Settings
from .watching import Watch, Watches

PAGE_SIZE = 100
_T = TypeVar("_T")
_ADMIN = "FrontierAdminService"


class Views:
    """Answers the page."""

    def __init__(
        self,
        settings: Settings,
        sessions: Sessions,
        guard: Guard,
        doors: Doors,
        rpcs: Rpcs,
        ending: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._guard = guard
        self._doors = doors
        self._rpcs = rpcs
        self._ending = ending
        self._files = CrawlFiles(settings)
        self.watches = Watches(settings.frontier, doors.credentials_of)

    # Sessions.

    async def session(self, request: Request) -> Response:
        """`GET /console/session`: who the user is, or that a login is needed."""
        session = self._guard.session_of(request)
        try:
            caller = await self._rpcs.caller(self._guard.token_of(request))
        except Refusal as refusal:
            if refusal.code is not grpc.StatusCode.UNAUTHENTICATED:
                raise
            told = {"login": True, "problem": str(refusal) if session is not None else ""}
            return JSONResponse({**told, "frontier": self._settings.frontier})
        csrf = session.csrf if session is not None else ""
        return JSONResponse({"login": False, "csrf": csrf, **self._user(caller)})

    async def log_in(self, request: Request) -> Response:
        """`POST /console/session` with `{"token": …}`: begins a session."""
        token = str((await _object_of(request)).get("token", "")).strip()
        if not can_be_sent(token):
            raise unauthenticated("a token is one word of printable ASCII characters", "TOKEN_UNKNOWN")
        caller = await self._rpcs.caller(token)
        session, cookie = self._sessions.begin(token)
        response = JSONResponse({"login": False, "csrf": session.csrf, **self._user(caller)})
        response.set_cookie(
            self._guard.cookie,
            cookie,
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            # A proxy may speak HTTPS in its place: then the cookie is not for plain HTTP either.
            secure=request.headers.get("origin", "").startswith("https://") or self._settings.serves_https,
        )
        return response

    async def log_out(self, request: Request) -> Response:
        """`DELETE /console/session`."""
        session = self._guard.session_of(request)
        if session is not None:
            check_csrf(request, session)
        response = Response(status_code=204)
        response.delete_cookie(
            self._guard.cookie, httponly=True, samesite="strict", secure=self._settings.serves_https
        )
        return response

    def _user(self, caller: GetCallerResponse) -> dict[str, Any]:
        return {
            "caller": caller.caller,
            "roles": list(caller.roles),
            "crawls": list(caller.crawls),
            "rpcs": [rpc.rpartition(".")[2] for rpc in caller.rpcs],
            "frontier": self._settings.frontier,
            "files": self._files.are_here,
        }

    # A crawl.

    async def live(self, request: Request) -> Response:
        """`GET …/live`: looks at a crawl and its events, as server-sent events, until the browser leaves."""
        crawl, token = await self._crawl_of(request)
        if self.watches.is_full:
            raise Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "too many crawls are being watched here; close a page, or start another console",
                "CONSOLE_FULL",
            )
        return EventStream(self._looks(crawl, token))

    async def _looks(self, crawl: str, token: str) -> AsyncIterator[str]:
        news = self.watches.of(crawl, token).news()
        events = (event(data, kind=kind) async for kind, data in news)
        try:
            first = asyncio.ensure_future(anext(events))
            async for each in resumed(first, events, self._ending):
                yield each
        finally:
            await news.aclose()  # type: ignore[attr-defined]  # a generator
            self.watches.leave(crawl, token)

    async def failures(self, request: Request) -> Response:
        """`GET …/failures`: why URIs failed, by host, with examples."""
        watch = await self._watch_of(request)
        return JSONResponse(await in_thread(watch.failures.record))

    async def find(self, request: Request) -> Response:
        """`GET …/find?q=`: a URL or a host."""
        watch = await self._watch_of(request)
        text = request.query_params.get("q", "")
        return JSONResponse(await in_thread(lambda: finding.find(watch.crawl, text)))

    async def history(self, request: Request) -> Response:
        """`GET …/history?uri=`: the kept outcomes of a URI."""
        watch = await self._watch_of(request)
        uri = request.query_params.get("uri", "")
        return JSONResponse(await in_thread(lambda: finding.history(watch.crawl, uri)))

    async def settings(self, request: Request) -> Response:
        """`GET …/settings`: all settings; `POST` with name and text changes one."""
        if request.method == "GET":
            watch = await self._watch_of(request)
            return JSONResponse(await in_thread(lambda: settings_page.record(watch.crawl, watch.acts)))
        said = await _object_of(request)
        watch = await self._watch_of(request)
        name, text = str(said.get("name", "")), str(said.get("text", ""))
        changed = await in_thread(lambda: settings_page.change(watch.crawl, name, text))
        return JSONResponse({"changes": changed})

    async def queues(self, request: Request) -> Response:
        """`GET …/queues?state=&page_token=`: a page of queues."""
        word = request.query_params.get("state", "") or "UNSPECIFIED"
        try:
            state = enum_number(QueueState.DESCRIPTOR, word)
        except ValueError as problem:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(problem), "INVALID_REQUEST") from None
        crawl, token = await self._crawl_of(request)
        answer = await self._asked(
            token,
            "ListQueues",
            ListQueuesRequest(
                crawl=crawl,
                state=state,  # type: ignore[arg-type]  # one of its values
                page_size=PAGE_SIZE,
                page_token=request.query_params.get("page_token", ""),
            ),
        )
        rows = [shown.queue(queue) for queue in answer.queues]
        return JSONResponse({"queues": rows, "next_page_token": answer.next_page_token})

    async def seeds(self, request: Request) -> Response:
        """`GET …/seeds?page_token=`: a page of seeds, as they were added."""
        crawl, token = await self._crawl_of(request)
        answer = await self._asked(
            token,
            "ListSeeds",
            ListSeedsRequest(
                crawl=crawl, page_size=PAGE_SIZE, page_token=request.query_params.get("page_token", "")
            ),
        )
        rows = [shown.seed(seed) for seed in answer.seeds]
        return JSONResponse({"seeds": rows, "next_page_token": answer.next_page_token})

    async def files(self, request: Request) -> Response:
        """`GET …/files`: the crawl's files that are on the console's machine."""
        crawl, token = await self._crawl_of(request)
        await self._check_crawl(token, crawl)
        files = await asyncio.to_thread(self._files.of, crawl)
        rows = [
            {"folder": file.folder, "name": file.name, "size": file.size, "changed": file.changed_s}
            for file in files
        ]
        return JSONResponse({"files": rows, "are_here": self._files.are_here})

    async def file(self, request: Request) -> Response:
        """`GET …/files/{folder}/{name}`: one of them."""
        crawl, token = await self._crawl_of(request)
        await self._check_crawl(token, crawl)
        folder, name = request.path_params["folder"], request.path_params["name"]
        found = await asyncio.to_thread(self._files.named, crawl, folder, name)
        if found is None:
            raise Refusal(
                grpc.StatusCode.NOT_FOUND, f"crawl {crawl!r} has no file {name[:200]!r} here", "UNKNOWN_FILE"
            )
        # Always as a download: a page in it must not run as one of ours.
        return FileResponse(found.path, media_type="application/octet-stream", filename=found.name)

    # The frontier.

    async def nodes(self, request: Request) -> Response:
        """`GET /console/nodes`: all nodes, those that are missed first."""
        token = self._guard.token_of(request)
        await self._rpcs.check_token(token)
        answer = await self._asked(token, "GetFrontier", GetFrontierRequest())
        return JSONResponse(shown.all_nodes(answer))

    async def _crawl_of(self, request: Request) -> tuple[str, str]:
        """The crawl of a request, and the token in whose name it is."""
        token = self._guard.token_of(request)
        await self._rpcs.check_token(token)
        return request.path_params["crawl"], token

    async def _watch_of(self, request: Request) -> Watch:
        crawl, token = await self._crawl_of(request)
        return self.watches.of(crawl, token)

    async def _check_crawl(self, token: str, crawl: str) -> None:
        """Raise Refusal unless the caller may look at the crawl, and there is one."""
        await self._asked(token, "GetCrawl", GetCrawlRequest(crawl=crawl))

    async def _asked(self, token: str, name: str, message: Any) -> Any:
        async with self._doors.to_frontier(token) as door:
            return await ask(door, Asked(METHODS[f"{_ADMIN}/{name}"], message))


async def in_thread(work: Callable[[], _T]) -> _T:
    """What blocking work returns. Raises Refusal for the client's errors."""
    try:
        return await asyncio.to_thread(work)
    except InvalidArgument as problem:
        raise Refusal(
            grpc.StatusCode.INVALID_ARGUMENT, str(problem), problem.reason or "INVALID_REQUEST"
        ) from None
    except ToeholdError as problem:
        raise refusal_of_client(problem) from None


async def _object_of(request: Request) -> dict[str, Any]:
    """The JSON object in a body. Raises Refusal."""
    try:
        said = json.loads(await body_of(request) or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "the body must be a JSON object", "INVALID_JSON")
    return said
