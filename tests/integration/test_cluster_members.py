"""The machines of a cluster as objects in a bucket, and what the cluster is."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from frontier_harness.buckets import Fault, FaultyBucket
from structlog.testing import capture_logs

from frontier_server.cluster import identity, members
from frontier_server.cluster.identity import Cluster, ClusterUnusable, identified
from frontier_server.cluster.members import FOLDER, FORMAT, SILENT_LOOKS, Card, Members, NameTaken
from frontier_server.config import ServerFile, usable
from frontier_server.program import machine
from frontier_server.program.shard_map import ShardMap
from frontier_server.replicated.buckets import Bucket, BucketFailed, open_bucket
from toehold_base.process.service_manager import ServiceManager

CLUSTER = "c1"


@pytest.fixture
def directory(tmp_path: Path) -> Bucket:
    return open_bucket(f"file://{tmp_path}/bucket")


class Machine:
    """A machine that tells of itself."""

    def __init__(self, bucket: Bucket, name: str) -> None:
        self.members = Members(bucket, name, CLUSTER)
        self.card = Card(FORMAT, CLUSTER, "1.0", self.members.run, {"front": 3}, "127.0.0.1", {})

    def beat(self) -> list[str]:
        """Renew and look; the machines that it sees."""
        self.members.renew(self.card)
        return sorted(self.members.look())

    def joined(self) -> "Machine":
        for _ in range(2):
            self.beat()
        return self


class Clock:
    """Stands in for the module time."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def time(self) -> float:
        return time.time() + self.ahead_s


def test_a_machine_knows_how_far_its_clock_is_from_the_buckets(
    directory: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(members, "time", clock)
    machine = Machine(directory, "one").joined()
    assert machine.members.clock_ahead_s == 0
    for ahead_s in (40.0, -40.0):
        clock.ahead_s = ahead_s
        machine.beat()
        found_s = machine.members.clock_ahead_s
        assert found_s == pytest.approx(ahead_s, abs=2.5)
        clock.ahead_s = ahead_s + 0.9  # a store's time has no parts of a second
        machine.beat()
        assert machine.members.clock_ahead_s == found_s, "each change costs a request of every machine"
    clock.ahead_s = 0
    machine.beat()
    assert machine.members.clock_ahead_s == 0


class Counting:
    """A bucket that counts requests by their kinds."""

    def __init__(self, bucket: Bucket) -> None:
        self.made: Counter[str] = Counter()
        self.bucket = FaultyBucket(bucket, self._count)

    def _count(self, method: str) -> Fault:
        self.made[method] += 1
        return Fault.NONE

    def during(self, work: Callable[[], object]) -> dict[str, int]:
        """The requests of some work."""
        before = self.made.copy()
        work()
        return dict(self.made - before)


def put_card(bucket: Bucket, name: str, **changes: object) -> None:
    """Put another machine's objects, with something that is not as usual."""
    card = Card(FORMAT, CLUSTER, "1.0", "another run", {"shard-0": 5}, "127.0.0.1", {})
    bucket.put(f"{FOLDER}{name}/notice", msgspec.json.encode(msgspec.structs.replace(card, **changes)))
    bucket.put(f"{FOLDER}{name}/beat", b"another run 1")


def test_machines_see_each_other_and_what_each_tells(directory: Bucket) -> None:
    one, other = Machine(directory, "one").joined(), Machine(directory, "other")
    other.card.refuses, other.card.is_leaving = ["shard-1"], True
    other.joined()
    assert one.beat() == ["one", "other"]
    seen = one.members.look()["other"]
    assert seen.card == other.card
    assert seen.notice == (frozenset({"front"}), True, frozenset({"shard-1"}))


def test_a_machine_has_another_tag_after_each_renewal_and_the_same_until_then(directory: Bucket) -> None:
    one, other = Machine(directory, "one").joined(), Machine(directory, "other").joined()
    first = one.members.look()["other"].tag
    assert one.members.look()["other"].tag == first
    other.beat()
    assert one.members.look()["other"].tag != first


def test_a_change_of_a_card_is_seen_with_the_next_look(directory: Bucket) -> None:
    one, other = Machine(directory, "one").joined(), Machine(directory, "other").joined()
    one.beat()
    other.card.holds["shard-7"] = 0
    other.beat()
    assert one.members.look()["other"].card.holds == {"front": 3, "shard-7": 0}


def test_a_renewal_without_news_takes_one_request_and_a_look_one(directory: Bucket) -> None:
    counting = Counting(directory)
    one, other = Machine(counting.bucket, "one").joined(), Machine(directory, "other").joined()
    one.beat()
    for _ in range(3):
        other.beat()
        assert counting.during(one.beat) == {"put": 1, "found": 1}
    one.card.holds["shard-7"] = 0
    assert counting.during(one.beat) == {"put": 2, "found": 1, "get": 1}  # it reads its own, too
    other.card.holds["shard-8"] = 0
    other.beat()
    assert counting.during(one.beat) == {"put": 1, "found": 1, "get": 1}


def test_a_card_that_is_ignored_is_read_once(directory: Bucket) -> None:
    counting = Counting(directory)
    one = Machine(counting.bucket, "one").joined()
    put_card(directory, "stranger", cluster="c2")
    one.beat()
    assert "get" not in counting.during(one.beat)


@pytest.mark.parametrize("changes", [{"cluster": "c2"}, {"format": FORMAT + 1}])
def test_cards_of_other_clusters_and_of_later_formats_are_ignored(
    directory: Bucket, changes: dict[str, object]
) -> None:
    one = Machine(directory, "one").joined()
    put_card(directory, "other")
    assert one.beat() == ["one", "other"]
    put_card(directory, "other", **changes)  # as after an upgrade: what it told before counts no more
    assert one.beat() == ["one"]


def test_a_damaged_card_is_ignored_until_it_is_replaced(directory: Bucket) -> None:
    one = Machine(directory, "one").joined()
    put_card(directory, "other")
    directory.put(f"{FOLDER}other/notice", b'{"format": 1, "clus')
    assert one.beat() == ["one"]
    put_card(directory, "other")
    assert one.beat() == ["one", "other"]


# Names.


def test_a_machine_whose_name_is_in_use_gives_way(directory: Bucket) -> None:
    first, second = Machine(directory, "one").joined(), Machine(directory, "one")
    with pytest.raises(NameTaken, match="another process of the cluster is called one; give each machine"):
        for _ in range(SILENT_LOOKS + 1):
            first.beat()
            second.beat()
    second.members.renew(second.card)
    second.members.leave()
    for _ in range(3):
        assert first.beat() == ["one"]
    assert first.members.look()["one"].card.run == first.members.run


def test_a_name_that_nobody_renews_is_free_again(directory: Bucket) -> None:
    first, second = Machine(directory, "one").joined(), Machine(directory, "one")
    for _ in range(SILENT_LOOKS + 1):
        assert second.members.look()["one"].card.run == first.members.run
        second.members.renew(second.card)
    second.beat()
    assert second.members.look()["one"].card.run == second.members.run
    with pytest.raises(NameTaken):
        first.beat()  # it has stood still
    first.members.leave()
    assert second.beat() == ["one"]


def test_a_name_whose_machine_has_left_is_free_at_once(directory: Bucket) -> None:
    first, second = Machine(directory, "one").joined(), Machine(directory, "one")
    second.beat()
    first.members.leave()
    second.beat()
    assert second.beat() == ["one"]


def test_one_of_two_machines_that_take_a_name_at_once_stays(directory: Bucket) -> None:
    first, second = Machine(directory, "one"), Machine(directory, "one")
    assert first.beat() == second.beat() == []
    first.members.renew(first.card)
    second.members.renew(second.card)
    with pytest.raises(NameTaken):
        first.members.look()
    assert second.beat() == ["one"]


# Comings and goings.


def test_a_machine_that_has_left_is_seen_no_more(directory: Bucket) -> None:
    one, other = Machine(directory, "one").joined(), Machine(directory, "other").joined()
    assert one.beat() == ["one", "other"]
    other.members.leave()
    assert one.beat() == ["one"]
    assert [found.name for found in directory.found(FOLDER)] == [
        f"{FOLDER}one/{x}" for x in ("beat", "notice")
    ]


def test_a_machine_that_was_forgotten_tells_of_itself_again(directory: Bucket) -> None:
    one, other = Machine(directory, "one").joined(), Machine(directory, "other").joined()
    one.members.forget("other")
    assert one.beat() == ["one"]
    other.beat()
    other.beat()
    assert one.beat() == ["one", "other"]


def test_a_renewal_that_failed_is_repeated(directory: Bucket) -> None:
    faulty = FaultyBucket(directory)
    one, other = Machine(faulty, "one").joined(), Machine(directory, "other").joined()
    one.card.holds["shard-7"] = 0

    def fail() -> None:
        raise BucketFailed("away")

    faulty.at("put", fail)
    with pytest.raises(BucketFailed):
        one.beat()
    one.beat()
    other.beat()
    assert "shard-7" in other.members.look()["one"].card.holds


def machine_of(folder: Path, bucket: Bucket) -> machine.Machine:
    """A machine that has not begun, and is called one."""
    config = usable(folder, ServerFile(log=bucket.url, machine="one"))
    shard_map = ShardMap(folder, 1, b"s" * 16, True, CLUSTER, bucket.url)
    return machine.Machine(config, ServerFile(), shard_map, ServiceManager(), folder, bucket, "1.0")


async def test_a_machine_that_was_gone_for_long_is_forgotten(
    directory: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(machine, "clock_s", lambda: now_s)
    monkeypatch.setattr(machine, "FORGET_S", 20.0)
    one = machine_of(tmp_path, directory)
    stayed, _ = Machine(directory, "stays").joined(), Machine(directory, "gone").joined()
    seen = []
    for _ in range(60):
        await one._exchange()
        await one._forget_gone()
        seen.append(sorted(stayed.beat()))
        now_s += 0.4
    assert seen[:3] == [["gone", "stays"], *[["gone", "one", "stays"]] * 2]
    assert seen[48] == ["gone", "one", "stays"] and seen[52:] == [["one", "stays"]] * 8


async def test_a_machine_whose_clock_is_apart_says_so_and_tells_the_others(
    directory: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(members, "time", clock)
    one, other = machine_of(tmp_path, directory), Machine(directory, "other").joined()

    async def told() -> tuple[list[int], int]:
        """What the machine has logged after some beats, and what the others see."""
        with capture_logs() as lines:
            for _ in range(SILENT_LOOKS + 3):
                await one._exchange()
        ahead = [line["ahead_s"] for line in lines if line["event"] == "clock_apart"]
        return ahead, other.members.look()["one"].card.clock_ahead_s

    assert await told() == ([], 0)
    clock.ahead_s = 100.0
    ((warned_s,), seen_s) = await told()
    assert warned_s == pytest.approx(99, abs=2) and seen_s == pytest.approx(99, abs=2)
    assert await told() == ([], seen_s), "it is told once an hour"


# What the cluster is.


def test_the_first_machine_makes_the_cluster_and_later_ones_find_it(directory: Bucket) -> None:
    made = identified(directory, 4, "1.0")
    assert made.shards == 4 and made.id and len(made.secret) == identity.SECRET_BYTES
    assert identified(directory, 4, "1.1") == identified(directory, None, "1.1") == made


def test_a_cluster_has_one_shard_unless_told_otherwise(directory: Bucket) -> None:
    assert identified(directory, None, "1.0").shards == 1


def test_clusters_have_ids_and_secrets_of_their_own(tmp_path: Path) -> None:
    one, other = (identified(open_bucket(f"file://{tmp_path}/{name}"), 1, "1.0") for name in "ab")
    assert one.id != other.id and one.secret != other.secret


def test_machines_that_make_a_cluster_at_once_agree(directory: Bucket) -> None:
    found: list[Cluster] = []
    begin = threading.Barrier(8)

    def make() -> None:
        begin.wait()
        found.append(identified(directory, 4, "1.0"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(repr, found))) == 1


def test_a_machine_that_is_a_moment_too_late_takes_the_cluster_that_another_made(directory: Bucket) -> None:
    faulty = FaultyBucket(directory)
    first: list[Cluster] = []
    faulty.at("create", lambda: first.append(identified(directory, 4, "1.0")))
    assert identified(faulty, 4, "1.0") == first[0]


def test_an_empty_bucket_has_no_cluster_unless_one_may_be_made(directory: Bucket) -> None:
    with pytest.raises(ClusterUnusable, match="has no cluster"):
        identified(directory, None, "1.0", makes=False)
    assert directory.get(identity.NAME) is None


def test_another_number_of_shards_is_refused(directory: Bucket) -> None:
    identified(directory, 4, "1.0")
    with pytest.raises(ClusterUnusable) as refused:
        identified(directory, 6, "1.0")
    assert str(refused.value) == "has a frontier of 4 shards, got --shards 6; leave --shards out"


def changed(change: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    """What makes another object of the cluster's."""

    def make(data: bytes) -> bytes:
        row = msgspec.json.decode(data, type=dict[str, object])
        change(row)
        return msgspec.json.encode(row)

    return make


def test_a_cluster_of_a_later_format_is_refused(directory: Bucket) -> None:
    identified(directory, 4, "1.0")
    known = directory.get(identity.NAME)
    assert known is not None
    directory.put(identity.NAME, changed(lambda row: row.update(format=2, more="news"))(known))
    with pytest.raises(ClusterUnusable) as refused:
        identified(directory, None, "1.0")
    assert str(refused.value) == (
        "has a cluster of format 2, and this version of Toehold reads 1 at most: use the version that made "
        "it, or a later one"
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"[1, 2]",
        lambda data: b"\xff\xfe",
        changed(lambda row: row.pop("secret")),
        changed(lambda row: row.update(secret="")),
        changed(lambda row: row.update(secret="xy" * 16)),
        changed(lambda row: row.update(shards=0)),
        changed(lambda row: row.update(shards="4")),
        changed(lambda row: row.update(cluster="")),
        changed(lambda row: row.pop("format")),
    ],
)
def test_a_damaged_cluster_object_is_refused_and_stays(
    directory: Bucket, damage: Callable[[bytes], bytes]
) -> None:
    identified(directory, 4, "1.0")
    known = directory.get(identity.NAME)
    assert known is not None
    damaged = damage(known)
    directory.put(identity.NAME, damaged)
    with pytest.raises(ClusterUnusable, match="has an object 'cluster' that is damaged"):
        identified(directory, None, "1.0")
    assert directory.get(identity.NAME) == damaged
