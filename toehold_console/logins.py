"""The routes of logins: who a user is, a session's beginning and its end."""

from typing import Any

import grpc
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from toehold.frontier.v1.admin_pb2 import GetCallerResponse
from toehold_base.access.tokens import can_be_sent

from .bodies import texts_of
from .contract import Refusal
from .crawl_files import CrawlFiles
from .guard import Guard, check_csrf, unauthenticated
from .rpcs import Rpcs
from .sessions import SESSION_S, Sessions
from .settings import Settings


class Logins:
    """Answers requests about sessions."""

    def __init__(
        self, settings: Settings, sessions: Sessions, guard: Guard, rpcs: Rpcs, files: CrawlFiles
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._guard = guard
        self._rpcs = rpcs
        self._files = files

    async def session(self, request: Request) -> Response:
        """`GET /console/session`: who the user is, or that a login is needed."""
        session = self._guard.session_of(request)
        try:
            caller = await self._rpcs.caller(self._guard.token_of(request))
        except Refusal as refusal:
            if refusal.code is not grpc.StatusCode.UNAUTHENTICATED:
                raise
            answer = {"login": True, "problem": str(refusal) if session is not None else ""}
            return JSONResponse({**answer, "frontier": self._settings.frontier})
        csrf = session.csrf if session is not None else ""
        return JSONResponse({"login": False, "csrf": csrf, **self._user(caller)})

    async def log_in(self, request: Request) -> Response:
        """`POST /console/session` with `{"token": …}`: begins a session."""
        token = (await texts_of(request)).get("token", "").strip()
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
