"""Asks the frontier for as many leases as can be fetched soon."""

import threading
from collections.abc import Sequence
from typing import Protocol

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_client import FrontierClient, ToeholdError
from toehold_client.errors import InvalidArgument, SessionSuperseded, UnknownCrawl
from toehold_client.worker.contact import Contact
from toehold_client.worker.rests import CallPace, poll_rest_s
from toehold_client.worker.threads import keep_calling

from .book import Book, SpiderLease
from .configuration import FETCHER, MISCONFIGURED, Configuration
from .log import logger

LONG_POLL_S = 10.0
"""How long the frontier may hold back an answer: a third of a lease period, so that leases of an answer that
comes late are young."""

ROOM_CHECK_S = 5.0
MAX_LEASES = 100

_SAID = {
    frontier_pb2.EMPTY_REASON_NOT_RUNNING: "The crawl is not launched yet; waiting",
    frontier_pb2.EMPTY_REASON_PAUSED: "The crawl is paused; waiting",
    frontier_pb2.EMPTY_REASON_OTHER_FETCHER: "The crawl is for fetchers of another kind now; waiting",
    frontier_pb2.EMPTY_REASON_LIMIT_REACHED: (
        "The crawl has reached its limit of documents; waiting for its end"
    ),
}

_UNHEEDED = (
    *("accept_media_types", "reject_media_types", "max_content_length", "proxy", "user"),
    *("cookies", "max_bytes_per_second"),
)
"""Requests of a fetch policy that only crawler nodes obey."""


class LeaseListener(Protocol):
    """Hears of leases, and of the end, in the poller's thread."""

    def arrived(self, robots: Sequence[SpiderLease]) -> None:
        """There are leases; these are for robots.txt files."""

    def crawl_over(self) -> None:
        """The crawl gives no leases any more."""

    def must_end(self, reason: str, message: str) -> None:
        """This process may do nothing more for the crawl."""


class Poller:
    """Asks for leases until it is stopped, or the crawl is over. `client` is its own: `stop` closes it, to
    break off the call that waits.
    """

    def __init__(
        self,
        configuration: Configuration,
        client: FrontierClient,
        book: Book,
        contact: Contact,
        listener: LeaseListener,
    ) -> None:
        self._configuration = configuration
        self._client = client
        self._book = book
        self._contact = contact
        self._listener = listener
        self._policies: dict[str, crawl_pb2.FetchPolicy] = {}
        self._said: frontier_pb2.EmptyReason.ValueType | None = None
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends `run`."""
        self._stop.set()
        self._client.close()

    def run(self) -> None:
        """Fills the book."""
        try:
            keep_calling(self._fill, CallPace(self._tell), self._stop)
        except SessionSuperseded as error:
            self._listener.must_end("toehold_superseded", str(error))

    def _fill(self) -> float:
        """Waits for room in the book, and asks for as many leases. Returns how long to wait before asking
        again."""
        room = self._book.wait_for_room(ROOM_CHECK_S)
        if not room:
            return 0.0
        try:
            with self._contact.noting():
                answer = self._ask(room)
        except UnknownCrawl as error:
            self._end("toehold_unknown_crawl", str(error))
        except InvalidArgument as error:  # TOEHOLD_NODE is too long
            self._end(MISCONFIGURED, str(error))
        else:
            if answer.empty_reason != frontier_pb2.EMPTY_REASON_FINISHED:
                return self._take_in(answer)
            self._stop.set()
            self._listener.crawl_over()
        return 0.0

    def _end(self, reason: str, message: str) -> None:
        self._stop.set()
        self._listener.must_end(reason, message)

    def _tell(self, refusal: ToeholdError) -> None:
        logger.error("The frontier gives no leases: %s", refusal)

    def _ask(self, room: int) -> frontier_pb2.NextResponse:
        return self._client.next(
            crawl=self._configuration.crawl,
            node=self._configuration.node,
            session=self._configuration.session,
            max_leases=min(room, MAX_LEASES),
            wait_s=LONG_POLL_S,
            known_fetch_policy_ids=list(self._policies),
            fetcher_kinds=(FETCHER,),
        )

    def _take_in(self, answer: frontier_pb2.NextResponse) -> float:
        """Puts the leases of an answer into the book. Returns how long to wait before asking again."""
        for policy in answer.fetch_policies:
            self._policies[policy.fetch_policy_id] = policy
            unheeded = [name for name in _UNHEEDED if getattr(policy, name)]
            if unheeded:
                logger.warning(
                    "Scrapy ignores these settings of the crawl: %s. Its own settings apply",
                    ", ".join(f"fetch.{name}" for name in unheeded),
                )
        if answer.leases:
            self._said = None
            arrived = [SpiderLease(lease, self._policies[lease.fetch_policy_id]) for lease in answer.leases]
            self._book.add(arrived)
            self._listener.arrived([held for held in arrived if held.is_robots])
            return 0.0
        if answer.empty_reason != self._said:
            self._said = answer.empty_reason
            if answer.empty_reason in _SAID:
                logger.info(_SAID[answer.empty_reason])
        return poll_rest_s(answer)
