"""Stores, records and replicas that are damaged, or of another log: what is refused, and what is restored."""

from collections.abc import Callable
from pathlib import Path

import pytest
from integration import logged_machines
from integration.logged_machines import (
    CACHE_BYTES,
    COUNT_KEY,
    Fleet,
    flushed,
    in_tables,
    lists_of,
    rows_of,
    table_with,
)

from frontier_server.core.rows.store import Family, StoreDamaged
from frontier_server.replicated.log import LogDamaged
from frontier_server.replicated.replicas import File, Replicas
from frontier_server.stores.logged import MARK_KEY, RESTORING, LogNeeded
from frontier_server.stores.rocks import RocksStore

fleet = logged_machines.fleet


def test_a_store_without_a_mark_is_refused_and_left_alone(fleet: Fleet) -> None:
    first = fleet.machine()
    with_rows = RocksStore(first.path, cache_bytes=CACHE_BYTES)
    with_rows.write({(Family.CRAWLS, COUNT_KEY): b"0"})
    with_rows.close()
    with pytest.raises(
        LogNeeded, match="no log knows; move it away"
    ) as _caught:  # the frames live on: nothing but `open` itself lets go of the store
        first.open()
    left = RocksStore(first.path, cache_bytes=CACHE_BYTES)
    assert left.get(Family.CRAWLS, COUNT_KEY) == b"0"
    left.close()


def test_a_store_is_refused_if_its_log_lacks_what_the_store_has_seen(fleet: Fleet) -> None:
    """As when a frontier is given another bucket, or one was put back as it was long ago."""
    first = fleet.machine()
    flushed(first.open(), 1, 2)
    first.die()
    fleet.bucket.objects.clear()
    fleet.bucket._listed.clear()
    with pytest.raises(LogDamaged, match=r"the log ends at record 0, .* has seen record 2"):
        first.open()
    store = RocksStore(first.path, cache_bytes=CACHE_BYTES)
    assert lists_of(rows_of(store)) == [1, 2]
    store.close()


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": lambda data: data[:-100] + bytes((data[-100] ^ 1,)) + data[-99:],
    "shorter": lambda data: data[:-1],
    "missing": lambda data: None,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_replica_with_a_damaged_file_is_refused_and_nothing_of_it_is_used(fleet: Fleet, kind: str) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    first.replicate()
    flushed(first.store, 2)
    file = max(first.store.manifests[-1][1].files, key=lambda file: file.size)
    sound = fleet.bucket.objects[file.place]
    fleet.bucket.delete([file.place])
    if (damaged := DAMAGE[kind](sound)) is not None:
        fleet.bucket.put(file.place, damaged)
    for _ in range(2):
        with pytest.raises(LogDamaged, match=f"memory://bucket: {file.place} (must have|is missing)"):
            second.open()
        assert not second.path.exists()
    fleet.bucket.put(file.place, sound)
    assert lists_of(rows_of(second.open())) == [1, 2]
    assert not (second.data / RESTORING).exists()


def test_a_record_that_is_missing_after_the_last_replica_is_refused(fleet: Fleet) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1, 2)
    first.die()
    fleet.bucket.delete(["log/1/0000000000000002"])
    with pytest.raises(LogDamaged, match="0000000000000002 is missing"):
        second.open()


@pytest.mark.parametrize("names", [["../store"], [".hidden"], ["a/b"]])
def test_a_replica_whose_files_would_leave_their_directory_is_refused(fleet: Fleet, names: list[str]) -> None:
    replicas = Replicas(fleet.bucket, "1")
    with pytest.raises(LogDamaged, match="plain names"):
        replicas.download([File(name, "files/1/x", 0, "") for name in names], fleet.directory / "new")


def without_current(path: Path) -> None:
    (path / "CURRENT").unlink()


def without_a_table(path: Path) -> None:
    table_with(path, b"last").unlink()


def with_a_flipped_mark(path: Path) -> None:
    table = table_with(path, MARK_KEY)
    data = table.read_bytes()
    at = data.index(MARK_KEY)
    table.write_bytes(data[:at] + b"\xff" + data[at + 1 :])


@pytest.mark.parametrize("damages", [without_current, without_a_table, with_a_flipped_mark])
def test_a_store_that_is_damaged_is_restored(fleet: Fleet, damages: Callable[[Path], None]) -> None:
    first = fleet.machine()
    flushed(first.open(), 1, 2)
    in_tables(first.store)
    first.replicate()
    flushed(first.store, 3)
    in_tables(first.store)
    first.die()
    damages(first.path)
    assert lists_of(rows_of(first.open())) == [1, 2, 3]


def test_a_store_in_which_damage_was_found_is_restored_at_the_next_start(fleet: Fleet) -> None:
    """The damaged block is read by chance alone: without that, each start would go well, and fail later."""
    first = fleet.machine()
    flushed(first.open(), 1, 2)
    in_tables(first.store)
    first.die()
    table = table_with(first.path, b"last")
    data = table.read_bytes()
    at = data.index(b"last")
    table.write_bytes(data[:at] + b"LAST" + data[at + 4 :])
    with pytest.raises(StoreDamaged):
        first.open().get(Family.HOSTS, b"last")
    assert lists_of(rows_of(first.open())) == [1, 2]
