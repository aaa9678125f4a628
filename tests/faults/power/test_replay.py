"""What a power cut leaves, of journals made by hand."""

from random import Random

import pytest
from faults.power.records import Kind, Record
from faults.power.replay import PAGE, Disk, Left, Names, NotUnderstood, played

SEEDS = range(200)
ROOT, DIRECTORY, FILE, OTHER = 0, 1, 2, 3


def create(path: str, inode: int = FILE) -> Record:
    return Record(Kind.CREATE, inode, data=path.encode())


def mkdir(path: str, inode: int = DIRECTORY) -> Record:
    return Record(Kind.MKDIR, inode, data=path.encode())


def write(data: bytes, offset: int = 0, inode: int = FILE) -> Record:
    return Record(Kind.WRITE, inode, offset, data=data)


def truncate(size: int, inode: int = FILE) -> Record:
    return Record(Kind.TRUNCATE, inode, size)


def rename(old: str, new: str) -> Record:
    return Record(Kind.RENAME, data=f"{old}\0{new}".encode())


def link(old: str, new: str) -> Record:
    return Record(Kind.LINK, data=f"{old}\0{new}".encode())


def unlink(path: str) -> Record:
    return Record(Kind.UNLINK, data=path.encode())


def begun(number: int, inode: int = FILE) -> Record:
    return Record(Kind.SYNC, inode, number)


def ended(number: int, inode: int = FILE, result: int = 0) -> Record:
    return Record(Kind.SYNCED, inode, number, result)


def synced(number: int, inode: int = FILE) -> list[Record]:
    return [begun(number, inode), ended(number, inode)]


def left_of(disk: Disk, path: str = "f", left: Left | None = None) -> set[bytes | None]:
    """All that may be left of a file whose name is durable, by the seeds; None where it is not there."""
    return {disk.after_cut(Names.ORDERED, left, Random(seed)).get(path) for seed in SEEDS}


def names_of(disk: Disk, names: Names) -> set[tuple[str, ...]]:
    """All sets of names that may be there."""
    return {tuple(sorted(disk.after_cut(names, Left.ALL, Random(seed)))) for seed in SEEDS}


def durable_file(*records: Record) -> Disk:
    """A file `f` whose name is durable, and what was done to it then."""
    return played([create("f"), *synced(1), *synced(2, ROOT), *records])


# Data.


@pytest.mark.parametrize("left", [None, *Left])
def test_what_was_synced_is_there_whatever_the_cut_leaves(left: Left | None) -> None:
    disk = durable_file(write(b"one"), *synced(3))
    assert left_of(disk, left=left) == {b"one"}


def test_a_sync_that_has_not_returned_promises_nothing() -> None:
    disk = durable_file(write(b"one"), begun(3))
    assert left_of(disk, left=Left.ABSENT) == {b""}


def test_a_sync_that_failed_promises_nothing() -> None:
    disk = durable_file(write(b"one"), begun(3), ended(3, result=-1))
    assert left_of(disk, left=Left.ABSENT) == {b""}


def test_a_sync_after_one_that_failed_does_not_bring_back_what_that_one_has_lost() -> None:
    disk = durable_file(write(b"one"), begun(3), ended(3, result=-1), write(b"two", 3), *synced(4))
    assert left_of(disk) == {b"\0\0\0two"}
    disk = durable_file(write(b"one"), begun(3), ended(3, result=-1), truncate(0), write(b"one"), *synced(4))
    assert left_of(disk) == {b"one"}


def test_a_sync_covers_what_was_written_before_it_began_and_no_more() -> None:
    disk = durable_file(write(b"one"), begun(3), write(b"two", 3), ended(3))
    assert left_of(disk, left=Left.ABSENT) == {b"one"}
    assert left_of(disk, left=Left.ALL) == {b"onetwo"}


def test_syncs_of_one_process_are_not_those_of_another() -> None:
    disk = durable_file(write(b"one"), begun(3)._replace(process=7), ended(3)._replace(process=8))
    assert left_of(disk, left=Left.ABSENT) == {b""}


def test_torn_data_ends_at_any_byte() -> None:
    disk = durable_file(write(b"ab"), write(b"cd", 2))
    assert left_of(disk, left=Left.TORN) == {b"", b"a", b"ab", b"abc"}


def test_pages_come_in_any_order_and_holes_are_zeros() -> None:
    first, second = b"1" * PAGE, b"2" * PAGE
    disk = durable_file(write(first), write(second, PAGE))
    zeros = bytes(PAGE)
    assert left_of(disk, left=Left.PAGES) == {
        b"",
        zeros,
        first,
        zeros + zeros,
        zeros + second,
        first + zeros,
        first + second,
    }


def test_a_page_is_as_it_was_after_some_of_its_writes() -> None:
    disk = durable_file(write(b"aa"), write(b"b", 1), write(b"cc", 2))
    found = left_of(disk, left=Left.PAGES)
    assert found == {b"", b"\0\0", b"aa", b"ab", b"\0\0\0\0", b"aa\0\0", b"ab\0\0", b"abcc"}


def test_a_page_beyond_the_size_that_is_left_is_not_there() -> None:
    """Nothing of a write that begins behind the end comes before it."""
    disk = durable_file(write(b"one"), write(b"two", 3), write(b"three", 6))
    assert all(
        b"onetwothree".startswith(found.rstrip(b"\0")) for found in left_of(disk, left=Left.PAGES) if found
    )


def test_a_file_that_was_made_shorter_may_still_be_long() -> None:
    disk = durable_file(write(b"long"), *synced(3), truncate(1))
    assert left_of(disk, left=Left.ABSENT) == {b"long"}
    assert left_of(disk, left=Left.ALL) == {b"l"}
    disk = durable_file(write(b"long"), truncate(1), *synced(3))
    assert left_of(disk) == {b"l"}


def test_data_belongs_to_the_file_whatever_it_is_called() -> None:
    disk = durable_file(write(b"one"), rename("f", "g"), *synced(3), write(b"two", inode=FILE), unlink("g"))
    assert left_of(disk, "g") == {b"one", b"two", b"t" + b"ne", b"tw" + b"e", None}


def test_a_number_that_is_used_again_is_another_file() -> None:
    disk = played([create("f"), write(b"old"), *synced(1), unlink("f"), create("g"), *synced(2, ROOT)])
    assert left_of(disk, "g") == {b""}
    assert left_of(disk, "f") == {None}


# Names.


def test_ordered_names_are_durable_in_their_order() -> None:
    disk = played([create("a", 2), create("b", 3), create("c", 4)])
    assert names_of(disk, Names.ORDERED) == {(), ("a",), ("a", "b"), ("a", "b", "c")}


def test_any_sync_makes_all_ordered_names_durable_that_came_before_it() -> None:
    disk = played([create("a", 2), create("b", 3), *synced(1, 2), create("c", 4)])
    assert names_of(disk, Names.ORDERED) == {("a", "b"), ("a", "b", "c")}


def test_a_strict_name_needs_its_directory_synced() -> None:
    disk = played([create("a", 2), *synced(1, 2), create("b", 3)])
    assert names_of(disk, Names.STRICT) == {(), ("a",), ("b",), ("a", "b")}
    disk = played([create("a", 2), *synced(1, ROOT), create("b", 3)])
    assert names_of(disk, Names.STRICT) == {("a",), ("a", "b")}


def test_a_strict_name_needs_the_directories_above_it_too() -> None:
    disk = played([mkdir("d"), create("d/a"), *synced(1, DIRECTORY)])
    assert names_of(disk, Names.STRICT) == {(), ("d", "d/a")}


@pytest.mark.parametrize("names", Names)
def test_a_rename_is_done_or_not_done(names: Names) -> None:
    disk = played([create("a"), create("b", OTHER), *synced(1, ROOT), rename("a", "b")])
    assert names_of(disk, names) == {("a", "b"), ("b",)}


def test_what_follows_a_change_of_a_name_is_not_there_without_it() -> None:
    """A strict name that was not made durable cannot be taken away, or given to another file."""
    disk = played([create("a"), rename("a", "b"), rename("b", "c")])
    assert names_of(disk, Names.STRICT) == {(), ("a",), ("b",), ("c",)}


@pytest.mark.parametrize("names", Names)
def test_a_name_that_was_removed_may_be_there_until_that_is_durable(names: Names) -> None:
    disk = played([create("a"), *synced(1, ROOT), unlink("a")])
    assert names_of(disk, names) == {(), ("a",)}
    disk = played([create("a"), *synced(1, ROOT), unlink("a"), *synced(2, ROOT)])
    assert names_of(disk, names) == {()}


def test_a_file_with_two_names_has_one_content() -> None:
    disk = played([create("a"), link("a", "b"), write(b"some bytes"), *synced(1, ROOT)])
    for seed in SEEDS:
        found = disk.after_cut(Names.STRICT, None, Random(seed))
        assert found["a"] == found["b"]


def test_a_directory_goes_with_all_that_is_in_it_when_it_is_renamed() -> None:
    disk = played([mkdir("d"), create("d/a"), rename("d", "e"), *synced(1, DIRECTORY), *synced(2, ROOT)])
    assert names_of(disk, Names.STRICT) == {("e", "e/a")}


# Journals.


def test_what_is_not_understood_is_refused() -> None:
    with pytest.raises(NotUnderstood, match="a shared mapping"):
        played([Record(Kind.REFUSED, data=b"a shared mapping")])
    with pytest.raises(NotUnderstood, match="inode 9"):
        played([write(b"x", inode=9)])


@pytest.mark.parametrize("names", Names)
def test_a_seed_makes_the_same_cut_again_and_others_make_others(names: Names) -> None:
    disk = durable_file(*(write(bytes([each]) * 3000, each * 3000) for each in range(20)))
    for seed in SEEDS:
        assert disk.after_cut(names, None, Random(seed)) == disk.after_cut(names, None, Random(seed))
    assert len(left_of(disk)) > len(SEEDS) // 3


def test_a_range_sync_promises_nothing() -> None:
    disk = durable_file(write(b"one"), Record(Kind.RANGE, FILE, 0, 3))
    assert left_of(disk, left=Left.ABSENT) == {b""}
