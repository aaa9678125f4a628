"""Owners of a store's log that others have replaced, and that do not know it yet: they change nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from frontier_harness.buckets import Fault
from integration import logged_machines
from integration.logged_machines import (
    CACHE_BYTES,
    Fleet,
    flushed,
    in_tables,
    lists_of,
    rows_of,
    write,
)

from frontier_server.replicated.buckets import BucketFailed
from frontier_server.replicated.log import Fenced
from frontier_server.replicated.object_log import ObjectLog
from frontier_server.replicated.replicas import File, Replicas
from frontier_server.stores.logged import CHECK_S, LogFence, open_logged

fleet = logged_machines.fleet


def test_a_former_owner_keeps_nothing_that_it_writes_after_its_successor(fleet: Fleet) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    flushed(second.open(), 2)
    write(first.store, 13)
    for _ in range(2):
        with pytest.raises(LogFence, match="another process"):
            first.store.flush()
    with pytest.raises(LogFence):
        first.replicate()
    write(first.store, 14)
    with pytest.raises(LogFence):
        first.store.flush()
    flushed(second.store, 3)
    assert lists_of(fleet.rows_elsewhere()) == [1, 2, 3]
    assert lists_of(rows_of(first.open())) == [1, 2, 3]


def test_a_former_owner_that_wakes_up_in_a_replica_makes_none(fleet: Fleet) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    first.replicate()
    flushed(first.store, 2)

    def others() -> None:
        flushed(second.open(), 3)
        second.replicate()
        flushed(second.store, 4)
        second.replicate()
        second.tidy()

    first.sees.at("upload", others)
    with pytest.raises(LogFence):
        first.replicate()
    assert len(first.store.manifests) == 1
    assert lists_of(fleet.rows_elsewhere()) == [1, 2, 3, 4]


@pytest.mark.parametrize("method", ["found", "delete"])
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_a_former_owner_that_wakes_up_while_it_tidies_deletes_nothing_that_is_needed(
    fleet: Fleet, method: str, at: int, replicas: int
) -> None:
    """It stands still before it lists or deletes records, or files."""
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    in_tables(first.store)
    for number in (2, 3, 4):
        first.replicate()
        flushed(first.store, number)
    expected = [1, 2, 3, 4]

    def others() -> None:
        second.open()
        for number in range(5, 5 + replicas):
            second.replicate()
            flushed(second.store, number)
            expected.append(number)
            second.tidy()

    first.sees.at(method, *[Fault.NONE] * at, others)
    first.tidy()
    assert not first.sees._next[method], "it never asked"
    first.clock.now_s += CHECK_S
    with pytest.raises(LogFence):
        first.store.flush()
    assert lists_of(fleet.rows_elsewhere()) == expected


def test_an_owner_that_is_fenced_while_it_restores_says_so_and_not_that_the_log_is_damaged(
    fleet: Fleet,
) -> None:
    """Its successor has deleted what it was about to read."""
    first, second, third = fleet.machine(), fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    first.replicate()
    first.die()

    def others() -> None:
        flushed(second.open(), 2)
        for number in (3, 4, 5):
            in_tables(second.store)
            second.replicate()
            flushed(second.store, number)
        second.tidy()

    def opens() -> None:
        log = ObjectLog(third.sees, "1", "cluster", "1.0", fleet.clock, waits=lambda rest_s: None)
        open_logged(third.data, log, Replicas(third.sees, "1"), "1.0", CACHE_BYTES, now_ms=1)

    third.sees.at("download", others)
    with pytest.raises(Fenced):
        opens()
    assert lists_of(fleet.rows_elsewhere()) == [1, 2, 3, 4, 5]


def test_a_start_that_cannot_replicate_what_it_has_ahead_lets_go_of_the_store(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fleet.machine()
    flushed(first.open(), 1)
    write(first.store, 2)
    first.die()

    def fails(self: Replicas, copy: Path, epoch: int) -> Sequence[File]:
        raise BucketFailed("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Replicas, "upload", fails)
        with pytest.raises(
            BucketFailed
        ) as _caught:  # the frames live on: nothing but `open` itself lets go of the store
            first.open()
    assert lists_of(rows_of(first.open())) == [1, 2]
