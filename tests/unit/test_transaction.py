"""One operation's view of the store: what is stored, with its own changes on top."""

from core_doubles.memory_store import MemoryStore
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows.store import Family, Transaction

KEYS = st.text(alphabet="ab", max_size=3).map(str.encode)
VALUES = st.one_of(st.none(), st.binary(max_size=3))
CHANGES = st.lists(st.tuples(st.sampled_from([Family.SEEN, Family.INDEX]), KEYS, VALUES), max_size=12)


@given(CHANGES, CHANGES, KEYS, KEYS, st.lists(KEYS, max_size=5))
def test_reads_see_the_store_with_the_changes_on_top(
    stored: list[tuple[Family, bytes, bytes | None]],
    changed: list[tuple[Family, bytes, bytes | None]],
    start: bytes,
    prefix: bytes,
    wanted: list[bytes],
) -> None:
    """get, get_many and scan, against plain dictionaries; and the store is not touched."""
    store = MemoryStore()
    store.write({(family, key): value for family, key, value in stored})
    expected: dict[Family, dict[bytes, bytes]] = {
        family: dict(store.scan(family, b"", b"")) for family in Family
    }
    before = {family: dict(rows) for family, rows in expected.items()}
    tx = Transaction(store)

    def within(family: Family) -> list[tuple[bytes, bytes]]:
        rows = expected[family].items()
        return sorted((key, value) for key, value in rows if key >= start and key.startswith(prefix))

    for at, (family, key, value) in enumerate(changed):
        if value is None:
            tx.delete(family, key)
            expected[family].pop(key, None)
        else:
            tx.put(family, key, value)
            expected[family][key] = value
        if at >= len(changed) // 2:  # changes go on after the first scan
            assert list(tx.scan(family, start, prefix)) == within(family)
    for family in (Family.SEEN, Family.INDEX, Family.JOBS):
        rows = expected[family]
        for key in wanted:
            assert tx.get(family, key) == rows.get(key)
        assert tx.get_many(family, wanted) == [rows.get(key) for key in wanted]
        assert list(tx.scan(family, start, prefix)) == within(family)
        assert dict(store.scan(family, b"", b"")) == before[family]
    store.write(tx.changes)
    assert {family: dict(store.scan(family, b"", b"")) for family in Family} == expected


def test_changes_can_be_applied_twice() -> None:
    """They are absolute: a batch that is written again after an unknown outcome does no harm."""
    store = MemoryStore()
    store.write({(Family.JOBS, b"old"): b"1"})
    tx = Transaction(store)
    tx.put(Family.JOBS, b"new", b"2")
    tx.delete(Family.JOBS, b"old")
    store.write(tx.changes)
    store.write(tx.changes)
    assert list(store.scan(Family.JOBS, b"", b"")) == [(b"new", b"2")]
