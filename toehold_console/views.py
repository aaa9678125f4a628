"""The routes of the page: live looks, and what it asks for when somebody opens a part of it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_client.errors import InvalidArgument, ToeholdError
from toehold_client.spec.plain import enum_number

from . import search, settings_page, shown
from .bodies import texts_of
from .contract import METHODS, JsonCall, Refusal
from .crawl_files import CrawlFiles
from .door import Doors
from .event_stream import EVENT_STREAM, EventStream, event, resumed
from .growing_file import GrowingFile
from .guard import Guard
from .rpcs import Rpcs, ask, refusal_of_client
from .settings import Settings
from .watches import Watch, Watches

PAGE_SIZE = 100
MOST_QUESTIONS = 16
"""So many are answered at once of those that take a thread."""
_T = TypeVar("_T")
_ADMIN = "FrontierAdminService"
_AWAY = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,  # it says what it waits for
)
_OF_THE_CRAWL = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED)
"""Refusals that a page shows instead of a crawl. It asks again, as the crawl may be there later."""


class PageAnswers:
    """Answers the page."""

    def __init__(
        self,
        settings: Settings,
        guard: Guard,
        doors: Doors,
        rpcs: Rpcs,
        files: CrawlFiles,
        ending: asyncio.Event,
    ) -> None:
        self._guard = guard
        self._doors = doors
        self._rpcs = rpcs
        self._ending = ending
        self._files = files
        self._watches = Watches(settings.frontier, doors.credentials_of)
        # Not asyncio's own threads: those end watches, also while the frontier answers none of these.
        self._questions = ThreadPoolExecutor(MOST_QUESTIONS, "question")

    async def close(self) -> None:
        """Ends watches, and so questions too."""
        await self._watches.close()
        self._questions.shutdown(wait=False)

    # A crawl.

    async def live(self, request: Request) -> Response:
        """`GET …/live`: looks at a crawl and its events, as server-sent events, until the browser leaves."""
        crawl, token = await self._crawl_of(request)
        try:
            await self._check_watchable(crawl, token)
        except Refusal as refusal:
            if refusal.code not in _OF_THE_CRAWL:
                raise
            data = json.dumps({"error": str(refusal), "reason": refusal.reason})
            return EventStream(_only(event(data, kind="refused")))
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
                await news.aclose()

    async def failures(self, request: Request) -> Response:
        """`GET …/failures`: why URIs failed, by host, with examples."""
        async with self._watch_of(request) as watch:
            return JSONResponse(await self._in_thread(watch.failures.record))

    async def find(self, request: Request) -> Response:
        """`GET …/find?q=`: a URL or a host."""
        text = request.query_params.get("q", "")
        async with self._watch_of(request) as watch:
            return JSONResponse(await self._in_thread(lambda: search.find(watch.crawl, text)))

    async def history(self, request: Request) -> Response:
        """`GET …/history?uri=`: the kept outcomes of a URI."""
        uri = request.query_params.get("uri", "")
        async with self._watch_of(request) as watch:
            return JSONResponse(await self._in_thread(lambda: search.history(watch.crawl, uri)))

    async def settings(self, request: Request) -> Response:
        """`GET …/settings`: all settings; `POST` with name and text changes one."""
        if request.method == "GET":
            async with self._watch_of(request) as watch:
                return JSONResponse(
                    await self._in_thread(lambda: settings_page.record(watch.crawl, watch.acts))
                )
        await self._rpcs.check_token(self._guard.token_of(request))  # a body takes memory
        texts = await texts_of(request)
        name, text = texts.get("name", ""), texts.get("text", "")
        async with self._watch_of(request) as watch:
            changed = await self._in_thread(lambda: settings_page.change(watch.crawl, name, text))
        return JSONResponse({"changes": changed})

    async def queues(self, request: Request) -> Response:
        """`GET …/queues?state=&page_token=`: a page of queues."""
        word = request.query_params.get("state", "") or "UNSPECIFIED"
        try:
            state = enum_number(crawl_pb2.QueueState.DESCRIPTOR, word)
        except ValueError as problem:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(problem), "INVALID_REQUEST") from None
        crawl, token = await self._crawl_of(request)
        answer = await self._asked(
            token,
            "ListQueues",
            admin_pb2.ListQueuesRequest(
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
            admin_pb2.ListSeedsRequest(
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
        answer = await self._asked(token, "GetFrontier", admin_pb2.GetFrontierRequest())
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
        """The result of blocking work. Raises Refusal for the client's errors."""
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
        await self._asked(token, "GetCrawl", admin_pb2.GetCrawlRequest(crawl=crawl))

    async def _asked(self, token: str, name: str, message: Any) -> Any:
        async with self._doors.to_frontier(token) as door:
            return await ask(door, JsonCall(METHODS[f"{_ADMIN}/{name}"], message))


async def _only(event: str) -> AsyncIterator[str]:
    yield event
