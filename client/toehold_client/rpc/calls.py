"""What each method of the clients says to a frontier, written once for both.

A procedure is a generator: it yields an `Attempt` to be made or a `Rest` to be taken, gets the answer (or the
error) back, and returns what its method returns. It touches no network and no clock of its own; `client`
drives it, blocking or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from toehold.frontier.v1.admin_pb2 import (
    Checkpoint,
    Crawl,
    CreateCheckpointRequest,
    CreateCrawlRequest,
    DeleteCheckpointRequest,
    DeleteCrawlRequest,
    DrainNodeRequest,
    GetCrawlRequest,
    GetCrawlResponse,
    GetFrontierRequest,
    GetFrontierResponse,
    GetStatisticsRequest,
    GetStatisticsResponse,
    LaunchCrawlRequest,
    ListCheckpointsRequest,
    ListCheckpointsResponse,
    ListCrawlsRequest,
    ListCrawlsResponse,
    SetPoolSizeRequest,
    TearDownCrawlRequest,
    TearDownCrawlResponse,
    UpdateCrawlRequest,
)
from toehold.frontier.v1.admin_pb2_grpc import FrontierAdminServiceStub
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus, TargetState, Verdict
from toehold.frontier.v1.frontier_pb2 import (
    Candidate,
    FinishedRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    NextRequest,
    NextResponse,
    PoolStatistics,
    Report,
    ReportResult,
    RequestStateRequest,
    RequestStateResponse,
    ScheduleRequest,
    ToeStepCount,
)
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub
from toehold.node.v1.node_pb2_grpc import NodeServiceStub
from toehold_client.errors import CrawlHeld, FrontierUnavailable, ToeholdError, UnexpectedAnswer

from .batches import split_messages
from .retry import Patience, Retries

PAGE_SIZE = 100

_Q = TypeVar("_Q", bound=Message)
_R = TypeVar("_R", bound=Message)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Stubs:
    """The services of one channel, sync or async: a frontier has the first two, a node the third."""

    frontier: FrontierServiceStub
    admin: FrontierAdminServiceStub
    node: NodeServiceStub


@dataclass(frozen=True, slots=True)
class Attempt(Generic[_Q, _R]):
    """One call to make; its deadline is the client's own and `wait_s` more."""

    pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]]
    request: _Q
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Rest:
    """A pause to take before going on."""

    seconds: float


Procedure: TypeAlias = Generator[Attempt[Any, Any] | Rest, Any, _T]


def call(
    pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]],
    request: _Q,
    patience: Patience,
    *,
    wait_s: float = 0.0,
    safe_to_repeat: bool = True,
) -> Procedure[_R]:
    """Makes one call, again and again while there is patience; its answer."""
    attempt = Attempt(pick, request, wait_s)
    return (yield from _persist(lambda: _one(attempt), patience, safe_to_repeat=safe_to_repeat))


def call_unless_done(
    pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]],
    request: _Q,
    done: Callable[[CrawlStatus], _R | None],
    crawl: str,
    patience: Patience,
) -> Procedure[_R]:
    """Makes one call that must not be made again once it was done.

    After a broken connection nobody knows, so then the crawl is looked at first: `done` gives the answer if
    its status shows that it was.
    """
    attempt, unknown = Attempt(pick, request), False

    def unless_done() -> Procedure[_R]:
        nonlocal unknown
        if unknown:
            found = yield from _one(_look(crawl))
            answer = done(found.crawl.status)
            if answer is not None:
                return answer
        try:
            return (yield from _one(attempt))
        except FrontierUnavailable:
            unknown = True
            raise

    return (yield from _persist(unless_done, patience))


def released(crawl: str, patience: Patience) -> Procedure[None]:
    """Waits, while there is patience, until the frontier is there, has the crawl, and does not hold it.

    For what can be sent only once.
    """

    def unless_held() -> Procedure[None]:
        found = yield from _one(_look(crawl))
        if found.crawl.status.held:
            raise CrawlHeld(
                f"crawl {crawl!r} is held: it takes nothing in until it is asked for another state",
                reason="CRAWL_HELD",
            )

    yield from _persist(unless_held, patience)


def _persist(
    attempt: Callable[[], Procedure[_T]], patience: Patience, *, safe_to_repeat: bool = True
) -> Procedure[_T]:
    retries = Retries(patience)
    while True:
        try:
            return (yield from attempt())
        except ToeholdError as error:
            rest_s = retries.rest_s(error, safe_to_repeat=safe_to_repeat)
            if rest_s is None:
                raise
        yield Rest(rest_s)


def _one(attempt: Attempt[_Q, _R]) -> Procedure[_R]:
    answer: _R = yield attempt
    return answer


def _look(crawl: str) -> Attempt[GetCrawlRequest, GetCrawlResponse]:
    return Attempt(lambda stubs: stubs.admin.GetCrawl, GetCrawlRequest(crawl=crawl))


# FrontierService


def schedule(
    crawl: str, candidates: Sequence[Candidate], patience: Patience
) -> Procedure[list[Verdict.ValueType]]:
    """Offers candidates, in as many requests as they need; the verdicts in their order."""
    verdicts: list[Verdict.ValueType] = []
    for batch in split_messages(candidates, envelope=ScheduleRequest(crawl=crawl)):
        request = ScheduleRequest(crawl=crawl, candidates=batch)
        answer = yield from call(lambda stubs: stubs.frontier.Schedule, request, patience)
        verdicts.extend(_one_for_each(batch, answer.verdicts))
    return verdicts


def next_leases(
    *,
    crawl: str,
    node: str,
    session: str,
    max_leases: int,
    wait_s: float,
    known_fetch_policy_ids: Collection[str],
    patience: Patience,
) -> Procedure[NextResponse]:
    """Asks for leases; the deadline leaves room for the wait."""
    request = NextRequest(
        crawl=crawl,
        node=node,
        session=session,
        max_leases=max_leases,
        wait_duration=duration(wait_s),
        known_fetch_policy_ids=known_fetch_policy_ids,
    )
    return (yield from call(lambda stubs: stubs.frontier.Next, request, patience, wait_s=wait_s))


def finished(
    reports: Sequence[Report], node: str, session: str, patience: Patience
) -> Procedure[list[ReportResult]]:
    """Hands reports in, in as many requests as they need; the results in their order."""
    results: list[ReportResult] = []
    for batch in split_messages(reports, envelope=FinishedRequest(node=node, session=session)):
        request = FinishedRequest(reports=batch, node=node, session=session)
        answer = yield from call(lambda stubs: stubs.frontier.Finished, request, patience)
        results.extend(_one_for_each(batch, answer.results))
    return results


def heartbeat(
    node: str,
    session: str,
    tokens: Collection[bytes],
    toe_steps: Mapping[str, int],
    patience: Patience,
    *,
    leaving: bool = False,
    pool: PoolStatistics | None = None,
    service_address: str = "",
    trouble: str = "",
) -> Procedure[HeartbeatResponse]:
    """Names the leases held."""
    steps = [ToeStepCount(step=step, count=count) for step, count in toe_steps.items()]
    request = HeartbeatRequest(
        node=node,
        session=session,
        tokens=tokens,
        toe_steps=steps,
        leaving=leaving,
        pool=pool,
        service_address=service_address,
        trouble=trouble,
    )
    return (yield from call(lambda stubs: stubs.frontier.Heartbeat, request, patience))


def request_state(crawl: str, target: TargetState.ValueType, patience: Patience) -> Procedure[CrawlStatus]:
    """Asks a crawl to reach a state. FINISH is asked for once, as a second time interrupts fetches."""
    request = RequestStateRequest(crawl=crawl, target_state=target)
    if target == TargetState.TARGET_STATE_FINISH:
        answer = yield from call_unless_done(_request_state, request, _ending, crawl, patience)
    else:
        answer = yield from call(_request_state, request, patience)
    return answer.status


def _request_state(
    stubs: Stubs,
) -> grpc.UnaryUnaryMultiCallable[RequestStateRequest, RequestStateResponse]:
    return stubs.frontier.RequestState


def _ending(status: CrawlStatus) -> RequestStateResponse | None:
    return RequestStateResponse(status=status) if status.state in _ENDING else None


_ENDING = frozenset((CrawlState.CRAWL_STATE_STOPPING, CrawlState.CRAWL_STATE_FINISHED))


# FrontierAdminService: crawls as a whole (their inside is in `admin_calls`)


def create_crawl(crawl: str, spec: CrawlSpec, patience: Patience) -> Procedure[Crawl]:
    """Creates a crawl. Not repeated after a broken connection: if it was done, repeating it is refused."""
    request = CreateCrawlRequest(crawl=crawl, spec=spec)
    answer = yield from call(lambda stubs: stubs.admin.CreateCrawl, request, patience, safe_to_repeat=False)
    return answer.crawl


def launch_crawl(
    crawl: str, checkpoint: str, checkpoint_crawl: str, patience: Patience
) -> Procedure[CrawlStatus]:
    """Launches a crawl."""
    answer = yield from call(
        lambda stubs: stubs.admin.LaunchCrawl,
        LaunchCrawlRequest(crawl=crawl, checkpoint=checkpoint, checkpoint_crawl=checkpoint_crawl),
        patience,
    )
    return answer.status


def get_crawl(crawl: str, patience: Patience) -> Procedure[Crawl]:
    """Describes a crawl."""
    answer = yield from call(lambda stubs: stubs.admin.GetCrawl, GetCrawlRequest(crawl=crawl), patience)
    return answer.crawl


def update_crawl(crawl: str, spec: CrawlSpec, paths: Collection[str], patience: Patience) -> Procedure[Crawl]:
    """Changes settings of a crawl; its description then."""
    request = UpdateCrawlRequest(crawl=crawl, spec=spec, update_mask=FieldMask(paths=paths))
    answer = yield from call(lambda stubs: stubs.admin.UpdateCrawl, request, patience)
    return answer.crawl


def tear_down_crawl(crawl: str, patience: Patience) -> Procedure[TearDownCrawlResponse]:
    """Tears a crawl down; asked for once, as a second time interrupts fetches."""
    request = TearDownCrawlRequest(crawl=crawl)
    return (yield from call_unless_done(_tear_down_crawl, request, _tearing_down, crawl, patience))


def _tear_down_crawl(
    stubs: Stubs,
) -> grpc.UnaryUnaryMultiCallable[TearDownCrawlRequest, TearDownCrawlResponse]:
    return stubs.admin.TearDownCrawl


def _tearing_down(status: CrawlStatus) -> TearDownCrawlResponse | None:
    asked = status.tearing_down or status.torn_down
    return TearDownCrawlResponse(status=status) if asked else None


def delete_crawl(crawl: str, patience: Patience) -> Procedure[None]:
    """Deletes a crawl."""
    yield from call(lambda stubs: stubs.admin.DeleteCrawl, DeleteCrawlRequest(crawl=crawl), patience)


def get_statistics(crawl: str, patience: Patience) -> Procedure[GetStatisticsResponse]:
    """Asks for a crawl's statistics."""
    request = GetStatisticsRequest(crawl=crawl)
    return (yield from call(lambda stubs: stubs.admin.GetStatistics, request, patience))


def get_frontier(patience: Patience) -> Procedure[GetFrontierResponse]:
    """Describes the server."""
    return (yield from call(lambda stubs: stubs.admin.GetFrontier, GetFrontierRequest(), patience))


def set_pool_size(node: str, size: int | None, patience: Patience) -> Procedure[None]:
    """Sets how many toe threads nodes have; None lets go of what was set."""
    request = SetPoolSizeRequest(node=node, size=size)
    yield from call(lambda stubs: stubs.admin.SetPoolSize, request, patience)


def drain_node(node: str, patience: Patience) -> Procedure[None]:
    """Asks a node to end in order."""
    yield from call(lambda stubs: stubs.admin.DrainNode, DrainNodeRequest(node=node), patience)


def create_checkpoint(patience: Patience) -> Procedure[Checkpoint]:
    """Makes a checkpoint. Not repeated after a broken connection: that might make another."""
    request = CreateCheckpointRequest()
    answer = yield from call(
        lambda stubs: stubs.admin.CreateCheckpoint, request, patience, safe_to_repeat=False
    )
    return answer.checkpoint


def checkpoints_page(page_token: str, patience: Patience) -> Procedure[ListCheckpointsResponse]:
    """One page of the checkpoints."""
    request = ListCheckpointsRequest(page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListCheckpoints, request, patience))


def delete_checkpoint(checkpoint: str, patience: Patience) -> Procedure[None]:
    """Deletes a checkpoint."""
    request = DeleteCheckpointRequest(checkpoint=checkpoint)
    yield from call(lambda stubs: stubs.admin.DeleteCheckpoint, request, patience)


class Page(Protocol):
    """A part of a listing."""

    @property
    def next_page_token(self) -> str:
        """Asks for the part after it; empty on the last."""


def crawls_page(page_token: str, patience: Patience) -> Procedure[ListCrawlsResponse]:
    """One page of the crawls."""
    request = ListCrawlsRequest(page_size=PAGE_SIZE, page_token=page_token)
    return (yield from call(lambda stubs: stubs.admin.ListCrawls, request, patience))


def duration(seconds: float) -> Duration:
    """The contract's form of a time in seconds."""
    whole = Duration()
    whole.FromNanoseconds(round(seconds * 1e9))
    return whole


def _one_for_each(items: Sequence[object], answers: Sequence[_T]) -> Sequence[_T]:
    if len(answers) != len(items):
        raise UnexpectedAnswer(f"the frontier gave {len(answers)} answers for {len(items)} items")
    return answers
