"""Whether there is room where a node writes."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from crawler_node.output.disk import DiskWatch

MIB = 1024 * 1024


@dataclass
class Space:
    f_bavail: int
    f_frsize: int = MIB


class Disks:
    """Directories with so many MiB free each; one that is missing cannot be looked at."""

    def __init__(self, **free_mib: int) -> None:
        self.free_mib = free_mib

    def space(self, directory: Path) -> Space:
        if directory.name not in self.free_mib:
            raise FileNotFoundError(directory)
        return Space(self.free_mib[directory.name])

    def watch(self, reserve_mib: int = 100) -> DiskWatch:
        return DiskWatch([Path("/a"), Path("/b")], reserve_mib * MIB, self.space)


def test_a_disk_is_low_below_its_reserve() -> None:
    disks = Disks(a=100, b=100)
    watch = disks.watch()
    assert watch.check() == ""
    disks.free_mib["b"] = 99
    assert watch.check() == "only 99 MiB are free in /b; 110 MiB are needed to continue"


def test_it_is_low_until_there_is_a_tenth_more_than_the_reserve() -> None:
    disks = Disks(a=99, b=500)
    watch = disks.watch()
    assert watch.check()
    disks.free_mib["a"] = 109
    assert watch.check() == "only 109 MiB are free in /a; 110 MiB are needed to continue"
    disks.free_mib["a"] = 110
    assert watch.check() == ""
    disks.free_mib["a"] = 100
    assert watch.check() == ""


def test_of_a_large_reserve_no_tenth_has_to_be_free_beside_it() -> None:
    disks = Disks(a=9_999, b=99_999)
    watch = disks.watch(10_000)
    assert watch.check()
    disks.free_mib["a"] = 10_063
    assert watch.check()
    disks.free_mib["a"] = 10_064
    assert watch.check() == ""


def test_a_disk_that_cannot_be_looked_at_is_as_it_was_seen_last() -> None:
    disks = Disks(a=99, b=500)
    watch = disks.watch()
    low = watch.check()
    disks.free_mib.clear()
    assert low and watch.check() == low
    assert Disks().watch().check() == ""


def test_a_reserve_of_nothing_watches_nothing() -> None:
    assert Disks(a=0, b=0).watch(0).check() == ""


def test_a_negative_reserve_is_refused() -> None:
    with pytest.raises(ValueError, match="must be at least 0, got -1048576"):
        Disks().watch(-1)


def test_real_directories_can_be_watched(tmp_path: Path) -> None:
    assert DiskWatch([tmp_path], 1).check() == ""
    assert (
        DiskWatch([tmp_path], 1 << 62)
        .check()
        .endswith(f"free in {tmp_path}; {(1 << 42) + 64} MiB are needed to continue")
    )
