"""AsyncFrontierClient: `client.FrontierClient` for asyncio.

The same methods, arguments, answers and errors, awaited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    Checkpoint,
    Crawl,
    GetFrontierResponse,
    GetStatisticsResponse,
    TearDownCrawlResponse,
)
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlStatus, TargetState, Verdict
from toehold.frontier.v1.frontier_pb2 import (
    Candidate,
    HeartbeatResponse,
    NextResponse,
    PoolStatistics,
    Report,
    ReportResult,
    StateEventsRequest,
)
from toehold_client.rpc import calls
from toehold_client.rpc.drivers import RECONNECT_S, SEEDS_TIMEOUT_S
from toehold_client.rpc.streams import AsyncEventStream
from toehold_client.rpc.uploads import SeedBatches

from .operators import AsyncOperators


class AsyncFrontierClient(AsyncOperators):
    """A frontier, for asyncio programs.

    Belongs to the event loop that it is made in. Everything else is as FrontierClient says.
    """

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
        leaving: bool = False,
        pool: PoolStatistics | None = None,
        service_address: str = "",
        trouble: str = "",
    ) -> HeartbeatResponse:
        """See FrontierClient.heartbeat."""
        return await self._run(
            calls.heartbeat(
                node,
                session,
                tokens,
                toe_steps or {},
                self._patience,
                leaving=leaving,
                pool=pool,
                service_address=service_address,
                trouble=trouble,
            )
        )

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
        return self._stream(
            lambda stubs: stubs.frontier.StateEvents,
            StateEventsRequest(crawl=crawl, cursor=cursor),
            what="events",
            head="present",
            timeout_s=timeout_s,
            reconnect_s=reconnect_s,
        )

    # crawls as a whole

    async def create_crawl(self, crawl: str, spec: CrawlSpec) -> Crawl:
        """See FrontierClient.create_crawl."""
        return await self._run(calls.create_crawl(crawl, spec, self._patience))

    async def add_seeds(
        self, crawl: str, uris: Iterable[str], *, timeout_s: float = SEEDS_TIMEOUT_S
    ) -> AddSeedsResponse:
        """See FrontierClient.add_seeds.

        The seeds are read in the event loop, so reading them must not block for long.
        """
        await self._run(calls.released(crawl, self._patience))
        seeds = SeedBatches(crawl, uris)
        if not seeds.has_any():
            return AddSeedsResponse()
        return await self._upload(lambda stubs: stubs.admin.AddSeeds, seeds, timeout_s)

    async def launch_crawl(self, crawl: str, checkpoint: str = "", checkpoint_crawl: str = "") -> CrawlStatus:
        """See FrontierClient.launch_crawl."""
        return await self._run(calls.launch_crawl(crawl, checkpoint, checkpoint_crawl, self._patience))

    async def get_crawl(self, crawl: str) -> Crawl:
        """See FrontierClient.get_crawl."""
        return await self._run(calls.get_crawl(crawl, self._patience))

    async def list_crawls(self) -> AsyncIterator[Crawl]:
        """See FrontierClient.list_crawls."""
        async for page in self._pages(lambda token: calls.crawls_page(token, self._patience)):
            for crawl in page.crawls:
                yield crawl

    async def update_crawl(self, crawl: str, spec: CrawlSpec, paths: Collection[str] = ()) -> Crawl:
        """See FrontierClient.update_crawl."""
        return await self._run(calls.update_crawl(crawl, spec, paths, self._patience))

    async def tear_down_crawl(self, crawl: str) -> TearDownCrawlResponse:
        """See FrontierClient.tear_down_crawl."""
        return await self._run(calls.tear_down_crawl(crawl, self._patience))

    async def delete_crawl(self, crawl: str) -> None:
        """See FrontierClient.delete_crawl."""
        await self._run(calls.delete_crawl(crawl, self._patience))

    async def get_statistics(self, crawl: str) -> GetStatisticsResponse:
        """See FrontierClient.get_statistics."""
        return await self._run(calls.get_statistics(crawl, self._patience))

    async def get_frontier(self) -> GetFrontierResponse:
        """See FrontierClient.get_frontier."""
        return await self._run(calls.get_frontier(self._patience))

    async def create_checkpoint(self) -> Checkpoint:
        """See FrontierClient.create_checkpoint."""
        return await self._run(calls.create_checkpoint(self._patience))

    async def list_checkpoints(self) -> AsyncIterator[Checkpoint]:
        """See FrontierClient.list_checkpoints."""
        async for page in self._pages(lambda token: calls.checkpoints_page(token, self._patience)):
            for checkpoint in page.checkpoints:
                yield checkpoint

    async def delete_checkpoint(self, checkpoint: str) -> None:
        """See FrontierClient.delete_checkpoint."""
        await self._run(calls.delete_checkpoint(checkpoint, self._patience))

    async def set_pool_size(self, size: int | None, node: str = "") -> None:
        """See FrontierClient.set_pool_size."""
        await self._run(calls.set_pool_size(node, size, self._patience))

    async def drain_node(self, node: str) -> None:
        """See FrontierClient.drain_node."""
        await self._run(calls.drain_node(node, self._patience))
