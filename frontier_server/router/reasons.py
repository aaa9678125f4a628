"""Why something is not being fetched, over all shards.

The reasons of a crawl's life are the coordinator's, since the parts only follow it. A shard that is away is a
reason of its own for all that belongs to it.
"""

from collections.abc import Mapping, Sequence

from toehold.frontier.v1 import admin_pb2

from ..core.rows.errors import InvalidRequest, ShardAway
from ..service.answers import Context
from ..shards.links import Link, Relayed
from .answers import routed
from .merges import OF_LIFE, OF_THE_WHOLE, merged_reasons
from .over_shards import OverShards

_Told = list[tuple[int, Sequence[admin_pb2.Reason]]]


class RoutedReasons(OverShards):
    """The RPC on reasons."""

    @routed
    async def Explain(self, request: admin_pb2.ExplainRequest, context: Context) -> admin_pb2.ExplainResponse:
        subject = request.WhichOneof("subject")
        if subject is not None and not getattr(request, subject):
            raise InvalidRequest(f"{subject} must not be empty", field=subject)
        whole = await super().Explain(admin_pb2.ExplainRequest(crawl=request.crawl), context)
        links = [self._shard_of(request.crawl, request.uri)] if subject == "uri" else self._links.all
        told, away = await self._told(request, context, links)
        kinds = OF_LIFE if subject is None else OF_LIFE - OF_THE_WHOLE
        life = [reason for reason in whole.reasons if reason.why in kinds]
        parked = self._coordination.parked(request.crawl)
        absences = [
            admin_pb2.Reason(why=admin_pb2.WHY_SHARD_AWAY, message=_absence(link, parked)) for link in away
        ]
        reasons = merged_reasons(life, told, of_all=subject is None)
        return admin_pb2.ExplainResponse(reasons=[*life, *absences, *reasons])

    async def _told(
        self, request: admin_pb2.ExplainRequest, context: Context, links: Sequence[Link]
    ) -> tuple[_Told, list[Link]]:
        """What shards say, with the number of each, and the shards that say nothing. A queue that none has is
        refused, unless a shard that may have it is away."""
        away: list[Link] = []
        refusals: list[Relayed] = []

        async def ask(link: Link) -> tuple[int, Sequence[admin_pb2.Reason]]:
            try:
                answer = await self._ask(link, "Explain", request, admin_pb2.ExplainResponse, context)
            except ShardAway:
                away.append(link)
                return link.number, ()
            except Relayed as refusal:
                if refusal.reason != "UNKNOWN_QUEUE":
                    raise
                refusals.append(refusal)
                return link.number, ()
            return link.number, answer.reasons

        told = await self._links.of_all(ask, links)
        if len(refusals) == len(links):
            raise refusals[0]
        return told, sorted(away, key=lambda link: link.number)


def _absence(link: Link, parked: Mapping[int, int]) -> str:
    links = parked.get(link.number, 0)
    waiting = f"; {links} link{'s' if links > 1 else ''} of this crawl wait{'' if links > 1 else 's'} for it"
    return f"{link.absence()}{waiting if links else ''}"
