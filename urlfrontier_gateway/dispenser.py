"""GetURLs: URLs that are due, of one crawl or of all, from so many queues and so many of each."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from toehold.frontier.v1.frontier_pb2 import EmptyReason, Lease
from toehold_client.errors import UnknownCrawl
from urlfrontier.urlfrontier_pb2 import GetParams

from . import queue_keys
from .crawl_ids import normalised
from .crawls import Crawls
from .items import url_info
from .leases import Leases
from .refusals import RefusedRequest

DEFAULT_HOLD_S = 30
"""URLFrontier's default: how long a client has a URL for itself."""

# The frontier's own limit of a crawl's leases in an answer.
_MAX_LEASES = 100
_MAX_A_QUEUE = 1000

Send: TypeAlias = Callable[[bytes], Awaitable[None]]


class UrlRequest(NamedTuple):
    """A client's request for URLs. `max_queues` 0 sets no limit."""

    queues: tuple[str, ...]
    max_queues: int
    max_a_queue: int
    hold_s: int


class Dispenser:
    """Leases URLs to clients."""

    def __init__(self, crawls: Crawls, leases: Leases) -> None:
        self._crawls, self._leases = crawls, leases
        self._turn = 0

    async def get(self, params: GetParams, send: Send) -> None:
        """Sends the URLs as they are leased, each as a message."""
        wanted = _wanted(params)
        await self._leases.hand_back_expired()
        for crawl_id in await self._crawl_ids(params):
            queue_count = await self._get_of(crawl_id, wanted, send)
            if wanted.max_queues:
                wanted = wanted._replace(max_queues=wanted.max_queues - queue_count)
                if wanted.max_queues <= 0:
                    return

    async def _crawl_ids(self, params: GetParams) -> list[str]:
        """The crawls to take URLs from, another one first at each call."""
        if params.HasField("crawlID"):
            return [normalised(params.crawlID)]
        if params.key:
            raise RefusedRequest("crawlID must be set when key is: a key belongs to one crawl")
        ids = await self._crawls.recent_ids()
        self._turn += 1
        first = self._turn % max(1, len(ids))
        return ids[first:] + ids[:first]

    async def _get_of(self, crawl_id: str, wanted: UrlRequest, send: Send) -> int:
        """Sends the URLs of one crawl; from how many queues they were."""
        keys: set[str] = set()
        left = wanted.max_queues
        while True:
            most = min(_MAX_LEASES, left * wanted.max_a_queue) if left else _MAX_LEASES
            try:
                answer = await self._leases.take(
                    crawl_id,
                    max_leases=most,
                    queues=wanted.queues,
                    max_queues=left,
                    max_a_queue=wanted.max_a_queue,
                )
            except UnknownCrawl:
                break
            if answer.empty_reason == EmptyReason.EMPTY_REASON_NOT_RUNNING:
                await self._crawls.launch(crawl_id)  # the gateway that put its URLs could not do so
            await self._send(crawl_id, answer.leases, wanted.hold_s, send)
            keys.update(lease.queue_key for lease in answer.leases)
            if not answer.leases:  # fewer than `most` may mean that the frontier has cut its answer
                break
            if wanted.max_queues:
                left = wanted.max_queues - len(keys)
                if left <= 0:
                    break
        return len(keys)

    async def _send(self, crawl_id: str, leases: Sequence[Lease], hold_s: int, send: Send) -> None:
        """Sends leased URLs. If the client goes away, the rest goes back."""
        until_s = time.monotonic() + hold_s
        infos = [url_info(lease.uri, lease.queue_key, lease.annotations, crawl_id) for lease in leases]
        held = [
            self._leases.hold(lease, info.url, until_s) for lease, info in zip(leases, infos, strict=True)
        ]
        sent = 0
        try:
            for info in infos:
                await send(info.SerializeToString())
                sent += 1
        finally:
            await self._leases.hand_back(held[sent:])


def _wanted(params: GetParams) -> UrlRequest:
    queues: tuple[str, ...] = ()
    if params.key:
        key = queue_keys.encoded(params.key)
        if not key:
            raise RefusedRequest(
                f"key must have at most {queue_keys.MAX_KEY_CHARS} characters, got {len(params.key)}"
            )
        queues = (key,)
    return UrlRequest(
        queues,
        # A key that stands for hosts of several domains is several queues of the frontier.
        max_queues=0 if queues else params.max_queues,
        max_a_queue=min(params.max_urls_per_queue or _MAX_A_QUEUE, _MAX_A_QUEUE),
        hold_s=params.delay_requestable or DEFAULT_HOLD_S,
    )
