"""A log in a storage that is full for a while, fails often, or has lists that lag."""

import os
import random

import pytest
from frontier_harness.buckets import FaultyBucket, MemoryBucket, random_faults
from frontier_harness.clocks import StillClock
from integration import log_owners
from integration.log_owners import CLUSTER, NAME, numbers, opened, owner_of, payloads, truncated

from frontier_server.replicated.log import Fenced
from frontier_server.replicated.object_log import LIST_LAG_S, ObjectLog

clock = log_owners.clock


@pytest.fixture
def memory(clock: StillClock) -> MemoryBucket:
    return MemoryBucket(clock)


def test_a_full_store_acknowledges_nothing_and_goes_on_when_there_is_room(
    memory: MemoryBucket, clock: StillClock
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


def test_lists_that_lag_do_not_hide_an_owner_from_the_next_one(
    memory: MemoryBucket, clock: StillClock
) -> None:
    memory.lag_s = LIST_LAG_S
    first = opened(owner_of(memory, clock))
    for number in range(2, 6):
        first.append(b"%d" % number)
    second = opened(owner_of(memory, clock))
    assert payloads(second) == [b"2", b"3", b"4", b"5"]
    with pytest.raises(Fenced):
        first.append(b"6")


def test_lists_that_lag_let_no_fence_lie_behind_the_checkpoint(
    memory: MemoryBucket, clock: StillClock
) -> None:
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
    memory: MemoryBucket, clock: StillClock
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
    memory: MemoryBucket, clock: StillClock
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
