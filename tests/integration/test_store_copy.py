"""Copies of a store that is written to meanwhile: each is the store as it was at one moment."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from frontier_harness.in_process import config, opened
from frontier_harness.waiting import PATIENCE_S, soon

from frontier_server.core.rows.store import Changes, Family, WriteStalled
from frontier_server.logs.job_feed import JobFeed
from frontier_server.logs.job_log import JobLogs
from frontier_server.shell.runner import Runner
from frontier_server.stores.checkpoints import Checkpoints
from frontier_server.stores.rocks import RocksStore

FAMILIES = (Family.QUEUES, Family.PENDING, Family.SEEN)
COPIES = 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksStore]:
    made = RocksStore(tmp_path / "store")
    yield made
    made.close()


def row(number: int) -> Changes:
    """A write over several families. Some of its rows replace earlier ones: there is work for compaction."""
    key = b"%08d" % number
    changes: Changes = {(family, key): key for family in FAMILIES}
    changes |= {(family, b"last"): key for family in FAMILIES}
    changes[Family.EVENTS, b"%04d" % (number % 1000)] = os.urandom(2000)
    return changes


def last_of(path: Path) -> int:
    """The last write that a copy has. It has all before that, each whole, and no later one."""
    copy = RocksStore(path)
    try:
        said = {copy.get(family, b"last") or b"0" for family in FAMILIES}
        assert len(said) == 1, said
        last = int(said.pop())
        for family in FAMILIES:
            keys = [key for key, _ in copy.scan(family, b"", b"0")]
            assert keys == [b"%08d" % number for number in range(1, last + 1)]
        return last
    finally:
        copy.close()


class Writer:
    """Writes in a thread of its own, and lets RocksDB flush and compact meanwhile."""

    def __init__(self, store: RocksStore) -> None:
        self._store = store
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written = 0

    def _write(self) -> None:
        while not self._over.is_set():
            try:
                self._store.write(row(self.written + 1))
            except WriteStalled:  # where the disk is busy flushes fall behind
                self._over.wait(0.01)
                continue
            self.written += 1
            if self.written % 200 == 0:
                for family in self._store._families.values():
                    family.flush(False)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.parametrize("links", [True, False], ids=["linked", "copied"])
def test_a_copy_has_all_that_was_written_before_and_stops_at_one_write(
    store: RocksStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr("os.link", _other_disk)
    befores = []
    with Writer(store) as writer:
        for number in range(COPIES):
            befores.append(writer.written)
            store.checkpoint(tmp_path / str(number))
    for number, before in enumerate(befores):
        assert before <= last_of(tmp_path / str(number)) <= writer.written


def _other_disk(*_: object) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def test_the_store_and_its_copies_go_separate_ways(store: RocksStore, tmp_path: Path) -> None:
    for number in range(1, 11):
        store.write(row(number))
    store.checkpoint(tmp_path / "one")
    store.write(row(11))
    copy = RocksStore(tmp_path / "one")
    for number in range(11, 31):
        copy.write(row(number))
    copy.checkpoint(tmp_path / "two")
    copy.close()
    assert int(store.get(Family.SEEN, b"last") or b"") == 11
    assert [last_of(tmp_path / name) for name in ("one", "two")] == [30, 30]


def test_names_of_a_copy_are_durable_before_it_has_its_own(
    store: RocksStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[set[str]] = []

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            synced.append({entry.name for entry in path.iterdir()})

    checkpoints = Checkpoints(tmp_path, store)
    store.write(row(1))
    monkeypatch.setattr("os.fsync", fsync)
    kept = checkpoints.create(0)
    assert {entry.name for entry in kept.path.iterdir()} in synced
    assert {kept.name} in synced


def test_a_copy_that_fails_leaves_nothing_behind(
    store: RocksStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    checkpoints = Checkpoints(tmp_path, store)
    with monkeypatch.context() as trouble:
        trouble.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            checkpoints.create(0)
        assert checkpoints.kept() == []
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == []
    assert checkpoints.create(0).name.startswith("cp00001-")


# Nobody waits for one.


async def test_the_event_loop_turns_while_a_checkpoint_is_made(store: RocksStore, tmp_path: Path) -> None:
    """With something in every family, which RocksDB's own checkpoint would write out first."""
    checkpoints = Checkpoints(tmp_path, store)
    for number in range(200):
        store.write({(family, b"%d" % number): os.urandom(1000) for family in Family})

    async def turns() -> int:
        making = asyncio.create_task(asyncio.to_thread(checkpoints.create, 0))
        count = 0
        while not making.done():
            count += 1
            await asyncio.sleep(0)
        await making
        return count

    # This thread may be kept waiting for all of one; of each, where the interpreter's lock is held.
    assert max([await turns() for _ in range(5)]) > 20


async def test_neither_readers_nor_the_end_of_a_job_wait_for_a_checkpoint_that_is_being_made(
    store: RocksStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path, store)
    kept = await asyncio.to_thread(checkpoints.create, 0)
    begun, go_on = threading.Event(), threading.Event()
    whole = RocksStore.checkpoint

    def slow(self: RocksStore, path: Path) -> None:
        begun.set()
        go_on.wait(2 * PATIENCE_S)
        whole(self, path)

    monkeypatch.setattr(RocksStore, "checkpoint", slow)
    making = asyncio.create_task(asyncio.to_thread(checkpoints.create, 0))
    try:
        await soon(begun.is_set, "its beginning")
        # In threads, so that a test of what fails ends.
        await asyncio.wait_for(asyncio.to_thread(checkpoints.open, kept.name), PATIENCE_S)
        await asyncio.wait_for(checkpoints.close_readers(), PATIENCE_S)
        assert not making.done()
    finally:
        go_on.set()
    assert (await making).name.startswith("cp00002-")


async def test_a_copy_that_a_request_has_opened_is_closed_without_any_job(tmp_path: Path) -> None:
    """A launch that is refused starts no job, and a deleted checkpoint takes disk space while it is open."""
    settings = config(tmp_path)
    store = RocksStore(tmp_path / "store")
    core, clock = opened(store, settings)
    checkpoints = Checkpoints(tmp_path, store)
    feed = JobFeed(JobLogs(tmp_path), core)
    runner = Runner(core, store, clock, tmp_path, 0, 3_000, feed, when_idle=checkpoints.close_readers)
    try:
        name = checkpoints.create(0).name
        reader = checkpoints.open(name)
        await soon(lambda: checkpoints.open(name) is not reader, "its closing")
    finally:
        await runner.close()
