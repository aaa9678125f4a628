"""URIs: listed, described, noted as seen and forgotten, exported as a stream."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.core import Core
from ..core.journey.kept import SeenFilter
from ..core.operators.administration import Administration, some_uris
from ..core.rows.errors import InvalidRequest
from ..core.rows.store import Changes
from ..core.state.model import SeenCounts, check_batch
from .answers import (
    MAX_PAGE,
    AdminRpcs,
    Context,
    answered,
    fitting,
    operator_of,
    page_size,
    place_of,
    streamed,
)

URIS_PER_SLICE = 100
_EXPORT = "export"


class UriRpcs(AdminRpcs):
    @answered
    async def ListUris(
        self, request: admin_pb2.ListUrisRequest, context: Context
    ) -> admin_pb2.ListUrisResponse:
        size = page_size(request.page_size)
        listing = f"uris {request.queue_key}"
        place = place_of(listing, request.page_token)
        uris, following = await self._uri_page(request.crawl, request.queue_key, size, place)
        return admin_pb2.ListUrisResponse(uris=uris, next_page_token=wire.page_token(listing, following))

    async def _uri_page(
        self, crawl: str, queue_key: str, size: int, place: bytes
    ) -> tuple[list[admin_pb2.WaitingUri], bytes]:
        def question(core: Core, _: int) -> tuple[list[admin_pb2.WaitingUri], bytes]:
            uris = core.administration.uris
            return fitting(lambda most: uris(crawl, queue_key, most, place), size, wire.waiting_uri)

        return await self._runner.read(question)

    @answered
    async def GetUri(self, request: admin_pb2.GetUriRequest, context: Context) -> admin_pb2.GetUriResponse:
        view = await self._runner.read(
            lambda core, now_ms: core.administration.story(request.crawl, request.uri, now_ms)
        )
        return admin_pb2.GetUriResponse(story=wire.story(view))

    @answered
    async def NoteUris(
        self, request: admin_pb2.NoteUrisRequest, context: Context
    ) -> admin_pb2.NoteUrisResponse:
        check_batch(len(request.uris), "uris")
        self._runner.admit()
        record_seen: Callable[..., tuple[int, Changes]] = Administration.record_seen
        if request.replace:
            record_seen = functools.partial(record_seen, replace=True)
        noted = await self._in_slices(record_seen, request.crawl, request.uris, context, request.queue_keys)
        return admin_pb2.NoteUrisResponse(noted_count=noted)

    @answered
    async def ForgetUris(
        self, request: admin_pb2.ForgetUrisRequest, context: Context
    ) -> admin_pb2.ForgetUrisResponse:
        check_batch(len(request.uris), "uris")
        forgotten = await self._in_slices(Administration.forget_seen, request.crawl, request.uris, context)
        return admin_pb2.ForgetUrisResponse(forgotten_count=forgotten)

    @answered
    async def ListSeenUris(
        self, request: admin_pb2.ListSeenUrisRequest, context: Context
    ) -> admin_pb2.ListSeenUrisResponse:
        size, wanted = page_size(request.page_size), wire.seen_filter(request.filter)
        listing = f"seen {wanted}"
        place = place_of(listing, request.page_token)

        def question(core: Core, now_ms: int) -> tuple[list[admin_pb2.UriStory], bytes]:
            seen = core.administration.seen_uris
            return fitting(lambda most: seen(request.crawl, wanted, most, place, now_ms), size, wire.story)

        uris, following = await self._runner.read(question)
        return admin_pb2.ListSeenUrisResponse(uris=uris, next_page_token=wire.page_token(listing, following))

    @answered
    async def CountSeenUris(
        self, request: admin_pb2.CountSeenUrisRequest, context: Context
    ) -> admin_pb2.CountSeenUrisResponse:
        wanted, total, place, more = wire.seen_filter(request.filter), SeenCounts(), b"", True
        while more:
            found, place = await self._runner.read(functools.partial(_counted, request.crawl, wanted, place))
            total, more = total + found, bool(place)
            await asyncio.sleep(0)  # others go in between
        return wire.seen_counts(total)

    async def _in_slices(
        self,
        change: Callable[..., tuple[int, Changes]],
        crawl: str,
        uris: Sequence[str],
        context: Context,
        queue_keys: Sequence[str] = (),
    ) -> int:
        """Check all URIs, then change the seen-set in slices, with others in between; how many changed."""
        await self._runner.read(lambda core, _: core.administration.check_uris(crawl, uris, queue_keys))
        by, told, changed, mark = operator_of(context), some_uris(uris), 0, 0
        for start in range(0, len(uris), URIS_PER_SLICE):
            end = start + URIS_PER_SLICE
            of_keys = functools.partial(change, queue_keys=queue_keys[start:end]) if queue_keys else change
            call = functools.partial(_changed, of_keys, crawl, uris[start:end], by, told)
            count, mark = await self._runner.apply(call)
            changed += count
            by = ""  # one event for all slices
            await asyncio.sleep(0)
        await self._runner.durable(mark)
        return changed

    @streamed
    async def ExportUris(
        self, request: admin_pb2.ExportUrisRequest, context: Context
    ) -> AsyncIterator[admin_pb2.ExportUrisResponse]:
        cursor = request.cursor
        while cursor != wire.END_CURSOR:
            place = wire.place_of(_EXPORT, cursor)
            if place is None:
                raise InvalidRequest(
                    f"{cursor[:40]!r} is not a cursor of ExportUris; leave it out to begin", field="cursor"
                )
            uris, following = await self._uri_page(request.crawl, "", MAX_PAGE, place)
            cursor = wire.page_token(_EXPORT, following) or wire.END_CURSOR
            yield admin_pb2.ExportUrisResponse(uris=uris, cursor=cursor)
        # UNKNOWN_CRAWL also for a reader whose cursor is the end.
        await self._runner.read(lambda core, _: core.views.crawl(request.crawl))


def _counted(
    crawl: str, wanted: SeenFilter, place: bytes, core: Core, now_ms: int
) -> tuple[SeenCounts, bytes]:
    return core.administration.seen_counts(crawl, wanted, place)


def _changed(
    change: Callable[..., tuple[int, Changes]],
    crawl: str,
    uris: Sequence[str],
    by: str,
    told: str,
    core: Core,
    now_ms: int,
) -> tuple[int, Changes]:
    return change(core.administration, crawl, uris, now_ms, by, told)
