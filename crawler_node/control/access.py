"""Access to a node: its TLS, its callers, and the token that a supervisor shares with its processes."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hmac import compare_digest
from typing import Any, TypeAlias

import grpc
import structlog

from toehold_base.access.callers import Caller, Callers
from toehold_base.access.callers_file import CallersInvalid
from toehold_base.access.denials import AccessDenied, DenialRate, Unauthenticated
from toehold_base.access.server_tls import ServerTls
from toehold_base.access.shown import Shown, shown_by
from toehold_base.access.tokens import token_in

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

log = structlog.get_logger()


class CallerLimit(Exception):
    """A caller has as many calls open as it may."""

    reason = "CALLER_LIMIT"
    retry_ms = 1_000


class Access:
    """Lets calls in. Without callers and without a token, everybody may do everything."""

    def __init__(self, tls: ServerTls | None = None, callers: Callers | None = None, token: str = "") -> None:
        self._tls = tls
        self._callers = callers
        self._token = token
        self._rate = DenialRate()
        self._open: Counter[str] = Counter()  # calls by caller

    def add_port(self, server: grpc.aio.Server, address: str) -> int:
        """Lets a server listen on an address; the port. Raises RuntimeError if it cannot."""
        if self._tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, self._tls.credentials())

    @contextmanager
    def entered(self, method: str, context: Context) -> Iterator[None]:
        """Within it a call of an RPC, by its full name, is served. Raises AccessDenied for one that its
        caller may not make, and CallerLimit if it has too many open."""
        shown = shown_by(context.invocation_metadata(), context.auth_context())
        if self._token and not compare_digest(token_in(shown.authorization).encode(), self._token.encode()):
            raise Unauthenticated("TOKEN_UNKNOWN", "only its supervisor may ask a process of a node")
        if self._callers is None:
            yield
            return
        try:
            caller = self._identified(self._callers, shown)
            caller.check_role(method)
            caller.check_crawls(method, ())  # a node's toe threads fetch for any crawl
        except AccessDenied as denial:
            self._tell(denial, context.peer())
            raise
        name = caller.name
        if caller.max_calls is not None and self._open[name] >= caller.max_calls:
            raise CallerLimit(f"caller {name!r} may have {caller.max_calls} calls open at once; try later")
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    def _tell(self, denial: AccessDenied, peer: str) -> None:
        left_out = self._rate.take(time.monotonic())
        if left_out is not None:
            log.warning(
                "call_denied", reason=denial.reason, problem=str(denial), peer=peer, left_out=left_out
            )

    def _identified(self, callers: Callers, shown: Shown) -> Caller:
        try:
            if callers.reload_if_changed():
                log.info("callers_reloaded", callers=len(callers))
        except CallersInvalid as problem:
            log.error("callers_unusable", problem=str(problem), advice="the callers stay as they were")
        return callers.identified(shown, datetime.now(UTC))
