"""Statistics of hosts and sources, the stories of seeds, and why something is not being fetched."""

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.core import Core
from ..core.rows.errors import InvalidRequest
from ..core.rows.keys import FetchStatisticsOf
from ..core.state.model import SeedView
from .answers import AdminRpcs, Context, answered, fitting, page_size, place_of

SEEDS_PER_PAGE = 100  # each seed's story takes several reads
_SEEDS = "seeds"


class StatisticsRpcs(AdminRpcs):
    """RPCs on a crawl's results."""

    @answered
    async def ListHosts(
        self, request: admin_pb2.ListHostsRequest, context: Context
    ) -> admin_pb2.ListHostsResponse:
        hosts, following = await self._statistics_page(
            request.crawl, FetchStatisticsOf.HOST, request.page_size, request.page_token
        )
        return admin_pb2.ListHostsResponse(hosts=hosts, next_page_token=following)

    @answered
    async def ListSources(
        self, request: admin_pb2.ListSourcesRequest, context: Context
    ) -> admin_pb2.ListSourcesResponse:
        sources, following = await self._statistics_page(
            request.crawl, FetchStatisticsOf.SOURCE, request.page_size, request.page_token
        )
        return admin_pb2.ListSourcesResponse(sources=sources, next_page_token=following)

    async def _statistics_page(
        self, crawl: str, kind: FetchStatisticsOf, size_wanted: int, token: str
    ) -> tuple[list[admin_pb2.FetchStatistics], str]:
        size, listing = page_size(size_wanted), f"statistics {kind}"
        place = place_of(listing, token)

        def question(core: Core, _: int) -> tuple[list[admin_pb2.FetchStatistics], bytes]:
            statistics = core.administration.fetch_statistics
            return fitting(lambda most: statistics(crawl, kind, most, place), size, wire.fetch_statistics)

        page, following = await self._runner.read(question)
        return page, wire.page_token(listing, following)

    @answered
    async def ListSeeds(
        self, request: admin_pb2.ListSeedsRequest, context: Context
    ) -> admin_pb2.ListSeedsResponse:
        size = min(page_size(request.page_size), SEEDS_PER_PAGE)
        place = place_of(_SEEDS, request.page_token)
        behind = int.from_bytes(place[:7], "big")

        def question(core: Core, now_ms: int) -> tuple[list[admin_pb2.Seed], bytes]:
            def read(most: int) -> tuple[list[SeedView], bytes]:
                seeds, following = core.administration.seeds(request.crawl, most, behind, now_ms)
                return seeds, following.to_bytes(7, "big") if following else b""

            return fitting(read, size, wire.seed)

        seeds, following = await self._runner.read(question)
        return admin_pb2.ListSeedsResponse(seeds=seeds, next_page_token=wire.page_token(_SEEDS, following))

    @answered
    async def ListRefusals(
        self, request: admin_pb2.ListRefusalsRequest, context: Context
    ) -> admin_pb2.ListRefusalsResponse:
        rules = await self._runner.read(
            lambda core, _: core.administration.refusals(request.crawl, request.rule)
        )
        return admin_pb2.ListRefusalsResponse(rules=[wire.refusal_rule(rule) for rule in rules])

    @answered
    async def Explain(self, request: admin_pb2.ExplainRequest, context: Context) -> admin_pb2.ExplainResponse:
        subject = request.WhichOneof("subject")
        if subject is not None and not getattr(request, subject):
            raise InvalidRequest(f"{subject} must not be empty", field=subject)
        reasons = await self._runner.read(
            lambda core, now_ms: core.administration.explain(
                request.crawl, request.queue_key, request.uri, now_ms
            )
        )
        return admin_pb2.ExplainResponse(reasons=[wire.reason(told) for told in reasons])
