"""FrontierClient: a method for each RPC of a frontier, for blocking programs.

It takes plain values and the contract's messages and returns the contract's messages. What is said in each
call, what is cut into parts and what is tried again is in `calls` and `retry`, shared with `async_client`;
here is only how to wait.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, cast

import grpc
from google.protobuf.message import Message

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    Crawl,
    GetFrontierResponse,
    GetStatisticsResponse,
    WorkQueue,
)
from toehold.frontier.v1.admin_pb2_grpc import FrontierAdminServiceStub
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlStatus, QueueState, TargetState, Verdict
from toehold.frontier.v1.frontier_pb2 import (
    Candidate,
    HeartbeatResponse,
    NextResponse,
    Report,
    ReportResult,
    StateEventsRequest,
)
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub

from . import calls
from .calls import Attempt, Page, Procedure, Rest, SeedBatches, Stubs
from .channel import CHANNEL_OPTIONS, checked_address
from .errors import ClientClosed, ToeholdError, from_rpc_error, unsendable
from .events import EventStream, Following, SyncConnection
from .retry import Patience

SEEDS_TIMEOUT_S = 3600.0
"""The deadline of a whole stream of seeds, unless another is given."""

RECONNECT_S = 60.0
"""How long a stream of events that was connected once tries to reconnect, unless another time is given."""

_T = TypeVar("_T")
_P = TypeVar("_P", bound=Page)
_Q = TypeVar("_Q", bound=Message)
_R = TypeVar("_R", bound=Message)


class FrontierClient:
    """A frontier, for blocking programs. May be used by many threads at once; close it, or use it as a
    context manager.

    `address` is HOST:PORT. `timeout_s` is how long one try of a call waits for its answer (a long poll: that
    much longer than it asked to wait). `patience_s` is how long a call keeps trying while the frontier is
    away or overloaded; 0 tries once. Trying again stops when no further try could begin within it. Not tried
    again after a broken connection: `create_crawl`, since a repeat would be refused, and `add_seeds`, since
    its seeds are used up.

    Every method may raise `FrontierUnavailable`, `DeadlineExceeded`, `Overloaded` and `InvalidArgument`, and
    what it names.
    """

    def __init__(self, address: str, *, timeout_s: float = 30.0, patience_s: float = 0.0) -> None:
        self.address = checked_address(address)
        self._timeout_s = timeout_s
        self._patience = Patience(patience_s)
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stubs = Stubs(FrontierServiceStub(self._channel), FrontierAdminServiceStub(self._channel))
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()
        self._closed = threading.Event()

    # what fetchers and feeders need

    def schedule(self, crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
        """Offers candidates, any number; a verdict for each, in order. Harmless to repeat.

        Sent in batches within the contract's limits. If one fails, those before it count. UnknownCrawl,
        CrawlFinished; BatchTooLarge, and nothing is sent, if one candidate alone exceeds a message.
        """
        return self._run(calls.schedule(crawl, candidates, self._patience))

    def next(
        self,
        *,
        node: str,
        session: str,
        max_leases: int,
        wait_s: float = 0.0,
        crawl: str = "",
        known_fetch_policy_ids: Collection[str] = (),
    ) -> NextResponse:
        """Asks for up to `max_leases` leases, waiting up to `wait_s` (at most 60 s) while there is none.

        Without `crawl`, of any crawl that the frontier runs. UnknownCrawl, SessionSuperseded.
        """
        return self._run(
            calls.next_leases(
                crawl=crawl,
                node=node,
                session=session,
                max_leases=max_leases,
                wait_s=wait_s,
                known_fetch_policy_ids=known_fetch_policy_ids,
                patience=self._patience,
            )
        )

    def finished(self, reports: Sequence[Report], *, node: str, session: str) -> list[ReportResult]:
        """Hands leases back with their reports, any number; a result for each, in order. Harmless to repeat.

        Sent in batches, as in `schedule`. SessionSuperseded; BatchTooLarge.
        """
        return self._run(calls.finished(reports, node, session, self._patience))

    def heartbeat(
        self,
        *,
        node: str,
        session: str,
        tokens: Collection[bytes],
        toe_steps: Mapping[str, int] | None = None,
    ) -> HeartbeatResponse:
        """Names the leases that the node holds, started or not, and the number of its toe threads at each
        step.

        SessionSuperseded.
        """
        return self._run(calls.heartbeat(node, session, tokens, toe_steps or {}, self._patience))

    def request_state(self, crawl: str, target: TargetState.ValueType) -> CrawlStatus:
        """Asks a launched crawl to reach a state; returns at once with the one it is in.

        UnknownCrawl, IllegalState, CrawlFinished.
        """
        return self._run(calls.request_state(crawl, target, self._patience))

    def state_events(
        self,
        crawl: str,
        cursor: str = "",
        *,
        timeout_s: float | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> EventStream:
        """A crawl's events after `cursor`: "" for only what happens from now on, "start" for all that are
        kept. UnknownCrawl.

        The first message has the present state, each other one an event, or nothing: a sign of life, every 10
        s. The stream ends after the event of FINISHED. It reconnects by itself, without gap or repeat, as
        long as the frontier is away no longer than `reconnect_s`; the first connection has the client's
        patience. With `timeout_s` it raises DeadlineExceeded when it has not ended by then. CursorTooOld,
        after the present state, when the events after `cursor` are no longer kept.
        """
        following = Following(
            crawl,
            cursor,
            address=self.address,
            timeout_s=timeout_s,
            first=self._patience,
            later=Patience(reconnect_s),
        )
        stream = EventStream(following, self._connect)
        self._streams.add(stream)
        return stream

    # what operators and controllers need

    def create_crawl(self, crawl: str, spec: CrawlSpec) -> Crawl:
        """Creates a crawl in state NASCENT.

        CrawlExists, InvalidName; InvalidSpec tells all that is wrong with the spec at once.
        """
        return self._run(calls.create_crawl(crawl, spec, self._patience))

    def add_seeds(
        self, crawl: str, uris: Iterable[str], *, timeout_s: float = SEEDS_TIMEOUT_S
    ) -> AddSeedsResponse:
        """Adds seeds, any number, read as they are sent. UnknownCrawl, CrawlFinished.

        `timeout_s` is for all of them. Whether the frontier is there and has the crawl is asked first, with
        the client's patience; the seeds themselves are sent once. If that fails, some may have been stored,
        and adding all of them again is harmless.
        """
        self.get_crawl(crawl)
        batches = SeedBatches(crawl, uris)
        try:
            answer = self._stubs.admin.AddSeeds(iter(batches), timeout=timeout_s)
        except grpc.RpcError as error:
            batches.raise_failure()
            raise from_rpc_error(error, address=self.address, timeout_s=timeout_s) from None
        batches.raise_failure()
        return answer

    def launch_crawl(self, crawl: str) -> CrawlStatus:
        """Starts a NASCENT crawl. UnknownCrawl, NoSeeds, IllegalState.

        IllegalState after patience was needed may mean that an earlier try did it; `CrawlController.launch`
        finds out.
        """
        return self._run(calls.launch_crawl(crawl, self._patience))

    def get_crawl(self, crawl: str) -> Crawl:
        """Describes a crawl: its spec with every default filled in, its status, its seeds' number.

        UnknownCrawl.
        """
        return self._run(calls.get_crawl(crawl, self._patience))

    def list_crawls(self) -> Iterator[Crawl]:
        """All crawls, in order of their names; asks for further pages as it is read."""
        for page in self._pages(lambda token: calls.crawls_page(token, self._patience)):
            yield from page.crawls

    def delete_crawl(self, crawl: str) -> None:
        """Deletes a crawl that is NASCENT or FINISHED, and all that is stored of it.

        UnknownCrawl, CrawlActive.
        """
        self._run(calls.delete_crawl(crawl, self._patience))

    def get_statistics(self, crawl: str) -> GetStatisticsResponse:
        """A crawl's figures, and its status at the same moment. UnknownCrawl."""
        return self._run(calls.get_statistics(crawl, self._patience))

    def list_queues(
        self, crawl: str, state: QueueState.ValueType = QueueState.QUEUE_STATE_UNSPECIFIED
    ) -> Iterator[WorkQueue]:
        """A crawl's work queues, all or those in one state; asks for further pages as it is read.

        UnknownCrawl.
        """
        for page in self._pages(lambda token: calls.queues_page(crawl, state, token, self._patience)):
            yield from page.queues

    def get_frontier(self) -> GetFrontierResponse:
        """Describes the server: version, limits, the nodes that it has heard of."""
        return self._run(calls.get_frontier(self._patience))

    def close(self) -> None:
        """Ends all streams and the connection. Calls that other threads wait for fail: ClientClosed."""
        self._closed.set()
        for stream in list(self._streams):
            stream.close()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self, request: StateEventsRequest, timeout_s: float) -> SyncConnection:
        if self._closed.is_set():
            raise self._closed_error()
        return self._stubs.frontier.StateEvents(request, timeout=timeout_s)

    def _closed_error(self) -> ClientClosed:
        return ClientClosed(f"the client of the frontier at {self.address} has been closed")

    def _run(self, procedure: Procedure[_T]) -> _T:
        try:
            step = next(procedure)
            while True:
                if isinstance(step, Rest):
                    self._closed.wait(step.seconds)
                    step = next(procedure)
                else:
                    answer = self._attempt(step)
                    step = (
                        procedure.throw(answer)
                        if isinstance(answer, ToeholdError)
                        else procedure.send(answer)
                    )
        except StopIteration as end:
            return cast(_T, end.value)
        except UnicodeEncodeError as error:
            unsendable(error)

    def _attempt(self, attempt: Attempt[_Q, _R]) -> _R | ToeholdError:
        timeout_s = self._timeout_s + attempt.wait_s
        try:
            return attempt.pick(self._stubs)(attempt.request, timeout=timeout_s)
        except grpc.RpcError as error:
            failure = from_rpc_error(error, address=self.address, timeout_s=timeout_s)
            return self._closed_error() if self._closed.is_set() else failure
        except ValueError:  # what gRPC raises on a closed channel
            if not self._closed.is_set():
                raise
            return self._closed_error()

    def _pages(self, page: Callable[[str], Procedure[_P]]) -> Iterator[_P]:
        token = ""
        while True:
            answer = self._run(page(token))
            yield answer
            token = answer.next_page_token
            if not token:
                return
