"""A frontier on three machines that is upgraded from an earlier program to the present one, one machine at a
time and under full use, as docs/machines.md has it, and goes back.

While both programs serve, nodes call all doors, so calls go through doors of either program to a front of the
other one, and on to shards of both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import grpc
import msgspec
import pytest
from frontier_harness.calls import Stubs, spec
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.waiting import PATIENCE_S, eventually

from frontier_server.cluster.members import Card
from frontier_server.config import FRONT
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

from .earlier_program import NotAtHand, Program, before, earlier, of_a_later_format, present
from .test_machines import MACHINES, SHARDS, Machine, crawl_log_lines, verify
from .test_shards import CRAWL, DELAY_S, HOSTS, RECONNECT, REPEATED, Fetchers, uri

FROM = "FROM"
"""A variable of the environment, which `make soak PART=upgrade FROM=…` sets: the commit to upgrade from."""
NODES = 4
WAITING = 100
"""So many pages wait at most: the crawl always has work, and its end is near whenever it is asked for."""
CALLS = ("Next", "Heartbeat", "Schedule", "Finished")
ENOUGH = 5
"""So many answers to each of these calls are waited for at each door in each phase."""
NAMES = [f"machine-{number}" for number in range(MACHINES)]

_T = TypeVar("_T")

pytestmark = pytest.mark.undivided("its machines have six shards")


class Upgradable(Machine):
    """A machine whose program can be replaced."""

    def __init__(self, folder: Path, name: str, log: str, program: Program) -> None:
        self.program = program
        self.replaced = 0
        """When its program was replaced, by a count of all that were."""
        super().__init__(folder, name, log)

    def begin(self) -> None:
        """Start its program."""
        more = "--renew-seconds", "0.2", "--lease-seconds", "20"
        self.server = ServerProcess(
            self.data, *self._flags, *more, listen=self.address, environment=self.program.environment
        )
        self.server.begin()

    def replace(self, program: Program, empties: bool, turn: int) -> None:
        """Stop it in order, and start the other program with the same directory, which may be emptied."""
        self.stop()
        if empties:
            shutil.rmtree(self.data)
        self.program, self.replaced = program, turn
        self.begin()
        self.server.until_ready()

    def stop(self) -> None:
        """Stop it in order."""
        code, _ = self.server.stop()
        assert code == 0, self.server.errors.read_text()[-2000:]
        self.server.let_go()

    def end(self) -> None:
        """Kill it unless it has ended."""
        if self.server.child.poll() is None:
            self.server.kill()
            self.server.let_go()


class Doors:
    """The calls of nodes, each at a door that chance chooses, and how many each door has answered."""

    def __init__(self, services: list[object], random: Random) -> None:
        self.answered = Counter[tuple[int, str]]()
        self._services = services
        self._random = random
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(request: object, timeout: float) -> object:
            with self._lock:
                door = self._random.randrange(len(self._services))
            answer: object = getattr(self._services[door], name)(request, timeout=timeout)
            with self._lock:
                self.answered[door, name] += 1
            return answer

        return call


class Nodes(Fetchers):
    """Fetchers of a web without an end, until they are told that it has one. Each page links to two new ones,
    or to none if enough wait, and to one that is known. They note what was taken, and before each fetch a
    heartbeat names what they hold."""

    def __init__(self, stubs: Stubs) -> None:
        super().__init__(stubs, 0)
        self.taken = {uri(0)}
        """The pages that the frontier has acknowledged."""
        self._found = 1
        self._is_closed = False
        self._held = threading.local()  # the tokens of the node that runs in a thread

    def close(self) -> None:
        """Find no new pages any more."""
        self._is_closed = True

    def _new_pages(self) -> list[int]:
        with self._lock:
            waiting = self._found - self.done.total()
            if self._is_closed or waiting >= WAITING:
                return []
            self._found += 2
            return [self._found - 2, self._found - 1]

    def _received(self, lease: frontier_pb2.Lease, node: str, now_s: float) -> None:
        super()._received(lease, node, now_s)
        self._held.tokens = [*getattr(self._held, "tokens", ()), lease.token]

    def _fetched(self, lease: frontier_pb2.Lease, node: str) -> None:
        held = frontier_pb2.HeartbeatRequest(
            node=node, session=f"session of {node}", tokens=self._held.tokens
        )
        if self._asked(lambda: self.stubs.frontier.Heartbeat(held, timeout=5)).ended_tokens:
            self.problems.append(f"a lease has ended while {node} held it")
        if lease.purpose == frontier_pb2.PURPOSE_PAGE:
            links = [uri(each) for each in (*self._new_pages(), int(lease.uri.rpartition("/")[2]) // 2)]
            found = [frontier_pb2.Candidate(uri=each, via=lease.uri, path="L") for each in links]
            offered = frontier_pb2.ScheduleRequest(crawl=CRAWL, candidates=found)
            self._asked(lambda: self.stubs.frontier.Schedule(offered, timeout=5))
            with self._lock:
                self.taken.update(links)
        super()._fetched(lease, node)  # it has no further links, as its web has no page
        self._held.tokens.remove(lease.token)


class Cluster:
    """Three machines, and a crawl on them that goes on until it is told to end."""

    def __init__(self, folder: Path, program: Program, seed: int) -> None:
        self.bucket = folder / "bucket"
        self.url = f"file://{self.bucket}"
        self.machines = [Upgradable(folder, name, self.url, program) for name in NAMES]
        self.replaced = 0
        self.pairs: set[tuple[Program, Program]] = set()
        """The programs of a door and of the front that have answered calls of all kinds together."""
        self._random = Random(seed)
        self._events: list[str] = []

    @contextmanager
    def crawled(self) -> Iterator[None]:
        """A context in which the crawl goes on. At its end the crawl ends, and the machines, and all that was
        counted is compared."""
        with ExitStack() as stack:
            for machine in self.machines:
                stack.callback(machine.end)
            for machine in self.machines:
                machine.server.until_ready()
            self.doors = [
                Stubs(stack.enter_context(grpc.insecure_channel(machine.address, RECONNECT)))
                for machine in self.machines
            ]
            self._launch()
            self.calls = Doors([door.frontier for door in self.doors], self._random)
            called = Stubs(self.doors[0].channel)
            called.frontier = self.calls  # type: ignore[assignment]  # as asked for
            self.nodes = Nodes(called)
            threads = [
                threading.Thread(target=self.nodes.run, args=(f"node{number}",)) for number in range(NODES)
            ]
            for thread in threads:
                thread.start()
            try:
                self.use()
                yield
                self.nodes.close()
                for thread in threads:
                    thread.join(PATIENCE_S * 2)
            finally:
                self.nodes.ending.set()
            assert not self.nodes.problems, self.nodes.problems[:3]
            assert not any(thread.is_alive() for thread in threads), "the crawl has not ended"
            self._compare(*self.doors)
            self._end()
        lines = (line.split() for line in crawl_log_lines(self.bucket))
        assert Counter(line[3] for line in lines if line[1] == "200") == self.nodes.done

    def _launch(self) -> None:
        stubs = self.doors[0]
        scope = crawl_pb2.ScopeSpec(accept_patterns=[r"http://www\.site[0-9]+\.example/.*"])
        stubs.create(CRAWL, spec(DELAY_S, scope=scope))
        stubs.ask("AddSeedBatch", CRAWL, uris=[uri(0)])
        stubs.ask("LaunchCrawl", CRAWL)

    def _compare(self, *doors: Stubs) -> None:
        """Each page that was acknowledged was fetched once, and each of these doors says so."""
        done = self.nodes.done
        lost = self.nodes.taken - set(done)
        assert not lost, f"{len(lost)} pages were lost, such as {min(lost)}"
        twice = [page for page, times in done.items() if times > 1]
        assert not twice, f"{len(twice)} pages were fetched twice, such as {twice[0]}"
        for door in doors:
            self._counts(door, len(done), len(done))
            assert repeated(partial(door.statistics, CRAWL)).queued_count == 0
        verify(doors)

    def _counts(self, door: Stubs, least: int, most: int) -> None:
        """Wait until so many pages are counted: a door knows of a member that moves what that told last."""

        def counts_them() -> bool:
            counts = repeated(partial(door.statistics, CRAWL))
            assert counts.succeeded_count <= counts.discovered_count <= most
            return counts.succeeded_count >= least

        eventually(counts_them, f"{least} pages that are counted")

    def _end(self) -> None:
        """Stop the machines in order. The one whose program was replaced last is the last one: it serves all
        before that, and tells of the crawl what all have told."""
        *others, last = sorted(self.machines, key=lambda machine: machine.replaced)
        for machine in others:
            machine.stop()
        eventually(lambda: len(self._members(last)) == SHARDS + 1, f"all members on {last.data.name}")
        self._compare(self.doors[self.machines.index(last)])
        last.stop()

    def upgrade_all(self, program: Program) -> None:
        """Upgrade the machines one after the other, the one with the front last. One loses its directory."""
        *others, leader = sorted(
            self.machines, key=lambda each: (each is self.leader(), self._random.random())
        )
        for number, machine in enumerate(others):
            self.upgrade(machine, program, empties=number == 1)
        self.replace(leader, program)

    def upgrade(self, machine: Upgradable, program: Program, empties: bool = False) -> None:
        """Replace the program of a machine, and wait until it serves shards: as the manual has it before the
        next one."""
        self.replace(machine, program, empties)

        def has_shards() -> bool:
            return bool(self.nodes.problems or self._members(machine).keys() - {FRONT})

        eventually(has_shards, f"shards on {machine.data.name}")
        self.use()

    def replace(self, machine: Upgradable, program: Program, empties: bool = False) -> None:
        """Replace the program of a machine, see that it runs, and use it."""
        self.replaced += 1
        machine.replace(program, empties, self.replaced)
        eventually(lambda: program.runs_in(machine.server.child.pid), f"{program.version} in all processes")
        self.use()

    def use(self) -> None:
        """Let each door answer calls of all kinds while the front stays where it is; and compare what each
        tells of the crawl."""
        front, before = self._front(), self.calls.answered.copy()

        def is_used() -> bool:
            nonlocal front, before
            now = self._front()
            if now is None or now != front:
                front, before = now, self.calls.answered.copy()
                return bool(self.nodes.problems)
            since = self.calls.answered - before
            return bool(self.nodes.problems) or all(
                since[door, call] >= ENOUGH for door in range(MACHINES) for call in CALLS
            )

        eventually(is_used, "answers of all doors to all calls, while the front stays")
        assert not self.nodes.problems, self.nodes.problems[:3]
        assert front is not None
        self.pairs |= {(machine.program, front[1].program) for machine in self.machines}
        for door in self.doors:
            self._ask(door)
        verify(self.doors)

    def _ask(self, door: Stubs) -> None:
        """Ask a door what operators ask."""
        request = admin_pb2.GetFrontierRequest()
        assert len(repeated(lambda: door.admin.GetFrontier(request, timeout=PATIENCE_S).shards)) == SHARDS
        running = crawl_pb2.CRAWL_STATE_RUNNING
        assert repeated(lambda: door.describe(CRAWL).status.state) == running
        self._counts(door, self.nodes.done.total(), sys.maxsize)
        events = [str(event) for event in repeated(lambda: door.events_so_far(CRAWL))]
        assert events[: len(self._events)] == self._events, "events have changed"
        self._events = events

    def serves_with(self, program: Program) -> None:
        """Wait until all members are on machines of a program, and see that `toehold shards list` says so."""

        def all_serve() -> bool:
            assert all(machine.program is program for machine in self.machines)
            return len(set[str]().union(*map(self._members, self.machines))) == SHARDS + 1

        eventually(all_serve, f"all members on machines of {program.version}")
        command = (sys.executable, "-m", "toehold_cli", "shards", "list", "--log", self.url, "--json")
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        serving = {each["member"]: each["machine"] for each in told if "member" in each}
        versions = {each["machine"]: each["version"] for each in told if "member" not in each}
        assert len(serving) == SHARDS + 1
        assert set(serving.values()) <= {*NAMES, ""}, "a member that moves now is nobody's"
        assert versions == dict.fromkeys(NAMES, program.version)

    def leader(self) -> Upgradable:
        """The machine with the front."""
        _, machine = eventually(self._front, "the front")
        return machine

    def _front(self) -> tuple[int, Upgradable] | None:
        """The epoch of the front that was opened last, and its machine."""
        epochs = {machine: self._members(machine).get(FRONT, 0) for machine in self.machines}
        machine = max(epochs, key=lambda each: epochs[each])
        return (epochs[machine], machine) if epochs[machine] else None

    def _members(self, machine: Upgradable) -> dict[str, int]:
        """What a machine serves, by the word of its present program, with the epochs of the logs."""
        try:
            notice = (self.bucket / "machines" / machine.data.name / "notice").read_bytes()
        except FileNotFoundError:
            return {}
        card = msgspec.json.decode(notice, type=Card)
        if card.version != machine.program.version:
            return {}
        return {member: card.holds[member] for member in card.ports if member in card.holds}


def repeated(call: Callable[[], _T]) -> _T:
    """The answer to a question, asked until it comes: a member may be on its way to another machine."""
    began_s = time.monotonic()
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() not in REPEATED or time.monotonic() - began_s > PATIENCE_S:
                raise
            time.sleep(0.05)


def programs(reference: str, folder: Path) -> tuple[Program, Program]:
    """The program of a commit, and the present one: of machines of one cluster. Raises NotAtHand."""
    old, new = earlier(reference, folder), present()
    if old.cards != new.cards:
        raise NotAtHand(f"machines of {reference} and present ones do not understand each other, as told")
    return old, new


def test_machines_upgraded_one_at_a_time_under_load_lose_nothing_nor_does_one_that_goes_back(
    tmp_path: Path,
) -> None:
    try:
        old, new = programs(before(), tmp_path / "earlier")
    except NotAtHand as why:
        pytest.skip(str(why))
    cluster = Cluster(tmp_path, old, seed=21)
    with cluster.crawled():
        cluster.upgrade_all(new)
        cluster.serves_with(new)
        assert cluster.pairs >= {(old, old), (new, old), (new, new)}
        if old.stores == new.stores:
            cluster.upgrade(next(each for each in cluster.machines if each is not cluster.leader()), old)
            assert (old, new) in cluster.pairs


@pytest.mark.soak("upgrade")
@pytest.mark.timeout(7200)
def test_machines_upgraded_again_and_again_under_load_that_go_back_lose_nothing(
    tmp_path: Path, soak: Soak
) -> None:
    reference = os.environ.get(FROM) or before()
    try:
        old, new = programs(reference, tmp_path / "earlier")
    except NotAtHand as why:
        if os.environ.get(FROM):
            pytest.fail(str(why))
        pytest.skip(str(why))
    for life in range(soak.cycles(5)):
        cluster = Cluster(tmp_path / str(life), old, soak.seed + life)
        with cluster.crawled():
            for program in (new, old, new) if old.stores == new.stores else (new,):
                cluster.upgrade_all(program)
                cluster.serves_with(program)
        assert cluster.pairs >= {(old, old), (new, old), (new, new)}
        assert old.stores != new.stores or (old, new) in cluster.pairs
        soak.count(faults=cluster.replaced, checked=len(cluster.nodes.done))
        print(f"from {reference}: {cluster.replaced} machines replaced, {len(cluster.nodes.done)} pages")


def test_a_machine_does_not_open_what_a_later_format_has_written_and_leaves_it_to_machines_that_do(
    tmp_path: Path,
) -> None:
    later, new = of_a_later_format(tmp_path / "later"), present()
    url = f"file://{tmp_path / 'bucket'}"
    with ExitStack() as stack:
        one = Upgradable(tmp_path, NAMES[0], url, later)
        stack.callback(one.end)
        one.server.until_ready()
        one.server.stubs.launch(CRAWL, uri(0), of=spec())
        other = Upgradable(tmp_path, NAMES[1], url, new)
        stack.callback(other.end)
        other.server.until_ready()

        def has_refused() -> bool:
            return "member_left_to_others" in other.server.errors.read_text()

        eventually(has_refused, "a member that is given to the machine which cannot open it")
        why = f"got {new.stores + 1}, which version {later.version} wrote. Use that version or a later one"
        assert why in other.server.errors.read_text()
        stubs = other.server.stubs

        def is_served() -> bool:
            shards = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=PATIENCE_S).shards
            return len(shards) == SHARDS and all(shard.present for shard in shards)

        eventually(lambda: repeated(is_served), "all members on the machine that can open them")
        assert repeated(partial(stubs.schedule, CRAWL, uri(0), uri(HOSTS))) == ["ALREADY_SEEN", "QUEUED"]
        other.stop()
        one.stop()
