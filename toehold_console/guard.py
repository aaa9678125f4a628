"""The guard: which requests come from a page of ours, or from no page at all, and in whose name they are.

A browser sends what other sites' pages tell it to send. So a request counts only if

* its Host is an address, or a name of this console: another site's name may lead here, too (DNS rebinding).
  With HTTPS the browser has compared the name with the certificate, so any will do;
* its Origin, if it has one, is this console's, scheme included;
* a change that the session's cookie is to authorise repeats the secret that only our page can read.

A token in the header Authorization, which scripts send, goes before the cookie.
"""

import hmac
import ipaddress
import re
import socket
from collections.abc import Collection

import grpc
from starlette.requests import Request

from toehold_base.access.tokens import can_be_sent, token_in

from .contract import Refusal
from .sessions import Session, Sessions

CSRF_HEADER = "x-csrf-token"
_SAFE = ("GET", "HEAD")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5})?")


class Guard:
    """Lets requests in, and tells their tokens."""

    def __init__(self, sessions: Sessions, host_names: Collection[str], secure: bool) -> None:
        self._sessions = sessions
        self._names = {name.lower().rstrip(".") for name in ("localhost", socket.gethostname(), *host_names)}
        self._secure = secure
        self.cookie = f"__Host-{sessions.cookie}" if secure else sessions.cookie

    def check_place(self, request: Request) -> None:
        """Raise Refusal for a request that another site's page may have caused."""
        host = request.headers.get("host", "")
        if not (self._secure or self._is_ours(host)):
            raise _denied(
                f"the console is not known as {host[:200]!r}; use its address, or name it by "
                "--host-name (--console-hosts of toehold-frontier)",
                "HOST_UNKNOWN",
            )
        origin = request.headers.get("origin")
        if origin is not None and not self._is_our_page(origin, host):
            raise _denied(f"requests of pages of {origin[:200]!r} are refused", "ORIGIN_FOREIGN")
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _is_visit(request):
            raise _denied("requests of other sites' pages are refused", "ORIGIN_FOREIGN")

    def session_of(self, request: Request) -> Session | None:
        """The session of the cookie, if there is one."""
        return self._sessions.opened(request.cookies.get(self.cookie, ""))

    def token_of(self, request: Request) -> str:
        """The token in whose name a request is; empty without one. Raises Refusal."""
        header = request.headers.get("authorization")
        if header is not None:
            token = token_in(header)
            if not can_be_sent(token):
                raise unauthenticated("authorization must be `Bearer TOKEN`, got something else")
            return token
        session = self.session_of(request)
        if session is None:
            return ""
        if request.method not in _SAFE:
            check_csrf(request, session)
        return session.token

    def _is_our_page(self, origin: str, host: str) -> bool:
        """Whether an origin is this console's. Before a console without HTTPS a proxy may speak it."""
        scheme, _, place = origin.lower().partition("://")
        return place == host.lower() and (scheme == "https" or (scheme == "http" and not self._secure))

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].strip("[]").lower().rstrip(".")
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def check_csrf(request: Request, session: Session) -> None:
    """Raise Refusal unless a request has the session's secret."""
    if not hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), session.csrf.encode()):
        raise _denied(
            f"a change that a cookie authorises needs the header {CSRF_HEADER} with the session's secret",
            "CSRF_TOKEN_MISSING",
        )


def unauthenticated(message: str, reason: str = "CREDENTIALS_MISSING") -> Refusal:
    """The refusal of a caller whom nobody knows."""
    return Refusal(grpc.StatusCode.UNAUTHENTICATED, message, reason)


def _denied(message: str, reason: str) -> Refusal:
    return Refusal(grpc.StatusCode.PERMISSION_DENIED, message, reason)


def _is_visit(request: Request) -> bool:
    """Whether a user follows a link to a page of ours: that shows it, and nothing more."""
    return request.method in _SAFE and request.headers.get("sec-fetch-mode") == "navigate"
