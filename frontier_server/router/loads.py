"""The loads of all shards, and which of them are away."""

from toehold.frontier.v1 import admin_pb2
from toehold.shard.v1 import shard_pb2

from ..core.rows.errors import ShardAway
from ..shards.links import Link, Links, Relayed
from .coordination import Coordination

TELL_LOAD = "toehold.shard.v1.ShardService/TellLoad"
PATIENCE_S = 2.0
"""How long a shard may take to tell its load. It is told by memory alone."""
AWAY_PATIENCE_S = 0.5
"""How long one may take that is away."""


async def loads_of(
    links: Links, coordination: Coordination, asks_away: bool = False
) -> list[shard_pb2.TellLoadResponse]:
    """The load of each shard, in order. Of one that is away it has the number, and what waits for it; with
    `asks_away` also what the shard tells of its log, for which it may wait."""

    async def ask(link: Link) -> shard_pb2.TellLoadResponse:
        away = shard_pb2.TellLoadResponse(shard=admin_pb2.Shard(shard=link.number))
        if link.away and not asks_away:
            return away
        request, kind = shard_pb2.TellLoadRequest(), shard_pb2.TellLoadResponse
        try:
            told = await link.call(TELL_LOAD, request, kind, AWAY_PATIENCE_S if link.away else PATIENCE_S)
        except (ShardAway, Relayed):
            return away
        if link.away and told.HasField("log_facts"):
            away.log_facts.CopyFrom(told.log_facts)
        return away if link.away else told

    loads = await links.of_all(ask)
    for load in loads:
        load.shard.parked_link_count = coordination.parked_for(load.shard.shard)
    return loads
