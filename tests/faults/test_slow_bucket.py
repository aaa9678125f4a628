"""Machines whose bucket takes seconds for each request, or answers none: one is lost, hangs, or stops."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from frontier_harness.buckets import s3 as s3
from frontier_harness.buckets import s3_server as s3_server
from frontier_harness.calls import Stubs
from frontier_harness.descendants import kill_all
from frontier_harness.members import members
from frontier_harness.soaking import Soak
from frontier_harness.store_proxy import Fault, StoreProxy
from frontier_harness.waiting import PATIENCE_S, WHOLE_CRAWL_S, eventually

from frontier_server.cluster.members import Card
from frontier_server.replicated.buckets import open_bucket

from .test_bucket_faults import AWAY, PAGES, RESTARTS, WAITS, WELL, Crawl, Patient, Trouble, make_crawl
from .test_bucket_faults import store as store
from .test_shards import check

MACHINES = 3
LEASE_S = 300  # fetchers that wait for a shard send no heartbeats here
CALL_S = 60.0  # a call waits for two requests at each of two processes
CLAIMED_REQUESTS, BACK_REQUESTS = 30, 50
"""The members of a lost machine are claimed by others, and serve there, so many requests later at most."""
STARTS_S = 10.0
STOPS_S = 15.0


def slow(delay_s: float) -> Trouble:
    """A store that takes so long for each request."""
    return Trouble(Fault.NONE, 0.0, delay_s=delay_s)


class Unhurried:
    """A service whose callers allow it more time than they say."""

    def __init__(self, service: object) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Callable[..., object]:
        method = getattr(self._service, name)
        return lambda request, timeout: method(request, timeout=max(timeout, CALL_S))


def unhurry(stubs: Stubs) -> None:
    """Allow calls more time than they say."""
    stubs.frontier = Unhurried(stubs.frontier)  # type: ignore[assignment]  # has all its methods


class Slow(Crawl):
    """A crawl on three machines, of which each has a member."""

    ends_s = WHOLE_CRAWL_S + LEASE_S  # a lease in an answer that was lost is out for so long

    def __init__(self, folder: Path, store: StoreProxy) -> None:
        super().__init__(folder, store, MACHINES, options=("--lease-seconds", str(LEASE_S)))
        self._bucket = open_bucket(self.log)
        eventually(self.is_even, "a member on each machine")

    def cards(self) -> Mapping[str, Card]:
        """What each machine tells of itself, read without a delay."""
        names = [machine.data.name for machine in self.machines]
        told = {name: self._bucket.get(f"machines/{name}/notice") for name in names}
        return {name: msgspec.json.decode(data, type=Card) for name, data in told.items() if data is not None}

    def served(self) -> dict[str, dict[str, int]]:
        """The members that each machine serves, with the epochs of their logs."""
        return {
            name: {member: card.holds.get(member, 0) for member in card.ports}
            for name, card in self.cards().items()
        }

    def is_even(self) -> bool:
        """Whether each machine has one."""
        return [len(had) for had in self.served().values()] == [1] * MACHINES

    @contextmanager
    def fetched_slowly(self, delay_s: float) -> Iterator[Patient]:
        """A crawl that has begun, and whose store is slow since then; to its end, with a fast one."""
        with self.fetched() as fetchers:
            unhurry(fetchers.stubs)
            eventually(partial(fetchers.came_to, 20))
            slow(delay_s).begin(self.store)
            yield fetchers
            WELL.begin(self.store)

    def lose(self, member: str) -> tuple[str, dict[str, int]]:
        """Kill the machine that has a member, and delete its directory; its name, and what it had."""
        name, had = next((name, had) for name, had in self.served().items() if member in had)
        machine = next(each for each in self.machines if each.data.name == name)
        kill_all(machine.child.pid)
        machine.child.wait()
        machine.let_go()
        shutil.rmtree(machine.data)
        return name, had

    def again(self, name: str) -> None:
        """Start a machine that was lost, and wait until it serves."""
        self.machines = [each for each in self.machines if each.data.name != name]
        self.start(name).until_ready()

    def until_elsewhere(self, lost: str, had: Mapping[str, int], delay_s: float) -> tuple[float, float]:
        """Wait until others serve what a machine had; after how long they had claimed it, and served it."""
        began_s, claimed_s = time.monotonic(), 0.0

        def is_there() -> bool:
            nonlocal claimed_s
            others = {name: card for name, card in self.cards().items() if name != lost}
            if not claimed_s and all(any(each in card.holds for card in others.values()) for each in had):
                claimed_s = time.monotonic() - began_s
            return all(
                any(each in card.ports and card.holds[each] > epoch for card in others.values())
                for each, epoch in had.items()
            )

        eventually(is_there, f"members of {lost} on others", BACK_REQUESTS * delay_s + STARTS_S)
        assert claimed_s < CLAIMED_REQUESTS * delay_s + STARTS_S
        return claimed_s, time.monotonic() - began_s


def lost_while_slow(crawl: Slow, delay_s: float, for_s: float, member: str) -> tuple[float, float]:
    """A crawl whose store is slow, and whose machine with a member is lost then. How long it took."""
    with crawl.fetched_slowly(delay_s) as fetchers:
        before, there = crawl.served(), sum(fetchers.done.values())
        time.sleep(for_s)
        assert crawl.served() == before, "members wander"
        assert not crawl.happened("shard_away", *RESTARTS)
        eventually(partial(fetchers.came_to, there), "pages from a slow store")
        lost, had = crawl.lose(member)
        took_s = crawl.until_elsewhere(lost, had, delay_s)
        there = sum(fetchers.done.values())
        eventually(partial(fetchers.came_to, there), "pages after the loss", 50 * delay_s + PATIENCE_S)
        WELL.begin(crawl.store)
        crawl.again(lost)
    check(fetchers, PAGES)
    eventually(crawl.is_even, "its share on the machine that came back")
    code, told = crawl.toehold("verify", "--wait", "20")
    assert code == 0, told
    crawl.check_unhurt()
    return took_s


def test_a_machine_that_is_lost_while_the_store_is_slow_is_replaced_and_nothing_with_it(
    tmp_path: Path, store: StoreProxy, s3: str
) -> None:
    with Slow(tmp_path, store) as crawl:
        lost_while_slow(crawl, 1.0, 15.0, "shard-0")


@pytest.mark.soak("buckets")
@pytest.mark.timeout(7200)
def test_machines_that_are_lost_while_each_request_takes_two_seconds_are_replaced(
    tmp_path: Path, store: StoreProxy, s3: str, soak: Soak
) -> None:
    for life in range(soak.cycles(4)):
        member = ("shard-0", "front", "shard-1")[life % 3]
        with Slow(tmp_path / str(life), store) as crawl:
            claimed_s, served_s = lost_while_slow(crawl, 2.0, 60.0, member)
            print(f"{member} claimed after {claimed_s:.0f} s, and served after {served_s:.0f} s")
        soak.count(faults=1, checked=PAGES)


def test_shards_stay_present_while_their_logs_are_slow(tmp_path: Path, store: StoreProxy) -> None:
    with Crawl(tmp_path, store, 1) as crawl:
        with crawl.fetched() as fetchers:
            unhurry(fetchers.stubs)
            eventually(partial(fetchers.came_to, PAGES / 6))
            slow(2.9).begin(store)
            time.sleep(20.0)
            assert not crawl.happened("shard_away")
            WELL.begin(store)
        check(fetchers, PAGES)
        crawl.check_unhurt()


def test_a_member_that_hangs_while_the_store_is_slow_is_started_again(
    tmp_path: Path, store: StoreProxy
) -> None:
    with Crawl(tmp_path, store, 1) as crawl:
        machine = crawl.machines[0]
        make_crawl(machine.stubs)
        slow(2.0).begin(store)
        time.sleep(5.0)  # a renewal and a look are slow by now
        os.kill(members(machine.child)["shard-0"], signal.SIGSTOP)
        eventually(lambda: crawl.happened("member_hung"), within_s=20.0)
        (hung,) = crawl.happened("member_hung")
        assert hung["member"] == "shard-0"
        WELL.begin(store)
        eventually(lambda: crawl.toehold("status")[0] == 0)
        assert machine.stop()[0] == 0


@pytest.mark.parametrize("is_known", [False, True], ids=["suddenly", "for some time"])
def test_a_machine_that_stops_while_the_store_is_silent_ends_soon(
    tmp_path: Path, store: StoreProxy, is_known: bool
) -> None:
    with Crawl(tmp_path, store, 1) as crawl:
        machine = crawl.machines[0]
        make_crawl(machine.stubs)
        AWAY["silent"].begin(store)
        if is_known:
            eventually(lambda: WAITS in crawl.toehold("status")[1])
        code, took_s = machine.stop()
        assert (code, took_s < STOPS_S) == (0, True), took_s
        assert "Traceback" not in crawl.output()
        assert not crawl.happened("member_hung")
        WELL.begin(store)
        crawl.machines.remove(machine)
        crawl.start("machine-0").until_ready()
        assert crawl.toehold("status")[0] == 0
