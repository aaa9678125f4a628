"""Records that a log does not believe: damaged, missing, of a later format, or of another log."""

import pytest
from frontier_harness import buckets
from integration import log_owners
from integration.log_owners import NAME, Owners, name_of, numbers, opened, payloads

from frontier_server.replicated.buckets import Bucket
from frontier_server.replicated.log import Fenced, GivenUp, LaterFormat, LogDamaged, LogFailed, OtherCluster
from frontier_server.replicated.records import MAGIC

bucket, s3, s3_server = buckets.bucket, buckets.s3, buckets.s3_server
clock, owner = log_owners.clock, log_owners.owner


def test_a_log_of_another_cluster_is_refused_and_not_fenced(bucket: Bucket, owner: Owners) -> None:
    first = opened(owner())
    with pytest.raises(OtherCluster, match="is of cluster cluster-1, and this is cluster cluster-2"):
        owner(cluster="cluster-2").open()
    assert first.append(b"") == 2
    assert numbers(bucket) == [1, 2]


def test_another_log_in_the_place_of_this_one_is_refused(bucket: Bucket, owner: Owners) -> None:
    opened(owner(name="shard-2"))
    data = bucket.get("log/shard-2/0000000000000001")
    assert data is not None and bucket.create(name_of(1), data)
    with pytest.raises(OtherCluster, match="record 1 of log shard-1 is record 1 of log shard-2"):
        owner().open()


def test_a_record_in_the_place_of_another_one_is_refused(bucket: Bucket, owner: Owners) -> None:
    log = opened(owner())
    log.append(b"")
    data = bucket.get(name_of(2))
    assert data is not None and bucket.create(name_of(3), data)
    with pytest.raises(OtherCluster, match="record 2 of log shard-1"):
        owner().open()


def test_logs_of_one_bucket_have_records_of_their_own(owner: Owners) -> None:
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


def test_a_record_of_a_later_format_is_refused(bucket: Bucket, owner: Owners) -> None:
    opened(owner())
    data = bucket.get(name_of(1))
    assert data is not None
    bucket.put(name_of(1), MAGIC + b"\x02" + data[5:])
    with pytest.raises(LaterFormat, match="has format 2, and this version of Toehold reads 1 at most"):
        owner().open()


def test_a_record_with_a_damaged_byte_is_refused_wherever_it_is(bucket: Bucket, owner: Owners) -> None:
    log = opened(owner())
    log.append(b"changes")
    data = bucket.get(name_of(2))
    assert data is not None
    for at in range(0, len(data), 7):
        bucket.put(name_of(2), data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
        with pytest.raises((LogDamaged, LaterFormat), match="record 2 of log shard-1"):
            owner().open()
    for damaged in (b"", data[:-1], data + b"\0"):
        bucket.put(name_of(2), damaged)
        with pytest.raises(LogDamaged, match="record 2 of log shard-1 is damaged"):
            owner().open()
    bucket.put(name_of(2), data)
    assert payloads(opened(owner())) == [b"changes"]


def test_an_owner_that_needs_a_missing_record_says_which(bucket: Bucket, owner: Owners) -> None:
    log = opened(owner())
    log.append(b"2")
    log.append(b"3")
    bucket.delete([name_of(2)])
    with pytest.raises(LogDamaged, match=r"log/shard-1/0{15}2 is missing"):
        payloads(opened(owner()))


def test_every_failure_of_a_log_is_a_log_failure(bucket: Bucket, owner: Owners) -> None:
    for failure in (Fenced, LogDamaged, OtherCluster, LaterFormat, GivenUp):
        assert issubclass(failure, LogFailed)
