"""How the clients for asyncio programs call: again while there is patience, and page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import grpc

from toehold.frontier.v1.admin_pb2 import GetCrawlRequest
from toehold.frontier.v1.crawl_pb2 import CrawlStatus
from toehold_client.errors import CrawlHeld, FrontierUnavailable, ToeholdError, sendable
from toehold_client.rpc.contract import PAGE_SIZE, Listing, Page, Stubs
from toehold_client.rpc.request_ids import request_id
from toehold_client.rpc.retry import Retries

from .driver import AsyncDriver

_Q = TypeVar("_Q")
_R = TypeVar("_R")
_L = TypeVar("_L", bound=Listing)
_P = TypeVar("_P", bound=Page)


class AsyncCalls(AsyncDriver):
    """Calls with the client's patience. Each gets a function that makes its request: that may fail, too."""

    async def _call(
        self,
        pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]],
        request: Callable[[], _Q],
        *,
        wait_s: float = 0.0,
        safe_to_repeat: bool = True,
    ) -> _R:
        """Makes one call, again and again while there is patience; its answer."""
        with sendable():
            message = request()
        return await self._persist(lambda: self._attempt(pick, message, wait_s), safe_to_repeat)

    async def _call_unless_done(
        self,
        pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]],
        request: Callable[[], _Q],
        done: Callable[[CrawlStatus], _R | None],
        crawl: str,
    ) -> _R:
        """Makes one call that must not be made again once it took effect.

        After a broken connection that is unknown. So the next try begins with the crawl's status; if that
        shows the effect, `done` makes the answer of it.
        """
        with sendable():
            message = request()
        lost = False

        async def unless_done() -> _R:
            nonlocal lost
            answer = done(await self._status(crawl)) if lost else None
            if answer is not None:
                return answer
            try:
                return await self._attempt(pick, message)
            except FrontierUnavailable:
                lost = True
                raise

        return await self._persist(unless_done)

    async def _released(self, crawl: str) -> None:
        """Waits, while there is patience, until the frontier is there, has the crawl, and does not hold it.

        For uploads, which can be sent only once.
        """

        async def unless_held() -> None:
            status = await self._status(crawl)
            if status.held:
                raise CrawlHeld(
                    f"crawl {crawl!r} is held; resume, pause or stop it first",
                    reason="CRAWL_HELD",
                )

        await self._persist(unless_held)

    async def _pages(
        self, pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_L, _P]], request: Callable[[], _L]
    ) -> AsyncIterator[_P]:
        with sendable():
            message = request()
        message.page_size = PAGE_SIZE
        while True:
            page = await self._persist(lambda: self._attempt(pick, message))
            yield page
            if not page.next_page_token:
                return
            message.page_token = page.next_page_token

    async def _persist(self, attempt: Callable[[], Awaitable[_R]], safe_to_repeat: bool = True) -> _R:
        retries = Retries(self._patience)
        with request_id():  # all tries carry the same
            while True:
                try:
                    return await attempt()
                except ToeholdError as error:
                    rest_s = retries.rest_s(error, safe_to_repeat=safe_to_repeat)
                    if rest_s is None:
                        raise
                await self._rest(rest_s)

    async def _status(self, crawl: str) -> CrawlStatus:
        with sendable():
            request = GetCrawlRequest(crawl=crawl)
        answer = await self._attempt(lambda stubs: stubs.admin.GetCrawl, request)
        return answer.crawl.status
