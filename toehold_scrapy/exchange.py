"""All dealings with the frontier after the start: three threads over one book of leases.

Threads, because a callback may keep the reactor busy for longer than a lease lives. Whatever they have for
Scrapy comes to it in the reactor's own thread.
"""

import threading
from collections.abc import Callable, Sequence

from toehold.frontier.v1.frontier_pb2 import Report
from toehold_client import FrontierClient
from toehold_client.worker.contact import Contact
from toehold_client.worker.rests import CALL_TIMEOUT_S

from .book import Book, SpiderLease
from .configuration import Configuration
from .fetches import KILLED, bare_report, release
from .heartbeat import Heartbeat
from .log import SpiderLog, logger
from .outbox import Done, Entry, Judged, Outbox
from .poller import LeaseListener, Poller

FLUSH_S = 20.0
"""How long a process that ends tries to send its last reports."""


class ExchangeListener(LeaseListener):
    """Hears of the exchange's events, in threads of the exchange."""

    def judged(self, judged: Judged) -> None:
        """The frontier has judged requests."""

    def resized(self, max_fetches: int) -> None:
        """An operator has set the number of fetches at once."""


def _client(configuration: Configuration) -> FrontierClient:
    return FrontierClient(
        configuration.frontier, timeout_s=CALL_TIMEOUT_S, credentials=configuration.credentials
    )


class LeaseExchange:
    """The leases of this process, and the threads that take, keep and return them."""

    def __init__(self, configuration: Configuration, listener: ExchangeListener) -> None:
        self._listener = listener
        self.book = Book(configuration.max_leases)
        contact = Contact(SpiderLog())
        self._client = _client(configuration)
        self._poller = Poller(
            configuration,
            _client(configuration),
            self.book,
            contact,
            listener,
        )
        self._heartbeat = Heartbeat(
            configuration,
            self._client,
            self.book,
            contact,
            hand_back=self.hand_back,
            break_off=self._break_off,
            resized=listener.resized,
            drain=lambda: listener.must_end("toehold_drained", ""),
        )
        self._outbox = Outbox(
            configuration,
            self._client,
            self.book,
            contact,
            judged=listener.judged,
            launch_failed=lambda why: listener.must_end("toehold_not_launched", why),
        )
        self._threads = {
            name: threading.Thread(target=self._run, args=(name, run), name=f"toehold-{name}", daemon=True)
            for name, run in (
                ("poller", self._poller.run),
                ("heartbeat", self._heartbeat.run),
                ("outbox", self._outbox.run),
            )
        }

    def start(self) -> None:
        for thread in self._threads.values():
            thread.start()

    def send(self, *entries: Entry) -> None:
        """Sends entries to the frontier, in this order."""
        self._outbox.put(*entries)

    def finish(self, held: SpiderLease, report: Report) -> None:
        """Reports a lease, after everything that was sent before. Its first report counts."""
        if not held.reported:
            held.reported = True
            self._outbox.put(Done(held, report))

    def hand_back(self, unfetched: Sequence[SpiderLease]) -> None:
        """Returns leases whose fetch has not begun."""
        for held in unfetched:
            self.finish(held, release(held.lease))

    def stop_taking(self) -> None:
        """Takes no more leases, and returns those that wait."""
        self.book.close()
        self._poller.stop()
        self.hand_back(self.book.withdraw())

    def close(self) -> None:
        """Returns the leases that wait, sends what is left, says goodbye, and ends. Blocks."""
        self.stop_taking()
        self._threads["poller"].join(CALL_TIMEOUT_S)
        self.hand_back(self.book.withdraw())
        self._outbox.close()
        self._threads["outbox"].join(FLUSH_S)
        self._outbox.give_up()
        self._heartbeat.stop()
        self._threads["heartbeat"].join(CALL_TIMEOUT_S)
        self._heartbeat.leave()
        self._client.close()

    def _run(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception:  # a defect; without this thread the spider would wait for ever
            logger.exception("The %s thread failed", name)
            self._listener.must_end("toehold_failed", "")

    def _break_off(self, begun: Sequence[SpiderLease]) -> None:
        """Reports leases that the frontier wants interrupted. Scrapy may go on with them: that no longer
        counts.
        """
        for held in begun:
            self.finish(held, bare_report(held.lease, KILLED))
