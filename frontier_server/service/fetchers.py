"""FrontierService: the RPCs of fetchers and feeders."""

import re
import time
from collections.abc import AsyncIterator, Sequence

from toehold.frontier.v1 import frontier_pb2, frontier_pb2_grpc
from toehold_base.serving.addresses import parsed_address

from .. import wire
from ..config import Config
from ..core.core import Core
from ..core.journey.dispatch import Want
from ..core.machines.lifecycle import Input
from ..core.rows.errors import InvalidRequest, UnknownCrawl
from ..core.state.kinds import offered
from ..core.state.model import CrawlView, check_batch
from ..core.state.nodes import MAX_ADDRESS_CHARACTERS
from ..shell.exchange import Exchange
from ..shell.priority_lock import go_first
from .answers import CRAWL_NUMBER_KEY, Context, answered, limits, operator_of, streamed
from .gate import present_call
from .traces import LeaseTraces, Tries

MAX_WAIT_S = 60.0
MAX_TOKEN_BYTES = 128
DEADLINE_MARGIN_S = 0.5

NODE_EXAMPLE = "192.0.2.7:7708"
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f:.]+(?:%[\w.-]+)?")  # a name or an address


class FrontierService(frontier_pb2_grpc.FrontierServiceServicer):
    """The RPCs of fetchers and feeders."""

    def __init__(self, exchange: Exchange, config: Config, traces: LeaseTraces | None = None) -> None:
        self._exchange = exchange
        self._traces = traces
        self._runner = exchange.runner
        self._config = config

    @answered
    async def Schedule(
        self, request: frontier_pb2.ScheduleRequest, context: Context
    ) -> frontier_pb2.ScheduleResponse:
        check_batch(len(request.candidates), "candidates")
        self._check_crawl(request.crawl, context)
        candidates = [wire.candidate(message) for message in request.candidates]
        before = self._runner.core.frontier.versions(request.crawl)
        verdicts = await self._exchange.schedule(request.crawl, candidates, request.replace)
        response = wire.verdicts(candidates, verdicts)
        after = self._runner.core.frontier.versions(request.crawl)
        response.scope_version = after.scope if after.scope == before.scope else b""
        response.seen_version = after.seen if after.seen == before.seen else b""
        return response

    def _check_crawl(self, name: str, context: Context) -> None:
        """Raise UnknownCrawl if a router means another crawl that has, or had, this name: its URIs may belong
        to other shards."""
        crawl = self._runner.core.shard.registry.names.get(name)
        metadata = context.invocation_metadata() or ()
        meant = next((str(value) for key, value in metadata if key == CRAWL_NUMBER_KEY), "")
        if meant and crawl is not None and meant != str(crawl.number):
            raise UnknownCrawl(
                f"crawl {name[:80]!r} has number {crawl.number} here, got {meant[:20]}; offer the URIs again",
                crawl=name[:80],
            )

    @answered
    async def Next(self, request: frontier_pb2.NextRequest, context: Context) -> frontier_pb2.NextResponse:
        wait_s = wait_of(request, context)
        want = want_of(request)
        tries = Tries() if self._traces is not None else None
        answer = await self._exchange.next(
            request.node,
            request.session,
            want,
            request.crawl or None,
            wait_s,
            tries,
            present_call().is_bound,
        )
        is_gone = bool(answer.grants) and context.done()
        if is_gone:
            await self._exchange.take_back(answer)
        response = wire.leases(answer.grants)
        if self._traces is not None and tries is not None and not is_gone:
            self._traces.granted(response.leases, request.node, tries.last_ns)
        if answer.empty_reason is not None:
            response.empty_reason = wire.EMPTY_REASONS[answer.empty_reason]
            # A hint, read outside operations: every idle node needs one with each answer.
            retry_ms = self._runner.core.frontier.retry_ms(
                request.crawl or None,
                want.kinds,
                answer,
                round(wait_s * 1000),
                self._runner.now_ms(),
            )
            response.retry_duration.CopyFrom(wire.duration(retry_ms))
        known = set(request.known_fetch_policy_ids)
        for grant in answer.grants:
            if grant.fetch_policy_id not in known:
                known.add(grant.fetch_policy_id)
                policy = self._runner.core.frontier.policy(grant.crawl, grant.fetch_policy_id)
                response.fetch_policies.append(wire.fetch_policy(policy))
        return response

    @answered
    async def Finished(
        self, request: frontier_pb2.FinishedRequest, context: Context
    ) -> frontier_pb2.FinishedResponse:
        check_batch(len(request.reports), "reports")
        began_ns = time.time_ns() if self._traces is not None else 0
        reports = [wire.report(message) for message in request.reports]
        call = present_call()
        results = await self._exchange.finished(
            reports, request.node, request.session, call.speaks_for, call.is_bound
        )
        response = wire.results(results)
        if self._traces is not None:
            self._traces.finished(request.reports, response.results, request.node, began_ns)
        return response

    @answered
    async def Heartbeat(
        self, request: frontier_pb2.HeartbeatRequest, context: Context
    ) -> frontier_pb2.HeartbeatResponse:
        tokens, steps = list(request.tokens), wire.toe_steps(request.toe_steps)
        check_tokens(tokens)
        _check_address(request.service_address)
        pool = wire.pool_statistics(request.pool) if request.HasField("pool") else None
        call, idle_crawls = present_call(), list(request.idle_crawls)
        answer = await self._runner.run(
            lambda core, now_ms: core.frontier.heartbeat(
                request.node,
                request.session,
                tokens,
                steps,
                now_ms,
                leaving=request.leaving,
                pool=pool,
                service_address=request.service_address,
                trouble=request.trouble,
                speaks_for=call.speaks_for,
                idle_crawls=idle_crawls,
                acts_on=call.acts_on,
            )
        )
        return frontier_pb2.HeartbeatResponse(
            ended_tokens=answer.ended,
            release_tokens=answer.release,
            interrupt_tokens=answer.interrupt,
            pool_size=answer.pool_size,
            drain=answer.drain,
            rival_session=answer.rival,
            ended_crawls=answer.ended_crawls,
            interval_duration=wire.duration(self._config.heartbeat_ms),
            lease_duration=wire.duration(self._config.lease_ms),
            limits=limits(),
        )

    @answered
    async def RequestState(
        self, request: frontier_pb2.RequestStateRequest, context: Context
    ) -> frontier_pb2.RequestStateResponse:
        go_first()
        target = wire.TARGETS.get(request.target_state)
        if target is None:
            raise InvalidRequest(
                f"target_state must be RUN, PAUSE, HOLD or FINISH, got {request.target_state}",
                field="target_state",
            )
        if target is Input.RESUME:
            self._runner.admit()  # without room on the disk it would be paused again at once
        by = operator_of(context)
        view = await self._runner.run(
            lambda core, now_ms: core.control.request_state(request.crawl, target, now_ms, by)
        )
        return frontier_pb2.RequestStateResponse(status=wire.crawl_status(view))

    async def present_state(self, crawl: str) -> frontier_pb2.RequestStateResponse | None:
        """How a crawl is now; None if it is gone."""
        try:
            view = await self._runner.read(lambda core, _: core.views.crawl(crawl))
        except UnknownCrawl:
            return None
        return frontier_pb2.RequestStateResponse(status=wire.crawl_status(view))

    @streamed
    async def StateEvents(
        self, request: frontier_pb2.StateEventsRequest, context: Context
    ) -> AsyncIterator[frontier_pb2.StateEventsResponse]:
        def look(core: Core, _: int) -> tuple[CrawlView, wire.Cursor]:
            view = core.views.crawl(request.crawl)
            return view, wire.Cursor(view.last_event, core.history.event_time(request.crawl, view.last_event))

        view, last = await self._runner.read(look)
        place = wire.event_place(request.cursor) if request.cursor else last
        if place is None:
            raise InvalidRequest(
                f"{request.cursor[:40]!r} is not a cursor of StateEvents; 'start' begins at the oldest",
                field="cursor",
            )
        if request.cursor == wire.START_CURSOR:
            place = wire.Cursor(view.oldest_event - 1, 0)
        cursor = wire.cursor(*place)
        yield frontier_pb2.StateEventsResponse(present=wire.crawl_status(view), cursor=cursor)
        await self._runner.read(lambda core, _: core.history.check_event(request.crawl, *place))
        async for found in self._exchange.following.events(request.crawl, place.number):
            if found is None:
                yield frontier_pb2.StateEventsResponse(cursor=cursor)
                continue
            event = wire.event(*found)
            cursor = event.cursor
            yield frontier_pb2.StateEventsResponse(event=event, cursor=cursor)


def want_of(request: frontier_pb2.NextRequest) -> Want:
    """What the caller of Next wants."""
    return Want(
        request.max_leases,
        request.max_leases_per_queue,
        request.max_queues,
        tuple(request.queues),
        offered(request.fetcher_kinds),
    )


def wait_of(request: frontier_pb2.NextRequest, context: Context) -> float:
    """How many seconds a call of Next may wait."""
    wait_s = min(max(wire.milliseconds(request.wait_duration) / 1000, 0), MAX_WAIT_S)
    remaining_s: float | None = context.time_remaining()
    return wait_s if remaining_s is None else max(min(wait_s, remaining_s - DEADLINE_MARGIN_S), 0)


def check_tokens(tokens: Sequence[bytes]) -> None:
    """Raise InvalidRequest for a token that no frontier has given out."""
    for place, token in enumerate(tokens):
        if len(token) > MAX_TOKEN_BYTES:
            raise InvalidRequest(
                f"tokens[{place}] must have at most {MAX_TOKEN_BYTES} bytes, got {len(token)}", field="tokens"
            )


def _check_address(address: str) -> None:
    """Raise InvalidRequest for an address of a NodeService that operators' clients could not use, or that
    would lead them to a socket in the file system."""
    if not address or len(address) > MAX_ADDRESS_CHARACTERS:  # the core cuts it
        return
    try:
        right = _HOST.fullmatch(parsed_address(address, NODE_EXAMPLE).host) is not None
    except ValueError:
        right = False
    if not right:
        raise InvalidRequest(
            f"service_address must be HOST:PORT, such as {NODE_EXAMPLE}, got {address!r:.200}",
            field="service_address",
        )
