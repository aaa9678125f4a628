"""Work queues of all shards. One key may be in several: of an override, or of queues with buckets.

The largest and the slowest are those of the shards that are there: whoever watches a crawl goes on.
"""

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.jobs.steering import check
from ..service.answers import Context
from ..shards.links import check_present
from .answers import routed
from .merges import by_size, by_wake, first_queues
from .over_shards import OverShards

_UNKNOWN = "UNKNOWN_QUEUE"


class RoutedQueues(OverShards):
    """RPCs on work queues."""

    @routed
    async def GetQueue(
        self, request: admin_pb2.GetQueueRequest, context: Context
    ) -> admin_pb2.GetQueueResponse:
        await self._check_known(request.crawl)
        kind = admin_pb2.GetQueueResponse
        found = await self._of_those_that_know("GetQueue", request, kind, context, _UNKNOWN)
        return kind(queues=[queue for answer in found for queue in answer.queues])

    @routed
    async def UpdateQueue(
        self, request: admin_pb2.UpdateQueueRequest, context: Context
    ) -> admin_pb2.UpdateQueueResponse:
        await self._runner.read(lambda core, _: core.administration.check_changeable(request.crawl))
        check(wire.queue_change(request.change))
        check_present(self._links.all)
        kind = admin_pb2.UpdateQueueResponse
        changed = self._of_those_that_know("UpdateQueue", request, kind, context, _UNKNOWN)
        found = await self._recorded(request.crawl, "change-queue", request.queue_key, context, changed)
        return kind(queues=[queue for answer in found for queue in answer.queues])

    @routed
    async def ListLargestQueues(
        self, request: admin_pb2.ListLargestQueuesRequest, context: Context
    ) -> admin_pb2.ListLargestQueuesResponse:
        await self._check_known(request.crawl)
        kind = admin_pb2.ListLargestQueuesResponse
        found = await self._of_present("ListLargestQueues", request, kind, context)
        return kind(queues=first_queues([answer.queues for answer in found], by_size))

    @routed
    async def ListSlowestQueues(
        self, request: admin_pb2.ListSlowestQueuesRequest, context: Context
    ) -> admin_pb2.ListSlowestQueuesResponse:
        await self._check_known(request.crawl)
        kind = admin_pb2.ListSlowestQueuesResponse
        found = await self._of_present("ListSlowestQueues", request, kind, context)
        return kind(queues=first_queues([answer.queues for answer in found], by_wake))
