"""Streams of events from both clients: what they tell, and how they outlive connections and servers."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import grpc
import pytest
from client_doubles.blocking import Connect, of_both_clients
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, Answer, FakeFrontier, Refusal, serving
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import PATIENCE_S

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Event
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse
from toehold_client.errors import CursorTooOld, DeadlineExceeded, FrontierUnavailable, UnknownCrawl

RUNNING, PAUSED = CrawlState.CRAWL_STATE_RUNNING, CrawlState.CRAWL_STATE_PAUSED
UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
TOO_OLD = Refusal(grpc.StatusCode.OUT_OF_RANGE, "events 1 to 7 are no longer kept", "CURSOR_TOO_OLD")


def present(cursor: str, state: CrawlState.ValueType = RUNNING) -> StateEventsResponse:
    return StateEventsResponse(present=CrawlStatus(state=state), cursor=cursor)


def event(number: int) -> StateEventsResponse:
    return StateEventsResponse(event=Event(sequence=number, cursor=f"e{number}"), cursor=f"e{number}")


def numbers(messages: list[StateEventsResponse]) -> list[int]:
    """The events' numbers, 0 for a message without one."""
    return [message.event.sequence for message in messages]


def asked_cursors(frontier: FakeFrontier) -> list[str]:
    return [request.cursor for request in frontier.asked["StateEvents"]]


@of_both_clients
def test_the_present_state_then_events_until_the_stream_ends(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    line = [present("e0"), event(1), event(2)]
    frontier.will("StateEvents", line)
    assert list(connect(address).state_events("c", "start")) == line
    assert asked_cursors(frontier) == ["start"]


@of_both_clients
def test_a_stream_that_has_ended_stays_ended(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("StateEvents", [present("e0")])
    stream = connect(address).state_events("c")
    assert len(list(stream)) == 1
    assert list(stream) == []


@of_both_clients
def test_a_broken_stream_goes_on_after_its_last_event_without_gap_or_repeat(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will(
        "StateEvents",
        [present("e0"), event(1), UNAVAILABLE],
        UNAVAILABLE,
        [present("e1", PAUSED), UNAVAILABLE],
        [present("e1", PAUSED), event(2), event(3)],
    )
    stream = connect(address).state_events("c", "start")
    assert numbers(list(stream)) == [0, 1, 2, 3]  # the present state once
    assert asked_cursors(frontier) == ["start", "e1", "e1", "e1"]
    assert stream.cursor == "e3"


@of_both_clients
def test_a_server_that_dies_and_comes_back_is_waited_out(connect: Connect) -> None:
    dying, reborn = FakeFrontier(), FakeFrontier()
    dying.will("StateEvents", [present("e0"), event(1), SILENCE])
    reborn.will("StateEvents", [present("e1"), event(2)])
    with KeptPort() as kept:
        with serving(dying, kept.address) as address:
            stream = connect(address).state_events("c", "start")
            read = [next(stream), next(stream)]
        with serving(reborn, address):
            read.extend(stream)
    assert numbers(read) == [0, 1, 2]
    assert asked_cursors(reborn) == ["e1"]


@of_both_clients
def test_a_server_that_stays_away_is_told_after_the_time_given(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("StateEvents", [present("e0"), UNAVAILABLE], *[UNAVAILABLE] * 50)
    stream = connect(address).state_events("c", reconnect_s=0.5)
    next(stream)
    began_s = time.monotonic()
    with pytest.raises(FrontierUnavailable):
        next(stream)
    assert time.monotonic() - began_s < PATIENCE_S
    assert len(asked_cursors(frontier)) > 1


@of_both_clients
def test_the_first_connection_has_the_clients_patience(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("StateEvents", UNAVAILABLE, UNAVAILABLE, [present("e0")])
    assert len(list(connect(address, patience_s=PATIENCE_S).state_events("c"))) == 1


@of_both_clients
@pytest.mark.parametrize("connection", [1, 2])
def test_an_old_cursor_is_told_after_the_present_state(
    frontier: FakeFrontier, address: str, connect: Connect, connection: int
) -> None:
    lines: list[list[Answer]] = [[present("e0"), event(1), UNAVAILABLE]] * (connection - 1)
    frontier.will("StateEvents", *lines, [present("e7"), TOO_OLD])
    stream = connect(address).state_events("c", "e0")
    assert next(stream).HasField("present")
    with pytest.raises(CursorTooOld, match="events 1 to 7 are no longer kept"):
        list(stream)


@of_both_clients
def test_a_crawl_that_is_not_there_is_told(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("StateEvents", UNKNOWN)
    with pytest.raises(UnknownCrawl):
        next(connect(address, patience_s=PATIENCE_S).state_events("c"))


@of_both_clients
@pytest.mark.parametrize("line", [[present("e0"), SILENCE], [SILENCE]])
def test_a_stream_with_a_limit_ends_at_it(
    frontier: FakeFrontier, address: str, connect: Connect, line: list[Answer]
) -> None:
    frontier.will("StateEvents", *[line] * 20)
    began_s = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"events of crawl 'c' did not end within 0\.3 s"):
        list(connect(address).state_events("c", timeout_s=0.3))
    assert 0.3 <= time.monotonic() - began_s < PATIENCE_S


@of_both_clients
def test_a_limit_counts_while_the_server_is_away_too(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("StateEvents", [present("e0"), UNAVAILABLE], *[UNAVAILABLE] * 50)
    with pytest.raises(DeadlineExceeded):
        list(connect(address).state_events("c", timeout_s=0.3, reconnect_s=PATIENCE_S))


def reading(stream: Iterator[Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread that reads the stream to its end."""
    read: list[Any] = []
    thread = threading.Thread(target=lambda: read.extend(stream))
    thread.start()
    return thread, read


@of_both_clients
@pytest.mark.parametrize(
    "line", [[present("e0"), SILENCE], [present("e0"), UNAVAILABLE]], ids=["silent", "broken"]
)
def test_closing_a_stream_ends_its_reader(
    frontier: FakeFrontier, address: str, connect: Connect, line: list[Answer]
) -> None:
    frontier.will("StateEvents", line, *[UNAVAILABLE] * 200)
    stream = connect(address).state_events("c")
    next(stream)
    thread, read = reading(stream)
    stream.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert read == []
    stream.close()
    assert list(stream) == []


@of_both_clients
def test_closing_the_client_ends_its_streams(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("StateEvents", [present("e0"), SILENCE])
    client = connect(address)
    stream = client.state_events("c")
    next(stream)
    thread, read = reading(stream)
    client.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert read == []


@of_both_clients
def test_leaving_a_stream_closes_it(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("StateEvents", [present("e0"), SILENCE])
    with closing(connect(address).state_events("c")) as stream:
        next(stream)
    assert list(stream) == []
