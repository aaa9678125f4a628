"""Crawls as a whole: what the coordinator does, and shards have then."""

from collections.abc import Sequence

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.operators.control import Amended
from ..core.rows.errors import ShardAway, invalid_spec
from ..core.spec.settings import CrawlSettings
from ..service.answers import Context
from ..shards.links import Link
from .answers import routed
from .over_shards import OverShards
from .statistics import merge_statistics, statistics_of

SETTLE_S = 5.0  # for shards to have a crawl's new settings


class RoutedCrawls(OverShards):
    """RPCs on crawls as a whole."""

    @property
    def _by_site(self) -> bool:
        """Whether the hosts of a site are in one shard."""
        return self._runner.core.shard.places.by_site

    @routed
    async def CreateCrawl(
        self, request: admin_pb2.CreateCrawlRequest, context: Context
    ) -> admin_pb2.CreateCrawlResponse:
        _check(wire.settings_of(request.spec), self._by_site)
        async with self._sets:  # else a set may have parts of it, and not the whole
            answer = await super().CreateCrawl(request, context)
        await self._coordination.settled(request.crawl, SETTLE_S)
        return answer

    @routed
    async def LaunchCrawl(
        self, request: admin_pb2.LaunchCrawlRequest, context: Context
    ) -> admin_pb2.LaunchCrawlResponse:
        await self._coordination.refresh(request.crawl)  # URIs that wait count, too
        if not request.checkpoint:
            return await super().LaunchCrawl(request, context)
        async with self._sets:
            return await super().LaunchCrawl(request, context)

    @routed
    async def UpdateCrawl(
        self, request: admin_pb2.UpdateCrawlRequest, context: Context
    ) -> admin_pb2.UpdateCrawlResponse:
        answer = await super().UpdateCrawl(request, context)
        await self._coordination.settled(request.crawl, SETTLE_S)
        return answer

    async def _amended(self, request: admin_pb2.UpdateCrawlRequest | admin_pb2.ReopenCrawlRequest) -> Amended:
        amended = await super()._amended(request)

        def checked(spec: bytes) -> tuple[bytes, Sequence[str]]:
            made, differences = amended(spec)
            _check(wire.settings_with(made, ()), self._by_site)
            return made, differences

        return checked

    async def _delete(self, crawl: str, force: bool) -> None:
        async with self._sets:
            await super()._delete(crawl, force)
            await self._coordination.crawl_deleted()

    @routed
    async def PutOverride(
        self, request: admin_pb2.PutOverrideRequest, context: Context
    ) -> admin_pb2.PutOverrideResponse:
        answer = await super().PutOverride(request, context)
        await self._coordination.settled(request.crawl, SETTLE_S)
        return answer

    @routed
    async def DeleteOverride(
        self, request: admin_pb2.DeleteOverrideRequest, context: Context
    ) -> admin_pb2.DeleteOverrideResponse:
        answer = await super().DeleteOverride(request, context)
        await self._coordination.settled(request.crawl, SETTLE_S)
        return answer

    @routed
    async def GetStatistics(
        self, request: admin_pb2.GetStatisticsRequest, context: Context
    ) -> admin_pb2.GetStatisticsResponse:
        whole = await super().GetStatistics(request, context)
        away: list[int] = []

        async def ask(link: Link) -> admin_pb2.GetStatisticsResponse | None:
            try:
                return await self._ask(link, "GetStatistics", request, type(whole), context)
            except ShardAway:
                away.append(link.number)
                return None

        answers = await self._links.of_all(ask)
        known = self._coordination.last_known(request.crawl) if away else {}
        parts = [answer.statistics for answer in answers if answer is not None]
        parts += [statistics_of(known[shard]) for shard in sorted(away) if shard in known]
        merge_statistics(whole.statistics, parts)
        told = [f"shard {shard} is away" for shard in sorted(away)] + [whole.statistics.limited_by]
        whole.statistics.limited_by = "; ".join(each for each in told if each)
        return whole


def _check(settings: CrawlSettings, by_site: bool) -> None:
    """Raise InvalidSpec for settings that need counts of several shards at once, or that join hosts which are
    in several shards, if the store has its places not `by_site`."""
    counts = (
        ("limits.source_quota", settings.limits.source_quota, "what descends from a seed is in all of them"),
        ("address_group", settings.address_group, "the hosts of an address are in several of them"),
    )
    far = "an early version made the store, and hosts of one site may be in several of them"
    joins = (
        ("identity.rules", settings.identity.rules, far),
        ("identity.rewrites", settings.identity.rewrites, far),
        ("groups", settings.groups, far),
    )
    found = {
        path: f"must be left out on a frontier with several shards: {why}"
        for path, value, why in (counts if by_site else (*counts, *joins))
        if value != type(value)()
    }
    if found:
        raise invalid_spec(found)
