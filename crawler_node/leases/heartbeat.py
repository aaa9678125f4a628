"""Heartbeat: tells the frontier every few seconds what this node holds and does, and obeys its answer."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

import structlog

from toehold.frontier.v1.frontier_pb2 import PoolStatistics

from .book import Held, LeaseBook
from .frontier import Abandoned, FrontierConnection, NotNow, Refused, Rests, Superseded, request_id_of

DEFAULT_INTERVAL_S = 3.0
"""The interval for a frontier that tells none."""

SHORTEST_INTERVAL_S = 0.1
LONGEST_INTERVAL_S = 60.0
"""The frontier may choose an interval between these two."""

log = structlog.get_logger()


class Pool(Protocol):
    """The part of the toe pool that a heartbeat needs."""

    def set_size(self, size: int) -> None:
        """Changes the number of threads. Raises RuntimeError if the system has no more of them now."""
        ...

    def steps(self) -> Counter[str]:
        """How many threads are at each step."""
        ...

    def statistics(self) -> PoolStatistics:
        """How many threads live, died, were killed and were left behind."""
        ...


class Heartbeat:
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
        give_back: Callable[[Iterable[Held]], None],
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
        self._asked_size: int | None = None
        self._service_address = service_address
        self._drain = drain
        self._trouble = trouble
        self._idle_crawls = idle_crawls
        self._end_crawls = end_crawls
        self._draining = False
        self._rivals: set[str] = set()
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
        """Sends heartbeats. Raises Superseded."""
        rests = Rests()
        while not self._stop.is_set():
            try:
                wait_s = self._beat()
            except Abandoned:
                return
            except NotNow as error:
                wait_s = rests.next_s(error.retry_after_s)
            except Refused as error:
                log.error("heartbeat_refused", error=str(error), request_id=request_id_of(error))
                wait_s = Rests.LONGEST_S
            else:
                rests = Rests()
            self._stop.wait(wait_s)
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
        self._book.end(answer.ended_tokens)
        lease_period_s = answer.lease_duration.ToTimedelta().total_seconds()
        if lease_period_s > 0:
            self._book.vouch(set(tokens).difference(answer.ended_tokens), sent_at_s, lease_period_s)
        self._give_back(self._book.give_back(answer.release_tokens))
        self._give_back(self._book.kill(answer.interrupt_tokens))
        self._size_pool(answer.pool_size if answer.HasField("pool_size") else None)
        self._note_rival(answer.rival_session)
        if answer.drain and not self._draining:
            log.info("drain_asked")
            self._draining = True
            self._drain()
        interval_s = answer.interval_duration.ToTimedelta().total_seconds() or DEFAULT_INTERVAL_S
        return min(max(interval_s, SHORTEST_INTERVAL_S), LONGEST_INTERVAL_S)

    def _note_rival(self, session: str) -> None:
        """Warns once of each other process that has this node's name."""
        if session and session not in self._rivals:
            self._rivals.add(session)
            log.warning("name_shared", name=self._frontier.node, rival_session=session)

    def _size_pool(self, asked: int | None) -> None:
        """Obeys a size when the frontier names another one than before; otherwise NodeService's size
        holds."""
        if asked == self._asked_size:
            return
        self._asked_size = asked
        size = self._toes if asked is None else asked
        log.info("pool_resized", toes=size)
        try:
            self._pool.set_size(size)
        except RuntimeError as error:  # the system has no more threads; the pool tries again
            log.error("toes_not_started", error=str(error))

    def _say_goodbye(self) -> None:
        try:
            self._frontier.heartbeat((), {}, leaving=True)
        except (Abandoned, NotNow, Refused, Superseded) as error:  # it will notice
            log.debug("goodbye_failed", error=str(error), request_id=request_id_of(error))
