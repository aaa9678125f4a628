"""What a split of a cluster refuses, and what it tells when it has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faults import split_cluster
from faults.split_cluster import DATA, REFUSED, VERSION, Deployment, split_here
from frontier_harness.command_line import Toehold
from frontier_harness.process import run_to_end

from frontier_server.cluster.identity import ClusterUnusable, identified
from frontier_server.program import cluster_splitting
from frontier_server.program.shard_map import MapUnusable

filled, deployment, toehold = split_cluster.filled, split_cluster.deployment, split_cluster.toehold


@pytest.mark.parametrize(("wanted", "way"), [(4, True), (8, True), (3, False), (1, False), (6, False)])
def test_another_number_of_shards_is_refused_with_what_to_do(
    deployment: Deployment, wanted: int, way: bool
) -> None:
    ending = run_to_end(
        "--log", deployment.url, "--data", str(deployment.folder / "one"), "--shards", str(wanted)
    )
    assert ending.returncode == DATA
    doubled = ", or double them with 'toehold shards split --log URL --data DIR'" if way else ""
    assert ending.stderr.strip().endswith(
        f"log {deployment.url} has a frontier of 2 shards, got --shards {wanted}; leave --shards out{doubled}"
    )


def test_a_directory_with_other_files_is_refused(deployment: Deployment, toehold: Toehold) -> None:
    deployment.work.mkdir()
    (deployment.work / "notes.txt").write_text("mine")
    code, _, problem = toehold("shards", "split", "--log", deployment.url, "--data", str(deployment.work))
    assert code == REFUSED
    assert f"data directory {deployment.work} must be empty, or left by an interrupted split" in problem
    assert (deployment.work / "notes.txt").read_text() == "mine"


def test_a_directory_of_another_clusters_split_is_refused(deployment: Deployment) -> None:
    deployment.work.mkdir()
    (deployment.work / cluster_splitting.FILE).write_text('{"cluster": "another", "folders": []}')
    with pytest.raises(MapUnusable, match="is of a split of cluster another, but the bucket is of cluster"):
        split_here(deployment)
    (deployment.work / cluster_splitting.FILE).write_text('{"cluster": ')
    with pytest.raises(MapUnusable, match=f"has a damaged file {cluster_splitting.FILE}"):
        split_here(deployment)


def test_a_bucket_without_a_cluster_is_refused(tmp_path: Path, toehold: Toehold) -> None:
    url = f"file://{tmp_path}/bucket"
    code, _, problem = toehold("shards", "split", "--log", url, "--data", str(tmp_path / "work"))
    assert code == REFUSED
    assert f"log {url} has no cluster: no frontier has been started with it" in problem


def test_a_cluster_that_never_served_is_refused(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    identified(deployment.bucket, 2, VERSION)
    with pytest.raises(ClusterUnusable, match="has no store of shard-0000 yet: start the machines once"):
        split_here(deployment)


def test_a_cluster_of_sixty_four_shards_is_refused(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    identified(deployment.bucket, 64, VERSION)
    with pytest.raises(ClusterUnusable, match="has a frontier of 64 shards, and can have at most 64"):
        split_here(deployment)


def test_a_directory_that_is_not_there_is_refused_without_a_bucket(tmp_path: Path, toehold: Toehold) -> None:
    code, _, problem = toehold("shards", "split", "--data", str(tmp_path / "nowhere"))
    assert code == 2
    assert "does not exist" in problem


def test_a_split_tells_people_and_programs_how_many_shards_there_are(
    deployment: Deployment, toehold: Toehold
) -> None:
    code, said, _ = toehold("shards", "split", "--log", deployment.url, "--data", str(deployment.work))
    assert code == 0
    assert "The frontier has 4 shards now. Start the machines as usual, without --shards." in said
    assert f"below {deployment.url}/{deployment.cluster.folder} from now on" in said
    code, said, _ = toehold(
        "shards", "split", "--log", deployment.url, "--data", str(deployment.work), "--json"
    )
    assert code == 0
    assert json.loads(said) == {"log": deployment.url, "shards": 8}
