"""Crawler nodes, which call all shards.

How many toe threads a node should have is in the coordinator's store alone, and goes into the answers to
heartbeats from there. Whether a node is to end is known to the shards that were there when it was asked for;
one that says so is enough.
"""

import asyncio

from toehold.frontier.v1 import admin_pb2

from ..core.rows.errors import ShardAway
from ..service.answers import Context, operator_of
from ..shards.links import check_present
from .answers import routed
from .loads import loads_of
from .merges import merged_nodes
from .over_shards import OverShards

_UNKNOWN = "UNKNOWN_NODE"


class RoutedNodes(OverShards):
    """RPCs on crawler nodes, and on the frontier itself."""

    @routed
    async def GetFrontier(
        self, request: admin_pb2.GetFrontierRequest, context: Context
    ) -> admin_pb2.GetFrontierResponse:
        whole = await super().GetFrontier(request, context)
        loads, nodes = await asyncio.gather(loads_of(self._links, self._coordination), self._nodes(context))
        del whole.nodes[:]  # the coordinator has their names, and hears of none of them
        whole.nodes.extend(nodes)
        whole.shards.extend(load.shard for load in loads)
        return whole

    async def _nodes(self, context: Context) -> list[admin_pb2.Node]:
        """The nodes as the shards that are there know them: each node calls them all."""
        asked, kind = admin_pb2.GetFrontierRequest(), admin_pb2.GetFrontierResponse
        try:
            answers = await self._of_present("GetFrontier", asked, kind, context)
        except ShardAway:  # no shard is there, as their list tells
            return []
        nodes = merged_nodes([answer.nodes for answer in answers])
        for node in nodes:
            size = self._coordination.pool_size_of(node.node)
            if size is not None:
                node.pool_size = size
        return nodes

    @routed
    async def DrainNode(
        self, request: admin_pb2.DrainNodeRequest, context: Context
    ) -> admin_pb2.DrainNodeResponse:
        drains = any(node.node == request.node and node.draining for node in await self._nodes(context))
        kind, present = admin_pb2.DrainNodeResponse, self._links.present or self._links.all
        await self._of_those_that_know("DrainNode", request, kind, context, _UNKNOWN, present)
        if not drains:
            await self._coordination.record_drain(request.node, operator_of(context))
        return kind()

    @routed
    async def ForgetNode(
        self, request: admin_pb2.ForgetNodeRequest, context: Context
    ) -> admin_pb2.ForgetNodeResponse:
        check_present(self._links.all)  # a shard that was away would list it again
        kind = admin_pb2.ForgetNodeResponse
        await self._of_those_that_know("ForgetNode", request, kind, context, _UNKNOWN)
        return kind()
