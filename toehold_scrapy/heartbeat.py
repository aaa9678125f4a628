"""Tells the frontier every few seconds which leases this process holds, and obeys its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from toehold.frontier.v1.frontier_pb2 import HeartbeatResponse, PoolStatistics
from toehold_client import FrontierClient, ToeholdError

from .book import Book, Held
from .calls import Abandoned, Contact, logger, persist
from .configuration import Configuration

DEFAULT_INTERVAL_S = 3.0


class Heartbeat:
    """Sends heartbeats until it is stopped, the first at once. Its callbacks run in its thread.

    `hand_back` gets leases that were not begun, `break_off` those that were; `resized` the number of fetches
    at once when an operator changes it; `drain` is called when this process should end.
    """

    def __init__(
        self,
        configuration: Configuration,
        client: FrontierClient,
        book: Book,
        contact: Contact,
        *,
        hand_back: Callable[[Sequence[Held]], None],
        break_off: Callable[[Sequence[Held]], None],
        resized: Callable[[int], None],
        drain: Callable[[], None],
    ) -> None:
        self._node = configuration.node
        self._session = configuration.session
        self._own_size = configuration.max_leases
        self._client = client
        self._book = book
        self._contact = contact
        self._hand_back = hand_back
        self._break_off = break_off
        self._resized = resized
        self._drain = drain
        self._draining = False
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends `run`."""
        self._stop.set()

    def run(self) -> None:
        """Sends heartbeats."""
        while not self._stop.is_set():
            try:
                answer = persist(self._beat, self._contact, self._stop)
            except Abandoned:
                return
            except ToeholdError as error:  # of another session, say: the feeder hears it too
                logger.debug("The frontier refused a heartbeat: %s", error)
                self._stop.wait(DEFAULT_INTERVAL_S)
                continue
            self._obey(answer)
            interval_s = answer.interval_duration.ToTimedelta().total_seconds() or DEFAULT_INTERVAL_S
            self._stop.wait(min(max(interval_s, 0.1), 60.0))

    def leave(self) -> None:
        """Says goodbye. Leases that this process still holds go back at once."""
        try:
            self._client.heartbeat(node=self._node, session=self._session, tokens=(), leaving=True)
        except ToeholdError as error:  # the frontier will notice
            logger.debug("The frontier could not be told that this process ends: %s", error)

    def _beat(self) -> HeartbeatResponse:
        size = self._book.max_fetches
        return self._client.heartbeat(
            node=self._node,
            session=self._session,
            tokens=self._book.tokens(),
            toe_steps=self._book.stages(),
            pool=PoolStatistics(size=size, alive_count=size),
        )

    def _obey(self, answer: HeartbeatResponse) -> None:
        self._book.end(answer.ended_tokens)
        self._hand_back(self._book.withdraw({*answer.release_tokens, *answer.interrupt_tokens}))
        self._break_off(self._book.begun(answer.interrupt_tokens))
        size = answer.pool_size if answer.HasField("pool_size") else self._own_size
        if size != self._book.max_fetches:
            self._book.resize(size)
            self._resized(size)
        if answer.drain and not self._draining:
            self._draining = True
            logger.info("An operator asks this process to end")
            self._drain()
