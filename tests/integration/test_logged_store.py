"""A store and its log, on machines that may be lost: nothing acknowledged is ever missing, and no store mixes
two histories.

`Machines` plays random histories of three machines, and knows what each store may show. The tests after it
construct what chance would rarely find.
"""

import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import pytest
from frontier_harness.buckets import Fault, FaultyBucket, MemoryBucket
from frontier_harness.soaking import Soak
from frontier_harness.waiting import PATIENCE_S
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from rocksdict import WriteBatch

from frontier_server.core.rows.keys import SERVER, CrawlRow, crawl_key
from frontier_server.core.rows.store import Changes, Family, StoreDamaged, StoreFailed, WriteStalled
from frontier_server.replicated.buckets import BucketFailed
from frontier_server.replicated.change_lists import Lists, packed
from frontier_server.replicated.log import Fenced, LogDamaged
from frontier_server.replicated.object_log import LIST_LAG_S, ObjectLog
from frontier_server.replicated.replicas import File, Replicas, digest_of
from frontier_server.stores import logged
from frontier_server.stores.copies import copy_live
from frontier_server.stores.logged import (
    CHECK_S,
    MARK_KEY,
    RESTORING,
    SLOW_S,
    LogFence,
    LoggedStore,
    LogNeeded,
    mark_of,
    open_logged,
)
from frontier_server.stores.rocks import RocksStore

CACHE_BYTES = 1024 * 1024
COUNT_KEY = crawl_key(SERVER, CrawlRow.SERVER)
Rows = dict[tuple[Family, bytes], bytes]
USED = (Family.CRAWLS, Family.SEEDS, Family.PENDING, Family.HOSTS)


class Clock:
    """Stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Asked(FaultyBucket):
    """Notes what was asked for."""

    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket)
        self.got: list[str] = []
        self.downloaded: list[str] = []
        self.uploaded: list[str] = []

    def get(self, name: str) -> bytes | None:
        self.got.append(name)
        return super().get(name)

    def upload(self, name: str, path: Path) -> None:
        self.uploaded.append(name)
        super().upload(name, path)

    def download(self, name: str, path: Path) -> bool:
        self.downloaded.append(name)
        return super().download(name, path)


class Machine:
    """A machine with a directory, and perhaps a process, which believes that it owns the log."""

    def __init__(self, data: Path, bucket: MemoryBucket, clock: Clock) -> None:
        data.mkdir()
        self.data, self.path = data, data / "store"
        self.bucket, self.clock = bucket, clock
        self.sees = Asked(bucket)
        self.running: LoggedStore | None = None
        self.rests: Callable[[], None] = lambda: None
        """What happens while it waits for a second try."""

    @property
    def store(self) -> LoggedStore:
        assert self.running is not None
        return self.running

    def open(self) -> LoggedStore:
        """Start a process, which claims the log."""
        self.die()
        self.sees = Asked(self.bucket)
        log = ObjectLog(self.sees, "1", "cluster", "1.0", self.clock, waits=lambda rest_s: self.rests())
        replicas = Replicas(self.sees, "1")
        self.running = open_logged(self.data, log, replicas, "1.0", CACHE_BYTES, now_ms=1)
        self.running._clock_s = self.clock
        return self.running

    def replicate(self) -> None:
        self.store.replicate(self.data, now_ms=2)

    def tidy(self) -> None:
        self.clock.now_s += LIST_LAG_S
        self.store.tidy()

    def die(self) -> None:
        """End the process, whatever it has not appended."""
        if self.running is not None:
            self.running.close()
            self.running = None

    def lose(self) -> None:
        """Lose the process and the disk."""
        self.die()
        shutil.rmtree(self.path, ignore_errors=True)


class Place:
    """Machines that share a bucket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = Clock()
        self.bucket = MemoryBucket(self.clock)
        self.machines: list[Machine] = []

    def machine(self) -> Machine:
        made = Machine(self.directory / f"machine-{len(self.machines)}", self.bucket, self.clock)
        self.machines.append(made)
        return made

    def rows_elsewhere(self) -> Rows:
        """What a new machine has."""
        other = self.machine()
        try:
            return rows_of(other.open())
        finally:
            other.lose()

    def close(self) -> None:
        for machine in self.machines:
            machine.die()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def rows_of(store: RocksStore) -> Rows:
    """All rows but the mark. One of them counts others: they are of one moment."""
    rows: Rows = {}
    for family in USED:
        rows |= {(family, key): value for key, value in store.scan(family, b"", b"")}
    rows.pop((Family.CRAWLS, MARK_KEY), None)
    assert int(rows.get((Family.CRAWLS, COUNT_KEY), b"0")) == pending(rows)
    return rows


def pending(rows: Rows) -> int:
    return sum(family is Family.PENDING for family, _ in rows)


def change(rows: Rows, number: int, puts: Sequence[int] = (), deletes: Sequence[int] = ()) -> Changes:
    """A list on top of some rows, which shows its number: rows of several families, one of which counts."""
    changes: Changes = {(Family.PENDING, b"%d" % key): b"%d" % number for key in puts}
    changes |= {(Family.PENDING, b"%d" % key): None for key in deletes}
    changes |= {(Family.SEEDS, b"%06d" % number): b"", (Family.HOSTS, b"last"): b"%d" % number}
    changes[Family.CRAWLS, COUNT_KEY] = b"%d" % pending(applied(rows, changes))
    return changes


def applied(rows: Rows, changes: Changes) -> Rows:
    after = dict(rows)
    for key, value in changes.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def write(store: LoggedStore, *numbers: int) -> None:
    """Write lists, each with a row that is new, one that replaces another, and one that it deletes."""
    for number in numbers:
        puts, deletes = (number, number % 3), (number - 2,)
        store.write(change(rows_of(store), number, puts, deletes))


def flushed(store: LoggedStore, *numbers: int) -> None:
    """Write lists, each with a record of its own."""
    for number in numbers:
        write(store, number)
        store.flush()


def in_tables(store: LoggedStore) -> None:
    """Let RocksDB write all rows to files that never change."""
    for family in store._families.values():
        family.flush(True)


def lists_of(rows: Rows) -> list[int]:
    """The lists that some rows come from."""
    return [int(key) for family, key in sorted(rows, key=lambda each: each[1]) if family is Family.SEEDS]


# Random histories.


class State(NamedTuple):
    """The lists of a store, in their order, and what they come to."""

    lists: tuple[int, ...] = ()
    rows: Rows = {}  # noqa: RUF012  never changed

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
        self.clock = Clock()
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
        machine.sees._next.clear()  # a former owner may not have come so far

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
    play(examples=40, steps=40)


@pytest.mark.soak("histories")
@pytest.mark.timeout(0)
def test_no_history_of_three_machines_loses_or_mixes_anything_for_long(soak: Soak) -> None:
    play(examples=soak.cycles(1_500), steps=80)
    soak.count(faults=Machines.seen["power cut"], checked=Machines.seen["logged"] + Machines.seen["ahead"])


# What is opened.


def test_a_new_machine_has_what_others_have_appended_and_not_what_they_had_yet_to_append(
    place: Place,
) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1, 2)
    write(first.store, 3)
    assert lists_of(rows_of(second.open())) == [1, 2]
    assert not second.store.is_ahead
    flushed(second.store, 4)
    assert lists_of(place.rows_elsewhere()) == [1, 2, 4]


def test_a_store_that_is_ahead_is_kept_if_nobody_has_appended_since_and_replicated_first(
    place: Place,
) -> None:
    first, second, third = place.machine(), place.machine(), place.machine()
    flushed(first.open(), 1)
    write(first.store, 2, 3)
    first.die()
    second.open()
    second.die()
    store = first.open()
    assert lists_of(rows_of(store)) == [1, 2, 3]
    ((_, manifest),) = store.manifests
    assert store.is_ahead and manifest.is_ahead and manifest.list == 3
    first.lose()
    assert lists_of(rows_of(third.open())) == [1, 2, 3]
    assert not third.store.is_ahead
    flushed(third.store, 4)
    assert lists_of(rows_of(second.open())) == [1, 2, 3, 4], "its store had less than the replica"


def test_a_store_that_is_ahead_is_wiped_once_somebody_else_has_appended(place: Place) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1)
    write(first.store, 2, 3, 4)
    flushed(second.open(), 5)
    second.die()
    assert lists_of(rows_of(first.open())) == [1, 5]


@pytest.mark.parametrize("replicas", [0, 2])
def test_a_store_that_lacks_records_replays_only_those(place: Place, replicas: int) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1, 2, 3)
    for _ in range(replicas):
        first.replicate()
    flushed(first.store, 4)
    flushed(second.open(), 5, 6)
    own = first.store._mark
    store = first.open()
    assert lists_of(rows_of(store)) == [1, 2, 3, 4, 5, 6]
    assert first.sees.downloaded == []
    asked = {int(name[-16:]) for name in first.sees.got if name.startswith("log/")}
    assert min(asked - {number for number, _ in store.manifests}) == own.record


def test_a_store_that_lacks_more_than_the_log_has_is_restored(place: Place) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1)
    first.die()
    flushed(second.open(), 2)
    second.replicate()
    flushed(second.store, 3)
    second.replicate()
    flushed(second.store, 4)
    second.tidy()
    records = [int(name[-16:]) for name in place.bucket.objects if name.startswith("log/")]
    assert sorted(records)[:3] == [1, 3, 5], "fences stay"
    assert lists_of(rows_of(first.open())) == [1, 2, 3, 4]
    assert first.sees.downloaded


def test_a_store_of_the_same_numbers_and_another_owner_is_not_mixed_with_what_a_replica_alone_has(
    place: Place,
) -> None:
    """Lists 2 and 3 of the first owner are in no record, but in the replica of a store that was ahead; the
    second owner's, which it never appended, have the same numbers."""
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1)
    write(first.store, 2, 3)
    write(second.open(), 12, 13)
    assert second.store._mark[:2] == (second.store.log.epoch, 3)
    second.die()
    flushed(first.open(), 4)
    assert first.store.manifests[-1][1].is_ahead
    first.die()
    assert lists_of(rows_of(second.open())) == [1, 2, 3, 4]
    assert second.sees.downloaded


@pytest.mark.parametrize("later", [[], [4]])
def test_a_store_with_what_a_power_cut_left_of_a_history_that_was_kept_is_restored(
    place: Place, later: list[int]
) -> None:
    """List 3 is in no record: it was in the replica that was made when the store was ahead."""
    first = place.machine()
    flushed(first.open(), 1)
    write(first.store, 2)
    copy_live(first.path, first.data / "kept")
    write(first.store, 3)
    flushed(first.open(), *later)
    first.lose()
    (first.data / "kept").rename(first.path)
    assert lists_of(rows_of(first.open())) == [1, 2, 3, *later]
    assert first.sees.downloaded


def test_a_replay_puts_no_older_values_over_those_of_lists_that_no_record_has(place: Place) -> None:
    """The second list was written while the first one was appended: it may look as if the record had both."""
    first = place.machine()
    write(first.open(), 1)
    first.sees.at("create", lambda: write(first.store, 2))
    first.store.flush()
    expected = rows_of(first.store)
    assert lists_of(expected) == [1, 2] and first.store._mark.record == 2
    assert rows_of(first.open()) == expected
    assert place.rows_elsewhere() == expected


def test_a_list_without_rows_is_replayed_like_any_other(place: Place) -> None:
    first = place.machine()
    first.open().write({})
    first.store.flush()
    flushed(first.store, 2)
    first.store.write({})
    first.store.flush()
    assert lists_of(place.rows_elsewhere()) == [2]
    assert not first.open().is_ahead


def test_records_that_do_not_follow_on_each_other_are_refused(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    first.store.log.append(packed(Lists(3, 1, [{(Family.HOSTS, b"last"): b"3"}])))
    for machine in (first, place.machine()):
        with pytest.raises(LogDamaged, match="do not follow"):
            machine.open()


def test_a_replica_may_cut_a_record_in_its_middle(place: Place) -> None:
    """The copy has the first of three lists that one record has."""
    first = place.machine()
    flushed(first.open(), 1)
    write(first.store, 2)
    first.sees.at("upload", lambda: flushed(first.store, 3), lambda: write(first.store, 4))
    first.replicate()
    ((number, manifest),) = first.store.manifests
    assert manifest.list == 2 and manifest.replay_from < number
    flushed(first.store, 5)
    expected = rows_of(first.store)
    assert lists_of(expected) == [1, 2, 3, 4, 5]
    assert place.rows_elsewhere() == expected


def test_a_replica_after_another_one_needs_no_record_before_that(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    for _ in range(2):
        first.replicate()
    (number, _), (_, manifest) = first.store.manifests
    assert manifest.replay_from == number + 1
    write(first.store, 2)
    assert first.store._mark.record == first.store.manifests[-1][0] + 1


def test_a_replica_of_a_store_without_rows_can_be_restored(place: Place) -> None:
    first, second = place.machine(), place.machine()
    first.open()
    first.replicate()
    flushed(second.open(), 1)
    assert lists_of(place.rows_elsewhere()) == [1]


@pytest.mark.parametrize("replicas", [0, 1])
def test_a_store_that_was_replayed_is_not_taken_for_one_that_is_ahead(place: Place, replicas: int) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1, 2)
    for _ in range(replicas):
        first.replicate()
    flushed(first.store, 3)
    for _ in range(2):
        store = second.open()
        assert lists_of(rows_of(store)) == [1, 2, 3]
        assert not store.is_ahead and second.sees.uploaded == []
        assert store.tail_rows == rows_since([3] if replicas else [1, 2, 3])


def rows_since(numbers: Sequence[int]) -> int:
    """How many rows lists of `write` change."""
    return sum(len(change({}, number, (number, number % 3), (number - 2,))) for number in numbers)


def test_rows_are_counted_since_the_last_replica_whoever_counts(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1, 2)
    assert first.store.tail_rows == rows_since([1, 2])
    first.sees.at("upload", lambda: flushed(first.store, 3, 4))
    first.replicate()
    assert first.store.tail_rows == rows_since([3, 4])
    for machine in (first, place.machine(), first):
        assert machine.open().tail_rows == rows_since([3, 4])
    flushed(first.store, 5)
    assert first.store.tail_rows == rows_since([3, 4, 5])
    for machine in (first, place.machine()):
        assert machine.open().tail_rows == rows_since([3, 4, 5])


# What is refused.


def test_a_store_without_a_mark_is_refused_and_left_alone(place: Place) -> None:
    first = place.machine()
    with_rows = RocksStore(first.path, cache_bytes=CACHE_BYTES)
    with_rows.write({(Family.CRAWLS, COUNT_KEY): b"0"})
    with_rows.close()
    with pytest.raises(LogNeeded, match="no log knows; move it away") as _caught:  # with its frames
        first.open()
    left = RocksStore(first.path, cache_bytes=CACHE_BYTES)
    assert left.get(Family.CRAWLS, COUNT_KEY) == b"0"
    left.close()


def test_a_store_is_refused_if_its_log_lacks_what_the_store_has_seen(place: Place) -> None:
    """As when a frontier is given another bucket, or one was put back as it was long ago."""
    first = place.machine()
    flushed(first.open(), 1, 2)
    first.die()
    place.bucket.objects.clear()
    place.bucket._listed.clear()
    with pytest.raises(LogDamaged, match=r"the log ends at record 0, .* has seen record 2"):
        first.open()
    store = RocksStore(first.path, cache_bytes=CACHE_BYTES)
    assert lists_of(rows_of(store)) == [1, 2]
    store.close()


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": lambda data: data[:-100] + bytes((data[-100] ^ 1,)) + data[-99:],
    "shorter": lambda data: data[:-1],
    "missing": lambda data: None,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_replica_with_a_damaged_file_is_refused_and_nothing_of_it_is_used(place: Place, kind: str) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1)
    first.replicate()
    flushed(first.store, 2)
    file = max(first.store.manifests[-1][1].files, key=lambda file: file.size)
    sound = place.bucket.objects[file.place]
    place.bucket.delete([file.place])
    if (damaged := DAMAGE[kind](sound)) is not None:
        place.bucket.put(file.place, damaged)
    for _ in range(2):
        with pytest.raises(LogDamaged, match=f"memory://bucket: {file.place} (must have|is missing)"):
            second.open()
        assert not second.path.exists()
    place.bucket.put(file.place, sound)
    assert lists_of(rows_of(second.open())) == [1, 2]
    assert not (second.data / RESTORING).exists()


def test_a_record_that_is_missing_after_the_last_replica_is_refused(place: Place) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1, 2)
    first.die()
    place.bucket.delete(["log/1/0000000000000002"])
    with pytest.raises(LogDamaged, match="0000000000000002 is missing"):
        second.open()


@pytest.mark.parametrize("names", [["../store"], [".hidden"], ["a/b"]])
def test_a_replica_whose_files_would_leave_their_directory_is_refused(place: Place, names: list[str]) -> None:
    replicas = Replicas(place.bucket, "1")
    with pytest.raises(LogDamaged, match="plain names"):
        replicas.download([File(name, "files/1/x", 0, "") for name in names], place.directory / "new")


# Damage of the store itself.


def table_with(path: Path, row: bytes) -> Path:
    """The file of a store that has a row."""
    return next(each for each in path.glob("*.sst") if row in each.read_bytes())


def without_current(path: Path) -> None:
    (path / "CURRENT").unlink()


def without_a_table(path: Path) -> None:
    table_with(path, b"last").unlink()


def with_a_flipped_mark(path: Path) -> None:
    table = table_with(path, MARK_KEY)
    data = table.read_bytes()
    at = data.index(MARK_KEY)
    table.write_bytes(data[:at] + b"\xff" + data[at + 1 :])


@pytest.mark.parametrize("damages", [without_current, without_a_table, with_a_flipped_mark])
def test_a_store_that_is_damaged_is_restored(place: Place, damages: Callable[[Path], None]) -> None:
    first = place.machine()
    flushed(first.open(), 1, 2)
    in_tables(first.store)
    first.replicate()
    flushed(first.store, 3)
    in_tables(first.store)
    first.die()
    damages(first.path)
    assert lists_of(rows_of(first.open())) == [1, 2, 3]


def test_a_store_in_which_damage_was_found_is_restored_at_the_next_start(place: Place) -> None:
    """The damaged block is read by chance alone: without that, each start would go well, and fail later."""
    first = place.machine()
    flushed(first.open(), 1, 2)
    in_tables(first.store)
    first.die()
    table = table_with(first.path, b"last")
    data = table.read_bytes()
    at = data.index(b"last")
    table.write_bytes(data[:at] + b"LAST" + data[at + 4 :])
    with pytest.raises(StoreDamaged):
        first.open().get(Family.HOSTS, b"last")
    assert lists_of(rows_of(first.open())) == [1, 2]


# Replicas.


def test_a_replica_uploads_only_what_is_new(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    flushed(first.store, 2)
    first.replicate()
    tables = [name for name in first.sees.uploaded if name.endswith(".sst")]
    assert tables
    first.sees.uploaded.clear()
    flushed(first.store, 3)
    first.replicate()
    assert first.sees.uploaded and not [name for name in first.sees.uploaded if name.endswith(".sst")]
    places = {file.place for file in first.store.manifests[-1][1].files}
    assert set(tables) <= places
    flushed(first.store, 4)
    assert lists_of(place.rows_elsewhere()) == [1, 2, 3, 4]


@pytest.mark.parametrize("has_its_disk", [True, False])
def test_a_replica_after_a_start_uploads_only_what_is_new(place: Place, has_its_disk: bool) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    first.replicate()
    there = {file.place for file in first.store.manifests[-1][1].files if file.name.endswith(".sst")}
    assert there
    if not has_its_disk:
        first.lose()
    flushed(first.open(), 2)
    first.replicate()
    assert there <= {file.place for file in first.store.manifests[-1][1].files}
    assert not [
        name
        for name in first.sees.uploaded
        if name.rpartition("-")[2] in {p.rpartition("-")[2] for p in there}
    ]
    assert lists_of(place.rows_elsewhere()) == [1, 2]


def test_a_file_of_the_same_name_and_size_is_not_taken_for_another(place: Place) -> None:
    """A store was put back, and has gone on differently from there: RocksDB numbers its files alike."""
    replicas, copy = Replicas(place.bucket, "1"), place.directory / "copy"
    copy.mkdir()
    (copy / "000007.sst").write_bytes(b"one")
    (first,) = replicas.upload(copy, 1)
    (copy / "000007.sst").write_bytes(b"two")
    other = Replicas(place.bucket, "1")
    other.know([first], is_sure=False)
    (second,) = other.upload(copy, 2)
    assert second.place != first.place
    assert (place.bucket.get(first.place), place.bucket.get(second.place)) == (b"one", b"two")
    same = Replicas(place.bucket, "1")
    same.know([second], is_sure=False)
    assert same.upload(copy, 3) == [second]


def test_a_start_does_not_take_it_that_a_file_has_the_content_that_the_replica_has(place: Place) -> None:
    """The store of a machine that was away may have files of its own with these names, and of their size."""
    first = place.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    first.replicate()
    uploaded = {file.name: file for file in first.store.manifests[-1][1].files}
    first.die()
    table = table_with(first.path, b"last")
    table.write_bytes(table.read_bytes().replace(b"last", b"LAST", 1))
    first.open()
    first.replicate()
    others = {file.name: file for file in first.store.manifests[-1][1].files}
    assert others[table.name].size == uploaded[table.name].size
    assert others[table.name].place != uploaded[table.name].place
    assert others[table.name].digest == digest_of(table)


def test_a_replica_that_fails_half_way_changes_nothing_in_the_one_before(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    first.replicate()
    flushed(first.store, 2)
    in_tables(first.store)
    files = len(list(first.path.iterdir()))
    first.sees.at("upload", *[Fault.NONE] * (files // 2), Fault.REFUSED)
    with pytest.raises(BucketFailed):
        first.replicate()
    assert lists_of(place.rows_elsewhere()) == [1, 2]


def test_a_replica_that_fails_half_way_is_none_and_the_next_one_is_whole(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    first.sees.at("upload", *[Fault.NONE] * 2, Fault.LOST, Fault.REFUSED)
    with pytest.raises(BucketFailed):
        first.replicate()
    assert first.store.manifests == [] and not list(first.data.glob("replica*"))
    flushed(first.store, 2)
    first.replicate()
    assert lists_of(place.rows_elsewhere()) == [1, 2]


def test_files_that_no_replica_needs_are_deleted(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    for number in range(2, 6):
        flushed(first.store, number)
        in_tables(first.store)
        first.replicate()
        first.tidy()
    kept = {file.place for _, manifest in first.store.manifests for file in manifest.files}
    assert len(first.store.manifests) == 2
    assert {name for name in place.bucket.objects if name.startswith("files/")} == kept
    assert lists_of(place.rows_elsewhere()) == [1, 2, 3, 4, 5]


def test_a_replica_waits_for_a_write_that_its_copy_may_have(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the replica would have a list that no record before its manifest has."""
    first = place.machine()
    store = first.open()
    flushed(store, 1)
    written, goes_on = threading.Event(), threading.Event()
    plain_write, lock = store._write, store._applying

    class Told:
        """Lets the writer go on once somebody waits for it."""

        def __enter__(self) -> None:
            if written.is_set():
                goes_on.set()
            lock.acquire()

        def __exit__(self, *problem: object) -> None:
            lock.release()

    def slow_write(batch: WriteBatch) -> None:
        plain_write(batch)
        written.set()
        assert goes_on.wait(PATIENCE_S)

    def copies(source: Path, target: Path) -> None:
        writer.start()
        assert written.wait(PATIENCE_S)
        copy_live(source, target)

    writer = threading.Thread(target=write, args=(store, 2))
    monkeypatch.setattr(store, "_applying", Told())
    monkeypatch.setattr(store, "_write", slow_write)
    monkeypatch.setattr(logged, "copy_live", copies)
    waited = []
    first.sees.at("upload", lambda: waited.append(goes_on.is_set()), goes_on.set)
    first.replicate()
    writer.join()
    assert waited == [True]
    assert lists_of(place.rows_elsewhere()) == [1, 2]


def test_replicas_that_are_made_while_others_write_and_flush_are_whole(place: Place) -> None:
    first = place.machine()
    store = first.open()
    flushed(store, 1)
    over = threading.Event()
    failed: list[BaseException] = []

    def flushes() -> None:
        try:
            while not over.is_set():
                store.flush()
        except BaseException as problem:
            failed.append(problem)

    def replicates() -> None:
        try:
            while not over.is_set():
                first.replicate()
                first.tidy()
        except BaseException as problem:
            failed.append(problem)

    threads = [threading.Thread(target=each) for each in (flushes, replicates)]
    for thread in threads:
        thread.start()
    rows = rows_of(store)
    number = 2
    while number < 300 or len(store.manifests) < 2:
        changes = change(rows, number, (number, number % 3), (number - 2,))
        store.write(changes)
        rows = applied(rows, changes)
        number += 1
        if number % 100 == 0:
            assert not failed
    over.set()
    for thread in threads:
        thread.join()
    assert not failed
    store.flush()
    assert rows_of(store) == rows
    assert place.rows_elsewhere() == rows


# Owners that do not know it yet.


def test_what_a_former_owner_writes_is_nowhere_once_its_successor_has_appended(place: Place) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1)
    flushed(second.open(), 2)
    write(first.store, 13)
    for _ in range(2):
        with pytest.raises(LogFence, match="another process"):
            first.store.flush()
    with pytest.raises(LogFence):
        first.replicate()
    write(first.store, 14)
    with pytest.raises(LogFence):
        first.store.flush()
    flushed(second.store, 3)
    assert lists_of(place.rows_elsewhere()) == [1, 2, 3]
    assert lists_of(rows_of(first.open())) == [1, 2, 3]


def test_a_former_owner_that_wakes_up_in_a_replica_makes_none(place: Place) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1)
    first.replicate()
    flushed(first.store, 2)

    def others() -> None:
        flushed(second.open(), 3)
        second.replicate()
        flushed(second.store, 4)
        second.replicate()
        second.tidy()

    first.sees.at("upload", others)
    with pytest.raises(LogFence):
        first.replicate()
    assert len(first.store.manifests) == 1
    assert lists_of(place.rows_elsewhere()) == [1, 2, 3, 4]


@pytest.mark.parametrize("method", ["found", "delete"])
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_a_former_owner_that_wakes_up_while_it_tidies_deletes_nothing_that_is_needed(
    place: Place, method: str, at: int, replicas: int
) -> None:
    """It stands still before it lists or deletes records, or files."""
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    for number in (2, 3, 4):
        first.replicate()
        flushed(first.store, number)
    expected = [1, 2, 3, 4]

    def others() -> None:
        second.open()
        for number in range(5, 5 + replicas):
            second.replicate()
            flushed(second.store, number)
            expected.append(number)
            second.tidy()

    first.sees.at(method, *[Fault.NONE] * at, others)
    first.tidy()
    assert not first.sees._next[method], "it never asked"
    first.clock.now_s += CHECK_S
    with pytest.raises(LogFence):
        first.store.flush()
    assert lists_of(place.rows_elsewhere()) == expected


def test_an_owner_that_is_fenced_while_it_restores_says_so_and_not_that_the_log_is_damaged(
    place: Place,
) -> None:
    """Its successor has deleted what it was about to read."""
    first, second, third = place.machine(), place.machine(), place.machine()
    flushed(first.open(), 1)
    first.replicate()
    first.die()

    def others() -> None:
        flushed(second.open(), 2)
        for number in (3, 4, 5):
            in_tables(second.store)
            second.replicate()
            flushed(second.store, number)
        second.tidy()

    def opens() -> None:
        log = ObjectLog(third.sees, "1", "cluster", "1.0", place.clock, waits=lambda rest_s: None)
        open_logged(third.data, log, Replicas(third.sees, "1"), "1.0", CACHE_BYTES, now_ms=1)

    third.sees.at("download", others)
    with pytest.raises(Fenced):
        opens()
    assert lists_of(place.rows_elsewhere()) == [1, 2, 3, 4, 5]


def test_a_start_that_cannot_replicate_what_it_has_ahead_lets_go_of_the_store(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    write(first.store, 2)
    first.die()

    def fails(self: Replicas, copy: Path, epoch: int) -> Sequence[File]:
        raise BucketFailed("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Replicas, "upload", fails)
        with pytest.raises(BucketFailed) as _caught:  # with its frames
            first.open()
    assert lists_of(rows_of(first.open())) == [1, 2]


# Flushes.


def is_current(store: LoggedStore) -> bool:
    return store.is_current  # mypy would take it that it stays the same


def test_a_flush_without_writes_looks_whether_the_log_is_still_ours_but_not_each_time(place: Place) -> None:
    first, second = place.machine(), place.machine()
    store = first.open()
    assert not is_current(store)
    store.flush()
    assert is_current(store)
    place.clock.now_s += CHECK_S
    assert not is_current(store)
    store.flush()
    assert is_current(store)
    second.open()
    store.flush()
    assert is_current(store), "it has looked a moment ago"
    place.clock.now_s += CHECK_S
    with pytest.raises(LogFence):
        store.flush()
    assert not is_current(store)


def test_an_owner_is_current_from_before_its_flush_began(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    place.clock.now_s += CHECK_S

    def takes_long() -> None:
        place.clock.now_s += CHECK_S

    write(first.store, 2)
    first.sees.at("create", takes_long)
    first.store.flush()
    assert not is_current(first.store)


def test_a_flush_that_waits_for_long_says_for_what(place: Place) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    assert first.store.waits_for == ""
    told = []

    def takes_long() -> None:
        told.append(first.store.waits_for)
        place.clock.now_s += SLOW_S
        told.append(first.store.waits_for)

    write(first.store, 2)
    first.sees.at("create", takes_long, Fault.REFUSED, lambda: told.append(first.store.waits_for))
    first.sees.at("get", Fault.REFUSED)
    first.store.flush()
    assert told[:2] == ["", f"the log has not answered for {SLOW_S:.0f} s"]
    assert first.store.waits_for == ""


@pytest.mark.parametrize("takes_effect", [False, True])
def test_after_a_flush_that_failed_nothing_is_appended_any_more(place: Place, takes_effect: bool) -> None:
    """Lists that it took would be missing, and those after them have their numbers."""
    first = place.machine()
    flushed(first.open(), 1)
    write(first.store, 2)
    first.rests = first.store.abandon
    first.sees.at("create", Fault.LOST if takes_effect else Fault.REFUSED)
    with pytest.raises(StoreFailed, match="given up"):
        first.store.flush()
    write(first.store, 3)
    for tried in (first.store.flush, first.replicate, first.store.tidy):
        with pytest.raises(StoreFailed, match="given up"):
            tried()
    assert lists_of(place.rows_elsewhere()) == [1, 2][: 1 + takes_effect]


def test_a_replica_of_which_the_end_is_not_known_is_kept(place: Place) -> None:
    """Its manifest is there, although its maker never heard so."""
    first = place.machine()
    flushed(first.open(), 1)
    for number in (2, 3):
        in_tables(first.store)
        first.replicate()
        flushed(first.store, number)
    in_tables(first.store)

    def given_up() -> None:
        first.rests = first.store.abandon
        first.sees.at("create", Fault.LOST)

    first.sees.at("upload", given_up)
    with pytest.raises(StoreFailed, match="given up"):
        first.replicate()
    with pytest.raises(StoreFailed, match="given up"):
        first.tidy()
    assert lists_of(place.rows_elsewhere()) == [1, 2, 3]


def test_a_replay_waits_for_a_store_that_stalls(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = place.machine(), place.machine()
    flushed(first.open(), 1, 2, 3)
    stalls = iter((True, False, True, True))
    plainly = RocksStore._write

    def stalled(self: RocksStore, batch: WriteBatch) -> None:
        if next(stalls, False):
            raise WriteStalled("stalled")
        plainly(self, batch)

    monkeypatch.setattr(RocksStore, "_write", stalled)
    monkeypatch.setattr(logged, "STALL_S", 0)
    assert lists_of(rows_of(second.open())) == [1, 2, 3]
    assert next(stalls, None) is None


def test_a_write_that_stalls_is_in_no_record_until_it_succeeds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place.machine()
    flushed(first.open(), 1)
    with monkeypatch.context() as patch:

        def stalls(batch: WriteBatch) -> None:
            raise WriteStalled("stalled")

        patch.setattr(first.store, "_write", stalls)
        with pytest.raises(WriteStalled):
            write(first.store, 2)
    flushed(first.store, 3)
    assert lists_of(place.rows_elsewhere()) == [1, 3]


def test_a_log_of_the_store_itself_is_begun_only_after_a_sync(place: Place) -> None:
    """Otherwise a power cut could leave the next one with a hole before it."""
    first = place.machine()
    store = first.open()
    flushed(store, 1)
    done: list[str] = []

    class Noted:
        """Notes what is called."""

        def __init__(self, called: object, name: str) -> None:
            self._called, self._name = called, name

        def __getattr__(self, name: str) -> object:
            if name in ("flush_wal", "flush"):
                done.append(f"{self._name} {name}")
            return getattr(self._called, name)

    plain, families = store._db, store._families
    store._db = Noted(plain, "store")  # type: ignore[assignment]
    store._families = {family: Noted(each, "family") for family, each in families.items()}  # type: ignore[misc]
    store.rotate_wal()
    store._db, store._families = plain, families
    assert done[0] == "store flush_wal" and done[1:] == ["family flush"] * len(families)


def test_a_mark_tells_how_far_a_store_has_come(place: Place) -> None:
    first = place.machine()
    store = first.open()
    assert mark_of(store) is None and store.is_empty
    flushed(store, 1)
    write(store, 2)
    assert mark_of(store) == (1, 2, 3) and not store.is_empty
