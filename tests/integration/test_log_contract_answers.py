"""Requests of a log's owner whose answers do not come: each record is there once, or its owner is told."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from frontier_harness import buckets
from frontier_harness.buckets import Fault, FaultyBucket
from frontier_harness.clocks import StillClock
from integration import log_owners
from integration.log_owners import CLUSTER, NAME, Owners, name_of, numbers, opened, payloads, truncated

from frontier_server.replicated.buckets import Bucket
from frontier_server.replicated.log import Fenced, GivenUp
from frontier_server.replicated.object_log import ObjectLog

bucket, s3, s3_server = buckets.bucket, buckets.s3, buckets.s3_server
clock, owner = log_owners.clock, log_owners.owner


@pytest.mark.parametrize(
    "faults", [[Fault.LOST], [Fault.REFUSED, Fault.LOST, Fault.REFUSED], [Fault.REPEATED]]
)
def test_a_record_whose_answer_is_lost_is_appended_once(
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
def test_an_opener_whose_fence_is_not_answered_for_owns_the_log(
    fault: Fault,
    bucket: Bucket,
    owner: Owners,
) -> None:
    sees = FaultyBucket(bucket)
    sees.at("create", fault)
    log = opened(owner(sees))
    assert (log.epoch, log.append(b"first")) == (1, 2)


def test_two_openers_never_own_the_same_fence(bucket: Bucket, owner: Owners) -> None:
    """Not even if the answers are lost, and each asks whether its own is there."""
    one, other = FaultyBucket(bucket), FaultyBucket(bucket)
    first, second = owner(one), owner(other)
    one.at("create", Fault.LOST, second.open)
    first.open()
    assert first.epoch > second.epoch == 2
    with pytest.raises(Fenced):
        second.append(b"")


def test_a_conflict_with_the_owners_earlier_request_does_not_fence_it(bucket: Bucket, owner: Owners) -> None:
    """S3 says so (409) while another request creates the same object, and nothing may come of that one."""
    sees = FaultyBucket(bucket)
    sees.at("create", Fault.CONFLICT)
    log = opened(owner(sees))
    sees.at("create", Fault.HELD, Fault.CONFLICT, Fault.CONFLICT)
    assert (log.epoch, log.append(b"first")) == (1, 2)
    sees.release()
    assert payloads(opened(owner())) == [b"first"]


def test_a_late_request_that_arrives_after_the_take_over_has_no_effect(bucket: Bucket, owner: Owners) -> None:
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


def test_a_late_request_that_arrives_before_the_take_over_is_read(bucket: Bucket, owner: Owners) -> None:
    """Nobody was told that it is there; it is no loss if it is."""
    sees = FaultyBucket(bucket)
    zombie: ObjectLog = owner(sees, waits=lambda rest_s: zombie.give_up())
    zombie.open()
    sees.at("create", Fault.HELD)
    with pytest.raises(GivenUp):
        zombie.append(b"late")
    sees.release()
    assert payloads(opened(owner())) == [b"late"]


def test_a_late_repetition_of_a_record_that_was_deleted_does_no_harm(
    bucket: Bucket, owner: Owners, clock: StillClock
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


def test_a_call_that_waits_ends_when_it_is_given_up(bucket: Bucket, clock: StillClock) -> None:
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


def test_a_log_that_was_given_up_refuses_all_calls(bucket: Bucket, owner: Owners) -> None:
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


def test_a_log_tells_since_when_it_waits_and_for_what(
    bucket: Bucket, owner: Owners, clock: StillClock
) -> None:
    sees = FaultyBucket(bucket)
    told: list[tuple[float | None, str]] = []

    def waits(rest_s: float) -> None:
        told.append((log.waits_since_s, log.problem))
        clock.now_s += rest_s

    log = opened(owner(sees, waits=waits))
    clock.now_s = 5.0
    sees.at("create", Fault.REFUSED, Fault.REFUSED)
    log.append(b"")
    assert told == [(5.0, f"{bucket.url}: create {name_of(2)}: refused")] * 2
    assert (log.waits_since_s, log.problem) == (None, "")
