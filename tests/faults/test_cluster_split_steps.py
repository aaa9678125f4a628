"""A split of a cluster may die anywhere: it changes nothing before its last step, and can be repeated."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from faults import split_cluster
from faults.split_cluster import DATA, HOSTS, URIS, VERSION, Deployment, ended, served, split_here
from faults.test_shards import CRAWL
from frontier_harness.buckets import FaultyBucket, V
from frontier_harness.process import run_to_end
from frontier_harness.splits import Died, die
from frontier_harness.waiting import eventually

from frontier_server.cluster.identity import Cluster, seal
from frontier_server.core.rows.keys import is_mark
from frontier_server.core.rows.store import Family
from frontier_server.program import cluster_splitting
from frontier_server.program.shard_map import ShardMap
from frontier_server.replicated.buckets import Bucket
from frontier_server.replicated.folders import below
from frontier_server.replicated.object_log import ObjectLog
from frontier_server.replicated.replicas import Replicas
from frontier_server.stores.logged import Mark, mark_of, open_logged
from frontier_server.stores.rocks import CACHE_BYTES, RocksStore

filled, deployment = split_cluster.filled, split_cluster.deployment


def rows(deployment: Deployment, family: Family, folder: Path) -> list[tuple[bytes, bytes]]:
    """The rows of all shards, as another machine has them when it opens the logs."""
    cluster, found = deployment.cluster, []
    bucket, shard_map = below(deployment.bucket, cluster.folder), ShardMap(folder, cluster.shards, b"")
    for name in shard_map.names[:-1]:
        directory = shard_map.directory_of(name)
        directory.mkdir(parents=True)
        log = ObjectLog(bucket, directory.name, cluster.id, VERSION)
        replicas = Replicas(bucket, directory.name)
        with closing(open_logged(directory, log, replicas, VERSION, CACHE_BYTES, 1)) as store:
            its = list(store.scan(family, b"", b""))
            if family in (Family.SEEN, Family.PENDING):
                partitions = {key[4:12] for key, _ in its}
                assert {shard_map.shard_of(partition) for partition in partitions} <= {
                    int(name.rpartition("-")[2])
                }
            found += its
    shutil.rmtree(folder)
    return sorted(row for row in found if not is_mark(family, row[0]))


class DyingBucket(FaultyBucket):
    """The bucket of a process that dies when it changes something, before that or after it."""

    def __init__(self, bucket: Bucket, left: int, after: bool) -> None:
        super().__init__(bucket)
        self.left, self._after = left, after
        self._lock = threading.Lock()

    def _asked(self, method: str, name: str, effect: Callable[[], V]) -> V:
        if method in ("get", "found", "download"):
            return effect()
        with self._lock:
            self.left -= 1
            if self.left >= 0:
                return effect()
            if self._after and self.left == -1:
                effect()
            raise Died


def dying_at(filled: Deployment, folder: Path) -> Iterator[int]:
    """Some of the changes that a split makes in a bucket, and the last ones."""
    deployment = filled.copied(folder)
    counting = DyingBucket(deployment.bucket, 1_000_000, after=False)
    split_here(deployment, counting)
    changes = 1_000_000 - counting.left
    assert changes > 30
    yield from range(0, changes - 3, changes // 5)
    yield from range(changes - 3, changes)


@pytest.mark.parametrize("after", [False, True])
def test_a_split_that_dies_between_any_of_its_changes_is_completed(
    filled: Deployment, tmp_path: Path, after: bool
) -> None:
    whole = filled.copied(tmp_path / "whole")
    before = {family: rows(whole, family, tmp_path / "rows") for family in (Family.SEEN, Family.PENDING)}
    assert len(before[Family.SEEN]) == HOSTS + URIS
    begun = 0
    for number, left in enumerate(dying_at(filled, tmp_path / "counted")):
        deployment = filled.copied(tmp_path / str(number))
        with pytest.raises(Died):
            split_here(deployment, DyingBucket(deployment.bucket, left, after))
        begun += deployment.cluster.generation == 2
        split_here(deployment)
        found = deployment.cluster
        assert (found.shards, found.generation, found.is_sealed) == (4, 2, False)
        assert not list(deployment.work.glob("*"))
        for family, expected in before.items():
            assert rows(deployment, family, deployment.folder / "rows") == expected
        kept = [path for path in (deployment.folder / "bucket").glob("g2-*/**/*") if path.is_file()]
        assert {path.relative_to(deployment.folder / "bucket").parts[0] for path in kept} == {found.folder}
        shutil.rmtree(deployment.folder)
    assert begun == after, "only the last change begins the next generation"


@pytest.mark.parametrize(
    "step", ["_claimed", "built", "_publish", "seal", "begin_generation", "_end", "new_folder", "_clear"]
)
def test_a_split_that_dies_before_a_step_can_be_repeated(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cluster_splitting, step, die)
        with pytest.raises(Died):
            split_here(deployment)
    split_here(deployment)
    assert deployment.cluster.shards == 4


def test_stores_that_a_split_makes_have_no_marks_of_the_old_logs(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: list[Mark | None] = []

    def look(_: Bucket, __: Cluster, made: ShardMap, *___: object) -> None:
        for name in made.names:
            with closing(RocksStore(made.directory_of(name) / "store")) as store:
                marks.append(mark_of(store))
        raise Died

    monkeypatch.setattr(cluster_splitting, "_publish", look)
    with pytest.raises(Died):
        split_here(deployment)
    assert marks == [None] * 5


def test_pages_that_come_in_after_an_unsealed_split_has_died_are_in_the_next_one(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cluster_splitting, "seal", die)
        with pytest.raises(Died):
            split_here(deployment)
    with deployment.machine("one") as one:
        served(one.stubs, 2)
        assert one.stubs.schedule(CRAWL, "http://www.site0.example/later") == ["QUEUED"]
        ended(one)
    split_here(deployment)
    with deployment.machine("one") as one:
        served(one.stubs, 4)
        eventually(
            lambda: one.stubs.statistics(CRAWL).queued_count == HOSTS + URIS + 1, "what came in between"
        )
        ended(one)


def test_a_sealed_generation_is_not_served_until_the_split_is_completed(deployment: Deployment) -> None:
    seal(deployment.bucket, deployment.cluster, VERSION)
    ending = run_to_end("--log", deployment.url, "--data", str(deployment.folder / "one"))
    assert ending.returncode == DATA
    assert (
        f"log {deployment.url} has an interrupted split; complete it with 'toehold shards split "
        "--log URL --data DIR' first" in ending.stderr
    )
    deployment.split()
    assert deployment.cluster.shards == 4


def test_a_cluster_can_be_split_twice(deployment: Deployment) -> None:
    split_here(deployment)
    split_here(deployment)
    assert (deployment.cluster.shards, deployment.cluster.generation) == (8, 3)
    with deployment.machine("one") as one:
        served(one.stubs, 8)
        assert one.stubs.statistics(CRAWL).queued_count == HOSTS + URIS
        ended(one)
    code = run_to_end("--log", deployment.url, "--list-shards")
    members = [json.loads(line) for line in code.stdout.splitlines()]
    assert len(members) == 9 and {member["folder"] for member in members} == {deployment.cluster.folder}
