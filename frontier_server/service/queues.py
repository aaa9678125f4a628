"""Work queues: listed, described, changed."""

from toehold.frontier.v1 import admin_pb2, crawl_pb2

from .. import wire
from ..core.core import Core
from ..core.rows.errors import InvalidRequest
from .answers import AdminRpcs, Context, answered, fitting, operator_of, page_size, place_of


class QueueRpcs(AdminRpcs):
    @answered
    async def ListQueues(
        self, request: admin_pb2.ListQueuesRequest, context: Context
    ) -> admin_pb2.ListQueuesResponse:
        size = page_size(request.page_size)
        state = wire.QUEUE_STATES_BY_NUMBER.get(request.state)
        if state is None and request.state != crawl_pb2.QUEUE_STATE_UNSPECIFIED:
            raise InvalidRequest(f"state must be a QueueState, got {request.state}", field="state")
        listing = f"queues {request.state}"
        place = place_of(listing, request.page_token)

        def question(core: Core, _: int) -> tuple[list[admin_pb2.WorkQueue], bytes]:
            queues = core.administration.queues
            return fitting(lambda most: queues(request.crawl, state, most, place), size, wire.queue)

        queues, following = await self._runner.read(question)
        return admin_pb2.ListQueuesResponse(
            queues=queues, next_page_token=wire.page_token(listing, following)
        )

    @answered
    async def GetQueue(
        self, request: admin_pb2.GetQueueRequest, context: Context
    ) -> admin_pb2.GetQueueResponse:
        views = await self._runner.read(
            lambda core, _: core.administration.queue(request.crawl, request.queue_key)
        )
        return admin_pb2.GetQueueResponse(queues=[wire.queue(view) for view in views])

    @answered
    async def UpdateQueue(
        self, request: admin_pb2.UpdateQueueRequest, context: Context
    ) -> admin_pb2.UpdateQueueResponse:
        change = wire.queue_change(request.change)
        views = await self._runner.run(
            lambda core, now_ms: core.administration.change_queue(
                request.crawl, request.queue_key, change, now_ms, operator_of(context)
            )
        )
        return admin_pb2.UpdateQueueResponse(queues=[wire.queue(view) for view in views])

    @answered
    async def ListLargestQueues(
        self, request: admin_pb2.ListLargestQueuesRequest, context: Context
    ) -> admin_pb2.ListLargestQueuesResponse:
        views = await self._runner.read(lambda core, _: core.administration.largest_queues(request.crawl))
        return admin_pb2.ListLargestQueuesResponse(queues=[wire.queue(view) for view in views])

    @answered
    async def ListSlowestQueues(
        self, request: admin_pb2.ListSlowestQueuesRequest, context: Context
    ) -> admin_pb2.ListSlowestQueuesResponse:
        views = await self._runner.read(lambda core, _: core.administration.slowest_queues(request.crawl))
        return admin_pb2.ListSlowestQueuesResponse(queues=[wire.queue(view) for view in views])
