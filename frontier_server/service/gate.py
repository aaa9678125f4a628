"""The gate of a server that knows its callers: who calls, what they may do, and how much of it.

A frontier without a file of callers has an open gate: everybody may do everything. The gate of a shard
believes the front, which alone reaches it, who calls, and leaves limits to the front.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import grpc
import structlog
from google.protobuf.message import Message

from toehold_base.access.callers import Caller, Callers
from toehold_base.access.callers_file import CallersInvalid
from toehold_base.access.denials import AccessDenied, DenialRate
from toehold_base.access.shown import Shown, named_by, shown_by

from ..shell.runner import TryLater
from .secrets import hide_secrets

Context = grpc.aio.ServicerContext[Any, Any]

RELOAD_S = 1.0
RECHECK_S = 10.0  # of calls that stay open: credentials may expire meanwhile
CALLS_RETRY_MS = 1_000
MIN_WAIT_S = 0.1

_log = structlog.get_logger()
_NODE_CALLS = ("Next", "Finished", "Heartbeat")
CRAWL_FIELDS = ("crawl", "checkpoint_crawl")
_ITEM_FIELDS = ("candidates", "uris", "entries")
# About leases, which are bound to a node, and about the caller itself.
_ANY_CRAWL = ("Finished", "Heartbeat", "GetCaller")


class OpenCall:
    """A call of somebody. Without a caller, everything is allowed."""

    def __init__(
        self, method: str = "", caller: Caller | None = None, budget: "Budget | None" = None
    ) -> None:
        self.method = method
        self.caller = caller
        self.denied: AccessDenied | None = None
        """Why the call ends, if its caller lost the right to it meanwhile."""
        self._budget = budget
        self._node: str | None = None  # in whose name it is
        self._crawls: list[str] | None = None  # that it is about; empty: all; None: not known yet

    def check(self, message: Message) -> None:
        """Raise PermissionDenied, or TryLater, for a request that the caller may not make (now)."""
        if self.caller is None:
            return
        self._note(message)
        self._check_rights(self.caller)
        wait_s = self._spend(message)
        if wait_s:
            raise TryLater(
                "CALLER_LIMIT",
                f"caller {self.caller.name!r} may send {self.caller.max_candidates_per_second} candidates a "
                f"second; try again in {wait_s:.1f} s",
                round(wait_s * 1000),
            )

    async def check_part(self, message: Message) -> None:
        """Raise PermissionDenied for a part of a stream that the caller may not send; wait if it is early."""
        if self.caller is None:
            return
        self._note(message)
        self._check_rights(self.caller)
        while wait_s := self._spend(message):  # noqa: ASYNC110  # time alone ends it
            await asyncio.sleep(wait_s)

    def go_on_as(self, caller: Caller) -> None:
        """Go on with what the caller may do now. Raises PermissionDenied."""
        caller.check_role(self.method)
        self._check_rights(caller)
        self.caller = caller

    def _check_rights(self, caller: Caller) -> None:
        if self._node is not None:
            caller.check_node(self._node)
        if self._crawls is not None:
            caller.check_crawls(self.method, self._crawls)

    def _note(self, message: Message) -> None:
        """Note the node and the crawls that a request names. Later parts of a stream need not name them."""
        fields: Mapping[str, Any] = message.DESCRIPTOR.fields_by_name
        name = self.method.rpartition("/")[2]
        if name in _NODE_CALLS:
            self._node = getattr(message, "node")  # noqa: B009  # only these have it
        if name not in _ANY_CRAWL:
            named = [getattr(message, field) for field in CRAWL_FIELDS if field in fields]
            known = self._crawls or []
            self._crawls = known + [crawl for crawl in named if crawl and crawl not in known]

    def _spend(self, message: Message) -> float:
        """Take a request's candidates from the caller's budget; or the seconds until it has one again."""
        if self._budget is None:
            return 0.0
        fields: Mapping[str, Any] = message.DESCRIPTOR.fields_by_name
        items = [len(getattr(message, field)) for field in _ITEM_FIELDS if field in fields]
        return self._budget.spend(sum(items)) if items else 0.0

    def shown(self, answer: Message | bytes) -> Message | bytes:
        """An answer as the caller may see it. One in bytes comes from a shard, which has seen to that."""
        if isinstance(answer, Message) and self.caller is not None and not self.caller.sees_secrets:
            hide_secrets(answer)
        return answer

    @property
    def is_bound(self) -> bool:
        """Whether the caller may act on some crawls only."""
        return self.caller is not None and self.caller.crawls is not None

    def acts_on(self, crawl: str) -> bool:
        """Whether the caller may act on a crawl."""
        return self.caller is None or self.caller.crawls is None or crawl in self.caller.crawls

    def speaks_for(self, node: str) -> bool:
        """Whether the caller may act in the name of a node."""
        return self.caller is None or self.caller.speaks_for(node)


class Budget:
    """A caller's candidates: so many a second, a second's worth at once."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._left = float(per_second)
        self._at_s = asyncio.get_running_loop().time()

    def spend(self, items: int) -> float:
        """Take from the budget, which may go below zero with a large batch. If it is below, take nothing; the
        seconds until it is not.
        """
        now_s = asyncio.get_running_loop().time()
        self._left = min(self._left + (now_s - self._at_s) * self._per_second, self._per_second)
        self._at_s = now_s
        if self._left <= 0:
            return -self._left / self._per_second + MIN_WAIT_S
        self._left -= items
        return 0.0


_ANYBODY = OpenCall()
_call: ContextVar[OpenCall] = ContextVar("call", default=_ANYBODY)


def present_call() -> OpenCall:
    """The call that is being answered."""
    return _call.get()


class Gate:
    """Lets calls in."""

    def __init__(self, callers: Callers | None, *, trusts_names: bool = False) -> None:
        """With `trusts_names`, calls show the names of their callers instead of credentials."""
        self._callers = callers
        self._trusts_names = trusts_names
        self._open: Counter[str] = Counter()  # calls by caller
        self._budgets: dict[str, tuple[int, Budget]] = {}
        self._denials = DenialRate()
        self._lasting: dict[OpenCall, tuple[asyncio.Task[Any], Shown]] = {}

    @contextmanager
    def entered(self, method: str, context: Context, lasting: bool) -> Iterator[OpenCall]:
        """An open call, by the RPC's full name. Raises AccessDenied, TryLater.

        A `lasting` call is broken off if its caller loses the right to it; then it is `denied`.
        """
        if self._callers is None:
            yield _ANYBODY
            return
        metadata = context.invocation_metadata()
        shown = named_by(metadata) if self._trusts_names else shown_by(metadata, context.auth_context())
        if shown is None:
            yield _ANYBODY
            return
        try:
            caller = self._identified(self._callers, shown, method)
        except AccessDenied as denial:
            self._note(denial, context)
            raise
        if self._trusts_names:
            caller = replace(caller, max_calls=None, max_candidates_per_second=None)
        if caller.max_calls is not None and self._open[caller.name] >= caller.max_calls:
            raise TryLater(
                "CALLER_LIMIT",
                f"caller {caller.name!r} may have {caller.max_calls} calls open at once; try later",
                CALLS_RETRY_MS,
            )
        structlog.contextvars.bind_contextvars(caller=caller.name)
        call = OpenCall(method, caller, self._budget(caller))
        self._open[caller.name] += 1
        _call.set(call)  # and never reset: each call has a task, and so a context, of its own
        if lasting and (task := asyncio.current_task()) is not None:
            self._lasting[call] = task, shown
        try:
            yield call
        except asyncio.CancelledError:
            if call.denied is None:
                raise
            self._lasting[call][0].uncancel()
            raise call.denied from None
        except AccessDenied as denial:
            self._note(denial, context)
            raise
        finally:
            self._lasting.pop(call, None)
            self._open[caller.name] -= 1
            if not self._open[caller.name]:
                del self._open[caller.name]

    def _identified(self, callers: Callers, shown: Shown, method: str) -> Caller:
        """Who calls. Raises AccessDenied."""

        def found() -> Caller:
            caller = callers.identified(shown, datetime.now(UTC))
            caller.check_role(method)
            return caller

        try:
            return found()
        except AccessDenied:
            if not self._trusts_names:
                raise
        # The front has let the call in: it has read a file that changed a moment ago.
        if self._has_read_again(callers):
            self._end_denied(callers)
        return found()

    def _note(self, denial: AccessDenied, context: Context) -> None:
        left_out = self._denials.take(asyncio.get_running_loop().time())
        if left_out is not None:
            _log.warning(
                "call_denied",
                reason=denial.reason,
                problem=str(denial),
                peer=context.peer(),
                left_out=left_out,
            )

    async def watch(self) -> None:
        """Read the callers anew when their file changes, and end calls whose callers have lost the right."""
        callers = self._callers
        assert callers is not None, "an open gate has nothing to watch"
        checked_s = 0.0
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(RELOAD_S)
            changed = await asyncio.to_thread(self._has_read_again, callers)
            if changed or loop.time() - checked_s >= RECHECK_S:
                checked_s = loop.time()
                self._end_denied(callers)

    def _has_read_again(self, callers: Callers) -> bool:
        """Read the callers anew if their file has changed; whether there are others now."""
        try:
            changed = callers.reload_if_changed()
        except CallersInvalid as problem:
            _log.error("callers_unusable", problem=str(problem), advice="the callers stay as they were")
            return False
        if changed:
            _log.info("callers_reloaded", callers=len(callers))
        return changed

    def _end_denied(self, callers: Callers) -> None:
        now = datetime.now(UTC)
        for call, (task, shown) in list(self._lasting.items()):
            try:
                call.go_on_as(callers.identified(shown, now))
            except AccessDenied as denial:
                call.denied = denial
                task.cancel()

    def _budget(self, caller: Caller) -> Budget | None:
        per_second = caller.max_candidates_per_second
        if per_second is None:
            return None
        known = self._budgets.get(caller.name)
        if known is None or known[0] != per_second:
            known = self._budgets[caller.name] = per_second, Budget(per_second)
        return known[1]
