"""Generations of a cluster, each in a folder of its own of the bucket."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from frontier_harness import buckets
from frontier_harness.buckets import Fault, FaultyBucket

from frontier_server.cluster.identity import (
    Cluster,
    ClusterUnusable,
    Superseded,
    begin_generation,
    check_current,
    identified,
    new_folder,
    seal,
)
from frontier_server.cluster.members import Card, Members, NameTaken
from frontier_server.config import ServerFile, usable
from frontier_server.program.inner import trust_of
from frontier_server.program.shard_map import MapUnusable, ShardMap, cluster_map, read_map
from frontier_server.replicated.buckets import Bucket, BucketFailed
from frontier_server.replicated.folders import below

bucket, s3, s3_server = buckets.bucket, buckets.s3, buckets.s3_server

VERSION = "1.0"


def begun(bucket: Bucket, cluster: Cluster) -> Cluster:
    seal(bucket, cluster, VERSION)
    return begin_generation(bucket, cluster, new_folder(cluster), VERSION)


def test_a_folder_is_a_bucket_of_its_own(bucket: Bucket, tmp_path: Path) -> None:
    assert below(bucket, "") is bucket
    one, other = below(bucket, "g2-aa"), below(bucket, "g2-aab")
    assert one.create("log/a/1", b"x") and not one.create("log/a/1", b"y")
    one.put("log/a/2", b"2")
    other.put("log/a/3", b"3")
    bucket.put("log/a/4", b"4")
    file = tmp_path / "file"
    file.write_bytes(b"of a file")
    one.upload("files/a/1", file)
    assert [found.name for found in one.found("log/a/")] == ["log/a/1", "log/a/2"]
    assert [found.name for found in one.found("log/a/", "log/a/1")] == ["log/a/2"]
    assert [found.name for found in one.found("")] == ["files/a/1", "log/a/1", "log/a/2"]
    assert one.get("log/a/3") is None and one.get("log/a/1") == b"x" == bucket.get("g2-aa/log/a/1")
    assert one.download("files/a/1", tmp_path / "copy") and (tmp_path / "copy").read_bytes() == b"of a file"
    assert not other.download("files/a/1", tmp_path / "none")
    one.delete(["log/a/1", "log/a/9"])
    assert [found.name for found in one.found("log/a/")] == ["log/a/2"]
    assert one.url == f"{bucket.url}/g2-aa"


def test_each_split_begins_a_generation_with_twice_as_many_shards(bucket: Bucket) -> None:
    first = identified(bucket, 3, VERSION)
    assert (first.generation, first.folder) == (1, "")
    second = begun(bucket, first)
    third = begun(bucket, second)
    assert identified(bucket, None, VERSION) == identified(bucket, 12, VERSION) == third
    assert (third.shards, third.generation, third.id, third.secret) == (12, 3, first.id, first.secret)
    assert second.folder.startswith("g2-") and third.folder.startswith("g3-")
    assert new_folder(second) != new_folder(second)


def test_a_seal_ends_a_generation_and_no_other_one(bucket: Bucket) -> None:
    cluster = identified(bucket, 2, VERSION)
    check_current(bucket, 1)
    seal(bucket, cluster, VERSION)
    seal(bucket, cluster, VERSION)
    with pytest.raises(Superseded, match="the number of shards was doubled meanwhile"):
        check_current(bucket, 1)
    with pytest.raises(ClusterUnusable, match="has an interrupted split; complete it with 'toehold shards"):
        identified(bucket, None, VERSION)
    assert identified(bucket, None, VERSION, makes=False).is_sealed
    begin_generation(bucket, cluster, new_folder(cluster), VERSION)
    check_current(bucket, 2)
    with pytest.raises(Superseded):
        check_current(bucket, 1)


def test_all_who_begin_a_generation_at_once_get_the_same_one(bucket: Bucket) -> None:
    cluster = identified(bucket, 2, VERSION)
    seal(bucket, cluster, VERSION)
    found: list[Cluster] = []
    begin = threading.Barrier(8)

    def make() -> None:
        begin.wait()
        found.append(begin_generation(bucket, cluster, new_folder(cluster), VERSION))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(repr, found))) == 1


def test_a_generation_whose_answer_was_lost_has_begun(bucket: Bucket) -> None:
    cluster, faulty = identified(bucket, 2, VERSION), FaultyBucket(bucket)
    faulty.at("create", Fault.LOST)
    folder = new_folder(cluster)
    with pytest.raises(BucketFailed):
        begin_generation(faulty, cluster, folder, VERSION)
    assert begin_generation(faulty, cluster, new_folder(cluster), VERSION).folder == folder


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "damaged"),
        (b'{"format": 1, "shards": 4, "folder": "../log", "version": ""}', "damaged"),
        (b'{"format": 1, "shards": 65, "folder": "g2-aa", "version": ""}', "damaged"),
        (b'{"format": 2, "shards": 4, "folder": "g2-aa", "version": ""}', "has a cluster of format 2"),
    ],
)
def test_a_damaged_generation_or_one_of_a_later_format_is_refused(
    bucket: Bucket, data: bytes, told: str
) -> None:
    identified(bucket, 2, VERSION)
    bucket.put("splits/2/done", data)
    with pytest.raises(ClusterUnusable, match=told):
        identified(bucket, None, VERSION)


# Directories and machines of another generation.


def test_members_of_another_generation_are_removed_from_a_machines_directory(tmp_path: Path) -> None:
    data, log = tmp_path / "data", "file:///bucket"
    first = Cluster("c1", 2, bytes(16))
    second = Cluster("c1", 4, bytes(16), 2, "g2-aa")
    shard_map = cluster_map(data, first, log)
    for name in shard_map.names:
        (shard_map.directory_of(name) / "store").mkdir(parents=True)
    (data / "notes.txt").write_text("mine")
    assert cluster_map(data, first, log) == shard_map == read_map(data)
    assert (data / "shard-0000" / "store").is_dir()
    found = cluster_map(data, second, log)
    assert found == read_map(data) == ShardMap(data, 4, bytes(16), False, "c1", log, 2, "g2-aa")
    assert sorted(path.name for path in data.iterdir()) == ["notes.txt", "shards.json"]
    (data / "shard-0000" / "store").mkdir(parents=True)
    moved = cluster_map(data, second, "file:///elsewhere")
    assert moved.log == "file:///elsewhere" and (data / "shard-0000" / "store").is_dir()
    cluster_map(data, first, log)  # as after a restore of the bucket
    assert not (data / "shard-0000").exists()
    with pytest.raises(MapUnusable, match="is of cluster c1, but the bucket is of cluster c2"):
        cluster_map(data, Cluster("c2", 4, bytes(16)), log)


def test_processes_of_two_generations_do_not_take_each_others_calls(tmp_path: Path) -> None:
    config = usable(tmp_path, ServerFile())
    first, second = (trust_of(replace(config, folder=folder), b"s" * 16).token for folder in ("", "g2-aa"))
    assert first != second


def test_machines_of_two_generations_do_not_see_each_other_but_share_no_name(bucket: Bucket) -> None:
    former, later = (ShardMap(Path(), 2, b"", False, "c1", "", *of) for of in ((1, ""), (2, "g2-aa")))
    assert former.group == "c1" != later.group

    def joined(name: str, shard_map: ShardMap) -> tuple[Members, Card]:
        members = Members(bucket, name, shard_map.group)
        card = Card(1, shard_map.group, VERSION, members.run, {"shard-0": 3}, "127.0.0.1", {})
        for _ in range(5):
            members.renew(card)
            members.look()
        return members, card

    zombie, _ = joined("one", former)
    new, _ = joined("two", later)
    assert set(zombie.look()) == {"one"} and set(new.look()) == {"two"}
    joined("one", later)  # while the other one stands still
    with pytest.raises(NameTaken):
        zombie.look()
