"""The two services: per RPC decode, call, encode. No rules."""

import functools
import importlib.metadata
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import Message

from toehold.frontier.v1 import admin_pb2, admin_pb2_grpc, crawl_pb2, frontier_pb2, frontier_pb2_grpc

from . import status, wire
from .config import Config
from .core.canonical import MAX_URI_BYTES, Malformed, TooLong, UnsupportedScheme, canonical
from .core.errors import BatchTooLarge, FrontierError, InvalidRequest, invalid_spec
from .core.frontier import Frontier, check_batch
from .core.model import MAX_BATCH, EmptyReason, Verdict
from .core.spec_problems import problems
from .core.store import Changes
from .crawl_log import CrawlLogs
from .runner import Closing, Refused, Runner

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
MAX_WAIT_S = 60.0
DEADLINE_MARGIN_S = 0.5
DEFAULT_PAGE, MAX_PAGE = 100, 1000
MAX_REJECTED_SHOWN = 100
MIN_RETRY_MS, OTHER_RETRY_MS, MAX_RETRY_MS = 50, 2_000, 60_000

Context = grpc.aio.ServicerContext[Any, Any]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


def version() -> str:
    """The version of what is installed."""
    return importlib.metadata.version("toehold-crawler")


async def _abort(context: Context, problem: FrontierError | Refused | Closing) -> NoReturn:
    """End an RPC with the status of a refusal."""
    if isinstance(problem, FrontierError):
        code, message, trailer = status.of_error(problem)
    elif isinstance(problem, Refused):
        code, message, trailer = status.status(
            grpc.StatusCode.RESOURCE_EXHAUSTED, problem.reason, str(problem), retry_ms=problem.retry_ms
        )
    else:
        code, message, trailer = status.status(grpc.StatusCode.UNAVAILABLE, problem.reason, str(problem))
    await context.abort(code, message, trailer)


def _answered(handler: Handler) -> Handler:
    """A unary handler whose refusals become statuses."""

    @functools.wraps(handler)
    async def wrapper(self: object, request: Any, context: Context) -> Any:
        try:
            if isinstance(request, Message):  # a stream of them checks each
                _check_size(request)
            return await handler(self, request, context)
        except (FrontierError, Refused, Closing) as problem:
            await _abort(context, problem)

    return wrapper  # type: ignore[return-value]  # same signature


def _check_size(message: Any) -> None:
    size = message.ByteSize()
    if size > MAX_MESSAGE_BYTES:
        raise BatchTooLarge(
            f"a message of {size} bytes; at most {MAX_MESSAGE_BYTES} are taken", limit=str(MAX_MESSAGE_BYTES)
        )


def limits() -> frontier_pb2.Limits:
    """The server's limits, as published."""
    return frontier_pb2.Limits(
        max_candidates=MAX_BATCH,
        max_reports=MAX_BATCH,
        max_message_bytes=MAX_MESSAGE_BYTES,
        max_uri_bytes=MAX_URI_BYTES,
    )


class FrontierService(frontier_pb2_grpc.FrontierServiceServicer):
    """What fetchers need."""

    def __init__(self, runner: Runner, config: Config) -> None:
        self._runner = runner
        self._config = config

    @_answered
    async def Schedule(
        self, request: frontier_pb2.ScheduleRequest, context: Context
    ) -> frontier_pb2.ScheduleResponse:
        check_batch(len(request.candidates), "candidates")
        candidates = [wire.candidate(message) for message in request.candidates]
        verdicts = await self._runner.schedule(request.crawl, candidates)
        return frontier_pb2.ScheduleResponse(verdicts=[wire.VERDICTS[verdict] for verdict in verdicts])

    @_answered
    async def Next(self, request: frontier_pb2.NextRequest, context: Context) -> frontier_pb2.NextResponse:
        wait_s = min(max(wire.milliseconds(request.wait_duration) / 1000, 0), MAX_WAIT_S)
        remaining_s = context.time_remaining()
        if remaining_s is not None:
            wait_s = max(min(wait_s, remaining_s - DEADLINE_MARGIN_S), 0)
        runner = self._runner
        answer = await runner.next(
            request.node, request.session, request.max_leases, request.crawl or None, wait_s
        )
        if answer.grants and context.done():
            await runner.take_back(answer)
        response = frontier_pb2.NextResponse(leases=[wire.lease(grant) for grant in answer.grants])
        if answer.empty_reason is not None:
            response.empty_reason = wire.EMPTY_REASONS[answer.empty_reason]
            response.retry_duration.CopyFrom(wire.duration(await self._retry_ms(answer.empty_reason, wait_s)))
        known = set(request.known_fetch_policy_ids)
        for grant in answer.grants:
            if grant.fetch_policy_id not in known:
                known.add(grant.fetch_policy_id)
                policy = runner.frontier.policy(grant.crawl, grant.fetch_policy_id)
                response.fetch_policies.append(wire.fetch_policy(policy))
        return response

    async def _retry_ms(self, reason: EmptyReason, waited_s: float) -> int:
        if waited_s >= 1 and reason is not EmptyReason.FINISHED:
            return MIN_RETRY_MS  # who waits here hears at once of what comes, and loses no time between
        if reason is not EmptyReason.NOTHING_DUE:
            return OTHER_RETRY_MS

        def until_due(frontier: Any, now_ms: int) -> int | None:
            due_ms: int | None = frontier.next_due_ms()
            return None if due_ms is None else due_ms - now_ms

        due_ms = await self._runner.read(until_due)
        return MAX_RETRY_MS if due_ms is None else min(max(due_ms, MIN_RETRY_MS), MAX_RETRY_MS)

    @_answered
    async def Finished(
        self, request: frontier_pb2.FinishedRequest, context: Context
    ) -> frontier_pb2.FinishedResponse:
        check_batch(len(request.reports), "reports")
        reports = [wire.report(message) for message in request.reports]
        results = await self._runner.finished(reports, request.node, request.session)
        return frontier_pb2.FinishedResponse(results=[wire.report_result(result) for result in results])

    @_answered
    async def Heartbeat(
        self, request: frontier_pb2.HeartbeatRequest, context: Context
    ) -> frontier_pb2.HeartbeatResponse:
        tokens, steps = list(request.tokens), wire.toe_steps(request.toe_steps)
        answer = await self._runner.run(
            lambda frontier, now_ms: frontier.heartbeat(request.node, request.session, tokens, steps, now_ms)
        )
        return frontier_pb2.HeartbeatResponse(
            ended_tokens=answer.ended,
            release_tokens=answer.release,
            interval_duration=wire.duration(self._config.heartbeat_ms),
            lease_duration=wire.duration(self._config.lease_ms),
            limits=limits(),
        )

    @_answered
    async def RequestState(
        self, request: frontier_pb2.RequestStateRequest, context: Context
    ) -> frontier_pb2.RequestStateResponse:
        target = wire.TARGETS.get(request.target_state)
        if target is None:
            raise InvalidRequest(
                f"target_state {request.target_state} is none of RUN, PAUSE and FINISH", field="target_state"
            )
        view = await self._runner.run(
            lambda frontier, now_ms: frontier.request_state(request.crawl, target, now_ms)
        )
        return frontier_pb2.RequestStateResponse(status=wire.crawl_status(view))

    async def StateEvents(
        self, request: frontier_pb2.StateEventsRequest, context: Context
    ) -> AsyncIterator[frontier_pb2.StateEventsResponse]:
        try:
            _check_size(request)
            view = await self._runner.read(lambda frontier, _: frontier.crawl(request.crawl))
            sequence = wire.sequence_of(request.cursor) if request.cursor else view.last_event
            if sequence is None:
                raise InvalidRequest(
                    f"{request.cursor[:40]!r} is no cursor of StateEvents; 'start' begins at the oldest",
                    field="cursor",
                )
            if request.cursor == wire.START_CURSOR:
                sequence = max(sequence, view.oldest_event - 1)
            yield frontier_pb2.StateEventsResponse(
                present=wire.crawl_status(view), cursor=wire.cursor(sequence)
            )
            async for found in self._runner.events(request.crawl, sequence):
                if found is None:
                    yield frontier_pb2.StateEventsResponse(cursor=wire.cursor(sequence))
                    continue
                sequence, row = found
                yield frontier_pb2.StateEventsResponse(
                    event=wire.event(sequence, row), cursor=wire.cursor(sequence)
                )
        except (FrontierError, Closing) as problem:
            await _abort(context, problem)


class FrontierAdminService(admin_pb2_grpc.FrontierAdminServiceServicer):
    """What operators and controllers need."""

    def __init__(self, runner: Runner, config: Config, logs: CrawlLogs, start_ms: int) -> None:
        self._runner = runner
        self._config = config
        self._logs = logs
        self._start_ms = start_ms

    @_answered
    async def CreateCrawl(
        self, request: admin_pb2.CreateCrawlRequest, context: Context
    ) -> admin_pb2.CreateCrawlResponse:
        settings = wire.settings_of(request.spec)
        if found := wire.spec_problems(request.spec):
            raise invalid_spec(found | problems(settings))
        spec = request.spec.SerializeToString()
        view = await self._runner.run(
            lambda frontier, now_ms: frontier.create_crawl(request.crawl, settings, spec, now_ms)
        )
        return admin_pb2.CreateCrawlResponse(crawl=wire.crawl(view))

    @_answered
    async def AddSeeds(
        self, requests: AsyncIterator[admin_pb2.AddSeedsRequest], context: Context
    ) -> admin_pb2.AddSeedsResponse:
        response = admin_pb2.AddSeedsResponse()
        number = 0
        crawl: str | None = None
        async for request in requests:
            check_batch(len(request.uris), "seeds")
            _check_size(request)
            if crawl is not None and request.crawl != crawl:
                raise InvalidRequest(f"crawl {request.crawl[:80]!r} in a stream for {crawl!r}", field="crawl")
            crawl = request.crawl
            good: list[str] = []
            for uri in request.uris:
                number += 1
                verdict = _seed_verdict(uri)
                if verdict is None:
                    good.append(uri)
                    continue
                response.rejected_count += 1
                if len(response.rejected) < MAX_REJECTED_SHOWN:
                    response.rejected.add(uri=uri[:200], number=number, verdict=wire.VERDICTS[verdict])
            if good:
                self._runner.admit()
                await self._runner.run(functools.partial(_add_seeds, crawl, good))
                response.added_count += len(good)
        if crawl is None:
            check_batch(0, "seeds")
        else:
            known = crawl
            await self._runner.read(
                lambda frontier, _: frontier.crawl(known)
            )  # UNKNOWN_CRAWL if all were rejected
        return response

    @_answered
    async def LaunchCrawl(
        self, request: admin_pb2.LaunchCrawlRequest, context: Context
    ) -> admin_pb2.LaunchCrawlResponse:
        view = await self._runner.run(lambda frontier, now_ms: frontier.launch(request.crawl, now_ms))
        return admin_pb2.LaunchCrawlResponse(status=wire.crawl_status(view))

    @_answered
    async def GetCrawl(
        self, request: admin_pb2.GetCrawlRequest, context: Context
    ) -> admin_pb2.GetCrawlResponse:
        view = await self._runner.read(lambda frontier, _: frontier.crawl(request.crawl))
        return admin_pb2.GetCrawlResponse(crawl=wire.crawl(view))

    @_answered
    async def ListCrawls(
        self, request: admin_pb2.ListCrawlsRequest, context: Context
    ) -> admin_pb2.ListCrawlsResponse:
        size = _page_size(request.page_size)
        views = await self._runner.read(
            lambda frontier, _: frontier.crawls_after(request.page_token, size + 1)
        )
        return admin_pb2.ListCrawlsResponse(
            crawls=[wire.crawl(view) for view in views[:size]],
            next_page_token=views[size - 1].name if len(views) > size else "",
        )

    @_answered
    async def DeleteCrawl(
        self, request: admin_pb2.DeleteCrawlRequest, context: Context
    ) -> admin_pb2.DeleteCrawlResponse:
        await self._runner.run(lambda frontier, now_ms: frontier.delete_crawl(request.crawl, now_ms))
        self._logs.forget(request.crawl)
        return admin_pb2.DeleteCrawlResponse()

    @_answered
    async def GetStatistics(
        self, request: admin_pb2.GetStatisticsRequest, context: Context
    ) -> admin_pb2.GetStatisticsResponse:
        figures, view = await self._runner.read(
            lambda frontier, now_ms: (
                frontier.statistics(request.crawl, now_ms),
                frontier.crawl(request.crawl),
            )
        )
        return admin_pb2.GetStatisticsResponse(
            statistics=wire.statistics(figures), status=wire.crawl_status(view)
        )

    @_answered
    async def ListQueues(
        self, request: admin_pb2.ListQueuesRequest, context: Context
    ) -> admin_pb2.ListQueuesResponse:
        size = _page_size(request.page_size)
        state = wire.QUEUE_STATES_BY_NUMBER.get(request.state)
        if state is None and request.state != crawl_pb2.QUEUE_STATE_UNSPECIFIED:
            raise InvalidRequest(f"state {request.state} is no QueueState", field="state")
        try:
            cursor = bytes.fromhex(request.page_token)
        except ValueError as problem:
            raise InvalidRequest("page_token is not one of ListQueues", field="page_token") from problem
        views, following = await self._runner.read(
            lambda frontier, _: frontier.administration.queues(request.crawl, state, size, cursor)
        )
        return admin_pb2.ListQueuesResponse(
            queues=[wire.queue(view) for view in views], next_page_token=following.hex()
        )

    @_answered
    async def GetFrontier(
        self, request: admin_pb2.GetFrontierRequest, context: Context
    ) -> admin_pb2.GetFrontierResponse:
        nodes = await self._runner.read(lambda frontier, _: frontier.nodes())
        return admin_pb2.GetFrontierResponse(
            version=version(),
            start_time=wire.timestamp(self._start_ms),
            limits=limits(),
            nodes=[wire.node(view) for view in nodes],
            lease_duration=wire.duration(self._config.lease_ms),
        )


def _add_seeds(crawl: str, uris: list[str], frontier: Frontier, now_ms: int) -> tuple[None, Changes]:
    return frontier.add_seeds(crawl, uris, now_ms)


def register(server: grpc.aio.Server, runner: Runner, config: Config, logs: CrawlLogs, start_ms: int) -> None:
    """Let a server serve both services."""
    frontier = FrontierService(runner, config)
    frontier_pb2_grpc.add_FrontierServiceServicer_to_server(frontier, server)
    admin = FrontierAdminService(runner, config, logs, start_ms)
    admin_pb2_grpc.add_FrontierAdminServiceServicer_to_server(admin, server)


def service_names() -> list[str]:
    """The full names of both services."""
    files = (frontier_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)
    return [file.services_by_name[name].full_name for file in files for name in file.services_by_name]


def _page_size(asked: int) -> int:
    if not 0 <= asked <= MAX_PAGE:
        raise InvalidRequest(f"page_size is {asked}; 1 to {MAX_PAGE} can be asked for", field="page_size")
    return asked or DEFAULT_PAGE


def _seed_verdict(uri: str) -> Verdict | None:
    """Why a URI cannot be a seed; None if it can."""
    try:
        canonical(uri)
    except TooLong:
        return Verdict.TOO_LONG
    except UnsupportedScheme:
        return Verdict.UNSUPPORTED_SCHEME
    except Malformed:
        return Verdict.MALFORMED
    return None
