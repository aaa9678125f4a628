"""A store whose MANIFEST lost a page of its last record to a power cut opens; a damaged one does not."""

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows.store import Family, StoreDamaged
from frontier_server.stores.log_format import BLOCK
from frontier_server.stores.manifest import MOST_UNSYNCED, SECTOR, crc32c, torn_at
from frontier_server.stores.rocks import RocksStore

ROWS = {(Family.SEEN, b"%03d" % number): b"row" for number in range(100)}
FULL, FIRST, LAST = 1, 2, 4
HEADER_BYTES = 7


def record(payload: bytes, kind: int = FULL) -> bytes:
    """A record of RocksDB's logs that is in one part, or a part of one."""
    crc = crc32c(bytes((kind,)) + payload)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<IHB", masked, len(payload), kind) + payload


def ignored(length: int) -> bytes:
    """An edit of a MANIFEST that says something which RocksDB does not know, and need not know."""
    tag = b"\x81\x40"  # the bit 13 of a tag: safe to ignore
    return tag + bytes((length & 0x7F | 0x80, length >> 7)) + b"x" * length


def filled(data: bytes, left: int) -> bytes:
    """A MANIFEST of one block that goes on until so many bytes of it are left."""
    while (missing := BLOCK - left - len(data)) > 2_000:
        data += record(ignored(1_000))
    return data + record(ignored(missing - HEADER_BYTES - 4))


def torn(before: bytes, after: bytes, lacking: int) -> bytes:
    """What was there and synced, and an unsynced end of which a sector never came."""
    data = bytearray(before + after)
    begin = (len(before) // SECTOR + lacking) * SECTOR
    data[max(begin, len(before)) : begin + SECTOR] = bytes(
        max(min(begin + SECTOR, len(data)) - max(begin, len(before)), 0)
    )
    return bytes(data)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """A store that has rows in files and rows in its log."""
    made = RocksStore(tmp_path / "store")
    for number, row in enumerate(ROWS.items()):
        made.write(dict((row,)))
        if number in (30, 60):
            made.rotate_wal()
    made.close()
    yield tmp_path / "store"


def manifest(store: Path) -> Path:
    """The one that counts."""
    return store / (store / "CURRENT").read_text().strip()


def test_the_checksum_is_that_of_rfc_3720() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_a_whole_manifest_of_rocksdb_is_not_torn(store: Path) -> None:
    data = manifest(store).read_bytes()
    assert len(data) > 1_000 and torn_at(data) is None
    assert all(torn_at(data[:size]) is None for size in range(0, len(data), 37)), (
        "its end is missing: as ever"
    )


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_a_store_that_lacks_a_page_of_the_last_record_of_its_manifest_opens_with_all_rows(
    store: Path, lacking: int
) -> None:
    """RocksDB itself bears that the first is missing."""
    path = manifest(store)
    whole = path.read_bytes()
    damaged = torn(whole, record(random.Random(lacking).randbytes(3 * SECTOR)), lacking)
    path.write_bytes(damaged)
    opened = RocksStore(store)
    assert {(Family.SEEN, key): value for key, value in opened.scan(Family.SEEN, b"", b"")} == ROWS
    opened.close()
    kept = [each.read_bytes() for each in store.parent.glob(f"store.{path.name}.cut")]
    assert kept == ([damaged] if lacking else [])
    RocksStore(store).close()


@pytest.mark.sampled("lacking", [{0}, {1}, {2}, {3}, {0, 1}, {0, 2}, {0, 3}, {2, 3}, {1, 2, 3}, {2, 3, 4}])
@pytest.mark.sampled("left", [HEADER_BYTES, 100, SECTOR, SECTOR + 100])
def test_so_does_one_whose_last_record_lies_in_two_blocks(store: Path, left: int, lacking: set[int]) -> None:
    """RocksDB looks for the next record behind zeros in the next block, and finds the rest of this one."""
    path = manifest(store)
    before = filled(path.read_bytes(), left)
    assert len(before) == BLOCK - left
    edit = ignored(2 * SECTOR)
    first, last = edit[: left - HEADER_BYTES], edit[left - HEADER_BYTES :]
    data = before + record(first, FIRST) + record(last, LAST)
    for one in lacking:
        data = torn(before, data[len(before) :], one)
    path.write_bytes(data)
    opened = RocksStore(store)
    assert {(Family.SEEN, key): value for key, value in opened.scan(Family.SEEN, b"", b"")} == ROWS
    opened.close()


def test_a_store_whose_manifest_is_wrong_for_another_reason_is_damaged_and_left_as_it_is(store: Path) -> None:
    """What the record says may have been done: without it rows would be missing, and nobody would know."""
    path = manifest(store)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    for read_only in (False, True):
        with pytest.raises(StoreDamaged):
            RocksStore(store, read_only)
    assert path.read_bytes() == data and not list(store.parent.glob("*.cut"))


def test_a_page_that_is_missing_long_before_the_end_is_damage(store: Path) -> None:
    path = manifest(store)
    whole = path.read_bytes()
    later = b"".join(record(bytes((number,)) * 2_000) for number in range(1, 10))
    data = torn(whole, record(b"x" * 3 * SECTOR) + later, 1)
    assert len(later) > MOST_UNSYNCED
    path.write_bytes(data)
    with pytest.raises(StoreDamaged):
        RocksStore(store)
    assert path.read_bytes() == data


@given(
    st.lists(st.binary(min_size=1, max_size=900), max_size=8),
    st.binary(min_size=1, max_size=4_000).map(lambda data: data.replace(b"\0", b"\1")),
    st.sets(st.integers(0, 8), min_size=1),
)
def test_what_was_synced_is_never_cut_off(synced: list[bytes], last: bytes, lacking: set[int]) -> None:
    """Whichever sectors of the last record never came."""
    before = b"".join(map(record, synced))
    data = before + record(last)
    for one in lacking:
        data = torn(before, data[len(before) :], one)
    at = torn_at(data)
    assert at in (None, len(before))
    if data != before + record(last) and len(data) < BLOCK and any(data[len(before) :]):
        assert at == len(before), "a record that lacks a sector is found"
    assert torn_at(before) is None and torn_at(before + record(last)) is None


def test_a_store_whose_new_manifest_never_came_opens_by_the_one_before(store: Path) -> None:
    """RocksDB lets CURRENT name a MANIFEST before both names are durable."""
    before = manifest(store)
    (store / "CURRENT").write_text("MANIFEST-000999\n")
    opened = RocksStore(store)
    assert {(Family.SEEN, key): value for key, value in opened.scan(Family.SEEN, b"", b"")} == ROWS
    opened.close()
    assert not before.exists(), "RocksDB has made a new one, and has deleted this one"


@pytest.mark.parametrize("unfinished", [b"", record(ignored(100))[:50]])
def test_a_manifest_that_was_never_finished_is_passed_over(store: Path, unfinished: bytes) -> None:
    (store / "MANIFEST-000998").write_bytes(unfinished)
    (store / "CURRENT").write_text("MANIFEST-000999\n")
    opened = RocksStore(store)
    assert {(Family.SEEN, key): value for key, value in opened.scan(Family.SEEN, b"", b"")} == ROWS
    opened.close()


def test_a_store_whose_only_manifest_is_gone_is_damaged_and_left_as_it_is(store: Path) -> None:
    manifest(store).unlink()
    there = sorted(path.name for path in store.iterdir())
    for read_only in (False, True):
        with pytest.raises(StoreDamaged):
            RocksStore(store, read_only)
    assert sorted(path.name for path in store.iterdir() if not path.name.startswith("LOG.old")) == there
