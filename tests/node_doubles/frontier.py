"""A frontier of a few lines over real gRPC: gives out the leases that a test chose, and remembers all
that it is told.

It can be stopped and started again on its port, and told what to answer.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import grpc
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import PATIENCE_S
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from node_doubles.leases import POLICY

from toehold.frontier.v1.crawl_pb2 import DISPOSITION_SUCCEEDED, VERDICT_QUEUED, FetchPolicy
from toehold.frontier.v1.frontier_pb2 import (
    EMPTY_REASON_NOTHING_DUE,
    OUTCOME_RELEASED,
    Candidate,
    FinishedRequest,
    FinishedResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    Lease,
    NextRequest,
    NextResponse,
    Report,
    ReportResult,
    RequestStateRequest,
    ScheduleRequest,
    ScheduleResponse,
    StateEventsRequest,
)
from toehold.frontier.v1.frontier_pb2_grpc import (
    FrontierServiceServicer,
    add_FrontierServiceServicer_to_server,
)

_Q = TypeVar("_Q")


@dataclass(frozen=True)
class Refusal(Exception):
    """What a call is answered with instead."""

    code: grpc.StatusCode
    reason: str


class FakeFrontier(FrontierServiceServicer):
    """Set `on_…` to refuse or to say something else than yes."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.candidates: list[Candidate] = []
        self.reports: list[Report] = []
        self.heartbeats: list[HeartbeatRequest] = []
        self.asked: list[NextRequest] = []
        self.on_next: Callable[[NextRequest], None] = lambda request: None
        self.on_schedule: Callable[[ScheduleRequest], None] = lambda request: None
        self.on_finished: Callable[[FinishedRequest], None] = lambda request: None
        self.on_heartbeat: Callable[[HeartbeatRequest], None] = lambda request: None
        self.ended: list[bytes] = []
        self.ended_crawls: list[str] = []
        self.to_release: list[bytes] = []
        self.to_interrupt: list[bytes] = []
        self.pool_size: int | None = None
        self.empty_reason = EMPTY_REASON_NOTHING_DUE
        self.lease_duration = Duration(seconds=30)
        self._changed = threading.Condition()
        self._waiting: list[Lease] = []
        self._server: grpc.Server | None = None
        self._port = KeptPort()
        self.address = self._port.address
        self.start()

    def start(self) -> None:
        server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        add_FrontierServiceServicer_to_server(self, server)
        server.add_insecure_port(self.address)
        server.start()
        self._server = server

    def stop(self) -> None:
        """Goes away at once, as a killed process does."""
        if self._server is not None:
            self._server.stop(grace=0)
            with self._changed:
                self._changed.notify_all()
            self._server.wait_for_termination(PATIENCE_S)
            self._server = None

    def give(self, *leases: Lease) -> None:
        with self._changed:
            self._waiting.extend(leases)
            self._changed.notify_all()

    def left(self) -> int:
        """How many leases nobody has asked for."""
        return len(self._waiting)

    def released(self) -> list[str]:
        return sorted(one.token.decode() for one in self.reports if one.outcome == OUTCOME_RELEASED)

    def goodbyes(self) -> int:
        """How often a node has said that it ends."""
        return sum(beat.leaving for beat in self.heartbeats)

    def put_off(self) -> list[str]:
        return sorted(token for token, status in self.statuses().items() if status == -50)

    def statuses(self) -> dict[str, int]:
        return {
            one.token.decode(): one.fetch_status for one in self.reports if one.outcome != OUTCOME_RELEASED
        }

    # the service

    def Next(self, request: NextRequest, context: grpc.ServicerContext) -> NextResponse:
        self.asked.append(request)
        self._obey(self.on_next, request, context)
        context.add_callback(self._wake)
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or not context.is_active(), request.wait_duration.seconds
            )
            if not self._waiting or not context.is_active():
                return NextResponse(empty_reason=self.empty_reason, retry_duration=Duration(nanos=1_000_000))
            given = self._waiting[: request.max_leases]
            del self._waiting[: request.max_leases]
        known = POLICY.policy_id in request.known_fetch_policy_ids
        return NextResponse(leases=given, fetch_policies=[] if known else [_policy()])

    def Schedule(self, request: ScheduleRequest, context: grpc.ServicerContext) -> ScheduleResponse:
        self._obey(self.on_schedule, request, context)
        self.order.append("schedule")
        self.candidates.extend(request.candidates)
        return ScheduleResponse(verdicts=[VERDICT_QUEUED] * len(request.candidates))

    def Finished(self, request: FinishedRequest, context: grpc.ServicerContext) -> FinishedResponse:
        self._obey(self.on_finished, request, context)
        self.order.append("finished")
        self.reports.extend(request.reports)
        return FinishedResponse(
            results=[ReportResult(disposition=DISPOSITION_SUCCEEDED)] * len(request.reports)
        )

    def Heartbeat(self, request: HeartbeatRequest, context: grpc.ServicerContext) -> HeartbeatResponse:
        self._obey(self.on_heartbeat, request, context)
        self.heartbeats.append(request)
        return HeartbeatResponse(
            ended_tokens=_among(self.ended, request.tokens),
            release_tokens=_among(self.to_release, request.tokens),
            interrupt_tokens=_among(self.to_interrupt, request.tokens),
            ended_crawls=[crawl for crawl in request.idle_crawls if crawl in self.ended_crawls],
            pool_size=self.pool_size,
            interval_duration=Duration(nanos=100_000_000),
            lease_duration=self.lease_duration,
        )

    def RequestState(self, request: RequestStateRequest, context: grpc.ServicerContext) -> NoReturn:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "nodes do not ask for states")

    def StateEvents(self, request: StateEventsRequest, context: grpc.ServicerContext) -> NoReturn:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "nodes do not follow events")

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _obey(self, rule: Callable[[_Q], None], request: _Q, context: grpc.ServicerContext) -> None:
        try:
            rule(request)
        except Refusal as refusal:
            _refuse(refusal, context)


def _refuse(refusal: Refusal, context: grpc.ServicerContext) -> NoReturn:
    detail = Any()
    detail.Pack(ErrorInfo(reason=refusal.reason, domain="toehold"))
    number: int = refusal.code.value[0]
    context.abort_with_status(
        rpc_status.to_status(Status(code=number, message=f"refused: {refusal.reason}", details=[detail]))
    )


def _among(tokens: Sequence[bytes], held: Sequence[bytes]) -> list[bytes]:
    return [token for token in tokens if token in held]


def _policy() -> FetchPolicy:
    return FetchPolicy(
        fetch_policy_id=POLICY.policy_id,
        user_agent=POLICY.user_agent,
        timeout=Duration(seconds=10),
        max_bytes=POLICY.max_bytes,
        allowed_addresses=["loopback"],
    )
