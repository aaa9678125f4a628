"""One suite for every store: what the core may rely on, in memory and in RocksDB."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from core_doubles.memory_store import MemoryStore
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows.store import Changes, Family, StoreFailed, WritableStore
from frontier_server.stores import rocks
from frontier_server.stores.rocks import RocksStore, StoreUnavailable

ALL_BYTES = [bytes((byte,)) for byte in range(256)]
ODD_KEYS = [b"\x00", b"\x00\x00", b"\xff", b"\xff\xff\xff", b"a\x00b", b"a\xffb", b"\n", b"%", b"\xc3\x28"]


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WritableStore]:
    """An empty store of each kind."""
    made: WritableStore = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "db")
    yield made
    made.close()


def put(store: WritableStore, rows: dict[bytes, bytes], family: Family = Family.SEEN) -> None:
    """Write rows of a family."""
    changes: Changes = {(family, key): value for key, value in rows.items()}
    store.write(changes)


def rows(
    store: WritableStore, prefix: bytes = b"", start: bytes = b"", family: Family = Family.SEEN
) -> list[tuple[bytes, bytes]]:
    """A scan, read to its end."""
    return list(store.scan(family, start, prefix))


def test_a_new_store_has_every_family_empty(store: WritableStore) -> None:
    for family in Family:
        assert rows(store, family=family) == []
        assert store.get(family, b"key") is None
        assert store.get_many(family, [b"a", b"b"]) == [None, None]


def test_what_was_written_is_shown_at_once(store: WritableStore) -> None:
    put(store, {b"a": b"1", b"b": b""})
    assert (store.get(Family.SEEN, b"a"), store.get(Family.SEEN, b"b")) == (b"1", b"")
    assert rows(store) == [(b"a", b"1"), (b"b", b"")]


def test_many_values_come_in_the_order_of_their_keys(store: WritableStore) -> None:
    put(store, {b"a": b"1", b"c": b"3"})
    wanted = [b"c", b"b", b"a", b"c", b""]
    assert store.get_many(Family.SEEN, wanted) == [b"3", None, b"1", b"3", None]
    assert store.get_many(Family.SEEN, []) == []


def test_a_later_write_wins_and_a_deleted_key_is_gone(store: WritableStore) -> None:
    put(store, {b"a": b"1", b"b": b"2"})
    store.write({(Family.SEEN, b"a"): b"new", (Family.SEEN, b"b"): None, (Family.SEEN, b"never"): None})
    assert rows(store) == [(b"a", b"new")]
    assert store.get(Family.SEEN, b"b") is None
    put(store, {b"b": b"again"})
    assert store.get_many(Family.SEEN, [b"a", b"b"]) == [b"new", b"again"]


def test_families_do_not_see_each_other(store: WritableStore) -> None:
    store.write({(family, b"key"): family.value.encode() for family in Family})
    for family in Family:
        assert rows(store, family=family) == [(b"key", family.value.encode())]
    store.write({(Family.PENDING, b"key"): None})
    assert store.get(Family.PENDING, b"key") is None and store.get(Family.SEEN, b"key") == b"seen"


def test_an_empty_change_list_changes_nothing(store: WritableStore) -> None:
    put(store, {b"a": b"1"})
    store.write({})
    assert rows(store) == [(b"a", b"1")]


def test_a_change_list_can_be_written_twice(store: WritableStore) -> None:
    """After a stall the same batch is written again."""
    put(store, {b"old": b"1"})
    changes: Changes = {(Family.SEEN, b"old"): None, (Family.JOBS, b"new"): b"2"}
    store.write(changes)
    store.write(changes)
    assert rows(store) == [] and rows(store, family=Family.JOBS) == [(b"new", b"2")]


# Keys.


def test_keys_are_in_the_order_of_their_bytes(store: WritableStore) -> None:
    put(store, dict.fromkeys(reversed(ALL_BYTES), b"v") | dict.fromkeys(ODD_KEYS, b"v"))
    assert [key for key, _ in rows(store)] == sorted({*ALL_BYTES, *ODD_KEYS})


def test_any_bytes_may_be_in_a_key_and_a_value(store: WritableStore) -> None:
    put(store, {key: key[::-1] for key in ODD_KEYS})
    assert store.get_many(Family.SEEN, ODD_KEYS) == [key[::-1] for key in ODD_KEYS]


def test_a_scan_ends_with_its_prefix(store: WritableStore) -> None:
    put(store, dict.fromkeys([b"a", b"ab", b"ab\x00", b"ab\xff", b"ab\xff\xff", b"ac", b"b"], b"v"))
    assert [key for key, _ in rows(store, b"ab")] == [b"ab", b"ab\x00", b"ab\xff", b"ab\xff\xff"]
    assert rows(store, b"c") == rows(store, b"aa") == []


def test_a_scan_whose_prefix_has_no_successor_ends_with_the_family(store: WritableStore) -> None:
    put(store, dict.fromkeys([b"\xfe", b"\xff", b"\xff\xff", b"\xff\xffz"], b"v"))
    assert [key for key, _ in rows(store, b"\xff\xff")] == [b"\xff\xff", b"\xff\xffz"]


def test_a_scan_begins_at_its_start_or_at_its_prefix_if_that_is_later(store: WritableStore) -> None:
    put(store, dict.fromkeys([b"a1", b"a2", b"a3", b"b1"], b"v"))
    assert [key for key, _ in rows(store, b"a", start=b"a2")] == [b"a2", b"a3"]
    assert [key for key, _ in rows(store, b"a", start=b"a2\x00")] == [b"a3"]
    assert [key for key, _ in rows(store, b"a", start=b"")] == [b"a1", b"a2", b"a3"]
    assert rows(store, b"a", start=b"b") == []


def test_deleted_rows_are_not_scanned(store: WritableStore) -> None:
    keys = [b"q%04d" % number for number in range(2_000)]
    put(store, dict.fromkeys(keys, b"v"))
    store.write({(Family.SEEN, key): None for key in keys[:1_990]})
    assert [key for key, _ in rows(store, b"q")] == keys[1_990:]
    assert [key for key, _ in rows(store, b"q", start=keys[1_995])] == keys[1_995:]


# A scan is a view of one moment.


def test_a_scan_shows_one_moment_while_writes_go_on(store: WritableStore) -> None:
    """Rows that were there when it began come as they were; nothing later does."""
    put(store, {b"a": b"1", b"b": b"1", b"c": b"1", b"d": b"1"})
    scan = store.scan(Family.SEEN, b"", b"")
    assert next(scan) == (b"a", b"1")
    store.write({(Family.SEEN, b"b"): None, (Family.SEEN, b"c"): b"2", (Family.SEEN, b"bb"): b"new"})
    assert list(scan) == [(b"b", b"1"), (b"c", b"1"), (b"d", b"1")]
    assert rows(store) == [(b"a", b"1"), (b"bb", b"new"), (b"c", b"2"), (b"d", b"1")]


def test_two_scans_do_not_disturb_each_other(store: WritableStore) -> None:
    put(store, {b"a": b"1", b"b": b"2", b"c": b"3"})
    one, other = store.scan(Family.SEEN, b"", b""), store.scan(Family.SEEN, b"b", b"")
    assert [next(one)[0], next(other)[0], next(one)[0], next(other)[0]] == [b"a", b"b", b"b", b"c"]
    assert list(other) == [] and list(one) == [(b"c", b"3")]


def test_a_scan_that_is_left_unread_does_no_harm(store: WritableStore) -> None:
    put(store, {b"%d" % number: b"v" for number in range(100)})
    for _ in range(200):
        next(store.scan(Family.SEEN, b"", b""))
    put(store, {b"z": b"v"})
    assert len(rows(store)) == 101


# All together, against a dictionary.

KEYS = st.text(alphabet="ab\x00ÿ", max_size=3).map(lambda text: text.encode("latin-1"))
BATCHES = st.lists(
    st.dictionaries(
        st.tuples(st.sampled_from([Family.SEEN, Family.INDEX]), KEYS),
        st.none() | st.binary(max_size=3),
        max_size=6,
    ),
    max_size=6,
)


@given(BATCHES, KEYS, KEYS, st.lists(KEYS, max_size=4))
def test_memory_is_a_sorted_dictionary(
    batches: list[Changes], start: bytes, prefix: bytes, wanted: list[bytes]
) -> None:
    agrees(MemoryStore(), batches, start, prefix, wanted)


def test_rocksdb_is_a_sorted_dictionary(tmp_path: Path) -> None:
    """One database for all examples: what is left of one is deleted before the next."""
    store = RocksStore(tmp_path / "db")

    @given(BATCHES, KEYS, KEYS, st.lists(KEYS, max_size=4))
    def compare(batches: list[Changes], start: bytes, prefix: bytes, wanted: list[bytes]) -> None:
        for family in (Family.SEEN, Family.INDEX):
            store.write({(family, key): None for key, _ in rows(store, family=family)})
        agrees(store, batches, start, prefix, wanted)

    compare()
    store.close()


def agrees(
    store: WritableStore, batches: list[Changes], start: bytes, prefix: bytes, wanted: list[bytes]
) -> None:
    """Assert that a store shows what a dictionary would."""
    expected: dict[Family, dict[bytes, bytes]] = {Family.SEEN: {}, Family.INDEX: {}}
    for batch in batches:
        store.write(batch)
        for (family, key), value in batch.items():
            if value is None:
                expected[family].pop(key, None)
            else:
                expected[family][key] = value
    for family, held in expected.items():
        assert rows(store, family=family) == sorted(held.items())
        within = [(key, held[key]) for key in sorted(held) if key >= start and key.startswith(prefix)]
        assert rows(store, prefix, start, family) == within
        assert store.get_many(family, wanted) == [held.get(key) for key in wanted]


# Only of RocksDB: its cache, and durability.


def test_all_families_share_a_cache_of_the_size_that_is_asked_for(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "db", cache_bytes=3_000_000)
    families = store._families.values()
    assert {each.property_int_value("rocksdb.block-cache-capacity") for each in families} == {3_000_000}
    store.close()


def test_what_was_flushed_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "db")
    store.write({(family, key): family.value.encode() + key for family in Family for key in ODD_KEYS})
    store.write({(Family.SEEN, b"\xff"): None})
    store.flush()
    store.close()
    store = RocksStore(tmp_path / "db")
    for family in Family:
        kept = sorted(key for key in ODD_KEYS if family is not Family.SEEN or key != b"\xff")
        assert rows(store, family=family) == [(key, family.value.encode() + key) for key in kept]
    store.close()


def test_closing_keeps_what_was_written_without_a_flush(tmp_path: Path) -> None:
    """A clean shutdown flushes; the log has everything that was written."""
    store = RocksStore(tmp_path / "db")
    put(store, {b"a": b"1"})
    store.close()
    store = RocksStore(tmp_path / "db")
    assert rows(store) == [(b"a", b"1")]
    store.close()


def test_a_store_can_be_closed_with_a_scan_half_read_and_opened_again(tmp_path: Path) -> None:
    """No iterator may keep its lock."""
    store = RocksStore(tmp_path / "db")
    put(store, {b"a": b"1", b"b": b"2"})
    scan = store.scan(Family.SEEN, b"", b"")
    next(scan)
    del scan
    store.close()
    store = RocksStore(tmp_path / "db")
    assert store.get(Family.SEEN, b"b") == b"2"
    store.close()


def test_a_store_in_use_is_not_opened_twice(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "db")
    with pytest.raises(StoreUnavailable, match="in use"):
        RocksStore(tmp_path / "db")
    put(store, {b"a": b"1"})
    assert store.get(Family.SEEN, b"a") == b"1"
    store.close()


def test_a_path_that_cannot_be_a_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match="file"):
        RocksStore(tmp_path / "file")


def test_a_flush_of_a_store_that_is_closed_fails(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "db")
    store.close()
    with pytest.raises(StoreFailed):
        store.flush()


def test_nothing_presses_a_store_at_rest(store: WritableStore) -> None:
    put(store, {b"a": b"1"})
    store.flush()
    assert store.pressed() is False


def test_to_read_the_first_row_is_not_to_walk_over_what_was_deleted_behind_it(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store")
    beside = {(Family.PENDING, key): b"row" for key in (b"plain", b"plaio", b"first", b"last")}
    crowd = [(Family.PENDING, b"going-%06d" % number) for number in range(50_000)]
    store.write({**beside, **dict.fromkeys(crowd, b"row")})
    store.write(dict.fromkeys(crowd))

    def cost_s(prefix: bytes) -> float:
        """The least that some reads take, in CPU."""
        costs = []
        for _ in range(20):
            began_s = time.thread_time()
            assert [next(store.scan(Family.PENDING, prefix, prefix)) for _ in range(5)] == [
                (prefix, b"row")
            ] * 5
            costs.append(time.thread_time() - began_s)
        return min(costs)

    assert cost_s(b"first") < 20 * cost_s(b"plain")
    store.close()


def test_a_new_log_is_begun_when_it_is_asked_for_and_by_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that were begun by a write might be on the disk while the end of the one before is not."""
    monkeypatch.setattr(rocks, "LOG_BYTES", 100_000)
    store = RocksStore(tmp_path / "db")
    before = set((tmp_path / "db").glob("*.log"))
    assert not store.log_is_full()
    for number in range(100):
        put(store, {b"%d" % number: b"x" * 10_000})
    store.flush()
    assert set((tmp_path / "db").glob("*.log")) == before
    assert store.log_is_full()
    store.rotate_wal()
    assert set((tmp_path / "db").glob("*.log")) - before
    assert not store.log_is_full()
    assert len(rows(store)) == 100
    store.close()


def test_a_look_up_reads_a_piece_of_a_filter_however_many_rows_a_file_has(tmp_path: Path) -> None:
    """Whole filters of large files do not fit into a small cache: each look-up would read megabytes."""
    store = RocksStore(tmp_path / "db")
    for first in range(0, 600_000, 100_000):
        put(store, {b"%d" % number: b"" for number in range(first, first + 100_000)})
    store.rotate_wal()
    store.close()
    store = RocksStore(tmp_path / "db", read_only=True, cache_bytes=rocks.MIB)
    absent = [b"%d-" % number for number in range(0, 600_000, 6_000)]
    store.get_many(Family.SEEN, absent)
    before = bytes_read()
    assert store.get_many(Family.SEEN, absent) == [None] * len(absent)
    assert bytes_read() - before < 1_000 * len(absent)
    store.close()


def bytes_read() -> int:
    """How many bytes this process has had from `read`s so far, from the disk or from the kernel's cache."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])
