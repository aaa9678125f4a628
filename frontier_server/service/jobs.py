"""Jobs: started, listed, described, cancelled."""

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.core import Core
from ..core.rows.errors import InvalidRequest
from ..core.state.model import JobView
from .answers import AdminRpcs, Context, answered, fitting, operator_of, page_size, place_of

_LISTING = "jobs"


class JobRpcs(AdminRpcs):
    @answered
    async def StartJob(
        self, request: admin_pb2.StartJobRequest, context: Context
    ) -> admin_pb2.StartJobResponse:
        asked = wire.job_asked(request)
        if asked is None:
            raise InvalidRequest("job must be set to the work to do", field="job")
        kind, parameters = asked
        view = await self._runner.run(
            lambda core, now_ms: core.administration.start_job(
                request.crawl, kind, parameters, now_ms, operator_of(context)
            )
        )
        return admin_pb2.StartJobResponse(job=wire.job(view))

    @answered
    async def ListJobs(
        self, request: admin_pb2.ListJobsRequest, context: Context
    ) -> admin_pb2.ListJobsResponse:
        size = page_size(request.page_size)
        behind = int.from_bytes(place_of(_LISTING, request.page_token), "big")

        def question(core: Core, _: int) -> tuple[list[admin_pb2.Job], bytes]:
            views = [view for view in core.administration.jobs(request.crawl) if view.number > behind]

            def read(most: int) -> tuple[list[JobView], bytes]:
                more = len(views) > most
                return views[:most], views[most - 1].number.to_bytes(8, "big") if more else b""

            return fitting(read, size, wire.job)

        jobs, following = await self._runner.read(question)
        return admin_pb2.ListJobsResponse(jobs=jobs, next_page_token=wire.page_token(_LISTING, following))

    @answered
    async def GetJob(self, request: admin_pb2.GetJobRequest, context: Context) -> admin_pb2.GetJobResponse:
        view = await self._runner.read(lambda core, _: core.administration.job(request.crawl, request.job))
        return admin_pb2.GetJobResponse(job=wire.job(view))

    @answered
    async def CancelJob(
        self, request: admin_pb2.CancelJobRequest, context: Context
    ) -> admin_pb2.CancelJobResponse:
        view = await self._runner.run(
            lambda core, now_ms: core.administration.cancel_job(
                request.crawl, request.job, now_ms, operator_of(context)
            )
        )
        return admin_pb2.CancelJobResponse(job=wire.job(view))
