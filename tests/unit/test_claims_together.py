"""Claims of all machines of a cluster together: whoever opens a log fences the one that had it."""

import heapq
import itertools
from collections.abc import Callable, Collection, Iterator
from random import Random

import pytest

from frontier_server.cluster.claims import (
    LONGEST_REST_S,
    Claims,
    Notice,
)

GONE_S, RENEW_S = 2.0, 0.4
_tags = map(str, itertools.count())


class World:
    """A clock, what is to happen, the bucket, and the logs."""

    def __init__(self, seed: int, members: int) -> None:
        self.random = Random(seed)
        self.now_s = 0.0
        self.members = [f"shard-{number}" for number in range(members)]
        self.machines: dict[str, Machine] = {}
        self.told: dict[str, tuple[str, Notice]] = {}
        self.owners: dict[str, Machine] = {}
        self.opened = 0
        self.fenced_alive = 0
        self.bucket_away_s = 0.0  # while it is away: the longest wait between two tries of a request
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def later(self, wait_s: float, event: Callable[[], None]) -> None:
        """Let something happen."""
        heapq.heappush(self._events, (self.now_s + wait_s, next(self._order), event))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until_s = self.now_s + seconds
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, event = heapq.heappop(self._events)
            event()
        self.now_s = until_s

    def runs_until(self, holds: Callable[[], bool], seconds: float) -> float:
        """Let time pass until something holds; how long it took."""
        began_s = self.now_s
        while not holds():
            assert self.now_s - began_s < seconds, self.loads
            self.run(0.1)
        return self.now_s - began_s

    def add(self, *names: str, **settings: float) -> None:
        """Start machines."""
        for name in names:
            self.machines[name] = Machine(self, name, **settings)

    def lose(self, *names: str) -> None:
        """Let machines vanish."""
        for name in names:
            self.machines.pop(name).is_lost = True

    @property
    def loads(self) -> dict[str, int]:
        """How many members each machine serves."""
        loads = dict.fromkeys(self.machines, 0)
        for member in self.members:
            owner = self.owners.get(member)
            if owner is not None and owner.name in loads and owner.serves.get(member):
                loads[owner.name] += 1
        return loads

    def all_serve(self) -> bool:
        """Whether each member is served."""
        return sum(self.loads.values()) == len(self.members)

    def is_even(self) -> bool:
        """Whether each member is served, and all machines serve the same number."""
        loads = self.loads.values()
        return sum(loads) == len(self.members) and max(loads) - min(loads) <= 1


class Machine:
    """A machine of the simulation."""

    def __init__(self, world: World, name: str, latency_s: float = 0.03, fails: float = 0) -> None:
        """`latency_s` is that of a request; with `fails` it can open nothing."""
        self.name = name
        self.is_lost = False
        self.thaws_s = 0.0
        self.fails = fails
        self.serves: dict[str, bool] = {}  # by member that it holds: whether it serves already
        self._about: Collection[str] = ()
        self._latency_s = latency_s
        self._world = world
        self._claims = Claims(name, world.members, GONE_S)
        self._go(self._beat())

    def freeze(self, seconds: float) -> None:
        """Let it stand still."""
        self.thaws_s = self._world.now_s + seconds

    def _go(self, steps: Iterator[float]) -> None:
        def step() -> None:
            if self.is_lost:
                return
            if self._world.now_s < self.thaws_s:
                self._world.later(self.thaws_s - self._world.now_s, step)
                return
            wait_s = next(steps, None)
            if wait_s is not None:
                self._world.later(wait_s, step)

        self._world.later(0.0, step)

    def _wait_s(self, least_s: float, most_s: float) -> float:
        return self._world.random.uniform(least_s, most_s)

    def _request(self) -> Iterator[float]:
        yield self._wait_s(0.3, 1.0) * self._latency_s
        while self._world.bucket_away_s:
            yield self._wait_s(0.1, self._world.bucket_away_s)

    def _exchange(self) -> Iterator[float]:
        world = self._world
        yield from self._request()
        holds = frozenset(self.serves) | frozenset(self._about)
        refuses = frozenset(self._claims.refuses(world.now_s))
        world.told[self.name] = next(_tags), Notice(holds, refuses=refuses)
        yield from self._request()
        told = dict(world.told)
        yield self._wait_s(0.3, 1.0) * self._latency_s
        self._claims.look(told, world.now_s)

    def _beat(self) -> Iterator[float]:
        world = self._world
        yield self._wait_s(0.0, RENEW_S)
        while True:
            began_s = world.now_s
            yield from self._exchange()
            serving = [member for member, is_there in self.serves.items() if is_there]
            plan = self._claims.plan(self.serves, serving, world.now_s)
            if plan.give_back:
                del self.serves[plan.give_back]
            self._about = [member for member in plan.claim if member not in self.serves]
            if self._about:
                yield from self._exchange()
            for member in self._about:
                if self._claims.is_free(member, world.now_s):
                    self.serves[member] = False
                    self._go(self._open(member))
            self._about = ()
            yield max(RENEW_S - (world.now_s - began_s), 0.01)

    def _open(self, member: str) -> Iterator[float]:
        world = self._world
        yield self._wait_s(0.3, 0.8)
        if self.fails:
            del self.serves[member]
            self._claims.failed(member, world.now_s)
            return
        before, world.owners[member] = world.owners.get(member), self
        world.opened += 1
        if before is not None and before is not self and not before.is_lost and member in before.serves:
            world.fenced_alive += 1
            before.learn(member)
        yield self._wait_s(0.1, 0.5)
        if world.owners[member] is self:
            self.serves[member] = True

    def learn(self, member: str) -> None:
        """Let its process of a member find that another machine has opened the log."""
        self._go(self._fenced(member))

    def _fenced(self, member: str) -> Iterator[float]:
        yield self._wait_s(0.0, 0.5)
        if self._world.owners[member] is not self and member in self.serves:
            del self.serves[member]
            self._claims.fenced(member, self._world.now_s)


HUNDRED = [f"machine-{number}" for number in range(100)]


def hundred(seed: int) -> World:
    """A thousand shards on a hundred machines, in order."""
    world = World(seed, 1000)
    world.add(*HUNDRED)
    world.runs_until(world.is_even, 6.0)
    assert world.opened == 1000, "all began at the same time, and nobody took what was another one's"
    assert set(world.loads.values()) == {10}
    return world


def test_members_of_many_lost_machines_are_taken_over_without_fences_of_others() -> None:
    world = hundred(seed=1)
    world.lose(*world.random.sample(HUNDRED, 30))
    assert world.runs_until(world.all_serve, 30.0) <= GONE_S + 4.0
    world.runs_until(world.is_even, 30.0 - GONE_S)
    world.run(20.0)
    assert world.is_even()
    assert world.fenced_alive == 0
    assert world.opened <= 1000 + 300 + 10, "members went to and fro"


def test_many_new_machines_get_their_shares_soon() -> None:
    world = hundred(seed=2)
    world.add(*(f"new-{number}" for number in range(30)))
    world.runs_until(world.is_even, 30.0)
    moved = world.opened - 1000
    world.run(20.0)
    assert world.is_even() and world.opened == 1000 + moved
    assert moved <= 1.2 * 1000 * 30 / 130
    assert world.fenced_alive == 0


@pytest.mark.parametrize(("again_s", "moved"), [(1.0, 0), (3.0, 100)])
def test_a_bucket_that_was_away_for_all_costs_nobody_a_member(again_s: float, moved: int) -> None:
    """Some that find it again later than `GONE_S` after the others may lose theirs."""
    world = hundred(seed=3)
    world.bucket_away_s = again_s
    world.run(20.0)
    world.bucket_away_s = 0.0
    world.run(20.0)
    assert world.is_even()
    assert world.opened - 1000 <= moved


def three(seed: int) -> World:
    world = World(seed, 7)
    world.add("a", "b", "c")
    world.runs_until(world.is_even, 6.0)
    return world


@pytest.mark.parametrize("seed", range(20))
def test_a_machine_that_wakes_up_finds_its_members_taken_and_gets_its_share_again(seed: int) -> None:
    world = three(seed)
    frozen_s = world.random.uniform(GONE_S + 3, 30.0)
    had = world.loads["a"]
    world.machines["a"].freeze(frozen_s)
    world.run(frozen_s)
    assert world.loads["b"] + world.loads["c"] == 7
    world.runs_until(world.is_even, 30.0)
    assert world.fenced_alive == had, "nobody but the one that stood still"
    opened = world.opened
    world.run(60.0)
    assert world.opened == opened


@pytest.mark.parametrize("seed", range(20))
def test_short_freezes_move_nothing_for_long(seed: int) -> None:
    world = three(seed)
    for _ in range(20):
        world.machines[world.random.choice("abc")].freeze(world.random.uniform(0.0, 2 * GONE_S))
        world.run(world.random.uniform(0.0, 10.0))
    world.run(60.0)
    opened = world.opened
    world.run(60.0)
    assert world.is_even() and world.opened == opened


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_whose_looks_are_late_keeps_no_orphans_waiting(seed: int) -> None:
    world = World(seed, 9)
    world.add("a", "b")
    world.runs_until(world.is_even, 6.0)
    world.add("slow", latency_s=0.9)  # it is never sure
    world.run(10.0)
    assert world.loads["slow"] == 0
    world.lose("b")
    world.runs_until(lambda: world.loads["a"] == 9, GONE_S + 6.0)
    assert world.fenced_alive == 0


@pytest.mark.parametrize("seed", range(5))
def test_members_that_a_machine_cannot_open_go_to_others_and_are_seldom_tried_again(seed: int) -> None:
    world = World(seed, 9)
    world.add("a", "b")
    world.add("broken", fails=1)
    world.runs_until(world.all_serve, 8.0)
    opened = world.opened
    world.run(300.0)
    assert world.all_serve() and world.loads["broken"] == 0
    assert world.opened - opened <= 40
    world.machines["broken"].fails = 0
    world.runs_until(world.is_even, 2 * LONGEST_REST_S)


def test_machines_that_are_started_one_by_one_share_the_members() -> None:
    world = World(1, 100)
    for number in range(10):
        world.add(f"machine-{number}")
        world.run(2.0)
    world.runs_until(world.is_even, 120.0)
    assert world.fenced_alive == 0
