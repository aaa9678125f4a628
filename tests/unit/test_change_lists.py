"""Change lists as the bytes of a record: what comes out is what went in, or nothing."""

import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows.store import Changes, Family
from frontier_server.replicated.change_lists import Lists, packed, unpacked
from frontier_server.replicated.log import LaterFormat, LogDamaged

KEYS = st.tuples(st.sampled_from(Family), st.binary(max_size=20))
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=100), max_size=20)
LISTS = st.builds(
    Lists,
    first=st.integers(1, 1 << 62),
    tail_rows=st.integers(0, 1 << 62),
    lists=st.lists(CHANGES, max_size=5),
)
ROW: Changes = {(Family.SEEDS, b"key"): b"value"}


def record(first: Any = 1, tail_rows: Any = 1, families: Any = ("seeds",), lists: Any = ()) -> bytes:
    """The bytes of a record as another program might write it."""
    return deflated(msgspec.msgpack.encode([first, tail_rows, families, lists]))


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@given(LISTS)
def test_lists_come_back_as_they_were(lists: Lists) -> None:
    found = unpacked(packed(lists))
    assert found == lists
    assert [list(each) for each in found.lists] == [list(each) for each in lists.lists], "in their order"


def test_lists_are_numbered_one_after_another() -> None:
    lists = Lists(7, 10, [ROW, {}, ROW | {(Family.HOSTS, b"key"): None}])
    assert (lists.first, lists.last, lists.rows) == (7, 9, 3)


def test_a_record_may_name_families_in_any_order() -> None:
    data = record(families=["hosts", "seeds"], lists=[[0, b"a", b"1", 1, b"b", None]])
    assert unpacked(data).lists == [{(Family.HOSTS, b"a"): b"1", (Family.SEEDS, b"b"): None}]


def test_rows_of_a_family_that_only_a_later_version_knows_are_refused() -> None:
    data = record(families=["seeds", "moons"], lists=[[0, b"a", b"1"], [1, b"b", b"2"]])
    with pytest.raises(LaterFormat, match=r"later version of Toehold .*\(moons\)"):
        unpacked(data)


@given(LISTS, st.data())
def test_bytes_that_are_cut_are_refused(lists: Lists, data: st.DataObject) -> None:
    whole = packed(lists)
    with pytest.raises(LogDamaged, match="cannot be read"):
        unpacked(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(LISTS, st.data())
def test_bytes_that_are_changed_are_refused_or_still_are_lists(lists: Lists, data: st.DataObject) -> None:
    """A record's digest finds each change; here nothing else may happen."""
    whole = bytearray(packed(lists))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = unpacked(bytes(whole))
    except (LogDamaged, LaterFormat):
        return  # it is refused
    assert unpacked(packed(found)) == found


REFUSED: dict[str, bytes] = {
    "nothing": b"",
    "no compressed data": b"\xff\xff\xff",
    "something after it": packed(Lists(1, 1, [ROW])) + b"\0",
    "no message": deflated(b"\xc1"),
    "no lists": deflated(msgspec.msgpack.encode({"first": 1})),
    "half a row": record(lists=[[0, b"key"]]),
    "a row without a value": record(lists=[[0, b"key", b"value", 0, b"key"]]),
    "a family that is not there": record(lists=[[1, b"key", b"value"]]),
    "a family counted from the end": record(lists=[[-1, b"key", b"value"]]),
    "a family by its name": record(lists=[["seeds", b"key", b"value"]]),
    "no family": record(lists=[[None, b"key", b"value"]]),
    "a key that is a number": record(lists=[[0, 1, b"value"]]),
    "a key that is missing": record(lists=[[0, None, b"value"]]),
    "a value that is a number": record(lists=[[0, b"key", 1]]),
    "a list before the first one": record(first=0, lists=[[0, b"key", b"value"]]),
    "fewer rows than none": record(tail_rows=-1, lists=[[0, b"key", b"value"]]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bytes_that_are_no_record_are_refused(what: str) -> None:
    with pytest.raises(LogDamaged, match="a record's change lists cannot be read"):
        unpacked(REFUSED[what])


def test_a_record_without_these_faults_is_read() -> None:
    assert unpacked(record(lists=[[0, b"key", b"value"]])) == Lists(1, 1, [ROW])
