"""The node's connection to the frontier: four calls in the node's name, each made once.

Only this module knows the client. The contact hears how each call ended, and the meter how long it took.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import structlog

from toehold.frontier.v1 import frontier_pb2
from toehold_client import Credentials, FrontierClient
from toehold_client.errors import ClientClosed, InvalidArgument, ToeholdError
from toehold_client.verdicts import Verdicts
from toehold_client.worker.contact import Contact, ContactLog
from toehold_client.worker.meaning import Meaning, meaning_of
from toehold_client.worker.rests import CALL_TIMEOUT_S

from ..meter import UNMEASURED, Meter

log = structlog.get_logger()

_T = TypeVar("_T")


class NodeLog(ContactLog):
    """What the node's log says of the frontier."""

    def lost(self, error: ToeholdError) -> None:
        log.warning("frontier_lost", error=str(error), request_id=error.request_id)

    def back(self, silent_s: float) -> None:
        log.info("frontier_back", silent_s=round(silent_s, 1))

    def denied(self, error: ToeholdError) -> None:
        log.error("calls_denied", error=str(error))

    def allowed(self) -> None:
        log.info("calls_allowed")

    def busy(self, error: ToeholdError) -> None:
        log.warning("frontier_busy", error=str(error), request_id=error.request_id)

    def failed(self, error: ToeholdError) -> None:
        log.error("call_failed", error=str(error), request_id=error.request_id)


class FrontierConnection:
    """The four calls. Each is made once, and raises ToeholdError if it fails: the caller knows whether to try
    again."""

    def __init__(
        self,
        client: FrontierClient,
        contact: Contact,
        node: str,
        session: str,
        meter: Meter = UNMEASURED,
        fetcher_kinds: Collection[str] = (),
    ) -> None:
        self._client = client
        self.contact = contact
        self._node = node
        self._session = session
        self._meter = meter
        self._fetcher_kinds = fetcher_kinds
        self._closed = False

    @property
    def node(self) -> str:
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

    def schedule(self, crawl: str, candidates: Sequence[frontier_pb2.Candidate]) -> Verdicts:
        """Offers candidates; the verdicts in their order. Those whose shard is away are PARKED, or AWAY if
        the frontier cannot keep them."""
        return self._call(
            "Schedule", lambda: self._client.schedule(crawl, candidates, partial=True, park=True)
        )

    def next(
        self, crawl: str, max_leases: int, wait_s: float, known_fetch_policy_ids: Collection[str]
    ) -> frontier_pb2.NextResponse:
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

    def finished(self, reports: Sequence[frontier_pb2.Report]) -> Sequence[frontier_pb2.ReportResult]:
        """Hands reports in; the results in their order, AWAY for those whose shard is away."""
        return self._call(
            "Finished",
            lambda: self._client.finished(reports, node=self._node, session=self._session, partial=True),
        )

    def heartbeat(
        self,
        tokens: Collection[bytes],
        toe_steps: Mapping[str, int],
        *,
        leaving: bool = False,
        pool: frontier_pb2.PoolStatistics | None = None,
        service_address: str = "",
        trouble: str = "",
        idle_crawls: Collection[str] = (),
    ) -> frontier_pb2.HeartbeatResponse:
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
        """Breaks off the calls that wait, with ClientClosed. Later calls raise it as well."""
        self._closed = True
        self._client.close()

    def _call(self, method: str, call: Callable[[], _T]) -> _T:
        start_s = time.perf_counter()
        outcome = "broken"
        try:
            answer = self._made(call)
            outcome = "answered"
            return answer
        except ToeholdError as error:
            outcome = _OUTCOMES[meaning_of(error)]
            raise
        finally:
            self._meter.called(method, outcome, time.perf_counter() - start_s)

    def _made(self, call: Callable[[], _T]) -> _T:
        with self.contact.noting():
            try:
                return call()
            except Exception as error:  # a closed client raises anything
                if self._closed:
                    raise ClientClosed("the node has closed its connection to the frontier") from error
                raise


_OUTCOMES: Mapping[Meaning, str] = {
    Meaning.SILENT: "unavailable",
    Meaning.BUSY: "busy",
    Meaning.DENIED: "refused",
    Meaning.FAILED: "failed",
    Meaning.CRAWL_OVER: "crawl_over",
    Meaning.REFUSED: "refused",
    Meaning.SUPERSEDED: "superseded",
    Meaning.CLOSED: "abandoned",
}
"""How a call ended that was not answered, as its meter is told."""
