"""Changes that clients make to queues and crawls."""

import asyncio
import time

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode

from toehold.frontier.v1 import admin_pb2
from toehold_client.errors import UnknownCrawl, UnknownQueue
from urlfrontier import urlfrontier_pb2

from .crawl_ids import crawl_name, normalised
from .crawls import Crawls
from .frontier import FrontierCalls
from .leases import Leases
from .refusals import RefusedRequest
from .spec import DAY_S, MAX_DELAY_S
from .views import UrlViews, queue_key, seen_filter

# The frontier's own limit. A longer block ends then.
_MAX_BLOCK_S = 365 * DAY_S
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.01, 0.5
_NO_BUDGET = -1


class Changes:
    """Changes of queues and crawls, as URLFrontier names them."""

    def __init__(self, frontier: FrontierCalls, crawls: Crawls, leases: Leases, views: UrlViews) -> None:
        self._frontier, self._crawls, self._leases, self._views = frontier, crawls, leases, views

    async def delete_crawl(self, crawl_id: str) -> int:
        """Deletes a crawl; how many URLs it had."""
        total = await self._views.total(crawl_id, admin_pb2.SeenFilter())
        try:
            await self._crawls.delete(crawl_id)
        except UnknownCrawl:
            return 0
        self._leases.drop_of(crawl_name(crawl_id))
        return total

    async def delete_queue(self, params: urlfrontier_pb2.QueueWithinCrawlParams) -> int:
        """Deletes a queue; how many URLs it had. URLs that clients of other gateways have stay."""
        crawl_id, key = normalised(params.crawlID), queue_key(params.key)
        crawl = crawl_name(crawl_id)
        await self._leases.hand_back_where(lambda held: held.crawl == crawl and held.queue_key == key)
        return await self._forget(crawl, admin_pb2.SeenFilter(queue_key=key))

    async def purge(self, params: urlfrontier_pb2.PurgeUrlParams) -> int:
        """Deletes URLs that were first put more than so many days ago; how many."""
        which = seen_filter(params.key)
        before_s = max(0, int(time.time()) - params.days * DAY_S)
        which.discovered_before_time.CopyFrom(Timestamp(seconds=before_s))
        return await self._forget(crawl_name(normalised(params.crawlID)), which)

    async def _forget(self, crawl: str, which: admin_pb2.SeenFilter) -> int:
        """Forgets URLs, waiting ones too; how many, once it is done."""
        request = admin_pb2.StartJobRequest(
            crawl=crawl, forget_uris=admin_pb2.ForgetUrisJob(filter=which, waiting=True)
        )
        try:
            started = await self._frontier.ask(
                lambda stubs: stubs.admin.StartJob, request, safe_to_repeat=False
            )
            job, look_s = started.job, _FIRST_LOOK_S
            while job.state not in (
                admin_pb2.JobState.JOB_STATE_DONE,
                admin_pb2.JobState.JOB_STATE_CANCELLED,
            ):
                await asyncio.sleep(look_s)
                look_s = min(2 * look_s, _LONGEST_LOOK_S)
                answer = await self._frontier.ask(
                    lambda stubs: stubs.admin.GetJob,
                    admin_pb2.GetJobRequest(crawl=crawl, job=started.job.job),
                )
                job = answer.job
        except UnknownCrawl:
            return 0
        return job.changed_count

    async def block(self, params: urlfrontier_pb2.BlockQueueParams) -> None:
        """Lets a queue give no URLs before a time; 0 ends the block. Does not create queues."""
        until_s = min(params.time, int(time.time()) + _MAX_BLOCK_S)
        await self._change(
            params.crawlID, params.key, admin_pb2.QueueChange(rest_until_time=Timestamp(seconds=until_s))
        )

    async def set_delay(self, params: urlfrontier_pb2.QueueDelayParams) -> None:
        """Sets how long a queue rests after it has given URLs; without a key, every queue."""
        delay_s = params.delay_requestable
        if delay_s > MAX_DELAY_S:
            raise RefusedRequest(f"delay_requestable must be between 0 and {MAX_DELAY_S}, got {delay_s}")
        if params.key:
            await self._change(
                params.crawlID, params.key, admin_pb2.QueueChange(min_gap=Duration(seconds=delay_s))
            )
        else:
            await self._crawls.set_delay(delay_s)

    async def set_limit(self, params: urlfrontier_pb2.CrawlLimitParams) -> None:
        """Sets how many URLs of a queue are completed before it gives no more; 0 for no limit."""
        change = admin_pb2.QueueChange(total_budget=params.limit or _NO_BUDGET, retired=False)
        if not await self._change(params.crawlID, params.key, change):
            raise RefusedRequest(
                f"the crawl has no queue with the key {params.key!r:.200}", StatusCode.NOT_FOUND
            )

    async def _change(self, crawl_id: str, key: str, change: admin_pb2.QueueChange) -> bool:
        """Changes a queue; whether there is one."""
        request = admin_pb2.UpdateQueueRequest(
            crawl=crawl_name(normalised(crawl_id)), queue_key=queue_key(key), change=change
        )
        try:
            await self._frontier.ask(lambda stubs: stubs.admin.UpdateQueue, request)
        except (UnknownCrawl, UnknownQueue):
            return False
        return True
