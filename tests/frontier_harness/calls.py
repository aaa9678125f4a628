"""What tests ask of a frontier over gRPC, in few words: specs, candidates, reports, and refusals read back.

Decides nothing and checks nothing: a test says what it expects.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from toehold.frontier.v1 import admin_pb2, admin_pb2_grpc, crawl_pb2, frontier_pb2, frontier_pb2_grpc

from .waiting import PATIENCE_S, eventually

TIMEOUT_S = PATIENCE_S
"""Of a call that is expected to be answered: a busy machine is slow, a frontier that hangs is wrong."""


def seconds(length_s: float) -> Duration:
    message = Duration()
    message.FromMilliseconds(round(length_s * 1000))
    return message


def spec(min_delay_s: float = 0, **more: object) -> crawl_pb2.CrawlSpec:
    """A spec for loopback whose hosts rest for exactly `min_delay_s`, and whose seen URIs can be listed."""
    made = crawl_pb2.CrawlSpec(
        allowed_addresses=["loopback"],
        identity=crawl_pb2.IdentitySpec(keep_uris=True),
        politeness=crawl_pb2.PolitenessSpec(
            delay_factor=0, min_delay=seconds(min_delay_s), max_delay=seconds(min_delay_s)
        ),
    )
    made.MergeFrom(crawl_pb2.CrawlSpec(**more))  # type: ignore[arg-type]  # the caller's fields
    return made


def candidates(*uris: str, path: str = "L") -> list[frontier_pb2.Candidate]:
    return [frontier_pb2.Candidate(uri=uri, path=path) for uri in uris]


def schedule_request(crawl: str, *uris: str) -> frontier_pb2.ScheduleRequest:
    return frontier_pb2.ScheduleRequest(crawl=crawl, candidates=candidates(*uris))


def next_request(
    crawl: str = "", most: int = 100, wait_s: float = 0, node: str = "node", session: str = "session"
) -> frontier_pb2.NextRequest:
    return frontier_pb2.NextRequest(
        crawl=crawl, node=node, session=session, max_leases=most, wait_duration=seconds(wait_s)
    )


def report(lease: frontier_pb2.Lease | bytes, status: int = 200, **more: object) -> frontier_pb2.Report:
    """A report of a fetch; a robots.txt is told to be missing, which allows everything."""
    if isinstance(lease, frontier_pb2.Lease):
        token, robots = lease.token, lease.purpose == frontier_pb2.PURPOSE_ROBOTS
    else:
        token, robots = lease, False
    made = frontier_pb2.Report(
        token=token, outcome=frontier_pb2.OUTCOME_FETCHED, fetch_status=404 if robots else status
    )
    made.MergeFrom(frontier_pb2.Report(**more))  # type: ignore[arg-type]  # the caller's fields
    return made


def released(lease: frontier_pb2.Lease) -> frontier_pb2.Report:
    return frontier_pb2.Report(token=lease.token, outcome=frontier_pb2.OUTCOME_RELEASED)


def finished_request(
    *reports: frontier_pb2.Report, node: str = "node", session: str = "session"
) -> frontier_pb2.FinishedRequest:
    return frontier_pb2.FinishedRequest(reports=reports, node=node, session=session)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a program and a person are told when an RPC fails."""

    code: grpc.StatusCode
    reason: str
    domain: str
    message: str
    metadata: dict[str, str]
    retry_s: float | None

    @staticmethod
    def of(problem: grpc.RpcError | grpc.aio.AioRpcError) -> "Refusal":
        """The refusal that an error carries. One without details has no reason."""
        code: grpc.StatusCode = problem.code()
        message: str = problem.details() or ""
        rich = status_pb2.Status()
        trailers: Any = problem.trailing_metadata() or ()
        for key, value in trailers:
            if key == "grpc-status-details-bin":
                rich.ParseFromString(value)
        info, retry, retry_s = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), None
        for detail in rich.details:
            if detail.Unpack(retry):
                retry_s = retry.retry_delay.ToMilliseconds() / 1000
            else:
                detail.Unpack(info)
        if (rich.code, rich.message) != (code.value[0], message):
            info.Clear()  # the transport's own error in place of the frontier's: it has no reason
        return Refusal(code, info.reason, info.domain, message, dict(info.metadata), retry_s)


def refusal(call: Callable[[], object]) -> Refusal:
    """How a call is refused. Fails if it is answered."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return Refusal.of(caught.value)


def refused(call: Callable[[], object], code: grpc.StatusCode, reason: str, *named: str) -> Refusal:
    """The refusal, which has this code and reason, our domain, and these words in its message."""
    problem = refusal(call)
    assert (problem.code, problem.reason, problem.domain) == (code, reason, "toehold"), problem
    for word in named:
        assert word in problem.message, problem
    return problem


INVALID = grpc.StatusCode.INVALID_ARGUMENT
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
RUN, PAUSE = crawl_pb2.TARGET_STATE_RUN, crawl_pb2.TARGET_STATE_PAUSE
FINISH, HOLD = crawl_pb2.TARGET_STATE_FINISH, crawl_pb2.TARGET_STATE_HOLD

_names = (f"c{number}" for number in itertools.count())


def fresh_name() -> str:
    """A name that no other crawl has; its hosts are below it, so that no two crawls share one."""
    return next(_names)


def seed_of(crawl: str, host: str = "") -> str:
    """A page on a host of a crawl's own."""
    return f"http://{host}{crawl}.example/"


class Stubs:
    """Both services over one blocking channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.frontier = frontier_pb2_grpc.FrontierServiceStub(channel)
        self.admin = admin_pb2_grpc.FrontierAdminServiceStub(channel)

    def create(self, crawl: str, of: crawl_pb2.CrawlSpec | None = None) -> admin_pb2.Crawl:
        request = admin_pb2.CreateCrawlRequest(crawl=crawl, spec=spec() if of is None else of)
        return self.admin.CreateCrawl(request, timeout=TIMEOUT_S).crawl

    def seed(self, crawl: str, *uris: str) -> admin_pb2.AddSeedsResponse:
        request = admin_pb2.AddSeedsRequest(crawl=crawl, uris=uris)
        return self.admin.AddSeeds(iter((request,)), timeout=TIMEOUT_S)

    def launch(self, crawl: str, *seeds: str, of: crawl_pb2.CrawlSpec | None = None) -> None:
        """Create a crawl, seed and launch it, and wait until the seeds are announced."""
        self.create(crawl, of)
        self.seed(crawl, *seeds)
        self.launch_seeded(crawl)

    def launch_seeded(self, crawl: str) -> None:
        """Launch a crawl that has seeds, and wait until they are announced."""
        self.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)
        self.until(crawl, crawl_pb2.CRAWL_STATE_RUNNING)

    def until(self, crawl: str, *states: crawl_pb2.CrawlState.ValueType) -> None:
        """Follow a crawl's events until it is in one of these states."""
        request = frontier_pb2.StateEventsRequest(crawl=crawl)
        stream = self.frontier.StateEvents(request, timeout=TIMEOUT_S)
        for answer in stream:
            status = answer.present if answer.HasField("present") else answer.event.status_changed
            if status.state in states:
                stream.cancel()
                return
        raise AssertionError(f"crawl {crawl!r} has ended without reaching what was waited for")

    def schedule(self, crawl: str, *uris: str) -> list[str]:
        """The names of the verdicts."""
        answer = self.frontier.Schedule(schedule_request(crawl, *uris), timeout=TIMEOUT_S)
        return [crawl_pb2.Verdict.Name(verdict).removeprefix("VERDICT_") for verdict in answer.verdicts]

    def next(
        self,
        crawl: str = "",
        most: int = 100,
        wait_s: float = 0,
        node: str = "node",
        session: str = "session",
    ) -> frontier_pb2.NextResponse:
        return self.frontier.Next(
            next_request(crawl, most, wait_s, node, session), timeout=TIMEOUT_S + wait_s
        )

    def pages(
        self, crawl: str = "", most: int = 100, node: str = "node", session: str = "session", least: int = 1
    ) -> list[frontier_pb2.Lease]:
        """Leases of pages, `least` of them or more, robots.txt of their hosts being out of the way; fewer if
        nothing more comes.
        """
        found: list[frontier_pb2.Lease] = []
        while len(found) < least:
            leases = self.next(crawl, most, TIMEOUT_S, node, session).leases
            if not leases:
                break
            robots = [lease for lease in leases if lease.purpose == frontier_pb2.PURPOSE_ROBOTS]
            if robots:
                self.finish(*(report(lease) for lease in robots), node=node, session=session)
            found += [lease for lease in leases if lease.purpose == frontier_pb2.PURPOSE_PAGE]
        return found

    def finish(
        self, *reports: frontier_pb2.Report, node: str = "node", session: str = "session"
    ) -> list[tuple[str, bool]]:
        """The names of the dispositions, and whether they are repeated."""
        request = finished_request(*reports, node=node, session=session)
        answer = self.frontier.Finished(request, timeout=TIMEOUT_S)
        return [(disposition_name(result.disposition), result.repeated) for result in answer.results]

    def heartbeat(
        self,
        tokens: Sequence[bytes] = (),
        node: str = "node",
        session: str = "session",
        idle_crawls: Sequence[str] = (),
    ) -> frontier_pb2.HeartbeatResponse:
        request = frontier_pb2.HeartbeatRequest(
            node=node, session=session, tokens=tokens, idle_crawls=idle_crawls
        )
        return self.frontier.Heartbeat(request, timeout=TIMEOUT_S)

    def request(self, crawl: str, target: crawl_pb2.TargetState.ValueType) -> crawl_pb2.CrawlStatus:
        request = frontier_pb2.RequestStateRequest(crawl=crawl, target_state=target)
        return self.frontier.RequestState(request, timeout=TIMEOUT_S).status

    def update(self, crawl: str, *paths: str, **fields: Any) -> crawl_pb2.CrawlSpec:
        """Change a crawl's spec: the fields at some paths, or those that are given; the spec then."""
        request = admin_pb2.UpdateCrawlRequest(crawl=crawl, spec=crawl_pb2.CrawlSpec(**fields))
        request.update_mask.paths.extend(paths)
        return self.admin.UpdateCrawl(request, timeout=TIMEOUT_S).crawl.spec

    def describe(self, crawl: str) -> admin_pb2.Crawl:
        return self.admin.GetCrawl(admin_pb2.GetCrawlRequest(crawl=crawl), timeout=TIMEOUT_S).crawl

    def statistics(self, crawl: str) -> crawl_pb2.Statistics:
        request = admin_pb2.GetStatisticsRequest(crawl=crawl)
        return self.admin.GetStatistics(request, timeout=TIMEOUT_S).statistics

    def queues(self, crawl: str, page_size: int = 1000) -> list[admin_pb2.WorkQueue]:
        """All work queues, page by page."""
        found: list[admin_pb2.WorkQueue] = []
        token = ""
        while True:
            request = admin_pb2.ListQueuesRequest(crawl=crawl, page_size=page_size, page_token=token)
            answer = self.admin.ListQueues(request, timeout=TIMEOUT_S)
            found.extend(answer.queues)
            token = answer.next_page_token
            if not token:
                return found

    def ask(self, rpc: str, crawl: str, **fields: Any) -> Any:
        """What operators' RPC answers; all messages of a stream."""
        method = admin_pb2.DESCRIPTOR.services_by_name["FrontierAdminService"].methods_by_name[rpc]
        request: Any = message_factory.GetMessageClass(method.input_type)(crawl=crawl, **fields)
        answer = getattr(self.admin, rpc)(request, timeout=TIMEOUT_S)
        return list(answer) if method.server_streaming else answer

    def pages_of(self, rpc: str, crawl: str, items: str, **fields: Any) -> list[list[Any]]:
        """A listing, page by page."""
        pages: list[list[Any]] = []
        token = ""
        while True:
            answer = self.ask(rpc, crawl, page_token=token, **fields)
            pages.append(list(getattr(answer, items)))
            token = answer.next_page_token
            if not token:
                return pages

    def waiting(self, crawl: str) -> list[admin_pb2.WaitingUri]:
        """All URIs that wait."""
        return [uri for message in self.ask("ExportUris", crawl) for uri in message.uris]

    def job(self, crawl: str, **asked: Any) -> admin_pb2.Job:
        """Start a job; how it ended."""
        return self.ended(crawl, self.ask("StartJob", crawl, **asked).job.job)

    def ended(self, crawl: str, job: int, within_s: float = PATIENCE_S) -> admin_pb2.Job:
        """A job, once it has ended."""

        def found() -> admin_pb2.Job | None:
            told: admin_pb2.Job = self.ask("GetJob", crawl, job=job).job
            return told if told.HasField("finish_time") else None

        return eventually(found, f"the end of job {job}", within_s)

    def bring(self, crawl: str, *entries: admin_pb2.ImportEntry, force: bool = False) -> admin_pb2.Job:
        """Import URIs; how the job ended."""
        first = admin_pb2.ImportUrisRequest(crawl=crawl, force=force)
        parts = (entries[start : start + 1000] for start in range(0, len(entries), 1000))
        others = (admin_pb2.ImportUrisRequest(entries=part) for part in parts)
        last = admin_pb2.ImportUrisRequest(complete=True)
        answer = self.admin.ImportUris(itertools.chain((first,), others, (last,)), timeout=TIMEOUT_S)
        return self.ended(crawl, answer.job.job)

    def events(self, crawl: str, cursor: str = "start") -> list[crawl_pb2.Event]:
        """The events of a crawl that has ended, behind a cursor."""
        request = frontier_pb2.StateEventsRequest(crawl=crawl, cursor=cursor)
        answers = self.frontier.StateEvents(request, timeout=TIMEOUT_S)
        return [answer.event for answer in answers if answer.HasField("event")]

    def events_so_far(self, crawl: str) -> list[crawl_pb2.Event]:
        """The events of a crawl that goes on."""
        now = self.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl=crawl), timeout=TIMEOUT_S)
        last = next(now).cursor
        now.cancel()
        request = frontier_pb2.StateEventsRequest(crawl=crawl, cursor="start")
        stream = self.frontier.StateEvents(request, timeout=TIMEOUT_S)
        found: list[crawl_pb2.Event] = []
        for answer in stream:
            found += [answer.event] if answer.HasField("event") else []
            if answer.cursor == last:
                stream.cancel()
                break
        return found

    def told(self, crawl: str) -> list[str]:
        """What has happened to a crawl, in a word each, but for its statistics and nodes."""
        words = [named(event) for event in self.events_so_far(crawl)]
        return [word for word in words if word not in ("statistics", "node_joined", "node_left")]


def named(event: crawl_pb2.Event) -> str:
    """An event in a word or two: the state that was reached, what somebody asked, or else its kind."""
    match event.WhichOneof("kind"):
        case "status_changed":
            return crawl_pb2.CrawlState.Name(event.status_changed.state).removeprefix("CRAWL_STATE_")
        case "operator_acted":
            return f"by {event.operator_acted.action}"
        case kind:
            return str(kind)


def disposition_name(number: crawl_pb2.Disposition.ValueType) -> str:
    return crawl_pb2.Disposition.Name(number).removeprefix("DISPOSITION_")
