"""Splits messages without encoding them anew: a router that did would cost as much as a shard.

A message in bytes is a sequence of fields, each with its number, and entries of repeated fields may stand
anywhere. So messages that follow each other are one message, with the entries of both.
"""

from typing import NamedTuple

from ..core.rows.errors import InvalidRequest

_BYTES, _VARINT, _FIXED64, _FIXED32 = 2, 0, 1, 5


class Frames(NamedTuple):
    """The entries of one repeated field of a message, each with its tag and length, and all other fields."""

    entries: list[bytes]
    rest: bytes


def frames(data: bytes, field: int, expected: int | None = None) -> Frames:
    """The entries of a field, whose number is below 16, of bytes that are a message.

    Raises InvalidRequest if these are not as many as were expected: whoever has encoded the message has used
    what no encoder of today does, such as groups.
    """
    wanted = field << 3 | _BYTES
    entries: list[bytes] = []
    rest: list[bytes] = []
    at, end = 0, len(data)
    while at < end:
        start = at
        tag = data[at]
        if tag == wanted:
            size = data[at + 1]
            at += 2
            if size >= 0x80:
                size, at = _varint(data, at - 1)
            at += size
            entries.append(data[start:at])
        else:
            at = _behind(data, at)
            rest.append(data[start:at])
    if expected is not None and len(entries) != expected:
        raise InvalidRequest("the request must be encoded without groups", field="")
    return Frames(entries, b"".join(rest))


def _behind(data: bytes, at: int) -> int:
    """Where a field ends."""
    tag, at = _varint(data, at)
    wire_type = tag & 7
    if wire_type == _BYTES:
        size, at = _varint(data, at)
        return at + size
    if wire_type == _VARINT:
        return _varint(data, at)[1]
    return at + (8 if wire_type == _FIXED64 else 4 if wire_type == _FIXED32 else 0)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
