"""AsyncFrontierClient: `client.FrontierClient` for asyncio.

The same methods, arguments, answers and errors, awaited.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, cast

from google.protobuf.message import Message
from grpc import aio

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsRequest,
    AddSeedsResponse,
    Crawl,
    GetFrontierResponse,
    GetStatisticsResponse,
    WorkQueue,
)
from toehold.frontier.v1.admin_pb2_grpc import FrontierAdminServiceStub
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlStatus, QueueState, TargetState, Verdict
from toehold.frontier.v1.frontier_pb2 import (
    Candidate,
    HeartbeatResponse,
    NextResponse,
    Report,
    ReportResult,
    StateEventsRequest,
)
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub

from . import calls
from .calls import Attempt, Page, Procedure, Rest, SeedBatches, Stubs
from .channel import CHANNEL_OPTIONS, checked_address
from .client import RECONNECT_S, SEEDS_TIMEOUT_S
from .errors import ClientClosed, ToeholdError, from_rpc_error, unsendable
from .events import AsyncConnection, AsyncEventStream, Following, this_task_is_cancelled
from .retry import Patience

_T = TypeVar("_T")
_P = TypeVar("_P", bound=Page)
_Q = TypeVar("_Q", bound=Message)
_R = TypeVar("_R", bound=Message)


class AsyncFrontierClient:
    """A frontier, for asyncio programs.

    Belongs to the event loop that it is made in. Everything else is as FrontierClient says.
    """

    def __init__(self, address: str, *, timeout_s: float = 30.0, patience_s: float = 0.0) -> None:
        self.address = checked_address(address)
        self._timeout_s = timeout_s
        self._patience = Patience(patience_s)
        self._channel = aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stubs = Stubs(FrontierServiceStub(self._channel), FrontierAdminServiceStub(self._channel))
        self._streams: weakref.WeakSet[AsyncEventStream] = weakref.WeakSet()
        self._closed = False

    # what fetchers and feeders need

    async def schedule(self, crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        """See FrontierClient.schedule."""
        return await self._run(calls.schedule(crawl, candidates, self._patience))

    async def next(
        self,
        *,
        node: str,
        session: str,
        max_leases: int,
        wait_s: float = 0.0,
        crawl: str = "",
        known_fetch_policy_ids: Collection[str] = (),
    ) -> NextResponse:
        """See FrontierClient.next."""
        return await self._run(
            calls.next_leases(
                crawl=crawl,
                node=node,
                session=session,
                max_leases=max_leases,
                wait_s=wait_s,
                known_fetch_policy_ids=known_fetch_policy_ids,
                patience=self._patience,
            )
        )

    async def finished(self, reports: Sequence[Report], *, node: str, session: str) -> list[ReportResult]:
        """See FrontierClient.finished."""
        return await self._run(calls.finished(reports, node, session, self._patience))

    async def heartbeat(
        self,
        *,
        node: str,
        session: str,
        tokens: Collection[bytes],
        toe_steps: Mapping[str, int] | None = None,
    ) -> HeartbeatResponse:
        """See FrontierClient.heartbeat."""
        return await self._run(calls.heartbeat(node, session, tokens, toe_steps or {}, self._patience))

    async def request_state(self, crawl: str, target: TargetState.ValueType) -> CrawlStatus:
        """See FrontierClient.request_state."""
        return await self._run(calls.request_state(crawl, target, self._patience))

    def state_events(
        self,
        crawl: str,
        cursor: str = "",
        *,
        timeout_s: float | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> AsyncEventStream:
        """See FrontierClient.state_events. Not awaited itself: iterate over it with `async for`."""
        following = Following(
            crawl,
            cursor,
            address=self.address,
            timeout_s=timeout_s,
            first=self._patience,
            later=Patience(reconnect_s),
        )
        stream = AsyncEventStream(following, self._connect)
        self._streams.add(stream)
        return stream

    # what operators and controllers need

    async def create_crawl(self, crawl: str, spec: CrawlSpec) -> Crawl:
        """See FrontierClient.create_crawl."""
        return await self._run(calls.create_crawl(crawl, spec, self._patience))

    async def add_seeds(
        self, crawl: str, uris: Iterable[str], *, timeout_s: float = SEEDS_TIMEOUT_S
    ) -> AddSeedsResponse:
        """See FrontierClient.add_seeds.

        The seeds are read in the event loop, so reading them must not block for long.
        """
        await self.get_crawl(crawl)
        batches = SeedBatches(crawl, uris)
        try:
            answer = await cast(
                aio.StreamUnaryCall[AddSeedsRequest, AddSeedsResponse],
                self._stubs.admin.AddSeeds(iter(batches), timeout=timeout_s),
            )
        except aio.AioRpcError as error:
            batches.raise_failure()
            raise from_rpc_error(error, address=self.address, timeout_s=timeout_s) from None
        batches.raise_failure()
        return answer

    async def launch_crawl(self, crawl: str) -> CrawlStatus:
        """See FrontierClient.launch_crawl."""
        return await self._run(calls.launch_crawl(crawl, self._patience))

    async def get_crawl(self, crawl: str) -> Crawl:
        """See FrontierClient.get_crawl."""
        return await self._run(calls.get_crawl(crawl, self._patience))

    async def list_crawls(self) -> AsyncIterator[Crawl]:
        """See FrontierClient.list_crawls."""
        async for page in self._pages(lambda token: calls.crawls_page(token, self._patience)):
            for crawl in page.crawls:
                yield crawl

    async def delete_crawl(self, crawl: str) -> None:
        """See FrontierClient.delete_crawl."""
        await self._run(calls.delete_crawl(crawl, self._patience))

    async def get_statistics(self, crawl: str) -> GetStatisticsResponse:
        """See FrontierClient.get_statistics."""
        return await self._run(calls.get_statistics(crawl, self._patience))

    async def list_queues(
        self, crawl: str, state: QueueState.ValueType = QueueState.QUEUE_STATE_UNSPECIFIED
    ) -> AsyncIterator[WorkQueue]:
        """See FrontierClient.list_queues."""
        async for page in self._pages(lambda token: calls.queues_page(crawl, state, token, self._patience)):
            for queue in page.queues:
                yield queue

    async def get_frontier(self) -> GetFrontierResponse:
        """See FrontierClient.get_frontier."""
        return await self._run(calls.get_frontier(self._patience))

    async def close(self) -> None:
        """See FrontierClient.close."""
        self._closed = True
        for stream in list(self._streams):
            await stream.close()
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _connect(self, request: StateEventsRequest, timeout_s: float) -> AsyncConnection:
        if self._closed:
            raise self._closed_error()
        return cast(AsyncConnection, self._stubs.frontier.StateEvents(request, timeout=timeout_s))

    def _closed_error(self) -> ClientClosed:
        return ClientClosed(f"the client of the frontier at {self.address} has been closed")

    async def _run(self, procedure: Procedure[_T]) -> _T:
        try:
            step = next(procedure)
            while True:
                if isinstance(step, Rest):
                    await asyncio.sleep(step.seconds)
                    step = next(procedure)
                else:
                    answer = await self._attempt(step)
                    step = (
                        procedure.throw(answer)
                        if isinstance(answer, ToeholdError)
                        else procedure.send(answer)
                    )
        except StopIteration as end:
            return cast(_T, end.value)
        except UnicodeEncodeError as error:
            unsendable(error)

    async def _attempt(self, attempt: Attempt[_Q, _R]) -> _R | ToeholdError:
        timeout_s = self._timeout_s + attempt.wait_s
        call = cast(aio.UnaryUnaryMultiCallable[_Q, _R], attempt.pick(self._stubs))
        try:
            return await call(attempt.request, timeout=timeout_s)
        except aio.AioRpcError as error:
            failure = from_rpc_error(error, address=self.address, timeout_s=timeout_s)
            return self._closed_error() if self._closed else failure
        except (aio.UsageError, asyncio.CancelledError):  # what gRPC raises on a closed channel
            if not self._closed or this_task_is_cancelled():
                raise
            return self._closed_error()

    async def _pages(self, page: Callable[[str], Procedure[_P]]) -> AsyncIterator[_P]:
        token = ""
        while True:
            answer = await self._run(page(token))
            yield answer
            token = answer.next_page_token
            if not token:
                return
