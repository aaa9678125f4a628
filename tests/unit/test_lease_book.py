"""The node's book of leases: how many it takes, which it starts, and what becomes of those that end."""

import threading

import pytest
from node_doubles.leases import POLICY, held, lease

from crawler_node.leases.book import FIRST_LEASE_PERIOD_S, HeldLease, LeaseBook, LeaseStage

STAYS = threading.Event()


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> LeaseBook:
    book = LeaseBook(clock)
    book.resize(8)
    return book


def add(book: LeaseBook, *uris: str) -> None:
    assert book.add([(lease(uri), POLICY) for uri in uris]) == []


def take(book: LeaseBook) -> HeldLease:
    taken = book.take(STAYS)
    assert taken is not None
    return taken


def test_room_is_for_every_toe_and_a_quarter_more(book: LeaseBook) -> None:
    assert book.wait_for_room() == 8 + 3


def test_without_toes_there_is_no_room(book: LeaseBook) -> None:
    book.resize(0)
    rooms: list[int] = []
    asking = threading.Thread(target=lambda: rooms.append(book.wait_for_room()))
    asking.start()
    book.resize(1)
    asking.join()
    assert rooms == [2]


def test_leases_that_wait_and_that_are_at_toes_take_room(book: LeaseBook) -> None:
    add(book, "a", "b", "c")
    take(book)
    assert book.wait_for_room() == 11 - 3


def test_a_full_pool_is_refilled_when_half_of_the_look_ahead_is_used_up(book: LeaseBook) -> None:
    add(book, *(f"{n}" for n in range(11)))
    started = [take(book) for _ in range(8)]
    rooms: list[int] = []
    asking = threading.Thread(target=lambda: rooms.append(book.wait_for_room()))
    asking.start()
    book.done(started[0])
    take(book)
    assert not rooms
    book.done(started[1])
    take(book)
    asking.join()
    assert rooms == [2]


def test_a_toe_starts_the_lease_that_came_first(book: LeaseBook) -> None:
    add(book, "a", "b")
    assert [take(book).lease.uri for _ in range(2)] == ["a", "b"]


def test_a_lease_that_no_heartbeat_extended_for_a_period_is_not_started(
    book: LeaseBook, clock: Clock
) -> None:
    add(book, "a", "b")
    clock.now_s += FIRST_LEASE_PERIOD_S - 0.001
    assert take(book).stage is LeaseStage.STARTED
    clock.now_s += 0.001
    assert take(book).stage is LeaseStage.DONE


def test_an_answered_heartbeat_extends_what_was_held_when_it_was_sent(book: LeaseBook, clock: Clock) -> None:
    add(book, "a", "b")
    clock.now_s += 29
    book.vouch(book.tokens(), clock.now_s, 10)
    clock.now_s += 9
    assert take(book).stage is LeaseStage.STARTED
    clock.now_s += 1
    assert take(book).stage is LeaseStage.DONE


def test_a_lapsed_lease_still_counts_as_held_until_it_is_handed_back(book: LeaseBook, clock: Clock) -> None:
    add(book, "a")
    clock.now_s += FIRST_LEASE_PERIOD_S
    lapsed = take(book)
    assert book.tokens() == [b"a"]
    book.settle([lapsed])
    assert book.tokens() == []


def test_leases_are_held_from_their_coming_until_they_are_settled(book: LeaseBook) -> None:
    add(book, "a", "b", "c")
    working, finished = take(book), take(book)
    book.done(finished)
    assert set(book.tokens()) == {b"a", b"b", b"c"}
    book.settle([finished])
    assert set(book.tokens()) == {b"a", b"c"}
    assert working.stage is LeaseStage.STARTED


def test_ended_leases_are_dropped_unstarted_and_cut_while_they_run(book: LeaseBook) -> None:
    add(book, "running", "finished", "waiting", "other")
    running, finished = take(book), take(book)
    book.done(finished)
    book.end([b"running", b"finished", b"waiting", b"never heard of"])
    assert running.cancellation.cancelled and running.ended
    assert finished.ended and not finished.cancellation.cancelled
    assert take(book).lease.uri == "other"
    assert b"waiting" not in book.tokens()


def test_only_what_has_not_been_started_is_given_back(book: LeaseBook) -> None:
    add(book, "running", "waiting", "other")
    running = take(book)
    given_back = book.give_back([b"running", b"waiting"])
    assert [one.lease.uri for one in given_back] == ["waiting"]
    assert running.stage is LeaseStage.STARTED and not running.cancellation.cancelled
    assert take(book).lease.uri == "other"


def test_what_waits_for_toes_that_there_are_no_more_is_given_back_the_latest_first(book: LeaseBook) -> None:
    add(book, *(f"{n}" for n in range(11)))
    for _ in range(4):
        take(book)
    assert [one.lease.uri for one in book.resize(5)] == ["10", "9", "8", "7"]
    assert [take(book).lease.uri for _ in range(3)] == ["4", "5", "6"]


def test_toes_that_end_after_their_fetch_do_not_count_for_those_that_wait(book: LeaseBook) -> None:
    add(book, "running", "other running", "waiting")
    take(book), take(book)
    assert [one.lease.uri for one in book.resize(1)] == ["waiting"]


def test_leases_that_come_for_toes_that_there_are_no_more_are_given_back(book: LeaseBook) -> None:
    assert book.resize(0) == []
    late = book.add([(lease("a"), POLICY), (lease("b"), POLICY)])
    assert [(one.lease.uri, one.stage) for one in late] == [("b", LeaseStage.DONE), ("a", LeaseStage.DONE)]
    assert set(book.tokens()) == {b"a", b"b"}, "held until they are handed back"
    book.resize(1)
    add(book, "c")
    assert take(book).lease.uri == "c"


def test_no_more_leases_are_held_than_a_heartbeat_may_name(book: LeaseBook) -> None:
    book.resize(9_000)
    add(book, *(f"{n}" for n in range(9_990)))
    finished = [take(book) for _ in range(9_000)]
    for one in finished:
        book.done(one)
    rooms: list[int] = []
    asking = threading.Thread(target=lambda: rooms.append(book.wait_for_room()))
    asking.start()
    book.settle(finished)
    asking.join()
    assert rooms == [9_010]


def test_a_suspended_book_hands_back_what_waits_and_takes_in_nothing(book: LeaseBook) -> None:
    add(book, "a")
    assert [one.lease.uri for one in book.suspend()] == ["a"]
    assert book.wait_for_room() == 0
    assert [one.lease.uri for one in book.add([(lease("b"), POLICY)])] == ["b"]
    book.resume()
    assert book.wait_for_room() == 11
    add(book, "c")
    assert take(book).lease.uri == "c"


def test_a_closed_book_stays_closed(book: LeaseBook) -> None:
    add(book, "a")
    assert [one.lease.uri for one in book.close()] == ["a"]
    book.resume()
    assert book.wait_for_room() == 0


def test_closing_wakes_the_poller(book: LeaseBook) -> None:
    add(book, *(f"{n}" for n in range(11)))
    rooms: list[int] = []
    asking = threading.Thread(target=lambda: rooms.append(book.wait_for_room()))
    asking.start()
    book.close()
    asking.join()
    assert rooms == [0]


def test_a_toe_that_should_leave_is_woken_by_the_resize(book: LeaseBook) -> None:
    """D25: retirement is noticed while waiting."""
    leaving = threading.Event()
    taken: list[HeldLease | None] = []
    toe = threading.Thread(target=lambda: taken.append(book.take(leaving)))
    toe.start()
    leaving.set()
    book.resize(0)
    toe.join()
    assert taken == [None]


def test_interruption_reaches_the_started_ones_only(book: LeaseBook) -> None:
    add(book, "running", "waiting")
    running = take(book)
    book.interrupt_started()
    assert running.cancellation.cancelled
    assert not take(book).cancellation.cancelled


def test_a_spell_lasts_while_any_lease_of_the_crawl_is_held(book: LeaseBook) -> None:
    first, second = held(book, lease("a"), lease("b"))
    (other,) = held(book, lease("c", crawl="other"))
    assert first.spell == second.spell != other.spell
    book.settle([first])
    (third,) = held(book, lease("d"))
    assert third.spell == first.spell
    book.settle([second, third])
    (fourth,) = held(book, lease("e"))
    assert fourth.spell != first.spell


def test_settling_twice_is_harmless(book: LeaseBook) -> None:
    first, second = held(book, lease("a"), lease("b"))
    book.settle([first, first])
    assert book.tokens() == [b"b"]
    assert held(book, lease("c"))[0].spell == second.spell


def test_a_heartbeat_extends_only_what_it_named(book: LeaseBook, clock: Clock) -> None:
    add(book, "named", "later")
    clock.now_s += 29
    book.vouch([b"named"], clock.now_s, 30)
    clock.now_s += 1
    assert take(book).stage is LeaseStage.STARTED
    assert take(book).stage is LeaseStage.DONE


def test_a_lease_is_as_old_as_the_question_that_its_answer_was_long_on_the_way_to(
    book: LeaseBook, clock: Clock
) -> None:
    asked_at_s = clock.now_s
    clock.now_s += FIRST_LEASE_PERIOD_S
    book.add([(lease("late"), POLICY)], asked_at_s)
    assert take(book).stage is LeaseStage.DONE


def test_a_debugger_shows_a_books_counts_and_how_far_a_lease_has_come(book: LeaseBook) -> None:
    (running, _) = held(book, lease("http://a/"), lease("http://b/"))
    add(book, "http://c/")
    book.end([b"http://a/"])
    assert repr(running) == "<HeldLease http://a/ of crawl 'crawl': started, ended>"
    assert repr(book) == "<LeaseBook for 8 toes: 1 queued, 2 started, 0 done>"
    book.suspend()
    assert repr(book) == "<LeaseBook for 8 toes: 0 queued, 2 started, 1 done, suspended>"
