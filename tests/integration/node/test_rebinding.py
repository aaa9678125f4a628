"""Names that change their address between one look and the next (DNS rebinding): what is asserted is that no
connection is attempted, to listeners that would notice, and by the interpreter's own account of attempts.
"""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from itertools import cycle

import pytest
from frontier_harness.ports import listeners_at_one_port

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.fetch import FetchPolicy, FetchResult
from crawler_node.fetching.http_fetch import HttpFetcher
from crawler_node.fetching.outcome import Status
from toehold_client.worker.addresses import Address, AddressRule

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs more than one loopback address")

ALLOWED, LOOPBACK = ip_address("127.66.0.1"), ip_address("127.0.0.1")
ELSEWHERE = [
    ip_address(text) for text in ("10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0")
]

POLICY = FetchPolicy(
    "p", "toehold-test/1 (+https://contact.example/)", 5000, 1_000_000, AddressRule.parse([f"{ALLOWED}/32"])
)

_attempts: list[str] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        _attempts.append(arguments[1][0])


sys.addaudithook(_note)  # for good: there is no way to remove one


class Ear:
    """Listens, counts connections, and answers each of them with the same bytes."""

    def __init__(self, listener: socket.socket) -> None:
        self.connections = 0
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                with client:
                    client.recv(65536)
                    client.sendall(self.answer)


class Rebinding:
    """The host rebinding.example, at the same port of an allowed address and of one that is not."""

    def __init__(self) -> None:
        self.allowed, self.refused = map(Ear, listeners_at_one_port(str(ALLOWED), str(LOOPBACK)))
        self.looked_up = 0
        _attempts.clear()

    def fetcher(self, *answers: list[Address], ttl_s: float = 0) -> HttpFetcher:
        """One whose resolver is given these answers, in turn and over again."""
        turns = cycle(answers)

        def lookup(host: str) -> list[Address]:
            self.looked_up += 1
            return next(turns)

        return HttpFetcher(Resolver(lookup=lookup, ttl_s=ttl_s))

    def url(self, path: str = "/") -> str:
        return f"http://rebinding.example:{self.allowed.port}{path}"

    def close(self) -> None:
        self.allowed.close()
        self.refused.close()


@pytest.fixture
def name() -> Iterator[Rebinding]:
    made = Rebinding()
    yield made
    made.close()


def test_each_connection_goes_to_the_address_that_was_looked_at(name: Rebinding) -> None:
    fetcher = name.fetcher([ALLOWED], [LOOPBACK])
    statuses = [_status(fetcher.fetch(name.url(), POLICY)) for _ in range(20)]
    assert statuses == [200, Status.UNFETCHABLE_URI] * 10
    assert name.looked_up == 20  # once each: a second look could have another answer
    assert (name.allowed.connections, name.refused.connections) == (10, 0)
    assert set(_attempts) == {str(ALLOWED)}


def test_while_an_answer_is_kept_a_new_one_is_not_asked_for(name: Rebinding) -> None:
    fetcher = name.fetcher([ALLOWED], [LOOPBACK], ttl_s=300)
    statuses = {_status(fetcher.fetch(name.url(), POLICY)) for _ in range(5)}
    assert (statuses, name.looked_up, name.refused.connections) == ({200}, 1, 0)


def test_of_an_answer_with_both_kinds_only_the_allowed_ones_are_tried(name: Rebinding) -> None:
    fetcher = name.fetcher([LOOPBACK, *ELSEWHERE, ALLOWED])
    assert _status(fetcher.fetch(name.url(), POLICY)) == 200
    assert name.refused.connections == 0
    assert _attempts == [str(ALLOWED)]


@pytest.mark.parametrize("address", ELSEWHERE, ids=str)
def test_a_name_that_turns_to_such_an_address_is_not_followed_there(
    name: Rebinding, address: Address
) -> None:
    fetcher = name.fetcher([ALLOWED], [address])
    assert [_status(fetcher.fetch(name.url(), POLICY)) for _ in range(2)] == [200, Status.UNFETCHABLE_URI]
    assert name.refused.connections == 0
    assert _attempts == [str(ALLOWED)]


def test_a_name_that_turns_between_two_redirects_of_robots_txt_is_not_followed(name: Rebinding) -> None:
    name.allowed.answer = b"HTTP/1.1 302 Found\r\nLocation: /robots.txt?\r\nContent-Length: 0\r\n\r\n"
    fetcher = name.fetcher([ALLOWED], [ALLOWED], [LOOPBACK])
    fetch = fetcher.fetch_robots(name.url("/robots.txt"), POLICY)
    assert (len(fetch.hops), _status(fetch)) == (2, Status.UNFETCHABLE_URI)
    assert (name.allowed.connections, name.refused.connections) == (2, 0)
    assert set(_attempts) == {str(ALLOWED)}


def _status(fetch: FetchResult) -> int:
    fetch.close()
    return fetch.status
