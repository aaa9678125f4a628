"""Crawls as a whole: created, seeded, launched, described, deleted; the server itself."""

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence

from toehold.frontier.v1 import admin_pb2, crawl_pb2

from .. import wire
from ..core.core import Core
from ..core.journey.intake import parse
from ..core.operators.control import Amended
from ..core.rows.errors import InvalidRequest, invalid_spec
from ..core.rows.store import Changes
from ..core.state.meaning import problems, read_ahead
from ..core.state.model import MAX_BATCH, CrawlView, Verdict, check_batch
from .answers import (
    FRAME_BYTES,
    PAGE_BYTES,
    AdminRpcs,
    Context,
    answered,
    limits,
    operator_of,
    page_size,
    version,
)
from .secrets import restore_secrets

MAX_REJECTED_SHOWN = 100
CRAWLS_AT_ONCE = 20  # of a page


class CrawlRpcs(AdminRpcs):
    def _name(self, crawl: str) -> asyncio.Lock:
        """The lock of a crawl's name, needed to create or delete a crawl and its logs."""
        return self._names.setdefault(crawl, asyncio.Lock())

    @answered
    async def CreateCrawl(
        self, request: admin_pb2.CreateCrawlRequest, context: Context
    ) -> admin_pb2.CreateCrawlResponse:
        restore_secrets(request.spec, crawl_pb2.FetchSpec())  # a copy of another crawl may lack them
        settings = wire.settings_of(request.spec)
        await asyncio.to_thread(read_ahead, settings)  # a large one takes a while
        if found := wire.spec_problems(request.spec):
            raise invalid_spec({**found, **problems(settings)})
        spec = request.spec.SerializeToString()
        by = operator_of(context)
        async with self._name(request.crawl):
            view = await self._runner.run(
                lambda core, now_ms: core.control.create_crawl(request.crawl, settings, spec, now_ms, by)
            )
        return admin_pb2.CreateCrawlResponse(crawl=wire.crawl(view))

    @answered
    async def AddSeeds(
        self, requests: AsyncIterator[admin_pb2.AddSeedsRequest], context: Context
    ) -> admin_pb2.AddSeedsResponse:
        response = admin_pb2.AddSeedsResponse()
        number = 0
        crawl: str | None = None
        async for request in requests:
            check_batch(len(request.uris), "seeds")
            if crawl is not None and request.crawl != crawl:
                raise InvalidRequest(
                    f"crawl must be {crawl!r} in the whole stream, got {request.crawl[:80]!r}", field="crawl"
                )
            crawl = request.crawl
            await self._take_seeds(response, crawl, request.uris, number, context)
            number += len(request.uris)
        if crawl is None:
            check_batch(0, "seeds")
        return response

    @answered
    async def AddSeedBatch(
        self, request: admin_pb2.AddSeedBatchRequest, context: Context
    ) -> admin_pb2.AddSeedBatchResponse:
        check_batch(len(request.uris), "seeds")
        response = admin_pb2.AddSeedBatchResponse()
        await self._take_seeds(response.result, request.crawl, request.uris, 0, context)
        return response

    async def _take_seeds(
        self,
        response: admin_pb2.AddSeedsResponse,
        crawl: str,
        uris: Sequence[str],
        before: int,
        context: Context,
    ) -> None:
        """Store the seeds of a message, and note those that are rejected. `before` seeds came before them."""
        good: list[str] = []
        for number, uri in enumerate(uris, before + 1):
            # The URL standard drops line ends and escapes blanks: of two URLs it would make another one.
            parsed = parse(uri) if len(uri.split()) == 1 else Verdict.MALFORMED
            if not isinstance(parsed, Verdict):
                good.append(uri)
                continue
            response.rejected_count += 1
            if len(response.rejected) < MAX_REJECTED_SHOWN:
                response.rejected.add(uri=uri[:200], number=number, verdict=wire.VERDICTS[parsed])
        if good:
            self._runner.admit()
            by = "" if response.added_count else operator_of(context)  # one event for a whole stream
            await self._runner.run(functools.partial(_add_seeds, crawl, good, by))
            response.added_count += len(good)
        else:
            await self._runner.read(lambda core, _: core.views.crawl(crawl))  # UNKNOWN_CRAWL

    @answered
    async def LaunchCrawl(
        self, request: admin_pb2.LaunchCrawlRequest, context: Context
    ) -> admin_pb2.LaunchCrawlResponse:
        self._runner.admit()
        by = operator_of(context)
        if request.checkpoint:
            await asyncio.to_thread(self._checkpoints.open, request.checkpoint)  # it takes a while
        view = await self._runner.run(
            lambda core, now_ms: core.control.launch(
                request.crawl, now_ms, by, request.checkpoint, request.checkpoint_crawl
            )
        )
        return admin_pb2.LaunchCrawlResponse(status=wire.crawl_status(view))

    @answered
    async def UpdateCrawl(
        self, request: admin_pb2.UpdateCrawlRequest, context: Context
    ) -> admin_pb2.UpdateCrawlResponse:
        if not request.update_mask.paths and not request.spec.ListFields():
            raise InvalidRequest(
                "spec and update_mask are empty; at least one setting must change", field="spec"
            )
        amended, by = await self._amended(request), operator_of(context)
        view = await self._runner.run(
            lambda core, now_ms: core.control.update_crawl(request.crawl, amended, now_ms, by)
        )
        return admin_pb2.UpdateCrawlResponse(crawl=wire.crawl(view))

    @answered
    async def ReopenCrawl(
        self, request: admin_pb2.ReopenCrawlRequest, context: Context
    ) -> admin_pb2.ReopenCrawlResponse:
        self._runner.admit()
        amended, by = await self._amended(request), operator_of(context)
        recrawls = request.HasField("recrawl_before_time")
        recrawl_ms = max(wire.moment_ms(request.recrawl_before_time), 1) if recrawls else 0
        view = await self._runner.run(
            lambda core, now_ms: core.control.reopen(
                request.crawl, amended, request.pause, now_ms, by, recrawl_ms
            )
        )
        return admin_pb2.ReopenCrawlResponse(crawl=wire.crawl(view))

    async def _amended(self, request: admin_pb2.UpdateCrawlRequest | admin_pb2.ReopenCrawlRequest) -> Amended:
        """The change of settings that is asked for; its large settings are read already."""
        if found := wire.spec_problems(request.spec):
            raise invalid_spec(found)
        paths = list(request.update_mask.paths)
        if len(paths) > MAX_BATCH:
            check_batch(len(paths), "paths")

        def amended(spec: bytes) -> tuple[bytes, Sequence[str]]:
            change = crawl_pb2.CrawlSpec()
            change.CopyFrom(request.spec)
            restore_secrets(change, crawl_pb2.CrawlSpec.FromString(spec).fetch)
            try:
                made, _ = wire.amended(spec, change, paths)
            except ValueError as problem:
                raise InvalidRequest(str(problem), field="update_mask") from None
            return made, wire.differences(spec, made)

        known = await self._runner.read(lambda core, _: core.views.crawl(request.crawl))
        await asyncio.to_thread(lambda: read_ahead(wire.settings_with(amended(known.spec)[0], ())))
        return amended

    @answered
    async def TearDownCrawl(
        self, request: admin_pb2.TearDownCrawlRequest, context: Context
    ) -> admin_pb2.TearDownCrawlResponse:
        by = operator_of(context)
        view, begun = await self._runner.run(
            lambda core, now_ms: core.control.tear_down(request.crawl, now_ms, by)
        )
        return admin_pb2.TearDownCrawlResponse(status=wire.crawl_status(view), begun=begun)

    @answered
    async def GetCrawl(
        self, request: admin_pb2.GetCrawlRequest, context: Context
    ) -> admin_pb2.GetCrawlResponse:
        view = await self._runner.read(lambda core, _: core.views.crawl(request.crawl))
        return admin_pb2.GetCrawlResponse(crawl=wire.crawl(view))

    @answered
    async def ListCrawls(
        self, request: admin_pb2.ListCrawlsRequest, context: Context
    ) -> admin_pb2.ListCrawlsResponse:
        size = page_size(request.page_size)
        response = admin_pb2.ListCrawlsResponse()
        behind, room = request.page_token, PAGE_BYTES
        while len(response.crawls) < size:
            most = min(size - len(response.crawls), CRAWLS_AT_ONCE)
            views = await self._crawls_after(behind, most)
            for view in views:
                crawl = wire.crawl(view)
                room -= crawl.ByteSize() + FRAME_BYTES
                if room < 0 and response.crawls:
                    response.next_page_token = behind
                    return response
                response.crawls.append(crawl)
                behind = view.name
            if len(views) < most:
                return response
            await asyncio.sleep(0)  # others go in between
        if await self._crawls_after(behind, 1):
            response.next_page_token = behind
        return response

    async def _crawls_after(self, name: str, most: int) -> list[CrawlView]:
        return await self._runner.read(lambda core, _: core.views.crawls_after(name, most))

    @answered
    async def DeleteCrawl(
        self, request: admin_pb2.DeleteCrawlRequest, context: Context
    ) -> admin_pb2.DeleteCrawlResponse:
        await self._whoever_waits(self._delete(request.crawl, request.force))
        return admin_pb2.DeleteCrawlResponse()

    async def _delete(self, crawl: str, force: bool) -> None:
        async with self._name(crawl):
            await self._runner.run(lambda core, now_ms: core.control.delete_crawl(crawl, now_ms, force))
            await asyncio.to_thread(self._logs.forget, crawl)

    @answered
    async def GetStatistics(
        self, request: admin_pb2.GetStatisticsRequest, context: Context
    ) -> admin_pb2.GetStatisticsResponse:
        statistics, view = await self._runner.read(
            lambda core, now_ms: (
                core.views.statistics(request.crawl, now_ms),
                core.views.crawl(request.crawl),
            )
        )
        return admin_pb2.GetStatisticsResponse(
            statistics=wire.statistics(statistics), status=wire.crawl_status(view)
        )

    @answered
    async def GetFrontier(
        self, request: admin_pb2.GetFrontierRequest, context: Context
    ) -> admin_pb2.GetFrontierResponse:
        nodes = await self._runner.read(lambda core, now_ms: core.nodes.listed(now_ms))
        return admin_pb2.GetFrontierResponse(
            version=version(),
            start_time=wire.timestamp(self._start_ms),
            limits=limits(),
            nodes=[wire.node(view) for view in nodes],
            lease_duration=wire.duration(self._config.lease_ms),
        )

    @answered
    async def SetPoolSize(
        self, request: admin_pb2.SetPoolSizeRequest, context: Context
    ) -> admin_pb2.SetPoolSizeResponse:
        size = request.size if request.HasField("size") else None
        await self._runner.run(
            lambda core, now_ms: core.nodes.set_pool_size(request.node, size, now_ms, operator_of(context))
        )
        return admin_pb2.SetPoolSizeResponse()

    @answered
    async def DrainNode(
        self, request: admin_pb2.DrainNodeRequest, context: Context
    ) -> admin_pb2.DrainNodeResponse:
        by = operator_of(context)
        await self._runner.run(lambda core, now_ms: core.nodes.drain(request.node, now_ms, by))
        return admin_pb2.DrainNodeResponse()

    @answered
    async def ForgetNode(
        self, request: admin_pb2.ForgetNodeRequest, context: Context
    ) -> admin_pb2.ForgetNodeResponse:
        await self._runner.run(lambda core, now_ms: core.nodes.forget(request.node, now_ms))
        return admin_pb2.ForgetNodeResponse()


def _add_seeds(crawl: str, uris: list[str], by: str, core: Core, now_ms: int) -> tuple[None, Changes]:
    return core.control.add_seeds(crawl, uris, now_ms, by)
