"""The resolver of host names: its table, its cache, its threads, and the system's answers."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from ipaddress import ip_address

import pytest
from frontier_harness.waiting import PATIENCE_S

from crawler_node.fetching.addresses import Resolver, Unresolvable, parse_resolve
from toehold_client.worker.addresses import Address

ONE = ip_address("192.0.2.1")


class Lookup:
    """A system resolver that answers when it is told to, and keeps count."""

    def __init__(self, *answers: Sequence[Address] | Exception) -> None:
        self.asked: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self._answers = list(answers)

    def __call__(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        self.go_on.wait(PATIENCE_S)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Small(Resolver):
    MAX_CACHED = 10


def answer(future: Future[tuple[Address, ...]]) -> tuple[Address, ...]:
    return future.result(PATIENCE_S)


def test_addresses_are_their_own_answer() -> None:
    lookup = Lookup()
    resolver = Resolver(lookup=lookup)
    assert answer(resolver.resolve("192.0.2.1", 80)) == (ONE,)
    assert answer(resolver.resolve("2001:db8::1", 80)) == (ip_address("2001:db8::1"),)
    assert lookup.asked == []


def test_the_table_goes_first_and_holds_for_its_port() -> None:
    lookup = Lookup([ONE])
    local = ip_address("127.0.0.1")
    resolver = Resolver(dict([parse_resolve("a.example:80:127.0.0.1")]), lookup=lookup)
    assert answer(resolver.resolve("A.example.", 80)) == (local,)
    assert answer(resolver.resolve("a.example", 81)) == (ONE,)


def test_an_answer_is_kept_until_it_is_old() -> None:
    now_s = [0.0]
    lookup = Lookup([ONE], [ONE])
    resolver = Resolver(lookup=lookup, ttl_s=300, clock=lambda: now_s[0])
    for now_s[0] in (0, 299):
        assert answer(resolver.resolve("a.example", 80)) == (ONE,)
    assert len(lookup.asked) == 1
    now_s[0] = 301
    assert answer(resolver.resolve("a.example", 443)) == (ONE,)
    assert len(lookup.asked) == 2


@pytest.mark.parametrize(
    "failure", [Unresolvable("a.example: gone"), OSError("broken"), RuntimeError("odd"), []]
)
def test_a_failure_is_kept_too_but_not_for_long(failure: Exception | list[Address]) -> None:
    now_s = [0.0]
    lookup = Lookup(failure, [ONE])
    resolver = Resolver(lookup=lookup, failed_ttl_s=30, clock=lambda: now_s[0])
    for now_s[0] in (0, 29):
        with pytest.raises(Unresolvable, match=r"^a\.example: "):
            answer(resolver.resolve("a.example", 80))
    assert lookup.asked == ["a.example"]
    now_s[0] = 31
    assert answer(resolver.resolve("a.example", 80)) == (ONE,)


def test_failures_that_are_kept_are_bounded() -> None:
    lookup = Lookup(*([] for _ in range(30)))
    resolver = Small(lookup=lookup)
    for n in range(20):
        with pytest.raises(Unresolvable):
            answer(resolver.resolve(f"{n}.example", 80))
    for n, is_kept in ((19, True), (0, False)):
        with pytest.raises(Unresolvable):
            answer(resolver.resolve(f"{n}.example", 80))
        assert (len(lookup.asked) == 20) is is_kept


def test_the_address_that_worked_is_noted_for_a_while() -> None:
    now_s = [0.0]
    resolver = Resolver(clock=lambda: now_s[0])
    assert resolver.preferred("a.example") is None
    resolver.prefer("A.example.", ONE)
    assert (resolver.preferred("a.example"), resolver.preferred("b.example")) == (ONE, None)
    now_s[0] = Resolver.PREFERRED_TTL_S + 1
    assert resolver.preferred("a.example") is None


def test_slow_names_hold_up_no_others() -> None:
    over = threading.Event()

    def lookup(host: str) -> Sequence[Address]:
        if host.startswith("slow"):
            over.wait(60)
        return [ONE]

    resolver = Resolver(lookup=lookup)
    slow = [resolver.resolve(f"slow{n}.example", 80) for n in range(200)]
    assert answer(resolver.resolve("quick.example", 80)) == (ONE,)
    assert not any(each.done() for each in slow)
    over.set()
    assert {answer(each) for each in slow} == {(ONE,)}


def test_a_host_is_looked_up_once_for_all_who_wait() -> None:
    lookup = Lookup([ONE])
    lookup.go_on.clear()
    resolver = Resolver(lookup=lookup)
    waiting = [resolver.resolve("a.example", port) for port in (80, 80, 443)]
    lookup.go_on.set()
    assert [answer(future) for future in waiting] == [(ONE,)] * 3
    assert lookup.asked == ["a.example"]


def test_hanging_look_ups_take_a_bounded_number_of_threads_and_places() -> None:
    lookup = Lookup(*([ONE] for _ in range(Resolver.MAX_THREADS + Resolver.MAX_WAITING)))
    lookup.go_on.clear()
    resolver = Resolver(lookup=lookup)
    before = threading.active_count()
    futures = [
        resolver.resolve(f"{n}.example", 80) for n in range(Resolver.MAX_THREADS + Resolver.MAX_WAITING + 50)
    ]
    assert threading.active_count() - before <= Resolver.MAX_THREADS
    refused = [future for future in futures if future.done()]
    assert 50 <= len(refused) <= 50 + Resolver.MAX_THREADS
    with pytest.raises(Unresolvable, match="too many"):
        answer(refused[0])
    lookup.go_on.set()
    for future in futures:
        if future not in refused:
            assert answer(future) == (ONE,)


def test_names_that_dns_cannot_carry_are_unresolvable() -> None:
    resolver = Resolver()
    for host in ("a..example", "x" * 70 + ".example", "\u00e9.example", "a\0b", ""):
        with pytest.raises(Unresolvable):
            answer(resolver.resolve(host, 80))


def test_the_system_knows_localhost() -> None:
    assert all(address.is_loopback for address in answer(Resolver().resolve("localhost", 80)))
