"""Who owns a log: the last one to open it, who reads in order what all before it have appended."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from frontier_harness import buckets
from frontier_harness.buckets import Fault, FaultyBucket
from integration import log_owners
from integration.log_owners import Owners, opened, payloads

from frontier_server.replicated.buckets import Bucket
from frontier_server.replicated.log import Fenced, Kind
from frontier_server.replicated.object_log import ObjectLog

bucket, s3, s3_server = buckets.bucket, buckets.s3, buckets.s3_server
clock, owner = log_owners.clock, log_owners.owner


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


def test_a_log_is_opened_once_before_anything_is_appended(owner: Owners) -> None:
    log = owner()
    with pytest.raises(Fenced, match="must be opened"):
        log.append(b"early")
    assert log.open() == 1
    with pytest.raises(Fenced, match="once"):
        log.open()
    assert log.append(b"first") == 2


def test_an_opener_reads_what_is_appended_before_its_fence(bucket: Bucket, owner: Owners) -> None:
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


def test_owners_that_append_while_others_open_the_log_lose_nothing(owner: Owners) -> None:
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
