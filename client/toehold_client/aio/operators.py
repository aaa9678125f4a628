"""What AsyncFrontierClient can do to a crawl's inside: the methods of `operators`, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from toehold.frontier.v1.admin_pb2 import (
    ExportUrisRequest,
    FetchStatistics,
    ImportEntry,
    Job,
    QueueChange,
    Reason,
    Seed,
    StreamOutcomesRequest,
    UriStory,
    WaitingUri,
    WorkQueue,
)
from toehold.frontier.v1.crawl_pb2 import Override, OverrideSettings, QueueState
from toehold_client.rpc import admin_calls, calls
from toehold_client.rpc.admin_calls import JobAsked
from toehold_client.rpc.drivers import IMPORT_TIMEOUT_S, RECONNECT_S, AsyncDriver
from toehold_client.rpc.streams import AsyncExportStream, AsyncOutcomeStream
from toehold_client.rpc.uploads import ImportBatches


class AsyncOperators(AsyncDriver):
    """The operators' part of AsyncFrontierClient: everything is as `operators.Operators` says."""

    # queues

    async def list_queues(
        self, crawl: str, state: QueueState.ValueType = QueueState.QUEUE_STATE_UNSPECIFIED
    ) -> AsyncIterator[WorkQueue]:
        """See FrontierClient.list_queues."""
        async for page in self._pages(
            lambda token: admin_calls.queues_page(crawl, state, token, self._patience)
        ):
            for item in page.queues:
                yield item

    async def get_queue(self, crawl: str, queue_key: str) -> list[WorkQueue]:
        """See FrontierClient.get_queue."""
        return await self._run(admin_calls.get_queue(crawl, queue_key, self._patience))

    async def update_queue(self, crawl: str, queue_key: str, change: QueueChange) -> list[WorkQueue]:
        """See FrontierClient.update_queue."""
        return await self._run(admin_calls.update_queue(crawl, queue_key, change, self._patience))

    async def largest_queues(self, crawl: str) -> list[WorkQueue]:
        """See FrontierClient.largest_queues."""
        return await self._run(admin_calls.largest_queues(crawl, self._patience))

    async def slowest_queues(self, crawl: str) -> list[WorkQueue]:
        """See FrontierClient.slowest_queues."""
        return await self._run(admin_calls.slowest_queues(crawl, self._patience))

    # URIs

    async def list_uris(self, crawl: str, queue_key: str = "") -> AsyncIterator[WaitingUri]:
        """See FrontierClient.list_uris."""
        async for page in self._pages(
            lambda token: admin_calls.uris_page(crawl, queue_key, token, self._patience)
        ):
            for item in page.uris:
                yield item

    async def get_uri(self, crawl: str, uri: str) -> UriStory:
        """See FrontierClient.get_uri."""
        return await self._run(admin_calls.get_uri(crawl, uri, self._patience))

    async def note_uris(self, crawl: str, uris: Iterable[str]) -> int:
        """See FrontierClient.note_uris."""
        return await self._run(admin_calls.note_uris(crawl, uris, self._patience))

    async def forget_uris(self, crawl: str, uris: Iterable[str]) -> int:
        """See FrontierClient.forget_uris."""
        return await self._run(admin_calls.forget_uris(crawl, uris, self._patience))

    async def import_uris(
        self,
        crawl: str,
        entries: Iterable[ImportEntry],
        *,
        force: bool = False,
        timeout_s: float = IMPORT_TIMEOUT_S,
    ) -> Job:
        """See FrontierClient.import_uris.

        The URIs are read in the event loop, so reading them must not block for long.
        """
        await self._run(calls.released(crawl, self._patience))
        batches = ImportBatches(crawl, entries, force)
        answer = await self._upload(lambda stubs: stubs.admin.ImportUris, batches, timeout_s)
        return answer.job

    def export_uris(
        self, crawl: str, cursor: str = "", *, reconnect_s: float = RECONNECT_S
    ) -> AsyncExportStream:
        """See FrontierClient.export_uris."""

        request = ExportUrisRequest(crawl=crawl, cursor=cursor)
        return self._stream(
            lambda stubs: stubs.admin.ExportUris,
            request,
            what="URIs",
            timeout_s=None,
            reconnect_s=reconnect_s,
        )

    # jobs

    async def start_job(self, crawl: str, asked: JobAsked) -> Job:
        """See FrontierClient.start_job."""
        return await self._run(admin_calls.start_job(crawl, asked, self._patience))

    async def list_jobs(self, crawl: str) -> AsyncIterator[Job]:
        """See FrontierClient.list_jobs."""
        async for page in self._pages(lambda token: admin_calls.jobs_page(crawl, token, self._patience)):
            for item in page.jobs:
                yield item

    async def get_job(self, crawl: str, job: int) -> Job:
        """See FrontierClient.get_job."""
        return await self._run(admin_calls.get_job(crawl, job, self._patience))

    async def cancel_job(self, crawl: str, job: int) -> Job:
        """See FrontierClient.cancel_job."""
        return await self._run(admin_calls.cancel_job(crawl, job, self._patience))

    # overrides

    async def put_override(self, crawl: str, surt_prefix: str, settings: OverrideSettings) -> Override:
        """See FrontierClient.put_override."""
        return await self._run(admin_calls.put_override(crawl, surt_prefix, settings, self._patience))

    async def delete_override(self, crawl: str, surt_prefix: str) -> None:
        """See FrontierClient.delete_override."""
        await self._run(admin_calls.delete_override(crawl, surt_prefix, self._patience))

    async def list_overrides(self, crawl: str) -> AsyncIterator[Override]:
        """See FrontierClient.list_overrides."""
        async for page in self._pages(lambda token: admin_calls.overrides_page(crawl, token, self._patience)):
            for item in page.overrides:
                yield item

    # statistics and reasons

    async def list_hosts(self, crawl: str) -> AsyncIterator[FetchStatistics]:
        """See FrontierClient.list_hosts."""
        async for page in self._pages(lambda token: admin_calls.hosts_page(crawl, token, self._patience)):
            for item in page.hosts:
                yield item

    async def list_sources(self, crawl: str) -> AsyncIterator[FetchStatistics]:
        """See FrontierClient.list_sources."""
        async for page in self._pages(lambda token: admin_calls.sources_page(crawl, token, self._patience)):
            for item in page.sources:
                yield item

    async def list_seeds(self, crawl: str) -> AsyncIterator[Seed]:
        """See FrontierClient.list_seeds."""
        async for page in self._pages(lambda token: admin_calls.seeds_page(crawl, token, self._patience)):
            for item in page.seeds:
                yield item

    async def explain(
        self, crawl: str, *, queue_key: str | None = None, uri: str | None = None
    ) -> list[Reason]:
        """See FrontierClient.explain."""
        return await self._run(admin_calls.explain(crawl, queue_key, uri, self._patience))

    def stream_outcomes(
        self,
        crawl: str,
        cursor: str = "",
        *,
        follow: bool = True,
        timeout_s: float | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> AsyncOutcomeStream:
        """See FrontierClient.stream_outcomes."""

        request = StreamOutcomesRequest(crawl=crawl, cursor=cursor, follow=follow)
        return self._stream(
            lambda stubs: stubs.admin.StreamOutcomes,
            request,
            what="outcomes",
            head="kept",
            timeout_s=timeout_s,
            reconnect_s=reconnect_s,
        )
