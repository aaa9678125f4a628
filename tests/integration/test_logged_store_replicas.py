"""Replicas of a store in a bucket: what is uploaded, kept and deleted, and that each one is whole."""

import threading
from pathlib import Path

import pytest
from frontier_harness.buckets import Fault
from frontier_harness.waiting import PATIENCE_S
from integration import logged_machines
from integration.logged_machines import (
    Fleet,
    applied,
    change,
    flushed,
    in_tables,
    lists_of,
    rows_of,
    table_with,
    write,
)
from rocksdict import WriteBatch

from frontier_server.replicated.buckets import BucketFailed
from frontier_server.replicated.replicas import Replicas, digest_of
from frontier_server.stores import logged
from frontier_server.stores.copies import copy_live

fleet = logged_machines.fleet


def test_a_replica_may_cut_a_record_in_its_middle(fleet: Fleet) -> None:
    """The copy has the first of three lists that one record has."""
    first = fleet.machine()
    flushed(first.open(), 1)
    write(first.store, 2)
    first.sees.at("upload", lambda: flushed(first.store, 3), lambda: write(first.store, 4))
    first.replicate()
    ((number, manifest),) = first.store.manifests
    assert manifest.list == 2 and manifest.replay_from < number
    flushed(first.store, 5)
    expected = rows_of(first.store)
    assert lists_of(expected) == [1, 2, 3, 4, 5]
    assert fleet.rows_elsewhere() == expected


def test_a_replica_after_another_one_needs_no_record_before_that(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    for _ in range(2):
        first.replicate()
    (number, _), (_, manifest) = first.store.manifests
    assert manifest.replay_from == number + 1
    write(first.store, 2)
    assert first.store._mark.record == first.store.manifests[-1][0] + 1


def test_a_replica_of_a_store_without_rows_can_be_restored(fleet: Fleet) -> None:
    first, second = fleet.machine(), fleet.machine()
    first.open()
    first.replicate()
    flushed(second.open(), 1)
    assert lists_of(fleet.rows_elsewhere()) == [1]


def test_a_replica_uploads_only_what_is_new(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    flushed(first.store, 2)
    first.replicate()
    tables = [name for name in first.sees.uploaded if name.endswith(".sst")]
    assert tables
    first.sees.uploaded.clear()
    flushed(first.store, 3)
    first.replicate()
    assert first.sees.uploaded and not [name for name in first.sees.uploaded if name.endswith(".sst")]
    places = {file.place for file in first.store.manifests[-1][1].files}
    assert set(tables) <= places
    flushed(first.store, 4)
    assert lists_of(fleet.rows_elsewhere()) == [1, 2, 3, 4]


@pytest.mark.parametrize("has_its_disk", [True, False])
def test_a_replica_after_a_start_uploads_only_what_is_new(fleet: Fleet, has_its_disk: bool) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    first.replicate()
    there = {file.place for file in first.store.manifests[-1][1].files if file.name.endswith(".sst")}
    assert there
    if not has_its_disk:
        first.lose()
    flushed(first.open(), 2)
    first.replicate()
    assert there <= {file.place for file in first.store.manifests[-1][1].files}
    assert not [
        name
        for name in first.sees.uploaded
        if name.rpartition("-")[2] in {p.rpartition("-")[2] for p in there}
    ]
    assert lists_of(fleet.rows_elsewhere()) == [1, 2]


def test_a_file_of_the_same_name_and_size_with_other_bytes_is_uploaded(fleet: Fleet) -> None:
    """A store was put back, and has gone on differently from there: RocksDB numbers its files alike."""
    replicas, copy = Replicas(fleet.bucket, "1"), fleet.directory / "copy"
    copy.mkdir()
    (copy / "000007.sst").write_bytes(b"one")
    (first,) = replicas.upload(copy, 1)
    (copy / "000007.sst").write_bytes(b"two")
    other = Replicas(fleet.bucket, "1")
    other.know([first], is_sure=False)
    (second,) = other.upload(copy, 2)
    assert second.place != first.place
    assert (fleet.bucket.get(first.place), fleet.bucket.get(second.place)) == (b"one", b"two")
    same = Replicas(fleet.bucket, "1")
    same.know([second], is_sure=False)
    assert same.upload(copy, 3) == [second]


def test_a_replica_after_a_start_uploads_a_file_whose_bytes_have_changed(fleet: Fleet) -> None:
    """The store of a machine that was away may have files of its own with these names, and of their size."""
    first = fleet.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    first.replicate()
    uploaded = {file.name: file for file in first.store.manifests[-1][1].files}
    first.die()
    table = table_with(first.path, b"last")
    table.write_bytes(table.read_bytes().replace(b"last", b"LAST", 1))
    first.open()
    first.replicate()
    others = {file.name: file for file in first.store.manifests[-1][1].files}
    assert others[table.name].size == uploaded[table.name].size
    assert others[table.name].place != uploaded[table.name].place
    assert others[table.name].digest == digest_of(table)


def test_a_replica_that_fails_half_way_changes_nothing_in_the_one_before(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    first.replicate()
    flushed(first.store, 2)
    in_tables(first.store)
    files = len(list(first.path.iterdir()))
    first.sees.at("upload", *[Fault.NONE] * (files // 2), Fault.REFUSED)
    with pytest.raises(BucketFailed):
        first.replicate()
    assert lists_of(fleet.rows_elsewhere()) == [1, 2]


def test_a_replica_that_fails_half_way_is_not_listed_and_the_next_one_is_whole(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    first.sees.at("upload", *[Fault.NONE] * 2, Fault.LOST, Fault.REFUSED)
    with pytest.raises(BucketFailed):
        first.replicate()
    assert first.store.manifests == [] and not list(first.data.glob("replica*"))
    flushed(first.store, 2)
    first.replicate()
    assert lists_of(fleet.rows_elsewhere()) == [1, 2]


def test_files_that_no_replica_needs_are_deleted(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    for number in range(2, 6):
        flushed(first.store, number)
        in_tables(first.store)
        first.replicate()
        first.tidy()
    kept = {file.place for _, manifest in first.store.manifests for file in manifest.files}
    assert len(first.store.manifests) == 2
    assert {name for name in fleet.bucket.objects if name.startswith("files/")} == kept
    assert lists_of(fleet.rows_elsewhere()) == [1, 2, 3, 4, 5]


def test_a_replica_waits_for_a_write_that_its_copy_may_have(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the replica would have a list that no record before its manifest has."""
    first = fleet.machine()
    store = first.open()
    flushed(store, 1)
    written, goes_on = threading.Event(), threading.Event()
    plain_write, lock = store._write, store._applying

    class Told:
        """Lets the writer go on once somebody waits for it."""

        def __enter__(self) -> None:
            if written.is_set():
                goes_on.set()
            lock.acquire()

        def __exit__(self, *problem: object) -> None:
            lock.release()

    def slow_write(batch: WriteBatch) -> None:
        plain_write(batch)
        written.set()
        assert goes_on.wait(PATIENCE_S)

    def copies(source: Path, target: Path) -> None:
        writer.start()
        assert written.wait(PATIENCE_S)
        copy_live(source, target)

    writer = threading.Thread(target=write, args=(store, 2))
    monkeypatch.setattr(store, "_applying", Told())
    monkeypatch.setattr(store, "_write", slow_write)
    monkeypatch.setattr(logged, "copy_live", copies)
    waited = []
    first.sees.at("upload", lambda: waited.append(goes_on.is_set()), goes_on.set)
    first.replicate()
    writer.join()
    assert waited == [True]
    assert lists_of(fleet.rows_elsewhere()) == [1, 2]


def test_replicas_that_are_made_while_others_write_and_flush_are_whole(fleet: Fleet) -> None:
    first = fleet.machine()
    store = first.open()
    flushed(store, 1)
    over = threading.Event()
    failed: list[BaseException] = []

    def flushes() -> None:
        try:
            while not over.is_set():
                store.flush()
        except BaseException as problem:
            failed.append(problem)

    def replicates() -> None:
        try:
            while not over.is_set():
                first.replicate()
                first.tidy()
        except BaseException as problem:
            failed.append(problem)

    threads = [threading.Thread(target=each) for each in (flushes, replicates)]
    for thread in threads:
        thread.start()
    rows = rows_of(store)
    number = 2
    while number < 300 or len(store.manifests) < 2:
        changes = change(rows, number, (number, number % 3), (number - 2,))
        store.write(changes)
        rows = applied(rows, changes)
        number += 1
        if number % 100 == 0:
            assert not failed
    over.set()
    for thread in threads:
        thread.join()
    assert not failed
    store.flush()
    assert rows_of(store) == rows
    assert fleet.rows_elsewhere() == rows
