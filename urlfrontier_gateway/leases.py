"""The leases that this gateway holds, and its life as a node of the frontier.

A client gets a URL for some time, in which no other client gets it. The gateway keeps the lease of the URL
alive for that time, and then hands it back. If the gateway dies, its leases lapse within a lease period.
"""

from __future__ import annotations

import asyncio
import heapq
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import grpc
import structlog

from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold.frontier.v1.frontier_pb2 import (
    FinishedRequest,
    HeartbeatRequest,
    Lease,
    NextRequest,
    NextResponse,
    Outcome,
    Report,
    ToeStepCount,
)
from toehold_client.errors import SessionSuperseded, ToeholdError
from toehold_client.rpc.batches import MAX_ITEMS
from toehold_client.rpc.contract import Stubs
from toehold_client.worker.contact import Contact
from toehold_client.worker.orders import Obedience, Orders
from toehold_client.worker.rests import LONGEST_HEARTBEAT_REST_S, CallPace
from toehold_client.worker.tasks import keep_calling

from .crawl_ids import crawl_name
from .frontier import FrontierCalls
from .logs import FrontierLog
from .spec import FETCHER

_MAX_TOKENS = 10_000
_TICK_S = 0.2
_MIN_DUE = 10_000
_HTTP_OK = 200
_STEP = "URLS_HELD"

_log = structlog.get_logger()
_Q = TypeVar("_Q")
_R = TypeVar("_R")


@dataclass(slots=True)
class HeldUrl:
    """A URL that a client has."""

    token: bytes
    crawl: str
    url: str
    queue_key: str
    info: bytes
    """The annotations of its lease (Lease.annotations)."""
    until_s: float


class Leases:
    """The leases of one session of this gateway."""

    def __init__(self, frontier: FrontierCalls, node: str) -> None:
        self._frontier = frontier
        self.node, self._session = node, uuid.uuid4().hex
        self._policies: set[str] = set()
        self._by_token: dict[bytes, HeldUrl] = {}
        self._by_url: dict[tuple[str, str], HeldUrl] = {}
        self._due: list[tuple[float, bytes]] = []
        self._contact = Contact(FrontierLog())
        self._obedience = Obedience(_Obeyed(self))

    def __len__(self) -> int:
        return len(self._by_token)

    async def take(
        self, crawl_id: str, *, max_leases: int, queues: Sequence[str], max_queues: int, max_a_queue: int
    ) -> NextResponse:
        """Asks for leases of URLs that are due now."""
        answer = await self._ask(
            lambda stubs: stubs.frontier.Next,
            NextRequest(
                crawl=crawl_name(crawl_id),
                node=self.node,
                session=self._session,
                max_leases=max_leases,
                known_fetch_policy_ids=self._policies,
                queues=queues,
                max_queues=max_queues,
                max_leases_per_queue=max_a_queue,
                fetcher_kinds=(FETCHER,),
            ),
        )
        self._policies.update(policy.fetch_policy_id for policy in answer.fetch_policies)
        return answer

    async def _ask(self, pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]], request: _Q) -> _R:
        with self._contact.noting():
            return await self._frontier.ask(pick, request)

    def hold(self, lease: Lease, url: str, until_s: float) -> HeldUrl:
        """Notes that a client has a URL until a time."""
        held = HeldUrl(lease.token, lease.crawl, url, lease.queue_key, lease.annotations, until_s)
        self._by_token[held.token] = self._by_url[held.crawl, url] = held
        heapq.heappush(self._due, (until_s, held.token))
        if len(self._due) > _MIN_DUE + 2 * len(self._by_token):  # most have ended before their time
            self._due = [(each.until_s, each.token) for each in self._by_token.values()]
            heapq.heapify(self._due)
        return held

    def of_url(self, crawl_id: str, url: str) -> HeldUrl | None:
        """The lease of a URL, if this gateway holds it."""
        return self._by_url.get((crawl_name(crawl_id), url))

    def drop(self, held: HeldUrl) -> None:
        """Forgets a lease that has ended."""
        self._by_token.pop(held.token, None)
        if self._by_url.get((held.crawl, held.url)) is held:
            del self._by_url[held.crawl, held.url]

    def drop_ended(self, tokens: Iterable[bytes]) -> None:
        """Forgets the leases of these tokens, as far as they are held."""
        for token in tokens:
            with suppress(KeyError):
                self.drop(self._by_token[token])

    def drop_of(self, crawl: str) -> None:
        """Forgets the leases of a crawl that is gone."""
        for held in [held for held in self._by_token.values() if held.crawl == crawl]:
            self.drop(held)

    async def finish(self, done: Sequence[HeldUrl]) -> list[Disposition.ValueType]:
        """Reports URLs as fetched; what became of each. Those whose shard is away stay held. At most 1000."""
        reports = [
            Report(token=held.token, outcome=Outcome.OUTCOME_FETCHED, fetch_status=_HTTP_OK) for held in done
        ]
        dispositions = await self._finished(reports)
        self._drop_reported(done, dispositions)
        return dispositions

    async def hand_back(self, leases: Iterable[HeldUrl]) -> None:
        """Gives URLs back to their queues, for any client. Those whose shard is away stay held, and go back
        at a later tick."""
        given = list(leases)
        for start in range(0, len(given), MAX_ITEMS):
            batch = given[start : start + MAX_ITEMS]
            reports = [Report(token=held.token, outcome=Outcome.OUTCOME_RELEASED) for held in batch]
            for held in self._drop_reported(batch, await self._finished(reports)):
                heapq.heappush(self._due, (time.monotonic() + _TICK_S, held.token))

    def _drop_reported(
        self, reported: Sequence[HeldUrl], dispositions: Sequence[Disposition.ValueType]
    ) -> list[HeldUrl]:
        """Forgets the leases that have ended by a report; those that have not, as their shard is away."""
        waiting = []
        for held, disposition in zip(reported, dispositions, strict=True):
            if disposition == Disposition.DISPOSITION_AWAY:
                waiting.append(held)
            else:
                self.drop(held)
        return waiting

    async def hand_back_expired(self) -> None:
        """Gives URLs back whose time is over."""
        now_s = time.monotonic()
        expired = []
        while self._due and self._due[0][0] <= now_s:
            held = self._by_token.get(heapq.heappop(self._due)[1])
            if held is not None:
                expired.append(held)
        try:
            await self.hand_back(expired)
        except ToeholdError:
            for held in expired:  # again at the next tick
                heapq.heappush(self._due, (held.until_s, held.token))
            raise

    async def hand_back_where(self, chosen: Callable[[HeldUrl], bool]) -> None:
        """Gives back the chosen URLs, whoever has them."""
        await self.hand_back(held for held in list(self._by_token.values()) if chosen(held))

    async def _finished(self, reports: Sequence[Report]) -> list[Disposition.ValueType]:
        request = FinishedRequest(reports=reports, node=self.node, session=self._session, partial=True)
        answer = await self._ask(lambda stubs: stubs.frontier.Finished, request)
        return [result.disposition for result in answer.results]

    # its life as a node

    async def run(self) -> str:
        """Keeps leases alive and hands them back in time; returns why the gateway must end. Raises
        SessionSuperseded."""
        handing_back = asyncio.create_task(self._hand_back_in_time())
        try:
            await keep_calling(self._beat, CallPace(_note_refusal, LONGEST_HEARTBEAT_REST_S))
        except _Drained:
            return "an operator has asked this gateway to stop"
        finally:
            handing_back.cancel()

    async def _hand_back_in_time(self) -> None:
        with suppress(SessionSuperseded):  # the next heartbeat ends the gateway
            await keep_calling(self._hand_back_due, CallPace(_note_refusal))

    async def _hand_back_due(self) -> float:
        await self.hand_back_expired()
        return _TICK_S

    async def leave(self) -> None:
        """Gives all leases back: the gateway ends."""
        await self._ask(lambda stubs: stubs.frontier.Heartbeat, self._heartbeat((), leaving=True))

    async def _beat(self) -> float:
        """Sends heartbeats for all leases. Returns how long to wait before the next."""
        tokens = list(self._by_token)
        wait_s = 0.0
        for start in range(0, max(1, len(tokens)), _MAX_TOKENS):
            request = self._heartbeat(tokens[start : start + _MAX_TOKENS], leaving=False)
            answer = await self._ask(lambda stubs: stubs.frontier.Heartbeat, request)
            wait_s = self._obedience.obey(answer)
        return wait_s

    def _heartbeat(self, tokens: Sequence[bytes], *, leaving: bool) -> HeartbeatRequest:
        steps = [ToeStepCount(step=_STEP, count=len(self._by_token))]
        return HeartbeatRequest(
            node=self.node, session=self._session, tokens=tokens, toe_steps=steps, leaving=leaving
        )


class _Obeyed(Orders):
    """What the gateway does as the frontier asks. Leases of crawls that pause stay with their clients."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    def end(self, tokens: Collection[bytes]) -> None:
        self._leases.drop_ended(tokens)

    def drain(self) -> None:
        raise _Drained


class _Drained(Exception):
    """An operator has asked the gateway to end."""


def _note_refusal(problem: ToeholdError) -> None:
    _log.warning("frontier_refused", problem=str(problem), request_id=problem.request_id)
