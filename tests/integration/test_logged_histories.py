"""Random histories of three machines, of which each may be lost: nothing acknowledged is ever missing, and no
store mixes two histories.

`Machines` plays them, and knows what each store may show.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import pytest
from frontier_harness.buckets import MemoryBucket
from frontier_harness.clocks import StillClock
from frontier_harness.soaking import Soak
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from integration.logged_machines import BEGIN_S, Machine, Rows, applied, change, rows_of

from frontier_server.replicated.object_log import LIST_LAG_S
from frontier_server.stores.copies import copy_live
from frontier_server.stores.logged import CHECK_S, LogFence


class State(NamedTuple):
    """The lists of a store, in their order, and what they come to."""

    lists: tuple[int, ...] = ()
    rows: Rows = {}  # noqa: RUF012  # nobody changes it

    def goes_on_from(self, other: "State") -> bool:
        return self.lists[: len(other.lists)] == other.lists


class Played(Machine):
    """A machine, and what its store must have."""

    has = State()
    kept: tuple[Path, State] | None = None
    """The store as the disk had it at some moment, to which a power cut may throw it back."""


MEMORY = Path("/dev/shm")  # a disk is slow to sync, and no power is cut in truth
KEYS = st.lists(st.integers(0, 5), max_size=4)
WHICH = st.integers(0, 2)


class Machines(RuleBasedStateMachine):
    """Three machines, of which one owns the log; the others may not know it yet."""

    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="logged-", dir=MEMORY if MEMORY.is_dir() else None))
        self.clock = StillClock(BEGIN_S)
        self.bucket = MemoryBucket(self.clock)
        self.machines = [Played(self.directory / f"{at}", self.bucket, self.clock) for at in range(3)]
        self.owner: Played | None = None
        self.log = State()  # all that was appended, or replicated before anybody appended
        self.number = 0

    def teardown(self) -> None:
        try:
            fresh = Played(self.directory / "fresh", self.bucket, self.clock)
            self.machines.append(fresh)
            self.open(fresh)
        finally:
            for machine in self.machines:
                machine.die()
            shutil.rmtree(self.directory)

    def open(self, machine: Played) -> None:
        machine.die()
        machine.open()
        self.owner = machine
        rows = rows_of(machine.store)
        if rows == self.log.rows:
            self.seen["logged"] += 1
            machine.has = self.log
        else:  # nobody has appended since: it may have lists that nobody has heard of
            assert machine.has.goes_on_from(self.log)
            assert rows == machine.has.rows
            self.seen["ahead"] += 1
            self.log = machine.has

    def write(self, machine: Played, puts: Sequence[int], deletes: Sequence[int]) -> None:
        self.number += 1
        changes = change(machine.has.rows, self.number, puts, deletes)
        machine.store.write(changes)
        machine.has = State((*machine.has.lists, self.number), applied(machine.has.rows, changes))

    def flush(self, machine: Played) -> None:
        self.clock.now_s += CHECK_S
        if machine is self.owner:
            machine.store.flush()
            self.log = machine.has
            self.seen["flush"] += 1
        else:
            with pytest.raises(LogFence):
                machine.store.flush()
            self.seen["fence"] += 1

    def running(self) -> list[Played]:
        return [machine for machine in self.machines if machine.running]

    @initialize(which=WHICH)
    def begin(self, which: int) -> None:
        self.open(self.machines[which])

    @rule(which=WHICH)
    def takes_over(self, which: int) -> None:
        self.open(self.machines[which])

    @precondition(lambda self: bool(self.running()))
    @rule(
        data=st.data(),
        lists=st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=4),
        flushes=st.sampled_from(("not", "after all", "before the last")),
    )
    def works(self, data: st.DataObject, lists: list[tuple[list[int], list[int]]], flushes: str) -> None:
        machine = data.draw(st.sampled_from(self.running()))
        last = lists.pop() if flushes == "before the last" else None
        for puts, deletes in lists:
            self.write(machine, puts, deletes)
        before = machine.has
        if last is not None:  # while the others are appended
            machine.sees.at("create", lambda: self.write(machine, *last))
        if flushes != "not":
            self.flush(machine)
            if machine is self.owner:
                self.log = before
        machine.sees._next.clear()  # a former owner was fenced before it came to that

    @precondition(lambda self: bool(self.running()))
    @rule(data=st.data())
    def looks(self, data: st.DataObject) -> None:
        self.flush(data.draw(st.sampled_from(self.running())))

    @precondition(lambda self: bool(self.running()))
    @rule(
        data=st.data(),
        meanwhile=st.sampled_from(("nothing", "write", "flush", "take over")),
        which=WHICH,
        keys=KEYS,
    )
    def replicates(self, data: st.DataObject, meanwhile: str, which: int, keys: list[int]) -> None:
        machine = data.draw(st.sampled_from(self.running()))
        other = self.machines[which]

        def between() -> None:
            if meanwhile in ("write", "flush"):
                self.write(machine, keys, (5,))
            if meanwhile == "flush":
                self.flush(machine)
                self.write(machine, (5,), keys)
            if meanwhile == "take over" and other is not machine:
                self.open(other)

        machine.sees.at("upload", between)
        try:
            machine.replicate()
        except LogFence:
            assert machine is not self.owner
            self.seen["no replica"] += 1
        else:
            assert machine is self.owner
            self.log = machine.has  # it appends what waits
            self.seen["replica"] += 1

    @precondition(lambda self: bool(self.running()))
    @rule(data=st.data(), settles=st.booleans())
    def tidies(self, data: st.DataObject, settles: bool) -> None:
        machine = data.draw(st.sampled_from(self.running()))
        before = len(self.bucket.objects)
        self.clock.now_s += LIST_LAG_S if settles else 1
        try:
            machine.store.tidy()
        except LogFence:
            assert machine is not self.owner
        self.seen["tidied" if len(self.bucket.objects) < before else "nothing to tidy"] += 1

    @precondition(lambda self: bool(self.running()))
    @rule(data=st.data(), disk_too=st.booleans())
    def dies(self, data: st.DataObject, disk_too: bool) -> None:
        machine = data.draw(st.sampled_from(self.running()))
        if disk_too:
            machine.lose()
            machine.has = State()
        else:
            machine.die()
        if machine is self.owner:
            self.owner = None

    @precondition(lambda self: bool(self.running()))
    @rule(data=st.data())
    def reaches_its_disk(self, data: st.DataObject) -> None:
        machine = data.draw(st.sampled_from(self.running()))
        kept = machine.data / "kept"
        shutil.rmtree(kept, ignore_errors=True)
        copy_live(machine.path, kept)
        machine.kept = kept, machine.has

    @precondition(lambda self: any(machine.kept for machine in self.machines))
    @rule(data=st.data())
    def loses_power(self, data: st.DataObject) -> None:
        machine = data.draw(st.sampled_from([each for each in self.machines if each.kept]))
        assert machine.kept is not None
        machine.lose()
        kept, machine.has = machine.kept
        shutil.copytree(kept, machine.path)
        if machine is self.owner:
            self.owner = None
        self.seen["power cut"] += 1


def play(examples: int, steps: int) -> None:
    Machines.seen.clear()
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    )
    run_state_machine_as_test(Machines, settings=chosen)
    assert set(Machines.seen) == {
        "logged",
        "ahead",
        "flush",
        "fence",
        "replica",
        "no replica",
        "tidied",
        "nothing to tidy",
        "power cut",
    }, Machines.seen


def test_no_history_of_three_machines_loses_or_mixes_anything() -> None:
    play(examples=40, steps=40)  # they change with `Machines`, and then may miss a kind: let there be more


@pytest.mark.soak("histories")
@pytest.mark.timeout(0)
def test_no_long_history_of_three_machines_loses_or_mixes_anything(soak: Soak) -> None:
    play(examples=soak.cycles(1_500), steps=80)
    soak.count(faults=Machines.seen["power cut"], checked=Machines.seen["logged"] + Machines.seen["ahead"])
