"""Change lists as the bytes of a record.

A record has all lists of one flush, each by itself: a store that has the first ones gets only the others.
"""

import zlib
from collections.abc import Sequence
from types import NoneType
from typing import Annotated, NamedTuple

import msgspec

from ..core.rows.store import Changes, Family
from .log import LaterFormat, LogDamaged

LEVEL = 1  # the higher ones save a tenth, and take twice as long
_RAW = -15  # no header and no checksum: a record has a digest


class Lists(NamedTuple):
    """Consecutive change lists."""

    first: int  # the number of the first one
    tail_rows: int  # rows of all records since the last manifest, with these
    lists: Sequence[Changes]

    @property
    def last(self) -> int:
        """The number of the last one."""
        return self.first + len(self.lists) - 1

    @property
    def rows(self) -> int:
        """How many rows they change."""
        return sum(map(len, self.lists))


class _PackedLists(msgspec.Struct, array_like=True, gc=False):
    first: Annotated[int, msgspec.Meta(ge=1)]
    tail_rows: Annotated[int, msgspec.Meta(ge=0)]
    families: list[str]
    lists: list[list[int | bytes | None]]  # of each row the number of its family, its key and its value


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_PackedLists).decode
_FAMILIES = [family.value for family in Family]
_OF_NAME = {family.value: family for family in Family}
_KEY, _VALUE = {bytes}, {bytes, NoneType}
_NUMBERS = {family: number for number, family in enumerate(Family)}


def packed(lists: Lists) -> bytes:
    """Lists as bytes."""
    flat: list[list[int | bytes | None]] = []
    for changes in lists.lists:
        row: list[int | bytes | None] = []
        add = row.extend
        for (family, key), value in changes.items():
            add((_NUMBERS[family], key, value))
        flat.append(row)
    body = _encode(_PackedLists(lists.first, lists.tail_rows, _FAMILIES, flat))
    return _compressed(body)


def _compressed(data: bytes) -> bytes:
    """zlib-ng does it in less than half of the time of zlib, and any zlib reads it."""
    from zlib_ng import zlib_ng  # here: only what has a log needs it

    packer = zlib_ng.compressobj(LEVEL, zlib_ng.DEFLATED, _RAW)
    packed_data: bytes = packer.compress(data) + packer.flush()
    return packed_data


def unpacked(data: bytes) -> Lists:
    """Lists from bytes. Raises LogDamaged or LaterFormat."""
    unpacker = zlib.decompressobj(_RAW)
    try:
        body = _decode(unpacker.decompress(data))
        if not unpacker.eof or unpacker.unused_data:
            raise ValueError("they do not end where they should")
        if later := [name for name in body.families if name not in _OF_NAME]:
            raise LaterFormat(
                "a later version of Toehold has written rows of kinds that this version does not know "
                f"({', '.join(later)}): start that version, or a later one"
            )
        families = {number: _OF_NAME[name] for number, name in enumerate(body.families)}
        lists = [_changes(row, families) for row in body.lists]
    except (zlib.error, msgspec.DecodeError, ValueError, KeyError) as problem:
        raise LogDamaged(f"a record's change lists cannot be read: {problem}") from None
    return Lists(body.first, body.tail_rows, lists)


def _changes(row: list[int | bytes | None], families: dict[int, Family]) -> Changes:
    """One list. Raises KeyError or ValueError."""
    numbers, keys, values = row[::3], row[1::3], row[2::3]
    if not set(map(type, keys)) <= _KEY or not set(map(type, values)) <= _VALUE:
        raise ValueError("keys and values must be bytes")
    rows = zip(numbers, keys, values, strict=True)
    return {(families[number], key): value for number, key, value in rows}  # type: ignore[index,misc]
