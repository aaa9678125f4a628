"""What the bucket of a cluster tells of its members and machines, as `toehold shards list --log` shows it."""

from pathlib import Path

import msgspec
import pytest

from frontier_server.cluster.identity import identified
from frontier_server.cluster.members import FOLDER, FORMAT, Card
from frontier_server.program import cluster_list
from frontier_server.program.cluster_list import cluster_of, listed
from frontier_server.replicated.buckets import Bucket, open_bucket


def put_machine(bucket: Bucket, name: str, holds: dict[str, int], serves: list[str]) -> None:
    card = Card(
        FORMAT,
        identified(bucket, None, "", makes=False).id,
        "1.0",
        f"run of {name}",
        holds,
        "127.0.0.1",
        dict.fromkeys(serves, (1, 2)),
    )
    bucket.put(f"{FOLDER}{name}/notice", msgspec.json.encode(card))


def test_a_member_that_is_being_given_back_is_nobodys_until_another_machine_serves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}/bucket"
    bucket = open_bucket(url)
    identified(bucket, 2, "1.0")
    monkeypatch.setattr(cluster_list, "renewing", lambda *_: ["one", "other"])
    put_machine(bucket, "one", {"front": 3, "shard-0": 4}, ["front", "shard-0", "shard-1"])
    put_machine(bucket, "other", {}, [])

    def owners() -> dict[str, tuple[str, int]]:
        found = listed(bucket, cluster_of(bucket, url))
        return {each["member"]: (each["machine"], each["epoch"]) for each in found if "member" in each}

    assert owners() == {"coordinator": ("one", 3), "shard-0000": ("one", 4), "shard-0001": ("", 0)}
    put_machine(bucket, "other", {"shard-1": 9}, ["shard-1"])
    assert owners()["shard-0001"] == ("other", 9)


def test_a_machine_whose_words_cannot_be_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}/bucket"
    bucket = open_bucket(url)
    identified(bucket, 1, "1.0")
    monkeypatch.setattr(cluster_list, "renewing", lambda *_: ["one", "later"])
    put_machine(bucket, "one", {"front": 3}, ["front"])
    bucket.put(f"{FOLDER}later/notice", b"words of another version")
    machines = [each["machine"] for each in listed(bucket, cluster_of(bucket, url)) if "member" not in each]
    assert machines == ["one"]
