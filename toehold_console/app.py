"""The console's routes, and what every answer has in common: the guard before it, and headers that keep a
page from doing anything that ours does not do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import openapi
from .contract import Refusal
from .crawl_files import CrawlFiles
from .door import Doors
from .guard import Guard
from .logins import Logins
from .rpcs import Rpcs
from .sessions import Sessions
from .settings import Settings
from .views import PageAnswers

CALLS_S = 2.0
"""For so long calls under way may still be answered when the console ends."""

HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


class Guarded:
    """Middleware: lets requests of our own pages and of scripts in, and gives answers their headers."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        static = scope["path"].startswith("/static/")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                caching = b"no-cache" if static else b"no-store"
                message["headers"] = [*message["headers"], *HEADERS, (b"cache-control", caching)]
            await send(message)

        try:
            self._guard.check_place(Request(scope))
        except Refusal as refusal:
            await _refused(Request(scope), refusal)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def console(settings: Settings, ending: asyncio.Event) -> Starlette:
    """The application. Streams end when `ending` is set. InvalidArgument for a key that cannot be used."""
    sessions = Sessions(settings.session_key)
    guard = Guard(sessions, (settings.listen.host, *settings.host_names), settings.serves_https)
    doors = Doors(settings.frontier, settings.credentials)
    rpcs = Rpcs(settings, guard, doors, ending)
    files = Path(str(resources.files(__package__)))

    @contextlib.asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        closing = asyncio.create_task(_closed(views, doors, ending))
        yield
        ending.set()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await views.close()
        await doors.close()

    handlers: Any = {  # each takes its own kind of error
        Refusal: _refused,
        HTTPException: _without_route,
        ClientDisconnect: _unheard,
        Exception: _failed,
    }
    crawl_files = CrawlFiles(settings)
    logins = Logins(settings, sessions, guard, rpcs, crawl_files)
    views = PageAnswers(settings, guard, doors, rpcs, crawl_files, ending)
    crawl = "/console/crawls/{crawl}"
    return Starlette(
        routes=[
            Route("/", _file(files / "static" / "index.html")),
            Route("/healthz", _healthy),
            Route("/v1/openapi.json", _openapi),
            Route("/v1/{service}/{method}", rpcs.call, methods=["GET", "POST"]),
            Route("/console/session", logins.session),
            Route("/console/session", logins.log_in, methods=["POST"]),
            Route("/console/session", logins.log_out, methods=["DELETE"]),
            Route("/console/nodes", views.nodes),
            Route(f"{crawl}/live", views.live),
            Route(f"{crawl}/failures", views.failures),
            Route(f"{crawl}/find", views.find),
            Route(f"{crawl}/history", views.history),
            Route(f"{crawl}/settings", views.settings, methods=["GET", "POST"]),
            Route(f"{crawl}/queues", views.queues),
            Route(f"{crawl}/seeds", views.seeds),
            Route(f"{crawl}/files", views.files),
            Route(f"{crawl}/files/{{folder}}/{{name}}", views.file),
            Mount("/static", StaticFiles(directory=files / "static")),
        ],
        middleware=[Middleware(Guarded, guard=guard)],
        exception_handlers=handlers,
        lifespan=life,
    )


async def _closed(views: PageAnswers, doors: Doors, ending: asyncio.Event) -> None:
    """Ends questions as soon as the console is to end, and calls soon after: it waits for their answers."""
    await ending.wait()
    await views.close()
    await asyncio.sleep(CALLS_S)
    await doors.close()


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return FileResponse(path)

    return answer


async def _openapi(_: Request) -> Response:
    return Response(openapi.text(), media_type="application/json")


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def _refused(_: Request, refusal: Refusal) -> Response:
    return JSONResponse(refusal.body(), refusal.http_status, refusal.headers())


def _without_route(request: Request, problem: HTTPException) -> Response:
    """The answer for a path that leads nowhere, or a method that it does not take."""
    unknown = problem.status_code == 404
    refusal = Refusal(
        grpc.StatusCode.NOT_FOUND if unknown else grpc.StatusCode.UNIMPLEMENTED,
        f"there is nothing at {request.url.path[:200]!r}"
        if unknown
        else f"use another method: {problem.detail}",
        "UNKNOWN_PATH" if unknown else "WRONG_METHOD",
        http_status=problem.status_code,
    )
    return JSONResponse(refusal.body(), refusal.http_status, {**refusal.headers(), **(problem.headers or {})})


def _unheard(_: Request, __: ClientDisconnect) -> Response:
    """The answer to a client that has left before the end of its request."""
    return Response(status_code=499)


def _failed(_: Request, error: Exception) -> Response:
    """The answer after a defect. Starlette raises the error afterwards, so that the log has it."""
    body = {"code": 500, "message": "the console failed at this request; its log has the reason"}
    return JSONResponse({"error": {**body, "status": "INTERNAL", "details": []}}, 500)
