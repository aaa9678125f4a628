"""Owners of one log in a bucket, for the tests of what every log promises, whatever keeps it."""

from collections.abc import Callable

import pytest
from frontier_harness.clocks import StillClock

from frontier_server.replicated.buckets import Bucket
from frontier_server.replicated.log import Kind, Log
from frontier_server.replicated.object_log import LIST_LAG_S, ObjectLog

CLUSTER, NAME = "cluster-1", "shard-1"
Owners = Callable[..., ObjectLog]


@pytest.fixture
def clock() -> StillClock:
    """The clock of all owners."""
    return StillClock()


@pytest.fixture
def owner(bucket: Bucket, clock: StillClock) -> Owners:
    """Makes owners of one log, which share its bucket; `sees` is what one of them has instead."""
    return lambda sees=None, **others: owner_of(sees or bucket, clock, **others)


def owner_of(
    sees: Bucket,
    clock: StillClock,
    name: str = NAME,
    cluster: str = CLUSTER,
    waits: Callable[[float], None] = lambda rest_s: None,
) -> ObjectLog:
    """An owner of a log, which has not opened it. It does not rest between two tries."""
    return ObjectLog(sees, name, cluster, "1.0", clock, waits)


def opened(log: ObjectLog) -> ObjectLog:
    """The owner, once it has opened the log."""
    log.open()
    return log


def payloads(log: Log, start: int = 1) -> list[bytes]:
    """The changes that an owner finds, from a record on."""
    return [record.payload for record in log.read(start) if record.kind is Kind.CHANGES]


def name_of(number: int) -> str:
    """The name of a record's object."""
    return f"log/{NAME}/{number:016d}"


def numbers(sees: Bucket) -> list[int]:
    """The numbers of the records that are there."""
    return [int(found.name[-16:]) for found in sees.found(f"log/{NAME}/")]


def truncated(log: ObjectLog, clock: StillClock) -> int:
    """Let an owner make a checkpoint, and delete all before it; its number."""
    number = log.set_checkpoint(b"copy")
    clock.now_s += LIST_LAG_S
    log.truncate(number)
    return number
