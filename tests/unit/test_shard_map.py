"""The map of a data directory with several shards: whose a slot is, and which directories are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from frontier_server.config import FRONT, ConfigError, ServerFile, usable
from frontier_server.program.shard_map import (
    FILE,
    SLOTS,
    MapUnusable,
    ShardMap,
    bytes_of,
    check_no_member,
    is_divided,
    member_of,
    read_map,
    secret_around,
    wanted_map,
    whole_around,
)

SECRET = bytes(range(16))


def partition(slot: int) -> bytes:
    """A partition in a slot, with other bits behind those of the slot."""
    return (slot << 52 | 0xABCDEF).to_bytes(8, "big")


def made(data: Path, shards: int = 2, **more: Any) -> ShardMap:
    """A directory with this map."""
    shard_map = ShardMap(data, shards, SECRET, **more)
    shard_map.write()
    return shard_map


def with_stores(shard_map: ShardMap) -> ShardMap:
    for name in shard_map.names:
        (shard_map.directory_of(name) / "store").mkdir(parents=True)
    return shard_map


@pytest.mark.parametrize("shards", range(2, 65))
def test_each_slot_belongs_to_the_shard_whose_range_has_it(shards: int) -> None:
    shard_map = ShardMap(Path("d"), shards, SECRET)
    owners = [shard_map.shard_of(partition(slot)) for slot in range(SLOTS)]
    ranges = [shard_map.range_of(shard) for shard in range(shards)]
    assert [owner for owner, slots in enumerate(ranges) for _ in slots] == owners
    assert [slot for slots in ranges for slot in slots] == [*range(SLOTS)]
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


def test_twice_as_many_shards_have_halves_of_the_ranges() -> None:
    few, many = ShardMap(Path("d"), 3, SECRET), ShardMap(Path("d"), 6, SECRET)
    for slot in range(SLOTS):
        assert many.shard_of(partition(slot)) // 2 == few.shard_of(partition(slot))


def test_members_have_names_and_directories(tmp_path: Path) -> None:
    shard_map = ShardMap(tmp_path, 11, SECRET)
    assert shard_map.names[0] == "shard-0"
    assert shard_map.names[-2:] == ("shard-10", FRONT)
    assert shard_map.directory_of("shard-10") == tmp_path / "shard-0010"
    assert shard_map.directory_of(FRONT) == tmp_path / "coordinator"


def test_a_map_that_was_written_is_read_and_for_its_owner_alone(tmp_path: Path) -> None:
    shard_map = made(tmp_path / "deep" / "data")
    assert read_map(shard_map.data) == shard_map
    assert (shard_map.data / FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in shard_map.data.iterdir()] == [FILE]
    assert read_map(shard_map.data) == shard_map
    assert shard_map.completed() == read_map(shard_map.data) == ShardMap(shard_map.data, 2, SECRET, True)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"format": 1}',
        '{"format": 1, "shards": 2, "secret": "00"}',
        '{"format": 1, "shards": 1, "secret": "' + SECRET.hex() + '"}',
        '{"format": 1, "shards": 65, "secret": "' + SECRET.hex() + '"}',
        '{"format": 1, "shards": 2, "secret": "' + "x" * 32 + '"}',
        '{"format": 0, "shards": 2, "secret": "' + SECRET.hex() + '"}',
        "\0" * 80,
    ],
)
def test_a_damaged_map_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(MapUnusable, match=r"shards\.json is damaged.*; take it from a backup"):
        wanted_map(tmp_path, None)


def test_a_map_of_a_later_version_is_refused_whatever_else_it_has(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"format": 2, "shards": 2, "places": []}))
    with pytest.raises(MapUnusable, match="must have format 1 for this version of Toehold, got 2"):
        read_map(tmp_path)


def test_a_new_directory_gets_a_map_with_a_secret_of_its_own(tmp_path: Path) -> None:
    first, second = (wanted_map(tmp_path / name, 3) for name in "ab")
    assert first.shards == second.shards == 3
    assert len(first.secret) == len(second.secret) == len(SECRET)
    assert first.secret != second.secret
    assert not list(tmp_path.iterdir()), "nothing is written before it is clear that it may be"


def test_a_directory_keeps_its_number_of_shards(tmp_path: Path) -> None:
    shard_map = with_stores(made(tmp_path, complete=True))
    assert wanted_map(tmp_path, None) == wanted_map(tmp_path, 2) == shard_map
    for wanted in (1, 3, 4):
        with pytest.raises(MapUnusable, match=f"has 2 shards, got --shards {wanted}"):
            wanted_map(tmp_path, wanted)


def test_members_that_a_first_start_did_not_come_to_may_be_missing(tmp_path: Path) -> None:
    shard_map = made(tmp_path)
    assert wanted_map(tmp_path, None) == shard_map
    (shard_map.directory_of("shard-0") / "store").mkdir(parents=True)
    assert wanted_map(tmp_path, None) == shard_map


def test_lost_members_are_named(tmp_path: Path) -> None:
    shard_map = with_stores(made(tmp_path, 3, complete=True))
    (shard_map.directory_of("shard-1") / "store").rmdir()
    with pytest.raises(MapUnusable, match="has 3 shards, but shard-0001 has no store"):
        wanted_map(tmp_path, None)
    (shard_map.directory_of(FRONT) / "store").rmdir()
    with pytest.raises(MapUnusable, match="but shard-0001 and coordinator have no store"):
        wanted_map(tmp_path, None)


def test_a_member_whose_salvage_was_cut_short_is_not_lost(tmp_path: Path) -> None:
    shard_map = with_stores(made(tmp_path, complete=True))
    folder = shard_map.directory_of("shard-1")
    (folder / "store").rename(folder / "store.new")
    assert wanted_map(tmp_path, None) == shard_map


@pytest.mark.parametrize("store", ["store", "store.new"])
def test_an_undivided_store_needs_one_shard(tmp_path: Path, store: str) -> None:
    (tmp_path / store).mkdir()
    assert not is_divided(tmp_path, None)
    assert not is_divided(tmp_path, 1)
    assert is_divided(tmp_path, 2)
    with pytest.raises(MapUnusable, match="has an undivided store, which needs --shards 1, got --shards 2"):
        wanted_map(tmp_path, 2)


@pytest.mark.parametrize("shards", [None, 1, 2])
def test_members_without_a_map_are_not_taken_for_a_new_directory(tmp_path: Path, shards: int | None) -> None:
    with_stores(ShardMap(tmp_path, 2, SECRET))
    assert is_divided(tmp_path, shards)
    with pytest.raises(MapUnusable, match=r"has shards, but shards\.json is missing"):
        wanted_map(tmp_path, shards)


def test_a_member_has_its_own_directory_and_a_shard_its_socket(tmp_path: Path) -> None:
    shard_map, sockets = made(tmp_path), tmp_path / "sockets"
    whole = usable(tmp_path, ServerFile(listen="127.0.0.1:7"))
    shard, found = member_of(whole, "shard-1", sockets)
    assert found == shard_map
    assert (shard.data, shard.is_shard) == (tmp_path / "shard-0001", True)
    assert str(shard.listen) == f"unix:{sockets}/shard-1.sock"
    front, _ = member_of(whole, FRONT, sockets)
    assert (front.data, front.is_shard, front.sockets) == (tmp_path / "coordinator", False, sockets)
    assert str(front.listen) == "127.0.0.1:7"
    with pytest.raises(MapUnusable, match="has no member shard-2"):
        member_of(whole, "shard-2", sockets)


def test_the_directory_of_a_member_has_the_secret_of_all(tmp_path: Path, monkeypatch: Any) -> None:
    made(tmp_path)
    assert secret_around(tmp_path / "shard-0001") == SECRET
    monkeypatch.chdir(tmp_path)
    assert secret_around(Path("coordinator")) == SECRET
    with pytest.raises(MapUnusable, match=f"is a part of {tmp_path}"):
        check_no_member(tmp_path / "shard-0001")
    assert secret_around(tmp_path / "shard-0002") != SECRET


def test_a_member_is_known_by_whatever_path_leads_to_it(tmp_path: Path) -> None:
    """By a link to it, by a path with dots, and if it is itself a link to another disk."""
    shard_map, disk = made(tmp_path / "data"), tmp_path / "disk"
    member = shard_map.directory_of("shard-0")
    (member / "store").mkdir(parents=True)
    (tmp_path / "link").symlink_to(member)
    moved = shard_map.directory_of("shard-1")
    disk.mkdir()
    moved.symlink_to(disk)
    for path in (tmp_path / "link", member / "store" / "..", moved):
        assert whole_around(path) == shard_map
    for path in (tmp_path / "data", tmp_path, member / "store"):
        assert whole_around(path) is None


def test_the_bytes_of_a_store_are_told_while_its_files_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "1.sst").write_bytes(b"four")
    (tmp_path / "2.sst").symlink_to("deleted since it was listed")
    assert bytes_of(tmp_path) == 4
    assert bytes_of(tmp_path / "none") == 0


@pytest.mark.parametrize("shards", [0, -1, 65])
def test_there_are_from_1_to_64_shards(shards: int) -> None:
    with pytest.raises(ConfigError, match=f"shards must be between 1 and 64, got {shards}"):
        usable(Path("d"), ServerFile(shards=shards))
