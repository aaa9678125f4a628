"""Connections that wait for the next request: how long, how many, and for whom."""

import socket
from collections.abc import Iterator
from ipaddress import ip_address
from math import inf

import pytest

from crawler_node.fetching.kept import (
    DISTRUST_S,
    IDLE_S,
    MARGIN_S,
    MAX_KEPT,
    Circle,
    KeptConnections,
    Place,
    Server,
)

ADDRESS = ip_address("192.0.2.1")


class Waiting:
    """A pool with a clock that stands still, and the servers' ends of its connections."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pool = KeptConnections(lambda: self.now_s)
        self.servers: dict[socket.socket, socket.socket] = {}

    def put(self, place: Place, idle_s: float = inf) -> socket.socket:
        """Let a new connection wait."""
        ours, theirs = socket.socketpair()
        self.servers[ours] = theirs
        self.pool.put(place, ours, ADDRESS, idle_s)
        return ours

    def close(self) -> None:
        self.pool.close()
        for ours, theirs in self.servers.items():
            ours.close()
            theirs.close()


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    made = Waiting()
    yield made
    made.close()


def place(host: str = "a.example", crawl: str = "c", policy: str = "p", port: int = 80) -> Place:
    return Circle(crawl, policy), Server("http", host, port)


def is_closed(sock: socket.socket) -> bool:
    return sock.fileno() < 0


def test_a_connection_is_taken_once(waiting: Waiting) -> None:
    sock = waiting.put(place())
    kept = waiting.pool.take(place())
    assert kept is not None
    assert (kept.sock, kept.address) == (sock, ADDRESS)
    assert waiting.pool.take(place()) is None


@pytest.mark.parametrize(
    "other", [place("b.example"), place(crawl="other"), place(policy="q"), place(port=8080)]
)
def test_another_place_gets_none(waiting: Waiting, other: Place) -> None:
    waiting.put(place())
    assert waiting.pool.take(other) is None


def test_a_second_connection_of_a_place_replaces_the_first(waiting: Waiting) -> None:
    first, second = waiting.put(place()), waiting.put(place())
    assert is_closed(first)
    kept = waiting.pool.take(place())
    assert kept is not None
    assert kept.sock is second


@pytest.mark.parametrize(
    ("idle_s", "waits_s"), [(inf, IDLE_S), (5.0, 5.0 - MARGIN_S), (IDLE_S, IDLE_S - MARGIN_S)]
)
def test_a_connection_waits_as_long_as_both_sides_want(
    waiting: Waiting, idle_s: float, waits_s: float
) -> None:
    sock = waiting.put(place(), idle_s)
    waiting.now_s += waits_s - 0.01
    waiting.pool.sweep()
    assert not is_closed(sock)
    waiting.now_s += 0.01
    assert waiting.pool.take(place()) is None
    assert is_closed(sock)


def test_a_sweep_closes_what_has_waited_for_too_long(waiting: Waiting) -> None:
    late, early = waiting.put(place(), 5.0), waiting.put(place("b.example"), 10.0)
    waiting.now_s += 5.0
    waiting.pool.sweep()
    assert is_closed(late)
    assert not is_closed(early)


def test_the_connection_that_waits_longest_makes_room(waiting: Waiting) -> None:
    socks = [waiting.put(place(f"{number}.example")) for number in range(MAX_KEPT + 1)]
    assert [is_closed(sock) for sock in socks] == [True] + [False] * MAX_KEPT


def test_a_connection_whose_server_hung_up_is_not_given(waiting: Waiting) -> None:
    sock = waiting.put(place())
    waiting.servers[sock].close()
    assert waiting.pool.take(place()) is None
    assert is_closed(sock)


def test_a_connection_whose_server_spoke_unasked_is_not_given(waiting: Waiting) -> None:
    sock = waiting.put(place())
    waiting.servers[sock].send(b"HTTP/1.1 408 Too late\r\n\r\n")
    assert waiting.pool.take(place()) is None
    assert is_closed(sock)


def test_nothing_is_kept_for_a_while_of_a_server_that_hung_up_at_a_request(waiting: Waiting) -> None:
    waiting.pool.distrust(place())
    first, other = waiting.put(place()), waiting.put(place("b.example"))
    assert is_closed(first)
    assert not is_closed(other)
    waiting.now_s += DISTRUST_S
    assert not is_closed(waiting.put(place()))


def test_a_pool_that_is_closed_keeps_nothing(waiting: Waiting) -> None:
    first = waiting.put(place())
    waiting.pool.close()
    second = waiting.put(place())
    assert is_closed(first)
    assert is_closed(second)
