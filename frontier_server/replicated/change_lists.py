"""Change lists as the bytes of a record.

A record has all lists of one flush, each by itself: a store that has the first ones gets only the others.
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..core.rows.store import Changes, Family
from .log import LogDamaged

LEVEL = 1  # of zlib: the higher ones save a tenth, and take twice as long
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


class _Body(msgspec.Struct, array_like=True, gc=False):
    first: int
    tail_rows: int
    families: list[str]
    lists: list[list[int | bytes | None]]  # of each row the number of its family, its key and its value


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode
_FAMILIES = [family.value for family in Family]
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
    body = _encode(_Body(lists.first, lists.tail_rows, _FAMILIES, flat))
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _RAW)
    return packer.compress(body) + packer.flush()


def unpacked(data: bytes) -> Lists:
    """Lists from bytes. Raises LogDamaged."""
    try:
        body = _decode(zlib.decompress(data, _RAW))
        families = [Family(name) for name in body.families]
        lists: list[Changes] = [
            {(families[row[at]], row[at + 1]): row[at + 2] for at in range(0, len(row), 3)}  # type: ignore[index,misc]
            for row in body.lists
        ]
    except (zlib.error, msgspec.DecodeError, ValueError, IndexError, TypeError) as problem:
        raise LogDamaged(f"a record's change lists cannot be read: {problem}") from None
    return Lists(body.first, body.tail_rows, lists)
