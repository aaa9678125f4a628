"""The routes of the page: sessions, live looks, and what it asks for when somebody opens a part of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

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
from .growing_file import GrowingFile
from .guard import Guard, check_csrf, unauthenticated
from .rpcs import EVENT_STREAM, EventStream, Rpcs, ask, body_of, event, refusal_of_client, resumed
from .sessions import SESSION_S, Sessions
from .settings import Settings
from .watching import Watch, Watches

PAGE_SIZE = 100
MOST_BYTES = 1024 * 1024
"""A login or a setting has at most so many."""
MOST_QUESTIONS = 16
"""So many are answered at once of those that take a thread."""
_T = TypeVar("_T")
_ADMIN = "FrontierAdminService"
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_OF_THE_CRAWL = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED)
"""Refusals that a page shows instead of a crawl. It asks again, as the crawl may be there later."""


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
        self._watches = Watches(settings.frontier, doors.credentials_of)
        # Not asyncio's own threads: those end watches, also while the frontier answers none of these.
        self._questions = ThreadPoolExecutor(MOST_QUESTIONS, "question")

    async def close(self) -> None:
        """Ends watches, and so questions too."""
        await self._watches.close()
        self._questions.shutdown(wait=False)

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
        token = (await _texts_of(request)).get("token", "").strip()
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
            secure=self._settings.serves_https,
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
        try:
            await self._check_watchable(crawl, token)
        except Refusal as refusal:
            if refusal.code not in _OF_THE_CRAWL:
                raise
            told = json.dumps({"error": str(refusal), "reason": refusal.reason})
            return EventStream(_only(event(told, kind="refused")))
        if request.method == "HEAD":
            return Response(media_type=EVENT_STREAM)
        self._watches.check_room(crawl, token)
        return EventStream(self._looks(crawl, token))

    async def _looks(self, crawl: str, token: str) -> AsyncIterator[str]:
        with self._watches.used(crawl, token) as watch:
            news = watch.news()
            events = (event(data, kind=kind) async for kind, data in news)
            try:
                first = asyncio.ensure_future(anext(events))
                async for each in resumed(first, events, self._ending):
                    yield each
            finally:
                await news.aclose()  # type: ignore[attr-defined]  # a generator

    async def failures(self, request: Request) -> Response:
        """`GET …/failures`: why URIs failed, by host, with examples."""
        async with self._watch_of(request) as watch:
            return JSONResponse(await self._in_thread(watch.failures.record))

    async def find(self, request: Request) -> Response:
        """`GET …/find?q=`: a URL or a host."""
        text = request.query_params.get("q", "")
        async with self._watch_of(request) as watch:
            return JSONResponse(await self._in_thread(lambda: finding.find(watch.crawl, text)))

    async def history(self, request: Request) -> Response:
        """`GET …/history?uri=`: the kept outcomes of a URI."""
        uri = request.query_params.get("uri", "")
        async with self._watch_of(request) as watch:
            return JSONResponse(await self._in_thread(lambda: finding.history(watch.crawl, uri)))

    async def settings(self, request: Request) -> Response:
        """`GET …/settings`: all settings; `POST` with name and text changes one."""
        if request.method == "GET":
            async with self._watch_of(request) as watch:
                return JSONResponse(
                    await self._in_thread(lambda: settings_page.record(watch.crawl, watch.acts))
                )
        said = await _texts_of(request)
        name, text = said.get("name", ""), said.get("text", "")
        async with self._watch_of(request) as watch:
            changed = await self._in_thread(lambda: settings_page.change(watch.crawl, name, text))
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
        return GrowingFile(found.path, media_type="application/octet-stream", filename=found.name)

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

    @asynccontextmanager
    async def _watch_of(self, request: Request) -> AsyncIterator[Watch]:
        crawl, token = await self._crawl_of(request)
        await self._check_watchable(crawl, token)
        with self._watches.used(crawl, token) as watch:
            yield watch

    async def _check_watchable(self, crawl: str, token: str) -> None:
        """Raise Refusal for whoever may not look at the crawl: a watch takes a thread."""
        if self._watches.has(crawl, token):
            return
        try:
            await self._check_crawl(token, crawl)
        except Refusal as refusal:
            if refusal.code not in _AWAY:
                raise

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """What blocking work returns. Raises Refusal for the client's errors."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._questions, work)
        except InvalidArgument as problem:
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT, str(problem), problem.reason or "INVALID_REQUEST"
            ) from None
        except ToeholdError as problem:
            raise refusal_of_client(problem) from None

    async def _check_crawl(self, token: str, crawl: str) -> None:
        """Raise Refusal unless the caller may look at the crawl, and there is one."""
        await self._asked(token, "GetCrawl", GetCrawlRequest(crawl=crawl))

    async def _asked(self, token: str, name: str, message: Any) -> Any:
        async with self._doors.to_frontier(token) as door:
            return await ask(door, Asked(METHODS[f"{_ADMIN}/{name}"], message))


async def _only(event: str) -> AsyncIterator[str]:
    yield event


async def _texts_of(request: Request) -> dict[str, str]:
    """The texts in a body, by their names. Raises Refusal."""
    try:
        said = json.loads(await body_of(request, MOST_BYTES) or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not (isinstance(said, dict) and all(map(_is_text, said.values()))):
        raise Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            "the body must be a JSON object of Unicode texts",
            "INVALID_JSON",
        )
    return said


def _is_text(value: object) -> bool:
    """Whether a JSON value is a text, and that without half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)
