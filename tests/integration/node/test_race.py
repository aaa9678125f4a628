"""A host with several addresses, some of which lead nowhere (Happy Eyeballs, RFC 8305). Which addresses were
tried, and in what order, is by the interpreter's own account of attempts.
"""

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

import pytest
from frontier_harness.ports import bound_at_one_port
from node_doubles.loopback import LONG_MS, SHORT_MS, Fetching, ok, policy

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.outcome import Status
from crawler_node.fetching.race import first_to_answer
from toehold_client.worker.addresses import Address, AddressRule

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs more than one loopback address")

DEAD, LIVE, OTHER, FORBIDDEN = (ip_address(f"127.67.0.{n}") for n in (1, 2, 3, 4))
HOST = "several.example"
OURS = AddressRule.parse([f"{each}/32" for each in (DEAD, LIVE, OTHER)])

_attempts: list[str] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        _attempts.append(arguments[1][0])


sys.addaudithook(_note)  # for good: there is no way to remove one


class Several:
    """The same port at several addresses: one that answers, one that never does, and one that refuses."""

    def __init__(self) -> None:
        self._open = ExitStack()
        bound = map(self._open.enter_context, bound_at_one_port(str(LIVE), str(DEAD), str(OTHER)))
        live, dead, _refusing = bound
        self.port: int = live.getsockname()[1]
        live.listen()
        self.live = live
        dead.listen(0)
        for _ in range(2):  # its queue is full, and nobody takes from it: it does not answer any more
            filler = self._open.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(dead.getsockname())
        self.url = f"http://{HOST}:{self.port}/"
        _attempts.clear()

    def serve(self) -> None:
        """Answers whoever connects, for as long as it is open."""
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._open.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.live.accept()
            except OSError:
                return
            with client:
                if client.recv(65536):
                    client.sendall(ok(b"hello"))


@pytest.fixture
def several() -> Iterator[Several]:
    made = Several()
    yield made
    made.close()


@pytest.fixture
def fetcher_of() -> Iterator[Callable[..., Fetching]]:
    """Makes a fetcher whose resolver has these answers for every host, one after the other."""
    made: list[Fetching] = []

    def make(*answers: Sequence[Address]) -> Fetching:
        left = list(answers)
        resolver = Resolver(lookup=lambda host: left.pop(0), ttl_s=0 if len(answers) > 1 else 300)
        made.append(Fetching(resolver))
        return made[-1]

    yield make
    for fetcher in made:
        fetcher.close()


def test_a_dead_first_address_does_not_cost_the_connect_timeout(
    several: Several, fetcher_of: Callable[..., Fetching]
) -> None:
    several.serve()
    fetch = fetcher_of([DEAD, LIVE]).fetch(
        several.url, policy(addresses=OURS, timeout_ms=LONG_MS, connect_timeout_ms=LONG_MS)
    )
    assert (fetch.status, fetch.peer_address) == (200, str(LIVE))
    assert fetch.duration_ms < LONG_MS / 2
    assert _attempts == [str(DEAD), str(LIVE)]


def test_the_address_that_worked_is_tried_first_the_next_time(
    several: Several, fetcher_of: Callable[..., Fetching]
) -> None:
    several.serve()
    fetcher = fetcher_of([DEAD, LIVE])
    for _ in range(3):
        _attempts.clear()
        assert fetcher.fetch(several.url, policy(addresses=OURS, timeout_ms=LONG_MS)).status == 200
    assert _attempts[0] == str(LIVE)


def test_an_address_that_worked_is_not_tried_when_the_host_has_it_no_more(
    several: Several, fetcher_of: Callable[..., Fetching]
) -> None:
    several.serve()
    fetcher = fetcher_of([DEAD, LIVE], [OTHER])
    assert fetcher.fetch(several.url, policy(addresses=OURS, timeout_ms=LONG_MS)).status == 200
    _attempts.clear()
    assert fetcher.fetch(several.url, policy(addresses=OURS)).status == Status.CONNECT_FAILED
    assert _attempts == [str(OTHER)]


def test_an_address_that_refuses_gives_way_at_once(
    several: Several, fetcher_of: Callable[..., Fetching]
) -> None:
    several.serve()
    fetch = fetcher_of([OTHER, LIVE]).fetch(several.url, policy(addresses=OURS))
    assert (fetch.status, fetch.peer_address, _attempts) == (200, str(LIVE), [str(OTHER), str(LIVE)])


def test_only_addresses_that_the_crawl_allows_take_part(
    several: Several, fetcher_of: Callable[..., Fetching]
) -> None:
    several.serve()
    fetcher = fetcher_of([FORBIDDEN, DEAD, FORBIDDEN, ip_address("::1"), LIVE])
    for _ in range(2):
        assert fetcher.fetch(several.url, policy(addresses=OURS, timeout_ms=LONG_MS)).status == 200
    assert set(_attempts) <= {str(DEAD), str(LIVE)}


def test_both_families_take_turns(several: Several, fetcher_of: Callable[..., Fetching]) -> None:
    rule = AddressRule.parse([f"{each}/32" for each in (OTHER, FORBIDDEN)] + ["::/128"])
    answers = [OTHER, FORBIDDEN, ip_address("::")]  # nobody listens at any of them
    fetch = fetcher_of(answers).fetch(several.url, policy(addresses=rule))
    assert fetch.status == Status.CONNECT_FAILED
    assert _attempts == [str(OTHER), "::", str(FORBIDDEN)]


def test_an_attempt_ends_when_its_time_is_over_and_the_next_begins(
    several: Several, fetcher_of: Callable[..., Fetching]
) -> None:
    several.serve()
    fetch = fetcher_of([DEAD, LIVE]).fetch(several.url, policy(addresses=OURS, connect_timeout_ms=SHORT_MS))
    assert fetch.status == 200


def test_where_no_address_answers_the_connection_has_failed_in_time(
    several: Several, fetcher_of: Callable[..., Fetching]
) -> None:
    fetcher = fetcher_of([DEAD])
    fetch = fetcher.fetch(several.url, policy(addresses=OURS, timeout_ms=LONG_MS, connect_timeout_ms=100))
    assert fetch.status == Status.CONNECT_FAILED and "timed_out" in fetch.annotations[0]
    assert 100 <= fetch.duration_ms < LONG_MS / 2
    fetch = fetcher.fetch(
        several.url, policy(addresses=OURS, timeout_ms=SHORT_MS, connect_timeout_ms=LONG_MS)
    )
    assert fetch.status == Status.CONNECT_FAILED and "deadline" in fetch.annotations[0]


def test_a_fetch_is_cut_while_several_addresses_are_tried(
    several: Several, fetcher_of: Callable[..., Fetching]
) -> None:
    cancellation = Cancellation()
    cut = threading.Timer(0.4, cancellation.cancel)  # there are two attempts by then, or the first alone
    cut.start()
    fetch = fetcher_of([DEAD, DEAD]).fetch(
        several.url, policy(addresses=OURS, timeout_ms=LONG_MS, connect_timeout_ms=LONG_MS), cancellation
    )
    cut.join()
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS / 2


def test_the_attempts_that_lose_are_ended(several: Several) -> None:
    before = _descriptors()
    sock, address = first_to_answer(
        [DEAD, DEAD, OTHER, LIVE],
        several.port,
        attempt_s=LONG_MS / 1000,
        patience_s=lambda most_s: most_s,
        cancellation=Cancellation(),
        prepare=lambda sock: None,
    )
    sock.close()
    assert address == LIVE and _descriptors() == before


def _descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}
