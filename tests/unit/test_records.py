"""The value of every row: what was put in comes out, and nothing else is taken for it."""

import typing
from types import UnionType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frontier_server.core.opening import opening
from frontier_server.core.rows import records
from frontier_server.core.rows.errors import OtherFormat, StoreCorrupt
from frontier_server.core.rules.disposition import MAX_DEFERRALS
from frontier_server.core.rules.precedence import MAX_PRECEDENCE

KINDS = sorted(records.Record.__subclasses__(), key=lambda kind: kind.__name__)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**64 - 1),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20),
    bool: st.booleans(),
    type(None): st.none(),
}


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    if hint in PLAIN:
        return PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict:
        return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=4)
    if origin is tuple and Ellipsis not in arguments:
        return st.tuples(*map(of_type, arguments))
    if origin is tuple:
        return st.lists(of_type(arguments[0]), max_size=4).map(tuple)
    if origin is list:
        return st.lists(of_type(arguments[0]), max_size=4)
    assert origin in (typing.Union, UnionType), hint
    return st.one_of(*(of_type(argument) for argument in arguments))


def rows_of(kind: type[records.Record]) -> st.SearchStrategy[records.Record]:
    """Records of a kind."""
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: of_type(hints[name]) for name in kind.__struct_fields__})


def test_all_kinds_are_tested() -> None:
    assert len(KINDS) >= 12 and {records.QueueRow, records.OutcomeRow, records.StateRow} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_decoded_as_it_was_encoded(kind: type[records.Record]) -> None:
    @given(rows_of(kind))
    def round_trip(row: records.Record) -> None:
        value = records.encode(row)
        assert value[:1] == b"\x01"
        assert records.decode(kind, value) == row

    round_trip()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_lacks_a_later_field_takes_its_default(kind: type[records.Record]) -> None:
    """The rule for changing a format: new fields stand at the end, with a default."""

    @given(rows_of(kind))
    def without_defaults(row: records.Record) -> None:
        values = [getattr(row, name) for name in kind.__struct_fields__]
        needed = len(values) - len(kind.__struct_defaults__)
        short = b"\x01" + msgspec.msgpack.encode(values[:needed])
        assert records.decode(kind, short) == kind(*values[:needed])

    without_defaults()


@pytest.mark.sampled("kind", KINDS)
@pytest.mark.sampled("version", [b"", b"\x00", b"\x02", b"\xff"])
def test_a_row_of_another_version_is_refused_by_the_name_of_its_kind(
    kind: type[records.Record], version: bytes
) -> None:
    with pytest.raises(StoreCorrupt, match=f"{kind.__name__}.*version"):
        records.decode(kind, version + records.encode(records.HostRow())[1:] if version else b"")


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_are_no_row_are_refused_by_the_name_of_its_kind(kind: type[records.Record]) -> None:
    @given(st.binary(max_size=40))
    def garbage(value: bytes) -> None:
        try:
            row = records.decode(kind, b"\x01" + value)
        except StoreCorrupt as refused:
            assert kind.__name__ in str(refused)
        else:
            assert records.decode(kind, records.encode(row)) == row

    garbage()


def test_two_rows_share_no_counts() -> None:
    one, other = records.CountersRow(), records.CountersRow()
    one.verdicts["QUEUED"] = 1
    assert other.verdicts == {} and other.fetch_statuses == {}


pending_uris = st.builds(
    records.PendingUri,
    attempts=st.integers(0, 65_535),
    lapses=st.integers(0, 255),
    cost=st.integers(0, records.MAX_COST),
    precedence=st.integers(0, MAX_PRECEDENCE),
    visited=st.booleans(),
    fingerprint=st.binary(min_size=8, max_size=8),
    candidate=st.binary(max_size=50),
    deferrals=st.one_of(st.just(0), st.integers(1, MAX_DEFERRALS)),
    lane=st.one_of(st.just(b""), st.binary(min_size=8, max_size=8)),
)


@given(pending_uris)
def test_a_pending_uri_carries_its_candidate_untouched(uri: records.PendingUri) -> None:
    value = records.encode_pending(uri)
    assert records.decode_pending(value) == uri and value.endswith(uri.candidate)


@given(pending_uris)
def test_a_pending_uri_of_another_version_is_refused(uri: records.PendingUri) -> None:
    with pytest.raises(StoreCorrupt, match="got 4"):
        records.decode_pending(b"\x04" + records.encode_pending(uri)[1:])


@pytest.mark.parametrize(
    "value", [b"", b"\x01", b"\x01\x00\x00\x00subject", b"\x02" + bytes(14), b"\x03" + bytes(20)]
)
def test_a_pending_uri_cut_short_is_refused(value: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        records.decode_pending(value)


@pytest.mark.interpreted
def test_a_store_since_the_oldest_format_is_opened_and_others_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "OLDEST_FORMAT", 5)
    monkeypatch.setattr(opening, "FORMAT", 6)

    def opened(number: int) -> int:
        return opening.decoded_server_row(
            records.encode(records.ServerRow(number, b"s", version="1.2.3"))
        ).format

    assert (opened(5), opened(6)) == (5, 6)
    needed = "the store must have format 5 to 6 for this version of Toehold, got"
    with pytest.raises(OtherFormat, match=rf"{needed} 7, which version 1\.2\.3 wrote\. Use that version"):
        opened(7)
    with pytest.raises(OtherFormat, match=rf"{needed} 4\. Start a version in between on it first"):
        opened(4)


def test_the_format_is_what_stores_have() -> None:
    """Another number means another store; every value below is one that stores may hold."""
    assert records.FORMAT == 3
    row = records.LeaseRow("node", "1", b"q" * 16, b"suffix..", b"subject.", 2, 1_700_000_000_000)
    stored = ["node", "1", b"q" * 16, b"suffix..", b"subject.", 2, 1_700_000_000_000, "", "", [], ""]
    assert records.encode(row) == b"\x01" + msgspec.msgpack.encode([*stored, 0, b"", False, 1, False])
    assert records.decode(records.LeaseRow, b"\x01" + msgspec.msgpack.encode(stored)) == row
    pending = records.PendingUri(3, 1, 2, 5, True, b"subject.", b"candidate")
    assert records.encode_pending(pending) == bytes.fromhex("01 0003 01 02 05 01") + b"subject.candidate"
    put_off = replace(pending, deferrals=4)
    filed = replace(put_off, lane=b"its lane")
    assert (
        records.encode_pending(filed).endswith(b"subject.\x04its lanecandidate")
        and records.encode_pending(filed)[0] == 3
    )
    assert records.encode_pending(put_off) == bytes.fromhex("02 0003 01 02 05 01") + b"subject.\x04candidate"
