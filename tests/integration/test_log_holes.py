"""What a power cut leaves of a store's log is a beginning of it: nothing later without what came before."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import WriteBatch

from frontier_server.core.rows.store import Family, StoreDamaged
from frontier_server.stores.log_format import BLOCK
from frontier_server.stores.manifest import crc32c
from frontier_server.stores.power_cut import hole_at
from frontier_server.stores.rocks import RocksStore, StoreUnavailable

PAGE = 4096
HEADER_BYTES = 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
WRITES = 6
HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print(flush=True)
    input()
"""


def key(number: int) -> bytes:
    """The key of the row that a write puts."""
    return b"%04d" % number


def batch_bytes(value: bytes) -> int:
    """How long a write of one row is in the log."""
    batch = WriteBatch(raw_mode=True)
    batch.put(key(0), value)
    return int(batch.size_in_bytes()) + 1  # and the family


ROOM = BLOCK - HEADER_BYTES
VALUE = b"x" * (2 * ROOM - batch_bytes(b"x" * ROOM))


def killed(store: RocksStore, path: Path, left: Path) -> Path:
    """Ends a store after a copy of it, with the logs that its process would leave if it were killed."""
    store.flush()
    shutil.copytree(path, left, ignore=shutil.ignore_patterns("LOCK"))
    store.close()
    return left


def written(path: Path) -> Path:
    """A killed store whose writes have a block of the log each; the log."""
    store = RocksStore(path)
    for number in range(WRITES):
        store.write({(Family.SEEN, key(number)): VALUE})
    left = killed(store, path, path.with_name("left"))
    (log,) = [each for each in left.glob("*.log") if each.stat().st_size]
    assert log.stat().st_size == WRITES * BLOCK
    return log


def with_hole(data: bytes, begin: int, length: int = PAGE) -> bytes:
    """A log of which that never reached the disk."""
    return data[:begin] + bytes(length) + data[begin + length :]


def rows(path: Path) -> list[bytes]:
    """What is there when the store is opened."""
    store = RocksStore(path)
    found = [key for key, _ in store.scan(Family.SEEN, b"", b"")]
    store.close()
    return found


@pytest.mark.parametrize("lacking", range(WRITES))
def test_where_the_beginning_of_a_write_is_missing_the_store_ends_before_it(
    tmp_path: Path, lacking: int
) -> None:
    """RocksDB by itself goes on with the next block, and takes in what came later."""
    log = written(tmp_path / "store")
    data = with_hole(log.read_bytes(), lacking * BLOCK)
    log.write_bytes(data)
    assert rows(log.parent) == [key(number) for number in range(lacking)]
    kept = [each.read_bytes() for each in tmp_path.glob(f"left.{log.name}.cut")]
    assert kept == [data]
    assert rows(log.parent) == [key(number) for number in range(lacking)]


@pytest.mark.parametrize("begin", [2 * BLOCK, 2 * BLOCK + 2 * PAGE])
def test_a_log_behind_one_with_a_hole_is_not_taken_in(tmp_path: Path, begin: int) -> None:
    """Where flushes cannot keep up RocksDB begins a log by itself, before the end of the last is durable."""
    log = written(tmp_path / "store")
    data = with_hole(log.read_bytes(), begin)
    log.with_name(f"{int(log.stem) + 1:06d}.log").write_bytes(data[3 * BLOCK :])
    log.write_bytes(data[: 3 * BLOCK])
    for _ in range(2):
        assert rows(log.parent) == [key(0), key(1)]


def test_rows_in_files_that_the_log_lacks_are_told(tmp_path: Path) -> None:
    """A family was flushed, another was not, and the log between is damaged: acknowledged rows are gone."""
    path = tmp_path / "store"
    store = RocksStore(path)
    for number in range(WRITES):
        store.write({(Family.SEEN, key(number)): VALUE, (Family.INDEX, key(number)): b"x"})
    store._families[Family.SEEN].flush(True)
    store.write({(Family.SEEN, b"later"): b"x"})
    left = killed(store, path, path.with_name("left"))
    (log,) = [each for each in left.glob("*.log") if each.stat().st_size > WRITES * BLOCK // 2]
    log.write_bytes(with_hole(log.read_bytes(), 2 * BLOCK, BLOCK))
    with pytest.raises(StoreDamaged):
        RocksStore(left)


def test_an_old_log_that_reappears_leaves_later_logs_alone(tmp_path: Path) -> None:
    """RocksDB removes a log whose writes are all in files; a power cut may bring it back, with a hole."""
    log = written(tmp_path / "store")
    again = with_hole(log.read_bytes(), 2 * BLOCK)
    log.write_bytes(again[: 2 * BLOCK])
    store = RocksStore(log.parent)  # which puts the two writes into files
    store.write({(Family.SEEN, b"later"): b"acknowledged"})
    left = killed(store, log.parent, tmp_path / "cut")
    assert not (left / log.name).exists()
    (left / log.name).write_bytes(again)
    assert rows(left) == [key(0), key(1), b"later"]


def test_a_log_that_another_process_writes_to_is_left_alone(tmp_path: Path) -> None:
    log = written(tmp_path / "store")
    data = with_hole(log.read_bytes(), BLOCK)
    log.write_bytes(data)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, log.with_name("LOCK")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(StoreUnavailable, match="in use"):
            RocksStore(log.parent)
        other.kill()
    assert log.read_bytes() == data
    assert rows(log.parent) == [key(0)]


def test_a_whole_log_and_one_with_room_behind_it_stay_as_they_are(tmp_path: Path) -> None:
    log = written(tmp_path / "store")
    with log.open("ab") as file:
        file.write(bytes(3 * PAGE))
    assert rows(log.parent) == [key(number) for number in range(WRITES)]
    assert not list(tmp_path.glob("*.cut"))


def parts(payload: bytes, at: int) -> bytes:
    """A record as RocksDB writes it at that place of a log."""
    written, left = b"", len(payload)
    while True:
        room = BLOCK - (at + len(written)) % BLOCK
        if room < HEADER_BYTES:
            written += bytes(room)
            continue
        size = min(left, room - HEADER_BYTES)
        first, last = left == len(payload), size == left
        kind = FULL if first and last else FIRST if first else LAST if last else MIDDLE
        part = payload[len(payload) - left : len(payload) - left + size]
        crc = crc32c(bytes((kind,)) + part)
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        written += struct.pack("<IHB", masked, size, kind) + part
        left -= size
        if not left:
            return written


def log_of(sizes: list[int]) -> bytes:
    """A log with records of these sizes, which hold many zeros."""
    data = b""
    for number, size in enumerate(sizes):
        data += parts((bytes((number + 1,)) + bytes(99) * (size // 100 + 1))[:size], len(data))
    return data


SIZES = st.lists(st.one_of(st.integers(1, 300), st.integers(1, 9_000), st.just(BLOCK - 7)), max_size=9)


@given(SIZES, SIZES, st.integers(0, 2**32))
def test_no_page_that_is_missing_lets_anything_later_in(
    synced: list[int], unsynced: list[int], seed: int
) -> None:
    """A hole is cut where it begins, and nothing that was synced is cut off. Pages with zeros alone, which no
    record begins on, are none."""
    data = bytearray(log_of(synced + unsynced))
    durable = len(log_of(synced))
    assert hole_at(data) is None
    chance = Random(seed)
    lacking = [page for page in range(durable // PAGE, -(-len(data) // PAGE)) if chance.random() < 0.4]
    for page in lacking:
        begin, end = max(page * PAGE, durable), min((page + 1) * PAGE, len(data))
        data[begin:end] = bytes(max(end - begin, 0))
    at = hole_at(data)
    whole = log_of(synced + unsynced)
    assert at is None or at >= durable
    left = bytes(data if at is None else data[: at + 1])
    assert hole_at(left) is None
    assert taken_in(left) == taken_in(whole)[: len(taken_in(left))]


def taken_in(data: bytes) -> list[bytes]:
    """What RocksDB takes in: it steps over zeros to the next block, and stops at what is wrong."""
    found: list[bytes] = []
    at, record = 0, None
    while at + HEADER_BYTES <= len(data):
        room = BLOCK - at % BLOCK
        checksum, size, kind = struct.unpack_from("<IHB", data, at) if room >= HEADER_BYTES else (0, 0, 0)
        if not (size or kind):
            if record is not None and room >= HEADER_BYTES:
                return found
            at += room
            continue
        part = data[at + HEADER_BYTES : at + HEADER_BYTES + size]
        crc = crc32c(bytes((kind,)) + part)
        if len(part) < size or ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != checksum:
            return found
        if (record is None) != (kind in (FULL, FIRST)):
            return found
        record = (record or b"") + part
        if kind in (FULL, LAST):
            found.append(record)
            record = None
        at += HEADER_BYTES + size
    return found
