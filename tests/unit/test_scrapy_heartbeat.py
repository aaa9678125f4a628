"""A spider's heartbeats, and how it obeys the answers."""

from collections.abc import Sequence
from typing import Any, cast

from scrapy import Request
from scrapy.settings import Settings

from toehold.frontier.v1.crawl_pb2 import FetchPolicy
from toehold.frontier.v1.frontier_pb2 import HeartbeatResponse, Lease, PoolStatistics
from toehold_client.worker.contact import Contact
from toehold_scrapy.book import Book, SpiderLease
from toehold_scrapy.configuration import Configuration
from toehold_scrapy.heartbeat import Heartbeat
from toehold_scrapy.log import SpiderLog

PRESENT = 16


class Frontier:
    """Answers heartbeats one after another, and takes them down."""

    def __init__(self, *answers: HeartbeatResponse) -> None:
        self.answers = list(answers)
        self.heard: list[dict[str, Any]] = []
        self.heartbeat: Heartbeat | None = None

    def answer(self, **said: Any) -> HeartbeatResponse:
        self.heard.append(said)
        answer = self.answers.pop(0)
        answer.interval_duration.FromMilliseconds(1)
        if not self.answers:
            assert self.heartbeat is not None
            self.heartbeat.stop()
        return answer

    @property
    def sizes(self) -> list[int]:
        return [cast(PoolStatistics, said["pool"]).size for said in self.heard]


class Orders:
    """What the spider is told to do."""

    def __init__(self) -> None:
        self.handed_back: list[bytes] = []
        self.broken_off: list[bytes] = []
        self.sizes: list[int] = []
        self.drains = 0

    def hand_back(self, unfetched: Sequence[SpiderLease]) -> None:
        self.handed_back += [held.lease.token for held in unfetched]

    def break_off(self, begun: Sequence[SpiderLease]) -> None:
        self.broken_off += [held.lease.token for held in begun]

    def drain(self) -> None:
        self.drains += 1


def obeyed(book: Book, *answers: HeartbeatResponse) -> tuple[Frontier, Orders]:
    """What is said and done while a frontier gives these answers."""
    frontier, orders = Frontier(*answers), Orders()
    settings = Settings({"TOEHOLD_FRONTIER": "127.0.0.1:1", "TOEHOLD_CRAWL": "c"})
    client = cast(Any, type("Client", (), {"heartbeat": staticmethod(frontier.answer)}))
    frontier.heartbeat = Heartbeat(
        Configuration.of(settings),
        client,
        book,
        Contact(SpiderLog()),
        hand_back=orders.hand_back,
        break_off=orders.break_off,
        resized=orders.sizes.append,
        drain=orders.drain,
    )
    frontier.heartbeat.run()
    return frontier, orders


def three_leases() -> Book:
    """A book with the lease `begun`, which is being fetched, and `one` and `two`, which wait."""
    book = Book(PRESENT)
    book.add(
        [SpiderLease(Lease(token=token), FetchPolicy(), request=Request("http://a.test")) for token in TOKENS]
    )
    book.take()
    return book


TOKENS = (b"begun", b"one", b"two")


def test_a_heartbeat_tells_of_every_lease_and_its_stage() -> None:
    frontier, _ = obeyed(three_leases(), HeartbeatResponse())
    [said] = frontier.heard
    assert said["tokens"] == list(TOKENS)
    assert said["toe_steps"] == {"ABOUT_TO_GET_URI": 2, "FETCHING": 1, "EXTRACTING": 0}


def test_a_spider_that_is_resized_has_room_for_as_many_fetches_and_tells_so() -> None:
    book = Book(PRESENT)
    smaller = HeartbeatResponse(pool_size=4)
    frontier, orders = obeyed(book, HeartbeatResponse(), smaller, smaller)
    assert book.wait_for_room(0) == 4
    assert (orders.sizes, frontier.sizes) == ([4], [PRESENT, PRESENT, 4])


def test_a_spider_that_is_no_longer_resized_has_its_own_size_again() -> None:
    book = Book(PRESENT)
    frontier, orders = obeyed(book, HeartbeatResponse(pool_size=4), HeartbeatResponse(), HeartbeatResponse())
    assert book.wait_for_room(0) == PRESENT
    assert (orders.sizes, frontier.sizes) == ([4, PRESENT], [PRESENT, 4, PRESENT])


def test_leases_that_the_frontier_wants_back_are_returned_unless_they_are_being_fetched() -> None:
    book = three_leases()
    _, orders = obeyed(book, HeartbeatResponse(release_tokens=[b"begun", b"one"]))
    assert (orders.handed_back, orders.broken_off) == ([b"one"], [])
    assert book.withdraw() != []


def test_leases_that_the_frontier_interrupts_are_broken_off_or_returned() -> None:
    _, orders = obeyed(three_leases(), HeartbeatResponse(interrupt_tokens=[b"begun", b"two"]))
    assert (orders.handed_back, orders.broken_off) == ([b"two"], [b"begun"])


def test_leases_that_have_ended_are_not_told_of_again() -> None:
    frontier, _ = obeyed(three_leases(), HeartbeatResponse(ended_tokens=[b"one"]), HeartbeatResponse())
    assert frontier.heard[1]["tokens"] == [b"begun", b"two"]


def test_a_spider_is_asked_to_end_once() -> None:
    _, orders = obeyed(Book(PRESENT), HeartbeatResponse(drain=True), HeartbeatResponse(drain=True))
    assert orders.drains == 1
