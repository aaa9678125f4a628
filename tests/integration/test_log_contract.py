"""What every log promises, whatever keeps it: its owner's records are there, in order, and nobody else's."""

import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from frontier_harness import buckets
from frontier_harness.buckets import Fault, FaultyBucket, MemoryBucket, random_faults

from frontier_server.replicated.buckets import Bucket
from frontier_server.replicated.log import (
    Fenced,
    GivenUp,
    Kind,
    LaterFormat,
    Log,
    LogDamaged,
    LogFailed,
    OtherCluster,
)
from frontier_server.replicated.object_log import LIST_LAG_S, ObjectLog
from frontier_server.replicated.records import MAGIC

bucket, s3, s3_server = buckets.bucket, buckets.s3, buckets.s3_server

CLUSTER, NAME = "cluster-1", "shard-1"


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def owner(bucket: Bucket, clock: Clock) -> Callable[..., ObjectLog]:
    """Makes owners of one log, which share its bucket."""
    return lambda sees=None, **others: owner_of(sees or bucket, clock, **others)


def owner_of(
    sees: Bucket,
    clock: Clock,
    name: str = NAME,
    cluster: str = CLUSTER,
    waits: Callable[[float], None] = lambda rest_s: None,
) -> ObjectLog:
    return ObjectLog(sees, name, cluster, "1.0", clock, waits)


Owners = Callable[..., ObjectLog]


def opened(log: ObjectLog) -> ObjectLog:
    log.open()
    return log


def payloads(log: Log, start: int = 1) -> list[bytes]:
    """The changes that an owner finds."""
    return [record.payload for record in log.read(start) if record.kind is Kind.CHANGES]


def place(number: int) -> str:
    return f"log/{NAME}/{number:016d}"


def numbers(sees: Bucket) -> list[int]:
    return [int(found.name[-16:]) for found in sees.found(f"log/{NAME}/")]


def truncated(log: ObjectLog, clock: Clock) -> int:
    """A checkpoint, and all before it deleted; its number."""
    number = log.set_checkpoint(b"copy")
    clock.now_s += LIST_LAG_S
    log.truncate(number)
    return number


# Who owns the log.


def test_an_owner_reads_what_all_before_it_have_appended_in_order(owner: Owners) -> None:
    first = opened(owner())
    assert list(first.read(1)) == [] and first.checkpoint() is None
    for number in range(2, 72):
        assert first.append(b"%d" % number) == number
    second = opened(owner())
    assert (first.epoch, second.epoch) == (1, 72)
    assert second.append(b"73") == 73
    third = opened(owner())
    found = list(third.read(1))
    assert [record.number for record in found] == list(range(1, 74))
    assert [record.number for record in found if record.kind is Kind.FENCE] == [1, 72]
    assert [record.payload for record in found if record.kind is Kind.CHANGES] == [
        b"%d" % number for number in range(2, 74) if number != 72
    ]
    assert {record.epoch for record in found} == {1, 72}
    assert payloads(third, 71) == [b"71", b"73"]


def test_an_owner_that_wakes_up_after_a_take_over_appends_nothing(owner: Owners) -> None:
    zombie = opened(owner())
    zombie.append(b"before")
    successor = opened(owner())
    for _ in range(2):
        with pytest.raises(Fenced, match=r"another process owns log/shard-1/"):
            zombie.append(b"after")
    with pytest.raises(Fenced):
        zombie.set_checkpoint(b"after")
    with pytest.raises(Fenced):
        zombie.check()
    successor.append(b"own")
    assert payloads(opened(owner())) == [b"before", b"own"]


def test_nothing_is_appended_before_a_log_is_opened_and_it_is_opened_once(owner: Owners) -> None:
    log = owner()
    with pytest.raises(Fenced, match="must be opened"):
        log.append(b"early")
    assert log.open() == 1
    with pytest.raises(Fenced, match="once"):
        log.open()
    assert log.append(b"first") == 2


def test_what_is_appended_until_an_opener_makes_its_fence_is_read_by_it(
    bucket: Bucket, owner: Owners
) -> None:
    first, sees = opened(owner()), FaultyBucket(bucket)
    sees.at("create", lambda: first.append(b"meanwhile"))
    second = opened(owner(sees))
    assert payloads(second) == [b"meanwhile"]
    with pytest.raises(Fenced):
        first.append(b"late")


def test_an_opener_that_stands_still_behind_its_fence_gives_way_to_a_later_one(
    bucket: Bucket, owner: Owners
) -> None:
    """It then takes the log over in turn, as if it had begun only now."""
    opened(owner()).append(b"1")
    sees, between = FaultyBucket(bucket), owner()

    def others() -> None:
        between.open()
        between.append(b"2")

    sees.at("found", Fault.NONE, others)
    last = opened(owner(sees))
    assert last.epoch > between.epoch
    assert payloads(last) == [b"1", b"2"]
    with pytest.raises(Fenced):
        between.append(b"3")


def test_one_of_several_racing_openers_owns_the_log(bucket: Bucket, owner: Owners) -> None:
    opened(owner()).append(b"old")
    racers = [owner() for _ in range(4)]
    ready = threading.Barrier(len(racers))

    def race(log: ObjectLog) -> tuple[int, bool]:
        ready.wait()
        log.open()
        ready.wait()
        try:
            log.append(b"new")
        except Fenced:
            return log.epoch, False
        return log.epoch, True

    with ThreadPoolExecutor(len(racers)) as threads:
        results = sorted(threads.map(race, racers))
    assert [owns for _, owns in results] == [False] * 3 + [True]
    assert len({epoch for epoch, _ in results}) == 4
    assert payloads(opened(owner())) == [b"old", b"new"]


def test_owners_that_race_while_they_append_lose_nothing(owner: Owners) -> None:
    """Each opens the log, appends until it is fenced, and begins anew."""
    acknowledged: list[bytes] = []

    def live(name: bytes) -> None:
        for life in range(3):
            log = opened(owner())
            for turn in range(4):
                payload = b"%s %d %d" % (name, life, turn)
                try:
                    log.append(payload)
                except Fenced:
                    break
                acknowledged.append(payload)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(live, (b"a", b"b", b"c")))
    found = payloads(opened(owner()))
    assert sorted(found) == sorted(acknowledged)
    for name in (b"a", b"b", b"c"):
        own = [payload for payload in acknowledged if payload.startswith(name)]
        assert [payload for payload in found if payload.startswith(name)] == own


def test_an_owner_that_appends_nothing_notices_a_take_over_when_it_looks(owner: Owners) -> None:
    first = owner()
    with pytest.raises(Fenced):
        first.check()
    first.open()
    first.append(b"")
    first.check()
    second = opened(owner())
    second.check()
    with pytest.raises(Fenced, match=r"record 3 is not ours"):
        first.check()
    second.append(b"")
    second.check()


# Answers that do not come.


@pytest.mark.parametrize(
    "faults", [[Fault.LOST], [Fault.REFUSED, Fault.LOST, Fault.REFUSED], [Fault.REPEATED]]
)
def test_an_answer_that_is_lost_is_no_second_record(
    faults: list[Fault],
    bucket: Bucket,
    owner: Owners,
) -> None:
    sees = FaultyBucket(bucket)
    log = opened(owner(sees))
    sees.at("create", *faults)
    assert log.append(b"once") == 2
    sees.at("create", *faults)
    assert log.append(b"once") == 3, "equal changes are two records if they are appended twice"
    assert payloads(opened(owner())) == [b"once", b"once"]


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REPEATED, Fault.REFUSED])
def test_a_fence_whose_answer_is_lost_is_that_of_its_opener(
    fault: Fault,
    bucket: Bucket,
    owner: Owners,
) -> None:
    sees = FaultyBucket(bucket)
    sees.at("create", fault)
    log = opened(owner(sees))
    assert (log.epoch, log.append(b"first")) == (1, 2)


def test_two_openers_never_take_one_fence_for_theirs(bucket: Bucket, owner: Owners) -> None:
    """Not even if the answers are lost, and each asks whether its own is there."""
    one, other = FaultyBucket(bucket), FaultyBucket(bucket)
    first, second = owner(one), owner(other)
    one.at("create", Fault.LOST, second.open)
    first.open()
    assert first.epoch > second.epoch == 2
    with pytest.raises(Fenced):
        second.append(b"")


def test_a_conflict_with_ones_own_earlier_request_is_no_fence(bucket: Bucket, owner: Owners) -> None:
    """S3 says so (409) while another request creates the same object, and nothing may come of that one."""
    sees = FaultyBucket(bucket)
    sees.at("create", Fault.CONFLICT)
    log = opened(owner(sees))
    sees.at("create", Fault.HELD, Fault.CONFLICT, Fault.CONFLICT)
    assert (log.epoch, log.append(b"first")) == (1, 2)
    sees.release()
    assert payloads(opened(owner())) == [b"first"]


def test_a_request_that_arrives_after_the_take_over_has_no_effect(bucket: Bucket, owner: Owners) -> None:
    sees = FaultyBucket(bucket)
    zombie: ObjectLog = owner(sees, waits=lambda rest_s: zombie.give_up())
    zombie.open()
    sees.at("create", Fault.HELD)
    with pytest.raises(GivenUp):
        zombie.append(b"late")
    successor = opened(owner())
    sees.release()
    successor.append(b"own")
    assert payloads(opened(owner())) == [b"own"]


def test_a_request_that_arrives_before_the_take_over_is_read(bucket: Bucket, owner: Owners) -> None:
    """Nobody was told that it is there; it is no loss if it is."""
    sees = FaultyBucket(bucket)
    zombie: ObjectLog = owner(sees, waits=lambda rest_s: zombie.give_up())
    zombie.open()
    sees.at("create", Fault.HELD)
    with pytest.raises(GivenUp):
        zombie.append(b"late")
    sees.release()
    assert payloads(opened(owner())) == [b"late"]


def test_a_late_repetition_in_a_place_that_was_deleted_does_no_harm(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    sees = FaultyBucket(bucket)
    log = opened(owner(sees))
    sees.at("create", Fault.HELD)
    log.append(b"2")
    truncated(log, clock)
    assert numbers(bucket) == [1, 3]
    sees.release()
    assert numbers(bucket) == [1, 2, 3]
    log.append(b"4")
    successor = opened(owner())
    assert (successor.epoch, payloads(successor, 3)) == (5, [b"4"])
    truncated(successor, clock)
    assert numbers(bucket) == [1, 5, 6]


def test_a_call_that_waits_ends_when_it_is_given_up(bucket: Bucket, clock: Clock) -> None:
    """From another thread, with the log's own way to wait."""
    sees, asked = FaultyBucket(bucket), threading.Event()
    log = ObjectLog(sees, NAME, CLUSTER, "1.0", clock)
    log.open()

    def chance(method: str) -> Fault:
        asked.set()
        return Fault.REFUSED

    sees.chance = chance
    with ThreadPoolExecutor(1) as threads:
        appending = threads.submit(log.append, b"never")
        assert asked.wait(60)
        log.give_up()
        with pytest.raises(GivenUp, match=r"create log/shard-1/0{15}2: refused"):
            appending.result()
    assert log.waits_since_s is not None and "refused" in log.problem


def test_all_calls_are_given_up_after_that(bucket: Bucket, owner: Owners) -> None:
    """Also while the storage answers: the number of a record that was given up is not used again."""
    opened(owner())
    log, unopened = opened(owner()), owner()
    log.give_up()
    unopened.give_up()
    requests: list[Callable[[], object]] = [
        lambda: log.append(b""),
        lambda: log.set_checkpoint(b""),
        lambda: list(log.read(1)),
        log.check,
        unopened.open,
    ]
    for request in requests:
        with pytest.raises(GivenUp):
            request()
    assert numbers(bucket) == [1, 2]


def test_a_log_tells_since_when_it_waits_and_for_what(bucket: Bucket, owner: Owners, clock: Clock) -> None:
    sees = FaultyBucket(bucket)
    told: list[tuple[float | None, str]] = []

    def waits(rest_s: float) -> None:
        told.append((log.waits_since_s, log.problem))
        clock.now_s += rest_s

    log = opened(owner(sees, waits=waits))
    clock.now_s = 5.0
    sees.at("create", Fault.REFUSED, Fault.REFUSED)
    log.append(b"")
    assert told == [(5.0, f"{bucket.url}: create {place(2)}: refused")] * 2
    assert (log.waits_since_s, log.problem) == (None, "")


# Checkpoints, and what is deleted.


def test_the_next_owner_finds_the_last_checkpoint(owner: Owners) -> None:
    first = opened(owner())
    first.append(b"2")
    assert first.set_checkpoint(b"copy of 2") == 3
    first.append(b"4")
    for log in (first, opened(owner()), opened(owner())):
        manifest = log.checkpoint()
        assert manifest is not None
        assert (manifest.number, manifest.kind, manifest.payload) == (3, Kind.MANIFEST, b"copy of 2")
    second = opened(owner())
    second.set_checkpoint(b"another")
    third = opened(owner())
    manifest = third.checkpoint()
    assert manifest is not None and manifest.payload == b"another"
    assert payloads(third, manifest.number) == []


def test_truncation_keeps_fences_and_all_from_a_number_on(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    for _ in range(2):
        log = opened(owner())
        log.append(b"")
        log.append(b"")
    log = opened(owner())
    log.append(b"")
    manifest = log.set_checkpoint(b"copy")
    log.append(b"last")
    clock.now_s += LIST_LAG_S
    log.truncate(6)
    assert numbers(bucket) == [1, 4, 6, 7, 8, manifest, 10]
    log.truncate(manifest)
    assert numbers(bucket) == [1, 4, 7, manifest, 10]
    assert payloads(opened(owner()), manifest) == [b"last"]


def test_truncation_waits_until_every_list_shows_the_checkpoint(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    log = opened(owner())
    log.append(b"2")
    log.truncate(3)
    assert numbers(bucket) == [1, 2], "there is no checkpoint at all"
    log.set_checkpoint(b"copy of 2")
    clock.now_s += LIST_LAG_S - 1
    log.append(b"4")
    log.set_checkpoint(b"copy of 4")
    log.truncate(3)
    assert numbers(bucket) == [1, 2, 3, 4, 5]
    clock.now_s += 1
    log.truncate(5)
    assert numbers(bucket) == [1, 2, 3, 4, 5], "the second may not be shown yet"
    log.truncate(3)
    assert numbers(bucket) == [1, 3, 4, 5]


def test_an_owner_deletes_nothing_for_the_checkpoints_of_others(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    """It does not know when they were written."""
    first = opened(owner())
    first.append(b"2")
    first.set_checkpoint(b"copy")
    second = opened(owner())
    clock.now_s += LIST_LAG_S
    second.truncate(3)
    assert numbers(bucket) == [1, 2, 3, 4]


def test_an_opener_that_stood_still_before_its_fence_owns_nothing_that_lies_behind(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    """Its place was taken, and is free again: the owner has gone on, made a checkpoint, and truncated."""
    first, sees = opened(owner()), FaultyBucket(bucket)

    def go_on() -> None:
        first.append(b"2")
        first.append(b"3")
        truncated(first, clock)
        first.append(b"5")
        assert numbers(bucket) == [1, 4, 5]

    sees.at("create", go_on)
    second = opened(owner(sees))
    manifest = second.checkpoint()
    assert manifest is not None and (manifest.number, second.epoch) == (4, 6)
    assert payloads(second, 4) == [b"5"]
    with pytest.raises(Fenced):
        first.append(b"6")
    second.append(b"7")
    truncated(second, clock)
    assert payloads(opened(owner()), 8) == []
    assert {1, 6, 8, 9} <= set(numbers(bucket)), "fences stay"


def test_an_opener_that_stood_still_after_its_list_looks_again(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    """The newest record that it knows of is deleted."""
    first, sees = opened(owner()), FaultyBucket(bucket)
    first.append(b"2")

    def go_on() -> None:
        first.append(b"3")
        truncated(first, clock)

    sees.at("get", go_on)
    second = opened(owner(sees))
    assert second.epoch == 5
    assert second.checkpoint() is not None


def test_an_owner_that_was_deleted_behind_a_fence_is_still_stopped_by_it(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    zombie = opened(owner())
    zombie.append(b"2")
    successor = opened(owner())
    successor.append(b"4")
    truncated(successor, clock)
    truncated(successor, clock)
    assert numbers(bucket) == [1, 3, 6]
    with pytest.raises(Fenced):
        zombie.append(b"3")


def test_an_append_whose_first_request_was_read_and_deleted_is_acknowledged_once(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    """Its successor has it in its copy; the zombie may be told so, and gets no further."""
    sees = FaultyBucket(bucket)
    zombie, successor = opened(owner(sees)), owner()

    def take_over() -> None:
        successor.open()
        assert payloads(successor) == [b"2"]
        truncated(successor, clock)
        assert numbers(bucket) == [1, 3, 4]

    sees.at("create", Fault.LOST, take_over)
    assert zombie.append(b"2") == 2
    with pytest.raises(Fenced):
        zombie.append(b"3")
    assert payloads(opened(owner()), 4) == []


def test_two_owners_that_truncate_at_the_same_time_do_not_disturb_each_other(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    """One of them is a zombie; what it deletes is covered by the other's checkpoint too."""
    zombie = opened(owner())
    for _ in range(3):
        zombie.append(b"")
    covered = zombie.set_checkpoint(b"copy")
    sees = FaultyBucket(bucket)
    successor = opened(owner(sees))
    last = successor.set_checkpoint(b"copy")
    clock.now_s += LIST_LAG_S
    sees.at("get", lambda: zombie.truncate(covered))
    successor.truncate(covered)
    assert numbers(bucket) == [1, covered, 6, last]


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REFUSED, Fault.HELD, Fault.REPEATED])
def test_a_deletion_may_be_repeated(
    fault: Fault,
    bucket: Bucket,
    owner: Owners,
    clock: Clock,
) -> None:
    sees = FaultyBucket(bucket)
    log = opened(owner(sees))
    log.append(b"")
    sees.at("delete", fault)
    manifest = truncated(log, clock)
    sees.release()
    assert numbers(bucket) == [1, manifest]


def test_a_reader_that_misses_what_its_successor_deleted_is_fenced(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    """It has opened the log and stood still; nothing is damaged."""
    first = opened(owner())
    first.append(b"2")
    covered = first.set_checkpoint(b"copy")
    first.append(b"4")
    slow, successor = opened(owner()), opened(owner())
    successor.set_checkpoint(b"copy")
    truncated(successor, clock)
    with pytest.raises(Fenced):
        list(slow.read(covered))
    with pytest.raises(Fenced):
        slow.checkpoint()


def test_a_reader_that_finds_a_late_fence_in_a_deleted_place_is_fenced(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    """It would take the fence for all that there was; the search through all interleavings has found this."""
    first, sees = opened(owner()), FaultyBucket(bucket)
    sees.at("create", Fault.HELD, lambda: first.append(b"2"))
    slow, successor = opened(owner(sees)), opened(owner())
    assert (slow.epoch, payloads(successor)) == (3, [b"2"])
    truncated(successor, clock)
    sees.release()
    assert numbers(bucket) == [1, 2, 3, 4, 5]
    with pytest.raises(Fenced):
        list(slow.read(1))


def test_a_late_fence_in_the_place_of_a_checkpoint_is_not_taken_for_it(
    bucket: Bucket, owner: Owners, clock: Clock
) -> None:
    first, sees = opened(owner()), FaultyBucket(bucket)
    sees.at("create", Fault.HELD, lambda: first.set_checkpoint(b"copy"))
    slow, successor = opened(owner(sees)), opened(owner())
    truncated(successor, clock)
    sees.release()
    with pytest.raises(Fenced):
        slow.checkpoint()


# What is not believed.


def test_a_log_of_another_cluster_is_refused_and_not_fenced(bucket: Bucket, owner: Owners) -> None:
    first = opened(owner())
    with pytest.raises(OtherCluster, match="is of cluster cluster-1, and this is cluster cluster-2"):
        owner(cluster="cluster-2").open()
    assert first.append(b"") == 2
    assert numbers(bucket) == [1, 2]


def test_another_log_in_the_place_of_this_one_is_refused(bucket: Bucket, owner: Owners) -> None:
    opened(owner(name="shard-2"))
    data = bucket.get("log/shard-2/0000000000000001")
    assert data is not None and bucket.create(place(1), data)
    with pytest.raises(OtherCluster, match="record 1 of log shard-1 is record 1 of log shard-2"):
        owner().open()


def test_a_record_in_the_place_of_another_one_is_refused(bucket: Bucket, owner: Owners) -> None:
    log = opened(owner())
    log.append(b"")
    data = bucket.get(place(2))
    assert data is not None and bucket.create(place(3), data)
    with pytest.raises(OtherCluster, match="record 2 of log shard-1"):
        owner().open()


def test_logs_of_one_bucket_do_not_meet(owner: Owners) -> None:
    """Nor do those whose names begin alike."""
    one, other, below = (opened(owner(name=name)) for name in ("shard-1", "shard-10", "shard-1/parts"))
    for log in (one, other, below):
        assert (log.epoch, log.append(b"own")) == (1, 2)
    for name in ("shard-1", "shard-10", "shard-1/parts"):
        log = opened(owner(name=name))
        assert (log.epoch, payloads(log)) == (3, [b"own"])


def test_objects_of_others_in_its_folder_are_no_records(bucket: Bucket, owner: Owners) -> None:
    for name in ("README.txt", "0000000000000007.bak", "8"):
        bucket.put(f"log/{NAME}/{name}", b"")
    assert opened(owner()).epoch == 1
    assert opened(owner()).epoch == 2


def test_a_later_format_is_refused_by_the_version_that_cannot_read_it(bucket: Bucket, owner: Owners) -> None:
    opened(owner())
    data = bucket.get(place(1))
    assert data is not None
    bucket.put(place(1), MAGIC + b"\x02" + data[5:])
    with pytest.raises(LaterFormat, match="has format 2, and this version of Toehold reads 1 at most"):
        owner().open()


def test_a_damaged_byte_is_refused_wherever_it_is(bucket: Bucket, owner: Owners) -> None:
    log = opened(owner())
    log.append(b"changes")
    data = bucket.get(place(2))
    assert data is not None
    for at in range(0, len(data), 7):
        bucket.put(place(2), data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
        with pytest.raises((LogDamaged, LaterFormat), match="record 2 of log shard-1"):
            owner().open()
    for damaged in (b"", data[:-1], data + b"\0"):
        bucket.put(place(2), damaged)
        with pytest.raises(LogDamaged, match="record 2 of log shard-1 is damaged"):
            owner().open()
    bucket.put(place(2), data)
    assert payloads(opened(owner())) == [b"changes"]


def test_a_missing_record_is_told_by_whoever_needs_it(bucket: Bucket, owner: Owners) -> None:
    log = opened(owner())
    log.append(b"2")
    log.append(b"3")
    bucket.delete([place(2)])
    with pytest.raises(LogDamaged, match=r"log/shard-1/0{15}2 is missing"):
        payloads(opened(owner()))


def test_every_failure_of_a_log_is_told_as_one(bucket: Bucket, owner: Owners) -> None:
    for failure in (Fenced, LogDamaged, OtherCluster, LaterFormat, GivenUp):
        assert issubclass(failure, LogFailed)


# What only a store in memory can be told to do.


@pytest.fixture
def memory(clock: Clock) -> MemoryBucket:
    return MemoryBucket(clock)


def test_a_full_store_acknowledges_nothing_and_goes_on_when_there_is_room(
    memory: MemoryBucket, clock: Clock
) -> None:
    waited: list[float] = []

    def waits(rest_s: float) -> None:
        waited.append(rest_s)
        assert len(memory.objects) == len(written)
        memory.is_full = len(waited) < 20

    written: list[int] = []
    log = owner_of(memory, clock, waits=waits)
    written.append(log.open())
    memory.is_full = True
    written.append(log.append(b"2"))
    assert waited[:3] == [0.05, 0.1, 0.2] and waited[-1] == 2.0
    assert payloads(opened(owner_of(memory, clock))) == [b"2"]


def test_lists_that_lag_do_not_hide_an_owner_from_the_next_one(memory: MemoryBucket, clock: Clock) -> None:
    memory.lag_s = LIST_LAG_S
    first = opened(owner_of(memory, clock))
    for number in range(2, 6):
        first.append(b"%d" % number)
    second = opened(owner_of(memory, clock))
    assert payloads(second) == [b"2", b"3", b"4", b"5"]
    with pytest.raises(Fenced):
        first.append(b"6")


def test_lists_that_lag_do_not_let_a_fence_lie_behind(memory: MemoryBucket, clock: Clock) -> None:
    """They show the checkpoint, which was written long before anything was deleted."""
    memory.lag_s = LIST_LAG_S
    first, sees = opened(owner_of(memory, clock)), FaultyBucket(memory)
    clock.now_s += LIST_LAG_S

    def go_on() -> None:
        first.append(b"2")
        truncated(first, clock)
        first.append(b"4")
        assert 2 not in [int(name[-16:]) for name in memory.objects]

    sees.at("create", go_on)
    second = opened(owner_of(sees, clock))
    assert (second.epoch, payloads(second, 3)) == (5, [b"4"])


def test_lists_that_still_show_what_was_deleted_do_not_disturb_the_owner(
    memory: MemoryBucket, clock: Clock
) -> None:
    log = opened(owner_of(memory, clock))
    log.append(b"2")
    log.append(b"3")
    manifest = truncated(log, clock)
    clock.now_s += 1
    memory.lag_s = 2.0
    assert len(numbers(memory)) == 4
    log.truncate(manifest)
    assert len(memory.objects) == 2
    assert opened(owner_of(memory, clock)).epoch == 5


def test_readers_that_wait_at_the_same_time_do_not_disturb_one_another(
    memory: MemoryBucket, clock: Clock
) -> None:
    """Each says when it is answered; another one may just have said so."""
    first = opened(owner_of(memory, clock))
    for number in range(2, 500):
        first.append(b"%d" % number)

    def clock_s() -> float:
        os.sched_yield()
        return 0.0

    sees = FaultyBucket(memory)
    log = ObjectLog(sees, NAME, CLUSTER, "1.0", clock_s, lambda rest_s: None)
    log.open()
    sees.chance = random_faults(random.Random(1), 0.5)
    assert payloads(log) == [b"%d" % number for number in range(2, 500)]
