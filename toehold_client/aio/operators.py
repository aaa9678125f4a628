"""AsyncFrontierClient's methods for a crawl's inside: queues, URIs, jobs, overrides, statistics, outcomes."""

from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import TypeAlias

from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_client.errors import sendable
from toehold_client.rpc.arguments import several
from toehold_client.rpc.batches import split_texts
from toehold_client.rpc.retry import RECONNECT_S
from toehold_client.rpc.uploads import IMPORT_TIMEOUT_S, ImportBatches
from toehold_client.spec.given import GivenOverride, override_settings_of

from .calls import AsyncCalls
from .streams import AsyncExportStream, AsyncOutcomeStream

JobAsked: TypeAlias = (
    admin_pb2.DeleteUrisJob
    | admin_pb2.RetireQueuesJob
    | admin_pb2.UnretireQueuesJob
    | admin_pb2.WakeQueuesJob
    | admin_pb2.VerifyJob
    | admin_pb2.ForgetUrisJob
)
"""The kinds of work that a job can do."""


class AsyncOperators(AsyncCalls):
    """The operators' part of AsyncFrontierClient. Every method may raise UnknownCrawl and the errors that it
    names.
    """

    # queues

    async def list_queues(
        self, crawl: str, state: crawl_pb2.QueueState.ValueType = crawl_pb2.QueueState.QUEUE_STATE_UNSPECIFIED
    ) -> AsyncIterator[admin_pb2.WorkQueue]:
        """A crawl's work queues, all or those in one state. Asks for further pages as it is read."""
        async for page in self._pages(
            lambda stubs: stubs.admin.ListQueues,
            lambda: admin_pb2.ListQueuesRequest(crawl=crawl, state=state),
        ):
            for each in page.queues:
                yield each

    async def get_queue(self, crawl: str, queue_key: str) -> list[admin_pb2.WorkQueue]:
        """The queues of a key: several, if they are in different partitions. UnknownQueue."""
        answer = await self._call(
            lambda stubs: stubs.admin.GetQueue,
            lambda: admin_pb2.GetQueueRequest(crawl=crawl, queue_key=queue_key),
        )
        return list(answer.queues)

    async def update_queue(
        self, crawl: str, queue_key: str, change: admin_pb2.QueueChange
    ) -> list[admin_pb2.WorkQueue]:
        """Changes the queues of a key; their new description. UnknownQueue."""
        answer = await self._call(
            lambda stubs: stubs.admin.UpdateQueue,
            lambda: admin_pb2.UpdateQueueRequest(crawl=crawl, queue_key=queue_key, change=change),
        )
        return list(answer.queues)

    async def largest_queues(self, crawl: str) -> list[admin_pb2.WorkQueue]:
        """The queues with most URIs, the largest first, among those touched since the server started."""
        answer = await self._call(
            lambda stubs: stubs.admin.ListLargestQueues,
            lambda: admin_pb2.ListLargestQueuesRequest(crawl=crawl),
        )
        return list(answer.queues)

    async def slowest_queues(self, crawl: str) -> list[admin_pb2.WorkQueue]:
        """The queues that rest longest, the last to wake first, among those in the frontier's memory."""
        answer = await self._call(
            lambda stubs: stubs.admin.ListSlowestQueues,
            lambda: admin_pb2.ListSlowestQueuesRequest(crawl=crawl),
        )
        return list(answer.queues)

    # URIs

    async def list_uris(self, crawl: str, queue_key: str = "") -> AsyncIterator[admin_pb2.WaitingUri]:
        """The URIs that wait, of one queue or of all, then those that are due later. Asks for further pages
        as it is read.

        UnknownQueue.
        """
        async for page in self._pages(
            lambda stubs: stubs.admin.ListUris,
            lambda: admin_pb2.ListUrisRequest(crawl=crawl, queue_key=queue_key),
        ):
            for each in page.uris:
                yield each

    async def get_uri(self, crawl: str, uri: str) -> admin_pb2.UriStory:
        """Everything that a crawl knows about a URI, seen or not."""
        answer = await self._call(
            lambda stubs: stubs.admin.GetUri, lambda: admin_pb2.GetUriRequest(crawl=crawl, uri=uri)
        )
        return answer.story

    async def note_uris(self, crawl: str, uris: Iterable[str], *, replace: bool = False) -> int:
        """Notes any number of URIs as seen, so that they are not fetched; how many were new.

        `replace` also notes those that wait or are out, and counts them as new. Sends them in batches; if one
        fails, those before it count. CrawlFinished; InvalidArgument unless all are http(s) URIs.
        """
        several(uris, "uris", "URIs")
        noted = 0
        with sendable():
            for batch in split_texts(uris, envelope=admin_pb2.NoteUrisRequest(crawl=crawl, replace=replace)):
                request = partial(admin_pb2.NoteUrisRequest, crawl=crawl, uris=batch, replace=replace)
                answer = await self._call(lambda stubs: stubs.admin.NoteUris, request)
                noted += answer.noted_count
        return noted

    async def forget_uris(self, crawl: str, uris: Iterable[str]) -> int:
        """Forgets that URIs were seen, any number, unless they wait in queues; how many were forgotten.

        Batches and errors are as in `note_uris`.
        """
        several(uris, "uris", "URIs")
        forgotten = 0
        with sendable():
            for batch in split_texts(uris, envelope=admin_pb2.ForgetUrisRequest(crawl=crawl)):
                request = partial(admin_pb2.ForgetUrisRequest, crawl=crawl, uris=batch)
                answer = await self._call(lambda stubs: stubs.admin.ForgetUris, request)
                forgotten += answer.forgotten_count
        return forgotten

    async def list_seen_uris(
        self, crawl: str, wanted: admin_pb2.SeenFilter | None = None
    ) -> AsyncIterator[admin_pb2.UriStory]:
        """The seen URIs that a filter chooses, or all, each with its story. UrisNotKept.

        Asks for further pages as it is read.
        """
        async for page in self._pages(
            lambda stubs: stubs.admin.ListSeenUris,
            lambda: admin_pb2.ListSeenUrisRequest(crawl=crawl, filter=wanted),
        ):
            for each in page.uris:
                yield each

    async def count_seen_uris(
        self, crawl: str, wanted: admin_pb2.SeenFilter | None = None
    ) -> admin_pb2.CountSeenUrisResponse:
        """How many seen URIs a filter chooses, by their state. UrisNotKept."""
        return await self._call(
            lambda stubs: stubs.admin.CountSeenUris,
            lambda: admin_pb2.CountSeenUrisRequest(crawl=crawl, filter=wanted),
        )

    async def import_uris(
        self,
        crawl: str,
        entries: Iterable[admin_pb2.ImportEntry],
        *,
        force: bool = False,
        timeout_s: float = IMPORT_TIMEOUT_S,
    ) -> admin_pb2.Job:
        """Imports any number of URIs, and reads them as it sends them; the job that does it, just begun.

        The job notes `seen` URIs first, in whatever order they come; `force` schedules candidates even if
        they have been seen. `timeout_s` is for sending all of them. The client first makes sure, with its
        patience, that the frontier is there, has the crawl and does not hold it; then it sends the URIs once.
        If that fails, or reading them does, nothing is imported. CrawlFinished.
        """
        several(entries, "entries", "ImportEntries")
        await self._released(crawl)
        batches = ImportBatches(crawl, entries, force)
        answer = await self._upload(lambda stubs: stubs.admin.ImportUris, batches, timeout_s)
        return answer.job

    def export_uris(
        self, crawl: str, cursor: str = "", *, reconnect_s: float = RECONNECT_S
    ) -> AsyncExportStream:
        """All URIs that wait, in messages of many, in the order of `list_uris`; after `cursor`, if given.

        It reconnects by itself if the frontier is away no longer than `reconnect_s`. It may miss or repeat
        URIs that move meanwhile, so pause the crawl for an exact copy.
        """
        request = admin_pb2.ExportUrisRequest(crawl=crawl, cursor=cursor)
        return self._stream(
            lambda stubs: stubs.admin.ExportUris,
            request,
            what="URIs",
            timeout_s=None,
            reconnect_s=reconnect_s,
        )

    # jobs

    async def start_job(self, crawl: str, asked: JobAsked) -> admin_pb2.Job:
        """Starts work on many URIs or queues; the job, just begun. The class of `asked` is the kind of work.

        InvalidArgument for a bad pattern, or if too many jobs wait. A broken connection ends it, because a
        repeat might start another job.
        """
        with sendable():
            request = admin_pb2.StartJobRequest(crawl=crawl)
        match asked:
            case admin_pb2.DeleteUrisJob():
                request.delete_uris.CopyFrom(asked)
            case admin_pb2.RetireQueuesJob():
                request.retire_queues.CopyFrom(asked)
            case admin_pb2.UnretireQueuesJob():
                request.unretire_queues.CopyFrom(asked)
            case admin_pb2.WakeQueuesJob():
                request.wake_queues.CopyFrom(asked)
            case admin_pb2.VerifyJob():
                request.verify.CopyFrom(asked)
            case admin_pb2.ForgetUrisJob():
                request.forget_uris.CopyFrom(asked)
        answer = await self._call(lambda stubs: stubs.admin.StartJob, lambda: request, safe_to_repeat=False)
        return answer.job

    async def list_jobs(self, crawl: str) -> AsyncIterator[admin_pb2.Job]:
        """The jobs that wait or run, and those that ended last, by number."""
        async for page in self._pages(
            lambda stubs: stubs.admin.ListJobs,
            lambda: admin_pb2.ListJobsRequest(crawl=crawl),
        ):
            for each in page.jobs:
                yield each

    async def get_job(self, crawl: str, job: int) -> admin_pb2.Job:
        """A job. UnknownJob."""
        answer = await self._call(
            lambda stubs: stubs.admin.GetJob, lambda: admin_pb2.GetJobRequest(crawl=crawl, job=job)
        )
        return answer.job

    async def cancel_job(self, crawl: str, job: int) -> admin_pb2.Job:
        """Cancels a job; its changes so far stay. UnknownJob; InvalidArgument."""
        answer = await self._call(
            lambda stubs: stubs.admin.CancelJob, lambda: admin_pb2.CancelJobRequest(crawl=crawl, job=job)
        )
        return answer.job

    # overrides

    async def put_override(self, crawl: str, surt_prefix: str, settings: GivenOverride) -> crawl_pb2.Override:
        """Sets the override of a SURT prefix (or host, or URL); its stored form. The settings may be a dict
        with the names of a spec file.

        InvalidSpec tells all problems of the settings at once; CrawlFinished.
        """
        answer = await self._call(
            lambda stubs: stubs.admin.PutOverride,
            lambda: admin_pb2.PutOverrideRequest(
                crawl=crawl,
                override=crawl_pb2.Override(surt_prefix=surt_prefix, settings=override_settings_of(settings)),
            ),
        )
        return answer.override

    async def delete_override(self, crawl: str, surt_prefix: str) -> None:
        """Removes an override. UnknownOverride, CrawlFinished.

        After a repeated try, UnknownOverride may mean that an earlier try succeeded.
        """
        await self._call(
            lambda stubs: stubs.admin.DeleteOverride,
            lambda: admin_pb2.DeleteOverrideRequest(crawl=crawl, surt_prefix=surt_prefix),
        )

    async def list_overrides(self, crawl: str) -> AsyncIterator[crawl_pb2.Override]:
        """A crawl's overrides, by SURT prefix. Asks for further pages as it is read."""
        async for page in self._pages(
            lambda stubs: stubs.admin.ListOverrides,
            lambda: admin_pb2.ListOverridesRequest(crawl=crawl),
        ):
            for each in page.overrides:
                yield each

    # statistics and reasons

    async def list_hosts(self, crawl: str) -> AsyncIterator[admin_pb2.FetchStatistics]:
        """The statistics of each host. Asks for further pages as it is read."""
        async for page in self._pages(
            lambda stubs: stubs.admin.ListHosts,
            lambda: admin_pb2.ListHostsRequest(crawl=crawl),
        ):
            for each in page.hosts:
                yield each

    async def list_sources(self, crawl: str) -> AsyncIterator[admin_pb2.FetchStatistics]:
        """The statistics of the URIs that descend from each seed. Asks for further pages as it is read."""
        async for page in self._pages(
            lambda stubs: stubs.admin.ListSources,
            lambda: admin_pb2.ListSourcesRequest(crawl=crawl),
        ):
            for each in page.sources:
                yield each

    async def list_seeds(self, crawl: str) -> AsyncIterator[admin_pb2.Seed]:
        """The seeds and their results, as they were added. Asks for further pages as it is read."""
        async for page in self._pages(
            lambda stubs: stubs.admin.ListSeeds,
            lambda: admin_pb2.ListSeedsRequest(crawl=crawl),
        ):
            for each in page.seeds:
                yield each

    async def list_refusals(self, crawl: str, rule: str = "") -> list[admin_pb2.RefusalRule]:
        """The rules that refused URIs, the one that refused most first, with the latest three examples of
        each; with `rule`, that rule alone with up to 100 examples.
        """
        answer = await self._call(
            lambda stubs: stubs.admin.ListRefusals,
            lambda: admin_pb2.ListRefusalsRequest(crawl=crawl, rule=rule),
        )
        return list(answer.rules)

    async def explain(
        self, crawl: str, *, queue_key: str | None = None, uri: str | None = None
    ) -> list[admin_pb2.Reason]:
        """Why a crawl, one of its queues or a URI is not being fetched now, and when it will be.

        UnknownQueue; InvalidArgument unless it is an http(s) URI.
        """
        with sendable():
            request = admin_pb2.ExplainRequest(crawl=crawl)
            if queue_key is not None:
                request.queue_key = queue_key
            if uri is not None:
                request.uri = uri
        answer = await self._call(lambda stubs: stubs.admin.Explain, lambda: request)
        return list(answer.reasons)

    def stream_outcomes(
        self,
        crawl: str,
        cursor: str = "",
        *,
        follow: bool = True,
        timeout_s: float | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> AsyncOutcomeStream:
        """A crawl's final dispositions after `cursor`: "" for those from now on, "start" for all kept.

        The first message has the range that is kept. Each other one has some outcomes, or is empty every 10 s
        to show that the frontier is alive. With `follow` it ends after the last outcome of a FINISHED crawl,
        else after the last one so far. It reconnects by itself, like `state_events`. It raises CursorTooOld,
        after the first message, if the outcomes after `cursor` are no longer kept.
        """
        request = admin_pb2.StreamOutcomesRequest(crawl=crawl, cursor=cursor, follow=follow)
        return self._stream(
            lambda stubs: stubs.admin.StreamOutcomes,
            request,
            what="outcomes",
            head="kept",
            timeout_s=timeout_s,
            reconnect_s=reconnect_s,
        )
