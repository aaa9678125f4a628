"""Machines whose stores have a log in one bucket, and what tests write to them and find there."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from frontier_harness.buckets import FaultyBucket, MemoryBucket
from frontier_harness.clocks import StillClock

from frontier_server.core.rows.keys import SERVER, CrawlRow, crawl_key
from frontier_server.core.rows.store import Changes, Family
from frontier_server.replicated.object_log import LIST_LAG_S, ObjectLog
from frontier_server.replicated.replicas import Replicas
from frontier_server.stores.logged import MARK_KEY, LoggedStore, open_logged
from frontier_server.stores.rocks import RocksStore

CACHE_BYTES = 1024 * 1024
COUNT_KEY = crawl_key(SERVER, CrawlRow.SERVER)
Rows = dict[tuple[Family, bytes], bytes]
USED = (Family.CRAWLS, Family.SEEDS, Family.PENDING, Family.HOSTS)
"""The families that tests write to."""
BEGIN_S = 1e9
"""When the clocks of tests begin: later than the system's, by which a store goes until it is open."""


class NotingBucket(FaultyBucket):
    """A bucket that notes which objects it was asked for."""

    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket)
        self.got: list[str] = []
        self.downloaded: list[str] = []
        self.uploaded: list[str] = []

    def get(self, name: str) -> bytes | None:
        self.got.append(name)
        return super().get(name)

    def upload(self, name: str, path: Path) -> None:
        self.uploaded.append(name)
        super().upload(name, path)

    def download(self, name: str, path: Path) -> bool:
        self.downloaded.append(name)
        return super().download(name, path)


class Machine:
    """A machine with a directory, and perhaps a process, which believes that it owns the log."""

    def __init__(self, data: Path, bucket: MemoryBucket, clock: StillClock) -> None:
        data.mkdir()
        self.data, self.path = data, data / "store"
        self.bucket, self.clock = bucket, clock
        self.sees = NotingBucket(bucket)
        self.running: LoggedStore | None = None
        self.rests: Callable[[], None] = lambda: None
        """What happens while it waits for a second try."""

    @property
    def store(self) -> LoggedStore:
        """The store of its process, which must run."""
        assert self.running is not None
        return self.running

    def open(self) -> LoggedStore:
        """Start a process, which claims the log."""
        self.die()
        self.sees = NotingBucket(self.bucket)
        log = ObjectLog(self.sees, "1", "cluster", "1.0", self.clock, waits=lambda rest_s: self.rests())
        replicas = Replicas(self.sees, "1")
        self.running = open_logged(self.data, log, replicas, "1.0", CACHE_BYTES, now_ms=1)
        self.running._clock_s = self.clock
        return self.running

    def replicate(self) -> None:
        """Make a replica of the store."""
        self.store.replicate(self.data, now_ms=2)

    def tidy(self) -> None:
        """Delete what no replica needs, once lists show the newest one."""
        self.clock.now_s += LIST_LAG_S
        self.store.tidy()

    def die(self) -> None:
        """End the process, whatever it has not appended."""
        if self.running is not None:
            self.running.close()
            self.running = None

    def lose(self) -> None:
        """Lose the process and the disk."""
        self.die()
        shutil.rmtree(self.path, ignore_errors=True)


class Fleet:
    """Machines that share a bucket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = StillClock(BEGIN_S)
        self.bucket = MemoryBucket(self.clock)
        self.machines: list[Machine] = []

    def machine(self) -> Machine:
        """Another machine, with an empty disk and no process."""
        made = Machine(self.directory / f"machine-{len(self.machines)}", self.bucket, self.clock)
        self.machines.append(made)
        return made

    def rows_elsewhere(self) -> Rows:
        """The rows that a new machine has once it has opened the log."""
        other = self.machine()
        try:
            return rows_of(other.open())
        finally:
            other.lose()

    def close(self) -> None:
        """End all processes."""
        for machine in self.machines:
            machine.die()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Machines that may come, whose processes end with the test."""
    made = Fleet(tmp_path)
    yield made
    made.close()


def rows_of(store: RocksStore) -> Rows:
    """All rows of a store but its mark. Checks that they are of one moment: one of them counts others."""
    rows: Rows = {}
    for family in USED:
        rows |= {(family, key): value for key, value in store.scan(family, b"", b"")}
    rows.pop((Family.CRAWLS, MARK_KEY), None)
    assert int(rows.get((Family.CRAWLS, COUNT_KEY), b"0")) == pending(rows)
    return rows


def pending(rows: Rows) -> int:
    """How many rows the counting row must count."""
    return sum(family is Family.PENDING for family, _ in rows)


def change(rows: Rows, number: int, puts: Sequence[int] = (), deletes: Sequence[int] = ()) -> Changes:
    """A change list for a store with some rows. It puts and deletes PENDING rows, counts those that there are
    then, and leaves its number in a SEEDS row."""
    changes: Changes = {(Family.PENDING, b"%d" % key): b"%d" % number for key in puts}
    changes |= {(Family.PENDING, b"%d" % key): None for key in deletes}
    changes |= {(Family.SEEDS, b"%06d" % number): b"", (Family.HOSTS, b"last"): b"%d" % number}
    changes[Family.CRAWLS, COUNT_KEY] = b"%d" % pending(applied(rows, changes))
    return changes


def applied(rows: Rows, changes: Changes) -> Rows:
    """The rows after a change list."""
    after = dict(rows)
    for key, value in changes.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def write(store: LoggedStore, *numbers: int) -> None:
    """Write change lists of these numbers. Each puts a new row, replaces one and deletes one."""
    for number in numbers:
        puts, deletes = (number, number % 3), (number - 2,)
        store.write(change(rows_of(store), number, puts, deletes))


def flushed(store: LoggedStore, *numbers: int) -> None:
    """Write change lists of these numbers, each in a record of its own."""
    for number in numbers:
        write(store, number)
        store.flush()


def in_tables(store: LoggedStore) -> None:
    """Let RocksDB write all rows to files that never change."""
    for family in store._families.values():
        family.flush(True)


def lists_of(rows: Rows) -> list[int]:
    """The numbers of the change lists that some rows come from."""
    return [int(key) for family, key in sorted(rows, key=lambda each: each[1]) if family is Family.SEEDS]


def table_with(path: Path, row: bytes) -> Path:
    """The file of a store that has a row."""
    return next(each for each in path.glob("*.sst") if row in each.read_bytes())
