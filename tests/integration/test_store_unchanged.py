"""Stores that are opened unchanged: read as they are, and not a byte or a time of a file in them moves."""

import fcntl
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from frontier_server.core.rows.store import Family, StoreDamaged
from frontier_server.stores.log_format import BLOCK
from frontier_server.stores.power_cut import hole_at
from frontier_server.stores.rocks import RocksStore, StoreUnavailable
from frontier_server.stores.unchanged import StoreInUse, open_unchanged

CACHE_BYTES = 1024 * 1024
ROW = (Family.SEEN, b"key")
HOLDER = """
import sys
from pathlib import Path
from frontier_server.stores.rocks import RocksStore
store = RocksStore(Path(sys.argv[1]))
print(flush=True)
input()
"""


def state_of(path: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """The content, times and links of all files and directories."""
    return {
        str(each.relative_to(path)): (
            each.stat().st_mtime_ns,
            each.stat().st_ctime_ns,
            each.stat().st_nlink,
            each.read_bytes() if each.is_file() else b"",
        )
        for each in (path, *path.rglob("*"))
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one row in a table, and one in the log."""
    store = RocksStore(tmp_path / "store")
    store.write({(Family.SEEN, b"old"): b"in a table"})
    store.rotate_wal()
    store.write({ROW: b"in the log"})
    store.flush()
    store.close()
    return tmp_path / "store"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def rows_of(store: RocksStore) -> list[bytes | None]:
    return store.get_many(Family.SEEN, [b"old", b"key"])


def test_two_at_once_read_the_store_and_leave_no_trace(path: Path, temporary: Path) -> None:
    before = state_of(path)
    one, another = (open_unchanged(path, CACHE_BYTES) for _ in range(2))
    assert rows_of(one) == rows_of(another) == [b"in a table", b"in the log"]
    one.close()
    another.close()
    assert state_of(path) == before
    assert not list(temporary.iterdir())


def test_a_store_that_may_not_be_written_to_is_read(path: Path) -> None:
    for each in (*path.iterdir(), path):
        each.chmod(0o555 if each.is_dir() else 0o444)
    try:
        before = state_of(path)
        store = open_unchanged(path, CACHE_BYTES)
        assert rows_of(store) == [b"in a table", b"in the log"]
        store.close()
        assert state_of(path) == before
    finally:
        path.chmod(0o755)


def test_a_server_may_start_meanwhile_and_rewrite_all_tables(path: Path) -> None:
    reader = open_unchanged(path, CACHE_BYTES)
    server = RocksStore(path)
    server.write({ROW: b"newer", (Family.SEEN, b"old"): None})
    server.rotate_wal()
    server.close()
    for table in path.glob("*.sst"):
        table.unlink()
    assert rows_of(reader) == [b"in a table", b"in the log"]
    reader.close()


def test_a_store_that_a_server_has_open_is_refused_without_taking_its_lock(path: Path) -> None:
    holder = subprocess.Popen(
        (sys.executable, "-c", HOLDER, str(path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None and holder.stdout is not None
    with holder.stdin, holder.stdout:
        assert holder.stdout.readline() == b"\n"
        before = state_of(path)
        with pytest.raises(StoreInUse, match="a frontier runs on it"):
            open_unchanged(path, CACHE_BYTES)
        assert state_of(path) == before
        holder.stdin.write(b"\n")
        holder.stdin.flush()
        assert holder.wait(60) == 0
    open_unchanged(path, CACHE_BYTES).close()
    with (path / "LOCK").open("ab") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it is free


def test_a_store_that_a_power_cut_has_hit_is_mended_only_for_the_reader(
    path: Path, tmp_path: Path, temporary: Path
) -> None:
    store = RocksStore(path)
    for number in range(4):
        store.write({(Family.SEEN, b"%d" % number): b"x" * 2 * BLOCK})
    store.flush()
    left = tmp_path / "left"
    shutil.copytree(path, left, ignore=shutil.ignore_patterns("LOCK"))
    store.close()
    (log,) = [each for each in left.glob("*.log") if each.stat().st_size > 4 * BLOCK]
    data = bytearray(log.read_bytes())
    data[6 * BLOCK : 7 * BLOCK] = bytes(BLOCK)
    assert hole_at(data) is not None
    log.write_bytes(data)
    before = state_of(left)
    reader = open_unchanged(left, CACHE_BYTES)
    assert reader.get(Family.SEEN, b"0") is not None
    assert reader.get(Family.SEEN, b"3") is None
    reader.close()
    assert state_of(left) == before
    assert not list(temporary.iterdir()) and not list(tmp_path.glob("*.cut"))


def test_where_no_store_is_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no store in it"):
        open_unchanged(tmp_path / "store", CACHE_BYTES)
    assert not list(tmp_path.iterdir())


def test_a_damaged_store_is_told_by_its_own_path(path: Path, temporary: Path) -> None:
    for table in path.glob("*.sst"):
        table.write_bytes(b"\0" * table.stat().st_size)
    with pytest.raises(StoreDamaged) as caught:
        open_unchanged(path, CACHE_BYTES)
    assert str(path) in str(caught.value) and str(temporary) not in str(caught.value)
