"""What each method of the clients says about a crawl's inside: queues, URIs, jobs, overrides, statistics.

Procedures, as in `calls`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from toehold.frontier.v1.admin_pb2 import (
    CancelJobRequest,
    DeleteOverrideRequest,
    DeleteUrisJob,
    ExplainRequest,
    ForgetUrisRequest,
    GetJobRequest,
    GetQueueRequest,
    GetUriRequest,
    Job,
    ListHostsRequest,
    ListHostsResponse,
    ListJobsRequest,
    ListJobsResponse,
    ListLargestQueuesRequest,
    ListOverridesRequest,
    ListOverridesResponse,
    ListQueuesRequest,
    ListQueuesResponse,
    ListSeedsRequest,
    ListSeedsResponse,
    ListSlowestQueuesRequest,
    ListSourcesRequest,
    ListSourcesResponse,
    ListUrisRequest,
    ListUrisResponse,
    NoteUrisRequest,
    PutOverrideRequest,
    QueueChange,
    Reason,
    RetireQueuesJob,
    StartJobRequest,
    UnretireQueuesJob,
    UpdateQueueRequest,
    UriStory,
    VerifyJob,
    WakeQueuesJob,
    WorkQueue,
)
from toehold.frontier.v1.crawl_pb2 import Override, OverrideSettings, QueueState

from .batches import split_texts
from .calls import PAGE_SIZE, Procedure, call
from .retry import Patience

JobAsked: TypeAlias = DeleteUrisJob | RetireQueuesJob | UnretireQueuesJob | WakeQueuesJob | VerifyJob
"""What a job may be asked to do."""


# Queues


def queues_page(
    crawl: str, state: QueueState.ValueType, page_token: str, patience: Patience
) -> Procedure[ListQueuesResponse]:
    """One page of a crawl's queues."""
    request = ListQueuesRequest(crawl=crawl, state=state, page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListQueues, request, patience))


def get_queue(crawl: str, queue_key: str, patience: Patience) -> Procedure[list[WorkQueue]]:
    """The queues of a key."""
    request = GetQueueRequest(crawl=crawl, queue_key=queue_key)
    answer = yield from call(lambda stubs: stubs.admin.GetQueue, request, patience)
    return list(answer.queues)


def update_queue(
    crawl: str, queue_key: str, change: QueueChange, patience: Patience
) -> Procedure[list[WorkQueue]]:
    """Changes the queues of a key."""
    request = UpdateQueueRequest(crawl=crawl, queue_key=queue_key, change=change)
    answer = yield from call(lambda stubs: stubs.admin.UpdateQueue, request, patience)
    return list(answer.queues)


def largest_queues(crawl: str, patience: Patience) -> Procedure[list[WorkQueue]]:
    """The largest queues."""
    request = ListLargestQueuesRequest(crawl=crawl)
    answer = yield from call(lambda stubs: stubs.admin.ListLargestQueues, request, patience)
    return list(answer.queues)


def slowest_queues(crawl: str, patience: Patience) -> Procedure[list[WorkQueue]]:
    """The queues that rest longest."""
    request = ListSlowestQueuesRequest(crawl=crawl)
    answer = yield from call(lambda stubs: stubs.admin.ListSlowestQueues, request, patience)
    return list(answer.queues)


# URIs


def uris_page(crawl: str, queue_key: str, page_token: str, patience: Patience) -> Procedure[ListUrisResponse]:
    """One page of the URIs that wait."""
    request = ListUrisRequest(crawl=crawl, queue_key=queue_key, page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListUris, request, patience))


def get_uri(crawl: str, uri: str, patience: Patience) -> Procedure[UriStory]:
    """A URI's story."""
    request = GetUriRequest(crawl=crawl, uri=uri)
    answer = yield from call(lambda stubs: stubs.admin.GetUri, request, patience)
    return answer.story


def note_uris(crawl: str, uris: Iterable[str], patience: Patience) -> Procedure[int]:
    """Notes URIs as seen, in as many requests as they need; how many were new."""
    noted = 0
    for batch in split_texts(uris, envelope=NoteUrisRequest(crawl=crawl)):
        request = NoteUrisRequest(crawl=crawl, uris=batch)
        answer = yield from call(lambda stubs: stubs.admin.NoteUris, request, patience)
        noted += answer.noted_count
    return noted


def forget_uris(crawl: str, uris: Iterable[str], patience: Patience) -> Procedure[int]:
    """Forgets URIs, in as many requests as they need; how many were forgotten."""
    forgotten = 0
    for batch in split_texts(uris, envelope=ForgetUrisRequest(crawl=crawl)):
        request = ForgetUrisRequest(crawl=crawl, uris=batch)
        answer = yield from call(lambda stubs: stubs.admin.ForgetUris, request, patience)
        forgotten += answer.forgotten_count
    return forgotten


# Jobs


def start_job(crawl: str, asked: JobAsked, patience: Patience) -> Procedure[Job]:
    """Starts a job. Not repeated after a broken connection: that might start another."""
    request = StartJobRequest(crawl=crawl)
    match asked:
        case DeleteUrisJob():
            request.delete_uris.CopyFrom(asked)
        case RetireQueuesJob():
            request.retire_queues.CopyFrom(asked)
        case UnretireQueuesJob():
            request.unretire_queues.CopyFrom(asked)
        case WakeQueuesJob():
            request.wake_queues.CopyFrom(asked)
        case VerifyJob():
            request.verify.CopyFrom(asked)
    answer = yield from call(lambda stubs: stubs.admin.StartJob, request, patience, safe_to_repeat=False)
    return answer.job


def jobs_page(crawl: str, page_token: str, patience: Patience) -> Procedure[ListJobsResponse]:
    """One page of a crawl's jobs."""
    request = ListJobsRequest(crawl=crawl, page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListJobs, request, patience))


def get_job(crawl: str, job: int, patience: Patience) -> Procedure[Job]:
    """A job."""
    request = GetJobRequest(crawl=crawl, job=job)
    answer = yield from call(lambda stubs: stubs.admin.GetJob, request, patience)
    return answer.job


def cancel_job(crawl: str, job: int, patience: Patience) -> Procedure[Job]:
    """Cancels a job."""
    request = CancelJobRequest(crawl=crawl, job=job)
    answer = yield from call(lambda stubs: stubs.admin.CancelJob, request, patience)
    return answer.job


# Overrides


def put_override(
    crawl: str, surt_prefix: str, settings: OverrideSettings, patience: Patience
) -> Procedure[Override]:
    """Sets an override; as it is kept."""
    override = Override(surt_prefix=surt_prefix, settings=settings)
    request = PutOverrideRequest(crawl=crawl, override=override)
    answer = yield from call(lambda stubs: stubs.admin.PutOverride, request, patience)
    return answer.override


def delete_override(crawl: str, surt_prefix: str, patience: Patience) -> Procedure[None]:
    """Removes an override."""
    request = DeleteOverrideRequest(crawl=crawl, surt_prefix=surt_prefix)
    yield from call(lambda stubs: stubs.admin.DeleteOverride, request, patience)


def overrides_page(crawl: str, page_token: str, patience: Patience) -> Procedure[ListOverridesResponse]:
    """One page of a crawl's overrides."""
    request = ListOverridesRequest(crawl=crawl, page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListOverrides, request, patience))


# Figures and reasons


def hosts_page(crawl: str, page_token: str, patience: Patience) -> Procedure[ListHostsResponse]:
    """One page of a crawl's hosts."""
    request = ListHostsRequest(crawl=crawl, page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListHosts, request, patience))


def sources_page(crawl: str, page_token: str, patience: Patience) -> Procedure[ListSourcesResponse]:
    """One page of a crawl's sources."""
    request = ListSourcesRequest(crawl=crawl, page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListSources, request, patience))


def seeds_page(crawl: str, page_token: str, patience: Patience) -> Procedure[ListSeedsResponse]:
    """One page of a crawl's seeds."""
    request = ListSeedsRequest(crawl=crawl, page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListSeeds, request, patience))


def explain(
    crawl: str, queue_key: str | None, uri: str | None, patience: Patience
) -> Procedure[list[Reason]]:
    """Why something is not being fetched."""
    request = ExplainRequest(crawl=crawl)
    if queue_key is not None:
        request.queue_key = queue_key
    if uri is not None:
        request.uri = uri
    answer = yield from call(lambda stubs: stubs.admin.Explain, request, patience)
    return list(answer.reasons)
