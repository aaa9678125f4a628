"""ImportUris over all shards: a stream to each shard that gets URIs, and one job of the coordinator's.

Nothing is taken in unless all shards answer when all rows are on their way: only then the streams are
completed. If a shard goes away at that very moment, the others' parts are cancelled, and what they have taken
in by then stays.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

from toehold.frontier.v1 import admin_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2

from .. import wire
from ..core.core import Core
from ..core.rows.errors import FrontierError
from ..core.rows.records import ImportRow
from ..core.state.job import JobState
from ..core.state.model import JobView
from ..service.answers import Context
from ..service.imports import Importing
from ..shards.links import Link, Links, Relayed, Upload, passed_on_of
from .answers import routed
from .loads import TELL_LOAD
from .over_shards import SERVICE, OverShards
from .places import Placing

CANCEL_S = 5.0
_IMPORT = f"{SERVICE}/ImportUris"


class RoutedImports(OverShards):
    """The RPC that takes in URIs by the million."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._importing: dict[Importing, _Parts] = {}  # while their rows come

    @routed
    async def ImportUris(
        self, requests: AsyncIterator[admin_pb2.ImportUrisRequest], context: Context
    ) -> admin_pb2.ImportUrisResponse:
        return await super().ImportUris(requests, context)

    async def _begin(self, crawl: str, force: bool, by: str) -> tuple[Importing, int]:
        importing, mark = await super()._begin(crawl, force, by)
        self._importing[importing] = _Parts(self._links, self._placing_of(crawl), crawl, force, by)
        return importing, mark

    async def _add(self, importing: Importing, rows: Sequence[ImportRow]) -> None:
        importing.check(self._runner.core)
        await self._coordination.count_received(importing.crawl, importing.job, len(rows))
        await self._importing[importing].add(rows)

    async def _end(self, importing: Importing) -> JobView:
        parts = self._importing.pop(importing)

        def job(core: Core, now_ms: int) -> JobView:
            importing.check(core)
            return core.administration.job(importing.crawl, importing.job)

        try:
            view = await self._runner.read(job)
            if view.state != JobState.RECEIVING.value:  # somebody has cancelled it
                await parts.cancel()
                return view
            begun = await parts.complete()
        except BaseException:
            await parts.cancel()
            with suppress(FrontierError):  # the crawl is gone, or has ended
                await super()._cancel(importing)
            raise
        view = await self._coordination.begin_import(importing.crawl, importing.job, begun)
        if view.finish_ms:  # somebody has cancelled it meanwhile
            await parts.cancel()
        return view

    async def _cancel(self, importing: Importing) -> JobView:
        parts = self._importing.pop(importing, None)
        if parts is not None:
            await parts.cancel()
        return await super()._cancel(importing)


class _Parts:
    """The parts of an import."""

    def __init__(self, links: Links, placing: Placing, crawl: str, force: bool, by: str) -> None:
        self._links = links
        self._placing = placing
        self._crawl = crawl
        self._force = force
        self._metadata = passed_on_of(by)
        self._streams: dict[int, Upload[admin_pb2.ImportUrisResponse]] = {}
        self._counts: dict[int, int] = {}
        self._begun: dict[int, int] = {}  # the numbers of the jobs of parts that are complete

    async def add(self, rows: Sequence[ImportRow]) -> None:
        """Send entries to their shards."""
        places: dict[int, list[admin_pb2.ImportEntry]] = {}
        for row in rows:
            offered = frontier_pb2.Candidate.FromString(row.record)
            shard = self._placing.shard(offered.uri, offered.base)
            places.setdefault(shard, []).append(_entry(row, offered))
        for shard, entries in sorted(places.items()):
            link, stream = self._links[shard], self._streams.get(shard)
            request = admin_pb2.ImportUrisRequest(entries=entries)
            if stream is None:
                stream = link.upload(_IMPORT, admin_pb2.ImportUrisResponse, self._metadata)
                self._streams[shard] = stream
                request.crawl, request.force = self._crawl, self._force
            await link.while_there(stream.send(request))
            self._counts[shard] = self._counts.get(shard, 0) + len(entries)

    async def complete(self) -> dict[int, tuple[int, int]]:
        """Complete all streams: the number of each part's job, and of its rows."""
        links = [self._links[shard] for shard in sorted(self._streams)]

        async def answers(link: Link) -> None:
            await link.call(TELL_LOAD, shard_pb2.TellLoadRequest(), shard_pb2.TellLoadResponse)

        await self._links.of_all(answers, links)  # else one that stands still would take its part in later
        for link in links:
            if link.away:
                raise link.absence()

        async def end(number: int) -> None:
            stream = self._streams[number]
            await stream.send(admin_pb2.ImportUrisRequest(complete=True))
            self._begun[number] = (await stream.answer()).job.job

        await self._links.of_all(lambda link: link.while_there(end(link.number)), links)
        return {shard: (job, self._counts[shard]) for shard, job in sorted(self._begun.items())}

    async def cancel(self) -> None:
        """Break the streams off, and cancel the jobs that have begun."""
        for stream in self._streams.values():
            stream.cancel()
        for shard, number in self._begun.items():
            request = admin_pb2.CancelJobRequest(crawl=self._crawl, job=number)
            method, kind = f"{SERVICE}/CancelJob", admin_pb2.CancelJobResponse
            with suppress(Relayed, FrontierError):  # it has ended, or its shard is away
                await self._links[shard].call(method, request, kind, CANCEL_S, self._metadata)


def _entry(row: ImportRow, offered: frontier_pb2.Candidate) -> admin_pb2.ImportEntry:
    """The entry that a row was made of."""
    if not row.seen:
        return admin_pb2.ImportEntry(candidate=offered)
    final = wire.disposition(row.disposition)
    seen = admin_pb2.SeenUri(uri=offered.uri, fetch_status=row.fetch_status, disposition=final)
    return admin_pb2.ImportEntry(seen=seen)
