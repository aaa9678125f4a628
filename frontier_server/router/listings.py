"""Listings of several shards: one order, one token.

Most go shard after shard, and a token is the number of a shard and that shard's own token. What several
shards know under one name is merged: all of them list it in the order of one key, and a token is a key."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from google.protobuf.message import Message

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.rows.errors import InvalidRequest
from ..core.rows.keys import FetchStatisticsOf
from ..core.uri.assign import hash64
from ..service.answers import PAGE_BYTES, Context, fitting_count, page_size, place_of
from ..shards.links import Relayed
from .answers import routed, routed_stream
from .merges import added_statistics
from .over_shards import OverShards

M = TypeVar("M", bound=Message)

SHARD_BYTES = 2  # of a token: which shard continues
_EXPORT = "export of all shards"
_SOURCES_OF_ONE = f"statistics {FetchStatisticsOf.SOURCE}"
_SOURCES = "sources of all shards"


def token_of(listing: str, shard: int, token: str) -> str:
    """The token that continues a listing in a shard, after the shard's own token (empty: from its start)."""
    return wire.page_token(listing, shard.to_bytes(SHARD_BYTES, "big") + bytes.fromhex(token))


def shard_and_token(place: bytes, shards: int) -> tuple[int, str] | None:
    """The shard that continues after a token's place, and its own token; None if there is no such shard."""
    shard = int.from_bytes(place[:SHARD_BYTES], "big")
    return (shard, place[SHARD_BYTES:].hex()) if shard < shards else None


def merged_page(
    pages: Sequence[Sequence[admin_pb2.FetchStatistics]], more: Sequence[bool], size: int
) -> tuple[list[admin_pb2.FetchStatistics], bytes]:
    """A page of sources from one of each shard, and the place of its last one; no place if none follows.

    `more` says which shards have further ones: what comes after the last that such a shard has told is not
    known yet.
    """
    tables: list[Mapping[bytes, admin_pb2.FetchStatistics]] = [
        {place_of_source(each.name): each for each in page} for page in pages
    ]
    ends = [max(table) for table, has_more in zip(tables, more, strict=True) if has_more and table]
    known = sorted({place for table in tables for place in table if not ends or place <= min(ends)})
    added = [added_statistics([table[place] for table in tables if place in table]) for place in known[:size]]
    page = added[: fitting_count(added)]
    taken = known[: len(page)]
    following = any(more) or len(taken) < len(known)
    return page, taken[-1] if taken and following else b""


def place_of_source(name: str) -> bytes:
    """The place of a source among the sources of a shard."""
    return hash64(name) + name.encode()


class RoutedListings(OverShards):
    """RPCs that list what shards have."""

    async def _in_turn(
        self, method: str, request: Any, kind: type[M], items: str, listing: str, context: Context
    ) -> M:
        """A page of a listing that goes from shard to shard. `items` is the name of the page's list.

        A queue that is asked for need not be in all shards, but in one.
        """
        size, listing = page_size(request.page_size), f"{listing} of all shards"
        token, shards = str(request.page_token), len(self._links)
        at = shard_and_token(place_of(listing, token), shards) if token else (0, "")
        if at is None:
            message = f"page_token {token[:40]!r} is of another number of shards; leave it out to begin again"
            raise InvalidRequest(message, field="page_token")
        await self._check_known(request.crawl)
        page: Any = kind()
        found = getattr(page, items)
        shard, own = at
        refusals: list[Relayed] = []
        while True:
            request.page_size, request.page_token = size - len(found), own
            try:
                answer: Any = await self._ask(self._links[shard], method, request, kind, context)
            except Relayed as refusal:
                if refusal.reason != "UNKNOWN_QUEUE":
                    raise
                refusals.append(refusal)
                answer = kind()
            if found and page.ByteSize() + answer.ByteSize() > PAGE_BYTES:
                break
            found.extend(getattr(answer, items))
            own = answer.next_page_token
            shard += not own
            if own or len(found) == size or shard == shards:
                break
        if len(refusals) == shards:
            raise refusals[0]
        if shard < shards:
            page.next_page_token = token_of(listing, shard, own)
        whole: M = page
        return whole

    @routed
    async def ListQueues(
        self, request: admin_pb2.ListQueuesRequest, context: Context
    ) -> admin_pb2.ListQueuesResponse:
        kind, listing = admin_pb2.ListQueuesResponse, f"queues {request.state}"
        return await self._in_turn("ListQueues", request, kind, "queues", listing, context)

    @routed
    async def ListSeenUris(
        self, request: admin_pb2.ListSeenUrisRequest, context: Context
    ) -> admin_pb2.ListSeenUrisResponse:
        kind, listing = admin_pb2.ListSeenUrisResponse, f"seen {wire.seen_filter(request.filter)}"
        return await self._in_turn("ListSeenUris", request, kind, "uris", listing, context)

    @routed
    async def ListHosts(
        self, request: admin_pb2.ListHostsRequest, context: Context
    ) -> admin_pb2.ListHostsResponse:
        return await self._in_turn(
            "ListHosts", request, admin_pb2.ListHostsResponse, "hosts", "hosts", context
        )

    @routed
    async def ListSources(
        self, request: admin_pb2.ListSourcesRequest, context: Context
    ) -> admin_pb2.ListSourcesResponse:
        size, place = page_size(request.page_size), place_of(_SOURCES, request.page_token)
        await self._check_known(request.crawl)
        asked = admin_pb2.ListSourcesRequest(
            crawl=request.crawl, page_size=size, page_token=wire.page_token(_SOURCES_OF_ONE, place)
        )
        answers = await self._of_shards("ListSources", asked, admin_pb2.ListSourcesResponse, context)
        more = [bool(answer.next_page_token) for answer in answers]
        page, following = merged_page([answer.sources for answer in answers], more, size)
        return admin_pb2.ListSourcesResponse(
            sources=page, next_page_token=wire.page_token(_SOURCES, following)
        )

    @routed
    async def ListUris(
        self, request: admin_pb2.ListUrisRequest, context: Context
    ) -> admin_pb2.ListUrisResponse:
        kind, listing = admin_pb2.ListUrisResponse, f"uris {request.queue_key}"
        return await self._in_turn("ListUris", request, kind, "uris", listing, context)

    @routed_stream
    async def ExportUris(
        self, request: admin_pb2.ExportUrisRequest, context: Context
    ) -> AsyncIterator[admin_pb2.ExportUrisResponse]:
        cursor, shards = request.cursor, len(self._links)
        place = wire.place_of(_EXPORT, cursor) if cursor not in ("", wire.END_CURSOR) else b""
        at = (0, "") if not place else shard_and_token(place, shards)
        if place is None or at is None:
            raise InvalidRequest(
                f"{cursor[:40]!r} is not a cursor of ExportUris; leave it out to begin", field="cursor"
            )
        await self._check_known(request.crawl)
        if cursor == wire.END_CURSOR:
            return
        first, own = at
        for shard in range(first, shards):
            asked = admin_pb2.ExportUrisRequest(crawl=request.crawl, cursor=own if shard == first else "")
            kind = admin_pb2.ExportUrisResponse
            answers = self._stream(self._links[shard], "ExportUris", asked, kind, context)
            async with aclosing(answers):
                async for message in answers:
                    if message.cursor != wire.END_CURSOR:
                        message.cursor = token_of(_EXPORT, shard, message.cursor)
                    elif shard + 1 < shards:
                        message.cursor = token_of(_EXPORT, shard + 1, "")
                    if message.uris or message.cursor == wire.END_CURSOR:
                        yield message
