"""What a machine has when it opens its store: all that was appended, from disk, records and replicas."""

from collections.abc import Sequence

import pytest
from integration import logged_machines
from integration.logged_machines import Fleet, change, flushed, lists_of, rows_of, write

from frontier_server.core.rows.store import Family
from frontier_server.replicated.change_lists import Lists, packed
from frontier_server.replicated.log import LogDamaged
from frontier_server.stores.copies import copy_live

fleet = logged_machines.fleet


def test_a_new_machine_has_the_lists_that_others_have_appended_and_no_more(
    fleet: Fleet,
) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1, 2)
    write(first.store, 3)
    assert lists_of(rows_of(second.open())) == [1, 2]
    assert not second.store.is_ahead
    flushed(second.store, 4)
    assert lists_of(fleet.rows_elsewhere()) == [1, 2, 4]


def test_a_store_that_is_ahead_is_kept_if_nobody_has_appended_since_and_replicated_first(
    fleet: Fleet,
) -> None:
    first, second, third = fleet.machine(), fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    write(first.store, 2, 3)
    first.die()
    second.open()
    second.die()
    store = first.open()
    assert lists_of(rows_of(store)) == [1, 2, 3]
    ((_, manifest),) = store.manifests
    assert store.is_ahead and manifest.is_ahead and manifest.list == 3
    first.lose()
    assert lists_of(rows_of(third.open())) == [1, 2, 3]
    assert not third.store.is_ahead
    flushed(third.store, 4)
    assert lists_of(rows_of(second.open())) == [1, 2, 3, 4], "its store had less than the replica"


def test_a_store_that_is_ahead_is_wiped_once_somebody_else_has_appended(fleet: Fleet) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    write(first.store, 2, 3, 4)
    flushed(second.open(), 5)
    second.die()
    assert lists_of(rows_of(first.open())) == [1, 5]


@pytest.mark.parametrize("replicas", [0, 2])
def test_a_store_that_lacks_records_replays_only_those(fleet: Fleet, replicas: int) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1, 2, 3)
    for _ in range(replicas):
        first.replicate()
    flushed(first.store, 4)
    flushed(second.open(), 5, 6)
    own = first.store._mark
    store = first.open()
    assert lists_of(rows_of(store)) == [1, 2, 3, 4, 5, 6]
    assert first.sees.downloaded == []
    asked = {int(name[-16:]) for name in first.sees.got if name.startswith("log/")}
    assert min(asked - {number for number, _ in store.manifests}) == own.record


def test_a_store_that_lacks_more_than_the_log_has_is_restored(fleet: Fleet) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    first.die()
    flushed(second.open(), 2)
    second.replicate()
    flushed(second.store, 3)
    second.replicate()
    flushed(second.store, 4)
    second.tidy()
    records = [int(name[-16:]) for name in fleet.bucket.objects if name.startswith("log/")]
    assert sorted(records)[:3] == [1, 3, 5], "fences stay"
    assert lists_of(rows_of(first.open())) == [1, 2, 3, 4]
    assert first.sees.downloaded


def test_a_store_whose_lists_have_the_numbers_of_another_owners_is_restored(
    fleet: Fleet,
) -> None:
    """Lists 2 and 3 of the first owner are in no record, but in the replica of a store that was ahead; the
    second owner's, which it never appended, have the same numbers."""
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    write(first.store, 2, 3)
    write(second.open(), 12, 13)
    assert second.store._mark[:2] == (second.store.log.epoch, 3)
    second.die()
    flushed(first.open(), 4)
    assert first.store.manifests[-1][1].is_ahead
    first.die()
    assert lists_of(rows_of(second.open())) == [1, 2, 3, 4]
    assert second.sees.downloaded


@pytest.mark.parametrize("later", [[], [4]])
def test_a_store_that_a_power_cut_has_thrown_back_is_restored(fleet: Fleet, later: list[int]) -> None:
    """List 3 is in no record: it was in the replica that was made when the store was ahead."""
    first = fleet.machine()
    flushed(first.open(), 1)
    write(first.store, 2)
    copy_live(first.path, first.data / "kept")
    write(first.store, 3)
    flushed(first.open(), *later)
    first.lose()
    (first.data / "kept").rename(first.path)
    assert lists_of(rows_of(first.open())) == [1, 2, 3, *later]
    assert first.sees.downloaded


def test_a_replay_puts_no_older_values_over_those_of_later_lists(fleet: Fleet) -> None:
    """The second list was written while the first one was appended: it may look as if the record had both."""
    first = fleet.machine()
    write(first.open(), 1)
    first.sees.at("create", lambda: write(first.store, 2))
    first.store.flush()
    expected = rows_of(first.store)
    assert lists_of(expected) == [1, 2] and first.store._mark.record == 2
    assert rows_of(first.open()) == expected
    assert fleet.rows_elsewhere() == expected


def test_a_list_without_rows_is_replayed_like_any_other(fleet: Fleet) -> None:
    first = fleet.machine()
    first.open().write({})
    first.store.flush()
    flushed(first.store, 2)
    first.store.write({})
    first.store.flush()
    assert lists_of(fleet.rows_elsewhere()) == [2]
    assert not first.open().is_ahead


def test_records_that_do_not_follow_on_each_other_are_refused(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    first.store.log.append(packed(Lists(3, 1, [{(Family.HOSTS, b"last"): b"3"}])))
    for machine in (first, fleet.machine()):
        with pytest.raises(LogDamaged, match="do not follow"):
            machine.open()


@pytest.mark.parametrize("replicas", [0, 1])
def test_a_store_that_was_replayed_is_not_taken_for_one_that_is_ahead(fleet: Fleet, replicas: int) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1, 2)
    for _ in range(replicas):
        first.replicate()
    flushed(first.store, 3)
    for _ in range(2):
        store = second.open()
        assert lists_of(rows_of(store)) == [1, 2, 3]
        assert not store.is_ahead and second.sees.uploaded == []
        assert store.tail_rows == rows_since([3] if replicas else [1, 2, 3])


def rows_since(numbers: Sequence[int]) -> int:
    """How many rows lists of `write` change."""
    return sum(len(change({}, number, (number, number % 3), (number - 2,))) for number in numbers)


def test_every_machine_counts_the_same_rows_since_the_last_replica(fleet: Fleet) -> None:
    first = fleet.machine()
    flushed(first.open(), 1, 2)
    assert first.store.tail_rows == rows_since([1, 2])
    first.sees.at("upload", lambda: flushed(first.store, 3, 4))
    first.replicate()
    assert first.store.tail_rows == rows_since([3, 4])
    for machine in (first, fleet.machine(), first):
        assert machine.open().tail_rows == rows_since([3, 4])
    flushed(first.store, 5)
    assert first.store.tail_rows == rows_since([3, 4, 5])
    for machine in (first, fleet.machine()):
        assert machine.open().tail_rows == rows_since([3, 4, 5])
