"""The frontier behind the gateway: any call of its contract, tried again for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import grpc

from toehold_client.aio.calls import AsyncCalls
from toehold_client.errors import ShardAway
from toehold_client.rpc.contract import Listing, Page, Stubs

_PAGE_SIZE = 1000

PATIENCE_S = 10.0
"""How long a call is tried again while the frontier is away, or refuses it for now."""

LONG_TIMEOUT_S = 3600.0
"""The deadline of a call that looks at every URL of a crawl."""

_Q = TypeVar("_Q")
_R = TypeVar("_R")
_L = TypeVar("_L", bound=Listing)
_P = TypeVar("_P", bound=Page)


class AbsentShard(Exception):
    """A shard that a call needs is away."""


class FrontierCalls(AsyncCalls):
    """Calls with the contract's own messages. Errors are those of toehold_client."""

    async def ask(
        self,
        pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]],
        request: _Q,
        *,
        more_s: float = 0.0,
        safe_to_repeat: bool = True,
    ) -> _R:
        """Makes one call, again and again while there is patience; its answer."""
        return await self._call(pick, lambda: request, wait_s=more_s, safe_to_repeat=safe_to_repeat)

    async def ask_of_present(
        self, pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]], request: _Q
    ) -> _R:
        """The same, but an absence of a shard is not waited out. Raises AbsentShard."""

        async def attempt() -> _R:
            try:
                return await self._attempt(pick, request)
            except ShardAway as absence:
                raise AbsentShard from absence

        return await self._persist(attempt)

    async def pages(
        self, pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_L, _P]], request: _L
    ) -> AsyncIterator[_P]:
        """The pages of a listing, as large as they may be."""
        request.page_size = _PAGE_SIZE
        while True:
            page = await self.ask(pick, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
