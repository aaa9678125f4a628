"""Flushes of a store to its log: which succeed, wait or fail, and what is appended."""

import pytest
from frontier_harness.buckets import Fault
from integration import logged_machines
from integration.logged_machines import Fleet, flushed, in_tables, lists_of, rows_of, write
from rocksdict import WriteBatch

from frontier_server.core.rows.store import StoreFailed, WriteStalled
from frontier_server.stores import logged
from frontier_server.stores.logged import CHECK_S, SLOW_S, LogFence, LoggedStore, mark_of
from frontier_server.stores.rocks import RocksStore

fleet = logged_machines.fleet


def is_current(store: LoggedStore) -> bool:
    return store.is_current  # mypy would take it that it stays the same


def test_a_flush_without_writes_looks_whether_the_log_is_still_ours_but_not_each_time(fleet: Fleet) -> None:
    first, second = fleet.machine(), fleet.machine()
    store = first.open()
    assert not is_current(store)
    store.flush()
    assert is_current(store)
    fleet.clock.now_s += CHECK_S
    assert not is_current(store)
    store.flush()
    assert is_current(store)
    second.open()
    store.flush()
    assert is_current(store), "it has looked a moment ago"
    fleet.clock.now_s += CHECK_S
    with pytest.raises(LogFence):
        store.flush()
    assert not is_current(store)


def test_an_owner_is_current_as_of_the_beginning_of_its_flush(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    fleet.clock.now_s += CHECK_S

    def takes_long() -> None:
        fleet.clock.now_s += CHECK_S

    write(first.store, 2)
    first.sees.at("create", takes_long)
    first.store.flush()
    assert not is_current(first.store)


def test_a_flush_that_waits_for_long_says_for_what(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    assert first.store.waits_for == ""
    told = []

    def takes_long() -> None:
        told.append(first.store.waits_for)
        fleet.clock.now_s += SLOW_S
        told.append(first.store.waits_for)

    write(first.store, 2)
    first.sees.at("create", takes_long, Fault.REFUSED, lambda: told.append(first.store.waits_for))
    first.sees.at("get", Fault.REFUSED)
    first.store.flush()
    assert told[:2] == ["", f"the log has not answered for {SLOW_S:.0f} s"]
    assert first.store.waits_for == ""


@pytest.mark.parametrize("takes_effect", [False, True])
def test_after_a_flush_that_failed_nothing_is_appended_any_more(fleet: Fleet, takes_effect: bool) -> None:
    """Lists that it took would be missing, and those after them have their numbers."""
    first = fleet.machine()
    flushed(first.open(), 1)
    write(first.store, 2)
    first.rests = first.store.abandon
    first.sees.at("create", Fault.LOST if takes_effect else Fault.REFUSED)
    with pytest.raises(StoreFailed, match="given up"):
        first.store.flush()
    write(first.store, 3)
    for tried in (first.store.flush, first.replicate, first.store.tidy):
        with pytest.raises(StoreFailed, match="given up"):
            tried()
    assert lists_of(fleet.rows_elsewhere()) == [1, 2][: 1 + takes_effect]


def test_a_replica_whose_maker_was_given_up_at_its_manifest_is_kept(fleet: Fleet) -> None:
    """Its manifest is there, although its maker never heard so."""
    first = fleet.machine()
    flushed(first.open(), 1)
    for number in (2, 3):
        in_tables(first.store)
        first.replicate()
        flushed(first.store, number)
    in_tables(first.store)

    def given_up() -> None:
        first.rests = first.store.abandon
        first.sees.at("create", Fault.LOST)

    first.sees.at("upload", given_up)
    with pytest.raises(StoreFailed, match="given up"):
        first.replicate()
    with pytest.raises(StoreFailed, match="given up"):
        first.tidy()
    assert lists_of(fleet.rows_elsewhere()) == [1, 2, 3]


def test_a_replay_waits_for_a_store_that_stalls(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1, 2, 3)
    stalls = iter((True, False, True, True))
    plainly = RocksStore._write

    def stalled(self: RocksStore, batch: WriteBatch) -> None:
        if next(stalls, False):
            raise WriteStalled("stalled")
        plainly(self, batch)

    monkeypatch.setattr(RocksStore, "_write", stalled)
    monkeypatch.setattr(logged, "STALL_S", 0)
    assert lists_of(rows_of(second.open())) == [1, 2, 3]
    assert next(stalls, None) is None


def test_a_write_that_stalls_is_in_no_record_until_it_succeeds(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    with monkeypatch.context() as patch:

        def stalls(batch: WriteBatch) -> None:
            raise WriteStalled("stalled")

        patch.setattr(first.store, "_write", stalls)
        with pytest.raises(WriteStalled):
            write(first.store, 2)
    flushed(first.store, 3)
    assert lists_of(fleet.rows_elsewhere()) == [1, 3]


def test_a_store_syncs_its_write_ahead_log_before_it_begins_another(fleet: Fleet) -> None:
    """Otherwise a power cut could leave the next one with a hole before it."""
    first = fleet.machine()
    store = first.open()
    flushed(store, 1)
    done: list[str] = []

    class Noted:
        """Notes what is called."""

        def __init__(self, called: object, name: str) -> None:
            self._called, self._name = called, name

        def __getattr__(self, name: str) -> object:
            if name in ("flush_wal", "flush"):
                done.append(f"{self._name} {name}")
            return getattr(self._called, name)

    plain, families = store._db, store._families
    store._db = Noted(plain, "store")  # type: ignore[assignment]  # has all its methods
    noted = {family: Noted(each, "family") for family, each in families.items()}
    store._families = noted  # type: ignore[assignment]  # likewise
    store.rotate_wal()
    store._db, store._families = plain, families
    assert done[0] == "store flush_wal" and done[1:] == ["family flush"] * len(families)


def test_a_mark_tells_how_far_a_store_has_come(fleet: Fleet) -> None:
    first = fleet.machine()
    store = first.open()
    assert mark_of(store) is None and store.is_empty
    flushed(store, 1)
    write(store, 2)
    assert mark_of(store) == (1, 2, 3) and not store.is_empty
