"""The node's connection to the frontier: four calls in the node's name, and what their failures mean for it.

Only this module knows the client. It watches whether the frontier answers at all, and logs once when it is
lost and once when it is back.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

import structlog

from toehold.frontier.v1.crawl_pb2 import Verdict
from toehold.frontier.v1.frontier_pb2 import (
    Candidate,
    HeartbeatResponse,
    NextResponse,
    PoolStatistics,
    Report,
    ReportResult,
)
from toehold_client import Credentials, FrontierClient
from toehold_client.errors import (
    CrawlFinished,
    DeadlineExceeded,
    FrontierUnavailable,
    InvalidArgument,
    PermissionDenied,
    RefusedForNow,
    SessionSuperseded,
    ToeholdError,
    Unauthenticated,
    UnexpectedAnswer,
    UnknownCrawl,
)
from toehold_client.rpc.request_ids import request_id

from ..meter import UNMEASURED, Meter

CALL_TIMEOUT_S = 15.0
"""How long one call may take; a long poll may take as much longer as it asked to wait."""

UNWELCOME_RETRY_S = 5.0
"""How long the node waits after the frontier did not let it call, before it tries again."""

log = structlog.get_logger()

_T = TypeVar("_T")


class NotNow(Exception):
    """The frontier is away or refuses for now. The node may repeat the call after `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Busy(NotNow):
    """The frontier answers, but does not take this now: it has too much to do, or the crawl is held."""


class Unwelcome(NotNow):
    """The frontier answers, but does not let the node call: it does not know it, or the node's caller lacks a
    right. Whoever mends that makes the node welcome again, which keeps its work meanwhile."""


class Refused(Exception):
    """The frontier refuses for good."""


class CrawlOver(Refused):
    """The crawl has finished, is torn down, or is unknown."""


class Failed(Refused):
    """The frontier failed in a way that the contract does not name. A few more tries may help."""


class Superseded(Exception):
    """Another process has taken over the node's name. This one may do nothing more."""


class Abandoned(Exception):
    """This node has given up before the frontier answered."""


class Client(Protocol):
    """The part of toehold_client.FrontierClient that the node needs."""

    def schedule(self, crawl: str, candidates: Sequence[Candidate]) -> Sequence[Verdict.ValueType]:
        """Offers candidates; the verdicts in their order."""
        ...

    def next(
        self,
        *,
        crawl: str,
        node: str,
        session: str,
        max_leases: int,
        wait_s: float,
        known_fetch_policy_ids: Collection[str],
        fetcher_kinds: Collection[str],
    ) -> NextResponse:
        """Asks for leases."""
        ...

    def finished(self, reports: Sequence[Report], *, node: str, session: str) -> Sequence[ReportResult]:
        """Hands reports in; the results in their order."""
        ...

    def heartbeat(
        self,
        *,
        node: str,
        session: str,
        tokens: Collection[bytes],
        toe_steps: Mapping[str, int],
        leaving: bool = False,
        pool: PoolStatistics | None = None,
        service_address: str = "",
        trouble: str = "",
        idle_crawls: Collection[str] = (),
    ) -> HeartbeatResponse:
        """Names the leases held, or says that the node ends."""
        ...

    def close(self) -> None:
        """Ends the connection, and with it the calls that wait."""
        ...


class Contact:
    """Whether the frontier answers, as seen by all the node's calls together."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._lost = self._unwelcome = False
        self._answered_at_s = clock_s()

    def answered(self) -> None:
        """Notes that a call was answered."""
        now_s = self._clock_s()
        with self._lock:
            was_lost, self._lost = self._lost, False
            silent_s, self._answered_at_s = now_s - self._answered_at_s, now_s
        if was_lost:
            log.info("frontier_back", silent_s=round(silent_s, 1))

    def missed(self, error: Exception) -> None:
        """Notes that a call was not answered."""
        with self._lock:
            was_lost, self._lost = self._lost, True
        if not was_lost:
            log.warning("frontier_lost", error=str(error), request_id=request_id_of(error))

    def welcome(self, problem: Exception | None) -> None:
        """Notes that the frontier let the node call, or did not, because of a problem."""
        with self._lock:
            was_unwelcome, self._unwelcome = self._unwelcome, problem is not None
        if was_unwelcome and problem is None:
            log.info("calls_allowed")
        elif problem is not None and not was_unwelcome:
            log.error("calls_denied", error=str(problem))

    def answered_at_s(self) -> float:
        """When it answered last, by the monotonic clock; before the first answer, when the node began."""
        with self._lock:
            return self._answered_at_s


class FrontierConnection:
    """The four calls. Each is made once: the caller knows whether and when to try again."""

    def __init__(
        self,
        client: Client,
        contact: Contact,
        node: str,
        session: str,
        meter: Meter = UNMEASURED,
        fetcher_kinds: Collection[str] = (),
    ) -> None:
        self._client = client
        self._contact = contact
        self._node = node
        self._session = session
        self._meter = meter
        self._fetcher_kinds = fetcher_kinds
        self._closed = False

    @property
    def node(self) -> str:
        """The node's name."""
        return self._node

    @classmethod
    def connect(
        cls,
        address: str,
        contact: Contact,
        node: str,
        session: str,
        credentials: Credentials | None = None,
        meter: Meter = UNMEASURED,
        fetcher_kinds: Collection[str] = (),
    ) -> "FrontierConnection":
        """Connects to HOST:PORT, whether a frontier answers there or not. Raises ValueError if that is no
        address, or if the credentials cannot be used."""
        try:
            client = FrontierClient(address, timeout_s=CALL_TIMEOUT_S, credentials=credentials)
            return cls(client, contact, node, session, meter, fetcher_kinds)
        except InvalidArgument as error:
            raise ValueError(str(error)) from error

    def schedule(self, crawl: str, candidates: Sequence[Candidate]) -> Sequence[Verdict.ValueType]:
        """Offers candidates; the verdicts in their order."""
        return self._call("Schedule", lambda: self._client.schedule(crawl, candidates))

    def next(
        self, crawl: str, max_leases: int, wait_s: float, known_fetch_policy_ids: Collection[str]
    ) -> NextResponse:
        """Asks for leases."""
        return self._call(
            "Next",
            lambda: self._client.next(
                crawl=crawl,
                node=self._node,
                session=self._session,
                max_leases=max_leases,
                wait_s=wait_s,
                known_fetch_policy_ids=known_fetch_policy_ids,
                fetcher_kinds=self._fetcher_kinds,
            ),
        )

    def finished(self, reports: Sequence[Report]) -> Sequence[ReportResult]:
        """Hands reports in; the results in their order."""
        return self._call(
            "Finished", lambda: self._client.finished(reports, node=self._node, session=self._session)
        )

    def heartbeat(
        self,
        tokens: Collection[bytes],
        toe_steps: Mapping[str, int],
        *,
        leaving: bool = False,
        pool: PoolStatistics | None = None,
        service_address: str = "",
        trouble: str = "",
        idle_crawls: Collection[str] = (),
    ) -> HeartbeatResponse:
        """Names the leases held and what the toes do; with `leaving` says that the node ends."""
        return self._call(
            "Heartbeat",
            lambda: self._client.heartbeat(
                node=self._node,
                session=self._session,
                tokens=tokens,
                toe_steps=toe_steps,
                leaving=leaving,
                pool=pool,
                service_address=service_address,
                trouble=trouble,
                idle_crawls=idle_crawls,
            ),
        )

    def close(self) -> None:
        """Breaks off the calls that wait, with Abandoned. Later calls raise it as well."""
        self._closed = True
        self._client.close()

    def _call(self, method: str, call: Callable[[], _T]) -> _T:
        start_s = time.perf_counter()
        outcome = "broken"
        try:
            answer = self._made(call)
            outcome = "answered"
            return answer
        except (NotNow, Refused, Superseded, Abandoned) as error:
            outcome = _OUTCOMES[type(error)]
            raise
        finally:
            self._meter.called(method, outcome, time.perf_counter() - start_s)

    def _made(self, call: Callable[[], _T]) -> _T:
        try:
            answer = call()
        except Exception as error:  # a closed client raises anything
            if self._closed:
                raise Abandoned from error
            if not isinstance(error, ToeholdError):
                raise
            if isinstance(error, _SILENCE):
                self._contact.missed(error)
            else:
                self._contact.answered()
            meaning = _meaning(error)
            if isinstance(meaning, Unwelcome):
                self._contact.welcome(meaning)
            raise meaning from error
        self._contact.answered()
        self._contact.welcome(None)
        return answer


class Rests:
    """The growing rests between tries of one thing: from a tenth of a second to two."""

    FIRST_S = 0.1
    LONGEST_S = 2.0
    LONGEST_ASKED_S = 60.0
    """The longest rest that a frontier that refuses for now may ask for."""

    def __init__(self) -> None:
        self._next_s = self.FIRST_S

    def next_s(self, asked_s: float = 0.0) -> float:
        """The next rest, at least `asked_s`."""
        rest_s = self._next_s
        self._next_s = min(2 * rest_s, self.LONGEST_S)
        return max(rest_s, min(asked_s, self.LONGEST_ASKED_S))


MAX_FAILURES = 5
"""How often the node makes a call that fails for no named reason, before that counts as a refusal."""


def persist(call: Callable[[], _T], abandoned: threading.Event) -> _T:
    """Makes a call until it is answered or refused, always with the same request id. Raises the refusal, or
    Abandoned when `abandoned` is set."""
    with request_id():
        return _persist(call, abandoned)


def _persist(call: Callable[[], _T], abandoned: threading.Event) -> _T:
    rests = Rests()
    failures = 0
    told = False
    while True:
        try:
            return call()
        except NotNow as error:
            if isinstance(error, Busy) and not told:
                log.warning(
                    "frontier_busy",
                    error=str(error),
                    request_id=request_id_of(error),
                )
                told = True
            rest_s = rests.next_s(error.retry_after_s)
        except Failed as error:
            failures += 1
            if failures == MAX_FAILURES:
                raise
            log.error("call_failed", error=str(error), request_id=request_id_of(error))
            rest_s = rests.next_s()
        if abandoned.wait(rest_s):
            raise Abandoned


_OUTCOMES: Mapping[type[Exception], str] = {
    NotNow: "unavailable",
    Busy: "busy",
    Unwelcome: "refused",
    CrawlOver: "crawl_over",
    Failed: "failed",
    Refused: "refused",
    Superseded: "superseded",
    Abandoned: "abandoned",
}
"""How a call ended that was not answered, as its meter is told."""

_SILENCE = (FrontierUnavailable, DeadlineExceeded)


def request_id_of(error: BaseException) -> str:
    """The id under which the frontier's log has the call that failed so."""
    told = error if isinstance(error, ToeholdError) else error.__cause__
    return told.request_id if isinstance(told, ToeholdError) else ""


def _meaning(error: ToeholdError) -> Exception:
    match error:
        case FrontierUnavailable() | DeadlineExceeded():
            return NotNow(str(error))
        case RefusedForNow():
            return Busy(str(error), error.retry_after_s)
        # Not CRAWL_NOT_ALLOWED: work of one crawl must not hold up that of others.
        case Unauthenticated() | PermissionDenied(reason="ROLE_MISSING" | "NODE_NOT_ALLOWED"):
            return Unwelcome(str(error), UNWELCOME_RETRY_S)
        case SessionSuperseded():
            return Superseded(str(error))
        case CrawlFinished() | UnknownCrawl():
            return CrawlOver(str(error))
        case UnexpectedAnswer():
            return Failed(str(error))
        case _:
            return Refused(str(error))
