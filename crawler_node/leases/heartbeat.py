"""Heartbeat: tells the frontier every few seconds what this node holds and does, and obeys its answer."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

import structlog

from toehold.frontier.v1.frontier_pb2 import PoolStatistics
from toehold_client.errors import ToeholdError
from toehold_client.worker.orders import Obedience, Orders
from toehold_client.worker.rests import LONGEST_HEARTBEAT_REST_S, CallPace
from toehold_client.worker.threads import keep_calling

from .book import HeldLease, LeaseBook
from .frontier import FrontierConnection

log = structlog.get_logger()


class Pool(Protocol):
    """The part of the toe pool that a heartbeat needs."""

    def set_size(self, size: int) -> None:
        """Changes the number of threads. Raises RuntimeError if the system has no more of them now."""

    def steps(self) -> Counter[str]:
        """How many threads are at each step."""

    def statistics(self) -> PoolStatistics:
        """How many threads live, died, were killed and were left behind."""


class Heartbeat(Orders):
    """Sends heartbeats until it is stopped, the first at once.

    `toes` is the pool's own size, which it gets again when the frontier no longer names one. Each heartbeat
    tells `service_address`, and `trouble()`, the reason why the node cannot go on, if there is one. It asks
    about `idle_crawls()`, at most 100, and tells `end_crawls` which of them have ended. `drain` is called
    when the frontier wants the node to end.
    """

    def __init__(
        self,
        frontier: FrontierConnection,
        book: LeaseBook,
        pool: Pool,
        give_back: Callable[[Iterable[HeldLease]], None],
        *,
        toes: int,
        service_address: str = "",
        drain: Callable[[], None] = lambda: None,
        trouble: Callable[[], str] = lambda: "",
        idle_crawls: Callable[[], Collection[str]] = lambda: (),
        end_crawls: Callable[[Iterable[str]], None] = lambda crawls: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frontier = frontier
        self._book = book
        self._pool = pool
        self._give_back = give_back
        self._toes = toes
        self._service_address = service_address
        self._drain = drain
        self._trouble = trouble
        self._idle_crawls = idle_crawls
        self._end_crawls = end_crawls
        self._obedience = Obedience(self)
        self._clock_s = clock_s
        self._leaving = False
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends `run`."""
        self._stop.set()

    def leave(self) -> None:
        """Ends `run` with a last heartbeat, which says goodbye. The node must hold no lease any more."""
        self._leaving = True
        self._stop.set()

    def run(self) -> None:
        """Sends heartbeats. Raises SessionSuperseded."""
        keep_calling(self._beat, CallPace(self._note_refusal, LONGEST_HEARTBEAT_REST_S), self._stop)
        if self._leaving:
            self._say_goodbye()

    def _beat(self) -> float:
        """Sends one heartbeat. Returns how long to wait before the next."""
        sent_at_s = self._clock_s()
        tokens = self._book.tokens()
        answer = self._frontier.heartbeat(
            tokens,
            self._pool.steps(),
            pool=self._pool.statistics(),
            service_address=self._service_address,
            trouble=self._trouble(),
            idle_crawls=self._idle_crawls(),
        )
        self._end_crawls(answer.ended_crawls)
        lease_period_s = answer.lease_duration.ToTimedelta().total_seconds()
        if lease_period_s > 0:
            self._book.vouch(set(tokens).difference(answer.ended_tokens), sent_at_s, lease_period_s)
        return self._obedience.obey(answer)

    def _note_refusal(self, error: ToeholdError) -> None:
        log.error("heartbeat_refused", error=str(error), request_id=error.request_id)

    def _say_goodbye(self) -> None:
        try:
            self._frontier.heartbeat((), {}, leaving=True)
        except ToeholdError as error:  # it will notice
            log.debug("goodbye_failed", error=str(error), request_id=error.request_id)

    # the frontier's orders: see Orders

    def end(self, tokens: Collection[bytes]) -> None:
        self._book.end(tokens)

    def hand_back(self, tokens: Collection[bytes]) -> None:
        self._give_back(self._book.give_back(tokens))

    def interrupt(self, tokens: Collection[bytes]) -> None:
        self._give_back(self._book.kill(tokens))

    def resize(self, size: int | None) -> None:
        toes = self._toes if size is None else size
        log.info("pool_resized", toes=toes)
        try:
            self._pool.set_size(toes)
        except RuntimeError as error:  # the system has no more threads; the pool tries again
            log.error("toes_not_started", error=str(error))

    def share_name(self, rival_session: str) -> None:
        log.warning("name_shared", name=self._frontier.node, rival_session=rival_session)

    def drain(self) -> None:
        log.info("drain_asked")
        self._drain()
