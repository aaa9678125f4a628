"""Checkpoints of a log, and records that are deleted: nobody misses one, or takes a late one for it."""

import pytest
from frontier_harness import buckets
from frontier_harness.buckets import Fault, FaultyBucket
from frontier_harness.clocks import StillClock
from integration import log_owners
from integration.log_owners import Owners, numbers, opened, payloads, truncated

from frontier_server.replicated.buckets import Bucket
from frontier_server.replicated.log import Fenced, Kind
from frontier_server.replicated.object_log import LIST_LAG_S

bucket, s3, s3_server = buckets.bucket, buckets.s3, buckets.s3_server
clock, owner = log_owners.clock, log_owners.owner


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
    bucket: Bucket, owner: Owners, clock: StillClock
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
    bucket: Bucket, owner: Owners, clock: StillClock
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
    bucket: Bucket, owner: Owners, clock: StillClock
) -> None:
    """It does not know when they were written."""
    first = opened(owner())
    first.append(b"2")
    first.set_checkpoint(b"copy")
    second = opened(owner())
    clock.now_s += LIST_LAG_S
    second.truncate(3)
    assert numbers(bucket) == [1, 2, 3, 4]


def test_an_opener_whose_fence_lies_behind_the_checkpoint_makes_another(
    bucket: Bucket, owner: Owners, clock: StillClock
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
    bucket: Bucket, owner: Owners, clock: StillClock
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


def test_a_former_owner_whose_records_were_deleted_is_still_fenced(
    bucket: Bucket, owner: Owners, clock: StillClock
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
    bucket: Bucket, owner: Owners, clock: StillClock
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
    bucket: Bucket, owner: Owners, clock: StillClock
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
def test_a_deletion_that_fails_is_repeated(
    fault: Fault,
    bucket: Bucket,
    owner: Owners,
    clock: StillClock,
) -> None:
    sees = FaultyBucket(bucket)
    log = opened(owner(sees))
    log.append(b"")
    sees.at("delete", fault)
    manifest = truncated(log, clock)
    sees.release()
    assert numbers(bucket) == [1, manifest]


def test_a_reader_that_misses_records_that_its_successor_deleted_is_fenced(
    bucket: Bucket, owner: Owners, clock: StillClock
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
    bucket: Bucket, owner: Owners, clock: StillClock
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
    bucket: Bucket, owner: Owners, clock: StillClock
) -> None:
    first, sees = opened(owner()), FaultyBucket(bucket)
    sees.at("create", Fault.HELD, lambda: first.set_checkpoint(b"copy"))
    slow, successor = opened(owner(sees)), opened(owner())
    truncated(successor, clock)
    sees.release()
    with pytest.raises(Fenced):
        slow.checkpoint()
