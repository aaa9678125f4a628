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
    ConnectionKey,
    KeptConnections,
)

ADDRESS = ip_address("192.0.2.1")


class Waiting:
    """A pool with a clock that stands still, and the servers' ends of its connections."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pool = KeptConnections(lambda: self.now_s)
        self.servers: dict[socket.socket, socket.socket] = {}

    def put(self, wanted: ConnectionKey, idle_s: float = inf) -> socket.socket:
        """Let a new connection wait."""
        ours, theirs = socket.socketpair()
        self.servers[ours] = theirs
        self.pool.put(wanted, ours, ADDRESS, idle_s)
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


def key(host: str = "a.example", crawl: str = "c", policy: str = "p", port: int = 80) -> ConnectionKey:
    return ConnectionKey(crawl, policy, "http", host, port)


def is_closed(sock: socket.socket) -> bool:
    return sock.fileno() < 0


def test_a_connection_is_taken_once(waiting: Waiting) -> None:
    sock = waiting.put(key())
    kept = waiting.pool.take(key())
    assert kept is not None
    assert (kept.sock, kept.address) == (sock, ADDRESS)
    assert waiting.pool.take(key()) is None


@pytest.mark.parametrize("other", [key("b.example"), key(crawl="other"), key(policy="q"), key(port=8080)])
def test_another_key_gets_none(waiting: Waiting, other: ConnectionKey) -> None:
    waiting.put(key())
    assert waiting.pool.take(other) is None


def test_a_second_connection_with_a_key_replaces_the_first(waiting: Waiting) -> None:
    first, second = waiting.put(key()), waiting.put(key())
    assert is_closed(first)
    kept = waiting.pool.take(key())
    assert kept is not None
    assert kept.sock is second


@pytest.mark.parametrize(
    ("idle_s", "waits_s"), [(inf, IDLE_S), (5.0, 5.0 - MARGIN_S), (IDLE_S, IDLE_S - MARGIN_S)]
)
def test_a_connection_waits_as_long_as_both_sides_want(
    waiting: Waiting, idle_s: float, waits_s: float
) -> None:
    sock = waiting.put(key(), idle_s)
    waiting.now_s += waits_s - 0.01
    waiting.pool.sweep()
    assert not is_closed(sock)
    waiting.now_s += 0.01
    assert waiting.pool.take(key()) is None
    assert is_closed(sock)


def test_a_sweep_closes_what_has_waited_for_too_long(waiting: Waiting) -> None:
    late, early = waiting.put(key(), 5.0), waiting.put(key("b.example"), 10.0)
    waiting.now_s += 5.0
    waiting.pool.sweep()
    assert is_closed(late)
    assert not is_closed(early)


def test_the_connection_that_waits_longest_makes_room(waiting: Waiting) -> None:
    socks = [waiting.put(key(f"{number}.example")) for number in range(MAX_KEPT + 1)]
    assert [is_closed(sock) for sock in socks] == [True] + [False] * MAX_KEPT


def test_a_connection_whose_server_hung_up_is_not_given(waiting: Waiting) -> None:
    sock = waiting.put(key())
    waiting.servers[sock].close()
    assert waiting.pool.take(key()) is None
    assert is_closed(sock)


def test_a_connection_whose_server_spoke_unasked_is_not_given(waiting: Waiting) -> None:
    sock = waiting.put(key())
    waiting.servers[sock].send(b"HTTP/1.1 408 Too late\r\n\r\n")
    assert waiting.pool.take(key()) is None
    assert is_closed(sock)


def test_nothing_is_kept_for_a_while_of_a_server_that_hung_up_at_a_request(waiting: Waiting) -> None:
    waiting.pool.distrust(key())
    first, other = waiting.put(key()), waiting.put(key("b.example"))
    assert is_closed(first)
    assert not is_closed(other)
    waiting.now_s += DISTRUST_S
    assert not is_closed(waiting.put(key()))


def test_a_pool_that_is_closed_keeps_nothing(waiting: Waiting) -> None:
    first = waiting.put(key())
    waiting.pool.close()
    second = waiting.put(key())
    assert is_closed(first)
    assert is_closed(second)
