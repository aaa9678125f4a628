"""Tells the frontier every few seconds which leases this process holds, and obeys its answer."""

import threading
from collections.abc import Callable, Collection, Sequence

from toehold.frontier.v1.frontier_pb2 import PoolStatistics
from toehold_client import FrontierClient, ToeholdError
from toehold_client.errors import SessionSuperseded
from toehold_client.worker.contact import Contact
from toehold_client.worker.orders import Obedience, Orders
from toehold_client.worker.rests import LONGEST_HEARTBEAT_REST_S, CallPace
from toehold_client.worker.threads import keep_calling

from .book import Book, SpiderLease
from .configuration import Configuration
from .log import logger


class Heartbeat(Orders):
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
        hand_back: Callable[[Sequence[SpiderLease]], None],
        break_off: Callable[[Sequence[SpiderLease]], None],
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
        self._obedience = Obedience(self)
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends `run`."""
        self._stop.set()

    def run(self) -> None:
        try:
            keep_calling(self._beat, CallPace(self._note_refusal, LONGEST_HEARTBEAT_REST_S), self._stop)
        except SessionSuperseded as error:  # the poller hears it too, and ends this process
            self._note_refusal(error)

    def leave(self) -> None:
        """Says goodbye. Leases that this process still holds go back at once."""
        try:
            self._client.heartbeat(node=self._node, session=self._session, tokens=(), leaving=True)
        except ToeholdError as error:  # the frontier will notice
            logger.debug("The frontier could not be told that this process ends: %s", error)

    def _beat(self) -> float:
        """Sends one heartbeat. Returns how long to wait before the next."""
        size = self._book.max_fetches
        with self._contact.noting():
            answer = self._client.heartbeat(
                node=self._node,
                session=self._session,
                tokens=self._book.tokens(),
                toe_steps=self._book.stages(),
                pool=PoolStatistics(size=size, alive_count=size),
            )
        return self._obedience.obey(answer)

    def _note_refusal(self, error: ToeholdError) -> None:
        logger.debug("The frontier refused a heartbeat: %s", error)

    # the frontier's orders: see Orders

    def end(self, tokens: Collection[bytes]) -> None:
        self._book.end(tokens)

    def hand_back(self, tokens: Collection[bytes]) -> None:
        self._hand_back(self._book.withdraw(tokens))

    def interrupt(self, tokens: Collection[bytes]) -> None:
        self._hand_back(self._book.withdraw(tokens))
        self._break_off(self._book.begun(tokens))

    def resize(self, size: int | None) -> None:
        max_fetches = self._own_size if size is None else size
        if max_fetches != self._book.max_fetches:
            self._book.resize(max_fetches)
            self._resized(max_fetches)

    def share_name(self, rival_session: str) -> None:
        logger.warning(
            "Another process has the node name %r, too: give each its own TOEHOLD_NODE", self._node
        )

    def drain(self) -> None:
        logger.info("An operator asks this process to end")
        self._drain()
