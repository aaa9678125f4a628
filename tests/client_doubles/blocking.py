"""The client and the controller for asyncio, behind the methods of the blocking ones.

So one test promises the same of both.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Protocol, Self, TypeVar

import pytest
from frontier_harness.waiting import PATIENCE_S

from toehold_client import (
    AsyncCrawlController,
    AsyncFrontierClient,
    AsyncNodeClient,
    CrawlController,
    FrontierClient,
)
from toehold_client.aio.listener import AsyncListener
from toehold_client.aio.streams import AsyncStream

_C = TypeVar("_C")


class Connect(Protocol):
    """Makes a client, sync or async; it is closed after the test."""

    def __call__(self, address: str, **settings: Any) -> Any: ...


class BlockingStream:
    """An AsyncStream, read from another thread."""

    def __init__(self, stream: AsyncStream[Any, Any], run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._stream = stream
        self._run = run

    @property
    def cursor(self) -> str:
        return self._stream.cursor

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        done = object()
        message = self._run(_next_or(self._stream, done))
        if message is done:
            raise StopIteration
        return message

    def close(self) -> None:
        self._run(self._stream.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Blocking:
    """An object for asyncio, whose methods another thread calls; so are what they return."""

    def __init__(self, inner: Any, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.inner = inner
        self._run = run

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **named: Any) -> Any:
            return self._result(attribute, arguments, named)

        return call

    def __enter__(self) -> Self:
        self._run(self.inner.__aenter__())
        return self

    def __exit__(self, *raised: object) -> None:
        self._run(self.inner.__aexit__(*raised))

    def _result(self, method: Callable[..., Any], arguments: Any, named: Any) -> Any:
        async def started() -> Any:
            result = method(*arguments, **named)
            return await result if asyncio.iscoroutine(result) else result

        result = self._run(started())
        if isinstance(result, AsyncStream):
            return BlockingStream(result, self._run)
        if isinstance(result, AsyncListener | AsyncCrawlController):
            return Blocking(result, self._run)
        return self._read(result) if isinstance(result, AsyncIterator) else result

    def _read(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        done = object()
        while (item := self._run(_next_or(items, done))) is not done:
            yield item


class BlockingAsyncClient(Blocking):
    """An AsyncFrontierClient on a loop in a thread of its own."""

    kind: type[AsyncFrontierClient | AsyncNodeClient] = AsyncFrontierClient

    def __init__(self, address: str, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="async-client")
        self._thread.start()
        try:
            super().__init__(self._on_loop(_made(self.kind, address, settings)), self._on_loop)
        except BaseException:
            self._end_loop()
            raise

    def controller(self, crawl: str) -> Blocking:
        """An AsyncCrawlController of it."""
        return Blocking(AsyncCrawlController(self.inner, crawl), self._on_loop)

    def __exit__(self, *_: object) -> None:
        self.close()
        self._end_loop()

    def _on_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


class BlockingAsyncNode(BlockingAsyncClient):
    """An AsyncNodeClient on a loop in a thread of its own."""

    kind = AsyncNodeClient


of_both_clients = pytest.mark.parametrize(
    "connect", [FrontierClient, BlockingAsyncClient], ids=["sync", "async"], indirect=True
)
"""Calls, streams and listeners: of these each client has its own way."""


def controller_of(client: Any, crawl: str) -> Any:
    """The controller of a crawl that goes with a client, sync or async."""
    if isinstance(client, BlockingAsyncClient):
        return client.controller(crawl)
    return CrawlController(client, crawl)


async def _made(kind: Callable[..., _C], address: str, settings: dict[str, Any]) -> _C:
    return kind(address, **settings)


async def _next_or(items: AsyncIterator[Any], done: object) -> Any:
    async for item in items:
        return item
    return done
