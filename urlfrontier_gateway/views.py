"""Answers to the questions of clients about queues and URLs."""

import time
from collections.abc import AsyncIterator

import re2
from grpc import StatusCode

from toehold.frontier.v1 import admin_pb2
from toehold_client.errors import InvalidArgument, UnknownCrawl, UnknownQueue
from urlfrontier import urlfrontier_pb2

from . import queue_keys
from .crawl_ids import crawl_name, normalised
from .frontier import LONG_TIMEOUT_S, FrontierCalls
from .items import url_item
from .refusals import RefusedRequest

DEFAULT_SIZE = 100
"""URLFrontier's default: how many results a listing has."""

_MAX_PATTERN_CHARS = 4096


class UrlViews:
    """The frontier's knowledge of queues and URLs, in URLFrontier's messages."""

    def __init__(self, frontier: FrontierCalls) -> None:
        self._frontier = frontier

    # queues

    async def queues(self, params: urlfrontier_pb2.Pagination) -> urlfrontier_pb2.QueueList:
        """The keys of a crawl's queues, from `start` on."""
        crawl_id = normalised(params.crawlID)
        size = params.size or DEFAULT_SIZE
        keys: dict[str, None] = {}  # several queues of the frontier may have one key
        try:
            async for queue in self._queues(crawl_id):
                if params.include_inactive or await self._is_active(crawl_id, queue):
                    keys[queue_keys.decoded(queue.queue_key)] = None
                    if len(keys) >= params.start + size:
                        break
        except UnknownCrawl:
            pass
        values = list(keys)[params.start :]
        return urlfrontier_pb2.QueueList(
            values=values, start=params.start, size=len(values), crawlID=crawl_id
        )

    async def _queues(self, crawl_id: str) -> AsyncIterator[admin_pb2.WorkQueue]:
        request = admin_pb2.ListQueuesRequest(crawl=crawl_name(crawl_id))
        async for page in self._frontier.pages(lambda stubs: stubs.admin.ListQueues, request):
            for queue in page.queues:
                yield queue

    async def _is_active(self, crawl_id: str, queue: admin_pb2.WorkQueue) -> bool:
        """Whether a queue has URLs, due or not, and no block. A rest beyond its own delay is a block."""
        if not queue.queued_count:
            counts = await self.count(crawl_id, admin_pb2.SeenFilter(queue_key=queue.queue_key))
            return counts.future_count > 0
        rest_s = queue.wake_time.seconds - time.time()
        return rest_s <= queue.min_gap.seconds + 1

    async def stats(self, crawl_id: str, key: str) -> urlfrontier_pb2.Stats:
        """The statistics of a crawl or, with a key, of one of its queues."""
        try:
            if key:
                return await self._queue_stats(crawl_id, queue_key(key))
            return await self._crawl_stats(crawl_id)
        except (UnknownCrawl, UnknownQueue):
            return _stats(crawl_id)

    async def _queue_stats(self, crawl_id: str, queue_key: str) -> urlfrontier_pb2.Stats:
        crawl = crawl_name(crawl_id)
        await self._frontier.ask(
            lambda stubs: stubs.admin.GetQueue, admin_pb2.GetQueueRequest(crawl=crawl, queue_key=queue_key)
        )
        counts = await self.count(crawl_id, admin_pb2.SeenFilter(queue_key=queue_key))
        size = counts.queued_count + counts.leased_count + counts.future_count
        return _stats(
            crawl_id,
            size=size,
            leased=counts.leased_count,
            completed=counts.done_count,
            queues=1,
            active_queues=int(size > 0),
        )

    async def _crawl_stats(self, crawl_id: str) -> urlfrontier_pb2.Stats:
        answer = await self._frontier.ask(
            lambda stubs: stubs.admin.GetStatistics,
            admin_pb2.GetStatisticsRequest(crawl=crawl_name(crawl_id)),
        )
        counts = answer.statistics
        states = counts.queue_state_counts
        exhausted = states.get("EXHAUSTED", 0)
        return _stats(
            crawl_id,
            size=(
                counts.queued_count
                + counts.future_count
                + counts.retired_uri_count
                + counts.ineligible_uri_count
            ),
            leased=counts.leased_count,
            completed=(
                counts.succeeded_count + counts.failed_count + counts.disregarded_count + counts.noted_count
            ),
            queues=sum(states.values()),
            active_queues=sum(states.values()) - exhausted,
        )

    # URLs

    async def status(self, request: urlfrontier_pb2.URLStatusRequest) -> urlfrontier_pb2.URLItem:
        """All that is known of a URL."""
        crawl_id = normalised(request.crawlID)
        key = queue_key(request.key or queue_keys.default_key(request.url))
        try:
            answer = await self._frontier.ask(
                lambda stubs: stubs.admin.GetUri,
                admin_pb2.GetUriRequest(crawl=crawl_name(crawl_id), uri=request.url),
            )
        except (UnknownCrawl, InvalidArgument):
            raise _unknown_url(request.url) from None
        story = answer.story
        if story.state == admin_pb2.UriState.URI_STATE_NEVER_SEEN or story.queue_key != key:
            raise _unknown_url(request.url)
        return url_item(story, crawl_id)

    async def urls(self, params: urlfrontier_pb2.ListUrlParams) -> AsyncIterator[urlfrontier_pb2.URLItem]:
        """The URLs of a crawl or a queue, from `start` on."""
        crawl_id = normalised(params.crawlID)
        request = admin_pb2.ListSeenUrisRequest(
            crawl=crawl_name(crawl_id), filter=seen_filter(params.key, params.filter, params.ignoreCase)
        )
        skip, left = params.start, params.size or DEFAULT_SIZE
        try:
            async for page in self._frontier.pages(lambda stubs: stubs.admin.ListSeenUris, request):
                for story in page.uris[skip : skip + left]:
                    yield url_item(story, crawl_id)
                    left -= 1
                skip = max(0, skip - len(page.uris))
                if not left:
                    return
        except UnknownCrawl:
            return

    async def count(self, crawl_id: str, which: admin_pb2.SeenFilter) -> admin_pb2.CountSeenUrisResponse:
        """How many URLs there are, by state. UnknownCrawl."""
        return await self._frontier.ask(
            lambda stubs: stubs.admin.CountSeenUris,
            admin_pb2.CountSeenUrisRequest(crawl=crawl_name(crawl_id), filter=which),
            more_s=LONG_TIMEOUT_S,
        )

    async def total(self, crawl_id: str, which: admin_pb2.SeenFilter) -> int:
        """How many URLs there are; 0 without the crawl."""
        try:
            counts = await self.count(crawl_id, which)
        except UnknownCrawl:
            return 0
        return counts.queued_count + counts.leased_count + counts.future_count + counts.done_count


def queue_key(key: str) -> str:
    """The key of Toehold's queue, or a refusal."""
    if not key:
        raise RefusedRequest("key must not be empty")
    encoded = queue_keys.encoded(key)
    if not encoded:
        raise RefusedRequest(
            f"key must have at most {queue_keys.MAX_KEY_CHARS} characters (fewer if some are not ASCII), "
            f"got {len(key)}"
        )
    return encoded


def seen_filter(key: str, text: str = "", ignore_case: bool = False) -> admin_pb2.SeenFilter:
    """Chooses URLs by their queue and by a part of them, both if both are given."""
    which = admin_pb2.SeenFilter(queue_key=queue_key(key)) if key else admin_pb2.SeenFilter()
    if text.strip():
        flags = "(?is)" if ignore_case else "(?s)"
        pattern = f"{flags}.*{re2.escape(text)}.*"
        if len(pattern) > _MAX_PATTERN_CHARS:
            raise RefusedRequest(f"filter must have at most {_MAX_PATTERN_CHARS} escaped characters")
        which.uri_pattern = pattern
    return which


def _unknown_url(url: str) -> RefusedRequest:
    return RefusedRequest(f"the URL is unknown in this queue: {url:.200}", StatusCode.NOT_FOUND)


def _stats(
    crawl_id: str,
    *,
    size: int = 0,
    leased: int = 0,
    completed: int = 0,
    queues: int = 0,
    active_queues: int = 0,
) -> urlfrontier_pb2.Stats:
    return urlfrontier_pb2.Stats(
        size=size,
        inProcess=leased,
        counts={"completed": completed, "active_queues": active_queues},
        numberOfQueues=queues,
        crawlID=crawl_id,
    )
